"""`ostler demo`: what it shows and counts, that it stays in its own place, and that nothing of it is left."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time

import picture
from approvals_kit import Tmux
from cli import Home
from hangup_kit import Seat
from kit import give_to_nobody, proc_bytes, unprivileged
from lib import area, pid_alive, wait_for

LONG = 60


class Stage(Home):
    """An empty home in which a demo is played."""

    def __init__(self, t):
        super().__init__(t)
        self.folder = self.dir + "/.local/state/ostler-demo"

    def stop(self):
        self("demo", "--remove")
        super().stop()

    def processes(self):
        """Everything that runs with this home, wherever it went."""
        mark = b"HOME=%s\0" % self.dir.encode()
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if pid != os.getpid() and mark in proc_bytes(pid, "environ") + b"\0" and pid_alive(pid)]

    def left(self):
        """What is left of it: processes, and files outside what was there before."""
        wait_for(lambda: not self.processes(), 20, 0.1)
        return ["process %d: %r" % (pid, proc_bytes(pid, "cmdline")) for pid in self.processes()] + os.listdir(self.dir)


def lost(text):
    found = re.search(r"^Lost: (\d+) of (\d+) words; doubled: (\d+)$", text, re.M)
    return tuple(int(n) for n in found.groups()) if found else None


@area("demo-plain")
def plain(t):
    home = Stage(t)
    begun = time.monotonic()
    rc, o, e = home("demo")
    t.ok("runs-through-without-a-terminal", rc == 0 and "\x1b" not in o + e, (rc, o, e))
    t.ok("in-less-than-30-seconds", time.monotonic() - begun < 30, time.monotonic() - begun)
    t.ok("says-that-it-is-a-demo", o.startswith("This is a demo."), o)
    said = open(home.folder + "/repository/STORY.md").read()
    t.eq("nothing-is-lost-of-what-the-agent-has-to-say", lost(o), (0, len(said.split()), 0))
    live = o.split("live:\n")[1].split("\nLost:")[0]
    heard = " ".join(line for line in live.splitlines() if line.startswith("  ")).split()
    t.eq("every-word-was-shown-in-order", heard, said.split())
    killed, back = int(re.search(r"kill -9 (\d+)", o).group(1)), int(re.search(r"back after \S+ s as pid (\d+)", o).group(1))
    t.ok("the-daemon-was-killed-and-another-is-there", not pid_alive(killed) and pid_alive(back) and killed != back, (killed, back))
    written = int(re.search(r"wrote (\d+) bytes meanwhile", o).group(1))
    t.ok("the-agent-wrote-on-meanwhile", written > 0 and "the agent is the same process" in o, o)
    t.ok("no-line-is-wider-than-a-terminal", max(map(len, o.splitlines())) < 80, o)
    sessions = {s["name"]: s for s in home.json("sessions", "--instance", "demo")}
    t.eq("four-sessions-each-as-it-is-said", {name: s["status"] for name, s in sessions.items()},
         {"demo-writes": "idle", "demo-asks": "waiting", "demo-changes": "idle", "demo-fails": "failed"})
    tree = sessions["demo-changes"]["worktree"]
    diff = subprocess.run(["git", "-C", tree, "diff"], stdout=subprocess.PIPE, env=home.env).stdout.decode()
    t.ok("there-are-changes-to-look-at", "+This line is the echo agent's" in diff, diff)
    t.eq("the-question-waits", len(sessions["demo-asks"]["approvals"]), 1)
    for command in re.findall(r"^  (ostler .*?)  ", o, re.M):
        if command.split()[1] in ("sessions", "watch"):
            watching = subprocess.Popen([home.program] + command.split()[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=home.env)
            t.ok("what-it-says-to-try-works-%s" % command.split()[1], watching.stdout.readline(), command)
            watching.kill()
            watching.communicate()
    t.ok("everything-is-in-one-folder", os.listdir(home.dir) == [".local"] and os.listdir(home.dir + "/.local/state") == ["ostler-demo"])
    t.eq("others-can-not-look-into-it", os.stat(home.folder).st_mode & 0o777, 0o700)
    rc, o, e = home("uninstall")
    t.ok("uninstall-knows-of-it", rc == 5 and "ostler demo --remove" in e, (rc, o, e))
    told = json.loads(home.good("--json", "demo"))
    t.eq("twice-works-and-in-json", (told["lost"], told["doubled"], told["same_agent"], told["others_unchanged"]), (0, 0, True, True))
    t.ok("the-first-one's-daemon-is-gone", wait_for(lambda: not pid_alive(back), 20))
    rc, o, e = home("demo", "--remove")
    t.ok("remove-says-what-went", rc == 0 and "ostler-demo" in o, (rc, o, e))
    t.eq("and-nothing-is-left", home.left(), [])
    rc, o, e = home("demo", "--remove")
    t.ok("remove-again-is-no-error", rc == 0 and "no demo" in o, (rc, o, e))


@area("demo-counts")
def counts(t):
    """The figure is measured: an agent that is killed as well has not said everything, and that is what is told."""
    home = Stage(t)
    with Seat(home, "demo") as seat:
        seat.until(b"back after")
        agent = next(s["process"] for s in home.json("sessions", "--instance", "demo") if s["name"] == "demo-writes")
        os.kill(next(p["pid"] for p in home.json("ps", "--instance", "demo") if p["id"] == agent), signal.SIGKILL)
        seat.until(b"Ctrl-C leaves")
        seat.type(b"\x03")
        rc = seat.wait()
        missing = lost(re.sub(r"\x1b\[[0-9;]*m", "", seat.seen.decode()).replace("\r", ""))
        t.ok("what-an-agent-did-not-say-is-counted", missing and missing[0] > 10, seat.seen)
        t.ok("and-is-a-failure", rc != 0, rc)
    home.good("demo", "--remove")
    t.eq("nothing-is-left", home.left(), [])


@area("demo-private")
def private(t):
    """The user's own instance, settings and exported settings have no part in it, and it none in them."""
    home = Stage(t)
    home.good("up")
    home.good("run", "-d", "--name", "mine", "--", "sleep", "300")
    before = home.json("ps"), home.daemon_pid()
    os.makedirs(home.dir + "/.config/ostler")
    with open(home.dir + "/.config/ostler/config.toml", "w") as f:
        f.write("[nonsense]\n")
    home.env["OSTLER_DOORS_DROP_IN"] = "true"
    rc, o, e = home("demo")
    t.ok("settings-of-the-user-do-not-count", rc == 0 and lost(o)[0] == 0, (rc, o, e))
    doors = [d["name"] for d in home.json("status", "--instance", "demo")[0]["doors"]]
    t.eq("no-other-door-is-open", doors, ["native"])
    t.ok("no-place-of-another-program-is-taken", not glob.glob(home.dir + "/.claude/remote/*"))
    os.unlink(home.dir + "/.config/ostler/config.toml")
    del home.env["OSTLER_DOORS_DROP_IN"]
    pids = lambda ps: [p["pid"] for p in ps]
    t.eq("the-user's-instance-is-untouched", (pids(home.json("ps", "--instance", "main")), home.daemon_pid()), (pids(before[0]), before[1]))
    t.eq("and-shows-no-demo", home.json("sessions"), [])
    home.good("demo", "--remove")
    t.eq("removing-leaves-the-user's-alone", (pids(home.json("ps")), os.path.exists(home.folder)), (pids(before[0]), False))
    os.mkdir(home.folder)
    with open(home.folder + "/letter", "w") as f:
        f.write("dear")
    for args in (["demo"], ["demo", "--remove"]):
        rc, o, e = home(*args)
        t.ok("a-folder-of-somebody-else-is-left-%d" % len(args), rc == 5 and os.path.exists(home.folder + "/letter"), (rc, o, e))
    shutil.rmtree(home.folder)


