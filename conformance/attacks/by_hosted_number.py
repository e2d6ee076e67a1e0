"""Who connected is held by the kernel: a number that is used again deceives nobody."""
import json
import os
import shlex
import shutil
import signal

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
# A process of a person, on a terminal, with this number; says nothing if another one was quicker.
STAND_IN = r"""
import os, pty, sys, time
number, uid = int(sys.argv[1]), int(sys.argv[2])
with open("/proc/sys/kernel/ns_last_pid", "w") as f:
    f.write(str(number - 1))
pid, fd = pty.fork()
if pid == 0:
    os.setgid(uid)
    os.setuid(uid)
    os.closerange(3, 64)
    time.sleep(60)
    os._exit(0)
if pid != number:
    os.kill(pid, 9)
    os._exit(1)
# The kernel shows its terminal a moment later.
while open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()[4] == "0":
    time.sleep(0.01)
print(pid, flush=True)
# Its terminal is held as long as it lives.
if os.fork():
    os._exit(0)
os.close(0), os.close(1), os.close(2)
while os.path.exists("/proc/%d" % pid):
    time.sleep(0.1)
"""


def stand_in(t, number):
    said = t.outside.root("python3", "-c", STAND_IN, str(number), str(os.getuid()))
    return int(said["out"]) if said["out"].strip() else None


@area("hosted")
def a_number_used_again(t):
    """A hosted process connects, asks and ends; a person's process gets its number before the daemon looks."""
    if not t.outside or t.outside.root("test", "-w", LAST_PID)["code"] != 0:
        return t.skip("a-number-used-again", "numbers of processes cannot be chosen here")
    house = House(t).up()
    try:
        native, daemon, python = house.record()["native"], house.record()["pid"], shutil.which("python3")
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
                found = stand_in(t, number)
            finally:
                os.kill(daemon, signal.SIGCONT)
            if found:
                break
        t.control("a-person-has-the-number-now", found is not None, "nobody got it")
        wait_for(lambda: os.path.exists(note + ".said") and os.path.getsize(note + ".said"), LONG, 0.05)
        said = open(note + ".said").read()
        t.stopped("a-number-used-again", "error" in said and "result" not in said and house.json("rules") == [], said)
        if found:
            os.kill(found, signal.SIGKILL)
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
