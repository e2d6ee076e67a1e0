"""The codecast door: how streams end. What goes on elsewhere is broken off and waits; what is over says so; nothing comes twice."""
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import threading

from codecast_kit import LONG, Daemon, kinds, partials, running, suite, texts
from lib import area, pid_alive, wait_for

# The chunk that says that a body is whole.
LAST_CHUNK = b"0\r\n\r\n"


class Raw:
    """One request on a socket of its own, byte for byte; reads to the end in a thread."""

    def __init__(self, port, method, params, half_close=False):
        body = json.dumps({"method": method, "params": params}).encode()
        self.data, self.over = b"", threading.Event()
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=LONG)
        self.sock.sendall(b"POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        if half_close:
            self.sock.shutdown(socket.SHUT_WR)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            while piece := self.sock.recv(65536):
                self.data += piece
        except OSError:
            pass
        self.over.set()

    def events(self):
        lines = [line[6:] for line in self.data.split(b"\n") if line.startswith(b"data: ") and line.endswith(b"}")]
        return [e for e in map(json.loads, lines) if e["type"] != "ping"]

    def wait(self, kind):
        return wait_for(lambda: kind in kinds(self.events()), LONG)

    def ended(self):
        """How it ended: with its last chunk, without it, or not at all."""
        if not self.over.wait(LONG):
            return "open"
        return ("done " if b"[DONE]" in self.data else "") + ("whole" if self.data.endswith(LAST_CHUNK) else "broken")


def send(d, session, message, **more):
    return Raw(d.port, "session.send", {"sessionId": session, "message": message}, **more)


def rest_of(t, d, session, stream, name):
    """The turn of a stream that was broken off goes on, and its rest is there once."""
    t.eq("its-client-counts-as-gone", d.stats(session)["clientConnected"], False)
    d.release(name)
    d.wait_idle(session)
    owed = d.owed(session)
    t.eq("the-rest-waits-and-repeats-nothing", (partials(stream.events() + owed), kinds(owed)[-1:]), (["working ", "done:" + name], ["result"]))
    t.eq("and-the-client-is-back", (d.stats(session)["clientConnected"], d.owed(session)), (True, []))


@area("codecast-takeover")
def takeover(t):
    with running(t) as d:
        session = d.new()
        stream = send(d, session, "@@hold:over")
        t.ok("it-runs", stream.wait("partial"), stream.data)
        first = d.proc
        d.start()
        t.eq("a-stream-whose-turn-goes-on-is-broken-off", stream.ended(), "broken")
        first.wait(LONG)
        rest_of(t, d, session, stream, "over")


@area("codecast-stop")
def stop(t):
    with running(t) as d:
        session, rests = d.new(), d.new()
        stream = send(d, session, "@@hold:stop")
        t.ok("it-runs", stream.wait("partial"), stream.data)
        d.run(rests, "@@say:before")
        d.restart(signal.SIGTERM)
        t.eq("a-stream-whose-turn-was-ended-is-whole", stream.ended(), "done whole")
        last = stream.events()[-1]
        t.ok("and-says-in-an-error-that-it-is-not-the-answer", last["type"] == "error" and "before its answer was whole" in last["message"], stream.events())
        t.eq("nothing-is-owed", d.owed(session), [])
        t.eq("a-client-that-was-told-its-end-does-not-count-as-gone", [d.stats(s)["clientConnected"] for s in (session, rests)], [True, True])


@area("codecast-up-restart")
def up_restart(t):
    d = Daemon(t, start=False)
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("OSTLER_")}, "HOME": d.home, "PATH": d.bin + ":" + os.environ["PATH"],
           "OSTLER_STATE": d.home + "/s", "OSTLER_RUNTIME": d.home + "/r", "OSTLER_CONFIG": d.home + "/c", "OSTLER_AGENT_DRIVE": "oneshot"}
    ostler = lambda *args: subprocess.run([t.ostler(), *args], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LONG)

    def look():
        doors = {door["name"]: door for door in json.loads(ostler("--json", "up").stdout)["doors"]}
        d.port = int(doors["codecast"]["address"].rsplit(":", 1)[1])
        d.rpc = suite.Rpc(d.port)
    try:
        ostler("up")
        look()
        session = d.new()
        def term():
            pid = d.rpc.ok("health.check")["pid"]
            os.kill(pid, signal.SIGTERM)
            wait_for(lambda: not pid_alive(pid), LONG)
        for name, leave in (("restart", lambda: ostler("restart")), ("term", term)):
            t.area = "codecast-up-" + name
            stream = send(d, session, "@@hold:" + name)
            t.ok("it-runs", stream.wait("partial"), stream.data)
            leave()
            t.eq("a-stream-whose-turn-goes-on-is-broken-off", stream.ended(), "broken")
            look()
            rest_of(t, d, session, stream, name)
    finally:
        ostler("down", "--kill")
        d.cleanup()


