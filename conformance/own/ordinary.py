"""As an ordinary user, where the kernel keeps one process out of another: what agents take, and what of ours must not look."""
import json
import os
import pwd
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess

from account import Account
from approvals_kit import LONG, House, Terminal, approved, confirms
from kit import Fail, end
from lib import area, pid_alive, wait_for
from ssh import Sshd

NOBODY = 65534
# One that every user can run.
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else shutil.which("python3")
# What a program of the same user gets of another: a descriptor, its memory, its registers, its environment.
ATTACK = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def ptrace(pid):
    if libc.ptrace(16, pid, 0, 0) != 0:
        return False
    os.waitpid(pid, 0x40000000)
    libc.ptrace(17, pid, 0, 0)
    return True
def getfd(pid):
    held = os.pidfd_open(pid)
    return any(libc.syscall(438, held, number, 0) >= 0 for number in range(64))
def reads(path):
    def read(pid):
        with open("/proc/%d/%s" % (pid, path), "rb") as f:
            return True
    return read
def lists(pid):
    return len(os.listdir("/proc/%d/fd" % pid)) > 0
def follows(pid):
    return bool(os.readlink("/proc/%d/exe" % pid))
ways = {"pidfd_getfd": getfd, "ptrace": ptrace, "mem": reads("mem"), "environ": reads("environ"), "maps": reads("maps"), "fd": lists, "exe": follows}
taken = {}
for pid in map(int, sys.argv[1:]):
    taken[pid] = []
    for name, way in ways.items():
        try:
            if way(pid):
                taken[pid].append(name)
        except OSError:
            pass
