"""Where the daemon's token comes from: -token-file, -token-fd, and nothing else."""
import os

from lib import area, Conn, TOKEN, outp, run_bin
from t_process import sh

NEED = "claustrum: daemonized child requires --token-file or --token-fd\n"


def accepts(d, token):
    c = Conn(d.sock, token)
    good = "result" in c.call("server.ping")
    c.close()
    return good


@area("token")
def token_file(t):
    # one line: exactly one line end is stripped, everything else is the token
    for case, content, good, bad in (
            ("file-without-newline", b"tok-1", "tok-1", "tok-1\n"),
            ("file-newline-stripped", b"tok-2\n", "tok-2", "tok-2\n"),
            ("file-crlf-stripped", b"tok-3\r\n", "tok-3", "tok-3\r"),
            ("file-one-newline-only-stripped", b"tok-4\n\n", "tok-4\n", "tok-4"),
            ("file-one-crlf-only-stripped", b"tok-5\r\n\r\n", "tok-5\r\n", "tok-5"),
            ("file-spaces-kept", b"  tok 6\t \n", "  tok 6\t ", "tok 6")):
        d = t.daemon(token=good, token_bytes=content)
        t.eq(case, (accepts(d, good), accepts(d, bad)), (True, False))
        t.ok(case + "-unlinked", not os.path.exists(d.tf))
        d.stop()
    # nobody could ever get in: such a daemon does not start, and nobody gets in all the same
    d = t.daemon(start=False, token="", token_bytes=b"")
    rc = run_bin(t.argv, ["-serve", "-socket", d.sock, "-token-file", d.tf], env=d.env)[0]
    t.eq("obs.empty-file-authenticates-nobody", (rc, d.up()), (1, False))
    # read once: a new file at the same place changes nothing
    d = t.daemon()
    with open(d.tf, "w") as f:
        f.write("other")
    t.eq("file-read-once", (accepts(d, TOKEN), accepts(d, "other")), (True, False))
    t.ok("file-of-later-is-left-alone", os.path.exists(d.tf))


@area("token-required")
def token_required(t):
    d = t.daemon(start=False)
    env = dict(d.env)

    def serve(*more, env=env):
        return run_bin(t.argv, ["-serve", "-socket", d.sock] + list(more), env=env)
    t.eq("neither-exact-exit-1", serve(), (1, "", NEED))
    t.ok("neither-no-socket", not os.path.exists(d.sock))
    t.eq("environment-not-accepted", serve(env=dict(env, CLAUDE_RPC_TOKEN="x")), (1, "", NEED))
    rc, o, e = run_bin(t.argv, ["-serve", "-socket", d.dir + "/no/such/dir/s"], env=env)
    t.eq("checked-before-the-socket", (rc, e), (1, NEED))
    missing = d.dir + "/no-token"
    rc, o, e = serve("-token-file", missing)
    t.eq("bad-file-exit-1", rc, 1)
    t.ok("bad-file-message", e.startswith("claustrum: read --token-file: ") and o == "", (o, e))
    t.eq("obs.bad-file-exact", e, "claustrum: read --token-file: open %s: no such file or directory\n" % missing)
    t.ok("bad-file-no-socket", not os.path.exists(d.sock))
    rc, o, e = serve("-token-fd", "99")
    t.ok("bad-descriptor-exit-1", rc == 1 and e.startswith("claustrum: read --token-fd: ") and o == "", (rc, o, e))


@area("token-fd")
def token_fd(t):
    def start(content, stdin=False):
        d = t.daemon(start=False)
        os.unlink(d.tf)
        before = set(os.listdir(d.dir))
        r, w = os.pipe()
        os.write(w, content)
        os.close(w)
        args = ["-serve", "-socket", d.sock, "-token-fd", "0" if stdin else str(r)]
        d.start(args, stdin=r) if stdin else d.start(args, pass_fds=(r,))
        os.close(r)
        return d, set(os.listdir(d.dir)) - before
    d, new = start(TOKEN.encode() + b"\n", stdin=True)
    t.ok("from-stdin-authenticates", accepts(d, TOKEN))
    t.eq("no-token-file-made", sorted(n for n in new if n not in ("s.sock", "out", "err")), [])
    c = d.conn()
    c.call("process.spawn", sh("e", "env; ls -l /proc/self/fd"))
    seen = outp(c.wait_exit("e"))
    daemon = open("/proc/%d/environ" % d.pid, "rb").read() + open("/proc/%d/cmdline" % d.pid, "rb").read()
    t.ok("not-in-argv-or-environment", TOKEN.encode() not in seen + daemon)
    found = [os.path.join(f, n) for f, _, names in os.walk(d.dir) for n in names
             if os.path.isfile(os.path.join(f, n)) and TOKEN.encode() in open(os.path.join(f, n), "rb").read()]
    t.eq("not-on-disk", found, [])
    d, _ = start(b" tok 7 \r\n")
    t.eq("any-descriptor-one-line-end-stripped", (accepts(d, " tok 7 "), accepts(d, "tok 7")), (True, False))
    d.token = " tok 7 "
    d, _ = start(b"tok-8\n\n")
    t.eq("one-newline-only-stripped", (accepts(d, "tok-8\n"), accepts(d, "tok-8")), (True, False))
    d.token = "tok-8\n"
