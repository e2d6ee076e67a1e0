"""The zeroclaw door beyond its document: what survives a kill, what other doors see, who may answer, what a hostile client gets."""
import base64
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from kit import Fail, anon_kib
from lib import area, wait_for

LONG = 60


class Client:
    """One connection in the spelling of the programs."""

    def __init__(self, path, init=True, **params):
        self.connect(path)
        self.buffer, self.n, self.told, self.asked, self.replies = b"", 0, [], [], {}
        if init:
            self.hello = self.ok("initialize", dict({"protocol_version": 1}, **params))

    def connect(self, path):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(LONG)
        self.s.connect(path)

    def post(self, method, params=None, id=None):
        self.n += 1
        self.raw({"jsonrpc": "2.0", "method": method, "params": params or {}, "id": id or self.n})
        return id or self.n

    def raw(self, message):
        self.s.sendall(json.dumps(message).encode() + b"\n")

    def line(self):
        while b"\n" not in self.buffer:
            piece = self.s.recv(1 << 16)
            if not piece:
                raise EOFError
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def take(self):
        o = self.line()
        if o.get("method") == "session/update":
            self.told.append(o["params"])
        elif "method" in o:
            self.asked.append(o)
        else:
            self.replies[o["id"]] = o
        return o

    def reply(self, id):
        while id not in self.replies:
            self.take()
        return self.replies.pop(id)

    def rpc(self, method, params=None):
        return self.reply(self.post(method, params))

    def ok(self, method, params=None):
        r = self.rpc(method, params)
        if "result" not in r:
            raise Fail("%s: %s" % (method, r))
        return r["result"]

    def code(self, method, params=None):
        return self.rpc(method, params).get("error", {}).get("code")

    def new(self, **params):
        return self.ok("session/new", dict({"agent_alias": "echo"}, **params))["session_id"]

    def prompt(self, session, text, **params):
        return self.post("session/prompt", dict({"session_id": session, "prompt": text}, **params))

    def turn(self, session, text, **params):
        return self.reply(self.prompt(session, text, **params))

    def until(self, kind, n=1):
        """The nth update of this kind."""
        while len([u for u in self.told if u["type"] == kind]) < n:
            self.take()
        return [u for u in self.told if u["type"] == kind][n - 1]

    def form(self):
        """The next question that the client is asked."""
        while not self.asked:
            self.take()
        return self.asked.pop(0)

    def text(self):
        return "".join(u["text"] for u in self.told if u["type"] == "agent_message_chunk")

    def close(self):
        self.s.close()


class Daemon:
    """One home, one daemon at a time in it."""

    def __init__(self, t, *args, env=None):
        self.program = t.ostler()
        self.dir = tempfile.mkdtemp(prefix="ostler-zc-")
        self.data = self.dir + "/data"
        self.socket = self.data + "/daemon.sock"
        self.work = self.dir + "/work"
        os.makedirs(self.work)
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("ZEROCLAW_", "OSTLER_"))}
        self.env = dict(keep, HOME=self.dir, XDG_RUNTIME_DIR=self.dir + "/run", ZEROCLAW_DATA_DIR=self.data, **(env or {}))
        os.makedirs(self.dir + "/run", mode=0o700)
        self.args = args
        self.start()

    def start(self):
        self.log = open(self.dir + "/log", "ab")
        self.p = subprocess.Popen([self.program, "as", "zeroclaw", "daemon"] + list(self.args), env=self.env, stdin=subprocess.DEVNULL,
                                  stdout=self.log, stderr=self.log)
        if not wait_for(self.answers, LONG, 0.05):
            raise Fail("no socket: %s" % open(self.dir + "/log").read()[-500:])

    def answers(self):
        if self.p.poll() is not None:
            raise Fail("daemon ended with %s: %s" % (self.p.returncode, open(self.dir + "/log").read()[-500:]))
        try:
            Client(self.socket, init=False).close()
        except OSError:
            return False
        return True

    def own(self):
        """What narrows the command line to this daemon."""
        return ["--instance", self.json("status")[0]["instance"]]

    def restart(self, sig):
        self.p.send_signal(sig)
        self.p.wait(LONG)
        self.start()

    def cli(self, *args, stdin=""):
        done = subprocess.run([self.program] + list(args), env=self.env, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LONG)
        return done.returncode, done.stdout, done.stderr

    def json(self, *args):
        rc, o, e = self.cli(*args, "--json")
        if rc != 0:
            raise Fail("%s: %s" % (args, e))
        return json.loads(o)

    def client(self, **params):
        return Client(self.socket, **params)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # A daemon that stops leaves its agents to the next one: this is the next one, and takes them along.
        if self.p.poll() is not None:
            self.args = ()
            self.start()
        self.cli(*self.own(), "down", "--kill")
        self.p.wait(LONG)
        shutil.rmtree(self.dir, ignore_errors=True)


