"""One engine per user: programs that ostler stands in for, started while `ostler up` runs. Their doors are open there, what they begin
is everybody's, and whoever is killed, nothing is lost."""
import glob
import json
import os
import pwd
import resource
import shutil
import signal
import socket
import subprocess

from account import Account
from approvals_kit import approved
from codecast_kit import LONG, kinds, suite, texts
from kit import Fail
from lib import Conn, area, pid_alive, wait_for
from sessions_kit import House
from zeroclaw import Client

SLOW = "SLOW:3000"


def free_port():
    return suite.Env.free_port(None)


class Program:
    """A program in the house that has a door of its own."""

    def __init__(self, house, *words, env=None, before=(), **options):
        self.house, self.words, self.before, self.options = house, list(words), list(before), options
        self.env = dict(house.env, **(env or {}))
        self.log = os.path.join(house.dir, "%s.%d.log" % (words[0], len(house.programs)))
        house.programs.append(self)
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.p = subprocess.Popen(self.before + [self.house.program, "as"] + self.words, env=self.env, cwd=self.house.dir, stdin=subprocess.DEVNULL,
                                      stdout=log, stderr=log, **self.options)
        if not wait_for(self.answers, LONG, 0.05):
            raise Fail("%s does not answer: %s" % (self.words[0], self.said()[-500:]))

    def said(self):
        return open(self.log, errors="replace").read()

    def pid(self):
        return self.p.pid

    def says(self, *words):
        """Whether it says all of this: its log may be a moment behind it."""
        return wait_for(lambda: all(word in self.said() for word in words), LONG)

    def ends(self, sig):
        """Its exit code after this signal."""
        self.p.send_signal(sig)
        return self.p.wait(LONG)

    def stop(self):
        if self.p.poll() is None:
            self.p.kill()
            self.p.wait(LONG)


class Codecast(Program):
    def __init__(self, house, env=None, **options):
        self.port = free_port()
        self.rpc = suite.Rpc(self.port, "127.0.0.1", False)
        super().__init__(house, "codecast-daemon", env=dict(env or {}, DAEMON_PORT=str(self.port)), **options)

    def answers(self):
        if self.before:
            return "DAEMON_PORT=" in self.said()
        try:
            return self.p.poll() is not None or self.rpc.post({"method": "health.check"}, timeout=LONG)[0] == 200
        except OSError:
            return False

    def new(self):
        return self.rpc.ok("session.create", {"path": self.house.dir, "cli_type": "echo", "mode": "ask"})["sessionId"]

    def send(self, session, message):
        return suite.Stream(self.rpc, session, message, timeout=LONG)

    def run(self, session, message):
        return self.send(session, message).finish(LONG).events()

    def sessions(self):
        return [s["sessionId"] for s in self.rpc.ok("session.list", {})["sessions"]]


class Orphan(Codecast):
    """One whose parent is gone, as what a command over ssh leaves behind."""

    def __init__(self, house, run):
        self.file = os.path.join(house.dir, "pid")
        super().__init__(house, before=run + ["sh", "-c", 'setsid "$@" & echo $! > "$0"', self.file])

    def pid(self):
        return int(open(self.file).read())

    def ends(self, sig):
        os.kill(self.pid(), sig)
        return wait_for(lambda: not pid_alive(self.pid()), LONG)

    def stop(self):
        if pid_alive(self.pid()):
            os.kill(self.pid(), signal.SIGKILL)


class Zeroclaw(Program):
    def __init__(self, house, *args, env=None, **options):
        self.socket = os.path.join(house.dir, "zc%d.sock" % len(house.programs))
        super().__init__(house, "zeroclaw", "daemon", *args, env=dict(env or {}, ZEROCLAW_SOCKET=self.socket), **options)

    def answers(self):
        if self.p.poll() is not None:
            return True
        try:
            Client(self.socket, init=False).close()
            return True
        except OSError:
            return False