print(json.dumps(taken))
"""
EVERY_WAY = ["environ", "exe", "fd", "maps", "mem", "pidfd_getfd", "ptrace"]


def ordinary(t, user=None):
    """A home of an ordinary user; nothing where there is no such user to be had."""
    if os.geteuid() != 0:
        return House(t)
    if not shutil.which("setpriv"):
        return t.skip("user", "needs setpriv (util-linux)")
    user = user or pwd.getpwuid(NOBODY)
    house = House(t, user)
    house.real = house.dir + "/ostler"
    shutil.copy(house.program, house.real)
    os.chmod(house.real, 0o755)
    house.as_user = ["setpriv", "--reuid=%d" % user.pw_uid, "--regid=%d" % user.pw_gid, "--clear-groups", "--no-new-privs"]
    house.program = t.tmp() + "/ostler-as-user"
    with open(house.program, "w") as f:
        f.write("#!/bin/sh\nexec %s ${OSTLER_REAL:-%s} \"$@\"\n" % (" ".join(house.as_user), house.real))
    os.chmod(house.program, 0o755)
    os.chown(house.dir, user.pw_uid, user.pw_gid)
    house.env.update(USER=user.pw_name, LOGNAME=user.pw_name)
    return house


def attack(house, *pids):
    script = house.dir + "/attack.py"
    with open(script, "w") as f:
        f.write(ATTACK)
    os.chmod(script, 0o644)
    argv = [PYTHON, script] + [str(pid) for pid in pids]
    said = house.good("run", "--", *argv)
    return {int(pid): sorted(ways) for pid, ways in json.loads(said.strip().splitlines()[-1]).items()}


def keeper_of(house):
    return house.json("status")[0]["keeper_pid"]


@area("ordinary-hands-off")
def hands_off(t):
    """A hosted process takes nothing of keeper, daemon, deciding clients and the runner of an approved command."""
    house = ordinary(t)
    if not house:
        return
    house.up()
    control = subprocess.Popen(house.as_user + ["sleep", "300"], env=house.env) if house.user else subprocess.Popen(["sleep", "300"])
    terms, own = [], house.dir + "/own.sock"
    try:
        house.good("run", "-d", "--name", "held", "--", "sh", "-c", "echo here; exec sleep 300")
        house.ask(["echo", "held"])
        one = house.waiting()[0]
        for words in (["approvals"], ["approve", one["id"]], [], ["attach", "held"], ["as", "sudo-proxy", "--socket", own]):
            term = Terminal(house, *words)
            terms.append((words, term))
        wait_for(lambda: all("ostler" in open("/proc/%d/comm" % term.pid).read() for _, term in terms), LONG, 0.1)
        for words, term in terms:
            ready = (lambda: os.path.exists(own)) if own in words else (lambda: select.select([term.fd], [], [], 0)[0])
            if not wait_for(ready, LONG, 0.1):
                raise Fail("ostler %s says nothing" % " ".join(words))
        runner = wait_for_runner(keeper_of(house))
        targets = {"daemon": house.daemon_pid(), "keeper": keeper_of(house), "runner": runner}
        targets.update({" ".join(words) or "now": term.pid for words, term in terms})
        taken = attack(house, control.pid, *targets.values())
        t.eq("control-another-program-of-the-user-is-taken-apart", taken[control.pid], EVERY_WAY)
        for name, pid in targets.items():
            t.eq("%s-gives-nothing" % re.sub(r"\W+", "-", name.split(" --")[0].replace(one["id"], "")).strip("-"), taken[pid], [])
        house.good("restart")
        again = attack(house, house.daemon_pid(), keeper_of(house))
        t.eq("nor-after-a-restart", sorted(again.values()), [[], []])
        os.kill(house.daemon_pid(), signal.SIGKILL)
        before = targets["daemon"]
        t.ok("a-killed-daemon-is-brought-back", wait_for(lambda: alive_again(house, before), LONG, 0.2))
        again = attack(house, house.daemon_pid(), keeper_of(house))
        t.eq("nor-when-it-was-brought-back", sorted(again.values()), [[], []])
    finally:
        control.kill()
        control.wait()
        for _, term in terms:
            end(term.pid)
            os.waitpid(term.pid, 0)
        house.down()


def alive_again(house, before):
    rc, out, _ = house("--json", "status")
    return rc == 0 and json.loads(out)[0]["pid"] != before


def wait_for_runner(keeper):
    """The process that waits to run what a person says yes to."""
    def found():
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/stat" % pid) as f:
                    name, rest = f.read().rsplit(")", 1)
                if name.endswith("(ostler-run") and int(rest.split()[1]) == keeper:
                    runners.append(int(pid))
                    return True
            except OSError:
                pass
        return False
    runners = []
    wait_for(found, LONG, 0.1)
    return runners[0]


@area("ordinary-life")
def life(t):
    """Restart, upgrade, takeover, crash, approvals and run, with nobody who could look into the processes of others."""
    house = ordinary(t)
    if not house:
        return
    house.up()
    try:
        t.eq("run", house.good("run", "--", "echo", "here"), "here\n")
        # Another daemon of the same user, brought back by its keeper, hides as this one does.
        house.good("up", "--instance", "second")
        other = house.json("status", "--instance", "second")[0]["pid"]
        os.kill(other, signal.SIGKILL)
        wait_for(lambda: house("ps", "--instance", "second")[0] == 0 and house.json("status", "--instance", "second")[0]["pid"] != other, LONG, 0.2)
        asker = house.ask(["sh", "-c", "echo beside"])
        seen, code = approved(house, house.waiting()[0]["id"])
        t.ok("nobody-is-warned-of-our-own-daemons", code == 0 and asker.answer().get("text") == "beside\n" and "hides which files" not in seen, seen)
        house("down", "--kill", "--instance", "second")
        house.good("run", "-d", "--name", "stays", "--", "sleep", "300")
        pid = next(p["pid"] for p in house.json("ps") if p["name"] == "stays")
        keeper, daemon = keeper_of(house), house.daemon_pid()
        said = "".join(house("restart")[1:])
        t.ok("restart-takes-over", "was %d" % daemon in said, said)
        t.ok("restart-says-nothing-of-an-upgrade", "upgraded" not in said and "old version" not in said, said)
        t.eq("what-ran-runs-on", (next(p["pid"] for p in house.json("ps") if p["name"] == "stays"), pid_alive(pid)), (pid, True))
        told = [json.loads(line) for line in house.good("--json", "events").splitlines()]
        # The same program as another file is what an upgrade looks like.
        newer = house.dir + "/newer"
        shutil.copy(getattr(house, "real", house.program), newer)
        os.chmod(newer, 0o755)
        house.env["OSTLER_REAL"] = newer
        if not house.user:
            house.program = newer
        said = "".join(house("restart")[1:])
        t.ok("upgrade-changes-the-keeper-in-place", "upgraded in place (pid %d)" % keeper in said, said)
        t.ok("upgrade-runs-the-new-file", os.path.samefile("/proc/%d/exe" % keeper, newer) if not os.geteuid() else True)
        t.eq("what-ran-outlives-the-upgrade", (keeper_of(house), pid_alive(pid)), (keeper, True))
        rest = [json.loads(line) for line in house.good("--json", "events", "--after", told[len(told) // 2]["position"]).splitlines()]
        after = told[len(told) // 2 + 1:]
        t.ok("a-position-of-before-the-upgrade-is-followed-by-the-same", after and rest[:len(after)] == after, (after, rest))
        before = house.daemon_pid()
        os.kill(before, signal.SIGKILL)
        t.ok("a-crashed-daemon-comes-back", wait_for(lambda: alive_again(house, before), LONG, 0.2))
        asker = house.ask(["sh", "-c", "echo approved"])
        one = house.waiting()[0]
        seen, code = approved(house, one["id"])
        t.ok("a-person-approves", code == 0 and asker.answer().get("text") == "approved\n", seen)
        asker = house.ask(["sh", "-c", "echo via-shell"])
        one = house.waiting()[0]
        shell = Terminal(Shell(house), "-c", "%s approve %s; exit $?" % (getattr(house, "real", house.program), one["id"]))
        shell.press(b"y")
        t.ok("a-person-approves-below-a-shell", shell.wait() == 0 and asker.answer().get("text") == "via-shell\n", shell.seen)
        rc, said, _ = house("doctor")
        t.ok("doctor-says-that-our-processes-are-protected", re.search(r"ok +protection ", said), said)
        t.ok("doctor-tells-of-ptrace", re.search(r"(ok|weak) +ptrace .*(Yama|ptrace_scope)", said), said)
        t.ok("doctor-tells-of-tiocsti", re.search(r"(ok|weak) +tiocsti .*(TIOCSTI|legacy_tiocsti)", said), said)
        t.ok("doctor-tells-of-a-program-that-an-agent-can-replace", re.search(r"weak program .*an agent can replace .*%s" % re.escape(house.dir), said), said)
        second = "".join(house("up", "--foreground", timeout=20)[1:])
        t.ok("a-second-daemon-is-told-who-is-there", "already running (pid %d)" % house.daemon_pid() in second, second)
        rc, said, _ = house("down", "--kill")
        t.ok("down-ends-all", rc == 0 and wait_for(lambda: not pid_alive(pid), LONG, 0.1), said)
        t.ok("the-keeper-leaves", wait_for(lambda: not pid_alive(keeper), LONG, 0.1))
    finally:
        house.down()


class Shell:
    """A shell of the same user, as what a terminal runs."""

    def __init__(self, house):
        self.dir, self.env = house.dir, house.env
        self.program = house.dir + "/shell"
        with open(self.program, "w") as f:
            f.write("#!/bin/sh\nexec %s /bin/sh \"$@\"\n" % " ".join(getattr(house, "as_user", [])))
        os.chmod(self.program, 0o755)


# Hides from everybody, has a terminal of its own, and its keeper is gone: nothing tells it from a person but that it hides.
HIDDEN = """
import ctypes, json, os, pty, socket, sys, time
native, out, ask = sys.argv[1:4]
if os.fork():
    os._exit(0)