@area("demo-interrupted")
def interrupted(t):
    """Ctrl-C anywhere: what is left is taken away by --remove."""
    home = Stage(t)
    for name, moment in (("at-once", 0.02), ("starting", 0.15), ("begun", 0.6), ("talking", b"live:"), ("killed", b"kill -9"), ("back", b"back after")):
        with Seat(home, "demo") as seat:
            if isinstance(moment, bytes):
                seat.until(moment)
            else:
                time.sleep(moment)
            seat.type(b"\x03")
            rc = seat.wait()
        t.ok("leaves-%s" % name, rc in (130, -signal.SIGINT), (rc, seat.seen))
        rc, o, e = home("demo", "--remove")
        t.eq("and-remove-leaves-nothing-%s" % name, (rc, home.left()), (0, []))
    with Seat(home, "demo") as seat:
        seat.until(b"live:")
        rc, o, e = home("demo", "--remove")
        t.ok("one-at-work-is-not-pulled-away", rc == 5 and "is running" in e, (rc, o, e))
        os.kill(seat.pid(), signal.SIGKILL)
        seat.wait()
    for keeper in [pid for pid in home.processes() if b"keeper" in proc_bytes(pid, "comm")]:
        os.kill(keeper, signal.SIGKILL)
    rc, o, e = home("demo", "--remove")
    t.eq("also-after-kills-of-the-demo-and-the-keeper", (rc, home.left()), (0, []))