class Claustrum(Program):
    """Its launcher leaves, the daemon is found by its socket."""

    def __init__(self, house, *args, **options):
        self.socket, self.token = os.path.join(house.dir, "c%d.sock" % len(house.programs)), "a secret of %d" % os.getpid()
        self.file = self.socket + ".token"
        super().__init__(house, "claustrum", "-serve", "-socket", self.socket, "-token-file", self.file, *args, **options)

    def start(self):
        with open(self.file, "w") as f:
            f.write(self.token)
        super().start()
        self.p.wait(LONG)
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.socket)
            self.daemon = int.from_bytes(s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], "little")

    def answers(self):
        return self.p.poll() is not None and os.path.exists(self.socket)

    def conn(self):
        return Conn(self.socket, self.token)

    def pid(self):
        return self.daemon

    def ends(self, sig):
        os.kill(self.pid(), sig)
        if not wait_for(lambda: not pid_alive(self.pid()), LONG):
            raise Fail("claustrum %d does not end" % self.pid())

    def stop(self):
        if pid_alive(self.pid()):
            os.kill(self.pid(), signal.SIGKILL)


class Joined(House):
    """A home with `ostler up`, and programs that come afterwards."""

    def __init__(self, t):
        self.programs = []
        super().__init__(t)

    def stop(self):
        for program in self.programs:
            program.stop()
        super().stop()

    def door(self, address):
        """How the door at this address is told of, in `status` and in the register."""
        listed = [d["connect"] for d in self.json("status", "--instance", "main")[0]["doors"] if d["address"] == address]
        with open(self.state + "/instances/main/instance.json") as f:
            known = [d["connect"] for d in json.load(f)["doors"] if d["address"] == address]
        return listed if listed == known else [listed, known]

    def instances(self):
        return sorted(s["instance"] for s in self.json("status"))

    def of(self, uuid):
        """The session with this UUID, as `ostler sessions` tells it."""
        return next((s for s in self.json("sessions") if s["uuid"] == uuid), {})

    def agent(self, uuid):
        """The pid of the session's agent."""
        if not wait_for(lambda: self.of(uuid).get("process"), LONG, 0.05):
            raise Fail("%s has no agent" % uuid)
        return next(p["pid"] for p in self.json("ps") if p["id"] == self.of(uuid)["process"])

    def kill(self):
        """SIGKILL for the daemon; its keeper brings it back."""
        pid = self.json("status", "--instance", "main")[0]["pid"]
        os.kill(pid, signal.SIGKILL)
        back = lambda: any(s["instance"] == "main" and s["pid"] != pid for s in json.loads(self("--json", "status")[1] or "[]"))
        if not wait_for(back, LONG, 0.1):
            raise Fail("the daemon does not come back")


def listed(t, name, house, program, address):
    t.ok(name, wait_for(lambda: house.door(address) and "(pid %d)" % program.pid() in house.door(address)[0], LONG, 0.1), house.door(address))