@area("zeroclaw-restart")
def restart(t):
    with Daemon(t) as d:
        c = d.client()
        s = c.new(cwd=d.work, session_id="my-session_1")
        c.turn(s, "first words")
        c.prompt(s, "SLOW:25 then ASK for it")
        c.until("agent_message_chunk", 5)
        d.restart(signal.SIGKILL)
        c = d.client()
        t.eq("a-killed-daemon-still-lists-it", c.ok("status")["session_ids"], [s])
        t.eq("and-its-turn-goes-on", c.ok("session/state", {"session_id": s})["state"], "running")
        wait_for(lambda: any(a["state"] == "pending" for a in d.json("approvals", "--list")), LONG, 0.1)
        again = c.ok("session/new", {"agent_alias": "echo", "cwd": None, "session_id": s})
        t.eq("attaching-tells-where-it-works", (again["workspace_dir"], again["agent_alias"]), (d.work, "echo"))
        asked = c.until("approval_request")
        t.eq("what-waits-is-shown-again", (asked["tool_name"], asked["arguments"]), ("pretend", {"what": "write a file"}))
        t.eq("and-answered-here", c.ok("session/approve", {"session_id": s, "request_id": asked["request_id"], "decision": "allow_once"})["acknowledged"], True)
        wait_for(lambda: c.ok("session/state", {"session_id": s})["state"] == "idle", LONG, 0.1)
        said = c.ok("session/messages", {"session_id": s})
        told = [(m["role"], m["kind"]) for m in said["messages"]]
        t.eq("nothing-of-it-is-lost", told, [("user", "message"), ("assistant", "message"), ("user", "message"), ("assistant", "message"),
                                             ("assistant", "tool_call"), ("tool", "tool_result"), ("assistant", "message")])
        t.eq("each-piece-once", said["messages"][3]["content"], "".join("%d " % n for n in range(1, 26)))
        t.eq("an-answer-counts-once", c.ok("session/approve", {"session_id": s, "request_id": asked["request_id"], "decision": "reject"})["acknowledged"], False)
        t.eq("messages-come-in-pages", [m["content"] for m in c.ok("session/messages", {"session_id": s, "limit": 2, "before_index": 2})["messages"]], ["first words", "first words"])
        c.close()
        d.restart(signal.SIGTERM)
        c = d.client()
        t.ok("a-stop-keeps-what-was-said", s in c.ok("status")["session_ids"] and c.ok("session/messages", {"session_id": s})["total"] == 7)
        r = c.turn(s, "still here?")
        t.eq("and-it-goes-on", r.get("result", {}).get("stop_reason"), "end_turn")


