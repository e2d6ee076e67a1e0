"""A conversation that the real agent begins without ostler: it is listed, searched, read, and taken up as a session."""
import json
import os
import subprocess

import clis
from kit import LONG, Fail, wait_for

# How each is asked one thing from a command line.
ONCE = {
    "claude": (["-p", "--", "{}"], ""),
    "codex": (["exec", "--json", "--skip-git-repo-check", "{}"], ""),
    "gemini": (["-p", "{}", "-o", "stream-json", "--approval-mode", "yolo"], ""),
    "opencode": (["run", "--format", "json"], "{}"),
}


def ask(run, folder, words):
    """One turn of the agent itself, in no session."""
    args, stdin = ONCE[run.agent]
    env = dict(run.house.env, GEMINI_CLI_TRUST_WORKSPACE="true")
    done = subprocess.run([clis.program(run.agent)] + [arg.format(words) for arg in args], input=stdin.format(words), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=env, cwd=folder, timeout=LONG, text=True)
    if done.returncode:
        raise Fail("%s: exit %d, %s%s" % (run.agent, done.returncode, done.stdout[-300:], done.stderr[-300:]))


def history(run):
    folder = run.house.workspace("terminal")
    ask(run, folder, "remember the word cormorant")
    here = lambda: [c for c in run.house.door.call("history.list", workspace=folder)["conversations"]]
    found = here()
    if not run.ok("a-conversation-of-a-terminal-is-listed", len(found) == 1 and found[0]["agent"] == run.agent and "session" not in found[0], found):
        return
    entry = found[0]
    run.ok("with-what-was-asked-first", entry.get("first_prompt") == "remember the word cormorant" and entry["messages"] >= 2, entry)
    run.ok("and-what-it-used", entry.get("model") and (entry.get("usage") or {}).get("output_tokens"), entry)
    said = run.house.door.call("history.messages", id=entry["id"])["messages"]
    texts = [e["text"] for m in said if m["speaker"] == "agent" for e in m["elements"] if e["kind"] == "text"]
    run.ok("its-messages-are-read", any("cormorant" in text for text in texts), said)
    hits = run.house.door.call("history.search", query="Cormorant".lower())["conversations"]
    run.ok("its-words-are-found", any(h["conversation"]["id"] == entry["id"] and h["hits"] for h in hits), hits)
    out = json.loads(run.house.run("--json", "resume", entry["id"][:24], "--name", "taken-up"))
    run.ok("it-becomes-a-session-in-its-folder", out["workspace"] == os.path.realpath(folder) and out["agent"] == run.agent, out)
    said = run.house.run("send", "taken-up", "RECALL:cormorant")
    run.ok("which-knows-what-was-said-before", "I know cormorant" in said, said)
    again = json.loads(run.house.run("--json", "resume", entry["id"]))
    run.ok("and-is-not-made-twice", again["id"] == out["id"], again)
    one = wait_for("one entry for both", lambda: (lambda all: all if len(all) == 1 and all[0].get("session") == out["id"] else None)(here()), 30)
    run.ok("both-are-one-entry", one[0]["id"] == out["id"] and one[0].get("conversation"), one)
    run.house.run("close", "taken-up")
    run.house.run("forget", out["id"])
    kept = os.path.join(run.house.home, ".local/state/ostler/instances/main/history")
    # Of opencode, whose conversations are rows of a database, nothing is kept.
    catalog = os.path.join(kept, "catalog")
    text = open(catalog).read() if os.path.exists(catalog) else ""
    run.ok("forgetting-it-reaches-what-is-kept", one[0]["conversation"] not in text, text)
    run.ok("and-leaves-the-agents-own", len(here()) == 1 and "session" not in here()[0], here())