@area("joining-codecast")
def codecast(t):
    house = Joined(t)
    few = lambda: (os.umask(0o027), resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300)), resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 4 << 20)),
                   resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
    d = Codecast(house, env={"ONLY_HERE": "codecast"}, preexec_fn=few)
    address = "127.0.0.1:%d" % d.port
    t.ok("says-that-it-joined", d.says("joined ostler", "DAEMON_PORT=%d" % d.port), d.said())
    listed(t, "its-door-is-listed-with-its-pid", house, d, address)
    t.eq("and-there-is-one-instance", house.instances(), ["main"])
    session = d.new()
    events = d.run(session, "hello")
    t.ok("a-turn-at-its-door", kinds(events)[-1] == "result" and "hello" in "".join(texts(events)), events)
    id = house.of(session).get("id")
    t.ok("the-session-is-in-the-list", id, house.json("sessions"))
    with_zerocode = Client(next(x["address"] for x in house.json("status")[0]["doors"] if x["name"] == "zeroclaw"))
    t.ok("and-in-zerocodes", session in json.dumps(with_zerocode.ok("session/list-acp")), with_zerocode.ok("session/list-acp"))
    with_zerocode.close()
    stream = d.send(session, "ASK")
    seen, code = approved(house, house.waiting(id))
    t.ok("what-it-asks-is-answered-in-the-one-inbox", code == 0 and kinds(stream.finish(LONG).events())[-1] == "result", (code, seen))
    other = house.new()
    house.good("send", other, SLOW, "--no-wait")
    house.until(other, "running")
    stream = d.send(session, SLOW)
    pid = house.agent(session)
    with open("/proc/%d/environ" % pid, "rb") as f:
        t.ok("its-agents-have-its-environment", b"ONLY_HERE=codecast" in f.read().split(b"\0"))
    status = open("/proc/%d/status" % pid).read()
    t.ok("its-umask", "Umask:\t0027" in status, status)
    limits = next(l for l in open("/proc/%d/limits" % pid) if l.startswith("Max open files")).split()
    t.eq("and-its-limits", limits[3:5], ["200", "300"])
    rest = {l[:26].strip(): l[26:].split()[:2] for l in open("/proc/%d/limits" % pid)}
    t.eq("all-of-them", (rest["Max stack size"], rest["Max core file size"]), ([str(1 << 20), str(4 << 20)], ["0", "0"]))
    theirs = next(p["pid"] for p in house.json("ps") if p["id"] == house.info(other)["process"])
    with open("/proc/%d/environ" % theirs, "rb") as f:
        t.ok("nobody-else-has", b"ONLY_HERE" not in f.read())
    others = {l[:26].strip(): l[26:].split()[:2] for l in open("/proc/%d/limits" % theirs)}
    t.ok("nor-its-limits", others["Max stack size"] != rest["Max stack size"], others)
    queued = d.run(session, "and then this")
    t.eq("a-prompt-waits", kinds(queued), ["queued"])
    t.eq("its-stop-ends-it-with-0", d.ends(signal.SIGTERM), 0)
    t.ok("its-agent-has-ended", not pid_alive(pid))
    t.eq("its-stream-says-so", kinds(stream.wait(lambda s: s.closed, LONG).events())[-1], "error")
    t.ok("the-others-go-on", house.info(other)["status"] == "running" and pid_alive(theirs), house.info(other))
    t.ok("its-door-is-gone", not house.door(address) and not os.path.exists(house.dir + "/.codecast/daemon.port"))
    t.eq("what-waits-does-not-begin-without-it", house.of(session).get("queued"), 1)
    d.start()
    t.ok("its-sessions-are-there-again", session in d.sessions())
    t.ok("and-go-on", wait_for(lambda: any("and then this" in x for x in house.texts(id)), LONG, 0.1), house.texts(id))
    first = d.p
    d.start()
    t.eq("a-second-one-takes-over", first.wait(LONG), 0)
    listed(t, "and-its-door-is-listed", house, d, address)
    house.down()
    t.eq("with-the-daemons-stop-it-ends", d.p.wait(LONG), 0)


