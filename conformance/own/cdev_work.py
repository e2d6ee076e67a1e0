"""The cdev door at work: what a prompt, an id, a path and a branch can not do; one agent for all doors; and events that nobody misses,
asleep, killed or flooded."""
import json
import os
import shutil
import signal
import subprocess
import time

from cdev_kit import Cdev, Socket
from approvals_kit import LONG, House
from kit import proc_bytes
from lib import Fail, area, wait_for

FAKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cdev", "fake_claude.py")


def git(repo, *words):
    done = subprocess.run(["git", "-C", repo, "-c", "user.name=T", "-c", "user.email=t@example.invalid", *words], capture_output=True, text=True)
    if done.returncode:
        raise Fail("git %s: %s" % (words, done.stderr))
    return done.stdout.strip()


class Desk(Cdev):
    """A server with a repository, the fake claude, and a phone that is paired."""

    def __init__(self, t, *flags):
        super().__init__(t, *flags, start=False)
        self.fakes = self.dir + "/fakes"
        os.makedirs(self.fakes)
        self.claude = self.fakes + "/claude"
        shutil.copy(FAKE, self.claude)
        os.chmod(self.claude, 0o755)
        self.more["CDEV_CLAUDE_COMMAND"] = self.claude
        git(self.dir, "init", "-q", "-b", "main", self.repo)
        git(self.repo, "config", "user.name", "T")
        git(self.repo, "config", "user.email", "t@example.invalid")
        with open(self.repo + "/README.md", "w") as f:
            f.write("hello\n")
        with open(self.dir + "/secret.txt", "w") as f:
            f.write("SECRET\n")
        os.symlink("../secret.txt", self.repo + "/link_out")
        git(self.repo, "add", "-A")
        git(self.repo, "commit", "-qm", "first")
        self.start()
        self.device = self.port.paired()
        self.access = self.device["access_token"]

    def renewed(self):
        """A fresh access token."""
        answer = self.port("POST", "/api/auth/refresh", {"refresh_token": self.device["refresh_token"]})
        self.device = answer.json
        self.access = self.device["access_token"]

    def phone(self, after=None):
        return Phone(self, after)

    def noted(self, event):
        """What the fake claude noted."""
        try:
            with open(self.fakes + "/claude.log") as f:
                return [row for row in map(json.loads, f) if row["event"] == event]
        except FileNotFoundError:
            return []

    def idle(self, phone):
        done = lambda: phone.ok("status/get")["claude_state"] in ("idle", "stopped", "error")
        if not wait_for(done, LONG, 0.1):
            raise Fail("the agent does not end")


class Phone(Socket):
    """One WebSocket; events are kept as they come."""

    def __init__(self, desk, after=None):
        super().__init__(desk.port.port, desk.access)
        if self.status != 101:
            raise Fail("not let in: %d" % self.status)
        self.events = []
        self.gap = None
        if after is not None:
            said = self.call("events/resume", {"after": after})
            self.gap = said.get("result", said).get("gap")

    def hear(self):
        said = super().hear()
        if isinstance(said, dict) and str(said.get("method", "")).startswith("event/"):
            self.events.append(said["params"])
        return said

    def ok(self, method, params=None):
        said = self.call(method, params)
        if "error" in said:
            raise Fail("%s: %s" % (method, said["error"]))
        return said["result"]

    def code(self, method, params=None):
        return self.call(method, params).get("error", {}).get("data", {}).get("code")

    def until(self, kind, wanted=lambda e: True, within=LONG):
        """The next event of this kind that fits, from those that came already on."""
        at = 0
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            while at < len(self.events):
                if self.events[at]["event"] == kind and wanted(self.events[at]):
                    return self.events[at]
                at += 1
            if self.hear() is None:
                break
        raise Fail("no %s came; these did: %s" % (kind, sorted({e["event"] for e in self.events})))

    def told(self):
        """What is on record: events with a position, in their order."""
        return [e for e in self.events if "position" in e and e["event"].startswith("claude_")]


def resident(desk):
    """The memory of the server, in bytes."""
    status = proc_bytes(desk.p.pid, "status").decode()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def key(event):
    return event["position"], event["event"], event.get("line") or event.get("state")


