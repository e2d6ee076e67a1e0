"""Connections: half-close, readers that are slow or never read, and the order of pipelined input."""
import base64
import json
import os
import re
import socket
import subprocess
import threading
import time

from kit import anon_kib, proc_bytes, raw_socket, read_to_end, request, Fail
from lib import area, b64, clean_env, Conn, pid_alive, run_bin, wait_for
from t_process import sh

# Who is held up by another waits far longer; who is not, on a busy machine, not as long.
SOON = 20

PONG = b'{"jsonrpc":"2.0","id":%d,"result":{"pong":true}}'


@area("half-close")
def half_close(t):
    d = t.common()
    n = 200
    s = raw_socket(d.sock)
    s.sendall(b"".join(request(i, "server.ping") for i in range(n)))
    s.shutdown(socket.SHUT_WR)
    t.eq("replies-in-flight-arrive", sorted(read_to_end(s)), sorted(PONG % i for i in range(n)))
    # a slow request: its reply is still owed after the client stopped sending
    c = d.conn()
    c.call("process.spawn", sh("hc", "trap '' TERM; echo r; while :; do sleep 0.05; done"))
    c.wait_out("hc", b"r")
    s = raw_socket(d.sock)
    s.sendall(request(1, "process.killAndWait", {"id": "hc", "timeoutMs": 700}))
    s.shutdown(socket.SHUT_WR)
    t.eq("slow-reply-arrives", read_to_end(s), [b'{"jsonrpc":"2.0","id":1,"result":{"found":true,"died":true,"escalated":true}}'])
    s = raw_socket(d.sock)
    s.sendall(request(2, "server.ping").rstrip(b"\n"))
    s.shutdown(socket.SHUT_WR)
    t.eq("last-line-without-newline-is-served", read_to_end(s), [PONG % 2])
    s = raw_socket(d.sock)
    s.shutdown(socket.SHUT_WR)
    t.eq("nothing-sent-just-closes", read_to_end(s), [])
    # a replay that is under way when the client stops sending is finished before its reply
    c.call("process.spawn", {"id": "hr", "command": "head", "args": ["-c", "4000000", "/dev/zero"]})
    frames = [x for x in c.frames if b'"hr"' in x] if c.wait_exit("hr", 30) else []
    s = raw_socket(d.sock)
    s.sendall(request(3, "process.reattach", {"id": "hr", "fromSeq": 0}))
    s.shutdown(socket.SHUT_WR)
    got = read_to_end(s)
    t.ok("replay-in-flight-arrives", got[:-1] == frames and b'"found":true' in got[-1], (len(got), len(frames)))
    # the relay ends its own half the same way
    rc, o, e = run_bin(t.argv, ["-bridge", "-socket", d.sock], env=d.env,
                       stdin=b"".join(request(i, "server.ping") for i in range(50)))
    t.eq("bridge-delivers-replies-after-stdin-eof", (rc, e, sorted(o.encode().splitlines())), (0, "", sorted(PONG % i for i in range(50))))


@area("pipelined-stdin")
def pipelined_stdin(t):
    d = t.common()
    c = d.conn()
    bad = []
    for round in range(5):
        id = "ps%d" % round
        c.call("process.spawn", {"id": id, "command": "cat"})
        lines = [b"%d:%d\n" % (round, i) for i in range(300)]
        burst = b""
        for i, line in enumerate(lines):
            burst += request(round * 100000 + 1000 + i, "process.stdin", {"id": id, "data": b64(line)})
            if i % 10 == 0:
                burst += request(round * 100000 + 5000 + i, "server.ping")
        c.send(burst)
        if c.wait_out(id, lines[-1], 20) != b"".join(lines):
            bad.append(round)
        applied = 0
        for i, line in enumerate(lines):
            applied += len(line)
            r = json.loads(c.find(round * 100000 + 1000 + i))["result"]
            if r != {"success": True, "applied": applied}:
                bad.append((round, i, r))
                break
        c.call("process.kill", {"id": id, "signal": "KILL"})
    t.eq("wire-order-kept", bad, [])
    # the same across a child that reads nothing until everything was accepted
    c.call("process.spawn", sh("psl", "sleep 1; exec cat"))
    blob = [os.urandom(20000) for _ in range(100)]
    c.send(b"".join(request(900000 + i, "process.stdin", {"id": "psl", "data": b64(x)}) for i, x in enumerate(blob)))
    t.ok("wire-order-kept-through-the-spool", c.wait_out("psl", blob[-1][-64:], 30) == b"".join(blob))
    c.call("process.kill", {"id": "psl", "signal": "KILL"})