@area("joining-kills")
def kills(t):
    house = Joined(t)
    d, z = Codecast(house), Zeroclaw(house)
    address, session = "127.0.0.1:%d" % d.port, d.new()
    stream = d.send(session, "SLOW:25")
    pid = house.agent(session)
    house.kill()
    stream.wait(lambda s: s.closed, LONG)
    listed(t, "daemon-killed-the-door-is-offered-again", house, d, address)
    listed(t, "and-that-of-the-other", house, z, z.socket)
    t.ok("the-same-program-holds-it", d.p.poll() is None and z.p.poll() is None)
    t.ok("the-agent-goes-on", pid_alive(pid) or house.of(session)["status"] == "idle")
    rest = lambda: kinds(d.rpc.ok("session.reconnect", {"sessionId": session}, timeout=LONG)["bufferedEvents"])
    found = []
    t.ok("its-client-gets-the-rest", wait_for(lambda: (found.extend(rest()), "result" in found)[1], LONG, 0.2), found)
    house.good("restart")
    listed(t, "and-so-it-is-after-a-restart", house, d, address)
    t.eq("with-nothing-lost", session in d.sessions(), True)
    c = Client(z.socket)
    t.ok("the-sessions-of-one-are-at-the-door-of-the-other", session in json.dumps(c.ok("session/list-acp")))
    c.close()

    d.send(session, SLOW)
    pid = house.agent(session)
    d.ends(signal.SIGKILL)
    t.ok("program-killed-its-door-closes", wait_for(lambda: not house.door(address), LONG, 0.1), house.door(address))
    try:
        d.rpc.post({"method": "health.check"}, timeout=LONG)
        t.ok("and-nobody-answers-there", False)
    except OSError:
        t.ok("and-nobody-answers-there", True)
    t.ok("its-agent-goes-on-all-the-same", pid_alive(pid) and house.of(session)["status"] == "running", house.of(session))
    d.start()
    t.ok("the-next-one-finds-it", session in d.sessions())
    listed(t, "and-is-listed", house, d, address)

    main = house.json("status", "--instance", "main")[0]["pid"]
    os.kill(d.p.pid, signal.SIGKILL)
    os.kill(main, signal.SIGKILL)
    d.p.wait(LONG)
    t.ok("both-killed-the-daemon-comes-back", wait_for(lambda: house("status")[0] == 0 and house.json("status", "--instance", "main")[0]["pid"] != main, LONG, 0.1))
    t.eq("without-that-door", house.door(address), [])
    listed(t, "and-with-the-one-that-lives", house, z, z.socket)
    t.ok("the-agent-lives", pid_alive(pid) and house.of(session)["status"] == "running", house.of(session))
    d.start()
    t.ok("and-is-found", session in d.sessions())
    t.eq("its-stop", d.ends(signal.SIGTERM), 0)
    t.ok("ends-it", not pid_alive(pid))


@area("joining-kept")
def kept(t):
    """`down --keep` leaves the programs without a daemon: the next one has their doors again, and without one they end and say why."""
    house = Joined(t)
    d = Codecast(house)
    address, session = "127.0.0.1:%d" % d.port, d.new()
    d.send(session, SLOW)
    pid = house.agent(session)
    house.good("down", "--keep")
    t.ok("the-program-waits", d.says("joining ostler again") and d.p.poll() is None, d.said())
    t.ok("its-agent-goes-on", pid_alive(pid))
    house.good("up")
    listed(t, "the-next-daemon-has-its-door", house, d, address)
    t.ok("and-its-session", session in d.sessions() and pid_alive(pid))
    house.good("down", "--keep")
    t.ok("without-a-daemon-it-ends", d.p.wait(LONG) not in (0, None), d.said())
    t.ok("and-says-why", "has not come back" in d.said(), d.said())
    t.ok("which-ends-nothing-else", pid_alive(pid))
    house.good("up")
    house.good("down", "--kill")
    t.ok("until-everything-is-ended", wait_for(lambda: not pid_alive(pid), LONG))


@area("joining-zeroclaw")
def zeroclaw(t):
    house = Joined(t)
    z = Zeroclaw(house, env={"ONLY_HERE": "zeroclaw", "OSTLER_ZEROCLAW_VERSION": "9.8.7"})
    listed(t, "its-door-is-listed-with-its-pid", house, z, z.socket)
    c = Client(z.socket)
    t.ok("it-reports-its-own-version", "9.8.7" in json.dumps(c.hello), c.hello)
    s = c.ok("session/new", {"agent_alias": "echo", "session_id": "mine"})["session_id"]
    c.turn(s, "hello there")
    t.ok("a-turn-at-its-door", "hello there" in c.text(), c.told)
    t.ok("the-session-is-in-the-list", [x for x in house.json("sessions") if x["alias"] == "mine"] or "mine" in json.dumps(house.json("sessions")), house.json("sessions"))
    os.remove(z.socket)
    t.ok("a-socket-that-was-swept-comes-back", wait_for(z.answers, LONG, 0.1))
    c = Client(z.socket)
    t.ok("with-everything", "mine" in json.dumps(c.ok("session/list")))
    again = subprocess.run([house.program, "as", "zeroclaw", "daemon"], env=z.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LONG)
    t.ok("a-second-one-there-is-refused", again.returncode == 1 and "already serving" in again.stdout, again.stdout)
    t.eq("its-stop-ends-it-with-0", z.ends(signal.SIGTERM), 0)
    t.ok("and-its-socket", not os.path.exists(z.socket) and not house.door(z.socket))
    try:
        c.ok("session/list")
        t.ok("and-its-connections", False)
    except (EOFError, OSError):
        t.ok("and-its-connections", True)
    e = Zeroclaw(house, "--ephemeral")
    c = Client(e.socket)
    c.close()
    t.eq("an-ephemeral-one-leaves-with-its-last-client", e.p.wait(LONG), 0)
    t.ok("and-its-door-with-it", not house.door(e.socket), house.door(e.socket))