@area("cdev-nothing-but-text")
def injection(t):
    desk = Desk(t)
    try:
        phone = desk.phone()
        for prompt in ("--version CONF:simple", "-p CONF:simple", "!touch pwned CONF:simple", "! touch pwned; CONF:simple"):
            phone.ok("agent/run", {"prompt": prompt})
            desk.idle(phone)
            t.eq("a-prompt-is-text-%s" % prompt.split()[0], desk.noted("prompt")[-1]["prompt"], prompt)
        t.ok("no-prompt-runs-a-shell", not os.path.exists(desk.repo + "/pwned"))
        head = git(desk.repo, "rev-parse", "HEAD"), git(desk.repo, "branch", "--list")
        for branch in ("--orphan=evil", "-bevil", "--detach", "-", "README.md", "HEAD~0", "@{-1}"):
            t.ok("no-branch-is-an-option-or-a-path-%s" % branch, "error" in phone.call("git/checkout", {"branch": branch}), branch)
        t.eq("and-nothing-moved", (git(desk.repo, "rev-parse", "HEAD"), git(desk.repo, "branch", "--list")), head)
        for path in ("../secret.txt", "../../../../../../etc/passwd", "link_out", "/etc/passwd", "src/../../secret.txt"):
            said = json.dumps([phone.call(m, {"path": path}) for m in ("git/diff", "file/get")])
            t.ok("no-file-outside-is-shown-%s" % path, "SECRET" not in said and "root:" not in said, said)
        for path in ("../secret.txt", "/etc/passwd"):
            t.eq("what-leads-out-is-called-so-%s" % path, phone.code("file/get", {"path": path}), "PATH_TRAVERSAL")
        folder = desk.env["HOME"] + "/.claude/projects"
        os.makedirs(folder, exist_ok=True)
        with open(folder + "/evil.jsonl", "w") as f:
            f.write(json.dumps({"type": "user", "uuid": "u", "message": {"role": "user", "content": "SECRET"}}) + "\n")
        for id in ("../evil", "..%2fevil", folder + "/evil", "x/../../evil", "../evil.jsonl\0"):
            for method in ("session/get", "session/messages", "session/elements", "session/watch"):
                t.eq("an-id-is-no-path-%s-%s" % (method, id[:12]), phone.code(method, {"session_id": id}), "SESSION_NOT_FOUND")
            t.eq("nor-is-one-to-go-on-with-%s" % id[:12], phone.code("agent/run", {"prompt": "x", "mode": "continue", "session_id": id}), "SESSION_NOT_FOUND")
        index = [os.path.join(d, f) for d, _, fs in os.walk("/tmp/cdev") for f in fs] if os.path.isdir("/tmp/cdev") else []
        t.eq("nothing-of-it-is-in-a-folder-that-others-read", index, [])
    finally:
        desk.down()


@area("cdev-one-agent")
def agent(t):
    desk = Desk(t)
    try:
        one, two = desk.phone(), desk.phone()
        one.ok("agent/run", {"prompt": "CONF:permission"})
        asked = two.until("claude_permission")
        t.eq("every-phone-is-asked", asked["tool_use_id"], one.until("claude_permission")["tool_use_id"])
        t.eq("and-waiting-is-said", two.until("claude_status", lambda e: e["state"] == "waiting")["state"], "waiting")
        t.eq("also-to-who-asks", two.ok("permission/pending")["requests"][0]["tool_use_id"], asked["tool_use_id"])
        t.eq("one-agent-at-a-time", two.code("agent/run", {"prompt": "CONF:simple"}), "CLAUDE_ALREADY_RUNNING")
        t.eq("a-word-that-is-neither-yes-nor-no-is-none", two.code("agent/respond", {"tool_use_id": asked["tool_use_id"], "response": "maybe"}), "INVALID_PAYLOAD")
        two.ok("agent/respond", {"tool_use_id": asked["tool_use_id"], "response": "approved"})
        t.eq("the-other-hears-that-it-is-answered", one.until("claude_permission_resolved")["decision"], "allow")
        t.eq("an-answer-counts-once", "error" in one.call("agent/respond", {"tool_use_id": asked["tool_use_id"], "response": "denied"}), True)
        desk.idle(one)
        t.ok("and-was-carried-out", os.path.exists(desk.repo + "/made_by_claude.txt"))
        one.ok("agent/run", {"prompt": "CONF:slow"})
        pid = one.until("claude_status", lambda e: e["state"] == "running" and e["prompt"] == "CONF:slow")["pid"]
        one.until("claude_log", lambda e: '"tick 1"' in e["line"])
        t.eq("stop-ends-it", two.ok("agent/stop")["status"], "stopped")
        t.ok("with-a-polite-signal-first", wait_for(lambda: [r for r in desk.noted("sigterm") if r["pid"] == pid], LONG, 0.1), desk.noted("sigterm"))
        t.eq("and-says-so", one.until("claude_status", lambda e: e["state"] == "stopped")["state"], "stopped")
        t.eq("there-is-nothing-to-stop-then", one.code("agent/stop"), "CLAUDE_NOT_RUNNING")
        answers = []
        for phone in (one, two):
            phone.count += 1
            phone.send(json.dumps({"jsonrpc": "2.0", "id": phone.count, "method": "agent/run", "params": {"prompt": "CONF:slow"}}))
        for phone in (one, two):
            while (said := phone.hear()).get("id") != phone.count:
                pass
            answers.append("error" in said)
        t.eq("two-at-the-same-moment-begin-one", sorted(answers), [False, True])
        one.ok("agent/stop")
    finally:
        desk.down()


