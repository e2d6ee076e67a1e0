"""Who connected is held by the kernel: a number that is used again deceives nobody."""
import json
import os
import pty
import shlex
import shutil
import signal
import time

from approvals_kit import LONG, House
from lib import area, pid_alive, wait_for

LAST_PID = "/proc/sys/kernel/ns_last_pid"
# Connects, asks, leaves the connection to a child, and ends.
ATTACK = """
import os, socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode() + b"\\n")
if os.fork():
    with open(sys.argv[3] + ".new", "w") as f:
        f.write(str(os.getpid()))
    os.rename(sys.argv[3] + ".new", sys.argv[3])
    os._exit(0)
os.setsid()
with open(sys.argv[3] + ".said", "w") as f:
    s.settimeout(60)
    f.write(s.makefile().readline())
"""


def stand_in(number):
    """A process of a person, on a terminal, with this number; nothing if another one was quicker."""
    with open(LAST_PID, "w") as f:
        f.write(str(number - 1))
    pid, fd = pty.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    if pid == number:
        # The kernel shows its terminal a moment later.
        wait_for(lambda: open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()[4] != "0", LONG, 0.01)
        return pid, fd
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(fd)
    return None


@area("approvals-peers")
def peers(t):
    if not os.access(LAST_PID, os.W_OK):
        return t.skip("a-number-used-again", "numbers of processes cannot be chosen here")
    house = House(t).up()
    try:
        native, daemon, python = house.record()["native"], house.daemon_pid(), shutil.which("python3")
        ask = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "rule.add", "params": {
            "effect": "allow", "stages": [[{"is": "/usr/bin/id"}]], "privileged": True}})
        script = house.dir + "/attack.py"
        with open(script, "w") as f:
            f.write(ATTACK)
        for n in range(50):
            note = "%s/attacker-%d" % (house.dir, n)
            line = " ".join(shlex.quote(w) for w in (python, script, native, ask, note))
            os.kill(daemon, signal.SIGSTOP)
            try:
                # It would be told through the daemon, so it is hosted by descent from a keeper of its own name.
                house_of(house, line, note)
                number = int(open(note).read())
                wait_for(lambda: not pid_alive(number), LONG, 0.01)
                found = stand_in(number)
            finally:
                os.kill(daemon, signal.SIGCONT)
            if found:
                break
        t.ok("a-person-has-the-number-now", found is not None, "nobody got it")
        wait_for(lambda: os.path.exists(note + ".said") and os.path.getsize(note + ".said"), LONG, 0.05)
        said = open(note + ".said").read()
        t.ok("who-connected-is-not-taken-for-them", "error" in said and "result" not in said, said)
        t.eq("and-gets-no-rule", house.json("rules"), [])
        os.kill(found[0], signal.SIGKILL)
        os.waitpid(found[0], 0)
        os.close(found[1])
        rc, o, e = house("doctor")
        t.ok("doctor-says-whether-callers-are-held", "callers" in o and "the kernel" in o, o)
    finally:
        house.down()


def house_of(house, line, note):
    """Runs a command line as a hosted process would be run: below something with the name of a keeper."""
    keeper = house.dir + "/ostler-keeper"
    if not os.path.exists(keeper):
        shutil.copy("/bin/sh", keeper)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.execve(keeper, [keeper, "-c", line + "; exit 0"], house.env)
    os.waitpid(pid, 0)
    if not wait_for(lambda: os.path.exists(note), LONG, 0.01):
        raise RuntimeError("the attacker does not run")