def reattached(conn):
    """Whether the process is known at this door, and runs."""
    return conn.call("process.reattach", {"id": "one", "fromSeq": 0})["result"]["running"]


@area("joining-claustrum")
def claustrum(t):
    house = Joined(t)
    d = Claustrum(house, env={"ONLY_HERE": "claustrum"})
    listed(t, "its-door-is-listed-with-its-pid", house, d, d.socket)
    c = d.conn()
    c.call("process.spawn", {"id": "one", "command": "/bin/sh", "args": ["-c", "pwd; echo $ONLY_HERE; exec sleep 300"]})
    c.wait_out("one", b"claustrum\n")
    t.ok("children-have-its-folder-and-environment", any(p["program"] == "/bin/sh" for p in house.json("ps")), house.json("ps"))
    os.makedirs(house.dir + "/beside", exist_ok=True)
    with open(house.dir + "/beside/here", "w") as f:
        f.write("found")
    # `ostler up` is elsewhere: what a client names by a relative path is this program's.
    seen = [c.call("files.read", {"path": "beside/here"})["result"], c.call("files.list", {"path": "beside"})["result"]["entries"],
            c.call("files.list", {"path": "nothing"})["error"]["message"], c.call("process.spawn", {"id": "rel", "command": "pwd", "cwd": "beside"})["result"]]
    t.eq("relative-paths-are-its-own", seen, [{"content": "found", "exists": True}, [{"name": "here", "path": "beside/here", "isDir": False}],
                                              "open nothing: no such file or directory", {"success": True}])
    subprocess.run(["git", "init", "-q", "-b", "trunk", house.dir + "/beside"], env=house.env, stdout=subprocess.DEVNULL, check=True)
    t.eq("and-so-are-repositories", c.call("git.info", {"path": "beside"})["result"].get("branch"), "trunk")
    t.ok("its-token-is-on-no-disk", not house.holds(d.token.encode()), house.holds(d.token.encode()))
    stranger = house.json("run", "-d", "--", "sleep", "300")
    pid = next(p["pid"] for p in house.json("ps") if p["program"] == "/bin/sh")
    house.kill()
    listed(t, "daemon-killed-the-door-is-offered-again", house, d, d.socket)
    c = d.conn()
    t.ok("and-its-token-and-processes-are-known-there", reattached(c), reattached(c))
    d.ends(signal.SIGKILL)
    t.ok("program-killed-its-children-live", pid_alive(pid) and wait_for(lambda: not house.door(d.socket), LONG, 0.1))
    d.start()
    c = d.conn()
    t.ok("and-are-known-to-the-next", reattached(c), reattached(c))
    rc = subprocess.run([house.program, "as", "claustrum", "-stop", "-socket", d.socket], env=dict(house.env, CLAUDE_RPC_TOKEN=d.token), stdout=subprocess.DEVNULL, timeout=LONG).returncode
    t.ok("-stop-ends-it-and-its-children", rc == 0 and wait_for(lambda: not pid_alive(d.pid()) and not pid_alive(pid), LONG))
    t.ok("and-nobody-elses", stranger["id"] in [p["id"] for p in house.json("ps")], house.json("ps"))
    d.start()
    c = d.conn()
    t.ok("who-starts-anew-starts-with-nothing", not reattached(c), reattached(c))
    d.ends(signal.SIGTERM)
    k = Claustrum(house, "-keep-children")
    c = k.conn()
    c.call("process.spawn", {"id": "kept", "command": "/bin/sleep", "args": ["300"]})
    kept = next(p["pid"] for p in house.json("ps") if p["program"] == "/bin/sleep")
    k.ends(signal.SIGTERM)
    t.ok("-keep-children-abandons-its-own-alone", pid_alive(kept) and stranger["id"] in [p["id"] for p in house.json("ps")])
    os.kill(kept, signal.SIGKILL)


