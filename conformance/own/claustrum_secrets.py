"""The token stays where it belongs, files are the owner's alone, and nothing names what it should not."""
import os
import stat

from kit import crash, parent_of, proc_bytes, state_dir
from lib import area, b64, wait_for
from t_process import sh


@area("secrets")
def secrets(t):
    d = t.daemon()
    c = d.conn()
    c.call("server.ping", auth="wrong-secret-guess")
    pid = c.call("process.spawn", sh("s", "echo hello; exec sleep 300", wantPid=True))["result"]["pid"]
    c.wait_out("s", b"hello")
    c.call("process.stdin", {"id": "s", "data": b64(b"x")})
    crash(d)
    c = d.conn()
    c.call("process.reattach", {"id": "s", "fromSeq": 0})
    needles = [d.token.encode(), b"wrong-secret-guess"]
    files = [os.path.join(f, n) for f, _, names in os.walk(d.dir) for n in names]
    files = [p for p in files if stat.S_ISREG(os.lstat(p).st_mode)]
    found = [p for p in files for n in needles if n in open(p, "rb").read()]
    t.ok("some-files-were-looked-at", len(files) > 5, files)
    t.eq("token-in-no-file-and-no-log", found, [])
    keeper = parent_of(pid)
    shown = {p: proc_bytes(p, "cmdline") + proc_bytes(p, "environ") for p in (d.pid, keeper, pid)}
    t.eq("token-in-no-argv-and-no-environment", [p for p, b in shown.items() for n in needles if n in b], [])
    t.ok("keeper-is-not-the-daemon", keeper not in (d.pid, 1, os.getpid()), (keeper, d.pid))
    t.eq("keeper-names-no-door-and-no-socket", [w for w in (b"claustrum", d.sock.encode(), d.dir.encode()) if w in shown[keeper].lower()], [])
    t.eq("keeper-argv", proc_bytes(keeper, "cmdline"), b"ostler-keeper\0")
    t.eq("keeper-stdio-is-null", [os.readlink("/proc/%d/fd/%d" % (keeper, n)) for n in range(3)], ["/dev/null"] * 3)
    state = state_dir(d)
    modes = {}
    for folder, _, names in os.walk(state):
        modes[folder] = stat.S_IMODE(os.stat(folder).st_mode)
        for n in names:
            p = os.path.join(folder, n)
            modes[p] = stat.S_IMODE(os.lstat(p).st_mode)
    t.ok("state-folder-found", os.path.isdir(state), state)
    t.eq("state-is-the-owner's-alone", sorted(p for p, m in modes.items() if m & 0o077), [])
    c.post("server.shutdown")
    t.ok("keeper-ends-with-the-last-child", wait_for(lambda: not os.path.exists("/proc/%d" % keeper), 10), keeper)


@area("quiet")
def quiet(t):
    """Output belongs to the journal and the client, never to the daemon's own log."""
    d = t.daemon(env={"CLAUSTRUM_LOG_LEVEL": "debug"})
    c = d.conn()
    c.call("process.spawn", sh("q", "read x; echo said-$x; echo cried-$x >&2", env={"SOME_KEY": "env-secret-4711"}))
    c.call("process.stdin", {"id": "q", "data": b64(b"typed-secret-4711\n")})
    c.wait_exit("q")
    log = d.err() + d.out()
    t.eq("log-holds-no-input-output-or-environment", [w for w in ("typed-secret", "said-", "cried-", "env-secret") if w in log], [])
