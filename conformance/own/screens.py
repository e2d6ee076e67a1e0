"""Programs with a terminal: what they say they are doing, the question that ostler answers for their terminal, and their last screen."""
import base64
import json
import os
import re
import shutil
import signal
import socket
import time

from approvals_kit import Tmux
from cli import Home
from hangup_kit import DETACH, LONG, Seat, process
from kit import Fail
from lib import area, wait_for

QUERY = b"\x1b]7501;?"

# Says what it is told in hexadecimal lines, and shows what it hears in between.
PUPPET = r"""
import os, select, sys, termios, tty
tty.setraw(0)
fifo = os.open(sys.argv[1], os.O_RDWR)
os.write(1, b"ready\r\n")
while True:
    for fd in select.select([0, fifo], [], [])[0]:
        data = os.read(fd, 65536)
        if fd == 0:
            os.write(1, b"<heard " + data.hex().encode() + b">\r\n")
        else:
            for line in data.split():
                os.write(1, bytes.fromhex(line.decode()))
"""

# Asks once, waits for the answer, and a while for a second one.
ASKER = r"""
import os, select, sys, time, tty
tty.setraw(0)
os.write(1, b"\x1b]7501;?\x1b\\")
heard, stop = b"", time.monotonic() + float(sys.argv[1])
while time.monotonic() < stop:
    if select.select([0], [], [], 0.1)[0]:
        heard += os.read(0, 4096)
        stop = min(stop, time.monotonic() + 1.5)
os.write(1, b"answers %d of %d bytes\r\n" % (heard.count(b"\x1b]7501;?\x1b\\"), len(heard)))
"""


class Puppet:
    def __init__(self, home, name):
        self.home, self.name = home, name
        self.fifo = os.path.join(home.dir, name + ".fifo")
        os.mkfifo(self.fifo)
        home.good("run", "-d", "-t", "--name", name, "--", "python3", "-c", PUPPET, self.fifo)
        self.shows("ready")

    def says(self, data):
        fd = os.open(self.fifo, os.O_WRONLY)
        os.write(fd, data.hex().encode() + b"\n")
        os.close(fd)

    def shows(self, text):
        if not wait_for(lambda: text in self.home.good("logs", self.name), LONG, 0.05):
            raise Fail("%s does not show %r: %r" % (self.name, text, self.home.good("logs", self.name)[-300:]))

    def heard(self):
        return b"".join(bytes.fromhex(piece) for piece in re.findall(r"<heard ([0-9a-f]*)>", self.home.good("logs", self.name)))

    def claim(self):
        return process(self.home, self.name).get("claim") or {}


def up(t):
    home = Home(t)
    home.good("up")
    return home


def crash(home):
    """SIGKILL for the daemon alone; the keeper brings it back."""
    with open(home.state + "/instances/main/instance.json") as f:
        pid = json.load(f)["pid"]
    os.kill(pid, signal.SIGKILL)

    def back():
        try:
            with open(home.state + "/instances/main/instance.json") as f:
                return json.load(f)["pid"] != pid and home("ps")[0] == 0
        except (OSError, ValueError):
            return False
    if not wait_for(back, LONG, 0.05):
        home.good("up")


def state_word(home, name):
    line = next((line for line in home.good("ps").splitlines() if re.search(r"\b%s\b" % name, line)), "")
    return line


def report(text):
    return b"\x1b]7501;" + text.encode() + b"\x1b\\"


def words(text):
    return base64.b64encode(text.encode()).decode().rstrip("=")