@area("zeroclaw-names")
def names(t):
    with Daemon(t) as d:
        c = d.client()
        s = c.new(cwd=d.work, session_id="abc")
        c.turn(s, "one")
        t.eq("the-same-name-is-the-same-session", (c.new(session_id="abc"), len(c.ok("status")["session_ids"])), ("abc", 1))
        t.eq("another-agent-is-refused", c.code("session/new", {"agent_alias": "claude", "session_id": "abc"}), -32602)
        for bad in ("", "a/b", "../x", "a" * 129, "ü"):
            t.eq("no-name-%s" % (bad[:4].encode().hex() or "empty"), c.code("session/new", {"agent_alias": "echo", "session_id": bad}), -32602)
        rc, o, e = d.cli("sessions", "--json")
        mine = json.loads(o)[0]
        t.eq("the-command-line-sees-it", (mine["agent"], mine["workspace"], mine["door"]), ("echo", d.work, "zeroclaw"))
        rc, o, e = d.cli("send", "abc", "from the command line")
        t.ok("and-knows-it-by-that-name", rc == 0 and "from the command line" in o, (rc, o, e))
        t.eq("what-was-said-there-is-seen-here", c.ok("session/messages", {"session_id": s})["total"], 4)
        other = d.json(*d.own(), "new", "echo", d.work)
        t.ok("a-session-of-another-door-is-seen", other["uuid"] in c.ok("status")["session_ids"])
        t.eq("as-work-on-code", [x["session_id"] for x in c.ok("session/list-acp")["sessions"]], [other["uuid"]])
        t.eq("chats-are-listed-apart", [x["session_id"] for x in c.ok("session/list")["sessions"]], ["abc"])
        t.eq("and-can-be-prompted", c.turn(other["uuid"], "hello").get("result", {}).get("content"), "hello")
        c.ok("session/close", {"session_id": s})
        t.eq("closed-is-gone", c.code("session/prompt", {"session_id": s, "prompt": "x"}), -32000)
        t.eq("and-a-terminal-event-was-told", next(x["status"] for x in d.json("sessions", "--all") if x["id"] == mine["id"]), "closed")
        t.eq("what-was-said-can-still-be-read", c.ok("session/messages", {"session_id": s})["total"], 4)
        again = c.ok("session/new", {"agent_alias": "echo", "session_id": "abc"})
        t.eq("under-its-name-it-goes-on-where-it-was", (again["session_id"], again["workspace_dir"], again["message_count"]), ("abc", d.work, 4))
        c.turn("abc", "more")
        t.eq("with-all-that-was-said", [m["content"] for m in c.ok("session/messages", {"session_id": s})["messages"]][-2:], ["more", "more"])
        t.eq("before-and-after", c.ok("session/messages", {"session_id": s})["total"], 6)
        gone = c.new(cwd=d.work, session_id="gone")
        c.turn(gone, "x")
        t.eq("deleted-is-deleted", (c.ok("session/delete", {"session_id": gone})["deleted"], c.code("session/messages", {"session_id": gone})), (True, -32000))
        raced = [d.client() for _ in range(8)]
        ids = [x.post("session/new", {"agent_alias": "echo", "session_id": "race", "cwd": d.work}) for x in raced]
        t.ok("eight-at-once-are-one-session", all("result" in x.reply(i) for x, i in zip(raced, ids)))
        t.eq("and-only-one", sum(1 for x in d.json("sessions") if x["workspace"] == d.work and x["id"] not in (mine["id"], other["id"])), 2)
        piped = d.client(init=False)
        piped.post("initialize", {"protocol_version": 1}, "i")
        piped.post("session/new", {"agent_alias": "echo", "session_id": "piped", "cwd": d.work}, "n")
        piped.post("session/prompt", {"session_id": "piped", "prompt": "in one go"}, "p")
        t.eq("requests-are-dealt-with-in-their-order", piped.reply("p").get("result", {}).get("content"), "in one go")
        late = d.client(init=False)
        late.post("initialize", {"protocol_version": 2}, "a")
        late.post("initialize", {"protocol_version": 1}, "b")
        late.post("status", {}, "c")
        t.eq("also-behind-a-greeting-that-failed", ("error" in late.reply("a"), "result" in late.reply("b"), "result" in late.reply("c")), (True, True, True))


