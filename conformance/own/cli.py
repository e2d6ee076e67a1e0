"""The command line as a person uses it: what the README shows, exit codes, crashes of the daemon, terminals."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from kit import end, Fail
from lib import area, clean_env, pid_alive, wait_for


class Home:
    """A person's home folder with its own instance of ostler."""

    def __init__(self, t):
        self.program = t.ostler()
        self.dir = t.tmp()
        self.env = clean_env(self.dir)
        self.state = self.dir + "/.local/state/ostler"
        # Also when a check ends early nothing of it stays.
        t.daemons.append(self)

    def stop(self):
        if os.path.isdir(self.state):
            self("down", "--kill")

    def __call__(self, *args, stdin=b"", timeout=60):
        p = subprocess.run([self.program] + list(args), input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           env=self.env, cwd=self.dir, timeout=timeout)
        return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")

    def good(self, *args, **options):
        rc, o, e = self(*args, **options)
        if rc != 0:
            raise Fail("ostler %s: exit %d, %s%s" % (" ".join(args), rc, o[-300:], e[-300:]))
        return o

    def json(self, *args):
        return json.loads(self.good("--json", *args))

    def daemon_pid(self):
        m = re.search(r"pid (\d+)", "".join(self("up")[1:]))
        return int(m.group(1)) if m else 0

    def holds(self, text):
        """Files below the home that hold this text."""
        found = []
        for folder, _, names in os.walk(self.dir):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path) and text in open(path, "rb").read():
                    found.append(path)
        return found


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, home, *args):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(home.dir)
            os.execve(home.program, [home.program] + list(args), dict(home.env, TERM="xterm"))
        self.seen = b""

    def type(self, data):
        os.write(self.fd, data)

    def until(self, text, timeout=60):
        stop = time.monotonic() + timeout
        while text not in self.seen:
            left = stop - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise Fail("terminal did not show %r: %r" % (text, self.seen[-300:]))
            try:
                piece = os.read(self.fd, 65536)
            except OSError:
                piece = b""
            if not piece:
                raise Fail("terminal closed before %r: %r" % (text, self.seen[-300:]))
            self.seen += piece
        return self.seen

    def again(self, data, text):
        """Types it until this is shown: what is typed too soon finds things as they were, or is thrown away."""
        for _ in range(30):
            self.type(data)
            try:
                return self.until(text, 2)
            except Fail:
                continue
        return self.until(text)

    def wait(self, timeout=60):
        """The exit code; what is still said is read meanwhile."""
        stop = time.monotonic() + timeout
        while time.monotonic() < stop:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            # What was said last is still there when the program is gone.
            while select.select([self.fd], [], [], 0 if done else 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError:
                    break
            if done:
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise Fail("still on the terminal: %r" % self.seen[-300:])


def hosted(home, name):
    rows = home.json("ps")
    rows = rows.get("processes", rows) if isinstance(rows, dict) else rows
    return [r for r in rows if r.get("name") == name]


@area("cli-first-contact")
def first_contact(t):
    home = Home(t)
    rc, o, e = home("ps")
    t.ok("without-an-instance-exit-3", rc == 3 and "ostler up" in o + e, (rc, o, e))
    rc, o, e = home("status")
    t.eq("status-without-an-instance-exit-3", rc, 3)
    started = time.monotonic()
    rc, o, e = home("up")
    t.ok("up-exit-0", rc == 0, (rc, o, e))
    rc, o, e = home("status", "--connect")
    t.ok("every-door-is-named", "claustrum" in o and "native" in o, o)
    t.ok("up-is-quick", time.monotonic() - started < 10, time.monotonic() - started)
    rc, o, e = home("up")
    t.ok("up-again-says-already-running", rc == 0 and re.search(r"already running \(pid \d+\)", o + e), (rc, o, e))
    t.ok("status-exit-0", home("status")[0] == 0)
    t.ok("json-is-json", isinstance(home.json("status"), (dict, list)))
    rc, o, e = home("frobnicate")
    t.ok("unknown-verb-exit-2", rc == 2 and e, (rc, o, e))
    rc, o, e = home("statsu")
    t.ok("near-miss-is-suggested", rc == 2 and "status" in e, e)
    for verb in (["logs", "nope"], ["kill", "nope"], ["attach", "nope"], ["forget", "nope"]):
        rc, o, e = home(*verb)
        t.ok("%s-of-nothing-exit-4" % verb[0], rc == 4 and "nope" in e, (rc, o, e))
    rc, o, e = home("doctor")
    t.ok("doctor-speaks-in-lines", rc in (0, 1) and len(o.splitlines()) >= 4, (rc, o, e))
    t.ok("metrics-answers", home("metrics")[0] == 0)
    rc, o, e = home("down", "--kill")
    t.ok("down-exit-0", rc == 0, (rc, o, e))
    t.eq("after-down-exit-3", home("status")[0], 3)
    rc, o, e = home("down")
    t.ok("down-when-stopped-says-that-there-is-nothing-to-stop", rc == 3 and "nothing to stop" in e and "ostler up" not in e, (rc, o, e))
    home.env["OSTLER_STATE"] = "./here"
    rc, o, e = home("up")
    t.ok("a-relative-folder-is-meant-from-where-one-is", rc == 0 and home("status")[0] == 0 and home("down")[0] == 0, (rc, o, e))


@area("cli-processes")
def processes(t):
    home = Home(t)
    home.good("up")
    try:
        rc, o, e = home("run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
        t.eq("run-passes-output-and-code-on", (rc, o, "err" in e), (7, "out\n", True))
        rc, o, e = home("run", "--", "cat", stdin=b"through\n")
        t.eq("run-passes-stdin-on", (rc, o), (0, "through\n"))
        rc, o, e = home("run", "--", "no-such-command-zz")
        t.ok("run-of-nothing-says-so", rc != 0 and "no-such-command-zz" in e, (rc, o, e))
        home.good("run", "-d", "--name", "loop", "--", "sh", "-c", "i=0; while :; do echo line-$i; i=$((i+1)); sleep 0.05; done")
        t.eq("run-detached-is-listed", len(hosted(home, "loop")), 1)
        t.ok("ps-shows-it", "loop" in home.good("ps"))
        wait_for(lambda: "line-3" in home.good("logs", "loop"), 10)
        t.ok("logs-from-the-start", home.good("logs", "loop").startswith("line-0\nline-1\n"))
        whole = home.good("logs", "loop")
        later = home.good("logs", "loop", "--from", "3")
        t.ok("logs-from-a-number", not later.startswith("line-0\n") and later.splitlines()[0] in whole, later[:60])
        t.ok("logs-with-time", re.match(r".*\d\d:\d\d.*line-0", home.good("logs", "loop", "--time").splitlines()[0]))
        p = subprocess.Popen([home.program, "logs", "-f", "loop"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=home.env)
        for _ in range(5):
            p.stdout.readline()
        p.send_signal(signal.SIGINT)
        o, e = p.communicate(timeout=15)
        t.ok("ctrl-c-leaves-and-says-how-to-come-back", b"ostler" in e, (p.returncode, e))
        t.eq("ctrl-c-leaves-the-process", len(hosted(home, "loop")), 1)
        rc, o, e = home("kill", "loop", "--wait")
        t.ok("kill-waits", rc == 0, (rc, o, e))
        whole = home.good("logs", "loop").split()
        t.eq("logs-stay-after-the-end", whole, ["line-%d" % i for i in range(len(whole))])
        home.good("run", "--name", "letter", "--", "echo", "dear-diary-4711")
        t.ok("journal-holds-what-was-said", home.holds(b"dear-diary-4711"))
        t.eq("forget-exit-0", home("forget", "letter")[0], 0)
        t.eq("forget-deletes-now", home.holds(b"dear-diary-4711"), [])
        t.eq("forgotten-is-not-found", home("logs", "letter")[0], 4)
        home.good("run", "-d", "--private", "--name", "hush", "--", "sh", "-c", "echo secret-4711; sleep 300")
        t.ok("private-output-is-there", wait_for(lambda: "secret-4711" in home("logs", "hush")[1], 10))
        # the command itself is no secret, what it said is
        t.eq("private-output-is-in-no-journal", [p for p in home.holds(b"secret-4711\n")], [])
        rc, o, e = home("forget", "hush")
        t.ok("a-running-process-is-not-forgotten", rc == 5, (rc, o, e))
        t.eq("prune-dry-run-exit-0", home("prune", "--dry-run")[0], 0)
        home.good("kill", "hush", "--wait", "--signal", "KILL")
    finally:
        home("down", "--kill")


@area("cli-crash")
def crash(t):
    home = Home(t)
    home.good("up")
    try:
        home.good("run", "-d", "--name", "ticks", "--", "sh", "-c", "i=0; while :; do echo t-$i; i=$((i+1)); sleep 0.02; done")
        pid = hosted(home, "ticks")[0]["pid"]
        follow = subprocess.Popen([home.program, "logs", "-f", "ticks"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=home.env)
        first = home.daemon_pid()
        os.kill(first, signal.SIGKILL)
        t.ok("keeper-restarts-a-killed-daemon", wait_for(lambda: home("status")[0] == 0 and home.daemon_pid() != first, 30, 0.2))
        t.eq("process-has-the-same-pid", [p["pid"] for p in hosted(home, "ticks")], [pid])
        second = home.daemon_pid()
        rc, o, e = home("restart")
        t.ok("restart-names-the-pid-it-replaces", rc == 0 and str(second) in o + e, (rc, o, e))
        t.eq("restart-keeps-the-process", [p["pid"] for p in hosted(home, "ticks")], [pid])
        follow.terminate()
        follow.communicate(timeout=10)
        home.good("kill", "ticks", "--wait")
        lines = home.good("logs", "ticks").split()
        t.eq("nothing-lost-or-doubled", lines, ["t-%d" % i for i in range(len(lines))])
        home.good("run", "-d", "--name", "stays", "--", "sleep", "300")
        pid = hosted(home, "stays")[0]["pid"]
        rc, o, e = home("down", "--keep")
        t.ok("down-keep-exit-0", rc == 0, (rc, o, e))
        t.ok("down-keep-keeps", pid_alive(pid))
        home.good("up")
        t.eq("up-finds-it-again", [p["pid"] for p in hosted(home, "stays")], [pid])
        home.good("down", "--kill")
        t.ok("down-kill-ends-it", wait_for(lambda: not pid_alive(pid), 10))
    finally:
        home("down", "--kill")


@area("cli-terminal")
def terminal(t):
    home = Home(t)
    home.good("up")
    try:
        term = Terminal(home, "run", "-t", "--name", "sh", "--", "sh")
        term.type(b"tty && echo is-a-ter'minal'; stty size\n")
        term.until(b"is-a-terminal")
        t.ok("run-t-is-a-terminal", b"/dev/pts/" in term.seen, term.seen)
        term.type(b"\x1d")
        rc = term.wait()
        t.ok("ctrl-]-detaches", rc == 0 and hosted(home, "sh"), (rc, term.seen[-200:]))
        t.ok("detaching-says-how-to-come-back", b"attach" in term.seen, term.seen[-200:])
        again = Terminal(home, "attach", "sh")
        again.until(b"is-a-terminal")
        t.ok("attach-repaints", True)
        fcntl.ioctl(again.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 41, 133, 0, 0))
        os.kill(again.pid, signal.SIGWINCH)
        again.again(b"stty size\n", b"41 133")
        t.ok("size-follows-the-viewer", True)
        again.type(b"\x03")
        # an interrupt throws away what was typed and not yet read
        again.again(b"echo still-'here'\n", b"still-here")
        t.ok("every-key-reaches-the-child", True)
        # the daemon dies under an attached terminal: the process does not notice
        pid = hosted(home, "sh")[0]["pid"]
        os.kill(home.daemon_pid(), signal.SIGKILL)
        t.ok("terminal-process-survives-a-crash", wait_for(lambda: home("status")[0] == 0, 30, 0.2) and pid_alive(pid))
        end(again.pid)
        third = Terminal(home, "attach", "sh")
        third.type(b"echo after-'crash'\n")
        third.until(b"after-crash")
        t.ok("attach-after-a-crash", True)
        third.type(b"exit 5\n")
        t.eq("attach-ends-with-the-child's-code", third.wait(), 5)
        # a program that draws whole screens must draw again over what we have said meanwhile
        drawn = Terminal(home, "run", "-t", "--", "sh", "-c", "trap 'echo drawn-$(stty size)' WINCH; echo rea''dy; while :; do sleep 0.1; done")
        fcntl.ioctl(drawn.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
        drawn.until(b"ready", 30)
        os.kill(home.daemon_pid(), signal.SIGKILL)
        drawn.until(b"reconnected", 60)
        drawn.seen = drawn.seen.split(b"reconnected")[1]
        drawn.until(b"drawn-30 90", 60)
        t.ok("after-a-crash-a-full-screen-program-draws-again", True)
        drawn.type(b"\x1d")
        t.eq("and-is-left-as-ever", drawn.wait(), 0)
    finally:
        home("down", "--kill")


@area("cli-words")
def words(t):
    """What is said when something is not as one thought: it names the thing and the next step."""
    home = Home(t)
    home.env["XDG_RUNTIME_DIR"] = home.dir
    home.good("up")
    try:
        def told(case, args, code, *parts, never=()):
            rc, o, e = home(*args)
            t.ok(case, rc == code and all(p in o + e for p in parts) and not any(n in o + e for n in never), (rc, o, e))
        told("up-drop-in-is-no-drop-in-later", ["up", "--drop-in"], 5, "without --drop-in", "ostler restart --drop-in")
        told("a-link-that-can-not-be-made-is-named", ["link", "/proc"], 1, "cannot create /proc/cdev: ", "ostler link ~/.local/bin")
        door = next(d["address"] for d in home.json("status")[0]["doors"] if d["name"] == "sudo-proxy")
        rc, o, e = home("as", "sudo-request", "true")
        t.eq("sudo-request-says-first-what-scripts-know", (rc, e.splitlines()[0]),
             (1, "error: could not connect to %s/sudo-proxy.sock: No such file or directory (os error 2)" % home.dir))
        t.ok("and-then-where-the-door-is", door in e.splitlines()[-1] and "--socket" in e, e)
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "status", "arguments": {"host": "localhost"}}}
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                 "clientInfo": {"name": "t", "version": "0"}}}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        mcp = subprocess.Popen([home.program, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=home.env)
        for message in (hello, ready, call):
            mcp.stdin.write(json.dumps(message).encode() + b"\n")
            mcp.stdin.flush()
        mcp.stdout.readline()
        answer = mcp.stdout.readline().decode()
        t.ok("mcp-finds-the-door-of-the-daemon-that-runs", "localhost: " in answer and "not running" not in answer, answer)
        mcp.stdin.close()
        mcp.wait(30)
        home.good("new", "echo", "--name", "talk")
        told("attach-of-a-session-says-what-it-is", ["attach", "talk"], 2, "is a session", "ostler watch")
        for verb in ("logs", "kill"):
            told("%s-of-a-session-says-what-it-is" % verb, [verb, "talk"], 4, "`talk` is a session", "ostler watch talk")
        home.good("run", "-d", "--name", "job", "--", "sleep", "300")
        told("watch-of-a-process-says-what-it-is", ["watch", "job"], 4, "`job` is a process", "ostler logs job")
        told("a-folder-that-is-not-there-is-named", ["run", "--cwd", "/nonexist", "--", "/bin/ls"], 1, "/nonexist")
        told("a-name-of-blanks-is-none", ["run", "--name", " ", "--", "true"], 2, "not only blanks")
        told("one-rule-for-names", ["run", "--name", "x" * 200, "--", "true"], 2, "1 to 128 bytes")
        told("a-document-that-can-not-be-written-is-named", ["export", "talk", "-o", "/nonexist/x.md"], 1, "/nonexist/x.md:", never=[".part"])
        told("a-picture-that-is-not-there", ["send", "talk", "x", "--image", "/nonexist"], 4, "No such file")
        told("a-folder-is-no-file", ["send", "talk", "x", "--file", "/etc"], 2, "is a folder")
        told("nothing-is-no-prompt", ["new", "echo", "-m", "  "], 2, "the prompt is empty")
        t.eq("and-makes-no-session", len(home.json("sessions", "--all")), 1)
        told("a-variable-that-is-not-set-stays-so", ["run", "-e", "NOT_SET_HERE", "--", "sh", "-c", "echo ${NOT_SET_HERE-unset}"], 0, "unset", "NOT_SET_HERE: not set here")
        told("a-folder-to-make-is-safe-to-paste", ["new", "echo", "/no pe; x"], 4, "mkdir -p '/no pe; x'")
        told("conversations-that-do-not-match-are-said-so", ["history", "--agent", "foo"], 0, "no conversations with foo", never=["start one"])
        told("a-folder-without-conversations-is-named", ["history", "--in", "/nope"], 0, "there is no folder /nope", never=["start one"])
        told("a-number-that-is-none", ["logs", "job", "--tail", "x"], 2, "ostler: --tail takes a number, not 'x'", never=["error:", "invalid digit"])
        told("logs-of-nothing-names-the-flag-too", ["logs"], 2, "--daemon")
        told("a-turn-that-never-was", ["diff", "talk", "--turn", "9"], 4, "no turn 9", "no prompt yet")
        told("all-that-can-be-set-is-named", ["set", "talk"], 2, "--setup")
        told("a-position-that-is-none", ["events", "--after", "zzz"], 2, "unchanged", never=["as it came"])
        watcher = subprocess.Popen([home.program, "watch", "talk", "--from", "99999"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=home.env)
        line = watcher.stderr.readline().decode()
        t.ok("watching-from-what-is-not-there-yet", "99999 does not exist yet" in line, line)
        watcher.terminate()
        watcher.communicate(timeout=30)
        status = home.json("status")[0]
        t.eq("status-counts-sessions-and-requests", (status["sessions"], status["sessions_running"], status["approvals_pending"]), (1, 0, 0))
        t.ok("and-so-do-metrics", 'ostler_sessions{status="idle"} 1' in home.good("metrics") and "ostler_approvals_pending 0" in home.good("metrics"))
        narrow = Terminal(home, "status", "--connect")
        narrow.wait(30)
        t.ok("how-to-connect-is-never-cut", all(d["connect"].encode() in narrow.seen for d in status["doors"]), narrow.seen)
        shown = home.good("status")
        t.ok("sessions-are-in-the-status", "sessions   1 open" in shown and "--connect" in shown, shown)
        rc, o, e = home("rules", "add", "--", "true")
        t.ok("rules-are-made-at-a-terminal", rc == 5 and "ostler rules" in e and "ostler approvals" not in e, (rc, o, e))
        home.good("down", "--keep")
        told("what-runs-without-a-daemon", ["ps"], 3, "still running", "ostler up")
        told("uninstall-says-the-way", ["uninstall"], 5, "first: ostler down --kill")
        home.good("up")
    finally:
        home("down", "--kill")


@area("cli-configuration")
def configuration(t):
    home = Home(t)
    path = home.good("config", "path").strip().splitlines()[-1]
    home.good("config", "init")
    file = next((w for w in path.split() if w.endswith(".toml")), path)
    t.ok("init-writes-the-file-that-path-names", os.path.exists(file), path)
    t.eq("check-of-the-template", home("config", "check")[0], 0)
    t.ok("show-names-origins", "default" in home.good("config", "show"))
    with open(file, "w") as f:
        f.write("[journal]\nlive_maxx = \"1 GiB\"\n")
    rc, o, e = home("config", "check")
    t.ok("unknown-key-is-an-error-with-a-suggestion", rc != 0 and "live_maxx" in o + e and "live_max" in (o + e).replace("live_maxx", ""), (rc, o, e))
    links = home.dir + "/bin"
    os.mkdir(links)
    home.good("link", links)
    t.ok("link-makes-the-names", os.path.realpath(links + "/claustrum") == home.program, os.listdir(links))
    before = sorted(home.holds(b""))
    rc, o, e = home("uninstall", "--purge", "--dry-run")
    t.ok("uninstall-dry-run-changes-nothing", rc == 0 and sorted(home.holds(b"")) == before, (rc, o, e))


@area("cli-killed-only-just")
def killed_only_just(t):
    """Whoever asks in the moment after a crash is answered by the daemon that the keeper brings back, at most five times a minute."""
    answers = []
    for verbs in ((["ps"], ["status"], ["run", "--", "true"], ["ps"], ["ps"]), (["ps"], ["new", "echo", "/"], ["up"], ["ps"], ["ps"]), *[[["ps"]] * 5] * 2):
        home = Home(t)
        home.good("up")
        home.good("run", "-d", "--name", "kept", "--", "sleep", "1000")
        for verb in verbs:
            pid = home.json("status")[0]["pid"]
            os.kill(pid, signal.SIGKILL)
            rc, o, e = home(*verb)
            if rc or home.json("status")[0]["pid"] == pid or not hosted(home, "kept"):
                answers.append((verb, rc, o, e))
    t.eq("twenty-kills-and-every-command-is-answered", answers, [])
    # The last one has had its five.
    os.kill(home.json("status")[0]["pid"], signal.SIGKILL)
    started = time.monotonic()
    rc, o, e = home("ps")
    took = time.monotonic() - started
    t.ok("a-keeper-that-gave-up-is-not-waited-for", rc == 3 and "still running" in e and "ostler up" in e and took < 5, (rc, o, e, took))
    t.ok("and-up-goes-back-to-it", home("up")[0] == 0 and len(hosted(home, "kept")) == 1, home("ps"))
    home.stop()
