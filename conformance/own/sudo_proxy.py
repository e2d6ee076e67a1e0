"""The sudo-proxy door beyond ../sudo-proxy: life of the daemon, the prompt, grants, crashes, clients that leave, memory."""
import base64
import json
import os
import re
import select
import signal
import socket
import subprocess
import threading
import time
import uuid

from kit import anon_kib
from lib import Fail, area, wait_for
from sudo_kit import Home, LONG, PROMPT, ours

MIB = 1 << 20


def iso(offset=0.0):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + offset))


def line(*stages, **members):
    r = {"id": str(uuid.uuid4()), "session": "own", "time": iso(), "pipeline": [list(s) for s in stages], "privileged": False}
    r.update(members)
    return json.dumps(r).encode() + b"\n"


class Client:
    """One connection and what comes back on it."""

    def __init__(self, home, payload=b"", sock=None):
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.s.settimeout(LONG)
        # A socket is seen a moment before anybody listens at it.
        if not wait_for(lambda: self.s.connect_ex(sock or home.sock) == 0, LONG):
            raise Fail("nobody listens at %s" % (sock or home.sock))
        self.s.sendall(payload)

    def answer(self):
        data = bytearray()
        while True:
            piece = self.s.recv(1 << 18)
            if not piece:
                break
            data += piece
        self.s.close()
        return json.loads(data) if data else None

    def close(self):
        self.s.close()


def decided(home, payload, key="y"):
    """A request that a person answers."""
    mark = home.pty.mark()
    c = Client(home, payload)
    shown = home.answer(key, mark)
    return c.answer(), shown


def out(answer):
    return base64.b64decode((answer or {}).get("stdout") or "")


def serve(t, *args, home=None, **env):
    home = home or Home(t)
    home.env.update(env)
    home.serve(ours(t), *args)
    return home


def quiet(home, mark):
    return not PROMPT.search(home.pty.text_since(mark))


@area("sudo-connection")
def connection(t):
    home = serve(t)
    try:
        c = Client(home)
        t.ok("silent-until-asked", not select.select([c.s], [], [], 0.5)[0], "bytes or an end before anything was asked")
        c.s.sendall(line(action="ping"))
        a = c.answer()
        t.eq("ping", (a["status"], a["message"], a["stdout"]), ("ok", "pong", ""))

        a = Client(home, b"\r\n").answer()
        t.ok("a-line-that-is-not-empty-is-answered", a and a["message"].startswith("invalid JSON: EOF while parsing a value"), a)

        mark = home.pty.mark()
        c = Client(home, line(["echo", "half"]))
        c.s.shutdown(socket.SHUT_WR)
        home.answer("y", mark)
        t.eq("half-closed-client-is-answered", out(c.answer()), b"half\n")

        mark, witness = home.pty.mark(), home.dir + "/gone"
        c = Client(home, line(["touch", witness]))
        if home.pty.wait_for(PROMPT, mark, LONG) is None:
            raise Fail("no question")
        c.close()
        t.ok("hang-up-withdraws-the-question", home.pty.wait_for(re.compile("Withdrawn"), mark, LONG), home.pty.text_since(mark))
        home.pty.key("y")
        a, _ = decided(home, line(["true"]), "n")
        t.ok("a-key-after-that-decides-nothing", a["status"] == "denied" and not os.path.exists(witness), (a, os.path.exists(witness)))

        same = line(["echo", "once"])
        mark, answers = home.pty.mark(), []
        threads = [threading.Thread(target=lambda: answers.append(Client(home, same).answer())) for _ in range(6)]
        for thread in threads:
            thread.start()
        home.answer("y", mark)
        for thread in threads:
            thread.join(LONG)
        t.eq("of-racing-requests-with-one-id-one-runs", sorted(a["status"] for a in answers), ["error"] * 5 + ["ok"])

        for case, moment in [
            ("fractional-seconds", time.strftime("%Y-%m-%dT%H:%M:%S.250Z", time.gmtime())),
            ("true-offset", time.strftime("%Y-%m-%dT%H:%M:%S+09:00", time.gmtime(time.time() + 9 * 3600))),
        ]:
            a, _ = decided(home, line(["true"], time=moment))
            t.eq(case + "-accepted", a["status"], "ok")
        a = Client(home, line(["true"], time=time.strftime("%Y-%m-%dT%H:%M:%S+09:00", time.gmtime()))).answer()
        t.ok("same-digits-under-another-offset-are-old", a["message"].startswith("request too old: "), a)
        a = Client(home, line(["true"], time=iso(120))).answer()
        t.ok("far-future-refused-with-its-distance", "in the future (max 60s)" in a["message"], a)
    finally:
        home.close()