@area("screens-claims")
def claims(t):
    home = up(t)
    p = Puppet(home, "pup")
    t.eq("nothing-said-nothing-claimed", p.claim(), {})
    t.ok("then-it-only-runs", "running" in state_word(home, "pup"), state_word(home, "pup"))

    def says(case, data, state, **more):
        p.says(data)
        seen = wait_for(lambda: p.claim().get("state") == state, LONG, 0.05)
        claim = p.claim()
        t.ok(case, seen and all(claim.get(key) == value for key, value in more.items()), claim)

    says("working", report("state=working:app=tester:progress=40:title=" + words("Fixing it")), "working", app="tester", progress=40, title="Fixing it", reported=True)
    t.ok("shown-as-a-claim", "working 40 % (says tester)" in state_word(home, "pup"), state_word(home, "pup"))
    says("needs-you", report("state=blocked:kind=permission:id=sub/one:msg=" + words("May I?")), "needs_you", kind="permission", app="tester", message="May I?")
    t.ok("needs-you-shown", "needs you: permission (says tester)" in state_word(home, "pup"), state_word(home, "pup"))
    p.says(report("state=sleeping:id=sub/one") + report("state=working:id=sub/one:msg=" + base64.b64encode(b"a\x1b[2Jb").decode()))
    time.sleep(0.3)
    t.eq("what-is-not-understood-is-ignored-whole", p.claim().get("state"), "needs_you")
    says("clear-takes-children-along", report("state=clear:id=sub"), "working")
    crash(home)
    t.ok("a-claim-survives-the-daemon", wait_for(lambda: p.claim().get("state") == "working", LONG, 0.05), p.claim())
    says("failed", report("state=error"), "failed")
    says("done", report("state=done"), "done")
    p.says(b"\x1b]133;A\x07")
    time.sleep(0.3)
    t.eq("what-was-reached-stays-at-a-prompt", p.claim().get("state"), "done")
    p.says(b"\x1bc")
    t.ok("a-full-reset-clears", wait_for(lambda: p.claim() == {}, LONG, 0.05), p.claim())
    says("progress-is-a-weaker-sign", b"\x1b]9;4;1;30\x07", "working", progress=30, reported=False)
    t.ok("and-shown-as-a-guess", "working 30 % (it seems)" in state_word(home, "pup"), state_word(home, "pup"))
    says("paused-progress-needs-you", b"\x1b]9;4;4\x07", "needs_you")
    # What follows a notification at once was on its way before it.
    time.sleep(1.1)
    says("a-spinner-in-the-title-works", "\x1b]0;\u2810 Fixing\x07".encode(), "working")
    stopped = time.monotonic()
    p.says("\x1b]0;\u2733 Fixing\x07".encode())
    time.sleep(0.5)
    # Two seconds later it may be believed: a machine that is as slow as that shows nothing here.
    t.ok("its-absence-is-not-believed-at-once", p.claim().get("state") == "working" or time.monotonic() - stopped > 2, p.claim())
    t.ok("but-after-a-while-it-rests", wait_for(lambda: p.claim().get("state") == "idle", LONG, 0.1), p.claim())
    says("a-notification-asks", b"\x1b]9;Approval requested: make\x07", "needs_you", message="Approval requested: make")
    says("another-says-done", b"\x1b]777;notify;x;Turn complete\x07", "done")
    says("a-name-moves-no-cursor", report("state=idle:app=e\u202evil"), "idle")
    t.ok("it-is-written-out", "\\u{202e}" in state_word(home, "pup"), state_word(home, "pup"))
    home.good("kill", "pup", "--wait")
    t.eq("a-claim-ends-with-the-program", process(home, "pup").get("claim"), None)


