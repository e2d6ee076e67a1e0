"""`sudo-proxy` started while `ostler up` runs: it asks where it runs, the daemon has the door, and whoever is killed, nothing runs
twice or is lost."""
import os
import re
import signal
import subprocess
import time

from approvals_kit import approved
from joining import Joined
from lib import Fail, area, pid_alive, wait_for
from sudo_kit import LONG, PROMPT, PtyDaemon
from sudo_proxy import Client, line, out


class Asked:
    """A sudo-proxy on a terminal of its own, in a house whose daemon runs."""

    def __init__(self, house, *args, env=None):
        self.house, self.args, self.env = house, args, dict(house.env, NO_COLOR="1", TERM="xterm", **(env or {}))
        self.sock = house.dir + "/asked.sock"
        house.programs.append(self)
        self.start()

    def start(self):
        self.pty = PtyDaemon([self.house.program, "as", "sudo-proxy", "--socket", self.sock, "-v"] + list(self.args), self.env, self.house.dir)
        if not wait_for(lambda: self.pty.poll() is not None or self.listed(), LONG, 0.1):
            raise Fail("it does not join: %s" % self.pty.text_since(0)[-600:])

    def listed(self):
        return any("(pid %d)" % self.pty.pid in d for d in self.house.door(self.sock))

    def ask(self, *stages, **more):
        self.mark = self.pty.mark()
        return Client(self, line(*stages, **more))

    def answer(self, key, mark=None):
        mark = self.mark if mark is None else mark
        shown = self.pty.wait_for(PROMPT, mark, LONG)
        if shown is None:
            raise Fail("no question: %s" % self.pty.text_since(mark)[-600:])
        self.pty.wait_raw(5)
        self.pty.key(key)
        return shown

    def says(self, words, mark=None):
        return self.pty.wait_for(re.compile(re.escape(words)), self.mark if mark is None else mark, LONG) is not None

    def ends(self, sig):
        os.kill(self.pty.pid, sig)
        return self.pty.wait(LONG)

    def stop(self):
        self.pty.stop(signal.SIGKILL)


def pending(house):
    return house.json("approvals", "--list")


def waits(house):
    if not wait_for(lambda: pending(house), LONG, 0.1):
        raise Fail("nothing waits in the inbox")
    return pending(house)[0]


def lines(path):
    return open(path).read().splitlines() if os.path.exists(path) else []


def once(path, seconds):
    """A command that leaves a line when it begins and one when it ends."""
    return ["/bin/sh", "-c", "echo began >> %s; sleep %s; echo ended >> %s; echo done" % (path, seconds, path)]


@area("joining-sudo")
def sudo(t):
    house = Joined(t)
    s = Asked(house, "--unattended-eligible", env={"SUDO_PROXY_EXEC_TIMEOUT_SECS": "4"})
    t.ok("says-that-it-joined", s.says("joined ostler", 0), s.pty.text_since(0))
    t.eq("and-there-is-one-instance", house.instances(), ["main"])
    c = s.ask(["/bin/echo", "one"])
    id = waits(house)["id"]
    shown = s.answer("y")
    t.ok("it-is-asked-on-its-terminal", "Command: /bin/echo one" in shown or "/bin/echo one" in shown, shown)
    t.eq("and-answers", out(c.answer()), b"one\n")
    decided = [r for r in house.good("--json", "audit").splitlines() if '"decided"' in r and id in r]
    t.ok("the-one-record-says-who", len(decided) == 1 and '"pid":%d' % s.pty.pid in decided[0].replace(" ", ""), decided)
    c = s.ask(["/bin/echo", "two"])
    s.answer("n")
    t.eq("a-no-is-a-no", c.answer()["status"], "denied")
    c = s.ask(["/bin/echo", "three"])
    s.pty.wait_for(PROMPT, s.mark, LONG)
    seen, code = approved(house, waits(house)["id"])
    t.ok("whoever-is-first-in-the-one-inbox-decides", code == 0 and out(c.answer()) == b"three\n", (code, seen))
    t.ok("and-the-prompt-says-so", s.says("Approved elsewhere"), s.pty.text_since(s.mark))
    c = s.ask(["/bin/sleep", "30"])
    s.answer("a")
    t.eq("its-own-time-limit-counts", c.answer().get("message"), "command timed out after 4s")
    c = s.ask(["/bin/echo", "four"])
    t.ok("what-was-granted-there-is-not-asked", out(c.answer()) == b"four\n" and not PROMPT.search(s.pty.text_since(s.mark)), s.pty.text_since(s.mark))
    house.kill()
    if not wait_for(s.listed, LONG, 0.1):
        raise Fail("not offered again")
    c = s.ask(["/bin/echo", "five"])
    t.eq("also-by-the-next-daemon", out(c.answer()), b"five\n")
    c = s.ask(["/usr/bin/id", "-un"], privileged=True)
    shown = s.answer("n")
    t.ok("root-is-asked-all-the-same", c.answer()["status"] == "denied" and "as root" in shown, shown)
    other = house.json("run", "-d", "--", "sleep", "300")["id"]
    path = house.dir + "/slow"
    c = s.ask(once(path, 3))
    if not wait_for(lambda: lines(path), LONG, 0.05):
        raise Fail("it does not begin")
    t.eq("a-client-can-stop-it", Client(s, line(action="stop")).answer()["status"], "ok")
    t.eq("which-ends-it-with-0", s.pty.wait(LONG), 0)
    t.ok("its-door-and-socket-are-gone", not house.door(s.sock) and not os.path.exists(s.sock), house.door(s.sock))
    time.sleep(3.5)
    t.ok("what-it-ran-has-ended-and-nothing-else", lines(path) == ["began"] and other in [p["id"] for p in house.json("ps")], (lines(path), house.json("ps")))
    t.ok("who-waited-hears-no-more", c.answer() is None)


