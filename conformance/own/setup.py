"""Installing, staying and coming back: ./install as an ordinary user, the service under a real manager, a reboot."""
import json
import os
import shutil
import signal
import socket
import subprocess
import time

from cli import Home
from approvals_kit import Tmux
from kit import end, give_to_nobody, parent_of, unprivileged, Fail
from lib import area, clean_env, pid_alive, wait_for
from setup_kit import Manager, Person

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARE = ("share/bash-completion/completions/ostler", "share/zsh/site-functions/_ostler", "share/fish/vendor_completions.d/ostler.fish",
         "share/man/man1/ostler.1", "share/man/man1/ostler-run.1", "share/man/man1/ostler-service-install.1", "share/ostler/installed")
CHILDREN = 100
# Says a number each second: a gap or a double one would be seen.
COUNTS = "n=0; while :; do n=$((n+1)); echo $n; sleep 1; done"


class Scratch:
    """An ordinary user's home, in which things are installed."""

    def __init__(self, t):
        self.dir = t.tmp()
        self.home = os.path.join(self.dir, "a home")
        os.mkdir(self.home)
        self.env = dict(clean_env(self.home), TMPDIR=self.home, SHELL="/bin/zsh", MANWIDTH="80", LC_ALL="C.UTF-8")
        give_to_nobody(self.dir)
        self.prefix = os.path.join(self.home, "pre fix")

    def __call__(self, *argv, cwd=None):
        p = subprocess.run(unprivileged(list(argv)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           env=self.env, cwd=cwd or self.home, timeout=60)
        return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")

    def files(self, below=None):
        found = set()
        for folder, folders, names in os.walk(below or self.home):
            found.update(os.path.relpath(os.path.join(folder, name), below or self.home) for name in folders + names)
        return found


@area("install")
def install(t):
    s = Scratch(t)
    script, program = os.path.join(ROOT, "install"), t.ostler()
    before = s.files()
    code, out, err = s(script, "--prefix", s.prefix, "--from", program)
    t.ok("into a prefix with a space, without root", code == 0 and all(os.path.isfile(os.path.join(s.prefix, path)) for path in SHARE), out + err)
    t.ok("says what it did", all(part in out for part in (s.prefix + "/bin/ostler", "completions", "manual pages", "not in your PATH", "fpath=")), out)
    t.ok("the program runs from there", s(s.prefix + "/bin/ostler", "--version")[1].startswith("ostler "))
    first = open(s.prefix + "/share/ostler/installed").read()
    code, out, err = s(script, "--prefix=pre fix", "--from", program)
    t.ok("again, by a relative name", code == 0 and sorted(open(s.prefix + "/share/ostler/installed")) == sorted(first.splitlines(True)), out + err)
    completes(t, s)
    manual(t, s)
    mine = os.path.join(s.prefix, "bin", "codecast-daemon")
    with open(mine, "w") as f:
        f.write("mine")
    code, out, err = s(script, "--prefix", s.prefix, "--from", program, "--links")
    t.ok("links on request", code == 0 and os.readlink(s.prefix + "/bin/claustrum") == "ostler", out + err)
    t.ok("a file that is not ours is left alone", open(mine).read() == "mine" and mine in err, err)
    t.ok("a link works", s(s.prefix + "/bin/claustrum", "-version")[0] == 0)
    code, out, err = s(script, "--prefix", s.prefix, "--uninstall")
    t.ok("uninstall leaves what was not installed", code == 0 and s.files() - before == {"pre fix", "pre fix/bin", "pre fix/bin/codecast-daemon"}, sorted(s.files() - before))
    code, out, err = s(script, "--prefix", s.prefix, "--uninstall")
    t.ok("nothing to uninstall is an error", code == 1 and "nothing was installed" in err, err)
    shutil.rmtree(s.prefix)
    s(script, "--prefix", s.prefix, "--from", program, "--links")
    s(script, "--prefix", s.prefix, "--uninstall")
    t.eq("uninstall leaves nothing", sorted(s.files() - before), [])
    code, out, err = s(script, "--prefix", s.prefix, "--from", "/etc/passwd")
    t.ok("what is no program is refused", code == 1 and "is not a program" in err and not os.path.exists(s.prefix), err)


@area("upgrade")
def upgrade(t):
    s = Scratch(t)
    script, ostler = os.path.join(ROOT, "install"), s.prefix + "/bin/ostler"
    out = s(script, "--prefix", s.prefix, "--from", t.ostler())[1]
    t.ok("the first time it is to be started", "next: ostler up" in out, out)
    try:
        s(ostler, "up")
        out = s(script, "--prefix", s.prefix, "--from", t.ostler())[1]
        t.ok("while it runs it is to be restarted", "next: ostler restart" in out and "ostler up" not in out, out)
        t.eq("and does so", s(ostler, "restart")[0], 0)
    finally:
        s(ostler, "down", "--kill")


def completes(t, s):
    share = s.prefix + "/share/"
    bash = "source '%s'; COMP_WORDS=(ostler serv); COMP_CWORD=1; _ostler ostler serv ostler; echo ${COMPREPLY[@]}" % (share + SHARE[0][6:])
    t.eq("completions load in bash", s("bash", "-c", bash)[1].split(), ["service"])
    zsh = "fpath=('%szsh/site-functions' $fpath); autoload -Uz compinit; compinit -u -D; print $_comps[ostler]; autoload +X _ostler && print loaded" % share
    if shutil.which("zsh"):
        t.eq("completions load in zsh", s("zsh", "-fc", zsh)[1].split(), ["_ostler", "loaded"])
    else:
        t.skip("completions load in zsh", "no zsh")
    fish = "source '%s'; complete -C 'ostler serv'" % (share + SHARE[2][6:])
    if shutil.which("fish"):
        # It makes folders in every home.
        t.has("completions load in fish", s("env", "HOME=%s/fish" % s.dir, "fish", "--no-config", "-c", fish)[1], "service\t")
    else:
        t.skip("completions load in fish", "no fish")


def manual(t, s):
    if not shutil.which("man"):
        return t.skip("manual pages render", "no man")
    folder, bad = s.prefix + "/share/man/man1/", []
    for name in sorted(os.listdir(folder)):
        code, out, err = s("man", "--warnings", "-l", folder + name)
        if code != 0 or err.strip() or "SYNOPSIS" not in out:
            bad.append((name, code, err[-200:]))
    t.eq("manual pages render", bad, [])
    t.has("each has its examples", s("man", "-l", folder + "ostler-run.1")[1], "ostler run -- make -j8")


@area("service_without_systemd")
def service_without_systemd(t):
    s = Scratch(t)
    code, out, err = s(t.ostler(), "service", "install")
    t.ok("no manager is told, with what to do instead", code == 1 and "@reboot" in err and ".profile" in err, err)
    t.ok("nothing is written", not os.path.exists(s.home + "/.config"), sorted(s.files()))
    t.has("status says so", s(t.ostler(), "service", "status")[1], "not installed")
    t.eq("there is nothing to uninstall", s(t.ostler(), "service", "uninstall")[0], 4)


class Unit:
    """What a manager does with the unit's main process: Type=notify, KillMode=process."""

    def __init__(self, home):
        self.home = home
        self.path = os.path.join(home.dir, "notify")

    def start(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.bind(self.path)
            told.settimeout(60)
            self.process = subprocess.Popen([self.home.program, "up", "--foreground", "--service", "--instance", "main"], env=dict(self.home.env, NOTIFY_SOCKET=self.path),
                                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            word = told.recv(100)
        os.unlink(self.path)
        return word

    def stop(self):
        self.process.terminate()
        return self.process.wait(60)


def children(run, count):
    """Starts them; name -> pid."""
    for i in range(count):
        run("run", "-d", "--name", "c%d" % i, "--", "sh", "-c", COUNTS)


def running(ps):
    return {p["name"]: p["pid"] for p in ps if p["state"] == "running"}


def is_whole(text):
    numbers = [int(line) for line in text.split()]
    return numbers == list(range(1, len(numbers) + 1)) and len(numbers) > 1


@area("service_steps")
def service_steps(t):
    """The unit's exact semantics without a manager: what stop, start and a crash mean to the processes."""
    home = Home(t)
    unit = Unit(home)
    t.eq("the manager is told when it is ready", unit.start(), b"READY=1")
    t.has("and whoever asks finds it", home.good("status"), str(unit.process.pid))
    t.ok("its log is where people look", "daemon.log" in os.listdir(home.state + "/instances/main"))
    children(home.good, 5)
    before = running(home.json("ps"))
    t.eq("a stop is a good end", unit.stop(), 0)
    t.ok("of the daemon alone", len(before) == 5 and all(pid_alive(pid) for pid in before.values()), before)
    unit.start()
    t.eq("the next has them all", running(home.json("ps")), before)
    os.kill(unit.process.pid, signal.SIGKILL)
    unit.process.wait()
    t.ok("nobody but the manager brings it back", not wait_for(lambda: home("ps")[0] == 0, 2))
    unit.start()
    t.eq("after a crash too", running(home.json("ps")), before)
    t.ok("its socket is no business of what it hosts", "NOTIFY_SOCKET" not in home.good("run", "--", "env"))
    home.good("down", "--kill")
    t.eq("down ends it for good", unit.process.wait(60), 0)
    home.good("up")
    home.good("run", "-d", "--name", "kept", "--", "sh", "-c", COUNTS)
    kept = running(home.json("ps"))
    unit.start()
    t.eq("it takes over from one that runs", running(home.json("ps")), kept)
    home.good("down", "--kill")
    unit.process.wait(60)


@area("service")
def service(t):
    if os.geteuid() != 0:
        return t.skip("all", "a user and a manager of their own need root")
    person = Person(t)
    try:
        manager = Manager(person)
    except (Fail, OSError) as e:
        print("note: no user manager can be had here (%s): the unit's own steps are all that was checked" % e, flush=True)
        return
    try:
        under_a_manager(t, person, manager)
    finally:
        manager.stop()


def under_a_manager(t, person, manager):
    person.good(os.path.join(ROOT, "install"), "--from", t.ostler())
    ostler = person.home + "/.local/bin/ostler"
    run = lambda *args: manager.good(ostler, *args)
    ps = lambda: running(json.loads(run("--json", "ps")))
    status = lambda: json.loads(run("--json", "service", "status"))
    main = lambda: int(manager.good("systemctl", "--user", "show", "ostler", "--property=MainPID", "--value"))
    run("up")
    run("run", "-d", "--name", "early", "--", "sh", "-c", COUNTS)
    early = ps()
    out = run("service", "install")
    t.ok("install starts it and says where it is", "ostler.service is running" in out and person.home in out, out)
    t.ok("linger is explained", "log" in out.splitlines()[-1], out)
    t.eq("what ran before goes on", ps(), early)
    children(run, CHILDREN)
    before = ps()
    manager.good("systemctl", "--user", "restart", "ostler")
    t.ok("a restart with %d children alive loses none" % CHILDREN, len(before) == CHILDREN + 1 and ps() == before and all(pid_alive(p) for p in before.values()), len(ps()))
    first = main()
    os.kill(first, signal.SIGKILL)
    t.ok("a crash is mended by the manager", wait_for(lambda: main() not in (0, first) and manager(ostler, "ps")[0] == 0, 20, 0.2))
    t.ok("and loses none", ps() == before)
    second = main()
    run("restart")
    t.ok("ostler restart is one of the service", main() not in (0, second) and status()["pid"] == main() and ps() == before)
    wait_for(lambda: all(len(run("logs", name).split()) > 1 for name in ("c0", "c99")), 10, 0.5)
    bad = [name for name in before if not is_whole(run("logs", name))]
    t.eq("no number that they said is missing or doubled", bad, [])
    facts = status()
    t.ok("status", facts["enabled"] and facts["state"] == "active" and facts["other_pid"] is None, facts)
    run("down", "--kill")
    t.ok("down ends it for good", wait_for(lambda: status()["state"] == "inactive", 10) and not any(pid_alive(p) for p in before.values()), status())
    code, _, err = manager(ostler, "uninstall")
    t.ok("what it recorded is not removed under its service", code == 5 and "ostler service uninstall" in err, err)
    run("up")
    t.ok("up starts the service", status()["state"] == "active" and status()["pid"] == main())
    run("run", "-d", "--name", "grouped", "--", "sleep", "1000")
    group = open("/proc/%d/cgroup" % ps()["grouped"]).read()
    t.ok("a child has a control group of its own below the unit", "ostler.service/" in group, group)
    code, _, err = manager(os.path.join(ROOT, "install"), "--uninstall")
    t.ok("the program is not removed under its service", code == 1 and "ostler service uninstall" in err, err)
    run("service", "uninstall")
    t.ok("uninstall stops and removes it", not os.path.exists(person.home + "/.config/systemd/user/ostler.service") and manager("systemctl", "--user", "is-active", "ostler")[0] != 0)
    manager(ostler, "down", "--kill")


@area("reboot")
def reboot(t):
    if os.geteuid() != 0:
        return t.skip("all", "another boot id needs root")
    home = Home(t)
    home.good("up")
    home.good("run", "-d", "--name", "build", "--cwd", "/tmp", "--", "sleep", "4321")
    home.good("run", "--name", "done", "--", "true")
    home.good("new", "echo", "--name", "rested", "-m", "hello")
    home.good("new", "echo", "--name", "busy")
    home.good("send", "--no-wait", "busy", "SLOW:600")
    home.good("send", "--no-wait", "busy", "after the reboot")
    home.good("new", "echo", "--name", "alone")
    home.good("send", "--no-wait", "alone", "SLOW:600")
    sent = time.monotonic()
    if not wait_for(lambda: session(home, "busy")["status"] == "running", 10):
        raise Fail("busy does not run: %s" % session(home, "busy"))
    # Another boot takes what was not on the disk yet.
    if not wait_for(lambda: home.json("status")[0]["oldest_unsynced_ms"] / 1000 < time.monotonic() - sent, 60, 0.1):
        raise Fail("nothing is synced: %s" % home.json("status"))
    power_off(home)
    fresh = os.path.join(home.dir, "boot_id")
    with open(fresh, "w") as f:
        f.write("11111111-2222-3333-4444-555555555555\n")
    # The kernel's word for this boot, as the next daemon hears it.
    subprocess.run(["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$1" up', fresh, home.program],
                   env=home.env, cwd=home.dir, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
    ps = {p["name"]: p for p in home.json("ps", "-a")}
    t.ok("what was there is listed", {"build", "done"} <= set(ps) and {"rested", "busy"} <= {s["name"] for s in home.json("sessions")})
    t.ok("and told apart from what had ended", ps["build"]["rebooted"] and not ps["done"]["rebooted"] and ps["done"]["exit"]["code"] == 0, ps["build"])
    t.has("in words", home.good("ps", "-a"), "ended by reboot")
    t.eq("a turn that ran is interrupted, with the reason", (session(home, "busy")["status"], session(home, "busy")["why"]), ("interrupted", "ended by a restart of the machine"))
    t.ok("nothing runs by itself", not wait_for(lambda: session(home, "busy")["status"] == "running" or home.json("ps"), 2))
    home.good("restart")
    t.ok("nor after the next daemon", not wait_for(lambda: session(home, "busy")["status"] == "running" or home.json("ps"), 1.5))
    home.good("start", "build")
    again = {p["name"]: p for p in home.json("ps")}["build"]
    t.eq("a process is started again by its name", (again["args"], again["cwd"]), (["4321"], "/tmp"))
    t.eq("a second start is refused", home("start", "build")[0], 5)
    t.has("a session goes on when it is spoken to", home.good("send", "rested", "again"), "again")
    t.eq("one that no reboot stopped is not started", home("start", "rested")[0], 5)
    t.ok("the list says which can go on", session(home, "busy")["rebooted"] and session(home, "alone")["rebooted"] and not session(home, "rested")["rebooted"])
    # one key in Now, for what was queued and for what only ran
    if shutil.which("tmux"):
        screen = Tmux(home, home.program, size=(100, 30))
        try:
            for name in ("busy", "alone"):
                screen.keys("/")
                screen.keys("-l", name)
                screen.keys("Enter")
                screen.until("> " + name, "rebooted", "r continue")
                screen.keys("r")
                screen.until(name + " continues")
                screen.keys("Escape")
                wait_for(lambda: "Esc: all" not in screen.screen(), 10, 0.1)
        finally:
            screen.close()
    else:
        home.good("start", "busy")
        home.good("start", "alone")
    t.ok("what was queued runs", wait_for(lambda: "after the reboot" in home.good("export", "busy"), 20), home.good("export", "busy")[-800:])
    t.ok("who has nothing queued is told to continue", wait_for(lambda: "Continue where you left off." in home.good("export", "alone"), 20), home.good("export", "alone")[-800:])
    home.good("wait", "busy", "alone")
    t.eq("a second time there is nothing to go on with", home("start", "busy")[0], 5)
    home.good("send", "busy", "now")
    said = home.good("export", "busy")
    t.ok("what waited runs first, once", said.count("after the reboot") >= 1 and said.index("after the reboot") < said.index("now"), said[-800:])


def session(home, name):
    return {s["name"]: s for s in home.json("sessions")}[name]


def power_off(home):
    """SIGKILL for everything at once: nobody lives to see another one end."""
    children = [p["pid"] for p in home.json("ps")]
    keeper, daemon = parent_of(children[0]), home.daemon_pid()
    for pid in (keeper, daemon):
        os.kill(pid, signal.SIGSTOP)
    end(keeper, daemon, *children)
    if not wait_for(lambda: not any(pid_alive(pid) for pid in (keeper, daemon, *children)), 10):
        raise Fail("something survived")
