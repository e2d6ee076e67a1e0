"""A hosted process that takes descriptors or memory of the keeper, the daemon or a client that decides, with the rights of the same user."""
import json
import os
import shutil
import signal

from approvals_kit import LONG, House, Terminal
from by_hosted_terminal import sized
from kit import parent_of
from lib import area, wait_for

# Every way in that the kernel has for a process of the same user. Prints those that were open.
TAKE = r'''
import ctypes, errno, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_ATTACH, PTRACE_DETACH, PIDFD_OPEN, PIDFD_GETFD = 16, 17, 434, 438

class Vec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

def ways(pid):
    found = []
    if libc.ptrace(PTRACE_ATTACH, pid, None, None) == 0:
        os.waitpid(pid, 0x40000000)
        libc.ptrace(PTRACE_DETACH, pid, None, None)
        found.append("ptrace")
    handle = libc.syscall(PIDFD_OPEN, pid, 0)
    if any(libc.syscall(PIDFD_GETFD, handle, fd, 0) >= 0 for fd in range(64)):
        found.append("pidfd_getfd")
    buffer = ctypes.create_string_buffer(8)
    # An address of the target's own, where its map can be read; else any: the right to read is asked first.
    address = 0x10000
    try:
        with open("/proc/%d/maps" % pid) as f:
            address = int(f.readline().split("-")[0], 16)
            found.append("maps")
    except (OSError, ValueError):
        pass
    local, remote = Vec(ctypes.addressof(buffer), 8), Vec(address, 8)
    if libc.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0) >= 0 or ctypes.get_errno() == errno.EFAULT:
        found.append("process_vm_readv")
    for name in ("mem", "environ", "auxv"):
        try:
            with open("/proc/%d/%s" % (pid, name), "rb"):
                found.append(name)
        except OSError:
            pass
    try:
        os.listdir("/proc/%d/fd" % pid)
        found.append("fd")
    except OSError:
        pass
    return found

print(json.dumps([ways(int(pid)) for pid in sys.argv[1:]]))
'''
WAYS = {"ptrace", "pidfd_getfd", "process_vm_readv", "mem", "fd"}


def take(house, *pids):
    """What a hosted process can take of these."""
    script = house.dir + "/take.py"
    with open(script, "w") as f:
        f.write(TAKE)
    rc, o, e = house("run", "--", shutil.which("python3"), script, *map(str, pids), timeout=LONG * 2)
    return [set(ways) for ways in json.loads(o.strip().splitlines()[-1])]


@area("hosted")
def memory(t):
    """ptrace, pidfd_getfd, /proc/PID/mem and the like, of keeper, daemon and a client that decides."""
    house = House(t).up()
    asker = house.ask(["echo", "looked-into"])
    id = house.waiting()[0]["id"]
    house.good("run", "-d", "--name", "plain", "--", "sleep", "1000")
    plain = next(p for p in house.json("ps") if p.get("name") == "plain")["pid"]
    daemon, keeper = house.record()["pid"], parent_of(plain)
    person, now = Terminal(house, "approve", id), None
    try:
        person.until(b"[y/N] ", LONG)
        now = sized(house, "approvals")
        now.until(b"looked-into", LONG)
        found = take(house, plain, daemon, keeper, person.pid, now.pid)
        t.control("a-plain-process-of-the-same-user-is-open", WAYS <= found[0], found[0])
        for name, ways in zip(("daemon", "keeper", "approve", "inbox"), found[1:]):
            for way in sorted(WAYS):
                t.stopped("%s-of-%s" % (way.replace("_", "-"), name), way not in ways, ways)
        # What replaces itself is another program after exec, and must have closed itself again.
        house.good("restart")
        found = take(house, house.record()["pid"], parent_of(plain))
        for name, ways in zip(("daemon", "keeper"), found):
            t.stopped("%s-after-a-restart" % name, not ways & WAYS, ways)
        os.kill(house.record()["pid"], signal.SIGKILL)
        before = house.record()["pid"]
        if wait_for(lambda: house.record()["pid"] != before and os.path.exists("/proc/%d" % house.record()["pid"]), LONG, 0.1):
            house.good("ps")
            t.stopped("daemon-after-a-crash", not take(house, house.record()["pid"])[0] & WAYS)
    finally:
        for one in (person, now):
            if one:
                os.kill(one.pid, signal.SIGKILL)
                one.wait()
        asker.sock.close()
        house.down()