@area("codecast-gaps")
def gaps(t):
    """More streams that were cut than the first version of this door could keep apart: none of what was seen comes again."""
    with running(t) as d:
        session, want = d.new(), []
        for n in range(9):
            stream = d.send(session, "@@hold:gap%d" % n)
            stream.wait_type("partial", LONG)
            d.cut(stream, session)
            d.release("gap%d" % n)
            d.wait_idle(session)
            want += ["done:gap%d" % n]
        whole = d.rpc.ok("session.reconnect", {"sessionId": session}, timeout=LONG)
        t.eq("what-was-missed-comes-and-nothing-else", partials(whole["bufferedEvents"]), want)
        t.eq("and-nothing-is-said-to-repeat", sorted(whole), ["bufferedEvents"])
        stream = d.send(session, "@@hold:both")
        stream.wait_type("partial", LONG)
        d.cut(stream, session)
        d.release("both")
        d.wait_idle(session)
        answers = []
        asking = [threading.Thread(target=lambda: answers.append(partials(d.owed(session)))) for _ in range(8)]
        [one.start() for one in asking]
        [one.join(LONG) for one in asking]
        t.eq("of-several-who-ask-at-once-one-gets-it", sorted(answers), [[]] * 7 + [["done:both"]])


# An agent that ends as no good agent would: a result and a failure, words after the result, nothing at all.
UNTIDY = r"""
import json, sys
if "--help" in sys.argv or "--version" in sys.argv: print("fake"); sys.exit(0)
said = sys.argv[-1] + sys.stdin.read() if not any("@@" in a for a in sys.argv) else " ".join(sys.argv)
out = lambda **o: print(json.dumps(o), flush=True)
out(type="system", subtype="init", session_id="s-1", model="m")
out(type="assistant", message={"role": "assistant", "content": [{"type": "text", "text": "half"}]})
if "@@fails" in said:
    out(type="result", subtype="success", is_error=False, result="half", session_id="s-1")
    sys.exit(1)
if "@@errs" in said:
    out(type="result", subtype="error_during_execution", is_error=True, result="no quota", session_id="s-1")
    sys.exit(1)
if "@@late" in said:
    out(type="result", subtype="success", is_error=False, result="half", session_id="s-1")
    out(type="assistant", message={"role": "assistant", "content": [{"type": "text", "text": "late"}]})
    out(type="system", subtype="status", session_id="s-1")
"""
TERMINAL = {"result", "error", "interrupted"}


@area("codecast-terminal")
def terminal(t):
    with running(t) as d:
        d.fake("claude", UNTIDY)
        session = d.new()
        for message, last in (("@@fails", "result"), ("@@errs", "error"), ("@@late", "result"), ("@@nothing", "error")):
            told = kinds(d.run(session, message).events())
            t.eq("%s-has-one-end-and-it-is-last" % message[2:], ([k for k in told if k in TERMINAL], told[-1]), ([last], last))
            d.wait_idle(session)


@area("codecast-blank")
def blank(t):
    with running(t) as d:
        session, asks = d.new(), d.new(cli_type="echo")
        for name, message in (("empty", ""), ("blank", " \n\t ")):
            t.eq("%s-is-refused" % name, kinds(d.run(session, message).events()), ["error"])
        t.eq("and-nothing-was-started", (d.starts(""), d.info(session)["status"], d.stats(session)["userPending"]), ([], "idle", 0))
        d.run(asks, "QUESTION")
        t.eq("nor-does-it-answer-a-question", (kinds(d.run(asks, "  ").events()), d.info(asks)["status"]), (["error"], "busy"))


@area("codecast-half-closed")
def half_closed(t):
    with running(t) as d:
        plain = Raw(d.port, "session.list", {}, half_close=True)
        t.ok("an-answer-comes", plain.over.wait(LONG) and b'"sessions"' in plain.data, plain.data)
        session = d.new()
        stream = send(d, session, "@@hold:half", half_close=True)
        t.ok("a-stream-begins", stream.wait("partial"), stream.data)
        t.eq("its-client-is-there", d.stats(session)["clientConnected"], True)
        d.release("half")
        t.eq("and-gets-all-of-it", (stream.ended(), texts(stream.events()), kinds(stream.events())[-1]), ("done whole", ["working done:half"], "result"))
        stream = send(d, session, "@@hold:gone", half_close=True)
        t.ok("another-begins", stream.wait("partial"), stream.data)
        stream.sock.close()
        t.ok("one-that-leaves-after-that-is-noticed", wait_for(lambda: not d.stats(session)["clientConnected"], LONG))
        d.release("gone")
        d.wait_idle(session)
        t.eq("and-is-owed-the-rest", partials(d.owed(session)), ["done:gone"])


@area("codecast-folder")
def folder(t):
    with running(t) as d:
        path = d.proj()
        session = d.rpc.ok("session.create", {"path": path})["sessionId"]
        shutil.rmtree(path)
        told = d.run(session, "@@say:x").events()
        t.ok("a-deleted-folder-is-named", [e["type"] for e in told] == ["error"] and path in told[0]["message"] and "folder" in told[0]["message"], told)
        os.mkdir(path)
        d.wait_idle(session)
        t.eq("and-when-it-is-back-the-session-works", texts(d.run(session, "@@say:back").events()), ["back"])


@area("codecast-flee")
def flee(t):
    with running(t) as d:
        for n in range(50):
            with socket.create_connection(("127.0.0.1", d.port)) as s:
                if n % 2:
                    s.sendall(b"POST /rpc HTTP/1.1\r\n")
        try:
            served = [d.rpc.ok("health.check", timeout=LONG)["ok"] for _ in range(50)]
        except (OSError, http.client.HTTPException) as e:
            served = [repr(e)]
        t.eq("who-stays-is-served", served, [True] * 50)
        log = open(d.stdout_path.replace(".out", ".err")).read()
        t.eq("who-connects-and-closes-is-no-attack", [line for line in log.splitlines() if " WARN " in line or " ERROR " in line], [])
