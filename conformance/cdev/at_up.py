#!/usr/bin/env python3
"""The cdev port of `ostler up` for the suite, and the person at that machine.

  run.py --start "at_up.py OSTLER {root} serve {port}" --person "at_up.py OSTLER {root} {what} {id}" ...

`serve` becomes `ostler up` with the settings that the suite gives in the document's own variables. The rest is what only a person does,
in a terminal: `begin REPO` (a session there, which is how a folder becomes a workspace), `approve ID`, `reject ID`, `affirm`, `end`."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import at_terminal

PROGRAM, ROOT, WHAT = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3]
MORE = sys.argv[4:]
HOME = ROOT + "/home"
PATIENCE = 30


def env():
    own = {k: v for k, v in os.environ.items() if not k.startswith(("CDEV_", "XDG_", "OSTLER_"))}
    own.update(HOME=HOME, XDG_RUNTIME_DIR=ROOT + "/run", OSTLER_DOORS_WEB="false", OSTLER_DOORS_CODECAST="false", TERM="xterm",
               PATH=ROOT + "/bin:" + os.environ["PATH"])
    os.makedirs(ROOT + "/run", mode=0o700, exist_ok=True)
    return own


def serve(port):
    settings = dict(env(), OSTLER_CDEV_PORT=port, OSTLER_CDEV_HEARTBEAT=os.environ.get("CDEV_HEARTBEAT_SECS", "30") + "s",
                    OSTLER_CDEV_RATE_LIMIT=os.environ.get("CDEV_SECURITY_RATE_LIMIT_ENABLED", "true"))
    os.execve(PROGRAM, [PROGRAM, "up", "--foreground"], settings)


def in_terminal(key, *words):
    """Answers the question that is shown."""
    answer = lambda seen: key if seen.rstrip(b" ").endswith(b"[y/N]") else b""
    code, seen = at_terminal.run([PROGRAM, *words], answer, env(), ROOT, patience=PATIENCE)
    sys.exit(0 if code == 0 and b"[y/N]" in seen else "%s: exit %s, %r" % (words, code, seen[-400:]))


def plain(*words):
    sys.exit(subprocess.run([PROGRAM, *words], env=env(), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode)


if WHAT == "serve":
    serve(MORE[0])
elif WHAT == "begin":
    plain("new", "echo", MORE[0])
elif WHAT in ("approve", "reject"):
    in_terminal(b"y" if WHAT == "approve" else b"n", "devices", "admit", MORE[0])
elif WHAT == "affirm":
    in_terminal(b"y", "devices", "affirm")
elif WHAT == "end":
    plain("down", "--kill")
else:
    sys.exit(__doc__)