@area("joining-apart")
def apart(t):
    house = Joined(t)
    never = Zeroclaw(house, env={"OSTLER_JOIN": "never"})
    t.ok("never-means-never", not house.door(never.socket) and len(house.instances()) == 2, house.instances())
    never.ends(signal.SIGTERM)

    def stays(name, why, program, address):
        t.ok(name, program.says("not joining ostler: ", why) and not house.door(address), program.said())
        program.ends(signal.SIGTERM)
    z = Zeroclaw(house, env={"OSTLER_AGENT_DRIVE": "oneshot"})
    stays("other-settings-stay-apart-and-say-why", "settings of sessions", z, z.socket)
    d = Claustrum(house, before=["sh", "-c", 'umask 077; exec "$@"', "sh"]) if open("/proc/self/status").read().find("Umask:\t0077") < 0 else None
    if d:
        stays("another-umask-keeps-a-writer-of-files-apart", "umask", d, d.socket)
    for kind, flags in (("net", ["-n"]), ("mnt", ["-m"])):
        if subprocess.run(["unshare"] + flags + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
            t.skip("another-%s-namespace-stays-apart-and-says-why" % kind, "needs root and unshare")
            continue
        z = Zeroclaw(house, before=["unshare"] + flags)
        stays("another-%s-namespace-stays-apart-and-says-why" % kind, "another %s namespace" % kind, z, z.socket)

    d = Codecast(house, env={"DAEMON_BIND": "0.0.0.0"}, before=["env"])
    t.ok("one-that-lets-other-machines-in-stays-apart", d.says("other machines are let in") and not house.door("0.0.0.0:%d" % d.port), d.said())
    d.ends(signal.SIGTERM)

    run = house.json("run", "-d", "--", "env", "ZEROCLAW_SOCKET=%s/hosted.sock" % house.dir, house.program, "as", "zeroclaw", "daemon")
    hosted = house.dir + "/hosted.sock"
    t.ok("a-hosted-one-stays-apart", wait_for(lambda: os.path.exists(hosted), LONG) and not house.door(hosted))
    t.ok("and-says-why", wait_for(lambda: "runs in ostler itself" in "".join(house("logs", run["id"])[1:]), LONG, 0.1), house("logs", run["id"]))
    liar = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(b'{\"version\": 1, \"program\": \"x\", \"shows\": false}\\n{}\\n'); print(s.recv(4096).decode())"
    sock = os.path.join(os.path.dirname(house.socket()), "main-join.sock")
    said = house.good("run", "--", shutil.which("python3"), "-c", liar, sock)
    t.ok("whatever-it-says-to-the-daemon", "refused" in said and "runs in ostler" in said, said)
    free = subprocess.run([shutil.which("python3"), "-c", liar, sock], stdout=subprocess.PIPE, text=True, timeout=LONG).stdout
    t.ok("who-is-free-gets-as-far-as-to-be-read", "cannot be read" in free, free)
    newer = liar.replace('"version": 1, "program": "x"', '"version": 99, "program": "9.9"')
    said = subprocess.run([shutil.which("python3"), "-c", newer, sock], stdout=subprocess.PIPE, text=True, timeout=LONG).stdout
    t.ok("another-version-is-refused-by-name", "version 99" in said and "9.9" in said, said)


@area("joining-limits")
def limits(t):
    """A daemon with lower limits could not give a program's children what it has."""
    house = Joined(t)
    house("down", "--kill")
    subprocess.run(["prlimit", "--stack=1048576:4194304", house.program, "up"], env=house.env, cwd=house.dir, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    z = Zeroclaw(house)
    t.ok("a-higher-limit-stays-apart-and-says-why", z.says("not joining ostler: ", "a higher limit of stack") and not house.door(z.socket), z.said())
    z.ends(signal.SIGTERM)
    lower = lambda: resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 2 << 20))
    z = Zeroclaw(house, preexec_fn=lower)
    listed(t, "a-lower-one-joins", house, z, z.socket)
    z.ends(signal.SIGTERM)