@area("stdin-spool")
def stdin_spool(t):
    """A child that reads nothing: input is accepted up to the spool, then the caller waits and nobody else does."""
    d = t.common()
    c, other = d.conn(), d.conn()
    c.call("process.spawn", sh("sp", "read go; exec sleep 300", wantPid=True))
    c.call("process.stdin", {"id": "sp", "data": b64(b"go\n")})
    chunk = b64(b"z" * 700000)
    ids = [c.post("process.stdin", {"id": "sp", "data": chunk}) for _ in range(16)]
    c.find(ids[9])
    t.ok("7-mb-accepted", True)
    time.sleep(1)
    open_calls = [i for i in ids if not any(x.startswith(b'{"jsonrpc":"2.0","id":%d,' % i) for x in list(c.replies))]
    t.ok("caller-waits-beyond-the-spool", open_calls and open_calls[0] > ids[9], (ids, open_calls))
    t.eq("others-go-on", other.call("server.ping", timeout=SOON)["result"], {"pong": True})
    t.eq("same-connection-goes-on", c.call("server.ping", timeout=SOON)["result"], {"pong": True})
    c.call("process.kill", {"id": "sp", "signal": "KILL"})
    last = json.loads(c.find(ids[-1], 10))
    t.ok("waiting-calls-answered-at-exit", "result" in last or "error" in last, last)


@area("slow-reader")
def slow_reader(t):
    d = t.daemon()
    c = d.conn()
    size = 48 << 20
    script = "read go; head -c %d /dev/zero; echo end >&2" % size
    c.call("process.spawn", sh("sr", script))
    slow = [raw_socket(d.sock) for _ in range(3)]
    for s in slow:
        s.sendall(request(1, "process.reattach", {"id": "sr", "fromSeq": 0}))
        if b'"found":true' not in s.recv(65536):
            raise Fail("reattach refused")
    before = anon_kib(d.pid)
    started = time.monotonic()
    c.call("process.stdin", {"id": "sr", "data": b64(b"go\n")})
    end = time.monotonic() + 60
    while time.monotonic() < end and not (c.frames and b'"stream":"exit"' in c.frames[-1]):
        time.sleep(0.05)
    took = time.monotonic() - started
    t.ok("healthy-reader-gets-everything", c.frames and b'"stream":"exit"' in c.frames[-1], "%d frames in %.0f s" % (len(c.frames), took))
    total = sum(len(base64.b64decode(json.loads(x).get("data", ""))) for x in c.frames)
    t.eq("healthy-reader-bytes", total, size + 4)
    t.eq("child-is-not-held-back", c.call("process.reattach", {"id": "sr", "fromSeq": 1 << 40})["result"]["running"], False)
    grown = anon_kib(d.pid) - before
    t.ok("memory-stays-bounded", grown < 24 << 10, "%d KiB more" % grown, "less than 24 MiB for 3 x 48 MiB unread")
    # the slow ones were only late: what they then read is the same, byte for byte
    frames = list(c.frames)
    s = slow[0]
    s.settimeout(30)
    buf, tail = bytearray(), b""
    while b'"stream":"exit"' not in tail:
        piece = s.recv(1 << 20)
        if not piece:
            break
        buf += piece
        tail = bytes(buf[-400:])
    t.eq("late-reader-gets-the-same", bytes(buf).split(b"\n")[:-1] == frames, True)
    slow[1].close()
    slow[2].close()
    t.eq("leaving-unread-harms-nobody", d.conn().call("server.ping")["result"], {"pong": True})


