"""What a session is told to be: its agent, its settings, who may change them; an agent's requests are decided by people."""
import json
import os
import shlex
import sys

from approvals_kit import Terminal, Tmux, approved
from lib import area, wait_for
from sessions_kit import LONG, House, Wire


# An agent that speaks the Agent Client Protocol and remembers its conversations in files. ASK makes it ask first.
ACP_AGENT = r'''
import json, os, sys
home = sys.argv[1]
asked = 100

def say(**message):
    print(json.dumps(dict(message, jsonrpc="2.0")), flush=True)

def tell(session, update, **more):
    say(method="session/update", params={"sessionId": session, "update": dict(more, sessionUpdate=update)})

def words(session, text):
    for piece in text.split(" "):
        tell(session, "agent_message_chunk", content={"type": "text", "text": piece + " "})

def allowed(session):
    global asked
    asked += 1
    call = {"toolCallId": "t%d" % asked, "title": "touch it", "kind": "execute", "rawInput": {"command": "touch it"}}
    tell(session, "tool_call", status="pending", **call)
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}]
    say(id=asked, method="session/request_permission", params={"sessionId": session, "toolCall": call, "options": options})
    while True:
        answer = json.loads(sys.stdin.readline())
        if answer.get("id") == asked and "method" not in answer:
            yes = answer["result"]["outcome"].get("optionId") == "y"
            tell(session, "tool_call_update", toolCallId=call["toolCallId"], status="completed" if yes else "failed")
            return yes

for line in sys.stdin:
    m = json.loads(line)
    method, id, params = m.get("method"), m.get("id"), m.get("params") or {}
    session = params.get("sessionId")
    file = os.path.join(home, "conversation-%s" % session)
    if method == "initialize":
        say(id=id, result={"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
    elif method == "session/new":
        session = "c%d" % os.getpid()
        open(os.path.join(home, "conversation-%s" % session), "x").close()
        say(id=id, result={"sessionId": session})
    elif method == "session/load" and os.path.exists(file):
        for old in open(file):
            tell(session, "user_message_chunk", content={"type": "text", "text": old})
            words(session, "old " + old)
        say(id=id, result={})
    elif method == "session/prompt":
        text = params["prompt"][0]["text"]
        before = len(open(file).readlines())
        with open(file, "a") as f:
            f.write(text + "\n")
        verdict = {True: "allowed", False: "denied"}[allowed(session)] if "ASK" in text else "heard"
        words(session, "%s %s after %d" % (verdict, text, before))
        say(id=id, result={"stopReason": "end_turn"})
    elif id is not None:
        say(id=id, error={"code": -32601, "message": "Method not found"})
'''


