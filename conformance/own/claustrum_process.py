"""Processes: what a child starts with, grandchildren that hold pipes, kills after the end, survivors of -keep-children."""
import json
import os
import re
import resource
import time
import urllib.request

from kit import end
from lib import area, b64, outp, pid_alive, run_bin, wait_for
from t_life import free_port
from t_process import sh

SP, RE, K, KW = "process.spawn", "process.reattach", "process.kill", "process.killAndWait"


@area("child")
def child(t):
    d = t.common()
    c = d.conn()
    c.call(SP, {"id": "st", "command": "cat", "args": ["/proc/self/status"]})
    status = dict(x.split(":\t", 1) for x in outp(c.wait_exit("st")).decode().splitlines() if ":\t" in x)
    t.eq("signal-mask-clean", int(status["SigBlk"], 16), 0)
    t.eq("no-signal-ignored", int(status["SigIgn"], 16), 0)
    c.call(SP, {"id": "own", "command": "env"})
    names = [x.split("=")[0] for x in outp(c.wait_exit("own")).decode().splitlines()]
    t.eq("one-variable-of-our-own", [n for n in names if n.startswith("OSTLER_")], ["OSTLER_PROCESS"])
    # SIGPIPE has its default action: a writer into a closed pipe dies of it
    c.call(SP, {"id": "pipe", "command": "bash" if os.path.exists("/bin/bash") else "sh",
                "args": ["-c", "yes | head -n 1; echo ${PIPESTATUS[0]:-141}"]})
    t.eq("sigpipe-default", outp(c.wait_exit("pipe")).split()[-1], b"141")
    c.call(SP, {"id": "um", "command": "/bin/sh", "args": ["-c", "umask; ulimit -Sn; ulimit -Hn"]})
    got = outp(c.wait_exit("um")).decode().split()
    mask = os.umask(0)
    os.umask(mask)
    t.eq("umask-as-the-caller's", int(got[0], 8), mask)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    t.eq("descriptor-limit-as-the-caller's", got[1:], [str(soft), str(hard)])


@area("grandchild")
def grandchild(t):
    d = t.common()
    c = d.conn()
    # a background process keeps stdout open for long: the exit is not held back beyond 5 s
    started = time.monotonic()
    c.call(SP, sh("gc", "sleep 40 & echo $!; exit 3"))
    f = c.wait_exit("gc", 30)
    took = time.monotonic() - started
    t.ok("exit-held-back-at-most-5-s", took < 20, "%.1f s" % took, "about 5 s, and not 40")
    t.eq("exit-code-is-the-child's", f[-1]["exitCode"], 3)
    t.eq("not-running-afterwards", c.call(RE, {"id": "gc", "fromSeq": 99})["result"]["running"], False)
    keep = int(outp(f).split()[0])
    # once the pipes are closed the exit comes at once, however long the grandchild lives
    started = time.monotonic()
    c.call(SP, sh("gd", "sleep 40 >/dev/null 2>&1 </dev/null & echo $!; exit 4"))
    f = c.wait_exit("gd", 10)
    took = time.monotonic() - started
    t.ok("closed-pipes-do-not-hold-it-back", took < 4.5 and f[-1]["exitCode"] == 4, took)
    quiet = int(outp(f).split()[0])
    # what the grandchild says within the wait is still delivered, before the exit
    c.call(SP, sh("ge", "(sleep 1; echo late) & echo early; exit 0"))
    f = c.wait_exit("ge", 15)
    t.eq("output-within-the-wait-is-delivered", outp(f), b"early\nlate\n")
    # what it says afterwards never follows the exit frame
    c.call(SP, sh("gf", "(sleep 6.5; echo too-late) & exit 0"))
    n = len(c.wait_exit("gf", 15))
    time.sleep(2.5)
    t.eq("nothing-follows-the-exit-frame", len(c.frs("gf")), n)
    c2 = d.conn()
    r = c2.call(RE, {"id": "gf", "fromSeq": 0})["result"]
    t.eq("exit-is-last-in-replay-too", (r["lastSeq"], [x["stream"] for x in c2.frs("gf")][-1:]), (n, ["exit"]))
    # the group of a child that is gone may be somebody else's by now: no signal is sent
    t.res("kill-after-exit-succeeds", c, K, {"id": "gd", "signal": "KILL"}, '{"success":true}')
    t.res("kill-and-wait-after-exit", c, KW, {"id": "gd", "signal": "KILL"}, '{"found":true,"died":true,"alreadyExited":true}')
    time.sleep(0.3)
    t.ok("kill-after-exit-signals-nobody", pid_alive(quiet), "pid %d was killed" % quiet)
    end(keep, quiet)


