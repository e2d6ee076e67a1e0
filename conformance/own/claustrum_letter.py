"""The document to the letter, where a second look found otherwise: PATH, a deleted folder, races, -stop, input that nobody reads."""
import json
import os
import shutil
import signal
import subprocess
import time

from kit import raw_socket, request
from lib import Fail, area, b64, outp, pid_alive, run_bin, wait_for
from t_process import sh

SP = "process.spawn"


@area("login-path")
def login_path(t):
    # a profile that takes its time: what is spawned first finds what the profile says, and so does its child
    d = t.daemon(start=False)
    tools = d.dir + "/tools"
    os.makedirs(tools)
    with open(tools + "/only-here", "w") as f:
        f.write("#!/bin/sh\necho found\n")
    os.chmod(tools + "/only-here", 0o755)
    with open(d.home + "/.profile", "w") as f:
        f.write("sleep 2\nPATH=%s:$PATH\n" % tools)
    d.start()
    c = d.conn()
    got = c.call(SP, {"id": "p", "command": "only-here"}, timeout=20)
    t.eq("the-first-spawn-waits-for-it", got.get("result"), {"success": True})
    t.eq("and-runs-what-only-it-names", outp(c.wait_exit("p")), b"found\n")


@area("deleted-folder")
def deleted_folder(t):
    d = t.daemon()
    shutil.rmtree(d.cwd)
    c = d.conn()
    c.call(SP, sh("gone", "pwd; echo ok"))
    t.ok("spawn-works-without-the-daemon's-folder", b"ok\n" in outp(c.wait_exit("gone")))
    os.makedirs(d.cwd)
    c.call(SP, sh("back", "pwd"))
    t.eq("a-folder-that-came-back-is-used", outp(c.wait_exit("back")), (os.path.realpath(d.cwd) + "\n").encode())
    nowhere = os.path.realpath(d.cwd) + "/nowhere"
    said = c.call(SP, dict(sh("lost", "true"), cwd=nowhere))["error"]["message"]
    t.ok("a-client-is-told-of-the-program", "nowhere" not in said and "no such file or directory" in said, said)
    t.has("the-log-names-the-folder", d.err(), "Failed to start process lost: %s (the folder %s cannot be entered)" % (said, nowhere))


@area("relative-folder")
def relative_folder(t):
    d = t.daemon()
    os.makedirs(d.cwd + "/rel")
    with open(d.cwd + "/rel/tool", "w") as f:
        f.write("#!/bin/sh\npwd\n")
    os.chmod(d.cwd + "/rel/tool", 0o755)
    c = d.conn()
    want = (os.path.realpath(d.cwd) + "/rel\n").encode()
    for case, command in (("a-folder-is-meant-from-the-daemon's", "pwd"), ("and-so-is-a-program-in-it", "./tool")):
        got = c.call(SP, {"id": case, "command": command, "cwd": "rel"})
        t.eq(case, outp(c.wait_exit(case)) if "result" in got else got, want)


@area("links")
def links(t):
    """What stands at a path may be a link."""
    d = t.daemon(start=False)
    os.rename(d.tf, d.dir + "/elsewhere")
    os.symlink(d.dir + "/elsewhere", d.tf)
    os.symlink(d.dir + "/nowhere", d.sock)
    d.start()
    t.eq("a-link-to-nothing-makes-way-for-the-socket", d.conn().call("server.ping")["result"], {"pong": True})
    t.ok("of-a-linked-token-file-the-link-goes", not os.path.lexists(d.tf) and os.path.exists(d.dir + "/elsewhere"))
    rc, o, e = run_bin(t.argv, ["-serve", "-socket", d.dir + "/s2", "-token-file", d.dir], env=d.env)
    t.eq("a-folder-is-no-token-file", (rc, e), (1, "claustrum: read --token-file: read %s: is a directory\n" % d.dir))


