"""What a person sees of a request, and which key counts for it: at the prompt of sudo-proxy, in a real terminal."""
import fcntl
import os
import re
import select
import struct
import termios
import time

from lib import Fail, area, wait_for
from sudo_kit import Home, LONG, PROMPT, ours
from sudo_proxy import Client, line, out, serve

MORE = re.compile(r"more: space --")


def sized(t, *args, rows=24, cols=80, **env):
    """A daemon on a terminal of the usual size."""
    home = serve(t, *args, **env)
    fcntl.ioctl(home.pty.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
    return home


def asked(home, mark):
    shown = home.pty.wait_for(PROMPT, mark, LONG)
    if shown is None:
        raise Fail("no question: %s" % home.pty.text_since(mark)[-600:])
    return shown


def pending(c, seconds=1.0):
    """Nobody has answered it yet."""
    return not select.select([c.s], [], [], seconds)[0]


def keyed(home, c, key):
    """A key until it is taken: one that comes as soon as the question does not count."""
    if not wait_for(lambda: home.pty.key(key) or not pending(c, 0.5), LONG, 0.1):
        raise Fail("no key is taken: %s" % home.pty.text_since(0)[-600:])


@area("sudo-drawn")
def drawn(t):
    home = sized(t)
    try:
        lines = ["C", "━━━ Privilege Request ━━━", "From:    alpha @ laptop", "Command: df -h", "Execute as root? [y/N] (60s timeout, default=N) "]
        mark = home.pty.mark()
        c = Client(home, line(["touch", home.dir + "/false"], env={"LANG": "".join(text.ljust(80) for text in lines)}))
        # The false one has the same words; the true one begins a line.
        shown = home.pty.wait_for(re.compile(r"\nExecute\? \[y/N\]"), mark, LONG) or home.pty.text_since(mark)
        starts = [text for text in shown.split("\n") if text.startswith(("Command: ", "━━━ ", "Execute"))]
        t.ok("a-padded-variable-draws-no-second-question", len(starts) == 3 and "df" not in "".join(starts) and all(len(text) < 80 for text in shown.split("\n")), shown)
        home.answer("n", mark)
        c.answer()

        mark = home.pty.mark()
        c = Client(home, line(["printf", "%s|", "/srv/old\\", "/etc"]))
        shown = home.answer("y", mark)
        t.ok("two-arguments-do-not-look-like-one-path", r"printf '%s|' '/srv/old\' /etc" in shown and out(c.answer()) == b"/srv/old\\|/etc|", shown)

        mark = home.pty.mark()
        hidden = "a\u00a0\u2003\u2800\u3000\ufe0f\ue000b"
        c = Client(home, line(["printf", "%s", hidden], reason="r" + hidden, env={"TZ": hidden}))
        shown = home.answer("y", mark)
        told = r"$'a\u00a0\u2003\u2800\u3000\ufe0f\ue000b'"
        t.ok("what-is-not-seen-is-written-out", shown.count(told[3:]) == 3 and told in shown and not any(ch in shown for ch in hidden[1:-1]), shown)
        t.eq("and-is-what-runs", out(c.answer()), hidden.encode())

        mark = home.pty.mark()
        gate = home.dir + "/paged"
        stages = [["touch", gate]] + [["cat"]] * 127
        c = Client(home, line(*stages))
        if home.pty.wait_for(MORE, mark, LONG) is None:
            raise Fail("no page: %s" % home.pty.text_since(mark)[-600:])
        # What came of the question before stands above.
        first = home.pty.text_since(mark).split("━━━ Privilege", 1)[-1]
        t.ok("many-stages-do-not-push-the-command-away", "Command: touch" in first and not PROMPT.search(first) and first.count("\n") < 24, first)
        home.pty.wait_raw(5)
        home.pty.key("y")
        t.ok("no-key-counts-before-the-last-page", pending(c) and not os.path.exists(gate), home.pty.text_since(mark))
        turned = wait_for(lambda: PROMPT.search(home.pty.text_since(mark)) or home.pty.key(" "), LONG, 0.2)
        t.ok("the-last-page-asks", turned, home.pty.text_since(mark)[-600:])
        keyed(home, c, "y")
        a = c.answer()
        t.ok("and-is-answered", a["status"] == "ok" and os.path.exists(gate), a)

        mark = home.pty.mark()
        c = Client(home, line(["echo", "w" * 100]))
        asked(home, mark)
        again = home.pty.mark()
        fcntl.ioctl(home.pty.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        shown = asked(home, again)
        t.ok("another-size-draws-it-anew", all(len(text) < 60 for text in shown.split("\n")) and "    ↳ www" in shown, shown)
        keyed(home, c, "n")
        t.eq("and-it-is-answered-there", c.answer()["status"], "denied")
    finally:
        home.close()


@area("sudo-drawn-alone")
def alone(t):
    """Nothing stands below the question."""
    home = sized(t, "-v", "--unattended-eligible")
    try:
        mark = home.pty.mark()
        c = Client(home, line(["true"]))
        asked(home, mark)
        a = Client(home, line(action="ping", session=("x" * 80 + "Execute? [y/N] "))).answer()
        t.ok("what-the-log-says-comes-later", a["message"] == "pong" and home.pty.text_since(mark).endswith("default=N) "), home.pty.text_since(mark))
        home.pty.wait_raw(5)
        home.pty.key("n")
        c.answer()
        t.ok("and-does-come", home.pty.wait_for(re.compile(r"ping from 'x+"), mark, LONG), home.pty.text_since(mark))
    finally:
        home.close()


@area("sudo-keys")
def keys(t):
    """A key answers the question that was on the screen when it was typed, or none."""
    for round in range(3):
        home = sized(t)
        try:
            mark, witness = home.pty.mark(), home.dir + "/second"
            first = Client(home, line(["echo", "first"]))
            asked(home, mark)
            second = Client(home, line(["touch", witness]))
            again = home.pty.mark()
            first.close()
            if home.pty.wait_for(re.compile(r"second[\s\S]*\[y/N\]"), again, LONG) is None:
                raise Fail("no second question: %s" % home.pty.text_since(mark))
            home.pty.key("y")
            t.ok("a-question-that-takes-anothers-place-stands-first-%d" % (round + 1), pending(second) and not os.path.exists(witness), home.pty.text_since(again))
            home.pty.key("y")
            t.ok("and-then-a-key-counts-%d" % (round + 1), second.answer()["status"] == "ok" and os.path.exists(witness), home.pty.text_since(again))
        finally:
            home.close()
    counted = []
    for _ in range(5):
        home = sized(t)
        try:
            mark = home.pty.mark()
            c = Client(home, line(["true"]))
            asked(home, mark)
            home.pty.key("y")
            counted.append(not pending(c, 10) and c.answer()["status"])
        finally:
            home.close()
    t.eq("a-key-that-is-typed-when-it-may-be-answered-counts", counted, ["ok"] * 5)


@area("sudo-letter")
def letter(t):
    """Small things of the document."""
    home = sized(t, SUDO_PROXY_EXEC_TIMEOUT_SECS="0")
    try:
        mark = home.pty.mark()
        c = Client(home, line(["sleep", "5"]))
        home.answer("y", mark)
        t.eq("a-limit-of-nothing-is-over-at-once", c.answer().get("message"), "command timed out after 0s")
        mark = home.pty.mark()
        a = Client(home, line(["true"], env={"LC_A B": "x"})).answer()
        t.ok("a-name-that-cannot-be-is-refused-unasked", "LC_A B" in a.get("message", "") and not PROMPT.search(home.pty.text_since(mark)), a)

        held = [Client(home) for _ in range(64)]
        told = []
        for size in [10, 1000, 100_000, 500_000] * 5:
            try:
                c = Client(home)
                time.sleep(0.02)
                c.s.sendall(line(["echo", "x" * size]))
                told.append(c.answer().get("message"))
            except OSError as error:
                told.append(repr(error))
        t.eq("the-65th-is-told-that-there-is-no-place", told, ["server busy: too many in-flight requests"] * 20)
        for c in held:
            c.close()
    finally:
        home.close()
    import subprocess
    home = Home(t)
    with open(home.dir + "/file", "w") as f:
        f.write("precious")
    call = lambda *args, **more: subprocess.run(ours(t)("sudo-proxy", *args), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                                cwd="/", timeout=LONG, **dict({"env": home.env}, **more))
    for name in ("file", "cfg-dir"):
        os.makedirs(home.dir + "/cfg-dir", exist_ok=True)
        p = call("--socket", home.dir + "/" + name)
        t.ok("no-socket-is-said-to-be-none-" + name, p.returncode == 1 and b"/%s is not a socket" % name.encode() in p.stderr, p.stderr)
    bare = {name: value for name, value in home.env.items() if name != "XDG_RUNTIME_DIR"}
    who = {} if not os.path.exists("/run/user/%d" % os.getuid()) else {"user": 64999}
    p = call(env=bare, **who)
    uid = who.get("user", os.getuid())
    t.ok("the-path-that-is-missing-is-named", p.returncode == 1 and b"/run/user" in p.stderr and b"No such file" in p.stderr, (uid, p.stderr))

    home = serve(t)
    try:
        mark = home.pty.mark()
        c = Client(home, line(["echo", "audited"]))
        home.answer("y", mark)
        c.answer()
    finally:
        home.close()
    p = subprocess.run([t.ostler(), "audit"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=home.env, timeout=LONG)
    t.ok("the-record-of-one-that-ended-is-read", p.returncode == 0 and b"echo audited" in p.stdout and b"decided" in p.stdout, (p.stdout, p.stderr))


@area("sudo-job-control")
def job_control(t):
    """Ctrl-Z, bg and fg at the question, and Ctrl-\\."""
    import shutil
    if not shutil.which("tmux"):
        return t.skip("all", "needs tmux")
    from approvals_kit import Tmux
    home = Home(t)
    home.env["SHELL"] = "/bin/bash"
    screen = Tmux(home, "/bin/sh")
    try:
        screen.line("clear; %s as sudo-proxy" % t.ostler())
        if not wait_for(lambda: os.path.exists(home.sock), LONG):
            raise Fail("the daemon does not come up: %s" % screen.screen())
        c = Client(home, line(["echo", "after all"]))
        screen.until("default=N)")
        screen.keys("C-z")
        screen.until("Stopped")
        screen.line("clear; bg")
        screen.line("echo here''after")
        screen.until("hereafter")
        screen.line("jobs; echo listed''now")
        text = screen.until("listednow")
        t.ok("in-the-background-it-goes-on", "Running" in text and "Stopped" not in text, text)
        a = Client(home, line(action="ping")).answer()
        t.eq("and-answers-there", a["message"], "pong")
        sane, text = screen.sane("background")
        t.ok("the-terminal-is-the-shells", sane, text)
        screen.line("clear; fg")
        screen.until("default=N)")
        if not wait_for(lambda: screen.keys("y") or not pending(c), LONG, 0.1):
            raise Fail("no key is taken: %s" % screen.screen())
        t.eq("fg-asks-again", out(c.answer()), b"after all\n")
        time.sleep(2.1)
        c = Client(home, line(["true"]))
        screen.until("Command: true", "default=N)")
        time.sleep(0.5)
        screen.line("")
        c.answer()
        time.sleep(2.1)
        screen("clear-history")
        c = Client(home, line(["echo", "quit"]))
        screen.until("Command: echo quit")
        time.sleep(0.5)
        screen.keys("C-\\")
        t.ok("ctrl-backslash-ends-it", wait_for(lambda: not os.path.exists(home.sock), LONG), screen.screen())
        sane, text = screen.sane("quit")
        t.ok("and-gives-the-terminal-back", sane, text)
    finally:
        screen.close()
