"""`ostler` alone: Now, driven in a real terminal at several sizes, over ssh, through a crash of the daemon, and without one."""
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time

from approvals_kit import LONG, Tmux
from cli import Home
from kit import Fail
from lib import area, wait_for
from sessions_kit import House, Wire

SIZES = ((80, 24), (120, 40), (200, 50))


class Place(House):
    """A home with something of every kind: a session that asks, one that rests, a terminal program, commands, changes to look at."""

    def prepare(self):
        self.project = self.dir + "/project"
        os.mkdir(self.project)
        for command in ("git init -q", "git config user.name t", "git config user.email t@example.invalid", "echo one >a.txt",
                        "git add -A", "git commit -qm one"):
            subprocess.run(["sh", "-c", command], cwd=self.project, env=self.env, check=True)

    def fill(self):
        self.asker = self.json("new", "echo", self.project, "--name", "asker")["id"]
        self.good("send", self.asker, "ASK", "--no-wait")
        self.rests = self.json("new", "echo", self.project, "--name", "rests")["id"]
        self.good("send", self.rests, "hello from the session")
        self.good("run", "-d", "-t", "--name", "screen", "--", "sh", "-c", "printf 'on a terminal\\r\\n'; exec cat")
        self.good("run", "-d", "--name", "builder", "--", "sh", "-c", "echo building it; exec sleep 600")
        self.good("run", "-d", "--name", "broken", "--", "sh", "-c", "echo last words; exit 7")
        self.request = self.waiting(self.asker)
        if not wait_for(lambda: any(p["name"] == "broken" and p["exit"] for p in self.json("ps", "-a")), LONG, 0.1):
            raise Fail("the command should have ended")
        return self


class Screen(Tmux):
    """A shell in a terminal, and Now opened from it."""

    def __init__(self, place, size=(80, 24), env=()):
        super().__init__(place, "/usr/bin/env", "PS1=$ ", *env, "/bin/sh", size=size)
        self.program = place.program
        self("set-option", "-g", "escape-time", "0")

    def open(self, *args):
        self.line("clear; %s; echo code=$?" % " ".join([self.program] + list(args)))
        return self

    def rows(self):
        return [line for line in self.screen().split("\n──")[0].split("\n") if line[:2] in ("> ", "  ") and line.strip()]

    def row(self, name):
        """The row of the list with this name, with the mark of the chosen one."""
        return next((line for line in self.rows() if line[2:].startswith(name + " ")), "")

    def choose(self, name):
        def there():
            if self.row(name).startswith("> "):
                return True
            self.keys("j")
            return False
        self.keys("g")
        self.keys("k", "k", "k", "k", "k", "k", "k", "k")
        wait_for(lambda: self.rows()[:1] and self.rows()[0].startswith("> "), LONG, 0.1)
        if not wait_for(there, LONG, 0.3):
            raise Fail("no row %s: %s" % (name, self.screen()))

    def decide(self, key):
        """Reads to the end and answers."""
        for _ in range(20):
            if "approve? y/n" in self.screen():
                break
            self.keys("Space")
            wait_for(lambda: "approve? y/n" in self.screen(), 1, 0.1)
        self.until("approve? y/n")
        self.keys(key)

    def resize(self, width, height):
        self("resize-window", "-x", str(width), "-y", str(height))

    def close(self):
        super().close()
        # The next one is not to meet the server that ends.
        wait_for(lambda: self("ls") == "", LONG, 0.1)

    def gone(self):
        """Now was left, and the shell has its terminal."""
        self.until("code=0")


def needs_tmux(t):
    if shutil.which("tmux"):
        return True
    t.skip("tmux", "tmux is not installed")
    return False


