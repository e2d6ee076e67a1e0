"""Terminals that end in every way that a terminal ends."""
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from kit import Fail
from lib import wait_for

LONG = 30
DETACH = b"\x1d"

# Reads every key as it is and says which it was; Ctrl-D and Ctrl-C are keys like all others.
RAW = """
import os, sys, tty
tty.setraw(0)
os.write(1, b"raw-ready\\r\\n")
while True:
    for key in os.read(0, 1024):
        os.write(1, b"<%d>" % key)
"""

# What to run, what to type, and what it shows only when it has read that.
PROGRAMS = {
    "bash": (["bash", "--norc", "--noprofile"], b"echo $((40+2))-bash\r", b"42-bash"),
    "cat": (["cat"], b"hello\r", b"hello\r\nhello"),
    "python3": (["python3", "-q"], b"print(6*7, 'py')\r", b"42 py"),
    "vim": (["vim", "-u", "NONE", "-N", "-n"], b"\x1b:echo 40+2 'vi'\r", b"42 vi"),
    "raw": (["python3", "-c", RAW], b"\x04\x03a", b"<4><3><97>"),
}


def set_size(fd, rows, cols):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def terminals_of(program):
    """Where clients of this program that follow a process have their keys from."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        # They come and go.
        with contextlib.suppress(OSError):
            with open("/proc/%s/cmdline" % pid) as f:
                words = f.read().split("\0")
            if words[0] == program and words[1] in ("run", "attach"):
                yield os.readlink("/proc/%s/fd/0" % pid)


def is_raw(tty):
    try:
        fd = os.open(tty, os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return not termios.tcgetattr(fd)[3] & termios.ICANON
    finally:
        os.close(fd)


class Seat:
    """Somebody at a terminal. `controlling`: the kernel sends SIGHUP when it ends; else nothing but the end of the terminal
    tells the program."""

    def __init__(self, home, *args, controlling=True, size=(24, 80), argv=None, env=None):
        self.master, slave = pty.openpty()
        set_size(self.master, *size)
        self.before = termios.tcgetattr(slave)
        argv = argv or [home.program] + list(args)
        command = (["setsid", "--ctty", "--wait"] if controlling else ["setsid", "--wait"]) + argv
        self.child = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, cwd=home.dir,
                                      env=dict(env or home.env, TERM="xterm"), start_new_session=False)
        # Kept to look at the modes of the terminal; closed with the master.
        self.slave = slave
        self.seen = b""

    def pid(self):
        """The program itself, which setsid has forked or become."""
        own = self.child.pid
        try:
            with open("/proc/%d/task/%d/children" % (own, own)) as f:
                kids = f.read().split()
        except OSError:
            kids = []
        return int(kids[0]) if kids else own

    def type(self, data):
        os.write(self.master, data)

    def look(self, wait=0.05):
        if select.select([self.master], [], [], wait)[0]:
            try:
                self.seen += os.read(self.master, 65536)
            except OSError:
                pass

    def until(self, text, timeout=LONG):
        stop = time.monotonic() + timeout
        while text not in self.seen:
            if time.monotonic() > stop:
                raise Fail("terminal did not show %r: %r" % (text, self.seen[-600:]))
            self.look()

    def attached(self):
        """Every key goes through from now on."""
        self.until(b"leave it with")
        if not wait_for(lambda: not termios.tcgetattr(self.slave)[3] & termios.ICANON, LONG, 0.01):
            raise Fail("the terminal is not raw: %r" % self.seen[-600:])

    def attached_there(self, program):
        """The same where the client runs at the other end of a connection, on a terminal that is not ours."""
        self.until(b"leave it with")
        if not wait_for(lambda: any(is_raw(tty) for tty in terminals_of(program)), LONG, 0.01):
            raise Fail("the terminal there is not raw: %r" % self.seen[-600:])

    def asks(self, keys, answer, timeout=LONG):
        """Types, and waits for what only the answer shows."""
        self.seen = b""
        self.type(keys)
        self.until(answer, timeout)

    def modes_are_back(self):
        return termios.tcgetattr(self.slave)[3] == self.before[3]

    def wait(self, timeout=LONG):
        stop = time.monotonic() + timeout
        while self.child.poll() is None:
            if time.monotonic() > stop:
                raise Fail("still there: %r" % self.seen[-600:])
            self.look()
        self.look(0)
        return self.child.returncode

    def hang_up(self):
        os.close(self.slave)
        os.close(self.master)
        self.slave = self.master = -1

    def close(self):
        for fd in (self.slave, self.master):
            if fd >= 0:
                os.close(fd)
        self.slave = self.master = -1
        if self.child.poll() is None:
            for pid in (self.pid(), self.child.pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
        self.child.wait(LONG)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def leave(seat, way):
    """Ends the client in this way, and waits until it has."""
    if way in ("closed", "gone"):
        seat.hang_up()
    elif way == "hup":
        os.kill(seat.pid(), signal.SIGHUP)
    else:
        os.kill(seat.pid(), signal.SIGKILL)
    try:
        seat.child.wait(LONG)
    except subprocess.TimeoutExpired:
        raise Fail("the client did not end (%s)" % way)


def process(home, name):
    return next((p for p in home.json("ps", "-a") if p["name"] == name), {})


def lives(home, name):
    return process(home, name).get("state") == "running"


def nobody_attached(home, name):
    return wait_for(lambda: process(home, name).get("attached") == [], LONG, 0.1)


SEQUENCE = re.compile(rb"\x1b(?:\[([?0-9;]*)([@-~])|([78D]))|([\r\n\x08\x07])|([^\x1b\r\n\x08\x07]+)")


def screen(seen, rows=24, cols=80):
    """What a terminal shows after these bytes, row by row: as much of one as a line that is typed needs."""
    grid, row, col, saved = [[" "] * cols for _ in range(rows)], 0, 0, (0, 0)

    def down():
        nonlocal row
        if row + 1 < rows:
            row += 1
        else:
            grid.append([" "] * cols)
            del grid[0]

    for arguments, command, short, control, text in SEQUENCE.findall(seen):
        if text:
            for letter in text.decode(errors="replace"):
                if col == cols:
                    col = 0
                    down()
                grid[row][col] = letter
                col += 1
        elif control == b"\r":
            col = 0
        elif control == b"\n" or short == b"D":
            down()
        elif short == b"7":
            saved = (row, col)
        elif short == b"8":
            row, col = saved
        elif command == b"A":
            row = max(0, row - int(arguments or b"1"))
        elif command == b"K":
            grid[row] = [" "] * cols if arguments == b"2" else grid[row][:col] + [" "] * (cols - col)
    return ["".join(letters).rstrip() for letters in grid]
