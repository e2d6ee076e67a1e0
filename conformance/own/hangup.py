"""Hanging up is leaving: a closed window, a signal, a killed client or a cut connection ends and mutes nothing."""
import contextlib
import json
import os
import shutil
import signal
import time

from cli import Home
from hangup_kit import DETACH, LONG, PROGRAMS, Seat, lives, leave, nobody_attached, process
from kit import Fail
from lib import area, wait_for
from sessions_kit import House, Wire
from ssh import Sshd

WAYS = ("closed", "gone", "hup", "kill")


def up(t):
    home = Home(t)
    home.good("up")
    return home


def still_talks(t, case, home, name, keys, answer):
    """It lives, and whoever comes back can type to it and leave it."""
    alive = lives(home, name)
    t.ok(case + "-lives", alive, process(home, name).get("exit"))
    if not alive:
        return
    with Seat(home, "attach", name) as seat:
        try:
            seat.attached()
            seat.asks(keys, answer)
            t.ok(case + "-hears", True)
        except Fail as error:
            t.ok(case + "-hears", False, str(error))
        seat.type(DETACH)
        try:
            t.eq(case + "-is-left", seat.wait(), 0)
        except Fail as error:
            t.ok(case + "-is-left", False, str(error))


def terminals(t, way):
    home = up(t)
    for program, (argv, keys, answer) in PROGRAMS.items():
        if not shutil.which(argv[0]):
            t.skip(program, "%s is not installed" % argv[0])
            continue
        controlling = way != "gone"
        with Seat(home, "run", "-t", "--name", program, "--", *argv, controlling=controlling) as seat:
            seat.attached()
            ready(seat, program)
            seat.asks(keys, answer)
            leave(seat, way)
        still_talks(t, "run-%s" % program, home, program, keys, answer)
        if not lives(home, program):
            continue
        with Seat(home, "attach", program, controlling=controlling) as seat:
            seat.attached()
            seat.asks(keys, answer)
            leave(seat, way)
        still_talks(t, "attach-%s" % program, home, program, keys, answer)
    home("down", "--kill")


def ready(seat, program):
    """Keys that come before a program has set up its terminal are the line discipline's."""
    seat.until({"raw": b"raw-ready", "vim": b"~", "python3": b">>>", "bash": b"bash-", "cat": b""}[program])


@area("hangup-closed")
def closed(t):
    terminals(t, "closed")


@area("hangup-gone")
def gone(t):
    """The terminal ends and no signal says so."""
    terminals(t, "gone")


@area("hangup-signal")
def signalled(t):
    terminals(t, "hup")


@area("hangup-killed")
def killed(t):
    terminals(t, "kill")


class FarSeat(Seat):
    """Somebody at the other end of an ssh connection."""

    def __init__(self, home, sshd, command):
        argv = sshd.argv("cd %s && HOME=%s exec %s %s" % (home.dir, home.dir, home.program, command))
        argv[argv.index("-T")] = "-tt"
        self.sshd = sshd
        super().__init__(home, argv=argv, env=os.environ)

    def cut(self):
        """The connection is cut at both ends, as when a laptop is closed and the server gives up on it."""
        for pid in self.sshd.sessions():
            # Some of them end by themselves.
            with contextlib.suppress(OSError), open("/proc/%d/comm" % pid) as f:
                if f.read().startswith("sshd"):
                    os.kill(pid, signal.SIGKILL)
        self.child.kill()