def send_until_full(s, line, limit):
    """Sends this line again and again until nobody takes any more, or the limit is reached; says how much went."""
    s.settimeout(2)
    sent, block = 0, line * (65536 // len(line))
    try:
        while sent < limit:
            sent += s.send(block[sent % len(line):] if sent % len(line) else block)
    except socket.timeout:
        pass
    return sent


@area("never-reads")
def never_reads(t):
    d = t.daemon()
    other = d.conn()
    other.call("server.ping")
    # 192 MiB of output for somebody who subscribed and never reads
    s = raw_socket(d.sock)
    before = anon_kib(d.pid)
    s.sendall(request(1, "process.spawn", {"id": "nv", "command": "head", "args": ["-c", str(192 << 20), "/dev/zero"]}))
    done = lambda: not other.call("process.reattach", {"id": "nv", "fromSeq": 1 << 40})["result"].get("running", True)
    t.ok("output-is-journaled-all-the-same", wait_for(done, 60, 0.2))
    grown = anon_kib(d.pid) - before
    t.ok("unread-output-costs-bounded-memory", grown < 16 << 10, "%d KiB more" % grown, "less than 16 MiB for 192 MiB unread")
    s.close()
    # requests without end from somebody who never reads the replies
    s = raw_socket(d.sock)
    line, limit = request(5, "server.capabilities"), 64 << 20
    before = anon_kib(d.pid)
    sent = send_until_full(s, line, limit)
    t.ok("requests-are-no-longer-read", sent < limit, "%d bytes taken" % sent, "a stop before %d bytes" % limit)
    grown = anon_kib(d.pid) - before
    t.ok("unread-replies-cost-bounded-memory", grown < 16 << 10, "%d KiB more" % grown, "less than 16 MiB")
    t.eq("others-are-served-at-once", other.call("server.ping", timeout=SOON)["result"], {"pong": True})
    # once it reads, every whole request that was taken is answered
    s.shutdown(socket.SHUT_WR)
    got = read_to_end(s, 60)
    good = [x for x in got if x.startswith(b'{"jsonrpc":"2.0","id":5,"result":')]
    t.eq("every-request-taken-is-answered", len(good), (sent + 1) // len(line))


@area("never-reads-replays")
def never_reads_replays(t):
    """Each reattach owes a reply that follows the replay: those are bounded like any other."""
    d = t.daemon()
    other = d.conn()
    other.call("process.spawn", {"id": "rp", "command": "head", "args": ["-c", "4000000", "/dev/zero"]})
    if not other.wait_exit("rp", 30):
        raise Fail("no exit")
    s = raw_socket(d.sock)
    before, limit = anon_kib(d.pid), 64 << 20
    sent = send_until_full(s, request(6, "process.reattach", {"id": "rp", "fromSeq": 0}), limit)
    t.ok("requests-are-no-longer-read", sent < limit, "%d bytes taken" % sent, "a stop before %d bytes" % limit)
    grown = anon_kib(d.pid) - before
    t.ok("memory-stays-bounded", grown < 16 << 10, "%d KiB more" % grown, "less than 16 MiB")
    t.eq("others-are-served-at-once", other.call("server.ping", timeout=SOON)["result"], {"pong": True})


@area("large-files")
def large_files(t):
    """Many large files at once: what is held is bounded, and every one of them arrives."""
    d = t.daemon()
    path, size, n = d.dir + "/large", 48 << 20, 24
    with open(path, "w") as f:
        for _ in range(size >> 20):
            f.write("x" * (1 << 20))
    s, before = raw_socket(d.sock, 60), anon_kib(d.pid)
    s.sendall(b"".join(request(i, "files.read", {"path": path}) for i in range(n)))
    most, end = 0, time.monotonic() + 3
    while time.monotonic() < end:
        most = max(most, anon_kib(d.pid) - before)
        time.sleep(0.02)
    t.ok("memory-stays-bounded", most < 400 << 10, "%d KiB more" % most, "less than 400 MiB for %d files of %d MiB" % (n, size >> 20))
    t.eq("others-are-served-at-once", d.conn().call("files.stat", {"path": path}, timeout=SOON)["result"]["size"], size)
    s.shutdown(socket.SHUT_WR)
    got = read_to_end(s, 60)
    t.eq("every-file-arrives-whole", sorted((json.loads(x)["id"], len(x) > size) for x in got), [(i, True) for i in range(n)])


@area("memory-back")
def memory_back(t):
    """What eight clients that read a large file at once took, the daemon gives back."""
    d = t.daemon()
    d.conn().call("server.ping")
    before = anon_kib(d.pid)
    path = os.path.join(t.tmp(), "large")
    with open(path, "wb") as f:
        f.write(b"x" * (3 << 20))

    def reads():
        with raw_socket(d.sock, 60) as s, s.makefile("rb") as answers:
            for _ in range(8):
                s.sendall(request(1, "files.read", {"path": path}))
                answers.readline()

    clients = [threading.Thread(target=reads) for _ in range(8)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    # Idle threads go after ten seconds, and with them what they hold.
    back = wait_for(lambda: anon_kib(d.pid) < before + (6 << 10), 30, 0.5)
    t.ok("large-replies-leave-nothing-behind", back, "%d KiB before, %d KiB after" % (before, anon_kib(d.pid)))


@area("dead-mount")
def dead_mount(t):
    """Calls that hang hold up their own client only, and leave threads to everybody else."""
    d = t.daemon(start=False)
    os.mkdir(d.dir + "/bin")
    with open(d.dir + "/bin/git", "w") as f:
        f.write("#!/bin/sh\nexec sleep 15\n")
    os.chmod(d.dir + "/bin/git", 0o755)
    # A login shell would bring back the real git.
    d.env.update(PATH=d.dir + "/bin:" + d.env["PATH"], SHELL="/bin/false")
    d.start()
    hung = [raw_socket(d.sock) for _ in range(2)]
    for s in hung:
        s.sendall(b"".join(request(i, "git.status", {"path": d.dir}) for i in range(256)))
    time.sleep(2)
    threads = int(re.search(rb"Threads:\s+(\d+)", proc_bytes(d.pid, "status")).group(1))
    t.ok("few-threads-wait", threads < 100, threads, "fewer than 100")
    c, started = d.conn(), time.monotonic()
    t.eq("another-client's-files-are-served", c.call("files.stat", {"path": d.dir}, timeout=SOON)["result"]["isDir"], True)
    rc, o, e = run_bin([t.ostler()], ["status"], env=d.env)
    t.ok("and-so-is-the-command-line", rc == 0 and time.monotonic() - started < 2 * SOON, (rc, o, e))
    for s in hung:
        s.close()


@area("shutdown-at-up")
def shutdown_at_up(t):
    """server.shutdown at the door of `ostler up` ends that door's processes and connections; the next client begins anew."""
    home = t.tmp()
    env = clean_env(home)

    def ostler(*args):
        p = subprocess.run([t.ostler()] + list(args), env=env, cwd=home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=60)
        return p.stdout.decode()
    try:
        ostler("up")
        said = ostler("status", "--connect")
        found = re.search(r"-socket (\S+)\s+\(token: ([^)]+)\)", said)
        if not found:
            raise Fail("no claustrum door in %r" % said)
        sock, token = found.group(1), open(found.group(2)).read().strip()
        a, b = Conn(sock, token), Conn(sock, token)
        old = a.call("process.spawn", sh("x", "exec sleep 300", wantPid=True))["result"]["pid"]
        b.call("server.ping")
        a.post("server.shutdown")
        t.ok("every-connection-closes", wait_for(lambda: a.eof and b.eof, 10), (a.eof, b.eof))
        t.ok("what-the-door-started-ends", wait_for(lambda: not pid_alive(old), 10))
        c = Conn(sock, token)
        t.eq("old-names-are-gone", c.call("process.reattach", {"id": "x"})["result"]["found"], False)
        t.eq("a-new-client-starts-anew", c.call("process.spawn", sh("x", "exec sleep 300"))["result"], {"success": True})
        c.close()
        t.eq("and-finds-it-again", Conn(sock, token).call("process.reattach", {"id": "x"})["result"]["found"], True)
    finally:
        ostler("down", "--kill")
