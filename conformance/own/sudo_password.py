"""A password sudo for an ordinary user: the daemon runs as somebody who is not root and has to type a password."""
import contextlib
import json
import os
import re
import select
import shutil
import subprocess
import tempfile

from account import Account
from approvals_kit import Tmux
from lib import Fail, area, wait_for
from ptyhost import PtyDaemon
from sudo_kit import LONG, PROMPT, Home
from sudo_proxy import line, out

PASSWORD = "Corr3ct-Horse-%d" % os.getpid()
ASKED = re.compile(r"password for \S+:")


@contextlib.contextmanager
def person(t):
    """A fresh user who may do everything with a password, and a home in which their daemon runs."""
    account = Account(PASSWORD, "ALL=(ALL) ALL")
    user = account.user
    home = Home(t)
    try:
        program = home.dir + "/ostler"
        shutil.copy(t.ostler(), program)
        os.chmod(program, 0o755)
        for folder, _, files in os.walk(home.dir):
            for path in [folder] + [os.path.join(folder, file) for file in files]:
                os.chown(path, user.pw_uid, user.pw_gid)
        argv = ["setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--init-groups", program, "as", "sudo-proxy"]
        home.join(*argv[:-3], program=program)
        home.pty = PtyDaemon(argv, home.env, home.dir)
        if not wait_for(lambda: os.path.exists(home.sock) or home.pty.poll() is not None, LONG) or home.pty.poll() is not None:
            raise Fail("the daemon does not come up: %s" % home.pty.text_since(0)[-600:])
        home.user = user
        yield home
    finally:
        home.close()
        account.remove()


