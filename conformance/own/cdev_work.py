"""The cdev door at work: what a prompt, an id, a path and a branch can not do; one agent for all doors; and events that nobody misses,
asleep, killed or flooded."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

from cdev_kit import Cdev, Socket
from approvals_kit import LONG, House, approved
from codecast_kit import suite as codecast
from devices_kit import Guests, paired
from kit import proc_bytes
from lib import Fail, area, wait_for
from zeroclaw import Client as Zeroclaw

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
        self.more.update(CDEV_CLAUDE_COMMAND=self.claude, TMPDIR=self.dir + "/tmp")
        os.makedirs(self.dir + "/tmp")
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
            raise Fail("not let in: %d %s" % (self.status, self.refusal))
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
        for query in ("", "?session_id=../evil", "?session_id=evil"):
            t.ok("nobody-deletes-a-session-by-its-name-%s" % query, desk.port("DELETE", "/api/claude/sessions" + query, token=desk.access).status == 405 and os.path.exists(folder + "/evil.jsonl"))
        found = phone.ok("repository/search", {"query": "readme"})["results"]
        t.ok("there-is-an-index", [f["path"] for f in found] == ["README.md"] and wait_for(lambda: phone.ok("repository/index/status")["status"] == "ready", LONG, 0.1), found)
        below = [os.path.join(d, name) for d, ds, fs in os.walk(desk.state) for name in ds + fs]
        open_to = [path for path in below + [desk.state] if not os.path.islink(path) and os.lstat(path).st_mode & 0o077]
        t.ok("nothing-of-it-is-for-others-to-read", len(below) > 5 and open_to == [], open_to)
        t.eq("nor-in-a-folder-for-what-is-temporary", os.listdir(desk.more["TMPDIR"]), [])
    finally:
        desk.down()


@area("cdev-shell")
def shell(t):
    """A prompt that begins with ! is a command line by setting and by right, and by neither alone."""
    house = Guests(t)
    house.env.update(OSTLER_CDEV_SHELL="true")
    house.up()
    cdev = None
    try:
        repo = house.dir + "/project"
        os.makedirs(repo)
        house.good("new", "echo", repo)
        tokens = {name: paired(house, name, "--rights", rights)["tokens"]["access"] for name, rights in (("full", "full"), ("work", "work"))}
        at = lambda name: int(next(d["address"] for d in house.record()["doors"] if d["name"] == name).rsplit(":", 1)[1])
        run = lambda port, who, line: Socket(port, tokens[who]).call("agent/run", {"prompt": line, "agent_type": "echo"})
        unconfirmed = run(at("cdev"), "full", "!touch unconfirmed")
        t.ok("a-setting-that-nobody-confirmed-is-none", unconfirmed["result"]["agent_type"] == "echo" and not os.path.exists(repo + "/unconfirmed"), unconfirmed)
        cdev = Cdev.joining(house)
        text = run(cdev.port.port, "full", "!touch text")
        t.ok("without-the-setting-it-is-text", text["result"]["agent_type"] == "echo" and not os.path.exists(repo + "/text"), text)
        cdev.stop()
        cdev = Cdev.joining(house, CDEV_SECURITY_SHELL_PROMPTS="true")
        port = cdev.port.port
        done = run(port, "full", "! echo said; pwd; exit 3")["result"]
        t.eq("with-setting-and-right-it-runs-and-says-how-it-ended", (done["agent_type"], done["status"], done["exit_code"], done["output"].split()), ("shell", "completed", 3, ["said", os.path.realpath(repo)]))
        t.ok("as-a-process-like-every-other", any(p["id"] == done["session_id"] for p in house.json("ps", "-a")), house.json("ps", "-a"))
        slow = run(port, "full", "!sleep 60")["result"]
        t.eq("what-takes-longer-goes-on", (slow["status"], "exit_code" in slow), ("started", False))
        house.good("kill", slow["session_id"])
        without = run(port, "work", "!touch without")
        t.ok("without-the-right-it-is-refused", without["error"]["data"]["code"] == "FORBIDDEN" and not os.path.exists(repo + "/without"), without)
        t.eq("no-folder-is-added-without-the-right", Socket(port, tokens["work"]).call("workspace/add", {"path": house.dir})["error"]["data"]["code"], "FORBIDDEN")
        house.good("new", "echo", house.dir)
        asked = lambda who, method, **more: Socket(at("cdev"), tokens[who]).call(method, dict(more, workspace_id=house.dir)).get("error", {}).get("data", {}).get("code")
        t.eq("home-is-no-workspace-of-a-device-although-somebody-works-there", [asked("work", "agent/run", prompt="x", agent_type="echo"), asked("work", "file/list"), asked("full", "file/list")], ["FORBIDDEN", "FORBIDDEN", None])
        t.ok("and-on-record", any("agent/run" in json.dumps(row) for row in house.audit("attempted")), house.audit("attempted"))
    finally:
        if cdev:
            cdev.stop()
        house.down()


@area("cdev-elements")
def elements(t):
    """`total` counts what is drawn, and goes on from where it was counted to."""
    desk = Desk(t)
    try:
        phone = desk.phone()
        id = "0b1f6b3e-0000-4000-8000-000000000016"
        folder = desk.env["HOME"] + "/.claude/projects/" + re.sub(r"[/.]", "-", os.path.realpath(desk.repo))
        os.makedirs(folder)
        blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "so"}, {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}]

        def turn(number):
            """A prompt and an answer of three parts."""
            for kind, content in (("user", "do it"), ("assistant", blocks)):
                line = {"type": kind, "uuid": "%s-%d" % (kind, number), "sessionId": id, "cwd": desk.repo, "timestamp": "2026-01-01T00:00:%02dZ" % number, "message": {"role": kind, "content": content}}
                with open("%s/%s.jsonl" % (folder, id), "a") as f:
                    f.write(json.dumps(line) + "\n")
        for number in range(20):
            turn(number)
        first = phone.ok("session/elements", {"session_id": id, "limit": 100})
        t.eq("as-many-as-are-drawn", (first["pagination"]["total"], len(first["elements"])), (80, 80))
        t.eq("which-is-more-than-there-are-messages", phone.ok("session/messages", {"session_id": id})["total"], 40)
        turn(20)
        again = phone.ok("session/elements", {"session_id": id, "limit": 3})["pagination"]
        t.eq("and-it-goes-on-from-there", (again["total"], again["returned"]), (84, 3))
        t.eq("who-goes-on-with-it-keeps-its-name", phone.ok("agent/run", {"prompt": "CONF:simple", "mode": "continue", "session_id": id})["session_id"], id)
        desk.idle(phone)
        t.eq("in-the-list-too-where-it-is-one", [s["session_id"] for s in phone.ok("session/list")["sessions"]], [id])
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
        over = one.until("claude_permission_resolved")
        t.eq("the-other-hears-that-it-is-answered", (over["tool_use_id"], over["decision"]), (asked["tool_use_id"], "allow"))
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


@area("cdev-git-is-told-as-it-was")
def told(t):
    """What is told of an operation is what came of it, also where that is nothing."""
    desk = Desk(t)
    try:
        phone = desk.phone()

        def after(method, params):
            phone.events.clear()
            answer = phone.call(method, params)
            return answer, phone.until("git_operation_completed")
        for name in ("a.txt", "b.txt"):
            with open(os.path.join(desk.repo, name), "w") as f:
                f.write("x\n")
        _, done = after("git/checkout", {"branch": "nobody"})
        t.eq("a-branch-that-is-not-there-was-not-switched-to", (done["success"], done["message"], done["branch"]), (False, "checkout failed", "main"))
        _, done = after("git/commit", {"message": "nothing"})
        t.eq("nothing-staged-is-nothing-committed", (done["success"], done["message"], done["files_affected"]), (False, "commit failed", 0))
        _, done = after("git/stage", {"paths": ["nope"]})
        t.eq("what-is-not-there-was-not-staged", (done["success"], done["files_affected"]), (False, 0))
        t.eq("an-empty-path-is-none", phone.code("git/stage", {"paths": [""]}), "INVALID_PAYLOAD")
        answer, done = after("git/stage", {"paths": ["."]})
        t.eq("a-dot-is-all-of-it", (answer.get("result"), done["success"]), ({"success": True, "staged": ["."]}, True))
        t.eq("staged-as-git-has-it", git(desk.repo, "diff", "--cached", "--name-only").split(), ["a.txt", "b.txt"])
        _, done = after("git/unstage", {"paths": ["."]})
        t.eq("and-taken-back", (done["success"], git(desk.repo, "diff", "--cached", "--name-only")), (True, ""))
        _, done = after("git/discard", {"paths": ["nope"]})
        t.eq("nothing-was-discarded", done["files_affected"], 0)
        answer, done = after("git/discard", {"paths": ["."]})
        t.eq("discarded-is-counted", (sorted(answer["result"]["discarded"]), done["files_affected"]), (["a.txt", "b.txt"], 2))
        kept = answer["result"]["kept"]
        answer, done = after("git/restore", {"id": kept})
        t.eq("and-put-back-as-it-was", (sorted(answer["result"]["restored"]), done["operation"], done["files_affected"], open(desk.repo + "/a.txt").read()), (["a.txt", "b.txt"], "restore", 2, "x\n"))
        answer, done = after("git/restore", {"id": kept})
        t.eq("which-it-is-once", (answer["error"]["data"]["code"], done["success"]), ("GIT_ERROR", False))
        kept = desk.port("POST", "/api/git/discard", {"paths": ["a.txt"]}, desk.access).json["kept"]
        t.eq("over-rest-too", desk.port("POST", "/api/git/restore", {"id": kept}, desk.access).json, {"success": True, "restored": ["a.txt"]})
        with open(desk.repo + "/large", "wb") as f:
            f.truncate((64 << 20) + 1)
        t.eq("more-than-is-kept-is-not-thrown-away", (phone.code("git/discard", {"paths": ["large"]}), os.path.exists(desk.repo + "/large")), ("GIT_ERROR", True))
        answer = phone.ok("git/discard", {"paths": ["large"], "without_keeping": True})
        t.eq("unless-nothing-need-be-kept", (answer, os.path.exists(desk.repo + "/large")), ({"success": True, "discarded": ["large"]}, False))
    finally:
        desk.down()


@area("cdev-as-todays-clients-say-it")
def today(t):
    """What is called otherwise than in the document is the same; what is left out is not there."""
    desk = Desk(t)
    try:
        phone = desk.phone()
        first = phone.ok("agent/run", {"prompt": "CONF:simple"})["session_id"]
        desk.idle(phone)
        which = {"session_id": first, "limit": 2}
        for name, usual, params in (("workspace/session/history", "session/history", {}), ("workspace/session/messages", "session/messages", which), ("workspace/session/watch", "session/watch", which),
                                    ("workspace/session/unwatch", "session/unwatch", which), ("workspace/files/list", "file/list", {}), ("workspace/file/get", "file/get", {"path": "README.md"})):
            said = [{k: v for k, v in phone.ok(method, params).items() if k != "query_time_ms"} for method in (name, usual)]
            t.eq(name, said[0], said[1])
        second = phone.ok("agent/run", {"prompt": "CONF:slow"})["session_id"]
        t.eq("another-session-is-not-made-current-while-one-works", phone.code("workspace/session/activate", {"session_id": first}), "CLAUDE_ALREADY_RUNNING")
        t.eq("the-current-one-is-the-last", phone.ok("agent/status")["session_id"], second)
        phone.ok("agent/stop")
        t.eq("then-it-is", (phone.ok("workspace/session/activate", {"session_id": first})["session_id"], phone.ok("agent/status")["session_id"]), (first, first))
        for name in ("workspace/session/delete", "workspace/update", "workspace/discover", "workspace/cache/invalidate"):
            t.eq("not-there-%s" % name, phone.code(name, {"session_id": first}), "INVALID_COMMAND")
        t.eq("pictures-are-listed-as-files", [desk.port("GET", "/api/images", token=desk.access).status, phone.code("file/list", {"path": ".cdev/images"})], [405, "FILE_NOT_FOUND"])
    finally:
        desk.down()


@area("cdev-events-of-a-workspace")
def workspaces(t):
    """At the port of `ostler up` there are several folders: who names one is told of that one."""
    house = Guests(t).up()
    try:
        token = paired(house, "phone", "--rights", "work")["tokens"]["access"]
        port = int(next(d["address"] for d in house.record()["doors"] if d["name"] == "cdev").rsplit(":", 1)[1])
        folders = [house.dir + "/one", house.dir + "/two"]
        for folder in folders:
            os.makedirs(folder)
            house.good("new", "echo", folder)
        # Who waits for an answer passes over what is told meanwhile: it is asked on a socket of its own.
        one, everything, asks = Socket(port, token), Socket(port, token), Socket(port, token)
        known = {w["path"]: w["id"] for w in asks.call("workspace/list")["result"]["workspaces"]}
        t.eq("each-folder-is-one", sorted(known), folders)
        one.call("events/subscribe", {"workspaces": [known[folders[0]]]})
        everything.call("status/get")
        for folder in reversed(folders):
            asks.call("agent/run", {"prompt": "hello", "agent_type": "echo", "workspace_id": known[folder]})

        def heard(s):
            """Whose events came, until the turn in the first folder was over."""
            whose, stop = set(), time.monotonic() + LONG
            while time.monotonic() < stop and (said := s.hear()):
                told = said.get("params", {})
                whose |= {told["workspace_id"]} if "workspace_id" in told else set()
                if told.get("event") == "claude_status" and told["state"] == "idle" and told["workspace_id"] == known[folders[0]]:
                    return whose
        t.eq("who-names-none-is-told-of-both", heard(everything), set(known.values()))
        t.eq("who-names-one-is-told-of-that", heard(one), {known[folders[0]]})
        limited = Socket(port, token)
        answers = [limited.call("status/get") for _ in range(101)]
        t.ok("here-a-hundred-a-minute-are-enough-unasked", "error" not in answers[99] and answers[100]["error"]["data"]["code"] == "RATE_LIMITED", answers[100])
    finally:
        house.down()


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
        said = lost.until("events_gap")
        t.eq("and-the-stream-says-so", (said["reason"], said["oldest"]), ("lost", lost.gap["oldest"]))
        from_oldest = desk.phone(lost.gap["oldest"])
        from_oldest.until("claude_status", lambda e: e["position"] == all[-1]["position"])
        t.eq("the-oldest-it-names-is-one-to-go-on-from-and-leaves-nothing-out", (from_oldest.gap, [key(e) for e in from_oldest.told()]), (None, [key(e) for e in all]))
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
        phone.ok("agent/run", {"prompt": "CONF:slow=100000"})
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
            if any(p.gap for p in phones):
                raise Fail("after kill %d, from %s: %s" % (n, [h[-1]["position"] for h in heard], [p.gap for p in phones]))
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


class Flooded(Phone):
    """Keeps of a flood where each line is and its number; a whole one would not fit here either."""

    def __init__(self, desk, after=None):
        self.lines, self.look = [], lambda: None
        super().__init__(desk, after)

    def hear(self):
        said = super().hear()
        if self.events and (event := self.events[-1])["event"] in ("claude_log", "claude_message"):
            self.events.pop()
            if event["event"] == "claude_log" and "flood " in event["line"]:
                self.lines.append((event["position"], int(event["line"].split("flood ", 1)[1].split()[0])))
                self.look()
        return said


@area("cdev-flood")
def flood(t):
    """A flood of lines to a phone that reads and one that sleeps: the first has every line, the second costs nothing and misses nothing."""
    desk = Desk(t)
    count = int(os.environ.get("CDEV_FLOOD", "3000"))
    try:
        fast, asleep = Flooded(desk), desk.phone()
        begun = asleep.ok("status/get") and asleep.call("events/subscribe", {})
        taken = []
        fast.look = lambda: len(fast.lines) % (count // 10) == 0 and taken.append(resident(desk))
        began = time.monotonic()
        fast.ok("agent/run", {"prompt": "CONF:flood=%d" % count})
        start = fast.until("claude_status", lambda e: e["state"] == "running")
        fast.until("claude_status", lambda e: e["state"] == "idle", LONG + count / 50)
        seconds = time.monotonic() - began
        t.eq("the-fast-one-gets-every-line-in-order", [number for _, number in fast.lines], list(range(count)))
        t.ok("memory-is-flat", len(taken) == 10 and max(taken) - taken[0] < 24 << 20, taken)
        asleep.close()
        back = Flooded(desk, start["position"])
        back.until("claude_status", lambda e: e["state"] == "idle", LONG + count / 50)
        t.ok("the-sleeper-finds-all-of-it-when-it-wakes", (back.lines, back.gap, begun["result"]["success"]) == (fast.lines, None, True), (len(back.lines), back.gap))
        t.ok("and-costs-no-memory-then", resident(desk) - taken[0] < 24 << 20, (resident(desk), taken[0]))
        print("cdev: %d lines in %.1f s; RSS %.1f MB after a tenth, at most %.1f MB" % (count, seconds, taken[0] / 1e6, max(taken) / 1e6), flush=True)
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
        addresses = {d["name"]: d["address"] for d in house.record()["doors"]}
        rpc, zeroclaw = codecast.Rpc(int(addresses["codecast"].rsplit(":", 1)[1])), Zeroclaw(addresses["zeroclaw"])
        made = rpc.ok("session.create", {"path": cdev.repo, "cli_type": "echo", "mode": "ask"})["sessionId"]
        named = zeroclaw.new(cwd=cdev.repo)
        streams = []

        def begins(door):
            if door == "codecast":
                streams.append(codecast.Stream(rpc, made, "ASK please"))
            else:
                zeroclaw.prompt(named, "ASK please")
        for door, session in (("codecast", made), ("zeroclaw", named)):
            phone.events.clear()
            begins(door)
            asked = phone.until("claude_permission")
            t.eq("a-phone-is-asked-what-%s-began" % door, asked["session_id"], session)
            phone.ok("agent/respond", {"tool_use_id": asked["tool_use_id"], "response": "approved"})
            t.eq("and-%s-goes-on" % door, phone.until("claude_status", lambda e: e["state"] == "idle")["session_id"], session)
        streams[0].finish(LONG)
        phone.events.clear()
        began = phone.ok("agent/run", {"prompt": "ASK please", "agent_type": "echo"})
        listed = [(s["door"], s["workspace"]) for s in house.json("sessions") if s["uuid"] == began["session_id"]]
        t.eq("what-a-phone-began-is-in-the-list", listed, [("cdev", cdev.repo)])
        listed = {s["session_id"] for kind in ("session/list", "session/list-acp") for s in zeroclaw.ok(kind)["sessions"]}
        t.ok("and-in-zerocodes", began["session_id"] in listed, listed)
        seen, code = approved(house, house.waiting()[0]["id"])
        t.ok("a-terminal-answers-it", code == 0, (seen, code))
        t.eq("which-the-phone-is-told", phone.until("claude_permission_resolved")["decision"], "allow")
        phone.until("claude_status", lambda e: e["state"] == "idle")
    finally:
        if cdev:
            cdev.stop()
        house.down()


@area("cdev-git-says-what-was-left-out")
def left_out(t):
    """What only the repository names does not run, and the answers say so; where there is nothing of it, nothing is added."""
    desk = Desk(t)
    try:
        phone, trap = desk.phone(), desk.repo + "/../trapped"
        with open(os.path.join(desk.repo, ".gitattributes"), "w") as f:
            f.write("*.txt filter=evil diff=evil\n")
        with open(os.path.join(desk.repo, "a.txt"), "w") as f:
            f.write("x\n")
        git(desk.repo, "add", "-A")
        asked = (("git/status", {}), ("git/diff", {}), ("git/diff", {"path": "a.txt"}))
        said = lambda: [phone.ok(method, params).get("filters_left_out") for method, params in asked]
        t.eq("nothing-is-said-of-nothing", said(), [None] * 3)
        for key in ("filter.evil.clean", "diff.evil.textconv"):
            git(desk.repo, "config", key, "sh -c 'touch %s; cat'" % trap)
        t.eq("what-was-left-out-is-said", said(), [["evil"], ["evil", "diff.evil"], ["evil", "diff.evil"]])
        t.ok("and-did-not-run", not os.path.exists(trap))
    finally:
        desk.down()