@area("sudo-answers")
def answers(t):
    home = serve(t, SUDO_PROXY_EXEC_TIMEOUT_SECS="2")
    try:
        for case, stages, words in [("command", (["sleep", "60"],), "command timed out after 2s"),
                                    ("pipeline", (["sleep", "60"], ["cat"]), "pipeline timed out after 2s")]:
            a, _ = decided(home, line(*stages))
            t.eq("limit-of-a-" + case, (a["status"], a.get("message")), ("error", words))
    finally:
        home.close()
    home = serve(t)
    try:
        a, shown = decided(home, line(["echo", "a b"], ["cat"]))
        t.ok("every-stage-shows-its-file", re.search(r"Resolves: \S*/echo", shown) and re.search(r"Resolves: \[1\] \S*/cat", shown), shown)
        t.ok("the-system's-word-beside-the-claims", "Peer:    uid %d, pid %d" % (os.getuid(), os.getpid()) in shown, shown)
        a, shown = decided(home, line(["printf", "%s", "x\ty"]))
        t.ok("a-tab-is-seen", r"printf %s $'x\ty'" in shown and out(a) == b"x\ty", shown)
        a, _ = decided(home, line(["printf", "%s", "z" * 20000]))
        t.eq("too-long-to-be-shown-is-not-approved", a["status"], "denied")
        stages = [["true"]] * 129
        a = Client(home, line(*stages)).answer()
        t.eq("a-pipeline-has-a-greatest-length", a.get("message"), "pipeline has 129 stages (max 128)")
    finally:
        home.close()


@area("sudo-memory")
def memory(t):
    """Answers of 16 MiB each to readers that take their time: what the daemon holds does not grow with them."""
    home = serve(t)
    try:
        decided(home, line(["head", "-c", str(16 * MIB), "/dev/zero"]))
        before, clients, most = anon_kib(home.pty.pid), [], 0
        for _ in range(4):
            mark = home.pty.mark()
            clients.append(Client(home, line(["head", "-c", str(16 * MIB), "/dev/zero"])))
            home.answer("y", mark)
        if not wait_for(lambda: all(select.select([c.s], [], [], 0)[0] for c in clients), LONG):
            raise Fail("no answer")
        for c in clients:
            for _ in range(8):
                c.s.recv(4096)
                most = max(most, anon_kib(home.pty.pid))
        sizes = [len(c.s.recv(1)) and len(read_all(c)) for c in clients]
        t.ok("four-large-answers-cost-less-than-one", most - before < 16 * 1024, "%d KiB more with four answers of 16 MiB on their way" % (most - before))
        t.ok("and-arrive-whole", all(size > 22 * MIB * 0.95 for size in sizes), sizes)
    finally:
        home.close()


def read_all(c):
    data = bytearray()
    while True:
        piece = c.s.recv(1 << 18)
        if not piece:
            return data
        data += piece


@area("sudo-ending")
def ending(t):
    for name in ("INT", "TERM", "HUP"):
        number = getattr(signal, "SIG" + name)
        home = serve(t)
        mark = home.pty.mark()
        c = Client(home, line(["true"]))
        home.pty.wait_for(PROMPT, mark, LONG)
        os.kill(home.pty.pid, number)
        t.eq("dies-of-SIG" + name, home.pty.wait(LONG), -number)
        t.ok("SIG%s-removes-the-socket" % name, not os.path.exists(home.sock), "still there")
        t.eq("SIG%s-ends-pending-clients" % name, c.answer(), None)
        home.close()
    home = serve(t)
    mark = home.pty.mark()
    c = Client(home, line(["true"]))
    home.pty.wait_for(PROMPT, mark, LONG)
    home.pty.wait_raw(5)
    home.pty.key("\x03")
    t.eq("ctrl-c-at-the-prompt", (home.pty.wait(LONG), c.answer(), os.path.exists(home.sock)), (-signal.SIGINT, None, False))
    home.close()
    home = serve(t)
    mark = home.pty.mark()
    c = Client(home, line(["true"]))
    home.pty.wait_for(PROMPT, mark, LONG)
    a = Client(home, line(action="stop", session="stopper")).answer()
    t.eq("stop-is-answered-first", (a["status"], a["stdout"]), ("ok", ""))
    t.eq("stop-ends-with-0-and-pending-clients-with-it", (home.pty.wait(LONG), c.answer()), (0, None))
    t.ok("stop-says-who", home.pty.wait_for(re.compile("■ sudo-proxy stopped by stopper"), mark, LONG), home.pty.text_since(mark))
    home.close()