@area("cdev-resume")
def resume(t):
    desk = Desk(t)
    try:
        awake = desk.phone()
        awake.ok("agent/run", {"prompt": "CONF:simple"})
        awake.until("claude_status", lambda e: e["state"] == "idle")
        all = awake.told()
        kinds = {e["event"] for e in all}
        t.ok("a-turn-is-told-whole", {"claude_log", "claude_message", "claude_status", "claude_session_info"} <= kinds, kinds)
        t.eq("no-event-comes-twice", len({key(e) for e in all}), len(all))
        streams = [e["stream"] for e in all if e["event"] == "claude_log"]
        t.ok("both-streams-are-told", "stderr" in streams and "stdout" in streams, streams)
        for at in range(len(all) - 1):
            back = desk.phone(all[at]["position"])
            back.until("claude_status", lambda e: e["position"] == all[-1]["position"])
            if not t.eq("who-comes-back-goes-on-after-%d-%s" % (at, all[at]["event"]), [key(e) for e in back.told()], [key(e) for e in all[at + 1:]]):
                break
            back.close()
        desk.p.send_signal(signal.SIGKILL)
        desk.p.wait(LONG)
        desk.start()
        back = desk.phone(all[3]["position"])
        back.until("claude_status", lambda e: e["position"] == all[-1]["position"])
        t.eq("also-after-the-server-was-killed", ([key(e) for e in back.told()], back.gap), ([key(e) for e in all[4:]], None))
        lost = desk.phone("99999999.0-00000000")
        t.ok("a-position-of-elsewhere-is-a-gap", lost.gap and lost.gap["reason"] == "lost", lost.gap)
        t.eq("and-the-stream-says-so", lost.until("events_gap")["reason"], "lost")
        t.eq("no-position-at-all-is-refused", desk.phone().code("events/resume", {"after": "yesterday"}), "INVALID_PAYLOAD")
    finally:
        desk.down()


@area("cdev-answers-as-events")
def repeated(t):
    desk = Desk(t)
    try:
        plain, old = desk.phone(), desk.phone()
        old.ok("initialize", {"capabilities": {"notifications": ["file_content", "status_response", "error"]}})
        for phone in (plain, old):
            phone.call("file/get", {"path": "README.md"})
            phone.call("status/get")
            phone.call("file/get", {"path": "no/such"})
            phone.ok("session/list")
        t.eq("nobody-hears-an-answer-twice-unasked", {e["event"] for e in plain.events} & {"file_content", "status_response", "error"}, set())
        t.eq("who-names-them-does", (old.until("file_content")["content"], old.until("status_response")["claude_state"]), ("hello\n", "idle"))
        said = old.until("error")
        t.eq("an-error-has-its-word-and-its-request", (said["code"], said["request_id"] != "", said["details"]["path"]), ("FILE_NOT_FOUND", True, "no/such"))
        t.eq("and-hears-nothing-else", {e["event"] for e in old.events} - {"file_content", "status_response", "error", "session_start"}, set())
    finally:
        desk.down()


