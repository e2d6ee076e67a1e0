"""What a full disk, a deleted folder, a failing disk and a flood of connections leave standing."""
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time

from lib import area, pid_alive, wait_for


class Instance:
    """`ostler up` with a state folder of its own; sockets elsewhere, unless told."""

    def __init__(self, t, state, runtime=True, nofile=None):
        self.t, self.dir, self.nofile = t, t.tmp(), nofile
        self.state = state or self.dir + "/state"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("OSTLER_", "XDG_", "CLAUDE"))}
        self.env.update(HOME=self.dir, SHELL="/bin/sh", OSTLER_STATE=self.state, OSTLER_DOORS_CODECAST="false")
        if runtime:
            self.env["OSTLER_RUNTIME"] = self.dir + "/run"
        self.folder = self.state + "/instances/main"

    def __call__(self, *args, timeout=60):
        limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (self.nofile, self.nofile))) if self.nofile and args[0] == "up" else None
        p = subprocess.run([self.t.ostler()] + list(args), env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           timeout=timeout, cwd="/", preexec_fn=limit)
        return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")

    def status(self):
        rc, o, _ = self("status", "--json")
        return json.loads(o)[0] if rc == 0 else None

    def hosted(self, name):
        """The pid of a hosted process."""
        rc, o, e = self("ps", "-a", "--json")
        found = [p for p in json.loads(o) if p["id"].startswith(name)] if rc == 0 else []
        return found[0] if found else None


class Disk:
    """A small tmpfs; nothing where it cannot be mounted."""

    def __init__(self, t, size):
        self.at = t.tmp()
        self.mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=" + size, "none", self.at], stderr=subprocess.DEVNULL).returncode == 0

    def fill(self):
        with open(self.at + "/filler", "ab", buffering=0) as f:
            for step in (1 << 16, 4096, 1):
                try:
                    while f.write(b"x" * step):
                        pass
                except OSError:
                    pass

    def free(self):
        os.unlink(self.at + "/filler")

    def end(self):
        subprocess.run(["umount", "-l", self.at], stderr=subprocess.DEVNULL)


