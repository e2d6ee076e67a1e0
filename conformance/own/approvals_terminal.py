"""The terminal at which a person decides, attacked by what ostler hosts. All of it as an ordinary user: root opens anything."""
import contextlib
import fcntl
import os
import shlex
import shutil
import signal
import struct

from account import Account
from approvals_kit import LONG, House, Terminal, Tmux
from lib import Fail, area, wait_for

PASSWORD = "correct horse 18"
TIOCGEXCL = 0x80045440
TIOCGPTN = 0x80045430
# Opens a terminal by its name, draws on it, and takes what is typed next.
ATTACK = ("import os,sys\n"
          "try: fd = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)\n"
          "except OSError as error: sys.exit('refused: ' + error.strerror)\n"
          "os.write(fd, b'painted by an agent')\nprint('open', flush=True)\nprint('stolen', os.read(fd, 64), flush=True)\n")
# Has it open, and waits.
HOLDS = "import os,sys,time\nfd = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)\nprint('open', flush=True)\ntime.sleep(600)\n"
# Shows nobody what it has open.
HIDES = "import ctypes,sys,time\nctypes.CDLL(None).prctl(4, 0)\nprint('open', flush=True)\ntime.sleep(600)\n"


@contextlib.contextmanager
def household(t, policy="ALL=(root) ALL"):
    """An ordinary user whose daemon takes requests."""
    account = Account(PASSWORD, policy)
    user, house = account.user, None
    try:
        house = House(t, user)
        program = house.dir + "/ostler"
        shutil.copy(house.program, program)
        os.chmod(program, 0o755)
        os.chmod(house.dir, 0o700)
        os.chown(house.dir, user.pw_uid, user.pw_gid)
        house.env.update(USER=account.name, LOGNAME=account.name)
        wrapper = t.tmp() + "/ostler-as-user"
        with open(wrapper, "w") as f:
            f.write("#!/bin/sh\nexec setpriv --reuid=%d --regid=%d --clear-groups %s \"$@\"\n" % (user.pw_uid, user.pw_gid, program))
        os.chmod(wrapper, 0o755)
        house.program = wrapper
        yield house.up()
    finally:
        if house:
            house.down()
        account.remove()


class Seat(Terminal):
    """A person's terminal, which is theirs."""

    def __init__(self, house, *args):
        super().__init__(house, *args)
        self.name = "/dev/pts/%d" % struct.unpack("I", fcntl.ioctl(self.fd, TIOCGPTN, b"\0" * 4))[0]
        self.own(house)

    def own(self, house):
        os.chown(self.name, house.user.pw_uid, house.user.pw_gid)

    def locked(self):
        fd = os.open(self.name, os.O_RDWR | os.O_NOCTTY)
        try:
            return struct.unpack("i", fcntl.ioctl(fd, TIOCGEXCL, b"\0" * 4))[0] != 0
        finally:
            os.close(fd)

    def end(self):
        """Hangs up."""
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def shell(house):
    """A person at a shell of their own user."""
    house.program, program = "/bin/sh", house.program
    try:
        seat = Seat(house, "-c", "exec setpriv --reuid=%d --regid=%d --clear-groups /bin/sh -i" % (house.user.pw_uid, house.user.pw_gid))
    finally:
        house.program = program
    seat.type(b"PS1='> '; stty -echo\r")
    return seat


def hosted(house, script, *args):
    """A hosted program, and the first that it says."""
    id = house.good("run", "-d", "--", "python3", "-c", script, *args).split()[0]
    if not wait_for(lambda: house("logs", id)[1] + house("logs", id)[2], LONG, 0.1):
        raise Fail("the attacker says nothing")
    return id


def said(house, id):
    rc, out, err = house("logs", id)
    return out + err


@area("approvals-terminal")
def terminal(t):
    """Whoever is hosted neither reads the terminal that decides nor draws on it."""
    if os.geteuid() != 0 or not shutil.which("useradd") or not shutil.which("sudo"):
        return t.skip("user", "needs root, useradd and sudo")
    with household(t) as house:
        seat = shell(house)
        thief = hosted(house, ATTACK, seat.name)
        seat.until(b"painted by an agent", LONG)

        def stolen():
            seat.type(b": a secret\r")
            return "stolen" in said(house, thief)
        t.ok("control-a-terminal-that-decides-nothing-is-open-to-all", wait_for(stolen, LONG, 0.1), said(house, thief))
        seat.end()
        asker = house.ask(["id", "-u"], privileged=True)
        id = house.waiting()[0]["id"]
        attacked(t, house, id, asker)
        held_before(t, house)
        given_back(t, house)


def attacked(t, house, id, asker):
    seat = Seat(house, "approve", id)
    seat.until(b"[y/N] ", LONG)
    t.ok("it-is-locked-while-it-asks", seat.locked())
    thief = hosted(house, ATTACK, seat.name)
    t.ok("nobody-hosted-opens-it", "busy" in said(house, thief).lower(), said(house, thief))
    seat.press(b"y")
    seat.until(b"assword", LONG)
    thief = hosted(house, ATTACK, seat.name)
    t.ok("nor-while-the-password-is-typed", "busy" in said(house, thief).lower(), said(house, thief))
    seat.type(PASSWORD.encode() + b"\r")
    code = seat.wait(LONG)
    t.ok("the-person-decides-all-the-same", code == 0 and asker.answer().get("text") == "0\n", seat.seen)
    t.ok("nothing-was-painted", b"painted" not in seat.seen, seat.seen)


