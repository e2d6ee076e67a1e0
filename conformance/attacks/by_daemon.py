"""A hostile daemon, in the place of ours, against our own clients: sudo-request, the MCP server, the command line."""
import base64
import json
import os
import resource
import socket
import subprocess
import threading

from approvals_kit import LONG, House
from lib import area
from sudo_kit import Home, Mcp, ours


@area("daemon")
def hostile_daemon(t):
    """What a daemon says of a request never reaches a terminal raw; what its command wrote is the asker's own."""
    home = Home(t)
    escape = "\x1b]0;owned\x07\x1b[2J\u202e"
    for case, answer, code, out, err in [
        ("message-made-safe", {"id": "", "status": "error", "message": "no " + escape}, 1, b"", "Error: no ^[]0;owned^G^[[2J\\u{202e}\n"),
        ("output-untouched", {"status": "ok", "stdout": base64.b64encode(escape.encode()).decode(),
                              "stages": [{"exit_code": 0, "stderr": base64.b64encode(b"\x1b[1m").decode()}]}, 0, escape.encode(), "\x1b[1m"),
        ("code-beyond-a-byte", {"status": "ok", "stdout": "", "stages": [{"exit_code": 256, "stderr": ""}]}, 255, b"",
         "(exit code: 256, which no command can have; this one is 255)\n"),
        ("answer-to-another-request", {"id": "another\x1b", "status": "ok", "stdout": "aGk=", "stages": [{"exit_code": 0, "stderr": ""}]}, 1, b"",
         "error: the answer is for another request (another^[)\n"),
        ("answer-to-no-request", {"id": "", "status": "ok", "stdout": "aGk=", "stages": [{"exit_code": 0, "stderr": ""}]}, 1, b"",
         "error: the answer is for another request ()\n"),
    ]:
        with Canned(home.sock, answer):
            said = home.request(ours(t), "true")[:3]
            (t.control if case == "output-untouched" else t.stopped)(case, said == (code, out, err), said)
    with Canned(home.sock, b"\x1b[2J nonsense\n"):
        code, out, err, _ = home.request(ours(t), "true")
        t.stopped("nonsense-made-safe", code == 1 and not out and err.startswith("error: invalid response JSON: ") and "raw: ^[[2J nonsense" in err, (code, out, err))
    with Canned(home.sock, b""):
        said = home.request(ours(t), "true")[:3]
        t.stopped("hangs-up", said == (1, b"", "error: server closed connection without response\n"), said)
    with Canned(home.sock, b'{"id":"","status":"ok","stdout":"', forever=True):
        code, out, err, _ = home.request(ours(t), "true")
        t.stopped("endless-answer-cut-off", code == 1 and not out and "answer is longer than" in err, (code, len(out), err[-200:]))


class Canned:
    """A daemon that gives every request the same answer, bytes as they are; a dictionary names the request unless it says otherwise."""

    def __init__(self, path, answer, forever=False):
        self.path, self.answer, self.forever = path, answer, forever

    def __enter__(self):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        self.listener.listen(8)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()
        return self

    def serve(self):
        try:
            peer, _ = self.listener.accept()
        except OSError:
            return
        with peer:
            try:
                asked = peer.makefile("rb").readline()
                if not asked:
                    return
                answer = self.answer
                if isinstance(answer, dict):
                    answer = json.dumps(dict({"id": json.loads(asked)["id"]}, **answer)).encode() + b"\n"
                peer.sendall(answer)
                while self.forever:
                    peer.sendall(b"A" * 65536)
            except OSError:
                pass

    def __exit__(self, *_):
        self.thread.join(30)
        self.listener.close()
        os.unlink(self.path)


