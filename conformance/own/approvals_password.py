"""An ordinary user whose sudo asks for a password."""
import os
import re
import select
import shutil
import signal
import time

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
    account, house = Account(PASSWORD, "ALL=(root) ALL"), None
    try:
        house = house_of(t, account)
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


def house_of(t, account):
    """A home whose programs run as that user."""
    user, house = account.user, House(t, account.user)
    # The program must be readable for that user, wherever it was built.
    program = house.dir + "/ostler"
    shutil.copy(house.program, program)
    os.chmod(program, 0o755)
    os.chmod(house.dir, 0o700)
    os.chown(house.dir, user.pw_uid, user.pw_gid)
    house.env.update(USER=account.name, LOGNAME=account.name)
    as_user = ["setpriv", "--reuid=%d" % user.pw_uid, "--regid=%d" % user.pw_gid, "--clear-groups", program]
    wrapper = t.tmp() + "/ostler-as-user"
    with open(wrapper, "w") as f:
        f.write("#!/bin/sh\nexec %s \"$@\"\n" % " ".join(as_user))
    os.chmod(wrapper, 0o755)
    house.program = wrapper
    return house


@area("approvals-record-locked")
def locked(t):
    """The keeper of an ordinary user without control groups is killed: nobody decides until a password was typed."""
    if os.geteuid() != 0 or not shutil.which("useradd") or not shutil.which("sudo"):
        return t.skip("user", "needs root, useradd and sudo")
    account, house = Account(PASSWORD, "ALL=(root) ALL"), None
    try:
        house = house_of(t, account).up()
        rule = Terminal(house, "rules", "add", "--", "echo", "ruled")
        t.eq("a-rule", rule.wait(), 0)
        t.ok("nothing-is-locked-at-first", "nothing is locked" in "".join(map(str, unlock(house))))
        status = house.json("status")[0]
        os.kill(status["keeper_pid"], signal.SIGKILL)
        t.ok("another-keeper-comes", wait_for(lambda: house.json("status")[0]["keeper_pid"] not in (None, status["keeper_pid"]), LONG, 0.1))
        if not wait_for(lambda: house.audit("keeper_lost"), LONG, 0.1):
            raise Fail("the loss is not in the audit: %s" % house.audit())
        if not house.audit("keeper_lost")[0]["record"]["closed"]:
            return t.skip("control-groups", "this user has control groups")
        asker = house.ask(["echo", "decided"])
        one = house.waiting()[0]
        what = "Prove with your password that it is you: ostler approvals --unlock"

        def approve():
            term = Terminal(house, "approve", one["id"])
            term.press(b"y")
            return term.wait(), term.seen.decode(errors="replace")

        def refused(name):
            term = Terminal(house, "approve", one["id"])
            code, seen = term.wait(), term.seen.decode(errors="replace")
            t.ok("%s-nothing-is-asked-first" % name, "[y/N]" not in seen and "decided" not in seen, seen)
            t.ok("%s-nobody-decides" % name, code == 5 and what in " ".join(seen.split()), (code, seen))
            t.ok("%s-no-other-place-is-named" % name, "there:" not in seen, seen)
            t.eq("%s-it-still-waits" % name, house.state_of(one["id"]), "pending")
        refused("at-once")
        t.ok("the-attempt-is-in-the-audit", house.audit("attempted"))
        if shutil.which("tmux"):
            now = Tmux(house, house.program)
            t.ok("now-says-so", wait_for(lambda: "locked: ostler approvals --unlock" in now.screen(), LONG, 0.1), now.screen())
            before = len(house.audit("attempted"))
            # A key that is pressed too soon does not count: again, until it was refused.
            tried = wait_for(lambda: now.keys("y") or len(house.audit("attempted")) > before, LONG, 0.5)
            t.ok("now-takes-no-yes", tried and house.state_of(one["id"]) == "pending", now.screen())
            now.close()
        for words in (["status"], ["approvals", "--list"]):
            t.ok("%s-says-so" % words[0], "--unlock" in "".join(map(str, house(*words))), house(*words))
        term = Terminal(house, "rules", "add", "--privileged", "--", "id")
        t.ok("nor-makes-a-rule", term.wait() == 5 and b"--unlock" in term.seen, term.seen)
        t.eq("a-rule-that-was-there-answers", house.ask(["echo", "ruled"]).answer().get("text"), "ruled\n")
        pid = house.json("status")[0]["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: house("status")[0] == 0 and house.json("status")[0]["pid"] != pid, LONG, 0.1)
        asker.sock.close()
        asker = house.ask(["echo", "decided"])
        if not wait_for(lambda: any(a["id"] != one["id"] for a in house.pending()), LONG, 0.1):
            raise Fail("nothing waits: %s" % house.pending())
        one = max(house.pending(), key=lambda a: a["asked"])
        refused("after-a-kill-of-the-daemon")
        code, seen = unlock(house, b"wrong", b"wrong", b"wrong")
        t.ok("a-wrong-password-unlocks-nothing", code == 5 and "not unlocked" in seen, (code, seen))
        rc, o, e = house("run", "--", house.program, "approvals", "--unlock")
        t.ok("nor-does-a-hosted-process", "nlocked" not in o.replace("not unlocked", "") and house.audit("proved") == [], (rc, o, e))
        account.policy("ALL=(root) NOPASSWD: ALL")
        code, seen = unlock(house)
        t.ok("without-a-password-sudo-proves-nothing", code == 5 and "asks for no password" in seen and "restart the machine" in seen, (code, seen))
        account.policy("ALL=(root) ALL")
        code, seen = unlock(house, PASSWORD.encode())
        t.ok("the-password-does", code == 0 and "main: unlocked" in seen, (code, seen))
        t.ok("and-is-in-the-audit", len(house.audit("proved")) == 1)
        code, seen = approve()
        t.ok("a-person-decides-again", code == 0 and asker.answer().get("text") == "decided\n", seen)
        t.eq("nothing-is-left-in-run", [n for n in os.listdir("/run") if n.startswith("ostler-")], [])
    finally:
        if house:
            house.down()
        account.remove()


def unlock(house, *passwords):
    """`approvals --unlock` in a terminal: its exit code and what it said."""
    term = Terminal(house, "approvals", "--unlock")
    for number, word in enumerate(passwords):
        if not term_says(term, b"assword", number + 1):
            break
        term.type(word + b"\r")
    return term.wait(60), term.seen.decode(errors="replace")


def term_says(term, text, times):
    """Whether sudo asks for the so-manieth time."""
    stop = time.monotonic() + LONG
    while term.seen.count(text) < times and time.monotonic() < stop:
        if select.select([term.fd], [], [], 0.5)[0]:
            try:
                term.seen += os.read(term.fd, 65536)
            except OSError:
                return False
    return True


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
        # Not the question of before, which is on the screen until it is cleared: what is typed for that is thrown away.
        if not wait_for(lambda: "Stopped" not in screen.screen() and "password for" in screen.screen(), LONG, 0.1):
            raise Fail("the question is not asked again: %s" % screen.screen())
        screen.keys("-l", PASSWORD)
        screen.keys("Enter")
        screen.until("exit 0")
        t.eq("fg-finds-the-question-again", asker.answer().get("text"), "0\n")
        sane, text = screen.sane("end")
        t.ok("the-terminal-is-as-it-was-at-the-end", sane, text)
    finally:
        screen.close()