@area("sessions-own-agent")
def own_agent(t):
    house = House(t, "")
    try:
        script = house.dir + "/agent.py"
        with open(script, "w") as f:
            f.write(ACP_AGENT)
        settings = "[agents]\nmine = %s\nlost = \"/no/such/agent --acp\"\n" % json.dumps([sys.executable, script, house.dir])
        house.configure(settings)
        t.ok("config-check-is-content", house("config", "check")[0] == 0, house("config", "check"))
        shown = {row["key"]: row for row in house.json("config", "show")}
        t.ok("config-show-has-it-and-its-line", script in shown["agents.mine"]["value"] and shown["agents.mine"]["origin"].endswith("config.toml:2"), shown)
        checks = {row["check"]: row for row in house.json("doctor")}
        t.ok("doctor-finds-it", checks["mine"]["verdict"] == "good" and script in checks["mine"]["text"]
             and "ACP" in checks["mine"]["text"], checks["mine"])
        t.ok("and-says-what-is-not-there", checks["lost"]["verdict"] == "weak" and "not found" in checks["lost"]["text"], checks["lost"])
        rc, o, e = house("new", "mine")
        t.ok("settings-are-read-when-the-daemon-starts", rc == 2 and "restart" in e, (rc, o, e))
        house.good("restart")
        id = house.json("new", "mine", "--name", "m")["id"]
        t.eq("it-is-called-what-the-settings-call-it", house.info(id)["agent"], "mine")
        rc, o, e = house("send", id, "hello")
        t.ok("it-answers", rc == 0 and "heard hello after 0" in o, (rc, o, e))
        house.good("send", id, "ASK once", "--no-wait")
        seen, code = approved(house, house.waiting(id))
        t.ok("its-request-is-shown", code == 0 and "mine wants to use execute" in seen and "touch it" in seen, (seen, code))
        house.until(id, "idle")
        t.ok("a-yes-reaches-it", "allowed ASK once after 1" in house.texts(id)[-1], house.texts(id))
        house.good("send", id, "ASK twice", "--no-wait")
        t.eq("denied-on-a-terminal", Terminal(house, "deny", house.waiting(id)).wait(LONG), 0)
        house.until(id, "idle")
        t.ok("a-no-reaches-it", "denied ASK twice after 2" in house.texts(id)[-1], house.texts(id))
        house.good("restart")
        rc, o, e = house("send", id, "still there")
        t.ok("a-restarted-daemon-goes-on-with-it", rc == 0 and "heard still there after 3" in o, (rc, o, e))
        t.eq("by-the-same-process", len([e for e in house.events(id) if e["type"] == "process"]), 1)
        house.end_process(id)
        rc, o, e = house("send", id, "back again")
        t.ok("a-new-process-resumes-the-conversation", rc == 0 and "heard back again after 4" in o and "old" not in o, (rc, o, e))
        t.ok("through-the-door-too", "result" in Wire(house.socket()).call("session.create", agent="mine", workspace=house.dir))
        house.configure("")
        house.end_process(id)
        house.good("restart")
        rc, o, e = house("send", id, "are you there")
        t.ok("gone-from-the-settings-is-said", rc == 1 and "`mine` is no longer in the settings" in o + e, (rc, o, e))
        rc, o, e = house("new", "quite-unknown")
        t.ok("an-unknown-agent-lists-the-known", rc == 2 and "opencode, echo, or acp" in e, (rc, o, e))
        house.configure(settings)
        house.good("restart")
        rc, o, e = house("new", "quite-unknown")
        t.ok("and-those-of-the-settings", rc == 2 and "echo, lost, mine" in e, (rc, o, e))
        rc, o, e = house("new", "mime")
        t.ok("which-are-suggested", rc == 2 and "did you mean `mine`" in e, (rc, o, e))
        rc, o, e = house("send", id, "and now")
        t.ok("nothing-was-lost", rc == 0 and "heard and now after 5" in o, (rc, o, e))
        rc, o, e = house("new", "lost", "-m", "hello")
        t.ok("a-command-that-is-not-there-makes-no-session", rc == 4 and "/no/such/agent" in e, (rc, o, e))
        house.configure("[agents]\ncodex = \"other\"\n")
        rc, o, e = house("config", "check")
        t.ok("a-name-of-ostlers-own-is-refused", rc == 1 and "config.toml:2" in o and "another name" in o, (rc, o, e))
    finally:
        house.configure("")
        house.down()


# Speaks just enough of the Agent Client Protocol to be given a prompt, and offers no modes.
PLANLESS = r"""
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    result = {"initialize": {"protocolVersion": 1, "agentCapabilities": {}}, "session/new": {"sessionId": "plain"}}.get(m.get("method"), {"stopReason": "end_turn"})
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}), flush=True)
"""


