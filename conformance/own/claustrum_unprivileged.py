"""The whole life of a daemon as a user without privileges, with the usual soft limit of 1024 descriptors."""
import json
import os
import shutil

from kit import give_to_nobody, kill9, unprivileged, write_token
from lib import area, b64, outp, pid_alive, wait_for
from t_process import sh

SP, SI, RE = "process.spawn", "process.stdin", "process.reattach"
# More than 1024 descriptors carry when each child costs a handful of them.
CHILDREN = 400


def start(d):
    give_to_nobody(d.dir)
    d.start()
    d.pid = d.peer
    d.pids.add(d.pid)
    return d.conn()


def frames_by_process(c):
    by = {}
    for line in list(c.frames):
        f = json.loads(line)
        by.setdefault(f["processId"], []).append(f)
    return by


def count(c, kind):
    return sum(1 for line in list(c.frames) if b'"stream":"%s"' % kind in line)


@area("unprivileged")
def whole_life(t):
    if not shutil.which("setpriv") or not shutil.which("prlimit"):
        return t.skip("all", "setpriv and prlimit (util-linux) are missing")
    d = t.daemon(start=False)
    # The build folder may be closed to other users: run a copy.
    program = os.path.join(d.dir, "claustrum")
    shutil.copy(t.ostler(), program)
    os.chmod(program, 0o755)
    d.argv = unprivileged([program])
    c = start(d)
    t.ok("daemon-is-not-root", os.stat("/proc/%d" % d.pid).st_uid != 0)
    c.call(SP, sh("lim", "ulimit -Sn"))
    t.eq("children-get-the-original-soft-limit", outp(c.wait_exit("lim")).split(), [b"1024"])
    ids = ["k%d" % i for i in range(CHILDREN)]
    for i, id in enumerate(ids):
        c.post(SP, sh(id, "echo up; read x; echo got-$x; exit %d" % (i % 100)))
    t.ok("400-children-start", wait_for(lambda: count(c, b"stdout") > CHILDREN, 60), count(c, b"stdout"))
    pids = [c.call(RE, {"id": id, "fromSeq": 9, "wantPid": True})["result"].get("pid") for id in ids]
    kill9(d)
    write_token(d)
    c = start(d)
    found = [c.call(RE, {"id": id, "fromSeq": 0, "wantPid": True})["result"] for id in ids]
    t.eq("400-children-survive-a-crash", ([x.get("pid") for x in found] == pids, all(x["running"] for x in found)), (True, True))
    for id in ids:
        c.post(SI, {"id": id, "data": b64(b"on\n"), "offset": 0})
    wait_for(lambda: count(c, b"exit") >= CHILDREN, 60, 0.2)
    by = frames_by_process(c)
    bad = [id for i, id in enumerate(ids)
           if outp(by.get(id, [])) != b"up\ngot-on\n" or by[id][-1].get("exitCode") != i % 100]
    t.eq("400-children-answer-afterwards", bad, [])
    c.post("server.shutdown")
    t.ok("ends", wait_for(lambda: not pid_alive(d.pid), 10))