def held_before(t, house):
    """Whoever has it open from before is named, and nothing is asked."""
    asker = house.ask(["true"])
    id = house.waiting()[0]["id"]
    seat = shell(house)
    thief = hosted(house, HOLDS, seat.name)
    pid = next(p["pid"] for p in house.json("ps") if p["id"] == thief)
    for verb in ("approve " + id, "approvals"):
        seat.seen = b""
        seat.type(("%s/ostler %s; echo r''c-$?\r" % (shlex.quote(house.dir), verb)).encode())
        seat.until(b"rc-", LONG)
        words = ("pid %d (python3)" % pid).encode()
        t.ok("who-has-it-open-before-is-named-by-%s" % verb.split()[0], words in seat.seen and b"has this terminal open" in seat.seen
             and b"[y/N]" not in seat.seen, seat.seen)
    house("kill", thief, "--wait")
    hidden = hosted(house, HIDES)
    seat.seen = b""
    seat.type(("%s/ostler approve %s; echo r''c-$?\r" % (shlex.quote(house.dir), id)).encode())
    seat.until(b"[y/N] ", LONG)
    pid = next(p["pid"] for p in house.json("ps") if p["id"] == hidden)
    t.ok("who-hides-what-it-has-open-is-named", ("pid %d (python3)" % pid).encode() in seat.seen and b"hides which files" in seat.seen, seat.seen)
    seat.press(b"n")
    seat.until(b"rc-", LONG)
    house("kill", hidden, "--wait")
    seat.seen = b""
    seat.type(("%s/ostler approve %s; echo r''c-$?\r" % (shlex.quote(house.dir), id)).encode())
    seat.press(b"y")
    seat.until(b"rc-0", LONG)
    t.eq("when-they-are-gone-it-is-asked", asker.answer().get("status"), "ok")
    seat.end()


def given_back(t, house):
    """Every end gives it back; after SIGKILL the next command does."""
    asker = house.ask(["true"])
    id = house.waiting()[0]["id"]
    seat = shell(house)
    approve = ("%s/ostler approve %s; echo r''c-$?\r" % (shlex.quote(house.dir), id)).encode()

    def asking():
        seat.seen = b""
        # Whoever was killed left the terminal as it was.
        seat.type(b"\nstty sane -echo; echo sa''ne\n")
        seat.until(b"sane", LONG)
        seat.type(approve)
        seat.until(b"[y/N] ", LONG)
        if not seat.locked():
            raise Fail("it is not locked")
        return int(os.popen("pgrep -u %d -f 'ostler approve %s$'" % (house.user.pw_uid, id)).read().split()[0])
    asking()
    seat.press(b"n")
    seat.until(b"rc-", LONG)
    t.ok("a-no-gives-it-back", not seat.locked())
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGALRM, signal.SIGABRT):
        os.kill(asking(), number)
        seat.until(b"rc-", LONG)
        t.ok("%s-gives-it-back" % number.name.lower(), wait_for(lambda: not seat.locked(), LONG, 0.1))
    os.kill(asking(), signal.SIGKILL)
    seat.until(b"rc-137", LONG)
    t.ok("sigkill-leaves-it-locked", seat.locked())
    seat.seen = b""
    seat.type(b"\nstty sane -echo; (exec 3<>/dev/tty) && echo not-busy; echo done-1\n")
    seat.until(b"done-1", LONG)
    t.ok("and-dev-tty-is-busy", b"not-busy" not in seat.seen and b"usy" in seat.seen, seat.seen)
    seat.type(("%s/ostler ps; (exec 3<>/dev/tty) && echo not-busy; echo done-2\r" % shlex.quote(house.dir)).encode())
    seat.until(b"done-2", LONG)
    t.ok("the-next-command-clears-it", not seat.locked() and b"not-busy" in seat.seen, seat.seen)
    asking()
    os.kill(int(os.popen("pgrep -u %d -f 'ostler approve %s$'" % (house.user.pw_uid, id)).read().split()[0]), signal.SIGTSTP)
    stopped = wait_for(lambda: not seat.locked(), LONG, 0.1)
    t.ok("who-is-stopped-gives-it-back", stopped)
    seat.seen = b""
    seat.type(b"\nfg\n")
    t.ok("and-takes-it-again", wait_for(seat.locked, LONG, 0.1), seat.seen)
    seat.end()
    house("deny", id)
    if shutil.which("tmux"):
        panes(t, house)


def panes(t, house):
    """A window of tmux is named as what it is."""
    house.ask(["true"])
    id = house.waiting(2)[-1]["id"]
    screen = Tmux(house, house.program, "approve", id)
    try:
        t.ok("a-tmux-window-is-named", "this is a tmux window" in screen.until("[y/N]"), screen.screen())
    finally:
        screen.close()