SIZES = ((80, 24), (120, 40), (200, 50))


@area("demo-terminal")
def terminals(t):
    if not shutil.which("tmux"):
        return t.skip("all", "tmux is not installed")
    homes = [Stage(t) for _ in SIZES]
    screens = [Tmux(home, "sh", "-c", home.program + " demo; exec sleep 300", size=size) for home, size in zip(homes, SIZES)]
    try:
        for home, screen, size in zip(homes, screens, SIZES):
            text = screen.until("Lost:", "Enter opens")
            name = "%dx%d" % size
            t.ok("the-result-is-on-the-screen-%s" % name, re.search(r"^Lost: 0 of \d+ words; doubled: 0$", text, re.M), text)
            whole, joined = screen("capture-pane", "-p", "-S", "-"), screen("capture-pane", "-p", "-J", "-S", "-")
            lines = lambda text: [line.rstrip() for line in text.splitlines()]
            t.ok("no-line-is-broken-%s" % name, lines(whole) == lines(joined) and "This is a demo." in whole, whole)
            screen.keys("Enter")
            text = screen.until("demo-asks", "push the release")
            t.ok("enter-opens-all-of-it-%s" % name, "Lost:" not in text, text)
            screen.keys("q")
            screen.until("The demo is still there")
            t.ok("and-leaving-says-how-to-remove-it-%s" % name, "ostler demo --remove" in screen.screen(), screen.screen())
    finally:
        for home, screen in zip(homes, screens):
            screen("kill-server")
            home.good("demo", "--remove")


@area("demo-picture")
def drawn(t):
    home = Stage(t)
    came, rc = picture.record(home.program, dict(home.env, LC_ALL="C.UTF-8"), cwd=home.dir)
    t.eq("docs/demo.svg-says-what-the-program-says", picture.drawn(), picture.shown(came))
    with open(picture.SVG) as f:
        text = f.read()
    t.ok("it-loads-and-runs-nothing", not re.search(r"<script|href|url\(|@import|<foreignObject|\bon\w+=", text))
    home.good("demo", "--remove")


@area("demo-user")
def ordinary(t):
    """As somebody who is not root."""
    home = Stage(t)
    if os.geteuid() != 0:
        return t.skip("all", "needs root to be somebody else; the other areas run as an ordinary user then")
    program = home.dir + "/ostler"
    shutil.copy(home.program, program)
    inner = home.dir + "/home"
    os.mkdir(inner)
    os.chmod(home.dir, 0o755)
    give_to_nobody(inner)
    env = dict(home.env, HOME=inner)

    def as_nobody(*args):
        p = subprocess.run(unprivileged([program] + list(args)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd="/", timeout=LONG)
        return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")
    rc, o, e = as_nobody("demo")
    t.ok("an-ordinary-user-sees-the-same", rc == 0 and lost(o) and lost(o)[0] == 0 and "wrote" in o, (rc, o, e))
    rc, o, e = as_nobody("demo", "--remove")
    home.dir = inner
    t.eq("and-nothing-is-left", (rc, home.left()), (0, []))
    home.dir = os.path.dirname(inner)
