"""Conversations with agents on the command line and at the native door, with the built-in agent: what is said is seen by everybody from
any position, once, across crashes; a prompt runs once; an agent's requests are decided by people."""
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys

from approvals_kit import Terminal, Tmux, approved
from cli import Home
from kit import Fail
from lib import area, wait_for

LONG = 60


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


class House(Home):
    """A home with a daemon, and the words for its sessions."""

    def __init__(self, t, settings=None):
        super().__init__(t)
        self.env["GIT_CONFIG_NOSYSTEM"] = "1"
        if settings is not None:
            self.configure(settings)
        self.good("up")

    def configure(self, settings):
        self.env["OSTLER_CONFIG"] = self.dir + "/config.toml"
        with open(self.env["OSTLER_CONFIG"], "w") as f:
            f.write(settings)

    def new(self, *args):
        return self.json("new", "echo", *args)["id"]

    def info(self, id):
        return next((s for s in self.json("sessions", "--all") if s["id"] == id), {})

    def until(self, id, status, timeout=LONG):
        if not wait_for(lambda: self.info(id).get("status") == status, timeout, 0.1):
            raise Fail("%s should be %s: %s" % (id, status, self.info(id)))
        return self.info(id)

    def waiting(self, id):
        """The request that the session waits for."""
        if not wait_for(lambda: self.info(id).get("approvals"), LONG, 0.1):
            raise Fail("%s should wait for somebody: %s" % (id, self.info(id)))
        return self.info(id)["approvals"][0]

    def end_process(self, id):
        self.good("kill", self.info(id)["process"])
        if not wait_for(lambda: not self.info(id)["process"], LONG, 0.1):
            raise Fail("its process should be gone: %s" % self.info(id))

    def records(self, id):
        return self.json("export", id)["records"]

    def events(self, id):
        return [e for r in self.records(id) for e in r["events"]]

    def texts(self, id):
        return [e["text"] for e in self.events(id) if e["type"] == "text"]

    def start(self, *args):
        return subprocess.Popen([self.program] + list(args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=self.env, cwd=self.dir)

    def socket(self):
        with open(self.state + "/instances/main/instance.json") as f:
            return json.load(f)["native"]

    def down(self):
        self("down", "--kill")


class Wire:
    """The native door, spoken to directly."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(path)
        self.sock.settimeout(LONG)
        self.buffer = b""
        self.last = 0

    def send(self, method, **params):
        self.last += 1
        self.sock.sendall(json.dumps({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}).encode() + b"\n")
        return self.last

    def line(self):
        while b"\n" not in self.buffer:
            piece = self.sock.recv(1 << 16)
            if not piece:
                raise Fail("the daemon closed the connection")
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def call(self, method, **params):
        id = self.send(method, **params)
        while True:
            line = self.line()
            if line.get("id") == id:
                return line

    def records(self, until):
        """Records up to this number."""
        found = []
        while not found or found[-1]["record"] < until:
            line = self.line()
            if line.get("method") == "session.events":
                found.append(line["params"])
        return found


@area("sessions-first-contact")
def first_contact(t):
    house = House(t)
    try:
        rc, o, e = house("new", "echo", "-m", "hello there")
        t.ok("new-with-a-message-answers", rc == 0 and "hello there\n" in o, (rc, o, e))
        t.ok("the-answer-is-said-once", o.count("hello there") == 1, o)
        t.ok("it-names-the-session", re.search(r"^s\w+", e), e)
        rc, o, e = house("new", "echo", "--name", "friend")
        t.ok("new-says-what-to-type-next", rc == 0 and "ostler send s" in o and "ostler watch s" in o, (rc, o, e))
        rc, o, e = house("send", "friend", "one two")
        t.ok("send-by-name-answers", rc == 0 and "one two\n" in o, (rc, o, e))
        rc, o, e = house("send", "friend", stdin=b"from a pipe")
        t.ok("send-reads-a-pipe", rc == 0 and "from a pipe" in o, (rc, o, e))
        rc, o, e = house("send", "friend", "-", stdin=b"with a dash")
        t.ok("send-dash-reads-a-pipe", rc == 0 and "with a dash" in o, (rc, o, e))
        rc, o, e = house("send", "friend", "FAIL now")
        t.ok("a-failed-turn-is-exit-1", rc == 1 and "I was told to fail" in o, (rc, o, e))
        rc, o, e = house("send", "friend", "TOOL THINK PLAN words")
        t.ok("tools-thoughts-and-plans-are-shown", rc == 0 and "● pretend to look around  [execute]" in o and "└ pretended" in o
             and "I only echo." in o and "✓ read the prompt" in o, o)
        rc, o, e = house("send", "friend", "--", "--looks-like-a-flag")
        t.ok("a-prompt-may-begin-with-dashes", rc == 0 and "--looks-like-a-flag" in o, (rc, o, e))
        o = house.good("sessions")
        t.ok("sessions-is-a-table", re.search(r"^ID +NAME +AGENT +STATUS", o) and "friend" in o and "idle" in o, o)
        row = house.info(next(s["id"] for s in house.json("sessions") if s["name"] == "friend"))
        t.eq("the-row-says-what-it-is", (row["agent"], row["status"], row["workspace"], row["queued"], row["autonomy"]),
             ("echo", "idle", os.path.realpath(house.dir), 0, "ask"))
        nasty = "\x1b]0;x\x07\u009b2J"
        rc, o, e = house("new", "echo", "-m", nasty)
        t.ok("nothing-an-agent-says-acts-on-a-terminal", rc == 0 and "\x1b" not in o and "\u009b" not in o and "^[]0;x" in o, o)
        picture = house.dir + "/p.png"
        with open(picture, "wb") as f:
            f.write(b"\x89PNG")
        rc, o, e = house("send", "friend", "look", "--image", picture, "--file", picture)
        t.ok("pictures-and-files-go-along", rc == 0 and "a picture, image/png" in o and "the file " in o, (rc, o, e))
    finally:
        house.down()


@area("sessions-mistakes")
def mistakes(t):
    house = House(t)
    try:
        for verb in (["send", "nope", "x"], ["watch", "nope"], ["interrupt", "nope"], ["close", "nope"], ["export", "nope"], ["forget", "nope"]):
            rc, o, e = house(*verb)
            t.ok("%s-of-nothing-is-exit-4" % verb[0], rc == 4 and "nope" in e, (rc, o, e))
        rc, o, e = house("new", "cluade")
        t.ok("an-unknown-agent-is-exit-2-with-a-suggestion", rc == 2 and "claude" in e, (rc, o, e))
        rc, o, e = house("new", "echo", "/no/such/folder")
        t.ok("a-missing-folder-is-exit-4", rc == 4 and "/no/such/folder" in e, (rc, o, e))
        rc, o, e = house("new", "echo", "--autonomy", "everything")
        t.ok("an-unknown-autonomy-is-exit-2", rc == 2 and "edits" in e, (rc, o, e))
        rc, o, e = house("new", "acp")
        t.ok("acp-without-a-command-is-exit-2", rc == 2 and "COMMAND" in e, (rc, o, e))
        rc, o, e = house("new", "echo", "--worktree")
        t.ok("a-worktree-needs-a-repository", rc == 2 and "git" in e, (rc, o, e))
        rc, o, e = house("watch", "x", "--form", "3")
        t.ok("a-mistyped-flag-is-exit-2-with-a-suggestion", rc == 2 and "--from" in e, (rc, o, e))
        id = house.new()
        rc, o, e = house("send", id, "   ")
        t.ok("an-empty-prompt-is-exit-2", rc == 2, (rc, o, e))
        open(house.dir + "/a.bmp", "w").close()
        rc, o, e = house("send", id, "x", "--image", house.dir + "/a.bmp")
        t.ok("an-unknown-picture-is-exit-2", rc == 2 and "png" in e, (rc, o, e))
        rc, o, e = house("forget", id)
        t.ok("an-open-session-is-not-forgotten", rc == 5 and "ostler close" in e, (rc, o, e))
        rc, o, e = house("interrupt", id)
        t.ok("nothing-to-interrupt-is-said", rc == 0 and "nothing was running" in o, (rc, o, e))
        other = house.new()
        rc, o, e = house("send", "s", "x")
        t.ok("an-ambiguous-prefix-is-exit-2", rc == 2 and id in e and other in e, (rc, o, e))
        house.good("close", id)
        rc, o, e = house("send", id, "x")
        t.ok("a-closed-session-refuses-prompts", rc == 5 and "closed" in e, (rc, o, e))
        rc, o, e = house("export", id, "--md", "--json")
        t.ok("markdown-or-json-not-both", rc == 2, (rc, o, e))
    finally:
        house.down()


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
             and "Agent Client Protocol" in checks["mine"]["text"], checks["mine"])
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


@area("sessions-watch")
def watch(t):
    house = House(t)
    try:
        id = house.new("--name", "w")
        for text in ("first words", "TOOL second", "THINK third"):
            house.good("send", id, text)
        records = house.records(id)
        t.eq("records-are-numbered-without-a-gap", [r["record"] for r in records], list(range(1, len(records) + 1)))
        house.good("close", id)
        whole = [json.loads(line) for line in house.good("--json", "watch", id).splitlines()]
        t.eq("watch-and-export-say-the-same", [r["record"] for r in whole[:len(records)]], [r["record"] for r in records])
        last = whole[-1]["record"]
        for start in (1, 2, last // 2, last, last + 1, last + 50):
            seen = [json.loads(line)["record"] for line in house.good("--json", "watch", id, "--from", str(start)).splitlines()]
            t.eq("from-%s" % {1: "the-first", 2: "the-second", last // 2: "the-middle", last: "the-last", last + 1: "beyond"}.get(start, "far-beyond"),
                 seen, list(range(start, last + 1)))
        shown = house.good("watch", id)
        t.ok("watch-reads-as-a-transcript", "› prompt 1" in shown and shown.count("first words") == 2 and "── done" in shown
             and "the session is closed" in shown, shown)
        raw = house.good("watch", id, "--raw").splitlines()
        t.ok("raw-is-the-agents-own-lines", raw and all(json.loads(line).get("type") for line in raw)
             and sum('"turn_ended"' in line for line in raw) == 3, raw[:3])
        md = house.good("export", id)
        t.ok("markdown-has-prompts-and-answers", "## Prompt 1" in md and "> first words" in md and "\nfirst words\n" in md, md[:400])
        file = house.dir + "/out.md"
        house.good("export", id, "-o", file)
        t.eq("export-to-a-file", open(file).read(), md)
        t.eq("which-only-its-owner-reads", os.stat(file).st_mode & 0o777, 0o600)
        house.good("forget", "w")
        t.eq("forgotten-is-gone", house("watch", id)[0], 4)
        t.eq("and-no-word-of-it-is-left", house.holds(b"second"), [file])
        live = house.new()
        house.good("send", live, "SLOW:200", "--no-wait")
        p = house.start("watch", live)
        seen = b""
        while b"3 " not in seen:
            seen += os.read(p.stdout.fileno(), 4096)
        p.send_signal(signal.SIGINT)
        o, e = p.communicate(timeout=LONG)
        back = re.search(rb"ostler watch %s --from (\d+)" % live.encode(), e)
        t.ok("ctrl-c-leaves-and-says-how-to-come-back", p.returncode == 130 and back, (p.returncode, e))
        t.eq("and-the-agent-goes-on", house.info(live)["status"], "running")
        p = house.start("--json", "watch", live, "--from", back.group(1).decode())
        line = json.loads(p.stdout.readline())
        t.eq("coming-back-goes-on-exactly-there", line["record"], int(back.group(1)))
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=LONG)
        t.eq("a-signal-is-told-as-a-shell-would", p.returncode, 128 + 15)
        house.good("interrupt", live, "--stop")
    finally:
        house.down()


@area("sessions-queue")
def queue(t):
    house = House(t)
    try:
        id = house.new()
        first = house.json("send", id, "SLOW:8 one", "--no-wait")
        second = house.json("send", id, "two", "--no-wait")
        third = house.start("send", id, "three")
        t.ok("the-third-waits", wait_for(lambda: house.info(id).get("queued") == 2 or third.poll() is not None, LONG, 0.05))
        t.eq("positions-are-told", (first["position"], second["position"]), (0, 1))
        o, e = third.communicate(timeout=LONG)
        t.ok("send-follows-only-its-own-answer", third.returncode == 0 and b"three" in o and b"two" not in o and b"8 " not in o, (o, e))
        t.ok("and-says-that-it-waits", b"2 of those that wait" in e, e)
        turns = [e["number"] for e in house.events(id) if e["type"] == "turn"]
        t.eq("turns-run-in-order", turns, [1, 2, 3])
        house.good("send", id, "SLOW:500", "--no-wait")
        house.good("send", id, "never", "--no-wait")
        waiting = house.start("send", id, "never either")
        wait_for(lambda: house.info(id).get("queued") == 2, LONG, 0.05)
        rc, o, e = house("interrupt", id, "--clear-queue")
        t.ok("interrupt-clears-the-queue", rc == 0 and "interrupted" in o, (rc, o, e))
        o, e = waiting.communicate(timeout=LONG)
        t.ok("a-dropped-prompt-is-exit-1-and-says-so", waiting.returncode == 1 and b"not answered" in e, (waiting.returncode, o, e))
        house.until(id, "interrupted")
        t.ok("dropped-prompts-never-ran", "never" not in "".join(house.texts(id)), house.texts(id))
        rc, o, e = house("send", id, "again")
        t.ok("after-an-interrupt-it-goes-on", rc == 0 and "again" in o, (rc, o, e))
        p = house.start("send", id, "SLOW:500 long")
        wait_for(lambda: house.info(id)["status"] == "running", LONG, 0.05)
        house.good("interrupt", id)
        p.communicate(timeout=LONG)
        t.eq("an-interrupted-turn-is-exit-1", p.returncode, 1)
    finally:
        house.down()


@area("sessions-keys")
def keys(t):
    house = House(t)
    try:
        id = house.new()
        house.good("send", id, "only once", "--key", "k1")
        rc, o, e = house("send", id, "only once", "--key", "k1")
        t.ok("the-same-key-shows-the-same-answer", rc == 0 and "only once" in o and "sent before" in e, (rc, o, e))
        again = house.json("send", id, "only once", "--key", "k1", "--no-wait")
        t.ok("and-says-again", again["again"] and again["number"] == 1, again)
        t.eq("and-runs-once", house.texts(id), ["only once"])
        a, b = (house.json("new", "echo", "--key", "mine")["id"] for _ in range(2))
        t.eq("the-same-key-is-the-same-session", a, b)
        os.kill(house.daemon_pid(), signal.SIGKILL)
        wait_for(lambda: house("status")[0] == 0, LONG, 0.2)
        t.eq("also-after-a-crash", house.json("new", "echo", "--key", "mine")["id"], a)
        again = house.json("send", id, "only once", "--key", "k1", "--no-wait")
        t.ok("prompts-too", again["again"] and again["number"] == 1, again)
        wire = Wire(house.socket())
        one, two = (wire.call("session.interrupt", id=id, key="i1") for _ in range(2))
        t.ok("any-verb-twice-is-one", "result" in one and "result" in two, (one, two))
        changed = wire.call("session.change", id=id, name="renamed", autonomy="all", key="c1")["result"]
        t.eq("change-changes", (changed["name"], changed["autonomy"]), ("renamed", "all"))
        t.ok("autonomy-all-asks-nobody", "── done" in house.good("send", "renamed", "ASK then"), house.texts(id))
    finally:
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
        t.ok("its-help-teaches", rc == 0 and "ostler set fix --autonomy edits" in o and "next prompt" in o, (rc, o, e))
        rc, o, e = house("set", "fix")
        t.ok("nothing-to-change-is-exit-2-and-names-the-options", rc == 2 and all(w in e for w in ("--model", "--autonomy", "--mode", "--name")), (rc, o, e))
        rc, o, e = house("set", "fix", "--autonomy", "everything")
        t.ok("an-unknown-autonomy-is-exit-2", rc == 2 and "edits" in e, (rc, o, e))
        rc, o, e = house("set", "nope", "--model", "x")
        t.ok("a-session-that-is-not-there-is-exit-4", rc == 4 and "nope" in e, (rc, o, e))
        rc, o, e = house("set", "fix", "--model", "--version")
        t.eq("a-model-is-no-flag", rc, 2)
        rc, o, e = house("set", "fix", "--model=-x", "--name", "other")
        t.ok("a-model-that-no-agent-takes-is-exit-2", rc == 2 and "leading '-'" in e, (rc, o, e))
        rc, o, e = house("set", "fix", "--mode", "yolo", "--name", "other")
        t.ok("what-the-agent-can-not-do-is-exit-2-and-says-so", rc == 2 and "echo can not use a mode of its own" in e, (rc, o, e))
        t.eq("all-or-nothing", house.info(id)["name"], "fix")
        rc, o, e = house("set", "fix", "--model", "big", "--autonomy", "all")
        t.ok("it-says-what-changed-and-from-when", rc == 0 and "model: (its own) -> big" in o and "autonomy: ask -> all" in o
             and "holds from the next prompt" in o and "under way" not in o, (rc, o, e))
        t.eq("it-is-changed", (house.info(id)["model"], house.info(id)["autonomy"]), ("big", "all"))
        rc, o, e = house("send", "fix", "ASK then")
        t.ok("and-holds-for-the-next-prompt", rc == 0 and not house.info(id)["approvals"], (rc, o, e))
        rc, o, e = house("set", "fix", "--model", "big")
        t.ok("the-same-again-is-said-to-be", rc == 0 and "nothing was changed" in o, (rc, o, e))
        number = house.json("send", "fix", "SLOW:500", "--no-wait")["number"]
        wait_for(lambda: any(e["type"] == "text_delta" for e in house.events(id)[-3:]), LONG, 0.05)
        before = [e["source"] for e in house.events(id) if e["type"] == "process"]
        rc, o, e = house("set", "fix", "--autonomy", "ask", "--model", "")
        t.ok("a-turn-that-runs-is-said-to-go-on", rc == 0 and "model: big -> (its own)" in o and "prompt %d is under way" % number in o, (rc, o, e))
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
        t.ok("but-it-may-talk-to-agents", rc == 0 and "from inside" in o, (rc, o, e))
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
        rc = term.wait()
        t.ok("a-question-has-no-yes", rc == 2 and b"--answer" in term.seen, (rc, term.seen))
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
            screen.until("applied")
            screen.keys("Enter")
            screen.until("the number of a choice")
            screen.keys("t")
            screen.until("Enter answers")
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


@area("sessions-crash")
def crash(t):
    house = House(t)
    try:
        id = house.new()
        house.good("send", id, "SLOW:25 through it all", "--no-wait")
        watcher = house.start("--json", "watch", id)
        follower = house.start("send", id, "after the crash")
        wait_for(lambda: house.info(id).get("queued") == 1, LONG, 0.1)
        for _ in range(2):
            pid = house.daemon_pid()
            before = house.info(id)["last"]
            wait_for(lambda: house.info(id).get("last", 0) > before + 2, LONG, 0.1)
            os.kill(pid, signal.SIGKILL)
            t.ok("the-daemon-comes-back", wait_for(lambda: house("status")[0] == 0 and house.daemon_pid() != pid, LONG, 0.2))
        o, e = follower.communicate(timeout=LONG)
        t.ok("send-follows-through-crashes", follower.returncode == 0 and b"after the crash" in o, (follower.returncode, o, e))
        house.until(id, "idle")
        rc, o, e = house("restart")
        t.ok("restart", rc == 0, (rc, o, e))
        house.good("send", id, "and goes on")
        house.good("close", id)
        o, e = watcher.communicate(timeout=LONG)
        t.eq("a-watch-ends-with-its-session", watcher.returncode, 0)
        seen = [json.loads(line) for line in o.splitlines()]
        numbers = [r["record"] for r in seen]
        t.eq("the-watch-has-no-gap-and-nothing-twice", numbers, list(range(1, len(numbers) + 1)))
        records = house.records(id)
        t.eq("it-saw-what-the-journal-holds", [r["events"] for r in seen], [r["events"] for r in records])
        deltas = "".join(e["text"] for r in records for e in r["events"] if e["type"] == "text_delta")
        counted = "".join("%d " % n for n in range(1, 26))
        t.ok("no-word-of-the-agent-is-lost-or-doubled", deltas.startswith(counted + "SLOW:25 through it all"), deltas)
        ends = [e["reason"] for r in records for e in r["events"] if e["type"] == "turn_ended"]
        t.eq("every-turn-ended-once", ends, ["completed"] * 3)
        waiting = house.new()
        house.good("send", waiting, "ASK across", "--no-wait")
        approval = house.waiting(waiting)
        os.kill(house.daemon_pid(), signal.SIGKILL)
        wait_for(lambda: house("status")[0] == 0, LONG, 0.2)
        t.eq("a-request-waits-through-a-crash", house.waiting(waiting), approval)
        approved(house, approval)
        house.until(waiting, "idle")
        t.eq("and-its-answer-arrives-once", sum(e["type"] == "answered" for e in house.events(waiting)), 1)
    finally:
        house.down()


def repository(house):
    """A repository with one commit, and git in it."""
    repo = house.dir + "/repo"

    def git(*args, at=repo):
        return subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"] + list(args),
                              cwd=at, env=house.env, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()
    os.makedirs(repo + "/sub")
    git("init", "-q", "-b", "main")
    with open(repo + "/sub/a.txt", "w") as f:
        f.write("1\n")
    git("add", "-A")
    git("commit", "-qm", "first")
    return repo, git


@area("sessions-uninstall")
def uninstall(t):
    house = House(t)
    try:
        repo, git = repository(house)
        clean, dirty, gone = (house.json("new", "echo", repo, "--name", name, "--worktree")["worktree"] for name in ("clean", "dirty", "gone"))
        for tree in (dirty, gone):
            with open(tree + "/precious", "w") as f:
                f.write("work\n")
        house.good("close", "gone")
        o = house.good("forget", "gone")
        t.ok("forget-names-the-tree-that-stays", gone in o and "git worktree remove" in o, o)
        rc, o, e = house("uninstall", "--purge")
        t.ok("not-while-it-runs", rc == 5 and "ostler down --kill" in e and "ostler up" not in e, (rc, o, e))
        house.good("down", "--kill")
        o = house.good("uninstall", "--purge", "--dry-run")
        lines = o.splitlines()
        t.ok("a-dry-run-lists-work-trees", "would remove work tree " + clean in lines, o)
        t.ok("and-says-which-would-stop-it", all(any(l.startswith("would refuse") and tree in l for l in lines) for tree in (dirty, gone)), o)
        rc, o, e = house("uninstall", "--purge")
        t.ok("work-that-is-on-no-branch-stops-it", rc == 5 and dirty in e and gone in e and clean not in e and "--force" in e, (rc, o, e))
        t.ok("and-nothing-was-removed", all(os.path.exists(p) for p in (clean, dirty + "/precious", gone + "/precious")), o)
        git("add", "-A", at=dirty)
        git("commit", "-qm", "saved", at=dirty)
        rc, o, e = house("uninstall", "--purge", "--force")
        t.ok("force-removes-all", rc == 0 and not os.path.exists(house.state + "/instances"), (rc, o, e))
        t.eq("and-the-repository-knows", len(git("worktree", "list").splitlines()), 1)
        t.ok("commits-keep-their-branch", "saved" in git("log", "--all", "--format=%s"), git("log", "--all", "--oneline"))
    finally:
        house.down()


@area("sessions-worktree")
def worktree(t):
    house = House(t)
    try:
        trap = house.dir + "/trapped"
        repo, git = repository(house)
        hook = repo + "/.git/hooks/post-checkout"
        with open(hook, "w") as f:
            f.write("#!/bin/sh\ntouch %s\n" % trap)
        os.chmod(hook, 0o755)
        git("config", "core.fsmonitor", "touch %s; false" % trap)
        clean = house.json("new", "echo", repo + "/sub", "--name", "Clean One", "--worktree")
        t.ok("its-folder-is-the-same-place-in-the-tree", clean["workspace"] == clean["worktree"] + "/sub" and os.path.exists(clean["workspace"] + "/a.txt"), clean)
        t.ok("beneath-the-state-folder", clean["worktree"].startswith(house.state), clean["worktree"])
        branches = git("branch", "--list", "ostler/*")
        t.ok("on-a-branch-of-its-own", "ostler/Clean-One-" in branches, branches)
        t.ok("the-repository-runs-nothing", not os.path.exists(trap))
        rc, o, e = house("close", "Clean One")
        t.ok("a-clean-tree-goes-with-its-session", rc == 0 and not os.path.exists(clean["worktree"]), (rc, o, e))
        t.ok("and-so-does-its-branch", "ostler/Clean" not in git("branch", "--list"), o)
        dirty = house.json("new", "echo", repo, "--worktree", "feature")
        with open(dirty["worktree"] + "/new.txt", "w") as f:
            f.write("work\n")
        rc, o, e = house("close", dirty["id"])
        t.ok("changes-stay-and-are-told", rc == 0 and dirty["worktree"] in o and "not committed" in o and os.path.exists(dirty["worktree"] + "/new.txt"), (rc, o, e))
        t.ok("and-so-does-the-branch-that-was-named", "feature" in git("branch", "--list"))
        t.ok("closing-runs-nothing-either", not os.path.exists(trap))
        trees = os.listdir(house.state + "/instances/main/worktrees")
        one, two = (house.json("new", "echo", repo, "--worktree", "--key", "t")["worktree"] for _ in range(2))
        t.eq("the-same-key-makes-one-tree", (one, len(os.listdir(house.state + "/instances/main/worktrees"))), (two, len(trees) + 1))
        rc, o, e = house("new", "echo", repo, "--worktree", "feature")
        t.ok("a-branch-that-is-checked-out-is-refused-and-where-is-said", rc == 5 and "feature" in e and dirty["worktree"] in e, (rc, o, e))
        git("add", "-A", at=dirty["worktree"])
        git("commit", "-qm", "the work", at=dirty["worktree"])
        git("worktree", "remove", dirty["worktree"])
        again = house.json("new", "echo", repo, "--worktree", "feature")
        t.ok("a-branch-that-is-there-is-worked-on", os.path.exists(again["worktree"] + "/new.txt") and "feature" in git("branch", "--show-current", at=again["worktree"]), again)
        house.good("close", again["id"])
        t.ok("and-stays", "feature" in git("branch", "--list"))
        rc, o, e = house("new", "echo", "--worktree", repo)
        t.ok("a-path-is-no-branch", rc == 2 and "ostler new echo" in e, (rc, o, e))
    finally:
        house.down()


@area("sessions-what-is-meant")
def meant(t):
    """Nothing is guessed: a name of two, a key of another, a program that is not there."""
    house = House(t)
    try:
        one, two = house.new("--name", "twin"), house.new("--name", "twin")
        rc, o, e = house("close", "twin")
        t.ok("a-name-of-two-is-refused", rc != 0 and one in e and two in e, (rc, o, e))
        house.good("close", one)
        rc, o, e = house("send", "twin", "still here")
        t.ok("of-one-it-is-enough", rc == 0 and "still here" in o and house.texts(two), (rc, o, e))
        house.new("--key", "k1")
        rc, o, e = house("new", "echo", "/tmp", "--key", "k1")
        t.ok("a-key-of-another-session-is-refused", rc == 5 and "another session" in e, (rc, o, e))
        wire, agent = Wire(house.socket()), house.dir + "/vanishing"
        os.symlink(house.program, agent)
        first = wire.call("session.create", agent="echo", program=agent, workspace=house.dir, key="k2")
        os.unlink(agent)
        again = wire.call("session.create", agent="echo", program=agent, workspace=house.dir, key="k2")
        t.eq("also-when-its-program-is-gone", again.get("result", again).get("id"), first["result"]["id"])
        before = len(house.json("sessions", "--all"))
        rc, o, e = house("new", "acp", ".", "--", "no-such-agent")
        t.ok("a-program-that-is-not-there-is-said-at-once", rc == 4 and "no-such-agent" in e and "PATH" in e and "ostler restart" in e, (rc, o, e))
        t.ok("and-nothing-was-made", len(house.json("sessions", "--all")) == before)
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
        t.ok("an-agent-does-not-set-its-own-autonomy", said.endswith("\n5\n") and "how much it may do" in said, said)
        said = wait_for(lambda: os.path.exists(orphan), LONG) and open(orphan).read()
        t.ok("nor-does-an-orphan-of-its-with-nothing-left-of-it", said and said.endswith("\n5\n") and "keeper" in said, said)
        with open(renamed) as f:
            said = f.read()
        t.ok("its-name-it-may", said.endswith("0\n"), said)
        t.ok("and-it-is-as-it-was", house.info(made["id"])["autonomy"] == "ask", house.info(made["id"]))
        rc, o, e = house("set", "leash", "--autonomy", "all")
        t.ok("its-person-does", rc == 0 and house.info(made["id"])["autonomy"] == "all", (rc, o, e))
    finally:
        house.down()


@area("sessions-down")
def down(t):
    """Whoever ends everything begins nothing: prompts that wait are for the next daemon."""
    house = House(t)
    try:
        id = house.new()
        house.good("send", id, "SLOW:300 first", "--no-wait")
        house.good("send", id, "second words", "--no-wait")
        house.until(id, "running")
        house.good("down", "--kill")
        house.good("up")
        wait_for(lambda: "second words" in house.texts(id), LONG, 0.1)
        turns = [e for e in house.events(id) if e["type"] in ("turn", "turn_ended")]
        t.ok("the-second-waited-for-the-next-daemon", house.texts(id) == ["second words"], house.texts(id))
        t.ok("and-began-once", [e["type"] for e in turns] == ["turn", "turn_ended", "turn", "turn_ended"], turns)
        kinds = [e["type"] for e in house.events(id)]
        t.ok("with-one-process-after-the-other", kinds.count("process") == 2 and kinds.count("exited") >= 1, kinds)
    finally:
        house.down()


@area("sessions-watchers")
def watchers(t):
    house = House(t)
    try:
        id = house.new()
        path = house.socket()
        silent = Wire(path)
        silent.call("session.watch", id=id)
        wires = [Wire(path) for _ in range(100)]
        for wire in wires:
            answer = wire.call("session.watch", id=id)
            if "result" not in answer:
                raise Fail("watch: %s" % answer)
        memory = lambda: int(re.search(r"VmRSS:\s+(\d+)", open("/proc/%d/status" % house.daemon_pid()).read()).group(1))
        before = memory()
        for _ in range(5):
            house.good("send", id, " ".join("word%d" % n for n in range(400)))
        last = house.info(id)["last"]
        want = None
        same = 0
        for wire in wires:
            got = [(r["record"], r["events"]) for r in wire.records(last)]
            want = want or got
            same += got == want and [n for n, _ in got] == list(range(1, last + 1))
        t.eq("a-hundred-watchers-see-the-same", same, 100)
        t.ok("there-was-something-to-see", last > 2000, last)
        # a hundred connections hold what a socket and a bounded buffer hold, not the stream
        t.ok("and-cost-little", memory() - before < 60 * 1024, (before, memory()))
        rest = silent.records(last)
        t.eq("who-did-not-read-finds-everything", [r["record"] for r in rest], list(range(1, last + 1)))
        again = wires[0].call("session.watch", id=id)
        t.eq("one-watch-for-each-connection", again.get("error", {}).get("data", {}).get("kind"), "refused")
        t.ok("unwatch-and-watch-again", "result" in wires[0].call("session.unwatch", watch=1) and
             wires[0].call("session.watch", id=id, **{"from": last}).get("result", {}).get("from") == last)
        t.eq("and-goes-on-there", wires[0].records(last)[0]["record"], last)
        t.eq("unwatching-nothing-is-not-found", wires[1].call("session.unwatch", watch=9)["error"]["data"]["kind"], "not_found")
        doc = wires[1].call("rpc.discover")["result"]
        names = {m["name"] for m in doc["methods"]}
        t.ok("the-description-has-every-method", {"session.%s" % m for m in ("create", "list", "get", "prompt", "interrupt", "change",
             "close", "forget", "watch", "unwatch", "raw")} <= names, sorted(names))
        t.ok("and-every-notification", {"session.events", "session.gap", "session.lost"} <= {n["name"] for n in doc["x-notifications"]})
    finally:
        house.down()
