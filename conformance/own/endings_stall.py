"""A disk that takes its time stops only who needs it: every door goes on with all else, and what waited ends truthfully."""
import json
import os
import socket
import sqlite3
import subprocess
import threading
import time
import uuid

import devices_kit
from approvals_kit import Terminal
from cdev_kit import Port, Socket
from endings_disk import Instance
from kit import raw_socket, request
from lib import area, wait_for
from zeroclaw import Client as Zeroclaw

# How long another program holds the record: more than any one try to write to it takes, and than any other answer is waited for.
HELD = 12
# Far more than any of it takes on a busy machine, and less than the disk is held.
SOON = 2.5
LONG = 60


class Lines:
    """One connection of a line-based door."""

    def __init__(self, path, token=None):
        self.s, self.buffer, self.token, self.n, self.heard = raw_socket(path, LONG), b"", token, 0, []

    def post(self, method, params=None):
        self.n += 1
        self.s.sendall(request(self.n, method, params or {}, self.token))
        return self.n

    def line(self):
        while b"\n" not in self.buffer:
            piece = self.s.recv(1 << 16)
            if not piece:
                raise EOFError
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def reply(self, id):
        while True:
            o = self.line()
            if o.get("id") == id:
                return o
            self.heard.append(o)

    def ok(self, method, params=None):
        o = self.reply(self.post(method, params))
        if "result" not in o:
            raise AssertionError("%s: %s" % (method, o))
        return o["result"]