@area("hangup-ssh")
def over_ssh(t):
    absent = [p for p in ("sshd", "ssh", "ssh-keygen") if not shutil.which(p)]
    if absent:
        return t.skip("all", "missing programs: %s" % " ".join(absent))
    home, sshd = House(t), Sshd(t.tmp())
    try:
        for program, (argv, keys, answer) in PROGRAMS.items():
            if not shutil.which(argv[0]):
                t.skip(program, "%s is not installed" % argv[0])
                continue
            words = " ".join("'%s'" % word.replace("'", "'\\''") for word in argv)
            for verb in ("run -t --name %s -- %s" % (program, words), "attach %s" % program):
                with FarSeat(home, sshd, verb) as seat:
                    seat.attached_there(home.program)
                    if verb.startswith("run"):
                        ready(seat, program)
                    seat.asks(keys, answer)
                    seat.cut()
                if not nobody_attached(home, program):
                    t.ok("%s-%s-client-ends" % (verb.split()[0], program), False, process(home, program).get("attached"))
                still_talks(t, "%s-%s" % (verb.split()[0], program), home, program, keys, answer)
        with FarSeat(home, sshd, "run --name piped -- cat") as seat:
            # Before it runs, the echo is that of the terminals on the way.
            if not wait_for(lambda: lives(home, "piped"), LONG, 0.1):
                raise Fail("it should run: %r" % seat.seen)
            seat.asks(b"hello\n", b"hello\r\nhello")
            seat.cut()
        t.ok("run-client-ends", nobody_attached(home, "piped"), process(home, "piped"))
        with Seat(home, "attach", "piped") as seat:
            seat.until(b"hello")
            seat.asks(b"again\n", b"again\r\nagain")
            t.ok("run-hears", True)
            seat.type(b"\x04")
            seat.wait()
        sessions_over_ssh(t, home, sshd)
    finally:
        sshd.stop()
        home("down", "--kill")


def sessions_over_ssh(t, house, sshd):
    id = house.new()
    with FarSeat(house, sshd, "send %s SLOW:8" % id) as seat:
        seat.until(b"1 2")
        seat.cut()
    goes_on(t, "send", house, id)
    house.good("send", id, "ASK", "--no-wait")
    request = house.waiting(id)
    with FarSeat(house, sshd, "approvals") as seat:
        seat.until(request.encode()[:6])
        seat.cut()
    t.eq("approvals-decides-nothing", house.info(id).get("approvals"), [request])
    answered_elsewhere(t, "approvals", house, id, request)


def goes_on(t, case, house, id):
    """The turn of a session whose client is gone ends well, and the session takes the next prompt."""
    house.until(id, "idle")
    ends = [e["reason"] for e in house.events(id) if e["type"] == "turn_ended"]
    t.eq("%s-the-turn-goes-on" % case, ends[-1:], ["completed"])
    t.ok("%s-the-session-hears" % case, "again" in house.good("send", id, "again"))


def answered_elsewhere(t, case, house, id, request):
    with Seat(house, "approve", request) as seat:
        seat.until(b"[y/N] ")
        # A key counts once the question has stood for a while.
        if not wait_for(lambda: seat.type(b"y") or seat.look(0.2) or b"approved by" in seat.seen, LONG, 0.2):
            raise Fail("y does nothing: %r" % seat.seen)
        t.eq("%s-it-is-answered-elsewhere" % case, seat.wait(), 0)
    goes_on(t, case, house, id)


@area("hangup-pipes")
def pipes(t):
    """`run` without a terminal of its own: whoever leaves ends no input; Ctrl-D and the end of a file do."""
    home = up(t)
    programs = {"cat": (["cat"], b"hello\n", b"hello\r\nhello"), "bash": (["bash"], b"echo $((40+2))-sh\n", b"42-sh"),
                "python3": (["python3", "-uc", "while True: print(eval(input()))"], b"str(6*7)+'py'\n", b"42py")}
    for way in WAYS:
        for program, (argv, keys, answer) in programs.items():
            name, case = "%s-%s" % (program, way), "%s-%s" % (way, program)
            with Seat(home, "run", "--name", name, "--", *argv, controlling=way != "gone") as seat:
                seat.asks(keys, answer)
                leave(seat, way)
            alive = lives(home, name)
            t.ok(case + "-lives", alive, process(home, name))
            if not alive:
                continue
            with Seat(home, "attach", name) as seat:
                seat.asks(keys, answer)
                t.ok(case + "-hears", True)
                seat.type(b"\x04")
                seat.wait()
            t.ok(case + "-ctrl-d-ends-its-input", wait_for(lambda: not lives(home, name), LONG), process(home, name))
    rc, o, _ = home("run", "--", "cat", stdin=b"whole\n")
    t.eq("the-end-of-a-file-ends-its-input", (rc, o), (0, "whole\n"))
    home("down", "--kill")