@area("now-list")
def listing(t):
    if not needs_tmux(t):
        return
    place = Place(t).fill()
    for size in SIZES:
        name = "%dx%d" % size
        screen = Screen(place, size).open()
        text = screen.until("2 waiting", "NEEDS YOU", "OPEN", "asker")
        t.ok(name + "-the-request-is-drawn-as-everywhere", "Allow this?" in text and place.request in text, text)
        screen.keys("j", "j")
        text = screen.until("builder", "Enter attach")
        t.ok(name + "-a-session-a-terminal-program-and-a-command-in-one-list",
             all(screen.row(row) for row in ("asker", "rests", "screen", "builder")), text)
        t.ok(name + "-each-with-its-last-line",
             "hello from the" in screen.row("rests") and "on a terminal" in screen.row("screen") and "building it" in screen.row("builder"), text)
        screen.choose("broken")
        t.ok(name + "-what-failed-needs-somebody-and-says-how", "exited 7" in screen.row("broken") and "ENDED" not in screen.screen(), screen.screen())
        t.ok(name + "-agents-processes-are-seen-as-their-sessions", "__echo" not in screen.screen(), screen.screen())
        t.ok(name + "-nothing-is-wider-than-the-screen", all(len(line) <= size[0] for line in screen.screen().split("\n")))
        screen.keys("q")
        screen.gone()
        good, text = screen.sane(name)
        t.ok(name + "-q-gives-the-terminal-back", good and "OPEN" not in text, text)
        screen.close()
    listed = place.json("ps", "-a")
    t.ok("ps-and-sessions-show-the-same-list", {"screen", "builder", "broken"} <= {p["name"] for p in listed}
         and {"asker", "rests"} == {s["name"] for s in place.json("sessions")}, listed)
    place.down()


@area("now-keys")
def keys(t):
    if not needs_tmux(t):
        return
    place = Place(t).fill()
    with open(place.project + "/a.txt", "a") as f:
        f.write("two \x1b[2Jtrap\n")
    screen = Screen(place, (100, 30)).open()
    try:
        screen.until("asker")
        screen.decide("y")
        screen.until("approved by")
        t.ok("y-answers-and-it-runs", wait_for(lambda: "pretended to write a file" in str(place.events(place.asker)), LONG, 0.2), place.events(place.asker)[-3:])
        screen.keys("Enter")
        screen.until("1 waiting", "> broken")
        place.good("send", place.asker, "ASK", "--no-wait")
        screen.until("2 waiting", "Allow this?")
        screen.decide("n")
        screen.until("denied")
        t.ok("n-denies", wait_for(lambda: place.info(place.asker)["approvals"] == [] and "deny" in str(place.events(place.asker)), LONG, 0.2),
             place.events(place.asker)[-3:])
        screen.keys("Enter")

        screen.choose("screen")
        screen.keys("y")
        screen.until("nothing to approve here")
        screen.keys("Enter")
        screen.until("leave it with")
        screen.keys("-l", "typed into it")
        screen.keys("Enter")
        screen.until("typed into it\ntyped into it")
        screen.keys("C-]")
        screen.until("OPEN", "> screen")
        t.ok("enter-attaches-to-a-terminal-program-and-leaving-comes-back", wait_for(lambda: "typed into it" in screen.row("screen"), LONG, 0.2), screen.screen())
        screen.choose("rests")
        screen.keys("Enter")
        screen.until("type a prompt")
        screen.keys("-l", "more words")
        screen.keys("Enter")
        screen.until("done (")
        screen.keys("C-d")
        screen.until("OPEN", "> rests")
        t.eq("enter-talks-in-a-session", place.texts(place.rests)[-1:], ["more words"])
        screen.choose("builder")
        screen.keys("Enter")
        # The list shows its last line too.
        wait_for(lambda: "OPEN" not in screen.screen() and "building it" in screen.screen(), LONG, 0.1)
        screen.keys("C-c")
        screen.until("OPEN", "> builder")
        t.ok("ctrl-c-leaves-a-command-and-not-now", "running" in screen.row("builder"), screen.screen())
        screen.choose("broken")
        screen.keys("Enter")
        t.ok("enter-on-what-ended-shows-its-last-words", "last words" in screen.until("q back", "ostler logs"), screen.screen())
        screen.keys("q")
        screen.until("OPEN", "> broken")
        t.ok("and-what-was-read-needs-nobody", wait_for(lambda: screen.screen().find("> broken") > screen.screen().find("ENDED") > 0, LONG, 0.2), screen.screen())
        screen.keys("r")
        t.ok("r-runs-it-again", wait_for(lambda: len([p for p in place.json("ps", "-a") if p["name"] == "broken"]) == 2, LONG, 0.2), screen.screen())

        subprocess.run(["sh", "-c", "echo three >b.txt && git add b.txt && git commit -qm 'committed since' b.txt"], cwd=place.project, env=place.env, check=True)
        screen.choose("rests")
        screen.keys("d")
        text = screen.until("+two", "q back")
        t.ok("d-shows-commits-since-it-began", "1 commit in this folder since it began" in text and "committed since" in text and "+three" in text, text)
        t.ok("d-shows-what-changed-and-nothing-in-it-acts", "^[[2Jtrap" in text and "a.txt" in text, text)
        screen.keys("q")
        screen.until("OPEN")
        screen.keys("/")
        screen.keys("-l", "build")
        screen.until("/build_")
        t.ok("slash-filters", screen.row("builder") and not screen.row("rests"), screen.screen())
        screen.keys("Enter")
        screen.keys("Escape")
        t.ok("escape-shows-all-again", wait_for(lambda: screen.row("rests"), LONG, 0.1), screen.screen())
        screen.keys("?")
        t.ok("question-mark-shows-the-keys", "start an agent" in screen.until("Keys", "q back"), screen.screen())
        screen.keys("q")
        screen.until("OPEN")

        screen.keys("c")
        text = screen.until("Start an agent", "Prompt")
        offered = next(line for line in text.split("\n") if "Agent " in line)
        missing = next((line for line in text.split("\n") if "not installed:" in line), "")
        there = {name: bool(shutil.which(name, path=place.env["PATH"])) for name in ("claude", "codex", "gemini", "opencode")}
        t.ok("c-offers-only-what-is-installed", all((name in offered) == is_there and (name in missing) != is_there for name, is_there in there.items()), text)
        screen.keys("e")
        screen.until("[echo]")
        screen.keys("Enter")
        screen.keys("C-u")
        screen.keys("-l", "/nowhere")
        screen.keys("Enter")
        screen.keys("-l", "started from now")
        screen.keys("Enter")
        screen.until("there is no folder")
        screen.keys("Up")
        screen.keys("C-u")
        screen.keys("-l", place.project)
        screen.keys("Enter")
        screen.keys("Enter")
        screen.until("OPEN", "started from now")
        begun = [s for s in place.json("sessions") if s["name"] is None]
        t.ok("c-starts-an-agent", len(begun) == 1 and begun[0]["workspace"] == place.project
             and wait_for(lambda: place.texts(begun[0]["id"]) == ["started from now"], LONG, 0.2), begun)
        screen.keys("q")
        screen.gone()
        t.ok("q-leaves-everything-running", {"screen", "builder"} <= {p["name"] for p in place.json("ps")})
    finally:
        screen.close()
        place.down()


