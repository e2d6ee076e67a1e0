#!/usr/bin/env python3
"""Runs a command and finds whatever it leaves behind.

  reaper.py REPORT GRACE COMMAND...

Orphans of the command become children of this process, however often they forked and whatever they did to their environment.
When the command has ended they have GRACE seconds to end too; what then still runs is written to REPORT (JSON) and killed. Ended by
SIGTERM it kills everything first. It exits as the command did."""
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def children():
    """pid -> pids of its children, of every process there is."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name) as f:
                    fields = f.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if fields[0] != "Z":
                found.setdefault(int(fields[1]), []).append(int(name))
    return found


def descendants():
    tree, found, at = children(), [], [os.getpid()]
    while at:
        below = tree.get(at.pop(), [])
        found += below
        at += below
    return found


def described(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            words = f.read().replace(b"\0", b" ").decode(errors="replace").strip()
        with open("/proc/%d/comm" % pid) as f:
            return "%d %s" % (pid, (words or "[%s]" % f.read().strip())[:200])
    except OSError:
        return None


def reap():
    """Takes the ends of children until none is waiting."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


class Stopped(Exception):
    pass


def stop(*_):
    raise Stopped


def watch(seen):
    """Remembers who was there: their pids are in the names of what they made."""
    while True:
        seen.update(descendants())
        time.sleep(1)


def kill_all():
    """What is killed may be forking: until nothing is left, or will not go."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        pids = descendants()
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        reap()
        time.sleep(0.05)


def main(report, grace, argv):
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Nothing outlives the test command, however that ends.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    # Whoever starts this with nohup or in the background ignores signals that tests send and expect to be heard.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    status, left, seen = 124, [], set()
    try:
        signal.signal(signal.SIGTERM, stop)
        # Not the leader of a session: such a program would make any terminal that it opens its own, and be hung up with it.
        # Held on to: a Popen that is dropped takes the end of its process with it, if that was quick.
        command = subprocess.Popen(argv, preexec_fn=os.setpgrp)
        threading.Thread(target=watch, args=(seen,), daemon=True).start()
        pid, how = os.waitpid(-1, 0)
        while pid != command.pid:
            pid, how = os.waitpid(-1, 0)
        status = os.waitstatus_to_exitcode(how)
        until = time.monotonic() + grace
        while descendants() and time.monotonic() < until:
            reap()
            time.sleep(0.05)
        left = [d for d in map(described, descendants()) if d]
    except Stopped:
        pass
    except OSError as error:
        print(error, file=sys.stderr)
        status = 127
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    kill_all()
    with open(report, "w") as f:
        json.dump({"left": left, "seen": sorted(seen)}, f)
    return 128 - status if status < 0 else status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]), sys.argv[3:]))
