"""SIGKILL of the daemon: the next one on the same socket has the same processes, and nobody lost anything."""
import hashlib
import json
import os
import time

from kit import crash, kill9, serve_again, Fail
from lib import area, b64, outp, pid_alive, wait_for
from t_process import sh

SP, SI, RE = "process.spawn", "process.stdin", "process.reattach"


def facts(c, id):
    """What a client knows a process by."""
    return c.call(RE, {"id": id, "fromSeq": 1 << 40, "wantPid": True})["result"]


def whole(f):
    return [x["seq"] for x in f] == list(range(1, len(f) + 1))


@area("crash")
def crash_area(t):
    d = t.daemon()
    c = d.conn()
    c.call(SP, {"id": "echo", "command": "cat", "wantPid": True})
    c.call(SI, {"id": "echo", "data": b64(b"one\ntwo\n")})
    c.wait_out("echo", b"two\n")
    c.call(SP, sh("done", "echo out; echo err >&2; exit 5"))
    c.wait_exit("done")
    c.call(SP, sh("a b/c\u00e9", "exec sleep 300"))
    c.call(SP, sh("ticks", "i=0; while :; do echo tick-$i; i=$((i+1)); sleep 0.01; done"))
    c.wait_out("ticks", b"tick-20\n")
    ids = ["echo", "done", "a b/c\u00e9", "ticks"]
    before = {i: facts(c, i) for i in ids}
    kill9(d)
    t.ok("children-live-on", all(pid_alive(before[i]["pid"]) for i in ids if i != "done"), before)
    time.sleep(0.5)
    seen = {i: [x for x in c.frames if json.loads(x)["processId"] == i] for i in ids}
    t.ok("socket-file-of-the-dead-stays", os.path.exists(d.sock) and not d.up())
    serve_again(d)
    t.ok("socket-file-of-the-dead-is-replaced", d.up())
    # asking for the facts subscribes: another connection, so that the replay comes first on this one
    c2, asker = d.conn(), d.conn()
    for i in ids:
        after = facts(asker, i)
        name = i.split()[0]
        t.eq(name + "-same-pid-and-start-time", (after.get("pid"), after.get("startTime")), (before[i]["pid"], before[i]["startTime"]))
        t.eq(name + "-same-state", (after["found"], after["running"], after["firstSeq"], after["stdinApplied"]),
             (True, before[i]["running"], before[i]["firstSeq"], before[i]["stdinApplied"]))
        t.ok(name + "-sequence-goes-on", after["lastSeq"] >= before[i]["lastSeq"], after)
        c2.call(RE, {"id": i, "fromSeq": 0})
        got = [x for x in c2.frames if json.loads(x)["processId"] == i]
        t.eq(name + "-frames-seen-before-are-the-same", got[:len(seen[i])] == seen[i], True)
    t.eq("finished-process-replays-whole", [x["stream"] for x in c2.frs("done")][-1], "exit")
    # blind resending: only what is new reaches the child
    t.res("input-known-is-duplicate", c2, SI, {"id": "echo", "data": b64(b"one\ntwo\n"), "offset": 0},
          '{"success":true,"applied":8,"duplicate":true}')
    t.res("input-overlap-appends-the-rest", c2, SI, {"id": "echo", "data": b64(b"two\nthree\n"), "offset": 4},
          '{"success":true,"applied":14}')
    t.eq("child-saw-each-byte-once", c2.wait_out("echo", b"three\n"), b"one\ntwo\nthree\n")
    t.err("input-gap-is-refused", c2, SI, {"id": "echo", "data": "eA==", "offset": 99}, -32003,
          "stdin offset gap: offset ahead of applied bytes")
    # again and again, with hardly any time between
    for _ in range(4):
        crash(d)
    c3 = d.conn()
    t.eq("five-crashes-same-pid", facts(c3, "echo").get("pid"), before["echo"]["pid"])
    c3.call(RE, {"id": "ticks", "fromSeq": 0})
    n = len(outp(c3.frs("ticks")).split())
    c3.wait_out("ticks", b"tick-%d\n" % (n + 20))
    f = c3.frs("ticks")
    lines = outp(f).split(b"\n")[:-1]
    t.ok("five-crashes-no-line-lost-or-doubled", whole(f) and lines == [b"tick-%d" % i for i in range(len(lines))], lines[-3:])
    # new processes get on with it, old ones can be ended
    c3.call(SP, sh("new", "echo new"))
    t.eq("spawns-after-a-crash", outp(c3.wait_exit("new")), b"new\n")
    t.res("kill-after-a-crash", c3, "process.killAndWait", {"id": "ticks"}, '{"found":true,"died":true}')
    t.eq("exit-after-a-crash", c3.wait_exit("ticks")[-1]["exitCode"], -1)
    t.ok("id-reuse-after-a-crash", c3.call(SP, sh("echo", "echo again; sleep 300"))["result"]["success"]
         and wait_for(lambda: not pid_alive(before["echo"]["pid"]), 20))
    pids = [facts(c3, i)["pid"] for i in ("echo", "a b/c\u00e9")]
    c3.post("server.shutdown")
    t.ok("shutdown-after-a-crash-ends-the-children", wait_for(lambda: not any(pid_alive(p) for p in pids), 20), pids)