@area("screens-question")
def question(t):
    home = up(t)
    p = Puppet(home, "pup")
    p.says(QUERY + b"\x1b\\")
    t.ok("answered-with-nobody-attached", wait_for(lambda: p.heard() == QUERY + b"\x1b\\", LONG, 0.05), p.heard())
    t.eq("it-is-nobodys-input", process(home, "pup").get("stdin_applied"), 0)
    # A client that counts its bytes from 0 is not put out of step.
    with open(home.state + "/instances/main/instance.json") as f:
        path = json.load(f)["native"]
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    lines = s.makefile("rwb")

    def call(method, **params):
        lines.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
        lines.flush()
        return json.loads(lines.readline())
    call("instance.hello", protocol=1, client="screens")
    first = call("process.stdin", id="pup", data=base64.b64encode(b"abc").decode(), offset=0)
    again = call("process.stdin", id="pup", data=base64.b64encode(b"abcde").decode(), offset=0)
    t.eq("offsets-count-only-what-was-sent", (first["result"]["applied"], again["result"]["applied"]), (3, 5))
    t.ok("and-arrive-once", wait_for(lambda: p.heard().endswith(b"abcde"), LONG, 0.05), p.heard())
    time.sleep(0.6)
    p.says(b"split\x1b]75")
    p.says(b"01;?\x07")
    t.ok("asked-in-pieces-and-ended-by-a-bell", wait_for(lambda: p.heard().endswith(QUERY + b"\x07"), LONG, 0.05), p.heard())
    crash(home)
    time.sleep(1)
    t.eq("the-next-daemon-answers-nothing-again", p.heard().count(QUERY), 2)
    with Seat(home, "attach", "pup") as seat:
        seat.attached()
        time.sleep(0.6)
        seat.seen = b""
        p.says(b"<<" + QUERY + b"\x07" + report("state=working") + b">>")
        seat.until(b">>")
        t.ok("our-terminal-is-not-asked", QUERY not in seat.seen, seat.seen)
        t.ok("but-it-is-told", b"\x1b]7501;state=working" in seat.seen, seat.seen)
        seat.seen = b""
        seat.type(DETACH)
        seat.wait()
        t.ok("and-told-when-we-leave", b"\x1b]7501;state=clear" in seat.seen, seat.seen)
    t.ok("answered-once", wait_for(lambda: p.heard().count(QUERY) == 3, LONG, 0.05), p.heard())
    p.says(b"\x1b[c\x1b[6n")
    time.sleep(5.5)
    for case, args in (("repaint", []), ("replay", ["--from", "1"])):
        with Seat(home, "attach", "pup", *args) as seat:
            seat.attached()
            p.says(b"now-%s" % case.encode())
            seat.until(b"now-%s" % case.encode())
            asked = [q for q in (QUERY, b"\x1b[c", b"\x1b[6n") if q in seat.seen]
            t.eq("history-asks-nothing-in-a-" + case, asked, [])
            seat.type(DETACH)
            seat.wait()


@area("screens-killed")
def killed(t):
    """The daemon dies between the question and the answer, at any time: one answer, whole."""
    home = up(t)
    # A daemon is brought back five times a minute; after that somebody has to, and who asked has given up by then.
    for turn in range(5):
        name = "ask%d" % turn
        home.good("run", "-d", "-t", "--name", name, "--", "sh", "-c", "sleep 0.3; exec python3 -c '%s' 15" % ASKER.replace("'", "'\\''"))
        time.sleep(0.33 + 0.016 * turn)
        crash(home)
        done = wait_for(lambda: "answers" in home.good("logs", name), LONG, 0.1)
        said = home.good("logs", name)
        t.ok("one-answer-%d" % turn, done and "answers 1 of 10 bytes" in said, said[-200:])