os.setsid()
parent = os.getpid()
if os.fork():
    os._exit(0)
while os.getppid() == parent and time.monotonic() < float(sys.argv[4]):
    time.sleep(0.05)
parent = os.getppid()
if sys.argv[5] == "hide":
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
pid, fd = pty.fork()
if pid:
    os.waitpid(pid, 0)
    os._exit(0)
s = socket.socket(socket.AF_UNIX)
s.settimeout(30)
s.connect(native)
s.sendall(ask.encode() + b"\\n")
said = s.makefile().readline()
with open(out + ".new", "w") as f:
    f.write("ppid %d: %s" % (parent, said))
os.rename(out + ".new", out)
"""


@area("ordinary-hidden")
def hidden(t):
    """A program that hides is no person for that: an orphan that nobody can look into decides nothing."""
    house = ordinary(t)
    if not house:
        return
    house.up()
    try:
        script, out = house.dir + "/hidden.py", house.dir + "/said"
        with open(script, "w") as f:
            f.write(HIDDEN)
        os.chmod(script, 0o644)
        ask = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "rule.add", "params": {
            "effect": "allow", "stages": [[{"is": "/usr/bin/id"}]], "privileged": True}})

        def orphan(how):
            """From outside: as the orphan of a keeper that is gone would be."""
            argv = [PYTHON, script, house.record()["native"], out + how, ask, "1e12", how]
            subprocess.run(getattr(house, "as_user", []) + argv, env=house.env, timeout=LONG)
            wait_for(lambda: os.path.exists(out + how), LONG, 0.1)
            return open(out + how).read()
        said = orphan("hide")
        # Under a reaper of root's, as ./test has one, no orphan comes to init: it is spoken for by that reaper, as by an sshd.
        if said.startswith("ppid 1:"):
            t.ok("an-orphan-that-hides-decides-nothing", "cannot check pid" in said, said)
            t.eq("it-made-no-rule", house.good("rules"), "")
        said = orphan("show")
        t.ok("control-one-that-can-be-looked-at-does", "result" in json.loads(said.split(": ", 1)[1]), said)
    finally:
        house.down()


@area("ordinary-port")
def port(t):
    """A head node asks lsof whose daemon listens on a port: it finds one of the user, that holds nothing."""
    if not shutil.which("lsof"):
        return t.skip("lsof", "lsof is missing")
    house = ordinary(t)
    if not house:
        return
    house.up()
    try:
        def port_now():
            """Another daemon of this machine may have taken it in a restart."""
            return next(d["address"] for d in house.record()["doors"] if d["name"] == "codecast").rsplit(":", 1)[1]
        number = port_now()
        as_user = getattr(house, "as_user", [])

        def listed():
            p = subprocess.run(as_user + ["lsof", "-ti", ":" + number, "-sTCP:LISTEN"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            return [int(pid) for pid in p.stdout.split()]
        t.ok("lsof-finds-one-process", wait_for(lambda: len(listed()) == 1, LONG, 0.2), listed())
        sign = listed()[0]
        t.ok("it-is-not-the-daemon", sign != house.daemon_pid())
        owner = subprocess.run(["ps", "-o", "user=", "-p", str(sign)], stdout=subprocess.PIPE).stdout.decode().strip()
        t.eq("it-is-the-users", owner, pwd.getpwuid(os.stat("/proc/%d" % house.daemon_pid()).st_uid).pw_name)
        taken = attack(house, sign)
        t.eq("it-hides-nothing", taken[sign], EVERY_WAY)
        with open("/proc/%d/environ" % sign) as f:
            t.ok("it-knows-nothing-but-its-mark", re.fullmatch(r"(OSTLER_PROCESS=\w+\0)", f.read()))
        held = sorted(os.readlink("/proc/%d/fd/%s" % (sign, fd)).split(":")[0] for fd in os.listdir("/proc/%d/fd" % sign))
        t.eq("it-holds-one-socket", held.count("socket"), 1)
        local = subprocess.run(["lsof", "-nP", "-a", "-p", str(sign), "-iTCP"], stdout=subprocess.PIPE).stdout.decode()
        t.ok("on-another-loopback-address", re.search(r"TCP 127\.0\.0\.[2-9]:%s \(LISTEN\)" % number, local), local)
        s = socket.create_connection(("127.0.0." + re.search(r"127\.0\.0\.(\d)", local).group(1), int(number)), timeout=LONG)
        t.eq("who-comes-there-is-sent-away", s.recv(1), b"")
        s.close()
        said = house.good("ps", "-a")
        t.ok("it-is-in-no-list", "__port" not in said, said)
        os.kill(sign, signal.SIGKILL)
        t.ok("killed-there-is-another", wait_for(lambda: listed() not in ([], [sign]), LONG, 0.2), listed())
        daemon = house.daemon_pid()
        house.good("restart")
        number = port_now()
        t.ok("after-a-restart-there-is-one", wait_for(lambda: len(listed()) == 1, LONG, 0.2), listed())
        house.down()
        t.ok("without-a-daemon-there-is-none", daemon and wait_for(lambda: not listed(), LONG, 0.2), listed())
    finally:
        house.down()


@area("ordinary-settings")
def settings(t):
    """A setting that loosens something stands in a file that agents write: it counts once a person has confirmed it."""
    house = ordinary(t)
    if not house:
        return
    program = house.dir + "/mine"
    with open(program, "w") as f:
        f.write("#!/bin/sh\nid -u\n")
    os.chmod(program, 0o755)
    os.chown(program, NOBODY, NOBODY)
    folder = house.dir + "/.config/ostler"
    os.makedirs(folder, exist_ok=True)

    def write(text):
        with open(folder + "/config.toml", "w") as f:
            f.write(text)

    def asked():
        """What becomes of a root command whose file the asker can replace: refused at once, or a question."""
        asker = house.ask([program], privileged=True)
        wait_for(lambda: asker.answered() or house.pending(), LONG, 0.1)
        if not asker.answered():
            asker.sock.close()
            wait_for(lambda: not house.pending(), LONG, 0.1)
            return "asked"
        return asker.answer().get("status")
    name = "approvals.writable_programs"
    write('[approvals]\nwritable_programs = "warn"\n[daemon]\ncore_dumps = true\n')
    house.up()
    try:
        status, doctor = house.good("status"), house("doctor")[1]
        for where, said in (("status", status), ("doctor", doctor)):
            t.ok("%s-says-what-waits-and-how-to-confirm" % where, "%s = warn has no effect until you confirm it: ostler config confirm %s" % (name, name) in said
                 and "ostler config confirm daemon.core_dumps" in said, said)
        t.eq("unconfirmed-it-does-not-count", asked(), "error")
        t.eq("nor-do-core-dumps", sorted(attack(house, house.daemon_pid(), keeper_of(house)).values()), [[], []])
        for how in ([], ["-t"]):
            rc, out, err = house("run", *how, "--", getattr(house, "real", house.program), "config", "confirm", name)
            t.ok("an-agent-does-not-confirm-it%s" % "".join(how), rc != 0 and "runs in ostler" in out + err, (rc, out, err))
        rc, out, err = house("config", "confirm", name)
        t.ok("nor-does-a-script-without-a-terminal", rc != 0 and "has no terminal" in out + err, (rc, out, err))
        t.ok("the-attempts-are-on-record", len(house.audit("attempted")) >= 3)
        house.good("restart")
        t.eq("a-restart-confirms-nothing", asked(), "error")
        term = Terminal(house, "config", "confirm", name)
        term.until(b"[y/N] ", LONG)
        shown = b"%s = warn" % name.encode() in term.seen
        term.press(b"n")
        t.ok("what-would-count-is-shown-and-no-is-no", shown and term.wait() == 1 and "confirm" in house.good("status"), term.seen)
        for setting in (name, "daemon.core_dumps"):
            code, seen = confirms(house, setting)
            t.ok("a-person-confirms-%s" % setting, code == 0 and b"takes effect with: ostler restart" in seen, seen)
        house.good("restart")
        t.eq("confirmed-it-counts", asked(), "asked")
        t.ok("status-is-quiet", "confirm" not in house.good("status"))
        taken = attack(house, house.daemon_pid(), keeper_of(house))
        t.eq("core-dumps-are-back", sorted(taken.values()), [EVERY_WAY, EVERY_WAY])
        said = house.good("audit")
        t.ok("the-audit-says-who", re.search(r"confirmed .*%s = warn by \S+ at /dev/pts/" % re.escape(name), said), said)
        write('')
        house.good("restart")
        t.eq("taken-back-it-is-strict", (asked(), sorted(attack(house, house.daemon_pid(), keeper_of(house)).values())), ("error", [[], []]))
        write('[approvals]\nwritable_programs = "warn"\n')
        house.good("restart")
        t.eq("and-has-to-be-confirmed-again", (asked(), "confirm" in house.good("status")), ("error", True))
    finally:
        house.down()


@area("ordinary-bind")
def bind(t):
    """The address of the codecast door in a file that agents write: other machines are let in once a person has confirmed it."""
    house = ordinary(t)
    if not house:
        return
    folder = house.dir + "/.codecast"
    os.makedirs(folder)
    with open(folder + "/daemon.yaml", "w") as f:
        f.write('bind: "0.0.0.0"\n')
    # Other programs' places are in there too.
    house.env["XDG_RUNTIME_DIR"] = house.dir + "/run"
    os.mkdir(house.dir + "/run", 0o700)
    for path in (folder, house.dir + "/run"):
        os.chown(path, NOBODY, NOBODY)

    def address():
        return next(d["address"] for d in house.record()["doors"] if d["name"] == "codecast").rsplit(":", 1)[0]
    house.good("up", "--drop-in")
    try:
        t.eq("unconfirmed-it-stays-on-the-loopback", address(), "127.0.0.1")
        t.ok("status-says-what-waits", "codecast.bind = 0.0.0.0 has no effect until you confirm it" in house.good("status"))
        code, seen = confirms(house, "codecast.bind")
        t.ok("a-person-confirms-it", code == 0, seen)
        house.good("restart")
        t.eq("confirmed-it-counts", address(), "0.0.0.0")
        with open(folder + "/daemon.yaml", "w") as f:
            f.write('bind: "::"\n')
        house.good("restart")
        t.eq("another-address-does-not", address(), "127.0.0.1")
    finally:
        house.down()


@area("ordinary-hidepid")
def hidepid(t):
    """Where /proc hides what may not be looked into, nobody could tell who descends from whom: there nothing is hidden, and doctor says so."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return t.skip("hidepid", "needs root and unshare")
    house = ordinary(t)
    script = house.dir + "/hidepid.sh"
    with open(script, "w") as f:
        f.write("""mount -t proc -o hidepid=2 proc /proc && cd %s || exit 9
o="%s"
$o up >/dev/null && $o run -- echo ran && $o run -d --name stays -- sleep 100 >/dev/null && $o ps && $o restart >/dev/null && $o ps && $o doctor | grep protection
$o down --kill
""" % (house.dir, house.program))
    p = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", script], env=house.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    said = p.stdout.decode(errors="replace")
    t.ok("everything-works", p.returncode == 0 and "ran\n" in said and said.count("stays") == 2 and "ostler stopped" in said, said)
    t.ok("doctor-says-that-nothing-protects-our-processes", re.search(r"weak protection .*hidepid", said), said)