@area("zeroclaw-turns")
def turns(t):
    with Daemon(t) as d:
        c = d.client()
        s = c.new(cwd=d.work)
        r = c.turn(s, "THINK and PLAN and TOOL", client_turn_generation=4)
        kinds = [u["type"] for u in c.told]
        t.ok("every-kind-is-told", {"agent_thought_chunk", "plan", "tool_call", "tool_result", "agent_message_chunk", "context_usage"} <= set(kinds), kinds)
        t.eq("the-end-comes-last", (kinds[-1], c.told[-1]["client_turn_generation"]), ("turn_complete", 4))
        c.told.clear()
        first, second = c.prompt(s, "SLOW:8"), c.prompt(s, "after it")
        t.eq("a-second-prompt-waits", c.reply(second).get("result", {}).get("content"), "after it")
        t.ok("the-first-was-first", "result" in c.replies.pop(first, {}), c.replies)
        c.told.clear()
        r = c.turn(s, "FAIL now")
        t.eq("a-failure-is-an-error", (r.get("error", {}).get("code"), c.told[-1]["outcome"]), (-32603, "failed"))
        c.told.clear()
        q = c.prompt(s, "QUESTION please")
        c.until("agent_thought_chunk")
        t.ok("a-question-that-can-not-be-shown-says-where-it-waits", "ostler approvals" in c.told[-1]["text"], c.told)
        t.eq("nobody-is-asked-who-can-not-answer", c.asked, [])
        waiting = d.json("approvals", "--list")[0]["id"]
        rc, o, e = d.cli("approve", waiting, "--answer", "colour=red")
        t.ok("a-program-without-a-terminal-does-not-decide-there", rc == 5, (rc, o, e))
        c.ok("session/cancel", {"session_id": s})
        t.eq("and-can-be-cancelled", c.reply(q)["result"]["stop_reason"], "cancelled")
        i = c.prompt(s, "SLOW:100 then stopped")
        c.until("agent_message_chunk", 3)
        c.ok("session/cancel", {"session_id": s})
        c.reply(i)
        t.ok("what-was-said-until-then-is-kept", c.ok("session/messages", {"session_id": s})["messages"][-1]["content"].startswith("1 2 3 "))
        f = d.client(clientCapabilities={"elicitation": {"form": {}}})
        i = f.prompt(s, "QUESTION again")
        form = f.form()
        f.raw({"jsonrpc": "2.0", "id": form["id"], "error": {"code": -32601, "message": "no forms here"}})
        f.until("agent_thought_chunk")
        t.eq("a-client-that-fails-has-not-said-no", d.json("approvals", "--list")[0]["state"], "pending")
        other = d.client(clientCapabilities={"elicitation": {}})
        other.ok("session/new", {"agent_alias": "echo", "session_id": s})
        again = other.form()
        t.eq("whoever-comes-next-is-asked", again["params"]["message"], form["params"]["message"])
        other.raw({"jsonrpc": "2.0", "id": again["id"], "result": {"action": "accept", "content": {"choice": "choice-0"}}})
        t.ok("and-answers", "red" in f.reply(i)["result"]["content"], f.told)
        i = f.prompt(s, "QUESTION a third time")
        form = f.form()
        t.eq("a-form-has-the-choices", [o["title"] for o in form["params"]["requestedSchema"]["properties"]["choice"]["oneOf"]], ["red", "blue"])
        f.raw({"jsonrpc": "2.0", "id": form["id"], "result": {"action": "accept", "content": {"choice": "choice-1"}}})
        t.ok("and-its-answer-reaches-the-agent", "blue" in f.reply(i)["result"]["content"], f.told)
        c.told.clear()
        gone = d.client()
        gone.prompt(s, "SLOW:10 on and on")
        gone.until("agent_message_chunk")
        gone.close()
        wait_for(lambda: c.ok("session/state", {"session_id": s})["state"] == "idle", LONG, 0.1)
        last = c.ok("session/messages", {"session_id": s})["messages"][-1]["content"]
        t.eq("a-client-that-leaves-stops-nothing", last, "SLOW:10 on and on")
        half = d.client()
        i = half.prompt(s, "SLOW:5 half")
        half.s.shutdown(socket.SHUT_WR)
        t.eq("half-closed-still-gets-its-answer", half.reply(i).get("result", {}).get("stop_reason"), "end_turn")
        asks = d.client()
        asks.prompt(s, "ASK and leave")
        asks.until("approval_request")
        asks.close()
        t.ok("who-left-is-not-counted-while-its-turn-waits", wait_for(lambda: asks.hello["tui_id"] not in [g["tui_id"] for g in c.ok("tui/list")["tuis"]], LONG, 0.1))
        t.eq("and-the-turn-still-does", c.ok("session/state", {"session_id": s})["state"], "running")
        first, second = c.prompt(s, "waits behind it"), c.prompt(s, "waits too")
        time.sleep(0.3)
        c.told.clear()
        c.ok("session/close", {"session_id": s})
        t.eq("what-waited-is-cancelled", [c.reply(i)["result"]["stop_reason"] for i in (first, second)], ["cancelled", "cancelled"])
        t.ok("and-told-why", all("session_removed" in u["content"] for u in c.told if u["type"] == "turn_complete"), c.told)
        os.makedirs(d.work + "/.git")
        os.mkfifo(d.work + "/.git/HEAD")
        s = c.new(cwd=d.work)
        t.eq("a-pipe-for-a-branch-holds-nobody-up", c.ok("session/git_branch", {"session_id": s}), {})