@area("hangup-keys")
def keys_that_leave(t):
    home = up(t)
    argv, keys, answer = PROGRAMS["raw"]
    with Seat(home, "run", "-t", "--name", "muted", "--", *argv) as seat:
        seat.until(b"raw-ready")
        seat.type(DETACH)
        seat.wait()
    Wire(home_socket(home)).call("process.close_stdin", id="muted")
    with Seat(home, "attach", "muted") as seat:
        seat.attached()
        # The first key, not only those after it.
        seat.type(b"a")
        stop = time.monotonic() + LONG
        while b"takes no input" not in seat.seen and time.monotonic() < stop:
            seat.look(0.2)
        t.ok("refused-input-is-said", b"the last 1 bytes typed were not accepted" in seat.seen and b"takes no input" in seat.seen, seat.seen)
        seat.type(DETACH)
        t.eq("refused-input-can-be-left", seat.wait(), 0)
        t.ok("the-terminal-is-given-back", seat.modes_are_back())
    read_only(t, home)
    home("down", "--kill")


def home_socket(home):
    with open(home.state + "/instances/main/instance.json") as f:
        return json.load(f)["native"]


def read_only(t, home):
    draws = r": >read; printf '\033[?1049h\033[?1000h\033[?25l\033[?2004hdrawn'; stty raw -echo; cat >>read; sleep 1000"
    with Seat(home, "run", "-t", "--name", "drawer", "--", "sh", "-c", draws) as seat:
        seat.until(b"drawn")
        seat.type(DETACH)
        seat.wait()
    with Seat(home, "attach", "drawer", "--read-only") as seat:
        seat.until(b"drawn")
        t.ok("read-only-keeps-the-screen", b"\x1b[?1049h" in seat.seen, seat.seen)
        seat.seen = b""
        seat.type(b"secret\r")
        seat.type(DETACH)
        t.eq("read-only-hears-the-key", seat.wait(), 0)
        t.ok("read-only-echoes-nothing", b"secret" not in seat.seen, seat.seen)
        for mode in (b"\x1b[?1049l", b"\x1b[?1000l", b"\x1b[?2004l", b"\x1b[?25h"):
            t.ok("read-only-gives-back-%s" % mode[3:-1].decode(), mode in seat.seen, seat.seen)
        t.ok("read-only-gives-the-modes-back", seat.modes_are_back())
    t.eq("read-only-passes-nothing-on", open(home.dir + "/read").read(), "")
    with Seat(home, "attach", "drawer", "--read-only") as seat:
        seat.until(b"drawn")
        seat.type(b"\x03")
        t.eq("read-only-ctrl-c-leaves", seat.wait(), 130)
    home.good("run", "-d", "--name", "pipe", "--", "sh", "-c", "echo piped; exec sleep 1000")
    with Seat(home, "attach", "pipe", "--read-only") as seat:
        seat.until(b"piped")
        seat.seen = b""
        seat.type(b"secret\r" + DETACH)
        t.eq("read-only-pipe-hears-the-key", seat.wait(), 0)
        t.ok("read-only-pipe-echoes-nothing", b"secret" not in seat.seen, seat.seen)
        t.ok("read-only-pipe-gives-the-modes-back", seat.modes_are_back())