@area("ordinary-ssh")
def over_ssh(t):
    """A person who decides by `ssh -t HOST ostler approve`: nothing is between the client and an sshd that nobody can look into."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("sshd", "ssh-keygen", "useradd"))):
        return t.skip("ssh", "needs root, sshd and useradd")
    account, house, sshd = Account("not used 17", "ALL=(root) ALL"), None, None
    try:
        house = ordinary(t, account.user).up()
        folder = t.tmp()
        os.chmod(folder, 0o755)
        sshd = Sshd(folder, "SetEnv HOME=%s\n" % house.dir, account.name)
        asker = house.ask(["sh", "-c", "echo over-ssh"])
        one = house.waiting()[0]
        client = Ssh(house, sshd.argv("exec %s approve %s" % (house.real, one["id"])))
        term = Terminal(client)
        term.press(b"y")
        t.ok("a-person-approves", term.wait() == 0 and asker.answer().get("text") == "over-ssh\n", term.seen)
        by = [a["record"]["by"] for a in house.audit("decided")]
        t.ok("and-is-known-by-the-terminal", by and by[-1].get("tty", "").startswith("/dev/pts/"), by)
    finally:
        if sshd:
            sshd.stop()
        if house:
            house.down()
        account.remove()


class Ssh:
    """ssh with a terminal, as what a terminal runs."""

    def __init__(self, house, argv):
        self.dir, self.env, self.program = house.dir, house.env, house.dir + "/ssh"
        argv = ["-tt" if word == "-T" else word for word in argv]
        with open(self.program, "w") as f:
            f.write("#!/bin/sh\nexec %s\n" % " ".join(map(shlex.quote, argv)))
        os.chmod(self.program, 0o755)