def ask_as(home, payload):
    """A client of that user; only they may connect."""
    script = "import socket,sys;s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1]);s.sendall(sys.stdin.buffer.read());sys.stdout.buffer.write(b''.join(iter(lambda: s.recv(65536), b'')))"
    p = subprocess.Popen(["setpriv", "--reuid", str(home.user.pw_uid), "--regid", str(home.user.pw_gid), "--clear-groups", "python3", "-c", script, home.sock],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    p.stdin.write(payload)
    p.stdin.close()
    p.stdin = None
    return p


def answer_of(home, p):
    try:
        data = p.communicate(timeout=LONG)[0]
    except subprocess.TimeoutExpired:
        p.kill()
        p.communicate()
        raise Fail("no answer; screen: %s" % home.pty.text_since(0)[-600:])
    return json.loads(data)


def with_password(home, payload, password):
    mark = home.pty.mark()
    p = ask_as(home, payload)
    home.answer("y", mark)
    if home.pty.wait_for(ASKED, mark, LONG) is None:
        raise Fail("sudo did not ask; screen: %s" % home.pty.text_since(mark)[-600:])
    press(home, p, password + "\n")
    return answer_of(home, p), home.pty.text_since(mark)


def press(home, p, keys):
    """A person who looks and types again: sudo throws away what comes in the moment in which it takes the terminal over."""
    for _ in range(4):
        home.pty.key(keys)
        if select.select([p.stdout], [], [], 10)[0]:
            return


@area("sudo-password")
def password(t):
    if os.geteuid() != 0 or not shutil.which("sudo"):
        return t.skip("all", "needs root to make a user, and sudo")
    with person(t) as home:
        a, screen = with_password(home, line(["id", "-u"], privileged=True), PASSWORD)
        t.ok("a-command-asks-on-the-approving-terminal", a["status"] == "ok" and out(a) == b"0\n", (a, screen))
        a, screen = with_password(home, line(["id", "-u"], ["cat", "-", "/etc/shadow"], ["head", "-n", "1"], privileged=True), PASSWORD)
        t.ok("a-pipeline-asks-once-and-runs-as-root", a["status"] == "ok" and out(a) == b"0\n", (a, screen))
        t.ok("the-password-is-not-shown", PASSWORD not in screen, "on the screen")
        found = [os.path.join(f, n) for f, _, names in os.walk(home.dir) for n in names
                 if os.path.isfile(os.path.join(f, n)) and n != "ostler" and PASSWORD.encode() in open(os.path.join(f, n), "rb").read()]
        t.eq("nor-kept-in-any-file", found, [])
        mark = home.pty.mark()
        p = ask_as(home, line(["id"], privileged=True))
        home.answer("y", mark)
        home.pty.wait_for(ASKED, mark, LONG)
        press(home, p, "\x03")
        a = answer_of(home, p)
        t.ok("ctrl-c-at-the-password-ends-sudo-alone", home.pty.poll() is None and out(a) == b"", (a, home.pty.exit_status))
        script = home.dir + "/home/mine"
        with open(script, "w") as f:
            f.write("#!/bin/sh\nid -u\n")
        os.chmod(script, 0o755)
        os.chown(script, home.user.pw_uid, home.user.pw_gid)
        mark = home.pty.mark()
        a = answer_of(home, ask_as(home, line([script], privileged=True)))
        t.ok("a-file-that-the-asker-can-change-is-never-root's", a["status"] == "error" and "could be replaced by the one who asks" in a["message"]
             and not PROMPT.search(home.pty.text_since(mark)), a)


@area("sudo-behind")
def behind(t):
    """Files behind the file that is shown, for somebody who can write them."""
    if os.geteuid() != 0 or not shutil.which("sudo"):
        return t.skip("all", "needs root to make a user, and sudo")
    roots = tempfile.mkdtemp(prefix="ostler-behind-", dir="/usr/local")
    os.chmod(roots, 0o755)
    try:
        with person(t) as home:
            mine = home.dir + "/home/mine"
            with open(mine, "w") as f:
                f.write("#!/bin/sh\nid -u\n")
            os.chmod(mine, 0o755)
            os.chown(mine, home.user.pw_uid, home.user.pw_gid)
            script = roots + "/script"
            with open(script, "w") as f:
                f.write("#!%s\n" % mine)
            os.chmod(script, 0o755)
            for name, argv in {"interpreter": [script], "sh": ["sh", mine], "sh-with-options": ["sh", "-e", mine], "python": ["python3", mine],
                               "perl": ["perl", mine], "env": ["env", mine]}.items():
                mark = home.pty.mark()
                a = answer_of(home, ask_as(home, line(argv, privileged=True)))
                t.ok("%s-that-the-asker-can-change-is-refused" % name, a["status"] == "error" and "could be replaced by the one who asks" in a["message"]
                     and mine in a["message"] and not PROMPT.search(home.pty.text_since(mark)), a)
            fixed = roots + "/fixed"
            with open(fixed, "w") as f:
                f.write("#!/bin/sh\nid -u\n")
            os.chmod(fixed, 0o755)
            a, screen = with_password(home, line(["sh", fixed], privileged=True), PASSWORD)
            t.ok("control-one-that-only-root-can-change-is-asked", a["status"] == "ok" and out(a) == b"0\n" and "Warning" not in screen, (a, screen))
            a, screen = with_password(home, line(["cat", mine], privileged=True, env={"HOME": home.dir + "/home"}), PASSWORD)
            marked = re.sub(r"\s+", "", screen)
            t.ok("an-argument-that-the-asker-can-write-is-marked", "canchange" + re.sub(r"\s+", "", mine) in marked.replace("↳", ""), screen)
            t.ok("and-home", "canchange%s/home" % home.dir in marked.replace("↳", ""), screen)
    finally:
        shutil.rmtree(roots)


@area("sudo-stopped")
def stopped(t):
    """Ctrl-Z at the prompt and at the password: the shell gets its terminal as it was, and `fg` finds the question again."""
    if os.geteuid() != 0 or not shutil.which("sudo") or not shutil.which("tmux"):
        return t.skip("all", "needs root to make a user, sudo and tmux")
    with person(t) as home:
        home.sock = home.run + "/second.sock"
        screen, p = Tmux(home, "/bin/sh"), None
        try:
            screen.line("clear; setpriv --reuid %d --regid %d --init-groups %s/ostler as sudo-proxy --socket %s" % (
                home.user.pw_uid, home.user.pw_gid, home.dir, home.sock))
            if not wait_for(lambda: os.path.exists(home.sock), LONG):
                raise Fail("the daemon does not come up: %s" % screen.screen())
            p = ask_as(home, line(["id", "-u"], privileged=True))
            screen.until("default=N)")
            screen.keys("C-z")
            screen.until("Stopped")
            sane, text = screen.sane("prompt")
            t.ok("ctrl-z-at-the-prompt-gives-the-terminal-back", sane, text)
            screen.line("clear; fg")
            screen.until("default=N)")
            t.ok("it-decides-nothing", p.poll() is None)
            if not wait_for(lambda: screen.keys("y") or wait_for(lambda: "password for" in screen.screen(), 5, 0.1), LONG, 0.1):
                raise Fail("sudo does not ask: %s" % screen.screen())
            screen.keys("-l", "half of it")
            screen.keys("C-z")
            screen.until("Stopped")
            sane, text = screen.sane("password")
            t.ok("ctrl-z-at-the-password-gives-the-terminal-back", sane, text)
            screen.line("clear; fg")
            screen.until("password for")
            screen.keys("-l", PASSWORD)
            screen.keys("Enter")
            a = answer_of(home, p)
            t.ok("fg-finds-the-question-again", a["status"] == "ok" and out(a) == b"0\n", (a, screen.screen()))
            screen.keys("C-c")
            t.ok("ctrl-c-still-ends-the-daemon", wait_for(lambda: not os.path.exists(home.sock), LONG), screen.screen())
            sane, text = screen.sane("end")
            t.ok("the-terminal-is-as-it-was-at-the-end", sane, text)
        finally:
            screen.close()
            if p and p.poll() is None:
                p.kill()
                p.communicate()