@area("screens-last")
def last(t):
    home = up(t)
    draw = r"printf 'gone'; printf '\033[?1049h\033[2J\033[5;10Hhello \033[31mscreen\033[0m\033]0;title\007\033[20;1Hlast line'; "
    home.good("run", "-d", "-t", "--name", "full", "--", "sh", "-c", draw + "sleep 1000")
    wait_for(lambda: "last line" in home.good("logs", "full"), LONG, 0.05)
    shown = home.good("logs", "--screen", "full").splitlines()
    t.ok("as-a-terminal-shows-it", len(shown) == 20 and shown[4] == " " * 9 + "hello screen" and shown[19] == "last line", shown)
    seen = home.json("logs", "--screen", "full")
    t.eq("in-json", (seen["rows"], seen["cols"], seen["lines"][4].strip()), (24, 80, "hello screen"))
    crash(home)
    t.eq("after-the-daemon-died", home.good("logs", "--screen", "full").splitlines(), shown)
    home.good("kill", "full", "--wait")
    t.eq("after-its-end", home.good("logs", "--screen", "full").splitlines(), shown)
    size = "import os,time,signal; s=lambda *_: os.write(1,b'\\x1b[2J\\x1b[H%dx%d' % tuple(os.get_terminal_size())); signal.signal(signal.SIGWINCH,s); s(); time.sleep(1000)"
    home.good("run", "-d", "-t", "--name", "sized", "--", "python3", "-c", size)
    with Seat(home, "attach", "sized", size=(40, 132)) as seat:
        seat.attached()
        seat.until(b"132x40")
        seat.type(DETACH)
        seat.wait()
    wait_for(lambda: home.json("logs", "--screen", "sized")["cols"] == 132, LONG, 0.1)
    seen = home.json("logs", "--screen", "sized")
    t.eq("of-the-size-that-it-has", (seen["rows"], seen["cols"], seen["lines"]), (40, 132, ["132x40"]))
    home.good("kill", "sized", "--wait")
    crash(home)
    seen = home.json("logs", "--screen", "sized")
    t.eq("or-had-before-the-daemon-died", (seen["rows"], seen["cols"]), (40, 132))
    home.good("run", "-d", "--name", "pipes", "--", "sleep", "1000")
    rc, _, e = home("logs", "--screen", "pipes")
    t.ok("a-command-has-none", rc == 5 and "no terminal" in e, e)
    flood = "import os\nfor i in range(60000): os.write(1, b'\\x1b[3%dm%06d \\x1b]0;t\\x07\\x1b[0m padding padding padding padding\\r\\n' % (i % 8, i))\n"
    home.good("run", "-t", "--name", "flood", "--", "python3", "-c", flood)
    t.ok("the-end-of-a-long-one", "059999" in home.good("logs", "--screen", "flood"), home.good("logs", "--screen", "flood")[-200:])


@area("screens-return")
def comes_back(t):
    """Whoever comes back to a terminal sees what `logs --screen` says, also where a full-screen program has drawn and gone."""
    if not shutil.which("tmux"):
        return t.skip("tmux", "tmux is not installed")
    for size in ((70, 20), (100, 40)):
        home = up(t)
        home.env["PS1"] = "out> "
        person = Tmux(home, "/bin/sh", size=size)
        try:
            person.line("%s run -t --name shell -- env PS1=in: sh" % home.program)
            person.until("\nin:")
            person.line("echo before vi''m")
            person.until("before vim")
            person.line("vim -u DEFAULTS -n words.txt")
            person.until("~\n~\n~\n")
            person.line("itext that is only vim's")
            person.until("text that is only vim's")
            person.keys("Escape")
            person.line(":q!")
            person.until("before vim", "\nin:")
            person.keys("C-]")
            person.until("left shell running")
            told = home.good("logs", "shell", "--screen").splitlines()
            person.line("clear; %s attach shell" % home.program)
            person.until("leave it with")
            wait_for(lambda: person.screen().rstrip().splitlines()[1:] == told, 5, 0.2)
            seen = person.screen().rstrip().splitlines()
            t.eq("as-logs-says-at-%dx%d" % size, (seen[1:], "only vim" in "".join(told), told[-1].strip()), (told, False, "in:"))
            person.line("echo go''es on")
            person.until("goes on")
            t.ok("and-it-goes-on-at-%dx%d" % size, True)
        finally:
            person.close()
            home.stop()


@area("screens-tui")
def tui(t):
    home = up(t)
    session = home.json("new", "echo", home.dir, "--name", "talk")["id"]
    home.good("send", "talk", "hello")
    rc, _, e = home("tui", "talk")
    t.ok("the-built-in-agent-has-none", rc == 5 and "echo has no screen of its own that takes up a conversation" in e, e)
    rc, _, e = home("run", "--", home.program, "tui", "talk")
    t.ok("a-hosted-program-does-not-sit-there", rc == 5 and "ostler hosts who asks" in e, (rc, e))
    rc, _, e = home("tui", "nobody")
    t.ok("nor-has-nobody", rc == 4, e)
    t.ok("and-it-goes-on", "again" in home.good("send", session, "again"), "")