@area("hangup-sizes")
def sizes(t):
    home = up(t)

    def size_is(case, want):
        text = b"[%d %d]" % want
        stop = time.monotonic() + LONG
        while True:
            large.seen = b""
            large.type(b"echo [$(stty size)]\r")
            try:
                large.until(text, 1)
                return t.ok(case, True)
            except Fail as error:
                if time.monotonic() > stop:
                    return t.ok(case, False, str(error))

    with Seat(home, "run", "-t", "--name", "sized", "--", "bash", "--norc", "--noprofile", size=(40, 100)) as large:
        large.attached()
        size_is("one-terminal-has-its-own-size", (40, 100))
        for way in WAYS + ("key",):
            with Seat(home, "attach", "sized", size=(24, 120), controlling=way != "gone") as small:
                small.attached()
                size_is("the-smallest-rules-%s" % way, (24, 100))
                if way == "key":
                    small.type(DETACH)
                    small.wait()
                else:
                    leave(small, way)
            size_is("the-size-comes-back-%s" % way, (40, 100))
        for flag in ("--no-resize", "--read-only"):
            with Seat(home, "attach", "sized", flag, size=(10, 40)) as small:
                small.attached()
                wait_for(lambda: len(process(home, "sized")["attached"]) == 2, LONG, 0.1)
                size_is("who-does-not-count-changes-nothing%s" % flag, (40, 100))
                two = process(home, "sized")["attached"]
                t.eq("ps-says-who%s" % flag, sorted(v["pid"] for v in two), sorted([large.pid(), small.pid()]))
                t.eq("ps-says-who-types%s" % flag, sorted(v["types"] for v in two), [flag == "--no-resize", True])
                row = next(line for line in home.good("ps").splitlines() if "sized" in line)
                t.ok("ps-counts-them%s" % flag, " 2 (100x40) " in row, row)
        with Seat(home, "attach", "sized", size=(24, 80)) as small:
            small.attached()
            size_is("the-smallest-rules-before-a-crash", (24, 80))
            os.kill(home.daemon_pid(), signal.SIGKILL)
            large.until(b"reconnected")
            small.until(b"reconnected")
            size_is("the-smallest-rules-after-a-crash", (24, 80))
        size_is("the-size-comes-back-after-a-crash", (40, 100))
    t.ok("ps-shows-that-nobody-is-attached", nobody_attached(home, "sized"), process(home, "sized"))
    home("down", "--kill")


# Writes down every byte that it reads, and nothing on its terminal.
NOTES = "import os, tty\ntty.setraw(0)\nos.write(1, b'raw-ready')\nf = os.open('notes', os.O_WRONLY | os.O_CREAT | os.O_APPEND)\nwhile True: os.write(f, os.read(0, 65536))"


@area("hangup-typed")
def typed_across_kills(t):
    """Two people type while the daemon is killed again and again: every key arrives once and in order, or is said to be unsure."""
    home = up(t)
    with Seat(home, "run", "-t", "--name", "notes", "--", "python3", "-c", NOTES) as one:
        one.until(b"raw-ready")
        with Seat(home, "attach", "notes") as two:
            two.attached()
            type_through_kills(t, home, one, two)
    home("down", "--kill")


def word(mark, number):
    """Each of the two has signs of its own, so that what they type can be told apart however it is mixed."""
    digits = b"%05d" % number
    return mark + (digits if mark == b"a" else bytes(byte + 17 for byte in digits))


