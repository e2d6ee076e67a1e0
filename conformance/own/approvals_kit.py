"""A home whose daemon takes requests, somebody who asks, and the terminals in which a person answers."""
import base64
import contextlib
import datetime
import json
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import time
import uuid

import cli
from cli import Home
from kit import Fail
from lib import wait_for

LONG = 30


class House(Home):
    """A home whose daemon takes requests."""

    def __init__(self, t, user=None):
        super().__init__(t)
        self.user = user
        self.socks = []

    def up(self):
        self.good("up")
        return self

    def record(self):
        with open(self.state + "/instances/main/instance.json") as f:
            return json.load(f)

    def door(self):
        return next(d["address"] for d in self.record()["doors"] if d["name"] == "sudo-proxy")

    def ask(self, *stages, **more):
        """Asks and waits for nothing; gives back the asker."""
        return Asker(self, stages, more)

    def pending(self):
        return self.json("approvals", "--list")

    def waiting(self, count=1):
        """The requests that wait, once there are so many."""
        if not wait_for(lambda: len(self.pending()) == count, LONG, 0.1):
            raise Fail("%d requests should wait, these do: %s" % (count, self.pending()))
        return self.pending()

    def state_of(self, id):
        return next((a for a in self.json("approvals", "--list", "--all") if a["id"] == id), {}).get("state")

    def audit(self, what=None):
        rows = [json.loads(line) for line in self.good("--json", "audit").splitlines()]
        return [r for r in rows if what is None or r["record"]["what"] == what]

    def down(self):
        for s in self.socks:
            s.close()
        self("down", "--kill")


def request(stages, **more):
    """What sudo-request sends."""
    return {"id": str(uuid.uuid4()), "host": "test-host", "session": "test-session", "reason": "a test", "env": {},
            "time": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "pipeline": [list(s) for s in stages], "privileged": False, "forward_agent": False, **more}


class Asker:
    def __init__(self, house, stages, more, door=None):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        house.socks.append(self.sock)
        place = door or house.door()
        with acting_as(house.user):
            self.sock.connect(place)
        self.sock.sendall(json.dumps(request(stages, **more)).encode() + b"\n")

    def answered(self):
        return bool(select.select([self.sock], [], [], 0)[0])

    def answer(self, timeout=LONG):
        self.sock.settimeout(timeout)
        data = b""
        while not data.endswith(b"\n"):
            try:
                piece = self.sock.recv(1 << 18)
            except socket.timeout:
                raise Fail("no answer within %d s" % timeout)
            if not piece:
                break
            data += piece
        answer = json.loads(data) if data else {}
        if "stdout" in answer:
            answer["text"] = base64.b64decode(answer["stdout"]).decode(errors="replace")
        return answer


class Terminal(cli.Terminal):
    """A program on a terminal; everything it says is read, also its last words."""

    def wait(self, timeout=LONG):
        stop = time.monotonic() + timeout
        while time.monotonic() < stop:
            if not select.select([self.fd], [], [], 0.5)[0]:
                continue
            try:
                piece = os.read(self.fd, 65536)
            except OSError:
                piece = b""
            if not piece:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            self.seen += piece
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise Fail("still on the terminal: %r" % self.seen[-300:])

    def press(self, key, asked=b"[y/N] "):
        """One key for the question that is on the screen: again until it is taken, because one pressed too soon does not count."""
        self.until(asked, LONG)
        before, stop = len(self.seen), time.monotonic() + LONG
        while len(self.seen) == before:
            if time.monotonic() > stop:
                raise Fail("no key is taken: %r" % self.seen[-300:])
            self.type(key)
            if select.select([self.fd], [], [], 1)[0]:
                self.seen += os.read(self.fd, 65536)


def confirms(house, setting):
    """A person reads a setting that waits, and confirms it: the exit code, and what they saw."""
    term = Terminal(house, "config", "confirm", setting)
    term.press(b"y")
    return term.wait(), term.seen


@contextlib.contextmanager
def acting_as(user):
    """The system tells a server who connected: this user."""
    if user:
        os.seteuid(user.pw_uid)
    try:
        yield
    finally:
        if user:
            os.seteuid(0)


class Tmux:
    """A terminal with a screen that can be looked at."""

    def __init__(self, house, *command, size=(100, 30)):
        self.socket = house.dir + "/tmux.sock"
        self.env = dict(house.env, TERM="xterm-256color", TMUX_TMPDIR=house.dir, LC_ALL="C.UTF-8")
        line = " ".join(shlex.quote(word) for word in command)
        self("-f", "/dev/null", "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), line)

    def __call__(self, *args):
        p = subprocess.run(["tmux", "-u", "-S", self.socket] + list(args), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           env=self.env, timeout=LONG)
        return p.stdout.decode(errors="replace")

    def keys(self, *keys):
        self("send-keys", *keys)

    def screen(self):
        return self("capture-pane", "-p")

    def until(self, *texts):
        if not wait_for(lambda: all(text in self.screen() for text in texts), LONG, 0.1):
            raise Fail("the screen should show %r: %s" % (texts, self.screen()))
        return self.screen()

    def line(self, text):
        """A line for the shell."""
        self.keys("-l", text)
        self.keys("Enter")

    def sane(self, name):
        """What a shell sees of the modes of its terminal."""
        self.line("stty -a | tr ' ' '\\n' | grep -x -e '-*echo;*' -e '-*icanon;*' -e '-*isig;*' | sort | tr '\\n' ' '; echo seen-'%s'" % name)
        text = self.until("seen-%s\n" % name)
        return "echo icanon isig seen-%s" % name in text, text

    def go_to(self, text):
        """The request that says this, wherever it is in the list."""
        def there():
            if text in self.screen():
                return True
            self.keys("j")
            return False
        if not wait_for(there, LONG, 0.5):
            raise Fail("no request says %r: %s" % (text, self.screen()))

    def close(self):
        self("kill-server")


def approved(house, id, *more, key=b"y"):
    """`approve` in a terminal: what it showed and its exit code."""
    term = Terminal(house, "approve", id, *more)
    term.press(key)
    code = term.wait()
    return term.seen.decode(errors="replace"), code


def run_hosted(house, how, line):
    """What a hosted shell hears when it tries this."""
    if not how:
        rc, o, e = house("run", "--", "sh", "-c", line, timeout=LONG * 2)
        return o + e
    term = Terminal(house, "run", "-t", "--", "sh", "-c", line)
    term.wait(LONG * 2)
    return re.sub(r"\s+", " ", term.seen.decode(errors="replace"))
