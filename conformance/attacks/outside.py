"""The part that stays root: makes the user, and does for the suite what only root or another user can."""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

# A user that is nobody here: neither the one who runs the suite nor root.
STRANGER = 61002
PASSWORD = "Corr3ct-Horse-%d" % os.getpid()
MOST = 120


def hand_over(program, opt):
    """Runs the suite as a fresh user, and serves it from here."""
    from account import Account
    account = Account(PASSWORD, "ALL=(ALL) ALL")
    base = tempfile.mkdtemp(prefix="at")
    try:
        os.chmod(base, 0o755)
        # Root's folder: whoever could replace the program has won already.
        links, tmp, home = (os.path.join(base, name) for name in ("bin", "t", "home"))
        os.mkdir(links)
        os.chmod(links, 0o755)
        ostler = os.path.join(links, "ostler")
        shutil.copy(os.path.realpath(opt.bin), ostler)
        os.chmod(ostler, 0o755)
        subprocess.run([ostler, "link", links], stdout=subprocess.DEVNULL, check=True, env=dict(os.environ, HOME=base))
        for folder in (tmp, home):
            os.mkdir(folder, 0o755)
            os.chown(folder, account.user.pw_uid, account.user.pw_gid)
        ours, theirs = socket.socketpair()
        env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "SUDO_", "OSTLER_")) or k == "OSTLER_TEST_PATIENCE"}
        env.update(HOME=home, TMPDIR=tmp, USER=account.name, LOGNAME=account.name, SHELL="/bin/sh", PYTHONDONTWRITEBYTECODE="1",
                   PATH="/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin")
        # The sources may lie where only root can read: a copy.
        suites = os.path.join(base, "conformance")
        shutil.copytree(os.path.join(os.path.dirname(program), ".."), suites, ignore=shutil.ignore_patterns("__pycache__"))
        argv = ["setpriv", "--reuid=%d" % account.user.pw_uid, "--regid=%d" % account.user.pw_gid, "--init-groups", python(), "-u",
                os.path.join(suites, "attacks", "run.py"), "--bin", links + "/claustrum", "--filter", opt.filter, "--outside", str(theirs.fileno())]
        child = subprocess.Popen(argv, env=env, cwd=tmp, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        theirs.close()
        serve(ours, account, base)
        return child.wait()
    finally:
        sweep()
        shutil.rmtree(base, ignore_errors=True)
        account.remove()


def sweep():
    """Control groups that were handed over, once everything in them has ended."""
    with open("/proc/mounts") as f:
        tops = [line.split()[1] for line in f if line.split()[2] == "cgroup2"]
    groups = [os.path.join(top, name) for top in tops[:1] for name in os.listdir(top) if name.startswith("ostler-at-")]
    until = time.monotonic() + 10
    while any(map(os.path.isdir, groups)) and time.monotonic() < until:
        for group in groups:
            for folder, _, _ in os.walk(group, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    time.sleep(0.05)


def python():
    """A Python that every user can run."""
    usual = ["/usr/bin/python3", "/usr/local/bin/python3", os.path.realpath(sys.executable)]
    return next(path for path in usual if os.path.exists(path))


def serve(ours, account, base):
    """One request a line, until the suite has ended."""
    with ours.makefile("rw") as stream:
        for line in stream:
            ask = json.loads(line)
            stream.write(json.dumps(answer(ask, account, base)) + "\n")
            stream.flush()


def answer(ask, account, base):
    if ask["do"] == "facts":
        return {"password": PASSWORD, "user": account.name, "stranger": STRANGER, "base": base}
    if ask["do"] == "policy":
        account.policy(ask["line"])
        return {}
    who = [] if ask["as"] == "root" else ["setpriv", "--reuid=%d" % STRANGER, "--regid=%d" % STRANGER, "--clear-groups"]
    try:
        p = subprocess.run(who + ask["argv"], input=ask.get("stdin", ""), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           errors="replace", timeout=MOST, cwd="/", env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"})
    except subprocess.TimeoutExpired as late:
        return {"code": 124, "out": str(late), "err": ""}
    return {"code": p.returncode, "out": p.stdout, "err": p.stderr}


class Outside:
    """The suite's end of it; without root there is nobody."""

    def __init__(self, fd):
        self.stream = socket.socket(fileno=fd).makefile("rw") if fd else None
        self.facts = self.ask(do="facts") if fd else {}

    def __bool__(self):
        return self.stream is not None

    def ask(self, **what):
        self.stream.write(json.dumps(what) + "\n")
        self.stream.flush()
        return json.loads(self.stream.readline())

    def stranger(self, *argv, stdin=""):
        """What another user hears."""
        return self.ask(**{"do": "run", "as": "stranger", "argv": list(argv), "stdin": stdin})

    def root(self, *argv, stdin=""):
        return self.ask(**{"do": "run", "as": "root", "argv": list(argv), "stdin": stdin})