@area("now-goes-on")
def goes_on(t):
    if not needs_tmux(t):
        return
    place = Place(t).fill()
    screen = Screen(place, (100, 40)).open()
    try:
        screen.until("asker", "2 waiting")
        before = place.daemon_pid()
        os.kill(before, signal.SIGKILL)
        if not wait_for(lambda: place("status")[0] == 0, LONG, 0.1):
            raise Fail("the daemon should be back")
        place.good("run", "-d", "--name", "after", "--", "sh", "-c", "echo after the crash; exec sleep 600")
        t.ok("a-killed-daemon-is-another-one", place.daemon_pid() != before)
        t.ok("now-goes-on-by-itself", wait_for(lambda: "after the crash" in screen.row("after"), LONG, 0.2), screen.screen())
        screen.decide("y")
        screen.until("approved by")
        t.ok("and-what-was-asked-before-is-answered", wait_for(lambda: place.info(place.asker)["approvals"] == [], LONG, 0.2))
        screen.keys("Enter")
        for size in ((120, 42), (60, 14), (200, 50), (80, 24)):
            screen.resize(*size)
            fits = wait_for(lambda: len(screen.screen().split("\n")) - 1 == size[1] and "OPEN" in screen.screen()
                            and "q quit" in screen.screen(), LONG, 0.2)
            t.ok("resized-to-%dx%d" % size, fits, screen.screen())
        screen.resize(80, 9)
        t.ok("too-small-says-so", "too small: 80x9" in screen.until("too small"), screen.screen())
        screen.resize(80, 24)
        screen.until("OPEN")
        place.good("down", "--kill")
        t.ok("a-daemon-that-was-stopped-is-told", wait_for(lambda: "ostler is not running" in screen.screen(), LONG, 0.2), screen.screen())
        screen.keys("u")
        screen.until("ENDED", "builder")
        t.ok("u-starts-it", place.json("status"))
        screen.keys("q")
        screen.gone()
    finally:
        screen.close()
        place.down()


