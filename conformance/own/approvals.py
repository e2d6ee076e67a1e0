"""One inbox for every decision: requests through the sudo-proxy door of `ostler up`, answered in terminals, by rules, or refused."""
import base64
import contextlib
import datetime
import json
import os
import pwd
import re
import select
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
import time
import uuid

import cli
from cli import Home
from kit import Fail
from lib import area, wait_for

LONG = 30


class House(Home):
    """A home whose daemon takes requests."""

    def __init__(self, t, user=None):
        super().__init__(t)
        self.user = user
        self.socks = []

    def up(self):
        self.good("up")
        return self

    def record(self):
        with open(self.state + "/instances/main/instance.json") as f:
            return json.load(f)

    def door(self):
        return next(d["address"] for d in self.record()["doors"] if d["name"] == "sudo-proxy")

    def ask(self, *stages, **more):
        """Asks and waits for nothing; gives back the asker."""
        return Asker(self, stages, more)

    def pending(self):
        return self.json("approvals", "--list")

    def waiting(self, count=1):
        """The requests that wait, once there are so many."""
        if not wait_for(lambda: len(self.pending()) == count, LONG, 0.1):
            raise Fail("%d requests should wait, these do: %s" % (count, self.pending()))
        return self.pending()

    def state_of(self, id):
        return next((a for a in self.json("approvals", "--list", "--all") if a["id"] == id), {}).get("state")

    def audit(self, what=None):
        rows = [json.loads(line) for line in self.good("--json", "audit").splitlines()]
        return [r for r in rows if what is None or r["record"]["what"] == what]

    def down(self):
        for s in self.socks:
            s.close()
        self("down", "--kill")


class Asker:
    def __init__(self, house, stages, more, door=None):
        request = {"id": str(uuid.uuid4()), "host": "test-host", "session": "test-session", "reason": "a test", "env": {},
                   "time": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                   "pipeline": [list(s) for s in stages], "privileged": False, "forward_agent": False}
        request.update(more)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        house.socks.append(self.sock)
        with acting_as(house.user):
            self.sock.connect(door or house.door())
        self.sock.sendall(json.dumps(request).encode() + b"\n")

    def answer(self, timeout=LONG):
        self.sock.settimeout(timeout)
        data = b""
        while not data.endswith(b"\n"):
            try:
                piece = self.sock.recv(1 << 18)
            except socket.timeout:
                raise Fail("no answer within %d s" % timeout)
            if not piece:
                break
            data += piece
        answer = json.loads(data) if data else {}
        if "stdout" in answer:
            answer["text"] = base64.b64decode(answer["stdout"]).decode(errors="replace")
        return answer


class Terminal(cli.Terminal):
    """A program on a terminal; everything it says is read, also its last words."""

    def wait(self, timeout=LONG):
        stop = time.monotonic() + timeout
        while time.monotonic() < stop:
            if not select.select([self.fd], [], [], 0.5)[0]:
                continue
            try:
                piece = os.read(self.fd, 65536)
            except OSError:
                piece = b""
            if not piece:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            self.seen += piece
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise Fail("still on the terminal: %r" % self.seen[-300:])

    def press(self, key):
        """One key for the question that is on the screen: again until it is taken, because one pressed too soon does not count."""
        self.until(b"[y/N] ", LONG)
        before, stop = len(self.seen), time.monotonic() + LONG
        while len(self.seen) == before:
            if time.monotonic() > stop:
                raise Fail("no key is taken: %r" % self.seen[-300:])
            self.type(key)
            if select.select([self.fd], [], [], 1)[0]:
                self.seen += os.read(self.fd, 65536)


@contextlib.contextmanager
def acting_as(user):
    """The system tells a server who connected: this user."""
    if user:
        os.seteuid(user.pw_uid)
    try:
        yield
    finally:
        if user:
            os.seteuid(0)