@area("child-marker")
def child_marker(t):
    home = t.tmp()
    env = dict(os.environ, HOME=home, OSTLER_STATE=home + "/state", OSTLER_RUNTIME=home + "/run", SHELL="/bin/sh")
    env.pop("CLAUDE_SSH_DAEMON_CHILD", None)
    ostler = t.ostler()
    up = subprocess.run([ostler, "up"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    try:
        token = open(home + "/state/instances/main/claustrum.token").read().strip()
        sock = home + "/run/main/claustrum.sock"
        if not os.path.exists(sock):
            found = [os.path.join(f, n) for f, _, names in os.walk(home + "/run") for n in names if "claustrum" in n]
            sock = found[0] if found else sock
        from lib import Conn
        c = Conn(sock, token)
        c.call(SP, sh("m", "echo $CLAUDE_SSH_DAEMON_CHILD"))
        t.eq("children-at-up-have-it", outp(c.wait_exit("m")), b"1\n")
        c.call(SP, dict(sh("o", "echo $CLAUDE_SSH_DAEMON_CHILD"), env={"CLAUDE_SSH_DAEMON_CHILD": "no"}))
        t.eq("and-a-client-may-say-otherwise", outp(c.wait_exit("o")), b"no\n")
        # -stop at up ends what came through this door, and returns when it has
        c.call(SP, sh("s", "trap '' TERM; echo $$; while :; do sleep 0.1; done"))
        pid = int(c.wait_out("s", b"\n").split()[0])
        rc, o, e = run_bin(t.argv, ["-stop", "-socket", sock], env=dict(env, CLAUDE_RPC_TOKEN=token))
        t.eq("stop-at-up-returns-when-its-children-are-gone", (rc, o, e, pid_alive(pid)), (0, "", "", False))
        c = Conn(sock, token)
        t.eq("and-the-door-is-open-again", c.call("server.ping")["result"], {"pong": True})
        c.close()
    finally:
        subprocess.run([ostler, "down", "--kill"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    if up.returncode:
        raise Fail("up: %r" % up.stderr)


@area("race")
def race(t):
    """Three on one socket: soon over, one serves, and who failed still has its token."""
    for turn in range(5):
        d = t.daemon(start=False)
        files = ["%s/t%d" % (d.dir, i) for i in range(3)]
        for i, path in enumerate(files):
            with open(path, "w") as f:
                f.write("tok-%d\n" % i)
        started = time.monotonic()
        racers = [subprocess.Popen(t.argv + ["-serve", "-socket", d.sock, "-token-file", path], stdin=subprocess.DEVNULL, env=d.env, cwd=d.cwd,
                                   stdout=subprocess.DEVNULL, stderr=open("%s/e%d" % (d.dir, i), "wb")) for i, path in enumerate(files)]
        codes = [p.wait(60) for p in racers]
        took = time.monotonic() - started
        errors = [open("%s/e%d" % (d.dir, i), errors="replace").read() for i in range(3) if codes[i]]
        t.ok("settled-soon-%d" % turn, took < 8, (took, codes, errors))
        t.eq("who-failed-has-its-token-%d" % turn, [os.path.exists(p) for p in files], [code != 0 for code in codes])

        def good(i):
            try:
                s = raw_socket(d.sock)
                s.sendall(request(1, "server.ping", token="tok-%d" % i))
                answered = b"pong" in s.recv(4096)
                s.close()
                return answered
            except OSError:
                return False
        t.ok("one-serves-%d" % turn, wait_for(lambda: sum(good(i) for i in range(3)) == 1, 20), codes)
        for i in range(3):
            run_bin(t.argv, ["-stop", "-socket", d.sock], env=dict(d.env, CLAUDE_RPC_TOKEN="tok-%d" % i))
    # a start that fails keeps the token for the next try
    d = t.daemon(start=False)
    rc, o, e = run_bin(t.argv, ["-serve", "-socket", d.dir + "/no/such/s", "-token-file", d.tf], env=d.env)
    t.eq("a-failed-start-eats-no-token", (rc, os.path.exists(d.tf)), (1, True))


@area("stop")
def stop(t):
    d = t.daemon()
    c = d.conn()
    # a child that holds on, and leaves its group
    c.call(SP, sh("a", "trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' & echo $$ $!; while :; do sleep 0.1; done"))
    pids = [int(word) for word in c.wait_out("a", b"\n").split()]
    env = dict(d.env, CLAUDE_RPC_TOKEN=d.token)
    rc, o, e = run_bin(t.argv, ["-stop", "-socket", d.sock], env=env)
    t.eq("returns-when-children-and-socket-are-gone", (rc, o, e, [pid_alive(p) for p in pids], os.path.exists(d.sock)),
         (0, "", "", [False, False], False))
    # a daemon that hangs is not waited for without end
    d = t.daemon()
    os.kill(d.pid, signal.SIGSTOP)
    try:
        started = time.monotonic()
        rc, o, e = run_bin(t.argv, ["-stop", "-socket", d.sock], env=env, timeout=60)
        t.ok("has-a-deadline", (rc, o) == (0, "") and time.monotonic() - started < 30, (rc, o, e))
        t.ok("and-says-so", d.sock in e, e)
    finally:
        os.kill(d.pid, signal.SIGCONT)
    # with the wrong token the refusal is shown at once
    d = t.daemon()
    started = time.monotonic()
    rc, o, e = run_bin(t.argv, ["-stop", "-socket", d.sock], env=dict(d.env, CLAUDE_RPC_TOKEN="wrong"))
    t.ok("a-refusal-is-shown-at-once", rc == 0 and "-32001" in o and time.monotonic() - started < 8, (rc, o, e))


@area("unread-input")
def unread_input(t):
    d = t.daemon()
    for name, size in (("large", 600000), ("small", 8000)):
        c = d.conn()
        c.call(SP, sh(name, "exec sleep 300"))
        s = raw_socket(d.sock, 30)
        piece = b64(b"x" * size)
        try:
            for i in range(20_000_000 // size + 1):
                s.sendall(request(i + 10, "process.stdin", {"id": name, "data": piece}))
            s.sendall(request(1, "server.ping") + request(2, SP, sh("s" + name, "true")))
            seen = set()
            for line in s.makefile("rb"):
                seen |= {json.loads(line).get("id")}
                if {1, 2} <= seen:
                    break
        except OSError as e:
            seen = e
        t.ok("20-mb-in-%s-pieces-do-not-stop-others" % name, isinstance(seen, set) and {1, 2} <= seen, seen)
        s.close()
        c.call("process.kill", {"id": name, "signal": "KILL"})
        c.wait_exit(name)


@area("id-bytes")
def id_bytes(t):
    d = t.common()
    for name, raw in (("string", b'"a\xff\xfe"'), ("inside", b'{"k":["\xc3(",1]}'), ("cut", b'"\xe2\x80"')):
        for method in (b"server.ping", b"no.such"):
            s = raw_socket(d.sock)
            s.sendall(b'{"jsonrpc":"2.0","id":' + raw + b',"method":"' + method + b'","auth":"' + d.token.encode() + b'"}\n')
            got = s.makefile("rb").readline()
            s.close()
            try:
                good = "\ufffd" in json.dumps(json.loads(got.decode())["id"], ensure_ascii=False)
            except ValueError:
                good = False
            t.ok("%s-%s-is-json" % (name, method.decode()), good, got)


@area("empty-token")
def empty_token(t):
    for name, content in (("empty", b""), ("newline", b"\n"), ("crlf", b"\r\n")):
        d = t.daemon(start=False, token_bytes=content)
        rc, o, e = run_bin(t.argv, ["-serve", "-socket", d.sock, "-token-file", d.tf], env=d.env)
        t.eq("%s-file-refused" % name, (rc, o, e), (1, "", "claustrum: read --token-file: %s: the token is empty\n" % d.tf))
        t.eq("%s-file-no-socket-file-left" % name, (os.path.exists(d.sock), os.path.exists(d.tf)), (False, True))
        r, w = os.pipe()
        os.write(w, content)
        os.close(w)
        rc, o, e = run_bin(t.argv, ["-serve", "-socket", d.sock, "-token-fd", str(r)], env=d.env, pass_fds=(r,))
        os.close(r)
        t.eq("%s-descriptor-refused" % name, (rc, o, e), (1, "", "claustrum: read --token-fd: the token is empty\n"))
