"""Conversations with agents on the command line and at the native door, with the built-in agent: what is said is seen by everybody from
any position, once, across crashes; a prompt runs once; an agent's requests are decided by people."""
import json
import os
import re
import signal
import socket
import subprocess

from approvals_kit import Terminal, Tmux, approved
from cli import Home
from kit import Fail
from lib import area, wait_for

LONG = 60


class House(Home):
    """A home with a daemon, and the words for its sessions."""

    def __init__(self, t):
        super().__init__(t)
        self.env["GIT_CONFIG_NOSYSTEM"] = "1"
        self.good("up")

    def new(self, *args):
        return self.json("new", "echo", *args)["id"]

    def info(self, id):
        return next((s for s in self.json("sessions", "--all") if s["id"] == id), {})

    def until(self, id, status, timeout=LONG):
        if not wait_for(lambda: self.info(id).get("status") == status, timeout, 0.1):
            raise Fail("%s should be %s: %s" % (id, status, self.info(id)))
        return self.info(id)

    def waiting(self, id):
        """The request that the session waits for."""
        if not wait_for(lambda: self.info(id).get("approvals"), LONG, 0.1):
            raise Fail("%s should wait for somebody: %s" % (id, self.info(id)))
        return self.info(id)["approvals"][0]

    def records(self, id):
        return self.json("export", id)["records"]

    def events(self, id):
        return [e for r in self.records(id) for e in r["events"]]

    def texts(self, id):
        return [e["text"] for e in self.events(id) if e["type"] == "text"]

    def start(self, *args):
        return subprocess.Popen([self.program] + list(args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=self.env, cwd=self.dir)

    def socket(self):
        with open(self.state + "/instances/main/instance.json") as f:
            return json.load(f)["native"]

    def down(self):
        self("down", "--kill")


class Wire:
    """The native door, spoken to directly."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(path)
        self.sock.settimeout(LONG)
        self.buffer = b""
        self.last = 0

    def send(self, method, **params):
        self.last += 1
        self.sock.sendall(json.dumps({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}).encode() + b"\n")
        return self.last

    def line(self):
        while b"\n" not in self.buffer:
            piece = self.sock.recv(1 << 16)
            if not piece:
                raise Fail("the daemon closed the connection")
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def call(self, method, **params):
        id = self.send(method, **params)
        while True:
            line = self.line()
            if line.get("id") == id:
                return line

    def records(self, until):
        """Records up to this number."""
        found = []
        while not found or found[-1]["record"] < until:
            line = self.line()
            if line.get("method") == "session.events":
                found.append(line["params"])
        return found


@area("sessions-first-contact")
def first_contact(t):
    house = House(t)
    try:
        rc, o, e = house("new", "echo", "-m", "hello there")
        t.ok("new-with-a-message-answers", rc == 0 and "hello there\n" in o, (rc, o, e))
        t.ok("the-answer-is-said-once", o.count("hello there") == 1, o)
        t.ok("it-names-the-session", re.search(r"^s\w+", e), e)
        rc, o, e = house("new", "echo", "--name", "friend")
        t.ok("new-says-what-to-type-next", rc == 0 and "ostler send s" in o and "ostler watch s" in o, (rc, o, e))
        rc, o, e = house("send", "friend", "one two")
        t.ok("send-by-name-answers", rc == 0 and "one two\n" in o, (rc, o, e))
        rc, o, e = house("send", "friend", stdin=b"from a pipe")
        t.ok("send-reads-a-pipe", rc == 0 and "from a pipe" in o, (rc, o, e))
        rc, o, e = house("send", "friend", "-", stdin=b"with a dash")
        t.ok("send-dash-reads-a-pipe", rc == 0 and "with a dash" in o, (rc, o, e))
        rc, o, e = house("send", "friend", "FAIL now")
        t.ok("a-failed-turn-is-exit-1", rc == 1 and "I was told to fail" in o, (rc, o, e))
        rc, o, e = house("send", "friend", "TOOL THINK PLAN words")
        t.ok("tools-thoughts-and-plans-are-shown", rc == 0 and "● pretend to look around  [execute]" in o and "└ pretended" in o
             and "I only echo." in o and "✓ read the prompt" in o, o)
        rc, o, e = house("send", "friend", "--", "--looks-like-a-flag")
        t.ok("a-prompt-may-begin-with-dashes", rc == 0 and "--looks-like-a-flag" in o, (rc, o, e))
        o = house.good("sessions")
        t.ok("sessions-is-a-table", re.search(r"^ID +NAME +AGENT +STATUS", o) and "friend" in o and "idle" in o, o)
        row = house.info(next(s["id"] for s in house.json("sessions") if s["name"] == "friend"))
        t.eq("the-row-says-what-it-is", (row["agent"], row["status"], row["workspace"], row["queued"], row["autonomy"]),
             ("echo", "idle", os.path.realpath(house.dir), 0, "ask"))
        nasty = "\x1b]0;x\x07\u009b2J"
        rc, o, e = house("new", "echo", "-m", nasty)
        t.ok("nothing-an-agent-says-acts-on-a-terminal", rc == 0 and "\x1b" not in o and "\u009b" not in o and "^[]0;x" in o, o)
        picture = house.dir + "/p.png"
        with open(picture, "wb") as f:
            f.write(b"\x89PNG")
        rc, o, e = house("send", "friend", "look", "--image", picture, "--file", picture)
        t.ok("pictures-and-files-go-along", rc == 0 and "a picture, image/png" in o and "the file " in o, (rc, o, e))
    finally:
        house.down()


@area("sessions-mistakes")
def mistakes(t):
    house = House(t)
    try:
        for verb in (["send", "nope", "x"], ["watch", "nope"], ["interrupt", "nope"], ["close", "nope"], ["export", "nope"], ["forget", "nope"]):
            rc, o, e = house(*verb)
            t.ok("%s-of-nothing-is-exit-4" % verb[0], rc == 4 and "nope" in e, (rc, o, e))
        rc, o, e = house("new", "cluade")
        t.ok("an-unknown-agent-is-exit-2-with-a-suggestion", rc == 2 and "claude" in e, (rc, o, e))
        rc, o, e = house("new", "echo", "/no/such/folder")
        t.ok("a-missing-folder-is-exit-4", rc == 4 and "/no/such/folder" in e, (rc, o, e))
        rc, o, e = house("new", "echo", "--autonomy", "everything")
        t.ok("an-unknown-autonomy-is-exit-2", rc == 2 and "edits" in e, (rc, o, e))
        rc, o, e = house("new", "acp")
        t.ok("acp-without-a-command-is-exit-2", rc == 2 and "COMMAND" in e, (rc, o, e))
        rc, o, e = house("new", "echo", "--worktree")
        t.ok("a-worktree-needs-a-repository", rc == 2 and "git" in e, (rc, o, e))
        rc, o, e = house("watch", "x", "--form", "3")
        t.ok("a-mistyped-flag-is-exit-2-with-a-suggestion", rc == 2 and "--from" in e, (rc, o, e))
        id = house.new()
        rc, o, e = house("send", id, "   ")
        t.ok("an-empty-prompt-is-exit-2", rc == 2, (rc, o, e))
        rc, o, e = house("send", id, "x", "--image", house.dir + "/a.bmp")
        t.ok("an-unknown-picture-is-exit-2", rc == 2 and "png" in e, (rc, o, e))
        rc, o, e = house("forget", id)
        t.ok("an-open-session-is-not-forgotten", rc == 5 and "ostler close" in e, (rc, o, e))
        rc, o, e = house("interrupt", id)
        t.ok("nothing-to-interrupt-is-said", rc == 0 and "nothing was running" in o, (rc, o, e))
        other = house.new()
        rc, o, e = house("send", "s", "x")
        t.ok("an-ambiguous-prefix-is-exit-2", rc == 2 and id in e and other in e, (rc, o, e))
        house.good("close", id)
        rc, o, e = house("send", id, "x")
        t.ok("a-closed-session-refuses-prompts", rc == 5 and "closed" in e, (rc, o, e))
        rc, o, e = house("export", id, "--md", "--json")
        t.ok("markdown-or-json-not-both", rc == 2, (rc, o, e))
    finally:
        house.down()


@area("sessions-watch")
def watch(t):
    house = House(t)
    try:
        id = house.new("--name", "w")
        for text in ("first words", "TOOL second", "THINK third"):
            house.good("send", id, text)
        records = house.records(id)
        t.eq("records-are-numbered-without-a-gap", [r["record"] for r in records], list(range(1, len(records) + 1)))
        house.good("close", id)
        whole = [json.loads(line) for line in house.good("--json", "watch", id).splitlines()]
        t.eq("watch-and-export-say-the-same", [r["record"] for r in whole[:len(records)]], [r["record"] for r in records])
        last = whole[-1]["record"]
        for start in (1, 2, last // 2, last, last + 1, last + 50):
            seen = [json.loads(line)["record"] for line in house.good("--json", "watch", id, "--from", str(start)).splitlines()]
            t.eq("from-%s" % {1: "the-first", 2: "the-second", last // 2: "the-middle", last: "the-last", last + 1: "beyond"}.get(start, "far-beyond"),
                 seen, list(range(start, last + 1)))
        shown = house.good("watch", id)
        t.ok("watch-reads-as-a-transcript", "› prompt 1" in shown and shown.count("first words") == 2 and "── done" in shown
             and "the session is closed" in shown, shown)
        raw = house.good("watch", id, "--raw").splitlines()
        t.ok("raw-is-the-agents-own-lines", raw and all(json.loads(line).get("type") for line in raw)
             and sum('"turn_ended"' in line for line in raw) == 3, raw[:3])
        md = house.good("export", id)
        t.ok("markdown-has-prompts-and-answers", "## Prompt 1" in md and "> first words" in md and "\nfirst words\n" in md, md[:400])
        file = house.dir + "/out.md"
        house.good("export", id, "-o", file)
        t.eq("export-to-a-file", open(file).read(), md)
        t.eq("which-only-its-owner-reads", os.stat(file).st_mode & 0o777, 0o600)
        house.good("forget", "w")
        t.eq("forgotten-is-gone", house("watch", id)[0], 4)
        t.eq("and-no-word-of-it-is-left", house.holds(b"second"), [file])
        live = house.new()
        house.good("send", live, "SLOW:200", "--no-wait")
        p = house.start("watch", live)
        seen = b""
        while b"3 " not in seen:
            seen += os.read(p.stdout.fileno(), 4096)
        p.send_signal(signal.SIGINT)
        o, e = p.communicate(timeout=LONG)
        back = re.search(rb"ostler watch %s --from (\d+)" % live.encode(), e)
        t.ok("ctrl-c-leaves-and-says-how-to-come-back", p.returncode == 130 and back, (p.returncode, e))
        t.eq("and-the-agent-goes-on", house.info(live)["status"], "running")
        p = house.start("--json", "watch", live, "--from", back.group(1).decode())
        line = json.loads(p.stdout.readline())
        t.eq("coming-back-goes-on-exactly-there", line["record"], int(back.group(1)))
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=LONG)
        t.eq("a-signal-is-told-as-a-shell-would", p.returncode, 128 + 15)
        house.good("interrupt", live, "--stop")
    finally:
        house.down()


@area("sessions-queue")
def queue(t):
    house = House(t)
    try:
        id = house.new()
        first = house.json("send", id, "SLOW:8 one", "--no-wait")
        second = house.json("send", id, "two", "--no-wait")
        third = house.start("send", id, "three")
        t.ok("the-third-waits", wait_for(lambda: house.info(id).get("queued") == 2 or third.poll() is not None, LONG, 0.05))
        t.eq("positions-are-told", (first["position"], second["position"]), (0, 1))
        o, e = third.communicate(timeout=LONG)
        t.ok("send-follows-only-its-own-answer", third.returncode == 0 and b"three" in o and b"two" not in o and b"8 " not in o, (o, e))
        t.ok("and-says-that-it-waits", b"2 of those that wait" in e, e)
        turns = [e["number"] for e in house.events(id) if e["type"] == "turn"]
        t.eq("turns-run-in-order", turns, [1, 2, 3])
        house.good("send", id, "SLOW:500", "--no-wait")
        house.good("send", id, "never", "--no-wait")
        waiting = house.start("send", id, "never either")
        wait_for(lambda: house.info(id).get("queued") == 2, LONG, 0.05)
        rc, o, e = house("interrupt", id, "--clear-queue")
        t.ok("interrupt-clears-the-queue", rc == 0 and "interrupted" in o, (rc, o, e))
        o, e = waiting.communicate(timeout=LONG)
        t.ok("a-dropped-prompt-is-exit-1-and-says-so", waiting.returncode == 1 and b"not answered" in e, (waiting.returncode, o, e))
        house.until(id, "interrupted")
        t.ok("dropped-prompts-never-ran", "never" not in "".join(house.texts(id)), house.texts(id))
        rc, o, e = house("send", id, "again")
        t.ok("after-an-interrupt-it-goes-on", rc == 0 and "again" in o, (rc, o, e))
        p = house.start("send", id, "SLOW:500 long")
        wait_for(lambda: house.info(id)["status"] == "running", LONG, 0.05)
        house.good("interrupt", id)
        p.communicate(timeout=LONG)
        t.eq("an-interrupted-turn-is-exit-1", p.returncode, 1)
    finally:
        house.down()


@area("sessions-keys")
def keys(t):
    house = House(t)
    try:
        id = house.new()
        house.good("send", id, "only once", "--key", "k1")
        rc, o, e = house("send", id, "only once", "--key", "k1")
        t.ok("the-same-key-shows-the-same-answer", rc == 0 and "only once" in o and "sent before" in e, (rc, o, e))
        again = house.json("send", id, "only once", "--key", "k1", "--no-wait")
        t.ok("and-says-again", again["again"] and again["number"] == 1, again)
        t.eq("and-runs-once", house.texts(id), ["only once"])
        a, b = (house.json("new", "echo", "--key", "mine")["id"] for _ in range(2))
        t.eq("the-same-key-is-the-same-session", a, b)
        os.kill(house.daemon_pid(), signal.SIGKILL)
        wait_for(lambda: house("status")[0] == 0, LONG, 0.2)
        t.eq("also-after-a-crash", house.json("new", "echo", "--key", "mine")["id"], a)
        again = house.json("send", id, "only once", "--key", "k1", "--no-wait")
        t.ok("prompts-too", again["again"] and again["number"] == 1, again)
        wire = Wire(house.socket())
        one, two = (wire.call("session.interrupt", id=id, key="i1") for _ in range(2))
        t.ok("any-verb-twice-is-one", "result" in one and "result" in two, (one, two))
        changed = wire.call("session.change", id=id, name="renamed", autonomy="all", key="c1")["result"]
        t.eq("change-changes", (changed["name"], changed["autonomy"]), ("renamed", "all"))
        t.ok("autonomy-all-asks-nobody", "── done" in house.good("send", "renamed", "ASK then"), house.texts(id))
    finally:
        house.down()


@area("sessions-requests")
def requests(t):
    house = House(t)
    try:
        id = house.new()
        house.good("send", id, "ASK please", "--no-wait")
        approval = house.waiting(id)
        t.ok("sessions-says-what-it-waits-for", approval in house.good("sessions"), house.good("sessions"))
        p = house.start("watch", id)
        seen = b""
        while b"ostler deny" not in seen:
            seen += os.read(p.stdout.fileno(), 4096)
        t.ok("watch-says-what-to-type", b"ostler approve %s" % approval.encode() in seen, seen)
        p.kill()
        p.communicate()
        rc, o, e = house("approve", approval)
        t.ok("no-terminal-no-yes", rc == 5, (rc, o, e))
        rc, o, e = house("run", "--", house.program, "approve", approval)
        t.ok("a-hosted-process-may-not-decide", rc == 5, (rc, o, e))
        rc, o, e = house("run", "--", house.program, "send", house.new(), "from inside")
        t.ok("but-it-may-talk-to-agents", rc == 0 and "from inside" in o, (rc, o, e))
        seen, code = approved(house, approval)
        t.ok("approve-on-a-terminal", code == 0, (seen, code))
        t.ok("the-tool-is-shown-readably", "echo wants to use pretend" in seen and "what: write a file" in seen, seen)
        house.until(id, "idle")
        t.ok("the-agent-heard-the-yes", any(e["type"] == "tool_result" and not e["is_error"] for e in house.events(id)), house.events(id)[-6:])
        house.good("send", id, "ASK again", "--no-wait")
        denied = house.waiting(id)
        term = Terminal(house, "deny", denied, "--message", "not that")
        t.eq("deny-on-a-terminal", term.wait(), 0)
        house.until(id, "idle")
        t.ok("the-agent-heard-the-no", any(e["type"] == "tool_result" and "not that" in e["output"] for e in house.events(id)), house.events(id)[-6:])
        house.good("send", id, "QUESTION one", "--no-wait")
        question = house.waiting(id)
        term = Terminal(house, "approve", question)
        rc = term.wait()
        t.ok("a-question-has-no-yes", rc == 2 and b"--answer" in term.seen, (rc, term.seen))
        seen, code = approved(house, question, "--answer", "colour=red")
        t.ok("answer-on-the-command-line", code == 0, (seen, code))
        house.until(id, "idle")
        t.ok("the-agent-heard-the-answer", "You chose red." in house.texts(id), house.texts(id))
        house.good("send", id, "QUESTION two", "--no-wait")
        house.waiting(id)
        screen = Tmux(house, house.program, "approvals")
        try:
            screen.until("Which colour?", "1 red", "2 blue", "the number of a choice")
            screen.keys("2")
            t.ok("answer-in-the-inbox", wait_for(lambda: "You chose blue." in house.texts(id), LONG, 0.2), (house.texts(id), screen.screen()))
            house.good("send", id, "QUESTION and words", "--no-wait")
            house.waiting(id)
            screen.until("applied")
            screen.keys("Enter")
            screen.until("the number of a choice")
            screen.keys("t")
            screen.until("Enter answers")
            screen.keys("-l", "green, no: yellow")
            screen.until("no: yellow_")
            screen.keys("Enter")
            t.ok("and-in-words-of-ones-own", wait_for(lambda: "You chose green, no: yellow." in house.texts(id), LONG, 0.2), screen.screen())
        finally:
            screen.close()
        house.good("send", id, "QUESTION three", "--no-wait")
        third = house.waiting(id)
        house.good("interrupt", id)
        house.until(id, "interrupted")
        t.ok("an-interrupted-turn-takes-its-question-back",
             wait_for(lambda: all(a["id"] != third for a in house.json("approvals", "--list")), LONG, 0.1))
    finally:
        house.down()


@area("sessions-crash")
def crash(t):
    house = House(t)
    try:
        id = house.new()
        house.good("send", id, "SLOW:25 through it all", "--no-wait")
        watcher = house.start("--json", "watch", id)
        follower = house.start("send", id, "after the crash")
        wait_for(lambda: house.info(id).get("queued") == 1, LONG, 0.1)
        for _ in range(2):
            pid = house.daemon_pid()
            before = house.info(id)["last"]
            wait_for(lambda: house.info(id).get("last", 0) > before + 2, LONG, 0.1)
            os.kill(pid, signal.SIGKILL)
            t.ok("the-daemon-comes-back", wait_for(lambda: house("status")[0] == 0 and house.daemon_pid() != pid, LONG, 0.2))
        o, e = follower.communicate(timeout=LONG)
        t.ok("send-follows-through-crashes", follower.returncode == 0 and b"after the crash" in o, (follower.returncode, o, e))
        house.until(id, "idle")
        rc, o, e = house("restart")
        t.ok("restart", rc == 0, (rc, o, e))
        house.good("send", id, "and goes on")
        house.good("close", id)
        o, e = watcher.communicate(timeout=LONG)
        t.eq("a-watch-ends-with-its-session", watcher.returncode, 0)
        seen = [json.loads(line) for line in o.splitlines()]
        numbers = [r["record"] for r in seen]
        t.eq("the-watch-has-no-gap-and-nothing-twice", numbers, list(range(1, len(numbers) + 1)))
        records = house.records(id)
        t.eq("it-saw-what-the-journal-holds", [r["events"] for r in seen], [r["events"] for r in records])
        deltas = "".join(e["text"] for r in records for e in r["events"] if e["type"] == "text_delta")
        counted = "".join("%d " % n for n in range(1, 26))
        t.ok("no-word-of-the-agent-is-lost-or-doubled", deltas.startswith(counted + "SLOW:25 through it all"), deltas)
        ends = [e["reason"] for r in records for e in r["events"] if e["type"] == "turn_ended"]
        t.eq("every-turn-ended-once", ends, ["completed"] * 3)
        waiting = house.new()
        house.good("send", waiting, "ASK across", "--no-wait")
        approval = house.waiting(waiting)
        os.kill(house.daemon_pid(), signal.SIGKILL)
        wait_for(lambda: house("status")[0] == 0, LONG, 0.2)
        t.eq("a-request-waits-through-a-crash", house.waiting(waiting), approval)
        approved(house, approval)
        house.until(waiting, "idle")
        t.eq("and-its-answer-arrives-once", sum(e["type"] == "answered" for e in house.events(waiting)), 1)
    finally:
        house.down()


@area("sessions-worktree")
def worktree(t):
    house = House(t)
    try:
        repo = house.dir + "/repo"
        trap = house.dir + "/trapped"

        def git(*args, at=repo):
            return subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"] + list(args),
                                  cwd=at, env=house.env, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()
        os.makedirs(repo + "/sub")
        git("init", "-q", "-b", "main")
        with open(repo + "/sub/a.txt", "w") as f:
            f.write("1\n")
        git("add", "-A")
        git("commit", "-qm", "first")
        hook = repo + "/.git/hooks/post-checkout"
        with open(hook, "w") as f:
            f.write("#!/bin/sh\ntouch %s\n" % trap)
        os.chmod(hook, 0o755)
        git("config", "core.fsmonitor", "touch %s; false" % trap)
        clean = house.json("new", "echo", repo + "/sub", "--name", "Clean One", "--worktree")
        t.ok("its-folder-is-the-same-place-in-the-tree", clean["workspace"] == clean["worktree"] + "/sub" and os.path.exists(clean["workspace"] + "/a.txt"), clean)
        t.ok("beneath-the-state-folder", clean["worktree"].startswith(house.state), clean["worktree"])
        branches = git("branch", "--list", "ostler/*")
        t.ok("on-a-branch-of-its-own", "ostler/Clean-One-" in branches, branches)
        t.ok("the-repository-runs-nothing", not os.path.exists(trap))
        rc, o, e = house("close", "Clean One")
        t.ok("a-clean-tree-goes-with-its-session", rc == 0 and not os.path.exists(clean["worktree"]), (rc, o, e))
        t.ok("and-so-does-its-branch", "ostler/Clean" not in git("branch", "--list"), o)
        dirty = house.json("new", "echo", repo, "--worktree", "feature")
        with open(dirty["worktree"] + "/new.txt", "w") as f:
            f.write("work\n")
        rc, o, e = house("close", dirty["id"])
        t.ok("changes-stay-and-are-told", rc == 0 and dirty["worktree"] in o and "not committed" in o and os.path.exists(dirty["worktree"] + "/new.txt"), (rc, o, e))
        t.ok("and-so-does-the-branch-that-was-named", "feature" in git("branch", "--list"))
        t.ok("closing-runs-nothing-either", not os.path.exists(trap))
        trees = os.listdir(house.state + "/instances/main/worktrees")
        one, two = (house.json("new", "echo", repo, "--worktree", "--key", "t")["worktree"] for _ in range(2))
        t.eq("the-same-key-makes-one-tree", (one, len(os.listdir(house.state + "/instances/main/worktrees"))), (two, len(trees) + 1))
        rc, o, e = house("new", "echo", repo, "--worktree", "feature")
        t.ok("a-branch-that-is-there-is-an-error-of-git", rc == 1 and "feature" in e, (rc, o, e))
        rc, o, e = house("new", "echo", "--worktree", repo)
        t.ok("a-path-is-no-branch", rc == 2 and "ostler new echo" in e, (rc, o, e))
    finally:
        house.down()


@area("sessions-watchers")
def watchers(t):
    house = House(t)
    try:
        id = house.new()
        path = house.socket()
        silent = Wire(path)
        silent.call("session.watch", id=id)
        wires = [Wire(path) for _ in range(100)]
        for wire in wires:
            answer = wire.call("session.watch", id=id)
            if "result" not in answer:
                raise Fail("watch: %s" % answer)
        memory = lambda: int(re.search(r"VmRSS:\s+(\d+)", open("/proc/%d/status" % house.daemon_pid()).read()).group(1))
        before = memory()
        for _ in range(5):
            house.good("send", id, " ".join("word%d" % n for n in range(400)))
        last = house.info(id)["last"]
        want = None
        same = 0
        for wire in wires:
            got = [(r["record"], r["events"]) for r in wire.records(last)]
            want = want or got
            same += got == want and [n for n, _ in got] == list(range(1, last + 1))
        t.eq("a-hundred-watchers-see-the-same", same, 100)
        t.ok("there-was-something-to-see", last > 2000, last)
        # a hundred connections hold what a socket and a bounded buffer hold, not the stream
        t.ok("and-cost-little", memory() - before < 60 * 1024, (before, memory()))
        rest = silent.records(last)
        t.eq("who-did-not-read-finds-everything", [r["record"] for r in rest], list(range(1, last + 1)))
        again = wires[0].call("session.watch", id=id)
        t.eq("one-watch-for-each-connection", again.get("error", {}).get("data", {}).get("kind"), "refused")
        t.ok("unwatch-and-watch-again", "result" in wires[0].call("session.unwatch", watch=1) and
             wires[0].call("session.watch", id=id, **{"from": last}).get("result", {}).get("from") == last)
        t.eq("and-goes-on-there", wires[0].records(last)[0]["record"], last)
        t.eq("unwatching-nothing-is-not-found", wires[1].call("session.unwatch", watch=9)["error"]["data"]["kind"], "not_found")
        doc = wires[1].call("rpc.discover")["result"]
        names = {m["name"] for m in doc["methods"]}
        t.ok("the-description-has-every-method", {"session.%s" % m for m in ("create", "list", "get", "prompt", "interrupt", "change",
             "close", "forget", "watch", "unwatch", "raw")} <= names, sorted(names))
        t.ok("and-every-notification", {"session.events", "session.gap", "session.lost"} <= {n["name"] for n in doc["x-notifications"]})
    finally:
        house.down()