@area("joining-sudo-signals")
def signals(t):
    """It ends by the very signal, and what runs through its door ends with it."""
    house = Joined(t)
    s = Asked(house)
    path = house.dir + "/slow"
    for sig in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        if s.pty.poll() is not None:
            s.start()
        c = s.ask(once(path, 60))
        s.answer("y")
        if not wait_for(lambda: lines(path), LONG, 0.05):
            raise Fail("it does not begin")
        t.eq("ends-by-%s" % sig.name.lower(), s.ends(sig), -sig)
        t.ok("%s-removes-its-socket-and-door" % sig.name.lower(), not os.path.exists(s.sock) and not house.door(s.sock), house.door(s.sock))
        t.ok("%s-ends-what-runs" % sig.name.lower(), c.answer() is None and wait_for(lambda: not running(house), LONG, 0.1), running(house))
        os.remove(path)
    blind = subprocess.Popen([house.program, "as", "sudo-proxy", "--socket", house.dir + "/blind.sock"], env=house.env, cwd=house.dir, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        if not wait_for(lambda: house.door(house.dir + "/blind.sock"), LONG, 0.1):
            raise Fail("one without a terminal does not join")
        said = Client(None, line(["/bin/true"]), sock=house.dir + "/blind.sock").answer()
        t.ok("without-a-terminal-nobody-is-asked", "prompt error: " in said.get("message", ""), said)
        t.ok("and-nothing-waits", wait_for(lambda: not pending(house), LONG, 0.1), pending(house))
    finally:
        blind.kill()
        blind.wait()


def running(house):
    return [p["id"] for p in house.json("ps") if (p.get("name") or "").startswith("command of")]


@area("joining-sudo-kills")
def kills(t):
    house = Joined(t)
    s = Asked(house)
    again = lambda: wait_for(lambda: s.pty.poll() is None and s.listed(), LONG, 0.05)

    # The daemon, while somebody is asked.
    same = {"id": "the-same-1"}
    c = s.ask(["/bin/echo", "asked"], **same)
    s.pty.wait_for(PROMPT, s.mark, LONG)
    house.kill()
    t.ok("daemon-killed-its-client-is-let-go", c.answer() is None)
    t.ok("the-question-leaves-the-screen", s.says("Withdrawn: the client is gone"), s.pty.text_since(s.mark))
    t.ok("the-door-is-offered-again", again())
    c = s.ask(["/bin/echo", "asked"], **same)
    s.answer("y")
    t.eq("the-same-request-is-asked-again", out(c.answer()), b"asked\n")

    # The daemon, while it runs.
    path, same = house.dir + "/one", {"id": "the-same-2"}
    c = s.ask(once(path, 4), **same)
    s.answer("y")
    if not wait_for(lambda: lines(path), LONG, 0.05):
        raise Fail("it does not begin")
    house.kill()
    t.ok("killed-again-it-lets-go-again", c.answer() is None and again())
    c = s.ask(once(path, 4), **same)
    t.eq("what-was-approved-is-answered-to-who-comes-back", out(c.answer()), b"done\n")
    t.eq("and-ran-once", lines(path), ["began", "ended"])

    # The program, while somebody is asked, and while it runs.
    c = s.ask(["/bin/echo", "two"], id="the-same-3")
    s.pty.wait_for(PROMPT, s.mark, LONG)
    s.ends(signal.SIGKILL)
    t.ok("program-killed-its-client-is-let-go", c.answer() is None)
    t.ok("and-its-door-closes", wait_for(lambda: not house.door(s.sock), LONG, 0.1), house.door(s.sock))
    s.start()
    c = s.ask(["/bin/echo", "two"], id="the-same-3")
    s.answer("y")
    t.eq("the-next-one-asks-again", out(c.answer()), b"two\n")
    path = house.dir + "/two"
    c = s.ask(once(path, 4), id="the-same-4")
    s.answer("y")
    if not wait_for(lambda: lines(path), LONG, 0.05):
        raise Fail("it does not begin")
    s.ends(signal.SIGKILL)
    t.ok("what-runs-goes-on", c.answer() is None and running(house), running(house))
    s.start()
    c = s.ask(once(path, 4), id="the-same-4")
    t.eq("and-the-next-one-answers", out(c.answer()), b"done\n")
    t.eq("which-ran-once-too", lines(path), ["began", "ended"])

    # Both.
    path = house.dir + "/both"
    c = s.ask(once(path, 5), id="the-same-5")
    s.answer("y")
    if not wait_for(lambda: lines(path), LONG, 0.05):
        raise Fail("it does not begin")
    main = house.json("status", "--instance", "main")[0]["pid"]
    os.kill(s.pty.pid, signal.SIGKILL)
    os.kill(main, signal.SIGKILL)
    s.pty.wait(LONG)
    back = lambda: house("status")[0] == 0 and house.json("status", "--instance", "main")[0]["pid"] != main
    t.ok("both-killed-the-daemon-comes-back-without-the-door", wait_for(back, LONG, 0.1) and not house.door(s.sock), house.door(s.sock))
    s.start()
    c = s.ask(once(path, 5), id="the-same-5")
    t.eq("and-who-comes-back-is-answered", out(c.answer()), b"done\n")
    t.eq("once", lines(path), ["began", "ended"])
    t.ok("no-socket-is-left-by-its-end", s.ends(signal.SIGTERM) == -signal.SIGTERM and not os.path.exists(s.sock))
    t.ok("nothing-is-left-running", wait_for(lambda: not running(house), LONG, 0.1) and not pid_alive(s.pty.pid), running(house))
