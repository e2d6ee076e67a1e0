#!/usr/bin/env python3
"""The suite against both servers at once: `ostler as cdev start`, and the port of `ostler up` with a person beside it: `both.py OSTLER`.
Most of the suite is waiting, so the two take little longer than one. Names of the second begin with `up:`."""
import os
import re
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
OSTLER = os.path.abspath(sys.argv[1])
AT_UP = "%s %s %s {root}" % (sys.executable, os.path.join(HERE, "at_up.py"), OSTLER)
SERVERS = {
    "": ["--start", OSTLER + " as cdev start --repo {repo} --port {port} --headless"],
    "up:": ["--start", AT_UP + " serve {port}", "--person", AT_UP + " {what} {id}"],
}
counts = {}


def run(prefix, how):
    words = [sys.executable, "-u", os.path.join(HERE, "run.py"), "--heartbeat-secs", "2", *how]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as p:
        for line in p.stdout:
            found = re.fullmatch(r"(\d+) passed, (\d+) failed\n?", line)
            if found:
                counts[prefix] = [int(n) for n in found.groups()]
            else:
                print(re.sub(r"^(ok|FAIL) ", r"\g<1> %s" % prefix, line), end="", flush=True)
    # Who ends without a count has failed.
    counts.setdefault(prefix, [0, 1])


threads = [threading.Thread(target=run, args=each) for each in SERVERS.items()]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
passed, failed = (sum(n) for n in zip(*counts.values()))
print("%d passed, %d failed" % (passed, failed))
sys.exit(1 if failed else 0)