@area("full-disk")
def full_disk(t):
    disk = Disk(t, "24m")
    if not disk.mounted:
        return t.skip("all", "a small tmpfs cannot be mounted")
    ostler = Instance(t, disk.at + "/state")
    try:
        t.eq("up", ostler("up")[0], 0)
        quiet = ostler("run", "-d", "--", "sleep", "1000")[1].strip()
        writer = ostler("run", "-d", "--", "sh", "-c", "while :; do echo line; sleep 0.01; done")[1].strip()
        old = ostler.status()["pid"]
        sleeper = ostler.hosted(quiet)["pid"]
        disk.fill()
        os.kill(old, signal.SIGKILL)
        back = lambda: (ostler.status() or {}).get("pid", old) != old
        t.ok("a-killed-daemon-comes-back", wait_for(back, 30), ostler("status"))
        rc, o, e = ostler("status")
        t.ok("and-says-what-it-cannot-do", rc == 0 and "disk       full" in o, (o, e))
        t.eq("up-finds-it", ostler("up")[0], 0)
        # who is refused something reads which disk it is, and what to do
        disk.fill()
        rc, o, e = ostler("new", "echo", "/")
        named = "the disk is full (" + ostler.state in e and "df -h" in e and "No space left" not in e and "os error" not in e
        t.ok("new-names-the-disk-and-what-to-do", rc == 1 and named, (rc, o, e))
        watched = subprocess.Popen([t.ostler(), "logs", "-f", "-n", "0", writer], env=ostler.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        timer = threading.Timer(40, watched.kill)
        timer.start()
        t.has("who-waits-for-output-is-told-why", watched.stderr.readline().decode(), "waiting: the disk is full")
        timer.cancel()
        watched.kill()
        watched.communicate()
        left = lambda: [n for n in os.listdir(ostler.folder) if n.startswith("instance.json.")]
        t.eq("no-half-record-stays", left(), [])
        disk.free()
        t.ok("it-goes-on-by-itself", wait_for(lambda: ostler("run", "-d", "--", "true")[0] == 0, 30))
        record = lambda: json.load(open(ostler.folder + "/instance.json"))["pid"] == ostler.status()["pid"]
        t.ok("and-is-in-the-register-again", wait_for(record, 30))
        # the end, on a full disk: nobody lives on, and nothing else is said
        disk.fill()
        rc, o, e = ostler("down", "--kill")
        t.ok("down-kill-says-what-is-true", rc == 0 and "processes ended" in o and "could not be ended" not in e, (rc, o, e))
        t.ok("what-it-ended-is-gone", not pid_alive(sleeper), sleeper)
        t.eq("nor-any-daemon", ostler("status")[0], 3)
        disk.free()
        t.eq("and-up-works-again", ostler("up")[0], 0)
        state = ostler.hosted(quiet) or {}
        t.ok("the-one-without-a-record-is-not-said-to-run", state.get("state") != "running", state)
    finally:
        if os.path.exists(disk.at + "/filler"):
            disk.free()
        ostler("down", "--kill")
        disk.end()


@area("small-disk")
def small_disk(t):
    disk = Disk(t, "200m")
    if not disk.mounted:
        return t.skip("all", "a small tmpfs cannot be mounted")
    ostler = Instance(t, disk.at + "/state")
    try:
        with open(disk.at + "/filler", "wb") as f:
            f.write(b"x" * (104 << 20))
        ostler("up")
        writer = "i=0; while [ $i -lt 60 ]; do head -c 500000 /dev/zero; sleep 0.05; i=$((i+1)); done; sleep 100"
        ostler("run", "-d", "--", "sh", "-c", writer)
        written = lambda: ostler.status()["journal_bytes"] > 20 << 20
        t.ok("half-a-disk-is-not-full", wait_for(written, 60), ostler("status"))
        t.eq("and-holds-nobody-back", ostler.status()["held_back"], 0)
        t.eq("the-floor-is-a-share", ostler.status()["keep_free"], (200 << 20) // 100 * 5)
        ostler("down", "--kill")
        # a setting, named where it holds somebody back
        ostler.env["OSTLER_JOURNAL_KEEP_FREE"] = "90MiB"
        ostler("up")
        ostler("run", "-d", "--", "sh", "-c", "while :; do head -c 500000 /dev/zero; sleep 0.02; done")
        t.ok("a-setting-moves-it", wait_for(lambda: ostler.status()["held_by_floor"] == 1, 60), ostler("status"))
        rc, o, e = ostler("status")
        t.ok("status-names-it", "journal.keep_free" in o and "is full" not in o, o)
    finally:
        ostler("down", "--kill")
        disk.end()


@area("full-disk-by-output")
def full_disk_by_output(t):
    """Whoever filled the disk with what it says can be ended and deleted, and whoever waits for room is told what to do."""
    disk = Disk(t, "6m")
    if not disk.mounted:
        return t.skip("all", "a small tmpfs cannot be mounted")
    ostler = Instance(t, disk.at + "/state")
    try:
        ostler("up")
        flood = ostler("run", "-d", "--name", "flood", "--", "sh", "-c", "head -c 20000000 /dev/zero | tr '\\0' x; sleep 1000")[1].strip()
        wait_for(lambda: ostler.hosted(flood)["held_back"], 30)
        disk.fill()
        rc, o, e = ostler("doctor")
        failed = [line.split()[1] for line in o.splitlines() if line.startswith("FAIL")]
        t.ok("doctor-says-it-once", rc == 1 and failed == ["space"] and "the disk is full" in o and "df -h" in o and "os error 28" not in o, o)
        waits = subprocess.Popen([t.ostler(), "run", "--", "echo", "hi"], env=ostler.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/")
        timer = threading.Timer(60, waits.kill)
        timer.start()
        told = waits.stderr.readline().decode()
        t.ok("who-waits-is-told-what-to-do", "waiting: the disk is full" in told and "df -h" in told and "ostler prune" in told, told)
        pid = ostler.hosted(flood)["pid"]
        rc, o, e = ostler("kill", "flood", "--wait")
        t.ok("it-is-ended", rc == 0 and "flood ended" in o and not pid_alive(pid), (rc, o, e))
        t.ok("what-is-missing-is-said-with-what-to-do", "not recorded" in e and "ostler forget flood" in e, e)
        t.eq("and-is-not-said-to-run", ostler.hosted(flood)["state"], "exited")
        rc, o, e = ostler("kill", "flood", "--wait")
        t.ok("nor-is-it-ended-twice", rc == 0 and "already ended" in o, (rc, o, e))
        rc, o, e = ostler("forget", "flood")
        t.ok("it-can-be-deleted", rc == 0 and ostler.hosted(flood) is None, (rc, o, e))
        said, _ = waits.communicate(timeout=60)
        timer.cancel()
        t.eq("and-who-waited-goes-on", (waits.returncode, said), (0, b"hi\n"))
        t.eq("for-good-when-the-daemon-is-killed", (os.kill(ostler.status()["pid"], signal.SIGKILL), ostler("ps")[0], ostler.hosted(flood)), (None, 0, None))
    finally:
        if os.path.exists(disk.at + "/filler"):
            disk.free()
        ostler("down", "--kill")
        disk.end()


@area("full-disk-new")
def full_disk_new(t):
    """The first `up` of all on a disk that takes nothing: its log takes no reason, and the person is told one."""
    disk = Disk(t, "1m")
    if not disk.mounted:
        return t.skip("all", "a small tmpfs cannot be mounted")
    ostler = Instance(t, disk.at + "/state")
    try:
        disk.fill()
        rc, o, e = ostler("up")
        t.ok("up-names-the-disk-and-what-to-do", rc == 1 and "the disk is full (" + disk.at in e and "df -h " + disk.at in e and "os error" not in e, (rc, o, e))
        disk.free()
        t.eq("and-comes-up-once-there-is-room", ostler("up")[0], 0)
    finally:
        ostler("down", "--kill")
        disk.end()


@area("doctor-inodes")
def doctor_inodes(t):
    at = t.tmp()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=300", "none", at], stderr=subprocess.DEVNULL).returncode:
        return t.skip("all", "a small tmpfs cannot be mounted")
    try:
        ostler = Instance(t, at + "/state")
        said = json.loads(ostler("doctor", "--json")[1])
        checks = said if isinstance(said, list) else said.get("checks", [])
        found = [c for c in checks if "inodes" in json.dumps(c)]
        t.ok("doctor-looks-at-inodes", found and "of 300 free" in json.dumps(found), said)
    finally:
        subprocess.run(["umount", "-l", at], stderr=subprocess.DEVNULL)


@area("deleted-state")
def deleted_state(t):
    for name, runtime in (("sockets-elsewhere", True), ("sockets-below", False)):
        ostler = Instance(t, None, runtime)
        ostler("up")
        pid = ostler.status()["pid"]
        sleeper = ostler.hosted(ostler("run", "-d", "--", "sleep", "1000")[1].strip())["pid"]
        shutil.rmtree(ostler.state)
        rc, o, e = ostler("down", "--kill")
        gone = wait_for(lambda: not pid_alive(pid) and not pid_alive(sleeper), 20)
        t.ok("down-kill-ends-it-%s" % name, rc == 0 and gone, (rc, o, e))
        for p in (pid, sleeper):
            if pid_alive(p):
                os.kill(p, signal.SIGKILL)


@area("failing-disk")
def failing_disk(t):
    # reading the beginning of one's own memory fails as a broken disk does
    ostler = Instance(t, None)
    os.makedirs(ostler.folder, 0o700)
    os.chmod(ostler.state, 0o700)
    os.symlink("/proc/self/mem", ostler.folder + "/instance.json")
    for verb in (["status"], ["ps"], ["run", "--", "true"], ["down", "--kill"]):
        rc, o, e = ostler(*verb)
        t.ok("%s-says-so" % verb[0], rc == 1 and "Input/output error" in e and "ostler is not running" not in e, (rc, o, e))


@area("idle-connections")
def idle_connections(t):
    ostler = Instance(t, None, nofile=1024)
    ostler("up")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    open_ = []
    try:
        for door in ("main.sock", "main-claustrum.sock"):
            for _ in range(2000):
                s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                s.setblocking(False)
                path = ostler.env["OSTLER_RUNTIME"] + "/" + door
                # where the line before the door is full, one waits; a door that lets nobody in is what this looks for
                came = lambda: s.connect_ex(path) == 0
                if not wait_for(came, 10):
                    break
                open_.append(s)
            started = time.monotonic()
            rc, o, e = ostler("ps")
            t.ok("the-owner-is-served-beside-2000-at-%s" % door, rc == 0 and time.monotonic() - started < 20, (rc, o, e))
            t.eq("and-can-run-something-%s" % door, ostler("run", "--", "echo", "hi")[:2], (0, "hi\n"))
    finally:
        for s in open_:
            s.close()
        ostler("down", "--kill")


@area("session-descriptors")
def session_descriptors(t):
    ostler = Instance(t, None, nofile=300)
    ostler("up")
    try:
        pid = ostler.status()["pid"]
        count = lambda: len(os.listdir("/proc/%d/fd" % pid))
        before = count()
        failed = []
        for i in range(150):
            rc, o, e = ostler("new", "echo", "--json", "-m", "hello")
            name = json.loads(o.splitlines()[0])["id"] if rc == 0 else ""
            closed = ostler("close", name)[0] if rc == 0 else 1
            if rc or closed:
                failed.append((i, rc, o[-200:], e[-300:]))
                break
        t.eq("150-sessions-at-300-descriptors", failed, [])
        t.ok("closed-sessions-cost-none", wait_for(lambda: count() <= before + 12, 20), (before, count()))
        ids = [s["id"] for s in json.loads(ostler("sessions", "-a", "--json")[1])]
        bad = [i for i in ids if ostler("export", i)[0] != 0]
        t.eq("every-one-can-be-exported", (len(ids) >= 150, bad), (True, []))
        t.ok("an-export-costs-none", wait_for(lambda: count() <= before + 12, 20), (before, count()))
    finally:
        ostler("down", "--kill")