@area("sessions-set")
def set_(t):
    house = House(t)
    try:
        id = house.new("--name", "fix")
        rc, o, e = house("set", "--help")
        t.ok("its-help-teaches", rc == 0 and "ostler set fix --permissions edits" in o and "next prompt" in o, (rc, o, e))
        rc, o, e = house("set", "fix")
        t.ok("nothing-to-change-is-exit-2-and-names-the-options", rc == 2 and all(w in e for w in ("--model", "--permissions", "--mode", "--name")), (rc, o, e))
        rc, o, e = house("set", "fix", "--autonomy", "everything")
        t.ok("an-unknown-autonomy-is-exit-2", rc == 2 and "edits" in e, (rc, o, e))
        rc, o, e = house("set", "nope", "--model", "x")
        t.ok("a-session-that-is-not-there-is-exit-4", rc == 4 and "nope" in e, (rc, o, e))
        rc, o, e = house("set", "fix", "--model", "--version")
        t.eq("a-model-is-no-flag", rc, 2)
        rc, o, e = house("set", "fix", "--model=-x", "--name", "other")
        t.ok("a-model-that-no-agent-takes-is-exit-2", rc == 2 and "leading '-'" in e, (rc, o, e))
        rc, o, e = house("set", "fix", "--mode", "yolo", "--name", "other")
        t.ok("what-the-agent-can-not-do-is-exit-2-and-says-so", rc == 2 and "echo cannot use a mode of its own" in e, (rc, o, e))
        t.eq("all-or-nothing", house.info(id)["name"], "fix")
        rc, o, e = house("set", "fix", "--model", "big", "--autonomy", "all")
        t.ok("it-says-what-changed-and-from-when", rc == 0 and "model: (its own) -> big" in o and "permissions: ask -> all" in o
             and "with the next prompt" in o and "still running" not in o, (rc, o, e))
        t.eq("it-is-changed", (house.info(id)["model"], house.info(id)["autonomy"]), ("big", "all"))
        rc, o, e = house("send", "fix", "ASK then")
        t.ok("and-holds-for-the-next-prompt", rc == 0 and not house.info(id)["approvals"], (rc, o, e))
        rc, o, e = house("set", "fix", "--model", "big")
        t.ok("the-same-again-is-said-to-be", rc == 0 and "nothing to change" in o, (rc, o, e))
        number = house.json("send", "fix", "SLOW:500", "--no-wait")["number"]
        wait_for(lambda: any(e["type"] == "text_delta" for e in house.events(id)[-3:]), LONG, 0.05)
        before = [e["source"] for e in house.events(id) if e["type"] == "process"]
        rc, o, e = house("set", "fix", "--autonomy", "ask", "--model", "")
        t.ok("a-turn-that-runs-is-said-to-go-on", rc == 0 and "model: big -> (its own)" in o and "prompt %d is still running" % number in o, (rc, o, e))
        t.eq("and-does", house.info(id)["status"], "running")
        told = house.json("set", "fix", "--name", "renamed", "--autonomy", "plan")
        t.eq("json-says-the-same", told, {"session": id, "under_way": number, "changed": [
            {"setting": "autonomy", "from": "ask", "to": "plan", "holds": "next_prompt"}, {"setting": "name", "from": "fix", "to": "renamed", "holds": "now"}]})
        house.good("interrupt", "renamed")
        house.until(id, "interrupted")
        house.good("send", "renamed", "ASK now", "--no-wait")
        house.waiting(id)
        after = [e["source"] for e in house.events(id) if e["type"] == "process"]
        t.eq("the-next-prompt-has-a-process-of-the-new-kind", after, before + [before[-1] + 1])
        house.good("close", "renamed")
        rc, o, e = house("set", id, "--autonomy", "all")
        t.ok("a-closed-session-is-refused", rc == 5 and "closed" in e, (rc, o, e))
        script = house.dir + "/planless.py"
        with open(script, "w") as f:
            f.write(PLANLESS)
        plain = house.json("new", "acp", "--", sys.executable, script)["id"]
        rc, o, e = house("send", plain, "one")
        t.eq("an-agent-without-modes-takes-prompts", rc, 0)
        house.good("set", plain, "--autonomy", "plan")
        rc, o, e = house("send", plain, "two")
        t.ok("an-autonomy-that-only-its-program-knows-it-lacks-is-no-answer", rc == 1 and "no mode for planning" in o + e, (rc, o, e))
        t.eq("which-is-found-out-once", sum(e["type"] == "process" for e in house.events(plain)), 3)
        house.good("set", plain, "--autonomy", "ask")
        rc, o, e = house("send", plain, "three")
        t.eq("and-is-taken-back", rc, 0)
        wire = Wire(house.socket())
        fresh = house.new()
        bad = [wire.call("session.change", id=fresh, raw_mode="yolo", key="k") for _ in range(2)]
        t.ok("a-refusal-is-no-change-also-with-the-same-key", all("error" in answer for answer in bad), bad)
    finally:
        house.down()