@area("sudo-command-line")
def command_line(t):
    home = Home(t)

    def call(*args):
        p = subprocess.run(ours(t)("sudo-proxy", *args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           env=home.env, cwd=home.dir, timeout=LONG)
        return p.returncode, p.stdout.decode(), p.stderr.decode()

    t.eq("version", call("-V"), (0, "sudo-proxy 1.2.0\n", ""))
    code, stdout, stderr = call("--help")
    t.ok("help-on-stderr", code == 0 and not stdout and stderr.startswith("Usage: sudo-proxy "), (code, stdout, stderr))
    t.eq("unknown-option", call("--frobnicate"), (1, "", "unknown option: --frobnicate\n"))
    t.eq("agent-needs-a-host", call("--forward-agent"), (1, "", "error: --forward-agent requires --host (no SSH session in local mode)\n"))
    t.eq("host-is-no-option", call("--host", "-oProxyCommand=x"), (1, "", "error: host must not start with '-'\n"))
    code, stdout, stderr = call("--pkexec")
    t.ok("pkexec-refused", code == 1 and "--pkexec is not supported" in stderr, (code, stderr))
    t.eq("no-folder", call("--socket", home.dir + "/none/s"), (1, "", "error: No such file or directory (os error 2)\n"))
    t.eq("too-long", call("--socket", "/" + "x" * 120), (1, "", "error: path must be shorter than SUN_LEN\n"))
    serve(t, "-v", home=home)
    try:
        t.eq("already-running", call(), (1, "", "error: sudo-proxy is already running on %s\n" % home.sock))
        decided(home, line(["echo", "a", "|"], version="9.9", id="v-1"), "n")
        Client(home, line(action="ping", id="v-2", session="s")).answer()
        for case, words in [("listening", "sudo-proxy listening on %s" % home.sock), ("mode", "mode: remote (TUI + sudo)"),
                            ("request", "[v-1] [unprivileged] [client 9.9] echo a '|'"), ("ping", "[v-2] ping from s (client unknown)")]:
            t.ok("verbose-" + case, home.pty.wait_for(re.compile(re.escape(words)), 0, LONG), home.pty.text_since(0))
    finally:
        home.close()


@area("sudo-place")
def place(t):
    """Where nobody can decide, nothing is decided."""
    home = Home(t)
    p = subprocess.Popen(ours(t)("sudo-proxy"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         env=home.env, cwd=home.dir, start_new_session=True)
    try:
        if not wait_for(lambda: os.path.exists(home.sock), LONG):
            raise Fail("the daemon does not come up")
        a = Client(home, line(["true"])).answer()
        t.eq("without-a-terminal", a.get("message"), "prompt error: No such device or address (os error 6)")
    finally:
        p.terminate()
        p.wait(LONG)
    home = serve(t, OSTLER_PROCESS="p000000000000")
    try:
        witness, mark = home.dir + "/hosted", home.pty.mark()
        a = Client(home, line(["touch", witness])).answer()
        t.ok("a-hosted-sudo-proxy-refuses-to-prompt", a["status"] == "error" and "runs in ostler" in a["message"] and quiet(home, mark), a)
        t.ok("and-says-where-one-can", "ostler approvals" in a["message"] and not os.path.exists(witness), a)
    finally:
        home.close()


@area("sudo-unattended")
def unattended(t):
    home = serve(t, "--unattended-eligible")
    try:
        a, shown = decided(home, line(["true"]), "a")
        t.ok("a-grants-what-was-offered", a["status"] == "ok" and "[y/N/a]" in shown, (a, shown))
        mark = home.pty.mark()
        a = Client(home, line(["echo", "free"], id="u-1")).answer()
        t.ok("then-unprivileged-commands-run-unasked", out(a) == b"free\n" and quiet(home, mark), a)
        t.ok("and-are-logged", home.pty.wait_for(re.compile(r"\[u-1\] \[unattended\] echo free"), mark, LONG), home.pty.text_since(mark))
        a, shown = decided(home, line(["true"], privileged=True), "n")
        t.ok("root-is-still-asked", a["status"] == "denied" and "Execute as root? [y/N] " in shown, shown)
    finally:
        home.close()
    serve(t, "--unattended-eligible", home=home)
    try:
        a, _ = decided(home, line(["true"]), "n")
        t.eq("a-grant-dies-with-the-daemon", a["status"], "denied")
    finally:
        home.close()
    os.makedirs(os.path.dirname(home.hosts), exist_ok=True)
    with open(home.hosts, "w") as f:
        json.dump({"hosts": {}, "policy": {"unattended_eligible": True}}, f)
    for case, args, offered in [("policy-file-offers", [], True), ("flag-wins-over-the-file", ["--no-unattended-eligible"], False)]:
        serve(t, *args, home=home)
        try:
            _, shown = decided(home, line(["true"]), "n")
            t.eq(case, "[y/N/a]" in shown, offered)
        finally:
            home.close()


@area("sudo-crash")
def crash(t):
    """SIGKILL of the daemon: what was approved runs on, once, and its asker comes back for the answer."""
    home = serve(t)
    try:
        witness, gate = home.dir + "/ran", home.dir + "/gate"
        request = line(["sh", "-c", "echo x >> %s; while [ ! -e %s ]; do sleep 0.1; done; echo done" % (witness, gate)])
        mark = home.pty.mark()
        c = Client(home, request)
        home.answer("y", mark)
        if not wait_for(lambda: os.path.exists(witness), LONG):
            raise Fail("it never ran")
        kill9(home)
        c.close()
        serve(t, home=home)
        c = Client(home, request)
        open(gate, "w").close()
        t.eq("the-same-request-gets-its-answer", out(c.answer()), b"done\n")
        with open(witness) as f:
            t.eq("and-ran-once", f.read(), "x\n")
        a = Client(home, request).answer()
        t.ok("a-third-time-is-a-duplicate", "duplicate request id" in a.get("message", ""), a)

        witness = home.dir + "/pending"
        request, mark = line(["touch", witness]), home.pty.mark()
        c = Client(home, request)
        home.pty.wait_for(PROMPT, mark, LONG)
        kill9(home)
        c.close()
        serve(t, home=home)
        mark = home.pty.mark()
        c = Client(home, request)
        home.answer("y", mark)
        t.ok("a-pending-request-is-asked-again", c.answer()["status"] == "ok" and os.path.exists(witness), "not run")
    finally:
        home.close()


def kill9(home):
    pid = home.pty.pid
    os.kill(pid, signal.SIGKILL)
    if home.pty.wait(LONG) is None:
        raise Fail("survived SIGKILL")
    home.pty.stop()
    if os.path.exists(home.sock):
        # The dead daemon's socket stays behind; the next one replaces it, and then answers.
        os.rename(home.sock, home.sock + ".dead")


@area("sudo-up")
def up(t):
    """The door of `ostler up`: the inbox decides, and nobody can stop the others' daemon through it."""
    home = Home(t)

    def ostler(*args):
        return subprocess.run([t.ostler()] + list(args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=home.env, cwd=home.dir, timeout=LONG)

    ostler("up")
    shown = ostler("status", "--connect").stdout.decode()
    try:
        found = re.search(r"\S+sudo-proxy\.sock", shown)
        t.ok("printed-with-the-other-doors", found, shown)
        home.sock = found.group(0)
        t.eq("owner-only", oct(os.stat(home.sock).st_mode & 0o777), "0o600")
        t.eq("ping", Client(home, line(action="ping")).answer().get("message"), "pong")
        a = Client(home, line(action="stop")).answer()
        t.ok("stop-is-refused-with-a-hint", a["status"] == "error" and "ostler down" in a["message"], a)
        witness = home.dir + "/undecided"
        c = Client(home, line(["touch", witness]))
        t.ok("a-request-waits-for-the-inbox", not select.select([c.s], [], [], 1.0)[0] and not os.path.exists(witness), "answered")
        c.close()
        t.eq("the-daemon-goes-on", Client(home, line(action="ping")).answer().get("message"), "pong")
    finally:
        ostler("down", "--kill")