@area("daemon")
def tools(t):
    """The MCP server in front of such a daemon: an answer to another request is none."""
    home = Home(t)
    good = {"status": "ok", "stdout": "aGk=", "stages": [{"exit_code": 0, "stderr": ""}]}
    for case, answer, works in (("mcp-answer-to-another-request", dict(good, id="another"), False), ("mcp-nonsense", b"\x1b[2J nonsense\n", False), ("mcp-honest", good, True)):
        with Canned(home.sock, answer):
            mcp = Mcp(ours(t)("sudo-proxy-mcp"), home.env)
            try:
                mcp.initialize()
                said = mcp.call("execute", argv=["true"], reason="a test")
            finally:
                mcp.close()
        got_it = isinstance(said, tuple) and not said[1] and any("hi" in text for text in said[0])
        raw = "\x1b" in json.dumps(said, ensure_ascii=False)
        (t.control if works else t.stopped)(case, got_it == works and not raw, said)


class Native(threading.Thread):
    """Listens in the place of the native door and answers every line by what it is told, bytes as they are."""

    def __init__(self, house, answer):
        super().__init__(daemon=True)
        record = house.record()
        self.place, self.answer = record["native"], answer
        os.unlink(self.place) if os.path.lexists(self.place) else None
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.place)
        self.listener.listen(8)
        self.start()

    def run(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        with peer:
            try:
                for line in peer.makefile("rb"):
                    for piece in self.answer(json.loads(line)):
                        peer.sendall(piece)
            except (OSError, ValueError):
                pass

    def close(self):
        # Also wakes the one who waits for somebody.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def hello(ask):
    return {"version": 1, "program": "0", "instance": "main", "pid": os.getpid(), "started": "2026-01-01T00:00:00Z"}


def answered(result):
    """Answers the greeting as a daemon does, and everything else by `result`, a dictionary or pieces of bytes."""
    def answer(ask):
        if ask["method"] == "instance.hello":
            yield json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": hello(ask)}).encode() + b"\n"
        elif callable(result):
            yield from result(ask)
        else:
            yield json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": result}).encode() + b"\n"
    return answer


def endless(piece):
    def pieces(ask):
        while True:
            yield piece
    return pieces


@area("daemon")
def command_line(t):
    """The command line in front of a program that took the daemon's place at its socket."""
    house = House(t).up()
    rows = house.json("ps")
    t.control("our-own-daemon-is-understood", rows == [], rows)
    os.kill(house.record()["pid"], 19)
    try:
        gap = b'{"jsonrpc":"2.0","method":"process.gap","params":{"watch":1,"first_seq":9}}\n'
        evil = "name\x1b]0;owned\x07\x1b[2J\u202e"
        failed = lambda ask: iter([json.dumps({"jsonrpc": "2.0", "id": ask["id"], "error": {"code": -32000, "message": "no " + evil, "data": {"kind": "internal", "hint": evil}}}).encode() + b"\n"])
        for name, answer in (
            ("a-line-without-an-end", answered(endless(b"A" * 65536))), ("notifications-without-end", answered(endless(gap * 500))),
            ("nonsense-to-the-command-line", answered(lambda ask: iter([b"\x1b[2J nonsense\n"]))), ("errors-that-paint", answered(failed)),
            ("a-hello-of-another-kind", lambda ask: iter([json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": {"version": 99}}).encode() + b"\n"])),
            ("answers-to-other-questions", answered(lambda ask: iter([json.dumps({"jsonrpc": "2.0", "id": ask["id"] + 7, "result": {}}).encode() + b"\n"]))),
        ):
            there = Native(house, answer)
            # What a hostile daemon can cost: a bounded amount of memory, and seconds.
            bound = lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
            try:
                p = subprocess.run([house.program, "ps"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=house.env, timeout=60, preexec_fn=bound)
                said = (p.returncode, p.stdout, p.stderr)
                calm = p.returncode > 0 and b"\x1b" not in p.stdout + p.stderr and b"panicked" not in p.stderr and b"memory" not in p.stderr
            except subprocess.TimeoutExpired:
                said, calm = "still waiting after a minute", False
            t.stopped(name, calm, said)
            there.close()
    finally:
        os.kill(house.record()["pid"], 18)
        house.down()