def type_through_kills(t, home, one, two):
    typed, kills, wait, shown = {b"a": 0, b"b": 0}, 0, time.monotonic(), {one: b"", two: b""}
    while kills < 8:
        for seat, mark in ((one, b"a"), (two, b"b")):
            seat.type(word(mark, typed[mark]))
            typed[mark] += 1
            seat.look(0)
        time.sleep(0.002)
        if time.monotonic() - wait > 0.7:
            os.kill(home.daemon_pid(), signal.SIGKILL)
            kills, wait = kills + 1, time.monotonic()
            for seat in (one, two):
                # Every kill is judged; a terminal that is searched again and again is kept short.
                shown[seat] += seat.seen
                seat.seen = b""
    total = 6 * sum(typed.values())
    notes = home.dir + "/notes"
    arrived = wait_for(lambda: os.path.exists(notes) and os.path.getsize(notes) >= total, LONG, 0.1)
    for seat in (one, two):
        for _ in range(20):
            seat.look(0.05)
        shown[seat] += seat.seen
    got = open(notes, "rb").read()
    t.ok("all-of-it-arrives", arrived, "%d of %d bytes" % (len(got), total))
    for mark, signs in ((b"a", b"a0123456789"), (b"b", b"bABCDEFGHIJ")):
        theirs = bytes(byte for byte in got if byte in signs)
        t.ok("each-key-once-and-in-order-%s" % mark.decode(), theirs == b"".join(word(mark, n) for n in range(typed[mark])),
             "%d of %d bytes" % (len(theirs), 6 * typed[mark]))
    unsure = [text[-300:] for text in shown.values() if b"may not have arrived" in text]
    t.eq("nobody-is-told-that-something-is-unsure", unsure, [])


@area("hangup-unsure")
def unsure_is_not_nothing_lost(t):
    """What is said after a crash is what is known."""
    home = up(t)
    with Seat(home, "run", "-t", "--name", "quiet", "--", "sleep", "1000") as seat:
        seat.attached()
        os.kill(home.daemon_pid(), signal.SIGKILL)
        seat.until(b"reconnected; nothing was lost")
        t.ok("nothing-typed-nothing-lost", True)
        seat.seen = b""
        home("down", "--keep")
        seat.until(b"connection lost")
        seat.type(b"typed while nobody was there")
        seat.type(DETACH)
        t.eq("who-waits-for-a-daemon-can-leave", seat.wait(), 0)
    home.good("up")
    with Seat(home, "attach", "quiet") as seat:
        seat.attached()
        # Both are there when it looks: keys, and that nobody takes them.
        seat.child.send_signal(signal.SIGSTOP)
        home("down", "--keep")
        seat.type(b"typed to nobody" + DETACH)
        seat.child.send_signal(signal.SIGCONT)
        code = seat.wait()
        t.ok("who-leaves-as-the-daemon-goes-leaves", code == 0, (code, seat.seen))
    home.good("up")
    home("down", "--kill")


@area("hangup-sessions")
def sessions(t):
    house = House(t)
    for way in WAYS:
        id = house.new()
        with Seat(house, "send", id, "SLOW:8", controlling=way != "gone") as seat:
            if not wait_for(lambda: house.info(id).get("status") == "running", LONG, 0.1):
                raise Fail("the turn should run: %s" % house.info(id))
            leave(seat, way)
        goes_on(t, "send-%s" % way, house, id)
    id = house.new()
    for controlling in (True, False):
        with Seat(house, "send", id, controlling=controlling) as seat:
            seat.until(b"Ctrl-D")
            seat.type(b"half a prompt\r")
            seat.hang_up()
            seat.child.wait(LONG)
    t.eq("half-a-prompt-is-not-sent", [e for e in house.events(id) if e["type"] == "prompt"], [])
    id = house.new()
    house.good("send", id, "ASK", "--no-wait")
    request = house.waiting(id)
    with Seat(house, "approvals", controlling=False) as seat:
        # So no terminal of it can go without a signal.
        seat.until(b"has no terminal")
        t.ok("approvals-needs-a-terminal-that-tells-its-end", seat.wait() != 0)
    for way in ("closed", "hup", "kill"):
        with Seat(house, "approvals") as seat:
            seat.until(request.encode()[:6])
            leave(seat, way)
        t.eq("approvals-%s-decides-nothing" % way, house.info(id).get("approvals"), [request])
    with Seat(house, "approve", request) as seat:
        seat.until(b"?")
    t.eq("approve-closed-decides-nothing", house.info(id).get("approvals"), [request])
    answered_elsewhere(t, "approvals", house, id, request)
    house.down()
