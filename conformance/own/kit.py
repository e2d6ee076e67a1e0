"""What our own suites need beyond ../claustrum/lib.py: skips, crashes and restarts of the daemon, raw clients, memory."""
import json
import os
import signal
import socket
import sys

BESIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(BESIDE, "claustrum"))
sys.path.append(os.path.join(BESIDE, "agents"))
import clis
import lib
from lib import Fail, pid_alive, wait_for

# Settings of the person who runs the tests must not reach the daemons under test. (`clis` has read where the agents are.)
for name in [n for n in os.environ if n.startswith(("OSTLER_", "XDG_"))]:
    del os.environ[name]


class Suite(lib.T):
    """The result sink of ../claustrum, plus skips (which are failures when CI=true)."""

    def __init__(self, opt):
        opt.seed_only = False
        super().__init__(opt)
        self.skipped = 0

    def skip(self, case, reason):
        if os.environ.get("CI") == "true":
            return self.rec(case, False, "cannot run here: %s" % reason)
        self.skipped += 1
        print("SKIP %s/%s: %s" % (self.area, case, reason), flush=True)

    def summary(self):
        tail = ", %d skipped" % self.skipped if self.skipped else ""
        return "%d passed, %d failed%s" % (self.np, self.nf, tail)

    def ostler(self):
        """The program itself, behind the link that stands in for claustrum."""
        return os.path.realpath(self.argv[0])


def write_token(d):
    with open(d.tf, "w") as f:
        f.write(d.token + "\n")


def kill9(d):
    """SIGKILL for the daemon alone; its children and its socket file stay."""
    os.kill(d.pid, signal.SIGKILL)
    if not wait_for(lambda: not pid_alive(d.pid), 10):
        raise Fail("daemon %d survived SIGKILL" % d.pid)
    d.conns = []


def serve_again(d):
    """A new `-serve` on the same socket with the same token; the daemon's output so far is forgotten."""
    for path in (d.outp, d.errp):
        open(path, "w").close()
    write_token(d)
    d.start()
    d.pid = d.peer
    d.pids.add(d.pid)


def crash(d):
    kill9(d)
    serve_again(d)


def state_dir(d):
    return os.path.join(d.home, ".local", "state", "ostler")


def parent_of(pid):
    with open("/proc/%d/stat" % pid) as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


def proc_bytes(pid, what):
    try:
        with open("/proc/%d/%s" % (pid, what), "rb") as f:
            return f.read()
    except OSError:
        return b""


def hold(pid):
    """SIGSTOP, until every thread stands: the call returns while some still run."""
    os.kill(pid, signal.SIGSTOP)
    tasks = "/proc/%d/task" % pid
    states = lambda: [proc_bytes(pid, "task/%s/stat" % task).rsplit(b")", 1)[1].split()[0] for task in os.listdir(tasks)]
    if not wait_for(lambda: set(states()) == {b"T"}, 10, 0.01):
        raise Fail("process %d does not stand still: %s" % (pid, states()))


def catches(pid, number):
    """Whether the process has something to do when this signal comes: before, it would just end."""
    caught = [line.split()[1] for line in proc_bytes(pid, "status").decode().splitlines() if line.startswith("SigCgt:")]
    return bool(caught) and bool(int(caught[0], 16) >> (number - 1) & 1)


def anon_kib(pid):
    """Memory that is the process's own: mapped files do not count."""
    for line in proc_bytes(pid, "status").decode().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise Fail("no RssAnon for pid %d" % pid)


def raw_socket(path, timeout=10.0):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.settimeout(timeout)
    s.connect(path)
    return s


def request(id, method, params=None, token=lib.TOKEN):
    o = {"jsonrpc": "2.0", "id": id, "method": method}
    if params is not None:
        o["params"] = params
    o["auth"] = token
    return json.dumps(o).encode() + b"\n"


def read_to_end(s, timeout=20.0):
    """Every line until the other side closes."""
    s.settimeout(timeout)
    data = bytearray()
    while True:
        try:
            piece = s.recv(1 << 18)
        except socket.timeout:
            raise Fail("connection still open after %.0f s; so far %r" % (timeout, bytes(data[-200:])))
        if not piece:
            return bytes(data).split(b"\n")[:-1]
        data += piece


def end(*pids):
    """Ends processes that a check left behind on purpose."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def unprivileged(argv):
    """argv run as a user without privileges and with the usual soft limit of 1024 descriptors."""
    if os.geteuid() != 0:
        return ["prlimit", "--nofile=1024:"] + argv
    return ["prlimit", "--nofile=1024:", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] + argv


def give_to_nobody(*paths):
    if os.geteuid() == 0:
        for top in paths:
            os.chown(top, 65534, 65534)
            for folder, folders, files in os.walk(top):
                for name in folders + files:
                    os.lchown(os.path.join(folder, name), 65534, 65534)