class Codecast:
    def __init__(self, address):
        self.port = int(address.rsplit(":", 1)[1])

    def ok(self, method, **params):
        body = json.dumps({"jsonrpc": "2.0", "id": "1", "method": method, "params": params})
        s = socket.create_connection(("127.0.0.1", self.port), LONG)
        s.sendall(("POST /rpc HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (self.port, len(body), body)).encode())
        data = b""
        while True:
            piece = s.recv(1 << 16)
            if not piece:
                break
            data += piece
        answer = json.loads(data.split(b"\r\n\r\n", 1)[1])
        if "result" not in answer:
            raise AssertionError("%s: %s" % (method, answer))
        return answer["result"]


class Sudo:
    """What sudo-request says, and the answer if it is waited for."""

    def __init__(self, path, **members):
        line = {"id": str(uuid.uuid4()), "session": "own", "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "privileged": False}
        line.update(members)
        self.s = raw_socket(path, LONG)
        self.s.sendall(json.dumps(line).encode() + b"\n")

    def answer(self):
        data = b""
        while b"\n" not in data:
            piece = self.s.recv(1 << 16)
            if not piece:
                break
            data += piece
        return json.loads(data)


class Doors:
    """A client at every door of one daemon, with something to look at behind each."""

    def __init__(self, t, ostler):
        self.t, self.ostler = t, ostler
        ostler.env.pop("OSTLER_DOORS_CODECAST", None)
        ostler.env["OSTLER_CONFIG"] = ostler.dir + "/config"
        o = ostler("up", "--json")[1]
        self.at = {door["name"]: door["address"] for door in json.loads(o)["doors"]}
        self.token = open(ostler.folder + "/claustrum.token").read().strip()
        self.native, self.claustrum = Lines(self.at["native"]), Lines(self.at["claustrum"], self.token)
        self.zeroclaw, self.codecast = Zeroclaw(self.at["zeroclaw"]), Codecast(self.at["codecast"])
        self.chat = self.zeroclaw.new()
        self.zeroclaw.turn(self.chat, "hello")
        self.session = self.native.ok("session.create", {"agent": "echo", "workspace": "/"})["id"]
        # what the helpers of the phones know of a home
        ostler.program, ostler.speakers, ostler.record = t.ostler(), [], lambda: json.load(open(ostler.folder + "/instance.json"))
        self.phone = devices_kit.paired(ostler, "phone", "--rights", "full")["tokens"]["access"]
        self.page, self.cdev = Port(devices_kit.port_of(ostler)), Port(int(self.at["cdev"].rsplit(":", 1)[1]))
        self.claustrum.ok("process.spawn", {"id": "talker", "command": "sh", "args": ["-c", "n=0; while :; do n=$((n+1)); echo tick-$n; sleep 0.05; done"]})

    def ticks(self):
        """Until the talker is heard again: what it says from now on."""
        before = len(self.claustrum.heard)
        self.claustrum.ok("server.ping")
        while len(self.claustrum.heard) < before + 3:
            self.claustrum.heard.append(self.claustrum.line())

    def over(self, port, path, method):
        """An answer over a WebSocket, to a phone that just came."""
        socket = Socket(port.port, self.phone, path)
        try:
            answer = socket.call(method)
        finally:
            socket.close()
        if "result" not in answer:
            raise AssertionError("%s: %s" % (method, answer))

    def loads(self, port, path, token=None):
        answer = port("GET", path, token=token)
        if answer.status != 200:
            raise AssertionError("%s: %r" % (path, answer))

    def follow(self):
        self.native.ok("feed.unfollow", {"watch": self.native.ok("feed.follow")["watch"]})

    def looks(self):
        """What nobody's disk has to do with, at each door."""
        return {
            "native-hello": lambda: self.native.ok("instance.hello", {"client": "test", "version": 1}),
            "native-processes": lambda: self.native.ok("process.list"),
            "native-sessions": lambda: self.native.ok("session.list"),
            "native-session": lambda: self.native.ok("session.get", {"id": self.session}),
            "native-approvals": lambda: self.native.ok("approval.list"),
            "native-rules": lambda: self.native.ok("rule.list"),
            "claustrum-ping": lambda: self.claustrum.ok("server.ping"),
            "claustrum-capabilities": lambda: self.claustrum.ok("server.capabilities"),
            "zeroclaw-status": lambda: self.zeroclaw.ok("status"),
            "zeroclaw-sessions": lambda: self.zeroclaw.ok("session/list"),
            "zeroclaw-state": lambda: self.zeroclaw.ok("session/state", {"session_id": self.chat}),
            "codecast-health": lambda: self.codecast.ok("health.check"),
            "codecast-sessions": lambda: self.codecast.ok("session.list"),
            "sudo-proxy-ping": lambda: Sudo(self.at["sudo-proxy"], ping=True).answer(),
            "feed": lambda: self.native.ok("feed.read", {"limit": 5}),
            "feed-followed": self.follow,
            "page": lambda: self.loads(self.page, "/"),
            "page-sessions": lambda: self.over(self.page, "/rpc", "session.list"),
            "page-approvals": lambda: self.over(self.page, "/rpc", "approval.list"),
            "page-feed": lambda: self.over(self.page, "/rpc", "feed.follow"),
            "cdev-health": lambda: self.loads(self.cdev, "/health"),
            "cdev-status": lambda: self.loads(self.cdev, "/api/status", self.phone),
            "cdev-sessions": lambda: self.loads(self.cdev, "/api/claude/sessions", self.phone),
            "cdev-over-a-socket": lambda: self.over(self.cdev, "/ws", "status/get"),
        }

    def go_on(self, name, also=()):
        """Everything that only looks is answered soon, again and again, and by whoever just came."""
        slow = {}
        for round in range(2):
            for what, look in list(self.looks().items()) + list(also):
                began = time.monotonic()
                look()
                took = time.monotonic() - began
                if took > SOON:
                    slow[what] = round, took
        self.t.eq("%s-stops-nobody-who-only-looks" % name, slow, {})

    def start_others(self, name):
        began = time.monotonic()
        self.claustrum.ok("process.spawn", {"id": name, "command": "echo", "args": ["hi"]})
        self.ticks()
        self.t.ok("%s-others-start-and-are-heard" % name, time.monotonic() - began < SOON, time.monotonic() - began)


class Later:
    """Something that waits, on a thread of its own."""

    def __init__(self, work):
        self.result, self.error = None, None

        def run():
            try:
                self.result = work()
            except Exception as error:
                self.error = error
        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def waits(self):
        self.thread.join(0.5)
        return self.thread.is_alive()

    def get(self):
        self.thread.join(LONG)
        return self.result if self.error is None else self.error


class Frozen:
    """A disk of its own whose writes can be held; nothing where that needs rights that we do not have."""

    def __init__(self, t, at):
        self.at, image = at, t.tmp() + "/disk"
        os.makedirs(at, 0o700, exist_ok=True)
        quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(image, "wb") as f:
            f.truncate(256 << 20)
        made = subprocess.run(["mkfs.ext4", "-q", image], **quiet).returncode == 0 if os.geteuid() == 0 else False
        self.mounted = made and subprocess.run(["mount", "-o", "loop", image, at], **quiet).returncode == 0
        self.able = self.mounted and self.freeze() and self.thaw()
        if self.mounted:
            os.chmod(at, 0o700)

    def freeze(self):
        return subprocess.run(["fsfreeze", "-f", self.at], stderr=subprocess.DEVNULL).returncode == 0

    def thaw(self):
        return subprocess.run(["fsfreeze", "-u", self.at], stderr=subprocess.DEVNULL).returncode == 0

    def end(self):
        if self.mounted:
            subprocess.run(["umount", "-l", self.at], stderr=subprocess.DEVNULL)


@area("stalled-approvals")
def stalled_approvals(t):
    ostler = Instance(t, None)
    try:
        doors = Doors(t, ostler)
        first = Sudo(doors.at["sudo-proxy"], pipeline=[["true"]])
        waiting = lambda: doors.native.ok("approval.list")["approvals"]
        denied = Sudo(doors.at["sudo-proxy"], pipeline=[["false"]])
        t.ok("requests-wait", wait_for(lambda: len(waiting()) == 2, 20))
        ids = {a["title"]: a["id"] for a in waiting()}
        # somebody else holds the record
        other = sqlite3.connect(doors.ostler.folder + "/inbox.db", isolation_level=None, timeout=20)
        other.execute("BEGIN IMMEDIATE")
        held = time.monotonic()
        second = Sudo(doors.at["sudo-proxy"], pipeline=[["echo", "second"]])
        gone = Sudo(doors.at["sudo-proxy"], pipeline=[["echo", "gone"]])
        yes, no = Terminal(ostler, "approve", ids["true"]), Terminal(ostler, "deny", ids["false"])
        time.sleep(0.3)
        gone.s.close()
        reads = ("audit.read", {}), ("audit.verify", {}), ("approval.get", {"id": ids["true"]})
        doors.go_on("a-held-record", [(method, lambda method=method, params=params: doors.native.ok(method, params)) for method, params in reads])
        t.eq("what-is-not-recorded-is-not-shown", len(waiting()), 2)
        for name, term in (("yes", yes), ("no", no)):
            busy = b"the record of decisions is busy"
            t.ok("who-says-%s-is-told-that-it-is-busy" % name, busy in term.until(busy, LONG), term.seen)
        doors.start_others("record")
        time.sleep(max(0, held + HELD - time.monotonic()))
        other.execute("ROLLBACK")
        t.ok("then-it-is-recorded-and-shown", wait_for(lambda: sorted(a["title"] for a in waiting()) == ["echo second", "true"], 20), waiting())
        t.ok("and-a-no-is-a-no", no.wait() == 0 and denied.answer().get("status") == "denied", no.seen)
        yes.press(b"y")
        t.ok("and-a-yes-is-a-yes", yes.wait() == 0 and first.answer().get("status") == "ok", yes.seen)
        first.s.close()
        second.s.close()
        t.ok("and-who-hangs-up-takes-it-along", wait_for(lambda: waiting() == [], 20), waiting())
    finally:
        ostler("down", "--kill")


@area("stalled-sessions")
def stalled_sessions(t):
    ostler = Instance(t, None)
    os.makedirs(ostler.folder, 0o700)
    os.chmod(ostler.state, 0o700)
    disk = Frozen(t, ostler.folder + "/sessions")
    if not disk.able:
        disk.end()
        return t.skip("all", "a disk of its own cannot be frozen")
    try:
        doors = Doors(t, ostler)
        disk.freeze()
        prompt = Later(lambda: Lines(doors.at["native"]).ok("session.prompt", {"id": doors.session, "text": "said while it stalls"}))
        t.ok("a-prompt-waits", prompt.waits(), prompt.result)
        made = Later(lambda: Zeroclaw(doors.at["zeroclaw"]).new(session_id="made-late"))
        t.ok("a-new-session-waits", made.waits(), made.result)
        doors.go_on("a-stalled-session")
        doors.start_others("sessions")
        asked = Sudo(doors.at["sudo-proxy"], pipeline=[["true"]])
        waiting = lambda: doors.native.ok("approval.list")["approvals"]
        t.ok("requests-are-asked", wait_for(lambda: len(waiting()) == 1, 20), waiting())
        asked.s.close()
        disk.thaw()
        t.ok("the-prompt-is-accepted-then", isinstance(prompt.get(), dict), prompt.get())
        t.eq("and-the-session-made", made.get(), "made-late")
        said = lambda: doors.ostler("export", doors.session)[1]
        t.ok("and-answered", wait_for(lambda: said().count("said while it stalls") > 1, 30), said())
    finally:
        disk.thaw()
        ostler("down", "--kill")
        disk.end()


@area("stalled-disk")
def stalled_disk(t):
    at = t.tmp() + "/state"
    disk = Frozen(t, at)
    if not disk.able:
        disk.end()
        return t.skip("all", "a disk of its own cannot be frozen")
    ostler = Instance(t, at)
    try:
        doors = Doors(t, ostler)
        disk.freeze()
        made = Later(lambda: Zeroclaw(doors.at["zeroclaw"]).new(session_id="made-late"))
        t.ok("a-new-session-waits", made.waits(), made.result)
        asked = Sudo(doors.at["sudo-proxy"], pipeline=[["true"]])
        prompt = Later(lambda: Lines(doors.at["native"]).ok("session.prompt", {"id": doors.session, "text": "late"}))
        t.ok("a-prompt-waits", prompt.waits(), prompt.result)
        # whoever asks for much waits alone: together these are more than there are threads to wait on
        many = [Lines(doors.at["native"]) for _ in range(3)]
        for n in range(200):
            for lines in many:
                lines.post("session.prompt", {"id": doors.session, "text": "one of many %d" % n})
        doors.go_on("a-stalled-disk", [("native-comes-in", lambda: Lines(doors.at["native"]).ok("process.list"))])
        disk.thaw()
        t.eq("the-session-is-made-then", made.get(), "made-late")
        t.ok("the-prompt-too", isinstance(prompt.get(), dict), prompt.get())
        waiting = lambda: doors.native.ok("approval.list")["approvals"]
        t.ok("the-request-is-shown", wait_for(lambda: len(waiting()) == 1, 20), waiting())
        asked.s.close()
        answers = [{lines.line()["id"] for _ in range(200)} for lines in many]
        t.eq("each-of-the-many-is-answered", [len(ids) for ids in answers], [200] * 3)
        doors.start_others("disk")
    finally:
        disk.thaw()
        ostler("down", "--kill")
        disk.end()