@area("cdev-killed-again-and-again")
def killed(t):
    """A turn goes on while the server dies under it; phones that resume by position miss nothing and hear nothing twice."""
    desk = Desk(t)
    rounds = int(os.environ.get("CDEV_KILLS", "3"))
    try:
        phone = desk.phone()
        phone.ok("agent/run", {"prompt": "CONF:slow"})
        first = phone.until("claude_log", lambda e: "tick 1" in e["line"])
        phones = [phone] + [desk.phone(first["position"]) for _ in range(3)]
        heard = [list(p.told()) for p in phones]
        heard[1:] = [[e for e in heard[0][: heard[0].index(first) + 1]] for _ in phones[1:]]
        for n in range(rounds):
            desk.p.send_signal(signal.SIGKILL)
            desk.p.wait(LONG)
            for p, h in zip(phones, heard):
                known = {key(e) for e in h}
                while p.hear() is not None:
                    pass
                h.extend(e for e in p.told() if key(e) not in known)
            desk.start()
            phones = [desk.phone(h[-1]["position"]) for h in heard]
            for p, h in zip(phones, heard):
                p.until("claude_log", lambda e: "tick" in e["line"])
                h.extend(p.told())
                p.events.clear()
        phones[0].ok("agent/stop")
        for p, h in zip(phones, heard):
            p.until("claude_status", lambda e: e["state"] == "stopped")
            h.extend(p.told())
        for n, h in enumerate(heard):
            ticks = [int(json.loads(e["line"])["message"]["content"][0]["text"].split()[1]) for e in h if e["event"] == "claude_log" and '"tick ' in e["line"]]
            t.eq("phone-%d-misses-nothing-and-hears-nothing-twice" % n, ticks, list(range(len(ticks))))
            t.eq("phone-%d-has-every-event-once" % n, len({key(e) for e in h}), len(h))
    finally:
        desk.down()


@area("cdev-flood")
def flood(t):
    """A flood of lines to a phone that reads and one that sleeps."""
    desk = Desk(t)
    count = int(os.environ.get("CDEV_FLOOD", "3000"))
    try:
        fast, asleep = desk.phone(), desk.phone()
        begun = asleep.ok("status/get") and asleep.call("events/subscribe", {})
        before = resident(desk)
        fast.ok("agent/run", {"prompt": "CONF:flood=%d" % count})
        start = fast.until("claude_status", lambda e: e["state"] == "running")
        fast.until("claude_status", lambda e: e["state"] == "idle", LONG + count / 50)
        lines = [e for e in fast.told() if e["event"] == "claude_log" and "flood " in e["line"]]
        numbers = [int(json.loads(e["line"])["message"]["content"][0]["text"].split()[1]) for e in lines]
        t.eq("the-fast-one-gets-every-line-in-order", numbers, list(range(count)))
        t.ok("the-sleeper-costs-no-memory", resident(desk) - before < 64 << 20, resident(desk) - before)
        asleep.close()
        back = desk.phone(start["position"])
        back.until("claude_status", lambda e: e["state"] == "idle", LONG + count / 50)
        again = [e["position"] for e in back.told() if e["event"] == "claude_log" and "flood " in e["line"]]
        t.eq("and-finds-all-of-it-when-it-wakes", (again, back.gap, begun["result"]["success"]), ([e["position"] for e in lines], None, True))
    finally:
        desk.down()


@area("cdev-across-doors")
def doors(t):
    """One engine: a phone answers what a terminal began, and both see it."""
    house = House(t).up()
    cdev = None
    try:
        cdev = Desk.joining(house)
        cdev.device = cdev.port.paired()
        cdev.access = cdev.device["access_token"]
        phone = Phone(cdev)
        phone.ok("status/get")
        id = house.json("new", "echo", cdev.repo)["id"]
        house.good("send", id, "ASK please", "--no-wait")
        asked = phone.until("claude_permission")
        t.ok("a-phone-is-asked-what-a-terminal-began", asked["tool_use_id"] and asked["agent_type"] == "echo", asked)
        t.eq("the-inbox-has-the-same", [a["id"] for a in house.waiting()], [asked["approval_id"]])
        phone.ok("agent/respond", {"tool_use_id": asked["tool_use_id"], "response": "approved"})
        t.ok("its-answer-counts-there", wait_for(lambda: house.pending() == [], LONG, 0.1), house.pending())
        t.eq("and-its-turn-goes-on", phone.until("claude_status", lambda e: e["state"] == "idle")["agent_type"], "echo")
    finally:
        if cdev:
            cdev.stop()
        house.down()