class Tmux:
    """A terminal with a screen that can be looked at."""

    def __init__(self, house, *command, size=(100, 30)):
        self.socket = house.dir + "/tmux.sock"
        self.env = dict(house.env, TERM="xterm-256color", TMUX_TMPDIR=house.dir, LC_ALL="C.UTF-8")
        line = " ".join(shlex.quote(word) for word in command)
        self("-f", "/dev/null", "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), line)

    def __call__(self, *args):
        p = subprocess.run(["tmux", "-u", "-S", self.socket] + list(args), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           env=self.env, timeout=LONG)
        return p.stdout.decode(errors="replace")

    def keys(self, *keys):
        self("send-keys", *keys)

    def screen(self):
        return self("capture-pane", "-p")

    def until(self, *texts):
        if not wait_for(lambda: all(text in self.screen() for text in texts), LONG, 0.1):
            raise Fail("the screen should show %r: %s" % (texts, self.screen()))
        return self.screen()

    def go_to(self, text):
        """The request that says this, wherever it is in the list."""
        def there():
            if text in self.screen():
                return True
            self.keys("j")
            return False
        if not wait_for(there, LONG, 0.5):
            raise Fail("no request says %r: %s" % (text, self.screen()))

    def close(self):
        self("kill-server")


def approved(house, id, *more, key=b"y"):
    """`approve` in a terminal: what it showed and its exit code."""
    term = Terminal(house, "approve", id, *more)
    term.press(key)
    code = term.wait()
    return term.seen.decode(errors="replace"), code


@area("approvals-answers")
def answers(t):
    house = House(t).up()
    try:
        rc, o, e = house("approvals", "--list")
        t.ok("nothing-waits", rc == 0 and "nothing waits" in e, (rc, o, e))
        asker = house.ask(["echo", "hello there"], ["cat"])
        one = house.waiting()[0]
        t.ok("list-names-asker-and-content", one["asker"]["claimed_session"] == "test-session" and "hello there" in one["content"]
             and one["asker"]["uid"] == os.getuid() and one["asker"]["pid"], one)
        t.ok("list-is-a-table-for-people", "echo 'hello there' | cat" in house.good("approvals", "--list"))
        seen, code = approved(house, one["id"][:6])
        answer = asker.answer()
        t.ok("approve-runs-it", code == 0 and answer.get("status") == "ok" and answer["text"] == "hello there\n", (seen, code, answer))
        t.ok("approve-shows-everything", all(part in seen for part in ("echo 'hello there'", "| cat", "/cat", "test-session", "verified: none",
                                                                       "a test", one["hash"][:40])), seen)
        t.ok("approve-says-applied", "applied" in seen and "by uid" in seen, seen)
        rc, o, e = house("deny", one["id"])
        t.ok("without-a-terminal-refused", rc == 5 and "has no terminal" in e and "ostler approvals" in e, (rc, o, e))
        late = Terminal(house, "approve", one["id"])
        t.ok("too-late-is-told-who-was-first", late.wait(LONG) == 5 and b"answered elsewhere" in late.seen and b"/dev/pts/" in late.seen, late.seen)

        asker = house.ask(["echo", "never"])
        one = house.waiting()[0]
        early = Terminal(house, "approve", one["id"])
        early.type(b"yyyy")
        early.until(b"[y/N]", LONG)
        time.sleep(1.5)
        t.ok("keys-typed-ahead-do-not-count", house.state_of(one["id"]) == "pending", early.seen)
        early.press(b"x")
        t.ok("another-key-is-no-yes", early.wait(LONG) == 1 and b"still waits" in early.seen and house.state_of(one["id"]) == "pending", early.seen)
        seen, code = approved(house, one["id"], key=b"yn")
        t.ok("a-paste-is-no-key", code == 1, (seen, code))
        fed = subprocess.Popen([house.program, "approve", one["id"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=house.env, start_new_session=True)
        o, e = fed.communicate(b"y\n", timeout=LONG)
        t.ok("standard-input-is-never-asked", fed.returncode == 5 and b"has no terminal" in e, (o, e))
        denied = Terminal(house, "deny", one["id"][:8], "--message", "not today")
        t.ok("deny-exit-0", denied.wait(LONG) == 0 and b"denied" in denied.seen, denied.seen)
        t.eq("deny-reaches-the-asker", asker.answer().get("status"), "denied")
        last = house.audit("decided")[-1]["record"]
        t.ok("audit-names-who-denied-and-why", last["decision"]["message"] == "not today" and last["by"]["tty"].startswith("/dev/pts/"), last)
        t.ok("attempts-are-audited", len([a for a in house.audit("attempted") if a["about"]]) >= 2, house.audit("attempted"))

        asker = house.ask(["sleep", "300"])
        one = house.waiting()[0]
        asker.sock.close()
        t.ok("a-client-that-hangs-up-takes-its-request-along", wait_for(lambda: house.state_of(one["id"]) == "withdrawn", LONG, 0.1))
        gone = Terminal(house, "approve", one["id"])
        t.ok("withdrawn-is-told", gone.wait(LONG) == 5 and b"withdrawn" in gone.seen, gone.seen)

        asker = house.ask(["id", "-u"], privileged=True)
        one = house.waiting()[0]
        seen, code = approved(house, one["id"])
        answer = asker.answer()
        if os.getuid() == 0:
            t.ok("a-privileged-command-runs", code == 0 and answer.get("text") == "0\n", (seen, code, answer))
            t.ok("approve-says-how-it-ended", "AS ROOT" in seen and "exit 0" in seen, seen)
        for args, near in ((["approve", "--alway", "x"], "--always"), (["deny", "--mesage", "m", "x"], "--message"), (["audit", "--folow"], "--follow"),
                           (["rules", "ad"], "add"), (["approvals", "--lst"], "--list"), (["aprovals"], "approvals")):
            rc, o, e = house(*args)
            t.ok("mistyped-%s" % "-".join(args[:2]).replace("--", ""), rc == 2 and near in e, (rc, o, e))
        t.eq("approve-of-nothing-exit-4", house("approve", "azzzz")[0], 4)
        rc, o, e = house("approve", "--session", "--always", "a")
        t.eq("session-and-always-exclude-each-other", rc, 2)
    finally:
        house.down()


@area("approvals-inbox")
def inbox(t):
    if not shutil.which("tmux"):
        return t.skip("tmux", "tmux is not installed")
    house = House(t).up()
    screen = None
    try:
        first = house.ask(["echo", "one"])
        a = house.waiting(1)[0]
        screen = Tmux(house, house.program, "approvals")
        screen.until("1 waiting", "echo one", "decide: y or n")
        second = house.ask(["echo"] + ["word-%d" % n for n in range(400)])
        screen.until("2 waiting", "decide: y or n")
        t.ok("what-arrives-does-not-take-the-place", "runs /" in screen.screen() and "echo one" in screen.screen().split("──")[-1], screen.screen())
        t.ok("first-display-is-audited", [r for r in house.audit("shown") if r["about"] == a["id"] and r["record"]["surface"] == "inbox"])
        screen.keys("y")
        t.ok("y-approves", first.answer().get("text") == "one\n")
        screen.until("applied")
        screen.keys("y")
        screen.until("settled")
        b = house.waiting(1)[0]
        screen.keys("Enter")
        screen.until("read on first")
        screen.keys("y")
        time.sleep(0.5)
        t.eq("unread-is-not-decided", house.state_of(b["id"]), "pending")
        pages = 0
        while "decide: y or n" not in screen.screen() and pages < 30:
            pages += 1
            screen.keys("Space")
            wait_for(lambda: re.search(r"read on first|decide", screen.screen()), 5, 0.05)
            time.sleep(0.4)
        t.ok("reading-to-the-end-allows-a-decision", "word-399" in screen.screen() or "decide: y or n" in screen.screen(), screen.screen())
        screen.keys("m")
        screen.until("no, because:")
        screen.keys("-l", "not these")
        screen.until("not these")
        screen.keys("Enter")
        t.eq("a-message-denies", second.answer().get("status"), "denied")
        t.eq("the-message-is-in-the-audit", house.audit("decided")[-1]["record"]["decision"].get("message"), "not these")

        third = house.ask(["echo", "three"])
        c = house.waiting(1)[0]
        screen.keys("Enter")
        screen.until("echo three", "decide: y or n")
        elsewhere = Terminal(house, "deny", c["id"])
        elsewhere.wait(LONG)
        screen.until("denied by uid")
        t.ok("answered-elsewhere-is-told-on-the-screen", "/dev/pts/" in screen.screen(), screen.screen())
        t.eq("third-is-denied", third.answer().get("status"), "denied")

        nasty = house.ask(["printf", "%s", "it is | '; rm"], reason="plain", session="s" * 90)
        screen.keys("Enter")
        screen.until("'it is | '\\''; rm'", "↳")
        t.ok("a-literal-bar-is-quoted-and-long-lines-go-on-under-a-mark", True)
        d = house.waiting(1)[0]
        screen.until("decide: y or n")
        screen.keys("s")
        t.eq("session-approves", nasty.answer().get("status"), "ok")
        again = house.ask(["printf", "%s", "it is | '; rm"], reason="plain", session="s" * 90)
        t.eq("session-makes-a-rule", again.answer().get("status"), "ok")
        rule = house.audit("decided")[-1]["record"]["by"]
        t.ok("the-automatic-yes-is-audited-with-the-rule", rule["from"] == "rule" and rule["name"] in house.good("rules"), rule)
        other = house.ask(["printf", "%s", "it is | '; rm"], reason="plain", session="other")
        t.ok("another-session-is-asked", len(house.waiting(1)) == 1)
        other.sock.close()
        if os.getuid() == 0:
            house.waiting(0)
            root = house.ask(["sh", "-c", "id -u"], privileged=True)
            screen.go_to("AS ROOT")
            screen.until("AS ROOT", "decide: y or n")
            screen.keys("y")
            t.eq("y-approves-a-privileged-command", root.answer().get("text"), "0\n")
            screen.until("exit 0", "0 waiting")
            t.ok("the-inbox-comes-back-and-says-how-it-ended", True)
        screen.keys("q")
        t.ok("q-leaves", wait_for(lambda: "no server" in screen("ls") or screen("ls") == "", LONG, 0.1), d)
    finally:
        if screen:
            screen.close()
        house.down()


@area("approvals-inbox-leaves-the-terminal-as-it-was")
def restored(t):
    if not shutil.which("tmux"):
        return t.skip("tmux", "tmux is not installed")
    house = House(t).up()
    screen = Tmux(house, "/bin/sh")
    try:
        for name, sig in (("term", signal.SIGTERM), ("hup", signal.SIGHUP)):
            screen.keys("-l", "clear; %s approvals; echo code=$?" % house.program)
            screen.keys("Enter")
            screen.until("nothing waits for you")
            shell = int(screen("display-message", "-p", "#{pane_pid}"))
            for pid in descendants(shell, "ostler"):
                os.kill(pid, sig)
            screen.until("code=%d" % (128 + sig))
            screen.keys("-l", "stty -a | grep -o ' -*echo '; echo back-'%s'" % name)
            screen.keys("Enter")
            text = screen.until("back-%s\n" % name)
            t.ok("after-%s" % name, "nothing waits for you" not in text and "\n echo" in text, text)
    finally:
        screen.close()
        house.down()


def descendants(pid, name):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        below = [int(child) for child in f.read().split()]
    with open("/proc/%d/comm" % pid) as f:
        found = [pid] if f.read().strip() == name else []
    return found + [one for child in below for one in descendants(child, name)]


@area("approvals-hosted")
def hosted(t):
    """An agent that answers its own request: every way it could try."""
    house = House(t).up()
    try:
        asker = house.ask(["echo", "self-service"])
        one = house.waiting()[0]
        o = shlex.quote(house.program)
        id = one["id"]
        native = house.record()["native"]
        keeper = house.state + "/instances/main/keeper.sock"
        decide = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "approval.decide", "params": {"id": id, "hash": one["hash"], "verdict": "once"}})
        python = shutil.which("python3")
        tries = {
            "approve": "%s approve %s" % (o, id),
            "deny": "%s deny %s" % (o, id),
            "rules": "%s rules add -- echo self-service" % o,
            "inbox": "%s approvals" % o,
            "approve-in-a-clean-environment": "env -i HOME=$HOME setsid %s approve %s" % (o, id),
            "approve-on-a-terminal-of-its-own": "script -qec '%s approve %s' /dev/null </dev/null" % (o, id),
            "native-socket": "%s -c %s" % (python, shlex.quote(
                "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(%r); s.sendall(%r); print(s.makefile().readline())"
                % (native, decide.encode() + b"\n"))),
        }
        for how in ([], ["-t"]):
            kind = "terminal" if how else "pipe"
            for name, line in tries.items():
                before = len(house.audit("attempted"))
                said = run_hosted(house, how, line)
                t.ok("%s-%s-is-refused" % (name, kind), "is hosted by ostler" in said and "a terminal of your own" in said, said)
                if name != "inbox":
                    t.ok("%s-%s-is-audited" % (name, kind), len(house.audit("attempted")) > before, said)
                t.eq("%s-%s-decides-nothing" % (name, kind), (house.state_of(id), house.good("rules")), ("pending", ""))
            hello = json.dumps({"id": 1, "verb": {"hello": {"protocol": 1, "oldest": 1, "pid": 1, "program": "x"}}}).encode()
            script = ("import socket; s=socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(20); s.connect(%r); "
                      "s.send(%r); print('keeper said', s.recv(65536))" % (keeper, len(hello).to_bytes(4, "little") + hello))
            before = len(house.audit("attempted"))
            said = run_hosted(house, how, "%s -c %s" % (python, shlex.quote(script)))
            t.ok("keeper-socket-%s-is-refused" % kind, "is hosted here" in said and "a terminal that it does not host" in said, said)
            t.ok("keeper-socket-%s-is-audited" % kind, wait_for(lambda: len(house.audit("attempted")) > before, LONG, 0.1), said)
            t.ok("keeper-socket-%s-gives-nothing" % kind, "batch" not in said.lower() and "spawned" not in said.lower(), said)
            t.eq("keeper-socket-%s-decides-nothing" % kind, house.state_of(id), "pending")
            said = run_hosted(house, how, "%s restart" % o)
            t.ok("restart-%s-is-refused" % kind, "may not replace it" in said, said)
        own = own_prompt(house)
        t.ok("its-own-sudo-proxy-decides-nothing", own.get("status") in ("error", "denied", "timeout"), own)
        t.ok("who-tried-is-in-the-audit", all(re.match(r"(uid \d+ )?pid \d+", a["record"]["who"]) for a in house.audit("attempted")))
        inside = run_hosted(house, [], "%s approvals --list" % o)
        t.ok("looking-is-allowed", id in inside, inside)
        seen, code = approved(house, id)
        t.ok("a-person-decides-all-the-same", code == 0 and asker.answer().get("text") == "self-service\n", seen)
    finally:
        house.down()


def own_prompt(house):
    """What a request hears from a sudo-proxy that runs on a hosted terminal, with somebody who presses y all the time."""
    place = house.dir + "/own.sock"
    term = Terminal(house, "run", "-t", "--", house.program, "as", "sudo-proxy", "--socket", place)
    stop = threading.Event()

    def press():
        while not stop.wait(0.3):
            try:
                term.type(b"y")
            except OSError:
                return
    try:
        if not wait_for(lambda: os.path.exists(place), LONG, 0.1):
            return {"status": "error", "message": "it does not even start"}
        threading.Thread(target=press, daemon=True).start()
        return Asker(house, [["echo", "prompted"]], {}, place).answer(90)
    finally:
        stop.set()
        for process in house.json("ps"):
            house("kill", process["id"], "--wait")
        term.wait()


def run_hosted(house, how, line):
    """What a hosted shell hears when it tries this."""
    if not how:
        rc, o, e = house("run", "--", "sh", "-c", line, timeout=LONG * 2)
        return o + e
    term = Terminal(house, "run", "-t", "--", "sh", "-c", line)
    term.wait(LONG * 2)
    return re.sub(r"\s+", " ", term.seen.decode(errors="replace"))


@area("approvals-tampered")
def tampered(t):
    changes = {
        "an-entry-changed": "UPDATE entry SET body = replace(body, 'test-session', 'other-session') WHERE body LIKE '%test-session%'",
        "an-entry-removed": "DELETE FROM entry WHERE seq = 2",
        "the-end-cut-off": "DELETE FROM entry WHERE seq = (SELECT max(seq) FROM entry)",
        "the-content-changed": "UPDATE content SET body = replace(body, 'harmless', 'harmful!')",
    }
    for name, sql in changes.items():
        house = House(t).up()
        try:
            asker = house.ask(["echo", "harmless"])
            house.waiting()
            t.ok("%s-before-it-holds" % name, house("audit", "--verify")[0] == 0)
            db = house.state + "/instances/main/inbox.db"
            change(db, sql)
            rc, o, e = house("audit", "--verify")
            t.ok("%s-is-found-while-it-runs" % name, rc == 1 and "FAIL" in o, (rc, o, e))
            rc, o, e = house("doctor")
            t.ok("%s-doctor-says-so" % name, rc == 1 and re.search(r"FAIL audit .*does not hold", o), o)
            asker.sock.close()
            house("down", "--kill")
            rc, o, e = house("audit", "--verify")
            t.ok("%s-is-found-when-it-does-not-run" % name, rc == 1 and "FAIL" in o and "does not run" in o, (rc, o, e))
            rows = json.loads(house("--json", "audit", "--verify")[1])
            t.ok("%s-json-says-why" % name, rows[0]["holds"] is False and rows[0]["why"], rows)
            rc, o, e = house("up")
            log = house("logs", "--daemon")
            t.ok("%s-is-refused-at-the-next-start" % name, rc != 0 and "does not hold" in "".join((o, e) + tuple(map(str, log))), (rc, o, e, log))
        finally:
            house.down()


def change(db, sql):
    with contextlib.closing(sqlite3.connect(db, timeout=LONG)) as c:
        c.execute(sql)
        c.commit()


@area("approvals-instances")
def instances(t):
    """Several instances of one user are one inbox."""
    house = House(t).up()
    try:
        house.good("--instance", "second", "up")
        with open(house.state + "/instances/second/instance.json") as f:
            door = next(d["address"] for d in json.load(f)["doors"] if d["name"] == "sudo-proxy")
        one, two = house.ask(["echo", "one"]), Asker(house, [["echo", "two"]], {}, door)
        ids = {a["instance"]: a["id"] for a in house.waiting(2)}
        t.eq("both-are-listed", sorted(ids), ["main", "second"])
        t.ok("the-table-names-the-instance", "INSTANCE" in house.good("approvals", "--list"))
        seen, code = approved(house, ids["second"])
        t.ok("approve-finds-it-in-any", code == 0 and two.answer().get("text") == "two\n", seen)
        if shutil.which("tmux"):
            three = Asker(house, [["echo", "three"]], {}, door)
            screen = Tmux(house, house.program, "approvals")
            try:
                screen.until("2 waiting", "echo one", "echo three", "second")
                screen.go_to("of instance second")
                screen.until("of instance second", "decide: y or n")
                screen.keys("n")
                t.eq("the-inbox-decides-in-any", three.answer().get("status"), "denied")
            finally:
                screen.close()
        one.sock.close()
        rc, o, e = house("audit", "--after", "1")
        t.ok("a-position-belongs-to-one-log", rc == 2 and "--instance" in e, (rc, o, e))
        t.ok("one-audit-of-both", {r["instance"] for r in house.audit("asked")} == {"main", "second"})
        rc, o, e = house("audit", "--verify")
        t.ok("both-hold", rc == 0 and o.count("entries hold") == 2, (rc, o, e))
    finally:
        house("--instance", "second", "down", "--kill")
        house.down()


@area("approvals-fatigue")
def fatigue(t):
    house = House(t).up()
    try:
        for n in range(3):
            asker = house.ask(["echo", "again"], reason="please %d" % n)
            one = house.waiting()[0]
            t.eq("refusal-%d" % n, Terminal(house, "deny", one["id"]).wait(LONG), 0)
            t.eq("denied-%d" % n, asker.answer().get("status"), "denied")
        answer = house.ask(["echo", "again"]).answer()
        t.ok("the-fourth-time-nobody-is-asked", answer.get("status") == "error" and "refused 3 times" in answer.get("message", ""), answer)
        t.ok("that-is-audited", "refused 3 times" in house.audit("refused")[-1]["record"]["why"])
        asker = house.ask(["echo", "something else"])
        one = house.waiting()[0]
        t.ok("something-else-is-asked", "something else" in one["title"], one)
        asker.sock.close()
    finally:
        house.down()


@area("approvals-rules")
def rules(t):
    house = House(t).up()
    try:
        t.ok("none-at-first", house("rules")[1:] == ("", "there are no rules: everything is asked\n"), house("rules"))
        rc, o, e = house("rules", "add", "--", "echo", "x")
        t.ok("not-from-a-script", rc == 5 and "has no terminal" in e, (rc, o, e))

        def add(*args):
            term = Terminal(house, "--json", "rules", "add", *args)
            code = term.wait(LONG)
            return json.loads(term.seen) if code == 0 else (code, term.seen)

        rule = add("--expires", "30d", "--", "echo", "lib*-dev", "x")
        t.ok("a-rule-is-made", isinstance(rule, dict) and rule["effect"] == "allow" and rule["expires"] and rule["scope"] == "host", rule)
        t.eq("a-pattern-answers", house.ask(["echo", "libfoo-dev", "x"]).answer().get("text"), "libfoo-dev x\n")
        by = house.audit("decided")[-1]["record"]["by"]
        t.eq("audited-with-the-rule's-name", by, {"from": "rule", "name": rule["name"]})
        for other in (["echo", "libfoo-dev"], ["echo", "xlibfoo-dev", "x"], ["echo", "libfoo-dev", "x", "y"]):
            asker = house.ask(other)
            house.waiting(1)
            asker.sock.close()
            house.waiting(0)
        t.ok("a-pattern-is-anchored-and-counts-arguments", True)
        asker = house.ask(["echo", "libfoo-dev", "x"], privileged=True)
        house.waiting(1)
        t.ok("as-root-is-another-command", True)
        asker.sock.close()
        house.waiting(0)
        no = add("--deny", "--", "echo", "*", "x")
        t.eq("a-no-wins-over-a-yes", house.ask(["echo", "libbar-dev", "x"]).answer().get("status"), "denied")
        t.ok("both-are-listed", rule["name"] in house.good("rules") and no["name"] in house.good("rules", "list"))
        star = add("--exact", "--session", "test-session", "--", "printf", "%s", "*")
        t.eq("exact-stars-are-stars", house.ask(["printf", "%s", "*"]).answer().get("text"), "*")
        asker = house.ask(["printf", "%s", "anything"])
        house.waiting(1)
        asker.sock.close()
        house.waiting(0)
        for name in (no["name"], rule["name"][:6], star["name"]):
            t.eq("revoke-%s" % name[:1], Terminal(house, "rules", "revoke", name).wait(LONG), 0)
        t.eq("nothing-is-left", house.json("rules"), [])
        asker = house.ask(["echo", "libfoo-dev", "x"])
        house.waiting(1)
        asker.sock.close()
        t.ok("a-revoked-rule-answers-no-more", True)
        t.eq("making-and-revoking-is-audited", (len(house.audit("rule_added")), len(house.audit("rule_revoked"))), (3, 3))
        t.eq("revoke-of-nothing-exit-4", house("rules", "revoke", "rzzz")[0], 4)
        t.eq("a-program-that-is-not-there-exit-4", house("rules", "add", "--", "no-such-program-zz")[0], 4)
        rc, o, e = house("rules", "add", "--expires", "soon", "--", "echo")
        t.ok("a-bad-time-is-explained", rc == 2 and "30d" in e or "7d" in e, (rc, e))
    finally:
        house.down()


@area("approvals-audit")
def audit(t):
    house = House(t)
    sink = house.dir + "/forwarded"
    house.env["OSTLER_AUDIT_FORWARD"] = "cat >> %s" % sink
    house.up()
    try:
        follow = subprocess.Popen([house.program, "--json", "audit", "--follow"], stdout=subprocess.PIPE, env=house.env)
        lines = []
        threading.Thread(target=lambda: [lines.append(json.loads(x)) for x in follow.stdout], daemon=True).start()
        asker = house.ask(["echo", "noted"], reason="for the log")
        one = house.waiting()[0]
        approved(house, one["id"])
        asker.answer()
        t.ok("the-whole-story-is-there", wait_for(lambda: len(house.audit("finished")) == 1, LONG, 0.1))
        story = [r["record"]["what"] for r in house.audit() if r["about"] == one["id"]]
        t.eq("in-order-and-once", story, ["asked", "shown", "decided", "applied", "finished"])
        t.ok("follow-sees-it", wait_for(lambda: [l["seq"] for l in lines] == [r["seq"] for r in house.audit()], LONG, 0.2), lines)
        follow.send_signal(signal.SIGINT)
        follow.wait(LONG)
        text = house.good("audit")
        t.ok("people-read-lines", "echo noted" in text and "approved by uid" in text and "exit 0" in text, text)
        t.ok("no-output-is-kept", "noted\\n" not in house.good("--json", "audit"))
        after = [json.loads(x)["seq"] for x in house.good("--json", "audit", "--after", "3").splitlines()]
        t.eq("after-skips", after[0], 4)
        rc, o, e = house("audit", "--verify")
        t.ok("verify-holds", rc == 0 and re.search(r"ok +main: \d+ entries hold; head [0-9a-f]{64}", o), (rc, o, e))
        sent = lambda: [json.loads(x)["seq"] for x in open(sink)] if os.path.exists(sink) else []
        t.ok("forward-sends-every-entry-in-order", wait_for(lambda: sent() == [r["seq"] for r in house.audit()], LONG, 0.2), sent())
        house.good("restart")
        house.ask(["echo", "later"])
        house.waiting(1)
        t.ok("forward-goes-on-after-a-restart-and-repeats-nothing",
             wait_for(lambda: sent() == [r["seq"] for r in house.audit()], LONG, 0.2), (sent(), [r["seq"] for r in house.audit()]))
        house("down", "--kill")
        rc, o, e = house("audit", "--verify")
        t.ok("verify-holds-when-it-does-not-run", rc == 0 and "does not run" in o, (rc, o, e))
    finally:
        house.down()


PASSWORD = "correct horse 17"


@area("approvals-password")
def password(t):
    """An ordinary user whose sudo asks for a password: it is typed into the approving terminal and kept nowhere."""
    if os.geteuid() != 0 or not shutil.which("useradd") or not shutil.which("sudo"):
        return t.skip("user", "needs root, useradd and sudo")
    name = "ostler-t%d" % (os.getpid() % 100000)
    policy = "/etc/sudoers.d/" + name.replace("-", "_")
    house = None
    subprocess.run(["useradd", "--no-create-home", "--shell", "/bin/sh", name], check=True)
    try:
        subprocess.run(["chpasswd"], input=("%s:%s\n" % (name, PASSWORD)).encode(), check=True)
        with open(policy, "w") as f:
            f.write("%s ALL=(root) ALL\n" % name)
        os.chmod(policy, 0o440)
        user = pwd.getpwnam(name)
        house = House(t, user)
        # The program must be readable for that user, wherever it was built.
        program = house.dir + "/ostler"
        shutil.copy(house.program, program)
        os.chmod(program, 0o755)
        house.program = program
        os.chmod(house.dir, 0o700)
        os.chown(house.dir, user.pw_uid, user.pw_gid)
        house.env.update(USER=name, LOGNAME=name)
        as_user = ["setpriv", "--reuid=%d" % user.pw_uid, "--regid=%d" % user.pw_gid, "--clear-groups", program]
        wrapper = t.tmp() + "/ostler-as-user"
        with open(wrapper, "w") as f:
            f.write("#!/bin/sh\nexec %s \"$@\"\n" % " ".join(as_user))
        os.chmod(wrapper, 0o755)
        house.program = wrapper
        house.up()
        asker = house.ask(["id", "-u"], privileged=True)
        one = house.waiting()[0]
        term = Terminal(house, "approve", one["id"])
        term.press(b"y")
        term.until(b"assword", LONG)
        term.type(PASSWORD.encode() + b"\r")
        code = term.wait(LONG)
        answer = asker.answer()
        t.ok("sudo-asked-here-and-it-ran", code == 0 and answer.get("text") == "0\n", (code, answer, term.seen))
        t.ok("the-password-is-not-shown", PASSWORD.encode() not in term.seen, term.seen)
        t.ok("it-says-how-it-ended", b"exit 0" in term.seen, term.seen)
        t.eq("the-password-is-kept-nowhere", house.holds(PASSWORD.encode()), [])
        rc, o, e = house("doctor")
        t.ok("doctor-sees-that-sudo-wants-a-password", "sudo wants a password" in o, o)
        with open(policy, "w") as f:
            f.write("%s ALL=(root) NOPASSWD: ALL\n" % name)
        rc, o, e = house("doctor")
        t.ok("doctor-warns-when-sudo-wants-none", re.search(r"weak approvals .*without asking", o), o)
    finally:
        if house:
            house.down()
        for path in (policy,):
            if os.path.exists(path):
                os.remove(path)
        subprocess.run(["userdel", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