@area("zeroclaw-decide")
def decide(t):
    with Daemon(t) as d:
        c = d.client()
        s = c.new(cwd=d.work)
        i = c.prompt(s, "ASK first")
        asked = c.until("approval_request")
        rid = asked["request_id"]
        t.eq("an-unknown-word-is-refused", c.code("session/approve", {"session_id": s, "request_id": rid, "decision": "sure"}), -32602)
        other = d.client()
        t.eq("who-was-not-shown-it-does-not-answer", other.ok("session/approve", {"session_id": s, "request_id": rid, "decision": "allow_once"})["acknowledged"], False)
        t.eq("a-yes-for-ever-takes-a-terminal", c.code("session/approve", {"session_id": s, "request_id": rid, "decision": "allow_always"}), -32602)
        t.eq("and-changes-nothing", d.json("approvals", "--list")[0]["state"], "pending")
        t.eq("another-session-is-not-meant", c.ok("session/approve", {"session_id": "other", "request_id": rid, "decision": "allow_once"})["acknowledged"], False)
        t.eq("changed-input-is-what-runs", c.ok("session/approve", {"session_id": s, "request_id": rid, "decision": "reject_with_edit", "replacement": "{\"what\":\"less\"}"})["acknowledged"], True)
        c.reply(i)
        t.ok("the-tool-got-it", any("less" in u.get("raw_output", "") for u in c.told), c.told)
        theirs = d.json(*d.own(), "new", "echo", d.work)["uuid"]
        i = c.prompt(theirs, "ASK there")
        rid = c.until("approval_request", 2)["request_id"]
        t.eq("what-another-doors-agent-asks-takes-a-terminal", c.code("session/approve", {"session_id": theirs, "request_id": rid, "decision": "allow_once"}), -32602)
        c.ok("session/cancel", {"session_id": theirs})
        c.reply(i)
        # A hosted program finds the door open, prompts, and may not answer what it caused.
        script = d.dir + "/hosted.py"
        with open(script, "w") as f:
            f.write("import sys; sys.path[:0] = %r\nfrom zeroclaw import Client\n" % [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "claustrum")])
            f.write("c = Client(%r)\ni = c.prompt(%r, 'ASK again')\nrid = c.until('approval_request')['request_id']\n" % (d.socket, s))
            f.write("print(c.rpc('session/approve', {'session_id': %r, 'request_id': rid, 'decision': 'allow_once'}))\n" % s)
        rc, o, e = d.cli(*d.own(), "run", "--", sys.executable, script)
        t.ok("a-hosted-program-may-not-answer", "-32012" in o and "runs in ostler" in o, (rc, o, e))
        rc, o, e = d.cli("audit")
        t.ok("and-the-attempt-is-on-record", "runs in ostler" in o, o)
        rc, o, e = d.cli("audit", "--verify")
        t.eq("the-record-holds", rc, 0)