@area("kill-order")
def kill_order(t):
    """killAndWait answers after the exit frame, on the connection that watches."""
    d = t.common()
    c = d.conn()
    for i in range(5):
        c.call(SP, sh("ko%d" % i, "echo up; exec sleep 300"))
        c.wait_out("ko%d" % i, b"up")
        id = c.post(KW, {"id": "ko%d" % i})
        c.find(id)
    lines = [json.loads(x) for x in c.lines]
    bad = 0
    for i in range(5):
        exits = [n for n, x in enumerate(lines) if x.get("processId") == "ko%d" % i and x.get("stream") == "exit"]
        replies = [n for n, x in enumerate(lines) if "died" in str(x.get("result"))]
        if not exits or exits[0] > replies[i]:
            bad += 1
    t.eq("reply-follows-the-exit-frame", bad, 0)
    # a long grace is honoured verbatim, beyond the default of three seconds
    c.call(SP, sh("kl", "trap 'sleep 4; exit 7' TERM; echo up; while :; do sleep 0.05; done"))
    c.wait_out("kl", b"up")
    started = time.monotonic()
    t.res("grace-of-8-s-honoured", c, KW, {"id": "kl", "timeoutMs": 8000}, '{"found":true,"died":true}', timeout=15)
    t.ok("grace-of-8-s-ends-with-the-process", 3.5 < time.monotonic() - started < 7.9, time.monotonic() - started)


@area("kept-children")
def kept_children(t):
    """Survivors of -keep-children lose their stdio: EOF, SIGPIPE, or EPIPE for those that ignore it."""
    d = t.daemon(extra=["-keep-children"])
    plain = t.daemon()
    t.eq("capabilities-unchanged", d.conn().body("server.capabilities"), plain.conn().body("server.capabilities"))
    c = d.conn()
    t.res("spawn-reply-unchanged", c, SP, {"id": "k0", "command": "/bin/true"}, '{"success":true}')
    go = d.dir + "/go"
    wait = "while [ ! -e %s ]; do sleep 0.05; done; " % go
    pids = {}
    for id, script in (("dies", wait + "echo x; : > %s/dies-lived" % d.dir),
                       ("ignores", "trap '' PIPE; " + wait + "echo x || : > %s/ignores-error; exec sleep 300 >/dev/null 2>&1" % d.dir),
                       ("quiet", "exec sleep 300 </dev/null >/dev/null 2>&1")):
        pids[id] = c.call(SP, sh(id, script, wantPid=True))["result"]["pid"]
    c.post("server.shutdown")
    t.ok("daemon-ends", wait_for(lambda: not d.alive(), 10))
    t.has("logged", d.err(), "[Server] -keep-children: leaving 3 running child process(es) alive across shutdown")
    t.ok("children-live-on", all(pid_alive(p) for p in pids.values()), pids)
    open(go, "w").close()
    t.ok("late-write-is-SIGPIPE", wait_for(lambda: not pid_alive(pids["dies"]), 20) and not os.path.exists(d.dir + "/dies-lived"))
    t.ok("late-write-is-EPIPE-where-ignored", wait_for(lambda: os.path.exists(d.dir + "/ignores-error"), 20))
    t.ok("tolerant-children-stay", pid_alive(pids["ignores"]) and pid_alive(pids["quiet"]), pids)
    end(*pids.values())


@area("counters")
def counters(t):
    port = free_port()
    d = t.daemon(extra=["-metrics-addr", "127.0.0.1:%d" % port])
    c = d.conn()

    def counted(query=""):
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics%s" % (port, query), timeout=10) as r:
            return [int(n) for n in re.findall(r"^claustrum_(?:stream|stdin)_bytes_total (\d+)$", r.read().decode(), re.M)]
    c.call(SP, sh("gone", "head -c 5; printf 0123456789"))
    c.call("process.stdin", {"id": "gone", "data": b64(b"12345")})
    c.wait_exit("gone")
    c.call(SP, sh("lives", "printf abc; exec sleep 300"))
    c.wait_out("lives", b"abc")
    t.ok("ended-and-running-count", wait_for(lambda: counted() == [18, 5], 10), counted())
    ids = [p["id"] for p in json.loads(run_bin([t.ostler()], ["--json", "ps", "-a"], env=d.env)[1]) if p.get("exit")]
    t.eq("one-is-forgotten", (len(ids), run_bin([t.ostler()], ["forget"] + ids, env=d.env)[0]), (1, 0))
    t.eq("a-counter-never-goes-down", counted(), [18, 5])
    t.eq("a-query-changes-nothing", counted("?x=1"), [18, 5])
    # no descriptor left for one scrape: the next one is served
    soft, hard = resource.prlimit(d.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(d.pid, resource.RLIMIT_NOFILE, (3, hard))
    try:
        counted()
    except OSError:
        pass
    resource.prlimit(d.pid, resource.RLIMIT_NOFILE, (soft, hard))
    t.eq("a-failed-accept-is-not-the-last", counted(), [18, 5])
    port = free_port()
    t.daemon(extra=["-metrics-addr", ":%d" % port])
    t.eq("an-address-without-a-host-is-every-address", counted(), [0, 0])
    c.call(K, {"id": "lives", "signal": "KILL"})
