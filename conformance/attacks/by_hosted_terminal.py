"""A hosted process at the terminal on which a person decides: it reads keys, paints another question, types."""
import fcntl
import os
import re
import select
import shutil
import signal
import struct
import termios
import time

from approvals_kit import LONG, House, Terminal
from lib import area, wait_for

# Opens terminals as anybody of this user may, says which it could, and paints.
OPEN = r'''
import fcntl, os, sys, time
for path in sys.argv[2:]:
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError as error:
        print("shut", path, error.strerror)
        continue
    os.write(fd, b"\r\nPAINTED [y/N] ")
    print("open", path)
sys.stdout.flush()
if sys.argv[1] == "stay":
    time.sleep(1000)
'''


def script(house):
    path = house.dir + "/open.py"
    with open(path, "w") as f:
        f.write(OPEN)
    return path


def opens(house, *paths):
    """Which of these terminals a hosted process can open."""
    rc, o, e = house("run", "--", shutil.which("python3"), script(house), "go", *paths, timeout=LONG)
    return re.findall(r"open (\S+)", o)


def seat(term):
    """The terminal on which a program runs: what stands behind our end of it."""
    with open("/proc/%d/stat" % term.pid) as f:
        device = int(f.read().rsplit(")", 1)[1].split()[4])
    return "/dev/pts/%d" % ((device & 0xff) | ((device >> 12) & 0xfff00))


def sized(house, *words):
    """A program on a terminal that has room for a screen."""
    term = Terminal(house, *words)
    fcntl.ioctl(term.fd, termios.TIOCSWINSZ, struct.pack("4H", 40, 120, 0, 0))
    return term


@area("hosted")
def terminal(t):
    """The approver's /dev/pts/N, before, while and after a question stands on it; and the one that sudo asks on."""
    house = House(t).up()
    asker = house.ask(["echo", "seen"])
    id = house.waiting()[0]["id"]
    try:
        master, slave = os.openpty()
        plain = os.ttyname(slave)
        t.control("a-terminal-that-asks-nothing-can-be-opened", opens(house, plain) == [plain])
        os.close(master)
        os.close(slave)
        for name, words in (("approve", ["approve", id]), ("inbox", ["approvals"]), ("now", [])):
            person = sized(house, *words)
            person.until(b"seen", LONG)
            found = opens(house, seat(person))
            t.stopped("open-the-terminal-of-%s" % name, found == [], found)
            os.kill(person.pid, signal.SIGINT if name == "approve" else signal.SIGTERM)
            person.wait()
        # Held from before: nothing may be asked there.
        master, slave = os.openpty()
        path = os.ttyname(slave)
        house.good("run", "-d", "--name", "holder", "--", shutil.which("python3"), script(house), "stay", path)
        wait_for(lambda: "open" in house("logs", "holder")[1], LONG, 0.1)
        person = On(house, master, slave, "approve", id)
        said = person.hear(5)
        t.stopped("hold-the-terminal-from-before", b"[y/N] " not in said.replace(b"PAINTED [y/N] ", b""), said)
        person.end()
        house("kill", "holder", "--wait")
        person = On(house, master, slave, "approve", id)
        t.control("without-a-holder-it-is-asked", b"[y/N] " in person.hear(LONG, b"[y/N] ").replace(b"PAINTED [y/N] ", b""))
        person.end()
        os.close(master)
        os.close(slave)
        asker.sock.close()
        if t.outside:
            password(t, house)
        else:
            t.skip("open-the-terminal-of-sudo", "needs a password that is known")
    finally:
        house.down()


class On:
    """A program on a terminal that is there already."""

    def __init__(self, house, master, slave, *words):
        self.master = master
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for fd in (0, 1, 2):
                os.dup2(slave, fd)
            os.closerange(3, 256)
            os.chdir(house.dir)
            os.execve(house.program, [house.program, *words], dict(house.env, TERM="xterm"))

    def hear(self, seconds, until=b"\0"):
        said, stop = b"", time.monotonic() + seconds
        while time.monotonic() < stop and until not in said.replace(b"PAINTED [y/N] ", b""):
            if select.select([self.master], [], [], 0.2)[0]:
                said += os.read(self.master, 65536)
            elif os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
        return said

    def end(self):
        os.kill(self.pid, signal.SIGTERM)
        if not wait_for(lambda: os.waitpid(self.pid, os.WNOHANG)[0], LONG, 0.05):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def password(t, house):
    asker = house.ask(["id", "-u"], privileged=True)
    person = Terminal(house, "approve", house.waiting()[0]["id"])
    person.press(b"y")
    person.until(b"assword", LONG)
    sudo = [int(d) for d in os.listdir("/proc") if d.isdigit() and is_sudo(d, house)]
    places = {seat(person)} | {seat(type("Process", (), {"pid": pid})) for pid in sudo}
    found = opens(house, *sorted(places))
    t.stopped("open-the-terminal-of-sudo", found == [] and len(places) == 2, (found, places))
    person.type(t.outside.facts["password"].encode() + b"\r")
    code = person.wait()
    t.control("a-person-types-the-password-there", code == 0 and asker.answer().get("text") == "0\n", person.seen)


def is_sudo(pid, house):
    """A sudo that waits for the password of our user: root's process, on a terminal, below our keeper."""
    try:
        with open("/proc/%s/comm" % pid) as f:
            if f.read().strip() != "sudo":
                return False
        with open("/proc/%s/cmdline" % pid, "rb") as f:
            return b"id\0-u" in f.read()
    except OSError:
        return False