@area("zeroclaw-environment")
def environment(t):
    secret = "s3cret-%d" % os.getpid()
    with Daemon(t, env={"FROM_DAEMON": "1"}) as d:
        c = d.client(env={"OF_THE_CLIENT": secret, "OSTLER_PROCESS": "pfake", "BAD=NAME": "x", "PATH": os.environ["PATH"], "HOME": d.dir})
        s = c.new(cwd=d.work)
        i = c.prompt(s, "SLOW:20 wait")
        c.until("agent_message_chunk")
        pid = next(p["pid"] for p in d.json("ps") if p["exit"] is None)
        env = open("/proc/%d/environ" % pid, "rb").read().split(b"\0")
        t.ok("the-agent-has-the-clients-variables", ("OF_THE_CLIENT=%s" % secret).encode() in env, env)
        t.ok("and-the-mark-of-its-own", b"OSTLER_PROCESS=pfake" not in env, env)
        c.ok("session/cancel", {"session_id": s})
        c.reply(i)
        d.cli("audit")
        holds = subprocess.run(["grep", "-rlF", secret, d.dir], stdout=subprocess.PIPE, text=True).stdout
        t.eq("they-are-in-no-file", holds, "")
        picture = d.work + "/p.png"
        with open(picture, "wb") as f:
            f.write(b"\x89PNG")
        files = [{"path": picture, "mime_type": "image/png"}, {"data_b64": base64.b64encode(b"text").decode(), "filename": "../n.txt"}]
        r = c.turn(s, "look", attachments=files)
        t.ok("a-picture-is-shown-and-a-file-is-named", "a picture, image/png" in r["result"]["content"] and "-.._n.txt" in r["result"]["content"], r)
        kept = glob.glob(d.dir + "/.local/state/ostler/instances/*/sessions/*/files/*")
        t.eq("what-was-sent-is-kept-with-the-session", [(os.path.basename(k)[65:], oct(os.stat(k).st_mode & 0o777), open(k).read()) for k in kept], [(".._n.txt", "0o600", "text")])
        for name, bad in (("nothing", {}), ("relative", {"path": "p.png"}), ("missing", {"path": "/no/such"}), ("no-base64", {"data_b64": "!"})):
            t.eq("no-attachment-%s" % name, c.code("session/prompt", {"session_id": s, "prompt": "x", "attachments": [bad]}), -32602)


@area("zeroclaw-hostile")
def hostile(t):
    with Daemon(t) as d:
        c = d.client()
        s = c.new(cwd=d.work)
        deaf = d.client()
        word = "x" * 200000
        before = anon_kib(d.p.pid)
        for _ in range(24):
            deaf.prompt(s, " ".join([word] * 3))
        t.ok("others-are-served-meanwhile", c.ok("status")["active_sessions"] == 1)
        wait_for(lambda: c.ok("session/state", {"session_id": s})["state"] == "idle", LONG, 0.2)
        # What the turns themselves took is given back a moment later.
        grown = lambda: anon_kib(d.p.pid) - before
        t.ok("a-client-that-does-not-read-costs-little", wait_for(lambda: grown() < 48 * 1024, 15, 0.2), grown())
        deaf.close()
        long = d.client()
        long.s.sendall(b'{"jsonrpc":"2.0","id":1,"method":"status","params":{"pad":"')
        try:
            for _ in range(9):
                long.s.sendall(b"x" * (1 << 20))
        except OSError:
            pass
        # What it is told may be lost with the connection, which the rest of its line still fills.
        heard, closed = [], False
        try:
            while True:
                heard.append(long.line())
        except socket.timeout:
            pass
        except (EOFError, ConnectionResetError):
            closed = True
        t.ok("a-line-that-is-too-long-ends-its-connection", closed, heard)
        t.ok("and-is-told-why-if-anything", all(o["error"]["data"]["reason"] == "frame_too_large" for o in heard), heard)
        for n, junk in enumerate((b"\0\0\0\n", b"null\n", b"[]\n", b'{"jsonrpc":"2.0","method":"initialize","params":[1],"id":1}\n',
                                  b'{"jsonrpc":"2.0","method":"session/new","params":{"agent_alias":["echo"]},"id":1}\n',
                                  b'{"jsonrpc":"2.0","id":"zc-out-0","result":{"action":"accept"}}\n', b'"' + b"[" * 9000 + b"\n")):
            j = d.client()
            j.s.sendall(junk)
            t.ok("junk-%d-harms-nobody" % n, "result" in j.rpc("status"))
        j.s.sendall(b'{"jsonrpc":"2.0","method":"status","params":[],"id":"by place"}\n')
        t.ok("nothing-by-place-is-nothing", "result" in j.line())
        t.ok("the-daemon-lives", d.p.poll() is None)