@contextlib.contextmanager
def held(place):
    """Another program holds the record."""
    with contextlib.closing(sqlite3.connect(place.state + "/instances/main/inbox.db", isolation_level=None, timeout=LONG)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@area("now-held")
def held_record(t):
    """Another program holds the record: Now says so, draws on and listens; what was answered counts when it is let go."""
    if not needs_tmux(t):
        return
    place = Place(t).fill()
    screen = Screen(place, (100, 30))
    try:
        with held(place):
            screen.open()
            t.ok("who-looks-sees-that-it-is-busy", "Allow this?" in screen.until("the record of decisions is busy", "asker"), screen.screen())
            screen.decide("y")
            screen.until("your answer is on its way", "the record of decisions is busy")
            place.good("run", "-d", "--name", "meanwhile", "--", "sh", "-c", "echo drawn on; exec sleep 600")
            screen.choose("meanwhile")
            t.ok("keys-and-news-are-taken-meanwhile", "drawn on" in screen.until("> meanwhile", "drawn on", "the record of decisions is busy"), screen.screen())
            t.eq("nothing-is-decided-yet", [a["state"] for a in place.json("approvals", "--list")], ["pending"])
        t.ok("then-the-answer-counts", wait_for(lambda: place.info(place.asker)["approvals"] == [] and "is busy" not in screen.screen(), LONG, 0.2), screen.screen())
        about = [row["record"]["what"] for row in map(json.loads, place.good("--json", "audit").splitlines()) if row["about"] == place.request]
        t.eq("shown-and-decided-once-each", [what for what in about if what in ("shown", "decided")], ["shown", "decided"])
        place.good("send", place.asker, "ASK", "--no-wait")
        again = place.waiting(place.asker)
        screen.keys("g")
        screen.choose("asker")
        screen.until(again)
        with held(place):
            screen.decide("n")
            screen.until("your answer is on its way")
            screen.keys("q")
            text = screen.until("your answer to %s is on its way" % again, "code=0")
        t.ok("who-leaves-is-told-and-the-answer-counts", wait_for(lambda: place.info(place.asker)["approvals"] == [], LONG, 0.2), text)
    finally:
        screen.close()
        place.down()


@area("now-without")
def without(t):
    home = Home(t)
    rc, o, e = home()
    t.ok("no-terminal-and-no-daemon-says-what-to-do", rc == 3 and o == "" and "ostler up" in e and len(e.splitlines()) <= 2, (rc, o, e))
    if needs_tmux(t):
        screen = Screen(home).open()
        text = screen.until("ostler up", "u  start it", "q  leave")
        t.ok("no-daemon-is-one-sentence-and-a-key", len(text.split()) < 30, text)
        screen.keys("u")
        screen.until("0 waiting", "nothing is waiting for you")
        t.ok("u-starts-the-daemon", home.json("status")[0]["state"] == "running")
        screen.keys("q")
        screen.gone()
        screen.close()
    home.good("up")
    t.ok("no-terminal-prints-status", "running" in home.good() and home.json() == home.json("status") or home.json()[0]["instance"] == "main", home.good())
    home("down", "--kill")
    if not shutil.which("tmux"):
        return
    place = Place(t).fill()
    screen = Screen(place, env=("NO_COLOR=1",)).open()
    screen.until("asker", "2 waiting")
    raw = screen("capture-pane", "-p", "-e")
    t.ok("no-color-has-none", not any("\x1b[%d" % code in raw for code in range(31, 38)) and "> asker" in raw, raw)
    screen.decide("y")
    screen.until("approved by")
    t.ok("no-color-answers-too", wait_for(lambda: place.info(place.asker)["approvals"] == [], LONG, 0.2))
    screen.keys("q")
    screen.gone()
    screen.line("clear; TERM=dumb %s" % place.program)
    t.ok("a-dumb-terminal-gets-words", "NEEDS YOU" not in screen.until("sessions", "processes"), screen.screen())
    place.good("send", "--no-wait", place.rests, "ASK:once_more")
    wait_for(lambda: place.json("approvals", "--list"), LONG, 0.1)
    asked = place.json("approvals", "--list")[0]["id"]
    for term in ("dumb", "unknown", ""):
        screen.line("clear; TERM=%s %s approvals" % (term, place.program))
        text = screen.until("ostler approve " + asked, "ostler deny " + asked)
        t.ok("approvals-on-%s-says-how-to-answer" % (term or "no-term"), "y approve" not in text and "ID" in text, text)
    raw = screen("capture-pane", "-p", "-e")
    t.ok("and-draws-nothing", "\x1b[" not in raw.split("ostler approve")[-1], raw)
    screen.line("clear; TERM=dumb %s deny; TERM=dumb %s attach %s" % (place.program, place.program, place.rests))
    screen.until("denied by", "type a prompt")
    screen.keys("-l", "typed plainly")
    screen.until("typed plainly")
    screen.keys("Enter")
    t.ok("a-session-is-talked-to-plainly", wait_for(lambda: "typed plainly" in place.texts(place.rests), LONG, 0.2), screen.screen())
    screen.keys("C-d")
    screen.until("left ")
    screen.close()
    place.down()


@area("now-seen")
def seen(t):
    """What somebody ended, was told of or looked at needs nobody; what failed behind their back does."""
    home = House(t)
    try:
        def section(name):
            listed = Wire(home.socket()).call("hosted.list", all=True)["result"]["hosted"]
            return next((one["section"] for one in listed if one["name"] == name and one["ended"]), None)
        def stands(name, where):
            return wait_for(lambda: section(name) == where, 30, 0.1)
        t.eq("a-code-that-was-given", home("run", "--name", "given", "--", "sh", "-c", "exit 3")[0], 3)
        t.ok("needs-nobody", stands("given", "ended"), section("given"))
        home.good("run", "-d", "--name", "late", "--", "sh", "-c", "sleep 0.5; exit 3")
        t.eq("a-code-that-was-waited-for", home("wait", "late")[0], 3)
        t.ok("needs-nobody-either", stands("late", "ended"), section("late"))
        home.good("run", "-d", "-t", "--name", "deaf", "--", "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
        home.good("run", "-d", "--name", "tidy", "--", "sh", "-c", "trap 'exit 4' TERM; while :; do sleep 0.1; done")
        time.sleep(0.3)
        home.good("kill", "deaf", "tidy", "--wait")
        t.ok("what-was-killed-needs-nobody", stands("deaf", "ended") and stands("tidy", "ended"), (section("deaf"), section("tidy")))
        home.good("run", "-d", "--name", "alone", "--", "sh", "-c", "echo why; exit 3")
        t.ok("what-failed-alone-needs-somebody", stands("alone", "needs_you"), section("alone"))
        home.good("run", "-d", "-t", "--name", "shell", "--", "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
        home.good("down", "--kill")
        home.good("up")
        t.ok("ended-with-everything-needs-nobody", stands("shell", "ended"), section("shell"))
        t.eq("all-of-it-across-a-restart", [section(name) for name in ("given", "late", "deaf", "tidy", "alone")], ["ended"] * 4 + ["needs_you"])
        t.eq("looking-at-it", home("attach", "alone")[0], 3)
        t.ok("is-seeing-it", stands("alone", "ended"), section("alone"))
    finally:
        home("down", "--kill")


@area("now-ssh")
def over_ssh(t):
    if not needs_tmux(t) or not shutil.which("sshd") and not os.path.exists("/usr/sbin/sshd"):
        return t.skip("ssh", "tmux or sshd is not installed")
    from ssh import Sshd
    place = Place(t).fill()
    sshd = Sshd(t.tmp())
    try:
        remote = "cd %s && env -i HOME=%s PATH=/usr/bin:/bin TERM=xterm %s" % (place.dir, place.dir, place.program)
        argv = ["-t" if word == "-T" else word for word in sshd.argv(remote)]
        screen = Tmux(place, *argv, size=(80, 24))
        text = screen.until("2 waiting", "asker", "OPEN")
        t.ok("it-opens-over-ssh", "Allow this?" in text, text)
        screen("resize-window", "-x", "120", "-y", "40")
        t.ok("a-resize-arrives", wait_for(lambda: "approve? y/n" in screen.screen() and len(screen.screen().split("\n")) - 1 == 40, LONG, 0.2), screen.screen())
        screen.keys("y")
        t.ok("y-answers-over-ssh", wait_for(lambda: place.info(place.asker)["approvals"] == [], LONG, 0.2), screen.screen())
        screen.keys("q")
        t.ok("q-ends-the-connection", wait_for(lambda: "no server" in screen("ls") or screen("ls") == "", LONG, 0.1))
        screen.close()
    finally:
        sshd.stop()
        place.down()
