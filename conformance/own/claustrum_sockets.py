"""The socket: whose it is, who may take it, long paths; and a launcher that says how the start went."""
import os
import socket
import stat
import struct
import subprocess
import time

from kit import raw_socket, read_to_end, request, serve_again, write_token
from lib import area, outp, pid_alive, run_bin, wait_for
from t_process import sh

SP, RE = "process.spawn", "process.reattach"
PONG = b'{"jsonrpc":"2.0","id":1,"result":{"pong":true}}'


def listener(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.bind(path)
    s.listen(8)
    return s


@area("launcher")
def launcher(t):
    for i in range(3):
        d = t.daemon(start=False)
        p = subprocess.Popen(t.argv + ["-serve", "-socket", d.sock, "-token-file", d.tf], stdin=subprocess.DEVNULL,
                             stdout=open(d.outp, "wb"), stderr=open(d.errp, "wb"), env=d.env, cwd=d.cwd)
        rc = p.wait(20)
        # no retry: the socket answers when the launcher has returned
        try:
            s = raw_socket(d.sock)
            d.pid = struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            d.pids.add(d.pid)
            s.sendall(request(1, "server.ping"))
            s.shutdown(socket.SHUT_WR)
            got = read_to_end(s)
        except OSError as e:
            got = e
        t.eq("socket-answers-when-it-returns-%d" % i, (rc, got), (0, [PONG]))
        t.eq("banner-printed-when-it-returns-%d" % i, d.out(), "Claustrum remote server listening on %s\n" % d.sock)
        d.stop()
    d = t.daemon(start=False)
    path = d.dir + "/no/such/s.sock"
    rc, o, e = run_bin(t.argv, ["-serve", "-socket", path, "-token-file", d.tf], env=d.env)
    t.eq("bind-failure-exit-1", rc, 1)
    t.ok("bind-failure-message-passed-on", e.startswith("claustrum: listen unix") and e.endswith(
        "%s: bind: no such file or directory\n" % path), e)
    t.eq("bind-failure-no-banner", o, "")
    t.ok("bind-failure-parent-not-created", not os.path.exists(d.dir + "/no"))
    # a caller that reads the launcher's output through pipes gets the banner while the daemon goes on
    d = t.daemon(start=False)
    p = subprocess.Popen(t.argv + ["-serve", "-socket", d.sock, "-token-file", d.tf], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=d.env, cwd=d.cwd)
    t.eq("banner-through-a-pipe", p.stdout.readline().decode(), "Claustrum remote server listening on %s\n" % d.sock)
    t.eq("returns-while-the-daemon-runs", p.wait(10), 0)
    d.up()
    d.pid = d.peer
    d.pids.add(d.pid)
    t.ok("daemon-is-another-process", d.pid != p.pid and pid_alive(d.pid))
    p.stdout.close()


@area("banner")
def banner(t):
    # nobody reads the banner any more: the daemon is there all the same
    d = t.daemon(start=False)
    r, w = os.pipe()
    os.close(r)
    p = subprocess.Popen(t.argv + ["-serve", "-socket", d.sock, "-token-file", d.tf], stdin=subprocess.DEVNULL,
                         stdout=w, stderr=open(d.errp, "wb"), env=d.env, cwd=d.cwd)
    os.close(w)
    t.eq("a-closed-stdout-is-no-failure", (p.wait(30), d.up()), (0, True))
    d.pid = d.peer
    d.pids.add(d.pid)
    # the path is shown as it was given
    d = t.daemon(start=False)
    d.start(["-serve", "-socket", "../s.sock", "-token-file", d.tf])
    t.eq("a-relative-path-stays-relative", d.out(), "Claustrum remote server listening on ../s.sock\n")
    d = t.daemon(start=False)
    rc, o, e = run_bin(t.argv, ["-serve", "-socket", "no/such/s.sock", "-token-file", d.tf], env=d.env)
    t.ok("and-in-a-bind-error", rc == 1 and e.endswith(": no/such/s.sock: bind: no such file or directory\n"), e)


@area("foreign-socket")
def foreign_socket(t):
    d = t.daemon(start=False)
    s = listener(d.sock)
    ino = os.stat(d.sock).st_ino
    started = time.monotonic()
    rc, o, e = run_bin(t.argv, ["-serve", "-socket", d.sock, "-token-file", d.tf], env=d.env)
    t.ok("start-refused", rc == 1 and o == "", (rc, o, e))
    t.ok("refusal-names-the-socket", e.startswith("claustrum: ") and d.sock in e, e)
    t.ok("refusal-comes-soon", time.monotonic() - started < 10, time.monotonic() - started)
    t.eq("other-program-keeps-its-socket", os.stat(d.sock).st_ino, ino)
    c = raw_socket(d.sock)
    s.settimeout(5)
    t.ok("other-program-still-answers", s.accept()[0])
    s.close()
    # a listener that is gone left a dead socket file: that one is replaced
    t.ok("dead-socket-file-stays-behind", stat.S_ISSOCK(os.stat(d.sock).st_mode))
    write_token(d)
    d.start()
    t.eq("dead-socket-is-replaced", d.conn().call("server.ping")["result"], {"pong": True})
    # something else took the path while the daemon ran: its end leaves that alone
    for how in ("rpc", "signal"):
        d = t.daemon()
        c = d.conn()
        c.call("server.ping")
        os.unlink(d.sock)
        s = listener(d.sock)
        ino = os.stat(d.sock).st_ino
        if how == "rpc":
            c.post("server.shutdown")
        else:
            os.kill(d.pid, 15)
        t.ok("%s-ends-the-daemon" % how, wait_for(lambda: not pid_alive(d.pid), 10))
        t.ok("%s-leaves-another's-socket" % how, os.path.exists(d.sock) and os.stat(d.sock).st_ino == ino)
        s.close()
        os.unlink(d.sock)
    # another program took the path of a daemon that lives: a start is refused before that daemon is asked to leave
    d = t.daemon()
    c = d.conn()
    pid = c.call(SP, sh("stays", "read x; exit 3", wantPid=True))["result"]["pid"]
    os.unlink(d.sock)
    s = listener(d.sock)
    ino = os.stat(d.sock).st_ino
    write_token(d)
    refused = (1, "", "claustrum: listen unix: %s: bind: address already in use\n" % d.sock)
    t.eq("taken-path-start-refused", run_bin(t.argv, ["-serve", "-socket", d.sock, "-token-file", d.tf], env=d.env), refused)
    t.ok("taken-path-daemon-lives-on", pid_alive(d.pid) and pid_alive(pid), (d.pid, pid))
    t.eq("taken-path-daemon-still-answers", c.call("server.ping")["result"], {"pong": True})
    t.eq("taken-path-other-program-keeps-it", os.stat(d.sock).st_ino, ino)
    s.close()
    os.unlink(d.sock)
    open(d.sock, "w").write("precious")
    write_token(d)
    t.eq("file-at-the-path-start-refused", run_bin(t.argv, ["-serve", "-socket", d.sock, "-token-file", d.tf], env=d.env),
         refused)
    t.ok("file-at-the-path-daemon-lives-on", pid_alive(d.pid) and open(d.sock).read() == "precious")
    os.unlink(d.sock)
    old = d.pid
    serve_again(d)
    t.ok("free-again-a-start-takes-over", d.rc == 0 and d.pid != old, (d.rc, d.pid, old))
    t.eq("free-again-the-process-is-there", d.conn().call(RE, {"id": "stays", "fromSeq": 0})["result"]["running"], True)
    d = t.daemon(start=False)
    os.mkdir(d.sock)
    open(d.sock + "/precious", "w").close()
    rc, o, e = run_bin(t.argv, ["-serve", "-socket", d.sock, "-token-file", d.tf], env=d.env)
    t.ok("directory-at-the-path-is-kept", rc == 1 and os.path.exists(d.sock + "/precious"), (rc, o, e))


@area("takeover")
def takeover(t):
    """A second -serve on a socket of ours replaces the daemon on purpose and loses nothing."""
    d = t.daemon()
    c = d.conn()
    spawned = c.call(SP, sh("tk", "i=0; while [ $i -lt 4000 ]; do echo line-$i; i=$((i+1)); done; read x; echo got-$x; exit 6",
                            wantPid=True))["result"]
    c.call("process.stdin", {"id": "tk", "data": "aA=="})
    old = d.pid
    serve_again(d)
    t.eq("launcher-exit-0", d.rc, 0)
    t.ok("another-process-serves", d.pid != old, (old, d.pid))
    t.ok("replaced-pid-is-named", str(old) in d.err() + d.out(), (old, d.err(), d.out()))
    t.ok("old-daemon-ends", wait_for(lambda: not pid_alive(old), 10))
    t.ok("old-connections-close", c.wait_eof(10))
    t.ok("socket-file-stays", os.path.exists(d.sock))
    had = c.frs("tk")
    c2 = d.conn()
    r = c2.call(RE, {"id": "tk", "fromSeq": 0, "wantPid": True})["result"]
    t.eq("same-pid-and-start-time", (r.get("pid"), r.get("startTime")), (spawned["pid"], spawned["startTime"]))
    t.eq("still-running-input-counted", (r["found"], r["running"], r["stdinApplied"]), (True, True, 1))
    t.eq("frames-already-seen-are-the-same", c2.frs("tk")[:len(had)], had)
    c2.wait_out("tk", b"line-3999\n")
    c2.call("process.stdin", {"id": "tk", "data": "aQo=", "offset": 1})
    f = c2.wait_exit("tk")
    want = b"".join(b"line-%d\n" % i for i in range(4000)) + b"got-hi\n"
    t.ok("output-whole", outp(f) == want and f[-1]["exitCode"] == 6, outp(f)[-40:])
    t.eq("sequence-without-gap", [x["seq"] for x in f], list(range(1, len(f) + 1)))
    # a new token counts from now on
    before = d.token
    d.token = "another-token"
    serve_again(d)
    c3 = d.conn(before)
    t.eq("old-token-is-over", c3.call("server.ping").get("error", {}).get("code"), -32001)
    t.eq("new-token-counts", d.conn().call("server.ping")["result"], {"pong": True})
    t.eq("processes-are-still-known", d.conn().call(RE, {"id": "tk", "fromSeq": 0})["result"]["found"], True)


@area("long-path")
def long_path(t):
    d = t.daemon(start=False)
    deep = os.path.join(d.dir, *["%s-%d" % ("x" * 70, i) for i in range(3)])
    os.makedirs(deep)
    path = deep + "/s.sock"
    p = subprocess.Popen(t.argv + ["-serve", "-socket", path, "-token-file", d.tf], stdin=subprocess.DEVNULL,
                         stdout=open(d.outp, "wb"), stderr=open(d.errp, "wb"), env=d.env, cwd=d.cwd)
    t.eq("serve-exit-0", (p.wait(20), d.err() if p.returncode else ""), (0, ""))
    t.eq("banner-names-the-path", d.out(), "Claustrum remote server listening on %s\n" % path)
    t.ok("socket-is-there", stat.S_ISSOCK(os.stat(path).st_mode) and stat.S_IMODE(os.stat(path).st_mode) == 0o600)
    rc, o, e = run_bin(t.argv, ["-bridge", "-socket", path], env=d.env, stdin=request(1, "server.ping"))
    t.eq("bridge-reaches-it", (rc, o.encode(), e), (0, PONG + b"\n", ""))
    fd = os.open(deep, os.O_PATH)
    s = raw_socket("/proc/self/fd/%d/s.sock" % fd)
    s.sendall(request(1, "server.ping"))
    s.shutdown(socket.SHUT_WR)
    t.eq("any-client-reaches-it", read_to_end(s), [PONG])
    os.close(fd)
    t.eq("stop-reaches-it", run_bin(t.argv, ["-stop", "-socket", path], env=dict(d.env, CLAUDE_RPC_TOKEN=d.token)), (0, "", ""))
    t.ok("socket-removed-at-the-end", wait_for(lambda: not os.path.exists(path), 10))
