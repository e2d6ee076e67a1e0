"""An ordinary user whose sudo asks for a password."""
import os
import re
import shutil
import subprocess

from account import Account
from approvals_kit import LONG, House, Terminal, Tmux
from kit import Fail
from lib import area, wait_for

PASSWORD = "correct horse 17"


@area("approvals-password")
def password(t):
    """An ordinary user whose sudo asks for a password: it is typed into the approving terminal and kept nowhere."""
    if os.geteuid() != 0 or not shutil.which("useradd") or not shutil.which("sudo"):
        return t.skip("user", "needs root, useradd and sudo")
    account = Account(PASSWORD, "ALL=(root) ALL")
    name, user, house = account.name, account.user, None
    try:
        house = House(t, user)
        # The program must be readable for that user, wherever it was built.
        program = house.dir + "/ostler"
        shutil.copy(house.program, program)
        os.chmod(program, 0o755)
        house.program = program
        os.chmod(house.dir, 0o700)
        os.chown(house.dir, user.pw_uid, user.pw_gid)
        house.env.update(USER=name, LOGNAME=name)
        as_user = ["setpriv", "--reuid=%d" % user.pw_uid, "--regid=%d" % user.pw_gid, "--clear-groups", program]
        wrapper = t.tmp() + "/ostler-as-user"
        with open(wrapper, "w") as f:
            f.write("#!/bin/sh\nexec %s \"$@\"\n" % " ".join(as_user))
        os.chmod(wrapper, 0o755)
        house.program = wrapper
        house.up()
        asker = house.ask(["id", "-u"], privileged=True)
        one = house.waiting()[0]
        term = Terminal(house, "approve", one["id"])
        term.press(b"y")
        term.until(b"assword", LONG)
        term.type(PASSWORD.encode() + b"\r")
        code = term.wait(LONG)
        answer = asker.answer()
        t.ok("sudo-asked-here-and-it-ran", code == 0 and answer.get("text") == "0\n", (code, answer, term.seen))
        t.ok("the-password-is-not-shown", PASSWORD.encode() not in term.seen, term.seen)
        t.ok("it-says-how-it-ended", b"exit 0" in term.seen, term.seen)
        t.eq("the-password-is-kept-nowhere", house.holds(PASSWORD.encode()), [])
        if shutil.which("tmux"):
            stopped(t, house)
        rc, o, e = house("doctor")
        t.ok("doctor-sees-that-sudo-wants-a-password", "sudo asks for a password" in o, o)
        account.policy("ALL=(root) NOPASSWD: ALL")
        rc, o, e = house("doctor")
        t.ok("doctor-warns-when-sudo-wants-none", re.search(r"weak approvals .*without asking", o), o)
    finally:
        if house:
            house.down()
        account.remove()


def stopped(t, house):
    """Ctrl-Z while sudo asks: the shell gets its terminal as it was, and `fg` finds the question again."""
    asker = house.ask(["id", "-u"], privileged=True)
    one = house.waiting()[0]
    screen = Tmux(house, "/bin/sh")
    try:
        screen.line("%s approve %s" % (house.program, one["id"]))
        screen.until("[y/N]")
        if not wait_for(lambda: screen.keys("y") or wait_for(lambda: "password for" in screen.screen(), 5, 0.1), LONG, 0.1):
            raise Fail("sudo does not ask: %s" % screen.screen())
        screen.keys("-l", "half of it")
        screen.keys("C-z")
        screen.until("Stopped")
        sane, text = screen.sane("approve")
        t.ok("ctrl-z-at-the-password-gives-the-terminal-back", sane, text)
        screen.line("clear; fg")
        screen.until("password for")
        screen.keys("-l", PASSWORD)
        screen.keys("Enter")
        screen.until("exit 0")
        t.eq("fg-finds-the-question-again", asker.answer().get("text"), "0\n")
        sane, text = screen.sane("end")
        t.ok("the-terminal-is-as-it-was-at-the-end", sane, text)
    finally:
        screen.close()