@area("zeroclaw-daemon")
def daemon(t):
    with Daemon(t) as d:
        second = subprocess.run([d.program, "as", "zeroclaw", "daemon"], env=d.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LONG)
        t.ok("a-second-one-is-refused-by-name", second.returncode == 1 and "already serving" in second.stderr and "pid %d" % d.p.pid in second.stderr, second)
        d.p.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        t.eq("a-lost-terminal-is-no-reason-to-leave", d.p.poll(), None)
        c = d.client()
        t.eq("its-pid-is-told", (c.hello["server_pid"], c.hello["server_version"]), (d.p.pid, "0.8.7"))
        t.ok("who-is-connected-is-told", [g["peer_label"] for g in c.ok("tui/list")["tuis"]] == ["unix:pid=%d,uid=%d" % (os.getpid(), os.geteuid())])
        rc, o, e = d.cli("as", "zeroclaw", "daemon", "--ephemral")
        t.ok("a-misspelt-flag-is-named", rc == 2 and "--ephemeral" in e, (rc, o, e))
        rc, o, e = d.cli("as", "zeroclaw")
        t.ok("no-command-says-what-there-is", rc == 1 and "zeroclaw daemon" in e, (rc, o, e))
        rc, o, e = d.cli("as", "zeroclaw", "--version")
        t.eq("its-version", o, "zeroclaw 0.8.7\n")
    with Daemon(t, "--ephemeral", env={"OSTLER_ZEROCLAW_VERSION": "9.9.9"}) as d:
        c = d.client()
        t.eq("the-version-is-a-setting", (c.hello["server_version"], c.ok("status")["server_version"]), ("9.9.9", "9.9.9"))
        s = c.new(cwd=d.work, session_id="kept")
        c.prompt(s, "SLOW:15 on")
        c.until("agent_message_chunk")
        c.close()
        d.p.wait(LONG)
        t.eq("it-leaves-with-its-last-client", d.p.returncode, 0)
        d.start()
        c = d.client()
        wait_for(lambda: c.ok("session/state", {"session_id": s})["state"] == "idle", LONG, 0.1)
        t.eq("and-the-turn-went-on", c.ok("session/messages", {"session_id": s})["messages"][-1]["content"], "SLOW:15 on")
        c.prompt(s, "ASK and leave")
        c.until("approval_request")
        c.close()
        t.ok("it-leaves-while-a-turn-waits-for-somebody", wait_for(lambda: d.p.poll() is not None, LONG, 0.1))


@area("zeroclaw-up")
def up(t):
    from cli import Home
    home = Home(t)
    try:
        home.good("up")
        door = next(x for x in home.json("status")[0]["doors"] if x["name"] == "zeroclaw")
        c = Client(door["address"])
        t.eq("up-has-this-door", c.hello["protocol_version"], 1)
        agents = {a["alias"]: a["enabled"] for a in c.ok("agents/status")["agents"]}
        t.ok("and-tells-which-agents-are-there", agents["echo"] is True and "claude" in agents, agents)
        s = c.new()
        t.eq("it-answers", c.turn(s, "hello").get("result", {}).get("content"), "hello")
        pid = c.hello["server_pid"]
        home.good("restart")
        again = Client(door["address"])
        t.ok("a-restart-keeps-it", s in again.ok("status")["session_ids"] and again.hello["server_pid"] != pid)
    finally:
        home("down", "--kill")