@area("crash-absence")
def crash_absence(t):
    """What happens while no daemon runs is told by the next one."""
    d = t.daemon()
    c = d.conn()
    c.call(SP, sh("ends", "read x; echo got-$x; sleep 0.7; echo while-away; exit 9"))
    c.call(SP, sh("dies", "echo up; read x; sleep 0.7; kill -KILL $$"))
    c.call(SP, sh("writes", "read x; sleep 0.5; head -c 300000 /dev/zero | tr '\\0' x; echo end; exit 0"))
    c.call(SP, sh("spool", "sleep 1; head -c 2000000 | sha256sum", wantPid=True))
    for i in ("ends", "dies", "writes"):
        c.call(SI, {"id": i, "data": b64(b"go\n")})
    c.wait_out("ends", b"got-go\n")
    blob = os.urandom(2000000)
    for k in range(4):
        c.call(SI, {"id": "spool", "data": b64(blob[k * 500000:(k + 1) * 500000]), "offset": k * 500000})
    kill9(d)
    time.sleep(2)
    serve_again(d)
    c = d.conn()
    for i in ("ends", "dies", "writes", "spool"):
        c.call(RE, {"id": i, "fromSeq": 0}, timeout=20)
    f = c.wait_exit("ends")
    t.eq("exit-while-away-is-told", (outp(f), f[-1]["exitCode"], whole(f)), (b"got-go\nwhile-away\n", 9, True))
    t.eq("death-by-signal-while-away-is-told", c.wait_exit("dies")[-1]["exitCode"], -1)
    f = c.wait_exit("writes", 20)
    t.ok("writer-was-only-held-up", outp(f) == b"x" * 300000 + b"end\n" and f[-1]["exitCode"] == 0, len(outp(f)))
    f = c.wait_exit("spool", 20)
    t.eq("accepted-input-is-delivered-by-the-next-daemon", outp(f).split()[:1], [hashlib.sha256(blob).hexdigest().encode()])
    raw = [x for x in c.frames if b'"ends"' in x]
    crash(d)
    c = d.conn()
    r = c.call(RE, {"id": "ends", "fromSeq": 0})["result"]
    t.eq("finished-stays-finished", (r["running"], c.frames == raw), (False, True))


@area("crash-stream")
def crash_stream(t):
    """A client that reconnects with its last sequence number through five crashes in mid-stream."""
    d = t.daemon()
    c = d.conn()
    total = 40000
    # slow enough that every crash falls into the stream
    script = "i=0; while [ $i -lt %d ]; do echo $i; i=$((i+1)); [ $((i %% 100)) = 0 ] && sleep 0.01; done" % total
    c.call(SP, sh("st", script))
    got, last = [], 0

    def take(c):
        fresh = [x for x in c.frs("st") if x["seq"] > last]
        return got + fresh, max([last] + [x["seq"] for x in fresh])
    for _ in range(5):
        time.sleep(0.05)
        kill9(d)
        c.wait_eof(5)
        got, last = take(c)
        serve_again(d)
        c = d.conn()
        r = c.call(RE, {"id": "st", "fromSeq": last})["result"]
        if not r["found"]:
            raise Fail("process unknown after a crash")
    t.ok("crashes-fall-into-the-stream", r["running"], r)
    if not wait_for(lambda: any(x["stream"] == "exit" for x in c.frs("st")), 60):
        raise Fail("no exit frame")
    got, last = take(c)
    t.eq("sequence-without-gap-or-double", [x["seq"] for x in got], list(range(1, len(got) + 1)))
    t.eq("bytes-exactly-what-the-child-wrote", outp(got) == b"".join(b"%d\n" % i for i in range(total)), True)
    t.eq("exit-once-and-last", [x["stream"] for x in got].count("exit"), 1)


@area("fresh-start")
def fresh_start(t):
    """After a graceful end the next daemon begins with nothing: ids, also those of finished processes, are free."""
    d = t.daemon()
    c = d.conn()
    c.call(SP, sh("live", "exec sleep 300"))
    c.call(SP, sh("over", "echo x"))
    c.wait_exit("over")
    c.post("server.shutdown")
    c.wait_eof()
    wait_for(lambda: not pid_alive(d.pid), 10)
    serve_again(d)
    c = d.conn()
    for id in ("live", "over"):
        t.res(id + "-is-unknown", c, RE, {"id": id, "fromSeq": 0},
              '{"found":false,"running":false,"firstSeq":0,"lastSeq":0,"stdinApplied":0}')
    c.call(SP, sh("over", "echo y"))
    t.eq("id-begins-anew", [(x["seq"], x["stream"]) for x in c.wait_exit("over")], [(1, "stdout"), (2, "exit")])
