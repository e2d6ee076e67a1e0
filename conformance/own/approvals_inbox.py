"""The full-screen inbox: what a key decides, what it does not, and the terminal that it leaves behind."""
import os
import re
import shutil
import signal
import time

from approvals_kit import LONG, House, Terminal, Tmux
from lib import area, wait_for


@area("approvals-inbox")
def inbox(t):
    if not shutil.which("tmux"):
        return t.skip("tmux", "tmux is not installed")
    house = House(t).up()
    screen = None
    try:
        first = house.ask(["echo", "one"])
        a = house.waiting(1)[0]
        screen = Tmux(house, house.program, "approvals")
        screen.until("1 waiting", "echo one", "approve? y/n")
        second = house.ask(["echo"] + ["word-%d" % n for n in range(400)])
        text = screen.until("2 waiting", "approve? y/n")
        t.ok("the-question-is-the-last-line", text.rstrip().split("\n")[-1].strip() == "approve? y/n", text)
        t.ok("what-arrives-does-not-take-the-place", "runs /" in screen.screen() and "echo one" in screen.screen().split("──")[-1], screen.screen())
        t.ok("first-display-is-audited", [r for r in house.audit("shown") if r["about"] == a["id"] and r["record"]["surface"] == "inbox"])
        screen.keys("y")
        t.ok("y-approves", first.answer().get("text") == "one\n")
        screen.until("approved by")
        screen.keys("y")
        screen.until("settled")
        b = house.waiting(1)[0]
        screen.keys("Enter")
        screen.until("to read first")
        screen.keys("y")
        time.sleep(0.5)
        t.eq("unread-is-not-decided", house.state_of(b["id"]), "pending")
        pages = 0
        while "approve? y/n" not in screen.screen() and pages < 30:
            pages += 1
            screen.keys("Space")
            wait_for(lambda: re.search(r"to read first|approve\? y/n", screen.screen()), 5, 0.05)
            time.sleep(0.4)
        t.ok("reading-to-the-end-allows-a-decision", "word-399" in screen.screen() or "approve? y/n" in screen.screen(), screen.screen())
        screen.keys("m")
        screen.until("deny, because:")
        screen.keys("-l", "not these")
        screen.until("not these")
        screen.keys("Enter")
        t.eq("a-message-denies", second.answer().get("status"), "denied")
        t.eq("the-message-is-in-the-audit", house.audit("decided")[-1]["record"]["decision"].get("message"), "not these")

        third = house.ask(["echo", "three"])
        c = house.waiting(1)[0]
        screen.keys("Enter")
        screen.until("echo three", "approve? y/n")
        elsewhere = Terminal(house, "deny", c["id"])
        elsewhere.wait(LONG)
        screen.until("denied by ")
        t.ok("answered-elsewhere-is-told-on-the-screen", "/dev/pts/" in screen.screen(), screen.screen())
        t.eq("third-is-denied", third.answer().get("status"), "denied")

        nasty = house.ask(["printf", "%s", "it is | '; rm"], reason="plain", session="s" * 90)
        screen.keys("Enter")
        screen.until("'it is | '\\''; rm'", "↳")
        t.ok("a-literal-bar-is-quoted-and-long-lines-go-on-under-a-mark", True)
        d = house.waiting(1)[0]
        screen.until("approve? y/n")
        screen.keys("s")
        t.eq("session-approves", nasty.answer().get("status"), "ok")
        again = house.ask(["printf", "%s", "it is | '; rm"], reason="plain", session="s" * 90)
        t.eq("session-makes-a-rule", again.answer().get("status"), "ok")
        rule = house.audit("decided")[-1]["record"]["by"]
        t.ok("the-automatic-yes-is-audited-with-the-rule", rule["from"] == "rule" and rule["name"] in house.good("rules"), rule)
        other = house.ask(["printf", "%s", "it is | '; rm"], reason="plain", session="other")
        t.ok("another-session-is-asked", len(house.waiting(1)) == 1)
        other.sock.close()
        if os.getuid() == 0:
            house.waiting(0)
            root = house.ask(["sh", "-c", "id -u"], privileged=True)
            screen.go_to("AS ROOT")
            screen.until("AS ROOT", "approve? y/n")
            screen.keys("y")
            t.eq("y-approves-a-privileged-command", root.answer().get("text"), "0\n")
            screen.until("exit 0", "0 waiting")
            t.ok("the-inbox-comes-back-and-says-how-it-ended", True)
        screen.keys("q")
        t.ok("q-leaves", wait_for(lambda: "no server" in screen("ls") or screen("ls") == "", LONG, 0.1), d)
    finally:
        if screen:
            screen.close()
        house.down()


@area("approvals-inbox-leaves-the-terminal-as-it-was")
def restored(t):
    if not shutil.which("tmux"):
        return t.skip("tmux", "tmux is not installed")
    house = House(t).up()
    screen = Tmux(house, "/bin/sh")
    try:
        for name, sig in (("term", signal.SIGTERM), ("hup", signal.SIGHUP)):
            screen.keys("-l", "clear; %s approvals; echo code=$?" % house.program)
            screen.keys("Enter")
            screen.until("nothing is waiting for you")
            shell = int(screen("display-message", "-p", "#{pane_pid}"))
            for pid in descendants(shell, "ostler"):
                os.kill(pid, sig)
            screen.until("code=%d" % (128 + sig))
            screen.keys("-l", "stty -a | grep -o ' -*echo '; echo back-'%s'" % name)
            screen.keys("Enter")
            text = screen.until("back-%s\n" % name)
            t.ok("after-%s" % name, "nothing is waiting for you" not in text and "\n echo" in text, text)
    finally:
        screen.close()
        house.down()


def descendants(pid, name):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        below = [int(child) for child in f.read().split()]
    with open("/proc/%d/comm" % pid) as f:
        found = [pid] if f.read().strip() == name else []
    return found + [one for child in below for one in descendants(child, name)]
