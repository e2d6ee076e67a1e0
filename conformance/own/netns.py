"""Nothing leaves the machine: the daemon's whole life in a network namespace that has no network, not even loopback."""
import os
import shutil
import subprocess
import sys

from approvals_kit import confirms
from kit import Fail, crash, parent_of
from lib import area, b64, outp, pid_alive, wait_for
from notices_kit import Server
from sessions_kit import House
from t_git import Repo
from t_process import sh

INSIDE = "TEST_INSIDE_NETNS"
FAMILIES = ("tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6", "packet", "netlink", "icmp", "icmp6")


def namespace():
    """The command that opens an empty network namespace, with or without privileges; None where the kernel forbids it."""
    for argv in (["unshare", "-n"], ["unshare", "-r", "-n"]):
        if shutil.which("unshare") and subprocess.run(argv + ["true"], stderr=subprocess.DEVNULL).returncode == 0:
            return argv
    return None


def sockets(pid):
    """inode -> kind of every socket that the process holds, as its own namespace lists them."""
    held = set()
    for fd in os.listdir("/proc/%d/fd" % pid):
        try:
            link = os.readlink("/proc/%d/fd/%s" % (pid, fd))
        except OSError:
            continue
        if link.startswith("socket:["):
            held.add(link[8:-1])
    kinds = {}
    with open("/proc/%d/net/unix" % pid) as f:
        for line in f:
            kinds[line.split()[6]] = "unix"
    return {ino: kinds.get(ino, "not unix") for ino in held}


def listed(pid):
    """Every socket that exists in the process's network namespace, besides unix ones."""
    found = []
    for family in FAMILIES:
        try:
            with open("/proc/%d/net/%s" % (pid, family)) as f:
                rows = [x.split() for x in f.read().splitlines()[1:]]
        except OSError:
            continue
        # netlink: pid 0 rows are the kernel's own ends
        found += [(family, row) for row in rows if not (family == "netlink" and row[2] == "0")]
    return found


@area("netns")
def netns(t):
    argv = namespace()
    if not argv:
        return t.skip("all", "no network namespace can be opened here (unshare -n)")
    if INSIDE not in os.environ:
        p = subprocess.run(argv + [sys.executable, "-u", os.path.abspath(sys.argv[0]), "--suite", "netns", "--bin", t.argv[0]],
                           env=dict(os.environ, **{INSIDE: "1"}), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        # The run inside reports its cases; they are counted here.
        for line in p.stdout.decode(errors="replace").splitlines():
            if line.startswith("ok netns/"):
                t.rec(line[len("ok netns/"):], True)
            elif line.startswith("FAIL netns/"):
                case, _, detail = line[len("FAIL netns/"):].partition(": ")
                t.rec(case, False, detail)
        if p.returncode not in (0, 1):
            t.rec("inside", False, p.stdout.decode(errors="replace")[-300:])
        return
    with open("/proc/self/net/route") as f:
        routes = f.read().splitlines()[1:]
    t.eq("namespace-is-empty", (routes, listed(os.getpid())), ([], []))
    d = t.daemon()
    c = d.conn()
    t.eq("serves", c.call("server.ping")["result"], {"pong": True})
    pid = c.call("process.spawn", sh("n", "echo up; while read x; do echo got-$x; done", wantPid=True))["result"]["pid"]
    c.wait_out("n", b"up\n")
    c.call("process.stdin", {"id": "n", "data": b64(b"a\n")})
    t.eq("process-streams", c.wait_out("n", b"got-a\n"), b"up\ngot-a\n")
    repo = Repo(t)
    t.eq("git-works", c.call("git.info", {"path": repo.dir})["result"].get("branch"), "main")
    t.eq("files-work", c.call("files.read", {"path": repo.dir + "/a.txt"})["result"].get("content"), "v0\n")
    for moment in ("first", "after-a-crash"):
        if moment != "first":
            crash(d)
            c = d.conn()
            r = c.call("process.reattach", {"id": "n", "fromSeq": 0, "wantPid": True})["result"]
            t.eq("survives-a-crash", (r.get("pid"), outp(c.frs("n"))), (pid, b"up\ngot-a\n"))
        holders = {"daemon": d.pid, "keeper": parent_of(pid)}
        for who, p in holders.items():
            t.eq("%s-%s-holds-unix-sockets-only" % (who, moment), [i for i, kind in sockets(p).items() if kind != "unix"], [])
        t.eq("%s-no-socket-of-any-network-family" % moment, listed(d.pid), [])
    c.post("server.shutdown")
    t.ok("ends", wait_for(lambda: not pid_alive(d.pid) and not pid_alive(pid), 10))
    whole_instance(t)


def whole_instance(t):
    """`ostler up` with all that it opens, and a session: three ports on 127.0.0.1, the sign beside one, and nothing else."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    house = House(t)
    house.good("new", "echo", "-m", "hello")
    ports = sorted(int(d["address"].rsplit(":", 1)[1]) for d in house.json("up")["doors"] if d["address"].startswith("127.0.0.1:"))
    found = [(family, row[1], row[3]) for family, row in listed(os.getpid()) if family != "netlink"]
    # An address of IPv4 stands there backwards in hexadecimal; 0A is a socket that listens.
    t.ok("up-listens-on-loopback-only", found and all(family == "tcp" and at.split(":")[0].endswith("7F") and state == "0A" for family, at, state in found), found)
    ours = sorted(int(at.split(":")[1], 16) for _, at, _ in found if at.startswith("0100007F:"))
    t.ok("three-ports", len(ports) == 3 and ours == ports, (ours, ports))
    named_destination(t, house)
    house.down()


def connections():
    """How often anybody in this namespace has opened a connection."""
    with open("/proc/self/net/snmp") as f:
        head, values = [line.split() for line in f if line.startswith("Tcp:")]
    return int(values[head.index("ActiveOpens")])


def named_destination(t, house):
    """Nothing leaves the machine until a person names where to; then that does, and nothing else."""
    server = Server()
    try:
        before = connections()
        rc, out, _ = house("notify", "test")
        t.ok("nothing-is-named", rc == 0 and "no device has subscribed" in out, out)
        t.eq("nothing-leaves-before-a-destination-is-named", connections(), before)
        house.env["OSTLER_NOTIFY_WEBHOOK"] = server.url("topic")
        house.good("restart")
        house("notify", "test")
        t.eq("nor-before-a-person-has-confirmed-it", connections(), before)
        if confirms(house, "notify.webhook")[0] != 0:
            raise Fail("not confirmed")
        house.good("restart")
        rc, out, _ = house("notify", "test")
        t.ok("then-it-does-and-nothing-else", rc == 0 and len(server.got("topic")) == 1 and connections() == before + 1, (out, connections() - before))
    finally:
        server.close()