@area("joining-before")
def before(t):
    """A program that ran before `ostler up` stays beside it."""
    house = Joined(t)
    house("down", "--kill")
    d = Codecast(house)
    session = d.new()
    d.run(session, "hello")
    house.good("up")
    t.ok("both-are-listed", len(house.instances()) == 2 and house.of(session), house.instances())
    d.ends(signal.SIGTERM)
    d.start()
    # Its agent may be ending yet: that is a reason too, and comes first.
    apart = wait_for(lambda: "1 sessions were begun here apart" in d.said() or "still runs apart" in d.said(), LONG)
    t.ok("with-sessions-of-its-own-it-stays-apart", apart and session in d.sessions(), d.said())
    d.rpc.ok("session.destroy", {"sessionId": session})
    d.ends(signal.SIGTERM)
    d.start()
    t.ok("and-joins-once-they-are-closed", house.door("127.0.0.1:%d" % d.port) and house.instances() == ["main"], d.said())


@area("joining-ordinary")
def ordinary(t):
    """The same as an ordinary user, whose programs look into nobody."""
    if os.geteuid() != 0 or not (shutil.which("useradd") and shutil.which("curl")):
        return t.skip("all", "needs root, useradd and curl")
    account = Account("not used 17", "ALL=(root) ALL")
    try:
        house = Joined.__new__(Joined)
        house.programs = []
        house.program, house.dir = t.tmp() + "/ostler", t.tmp()
        shutil.copy(t.ostler(), house.program)
        os.chmod(os.path.dirname(house.program), 0o755)
        os.chown(house.dir, account.user.pw_uid, account.user.pw_gid)
        run = ["setpriv", "--reuid", account.name, "--regid", str(account.user.pw_gid), "--clear-groups"]
        house.env = dict(PATH=os.environ["PATH"], HOME=house.dir, SHELL="/bin/sh")
        house.state = house.dir + "/.local/state/ostler"
        house.__class__ = type("Theirs", (Joined,), {"__call__": lambda self, *args, **_: theirs(self, run, args)})
        t.daemons.append(house)
        house.good("up")
        # A client of another user is turned away: this one is the account's too.
        d = Orphan(house, run)
        d.rpc.post = lambda body, timeout=LONG, **_: curl(run, d.port, body)
        address = "127.0.0.1:%d" % d.port
        listed(t, "joins", house, d, address)
        session = d.new()
        curl(run, d.port, {"method": "session.send", "params": {"sessionId": session, "message": "hello"}})
        t.ok("and-has-its-session-in-the-list", wait_for(lambda: house.of(session).get("status") == "idle", LONG, 0.1), house.of(session))
        house.kill()
        listed(t, "joins-again", house, d, address)
        t.ok("with-its-session", session in d.sessions())
        t.ok("its-stop-ends-it", d.ends(signal.SIGTERM) and not house.door(address), d.said())
        house.down()
    finally:
        account.remove()


def theirs(house, run, args):
    p = subprocess.run(run + [house.program] + list(args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=house.env, cwd=house.dir, text=True, timeout=LONG)
    return p.returncode, p.stdout, p.stderr


def curl(run, port, body):
    line = ["curl", "-sN", "-w", "\n%{http_code}", "http://127.0.0.1:%d/rpc" % port, "-H", "content-type: application/json", "-d", json.dumps(body)]
    data, _, status = subprocess.run(run + line, stdout=subprocess.PIPE, timeout=LONG).stdout.rpartition(b"\n")
    return int(status or 0), {}, data
