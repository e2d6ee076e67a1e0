"""Through a real sshd on the loopback: `ssh host claustrum -bridge`, cut in mid-stream, reattached without a gap."""
import base64
import getpass
import json
import os
import shutil
import signal
import subprocess
import time

from kit import end, proc_bytes, Fail
from lib import area, b64, pid_alive, wait_for
from t_life import free_port

# Position-coded output: every block tells where it belongs. Four stages, each let go by a line of input, so that every cut
# falls into a stage that is still being received.
STAGES, BLOCKS, BLOCK = 4, 200, 16384
WRITER = """
import os, sys, time
for i in range(%d):
    if i %% %d == 0:
        sys.stdin.readline()
    view = memoryview((b"%%010d" %% i * (%d // 10 + 1))[:%d])
    while view:
        view = view[os.write(1, view):]
    time.sleep(0.006)
""" % (STAGES * BLOCKS, BLOCKS, BLOCK, BLOCK)


def expected():
    return b"".join((b"%010d" % i * (BLOCK // 10 + 1))[:BLOCK] for i in range(STAGES * BLOCKS))


class Sshd:
    """A private sshd: own keys, own configuration, loopback only."""

    def __init__(self, folder, more="", user=None):
        self.folder, self.port, self.user = folder, free_port(), user or getpass.getuser()
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", os.path.join(folder, name)], check=True)
        shutil.copy(folder + "/user.pub", folder + "/authorized")
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        with open(folder + "/config", "w") as f:
            f.write("Port %d\nListenAddress 127.0.0.1\nHostKey %s/host\nAuthorizedKeysFile %s/authorized\nPidFile none\n"
                    "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\nMaxStartups 50\n%s"
                    % (self.port, folder, folder, more))
        self.log = open(folder + "/log", "wb")
        # sshd insists on being called by its absolute path
        self.daemon = subprocess.Popen([shutil.which("sshd"), "-D", "-e", "-f", folder + "/config"], stdin=subprocess.DEVNULL,
                                       stdout=self.log, stderr=self.log)
        if not wait_for(lambda: self.run("true").returncode == 0 or self.daemon.poll() is not None, 15, 0.2) or self.daemon.poll() is not None:
            raise Fail("sshd does not answer: %s" % open(folder + "/log", errors="replace").read()[-600:])

    def argv(self, command):
        return ["ssh", "-F", "none", "-q", "-T", "-p", str(self.port), "-i", self.folder + "/user", "-o", "IdentitiesOnly=yes",
                "-o", "UserKnownHostsFile=%s/known" % self.folder, "-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes",
                "%s@127.0.0.1" % self.user, command]

    def run(self, command):
        return subprocess.run(self.argv(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30)

    def sessions(self):
        """Everything that descends from our sshd: its session processes and what they run."""
        parents = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open("/proc/%s/stat" % name) as f:
                        parents[int(name)] = int(f.read().rsplit(")", 1)[1].split()[1])
                except OSError:
                    pass
        found, grown = {self.daemon.pid}, True
        while grown:
            more = {p for p, parent in parents.items() if parent in found} - found
            found |= more
            grown = bool(more)
        return found - {self.daemon.pid}

    def stop(self):
        end(*self.sessions())
        self.daemon.terminate()
        self.daemon.wait(10)
        self.log.close()


class Bridge:
    """A client at the other end of `ssh host claustrum -bridge`."""

    def __init__(self, sshd, program, d):
        self.d, self.n = d, 0
        self.p = subprocess.Popen(sshd.argv("%s -bridge -socket %s" % (program, d.sock)), stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def send(self, method, params):
        self.n += 1
        o = {"jsonrpc": "2.0", "id": self.n, "method": method, "params": params, "auth": self.d.token}
        self.p.stdin.write(json.dumps(o).encode() + b"\n")
        self.p.stdin.flush()
        return self.n

    def line(self):
        """The next whole line, parsed; None when the connection was cut (a torn last line counts for nothing)."""
        raw = self.p.stdout.readline()
        return json.loads(raw) if raw.endswith(b"\n") else None

    def until_reply(self, id, frames):
        while True:
            o = self.line()
            if o is None:
                raise Fail("ssh ended before reply %d: %r" % (id, self.p.stderr.read()[-300:]))
            if o.get("type") == "stream":
                frames.append(o)
            elif o.get("id") == id:
                return o

    def close(self):
        if self.p.poll() is None:
            self.p.kill()
        self.p.wait(10)
        for f in (self.p.stdin, self.p.stdout, self.p.stderr):
            try:
                f.close()
            except OSError:
                pass


@area("ssh")
def ssh(t):
    absent = [p for p in ("sshd", "ssh", "ssh-keygen") if not shutil.which(p)]
    if absent:
        return t.skip("all", "missing programs: %s" % " ".join(absent))
    program = t.argv[0]
    sshd = Sshd(t.tmp())
    try:
        start_over_ssh(t, sshd, program)
        stream_with_cuts(t, sshd, program)
        input_with_cuts(t, sshd, program)
    finally:
        sshd.stop()


def start_over_ssh(t, sshd, program):
    d = t.daemon(start=False)
    r = sshd.run("HOME=%s %s -serve -socket %s -token-file %s >%s 2>%s" % (d.home, program, d.sock, d.tf, d.outp, d.errp))
    t.eq("serve-returns-0", (r.returncode, r.stderr), (0, b""))
    t.ok("daemon-answers", d.up(), d.err())
    d.pid = d.peer
    d.pids.add(d.pid)
    wait_for(lambda: not sshd.sessions(), 10)
    t.ok("daemon-outlives-the-ssh-session", pid_alive(d.pid) and not sshd.sessions(), sshd.sessions())
    b = Bridge(sshd, program, d)
    t.eq("ping-through-bridge", b.until_reply(b.send("server.ping", {}), [])["result"], {"pong": True})
    b.close()


def cut(sshd, bridge, how):
    """Cuts the connection hard, at the server's end or at the client's."""
    if how == "server":
        for pid in sshd.sessions():
            # the session's own sshd processes; the relay then loses its stdin and stdout as on a lost network
            if proc_bytes(pid, "comm").startswith(b"sshd"):
                end(pid)
    else:
        bridge.p.send_signal(signal.SIGKILL)


def stream_with_cuts(t, sshd, program):
    d = t.daemon()
    b = Bridge(sshd, program, d)
    got, seqs, frames = bytearray(), [], []
    done = False

    def take(o):
        nonlocal done
        seqs.append(o["seq"])
        got.extend(base64.b64decode(o.get("data", "")))
        done = done or o["stream"] == "exit"

    b.until_reply(b.send("process.spawn", {"id": "w", "command": "python3", "args": ["-c", WRITER]}), frames)
    for stage in range(STAGES):
        # the offset makes it safe to send again, whatever the cut took away
        frames = []
        b.until_reply(b.send("process.stdin", {"id": "w", "data": b64(b"\n"), "offset": stage}), frames)
        for o in frames:
            take(o)
        last = stage == STAGES - 1
        goal = STAGES * BLOCKS * BLOCK if last else (stage * BLOCKS + BLOCKS // 3) * BLOCK
        while len(got) < goal or (last and not done):
            o = b.line()
            if o is None:
                raise Fail("ssh ended early: %r" % b.p.stderr.read()[-300:])
            take(o)
        if last:
            break
        cut(sshd, b, "server" if stage % 2 == 0 else "client")
        # what still arrives in whole lines was delivered, the torn rest was not
        while (o := b.line()) is not None:
            take(o)
        t.ok("cut-%d-falls-into-the-stream" % stage, len(got) < (stage + 1) * BLOCKS * BLOCK, len(got))
        b.close()
        b = Bridge(sshd, program, d)
        frames = []
        r = b.until_reply(b.send("process.reattach", {"id": "w", "fromSeq": seqs[-1]}), frames)
        if not r["result"]["found"]:
            raise Fail("process unknown after a cut: %r" % r)
        for o in frames:
            take(o)
    b.close()
    t.eq("no-gap-and-no-double", seqs, list(range(1, len(seqs) + 1)))
    t.ok("bytes-exact", bytes(got) == expected(), len(got), STAGES * BLOCKS * BLOCK)


def input_with_cuts(t, sshd, program):
    """Input is resent blindly from the start after every cut; the child sees each byte once."""
    d = t.daemon()
    b = Bridge(sshd, program, d)
    frames = []
    b.until_reply(b.send("process.spawn", {"id": "in", "command": "cat"}), frames)
    words = [b"word-%04d\n" % i for i in range(400)]
    data = b"".join(words)
    for k in range(4):
        upto = len(data) * (k + 1) // 4
        id = 0
        for at in range(0, upto, 500):
            id = b.send("process.stdin", {"id": "in", "data": b64(data[at:min(at + 500, upto)]), "offset": at})
        if k < 3:
            time.sleep(0.05)
            cut(sshd, b, "server" if k % 2 == 0 else "client")
            b.close()
            b = Bridge(sshd, program, d)
        else:
            r = b.until_reply(id, frames)
            t.eq("input-applied-in-full", r.get("result", {}).get("applied"), len(data))
    frames = []
    b.until_reply(b.send("process.reattach", {"id": "in", "fromSeq": 0}), frames)
    text = b"".join(base64.b64decode(f.get("data", "")) for f in frames)
    while len(text) < len(data):
        o = b.line()
        if o is None:
            raise Fail("ssh ended early")
        text += base64.b64decode(o.get("data", ""))
    b.close()
    t.eq("input-seen-exactly-once", text == data, True)