@area("sessions-requests")
def requests(t):
    house = House(t)
    try:
        id = house.new()
        house.good("send", id, "ASK please", "--no-wait")
        approval = house.waiting(id)
        t.ok("sessions-says-what-it-waits-for", approval in house.good("sessions"), house.good("sessions"))
        p = house.start("watch", id)
        seen = b""
        while b"ostler deny" not in seen:
            seen += os.read(p.stdout.fileno(), 4096)
        t.ok("watch-says-what-to-type", b"ostler approve %s" % approval.encode() in seen, seen)
        p.kill()
        p.communicate()
        rc, o, e = house("approve", approval)
        t.ok("no-terminal-no-yes", rc == 5, (rc, o, e))
        rc, o, e = house("run", "--", house.program, "approve", approval)
        t.ok("a-hosted-process-may-not-decide", rc == 5, (rc, o, e))
        rc, o, e = house("run", "--", house.program, "send", house.new(), "from inside")
        t.ok("nor-talk-to-anothers-agent", rc == 5 and "only reach their own" in e, (rc, o, e))
        own = "%s new echo . --name inner >/dev/null && %s send inner 'from inside'" % (house.program, house.program)
        rc, o, e = house("run", "--", "sh", "-c", own)
        t.ok("but-it-may-talk-to-its-own", rc == 0 and "from inside" in o, (rc, o, e))
        seen, code = approved(house, approval)
        t.ok("approve-on-a-terminal", code == 0, (seen, code))
        t.ok("the-tool-is-shown-readably", "echo wants to use pretend" in seen and "what: write a file" in seen, seen)
        house.until(id, "idle")
        t.ok("the-agent-heard-the-yes", any(e["type"] == "tool_result" and not e["is_error"] for e in house.events(id)), house.events(id)[-6:])
        house.good("send", id, "ASK again", "--no-wait")
        denied = house.waiting(id)
        term = Terminal(house, "deny", denied, "--message", "not that")
        t.eq("deny-on-a-terminal", term.wait(), 0)
        house.until(id, "idle")
        t.ok("the-agent-heard-the-no", any(e["type"] == "tool_result" and "not that" in e["output"] for e in house.events(id)), house.events(id)[-6:])
        house.good("send", id, "QUESTION one", "--no-wait")
        question = house.waiting(id)
        term = Terminal(house, "approve", question)
        term.press(b"q", b"q later? ")
        rc = term.wait()
        t.ok("a-question-has-answers-and-no-yes", b"1-9 answer" in term.seen and b"[y/N]" not in term.seen and house.waiting(id) == question, (rc, term.seen))
        seen, code = approved(house, question, "--answer", "colour=red")
        t.ok("answer-on-the-command-line", code == 0, (seen, code))
        house.until(id, "idle")
        t.ok("the-agent-heard-the-answer", "You chose red." in house.texts(id), house.texts(id))
        house.good("send", id, "QUESTION two", "--no-wait")
        house.waiting(id)
        screen = Tmux(house, house.program, "approvals")
        try:
            screen.until("Which colour?", "1 red", "2 blue", "the number of a choice")
            screen.keys("2")
            t.ok("answer-in-the-inbox", wait_for(lambda: "You chose blue." in house.texts(id), LONG, 0.2), (house.texts(id), screen.screen()))
            house.good("send", id, "QUESTION and words", "--no-wait")
            house.waiting(id)
            screen.until("approved by")
            screen.keys("Enter")
            screen.until("the number of a choice")
            screen.keys("t")
            screen.until("Enter sends")
            screen.keys("-l", "green, no: yellow")
            screen.until("no: yellow_")
            screen.keys("Enter")
            t.ok("and-in-words-of-ones-own", wait_for(lambda: "You chose green, no: yellow." in house.texts(id), LONG, 0.2), screen.screen())
        finally:
            screen.close()
        house.good("send", id, "QUESTION three", "--no-wait")
        third = house.waiting(id)
        house.good("interrupt", id)
        house.until(id, "interrupted")
        t.ok("an-interrupted-turn-takes-its-question-back",
             wait_for(lambda: all(a["id"] != third for a in house.json("approvals", "--list")), LONG, 0.1))
    finally:
        house.down()


@area("sessions-leash")
def leash(t):
    """An agent, whatever it runs, does not loosen its own session."""
    house = House(t)
    try:
        script, out, orphan, renamed, go = (house.dir + "/" + name for name in ("agent", "out", "orphan", "renamed", "go"))
        clean = " ".join(shlex.quote("%s=%s" % pair) for pair in house.env.items())
        loosen = house.program + " set leash --autonomy all"
        with open(script, "w") as f:
            # The second has lost its parent and its environment: only the keeper that took it in tells where it comes from.
            f.write("""#!/bin/sh
{loosen} >{out} 2>&1; echo $? >>{out}
(setsid env -i {clean} sh -c 'while [ -e {go} ]; do sleep 0.05; done; ({loosen} 2>&1; echo $?) >{orphan}.new; mv {orphan}.new {orphan}' </dev/null >/dev/null 2>&1 &)
rm {go}
{program} set leash --name leash >{renamed} 2>&1; echo $? >>{renamed}
exec {program} __echo --session x
""".format(loosen=loosen, clean=clean, program=house.program, out=out, orphan=orphan, renamed=renamed, go=go))
        open(go, "w").close()
        os.chmod(script, 0o755)
        wire = Wire(house.socket())
        made = wire.call("session.create", agent="echo", program=script, workspace=house.dir, name="leash")["result"]
        house.good("send", "leash", "hello")
        with open(out) as f:
            said = f.read()
        t.ok("an-agent-does-not-set-its-own-autonomy", said.endswith("\n5\n") and "its own permissions" in said, said)
        said = wait_for(lambda: os.path.exists(orphan), LONG) and open(orphan).read()
        t.ok("nor-does-an-orphan-of-its-with-nothing-left-of-it", said and said.endswith("\n5\n") and "only reach their own" in said, said)
        with open(renamed) as f:
            said = f.read()
        t.ok("its-name-it-may", said.endswith("0\n"), said)
        t.ok("and-it-is-as-it-was", house.info(made["id"])["autonomy"] == "ask", house.info(made["id"]))
        rc, o, e = house("set", "leash", "--autonomy", "all")
        t.ok("its-person-does", rc == 0 and house.info(made["id"])["autonomy"] == "all", (rc, o, e))
    finally:
        house.down()
