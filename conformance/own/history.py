"""`ostler history` and `ostler resume`: conversations of terminals beside our own, read while they grow, searched, taken up."""
import json
import os
import signal
import sqlite3
import stat
import subprocess
import threading
import time

from kit import Fail, anon_kib
from lib import area, wait_for
from sessions_kit import LONG, House, Wire, for_nobody

RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "crates", "agents", "src", "transcript", "recorded")
IDS = {"claude": "72a0ddaf-1653-4b21-8d1b-5e2d2874a90c", "codex": "01a1e78e-00ed-7c50-a34c-7cd3a33a97a2", "gemini": "e5be52ed-a88d-4434-904d-94e9a92b6626",
       "opencode": "ses_e1871a23fffeSBwyW7eMSWPRIu"}
# An agent that is there, and says nothing.
SILENT = '#!/bin/sh\n[ "$1" = --help ] && { echo "--input-format"; exit 0; }\nexec sleep 60\n'


def uuid(number):
    return "00000000-0000-4000-8000-%012x" % number


def line(number, text, **more):
    return json.dumps(dict({"type": "user", "uuid": str(number), "message": {"content": text}}, **more)) + "\n"


class Past(House):
    """A home in which agents were used before ostler came."""

    def prepare(self):
        self.work = self.dir + "/work.x"
        os.makedirs(self.work)
        recorded = lambda name: open(os.path.join(RECORDED, name)).read().replace("/home/me/work.x", self.work)
        self.put(".claude/projects/-work-x/%s.jsonl" % IDS["claude"], recorded("claude.jsonl"))
        self.put(".codex/sessions/2026/11/17/rollout-2026-11-17T03-30-05-%s.jsonl" % IDS["codex"], recorded("codex.jsonl"))
        self.put(".gemini/tmp/work-x/chats/session-2026-11-17T03-30-e5be52ed.jsonl", recorded("gemini.jsonl"))
        self.put(".gemini/tmp/work-x/.project_root", self.work)
        os.makedirs(self.dir + "/.local/share/opencode")
        database = sqlite3.connect(self.dir + "/.local/share/opencode/opencode.db")
        database.executescript(recorded("opencode.sql"))
        database.close()
        self.put("bin/claude", SILENT)
        os.chmod(self.dir + "/bin/claude", 0o755)
        self.put(".profile", 'export PATH="%s/bin:$PATH"\n' % self.dir)

    def put(self, name, text, mode="w"):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, mode) as f:
            f.write(text)
        return path

    def claude(self, number, text, mode="w"):
        return self.put(".claude/projects/-w/%s.jsonl" % uuid(number), text, mode)

    def kept(self):
        return self.state + "/instances/main/history"


def texts(page):
    return [e["text"] for m in page["messages"] for e in m["elements"] if e["kind"] == "text"]


@area("history-list")
def listed(t):
    house = Past(t)
    try:
        own = house.new("--name", "talk")
        house.good("send", own, "a needle of our own")
        found = house.json("history")["conversations"]
        t.eq("every-agent-and-our-own", sorted(c["agent"] for c in found), ["claude", "codex", "echo", "gemini", "opencode"])
        t.ok("the-newest-first", [c["active"] for c in found] == sorted((c["active"] for c in found), reverse=True), found)
        of = {c["agent"]: c for c in found}
        t.ok("our-own-is-a-session", of["echo"]["session"] == own and of["echo"]["first_prompt"] == "a needle of our own", of["echo"])
        t.eq("by-workspace", {c["agent"] for c in house.json("history", "--in", "work.x")["conversations"]}, set(IDS))
        t.eq("by-agent", [c["id"] for c in house.json("history", "--agent", "codex")["conversations"]], [IDS["codex"]])
        shown = house.good("history")
        t.ok("a-table-for-people", all(word in shown for word in ("AGENT", "RUN:echo needle-1", "$0.0022", "work.x")) and IDS["claude"][:6] in shown, shown)
        modes = {stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) for folder, _, names in os.walk(house.kept()) for name in names}
        t.eq("what-is-kept-is-the-users-alone", (modes, stat.S_IMODE(os.stat(house.kept()).st_mode)), ({0o600}, 0o700))
        none = [house(*words) for words in (["history", "-n", "0"], ["history", "needle", "-n", "0"], ["history", "--read", "talk", "-n", "0"])]
        t.eq("none-is-none", [(rc, o) for rc, o, _ in none], [(0, "")] * 3)
        t.eq("in-json-too", house.json("history", "-n", "0")["conversations"], [])
        said = house.good("history", "--read", "talk")
        t.ok("our-own-is-read-too", "> a needle of our own" in said, said)
        # Links, and what is hostile, beside it.
        house.put("outside/%s.jsonl" % uuid(7), line(1, "a secret elsewhere"))
        os.makedirs(house.dir + "/.claude/projects/-w", exist_ok=True)
        os.symlink(house.dir + "/outside/%s.jsonl" % uuid(7), house.dir + "/.claude/projects/-w/%s.jsonl" % uuid(8))
        os.symlink(house.dir + "/outside", house.dir + "/.claude/projects/-linked")
        os.mkfifo(house.dir + "/.claude/projects/-w/%s.jsonl" % uuid(9))
        t.eq("what-is-behind-a-link-or-a-pipe-is-none", (len(house.json("history")["conversations"]), house("history", "secret elsewhere")[0]), (5, 1))
        for odd in ("../outside/" + uuid(7), "/etc/passwd", uuid(8)):
            rc, o, e = house("history", "--read", odd)
            t.ok("no-id-leads-out-%s" % odd[:4].strip("./"), rc == 4 and "no conversation" in e, (rc, o, e))
    finally:
        house.down()


@area("history-pages")
def pages(t):
    house = Past(t)
    try:
        wire = Wire(house.socket())
        call = lambda **params: wire.call("history.messages", **params)["result"]
        path = house.claude(1, "".join(line(n, "m%d" % n) for n in range(120)))
        last = call(id=uuid(1))
        t.eq("the-last-fifty", texts(last), ["m%d" % n for n in range(70, 120)])
        before = call(id=uuid(1), before=last["before"], limit=100)
        t.eq("and-those-before", (texts(before), before["older"]), (["m%d" % n for n in range(70)], False))
        t.eq("a-message-by-its-number", texts(call(id=uuid(1), number=42, limit=1)), ["m42"])
        t.eq("counted", wire.call("history.get", id=uuid(1))["result"]["messages"], 120)
        # Another program appends, in pieces.
        pieces = line(120, "m120")
        heard = []
        waits = threading.Thread(target=lambda: heard.append(Wire(house.socket()).call("history.messages", id=uuid(1), **{"from": last["next"]}, wait_ms=30000)["result"]))
        waits.start()
        house.claude(1, pieces[:20], "a")
        time.sleep(0.5)
        t.eq("half-a-line-is-not-told", heard, [])
        house.claude(1, pieces[20:], "a")
        waits.join(LONG)
        t.eq("the-whole-is-told-once", [texts(h) for h in heard], [["m120"]])
        at = heard[0]["next"]
        follower = house.start("history", "--read", uuid(1), "-f", "-n", "1")
        house.claude(1, line(121, "m121"), "a")
        t.ok("a-person-follows", wait_for(lambda: b"m121" in os.read(follower.stdout.fileno(), 4096), LONG, 0), "")
        late = house.start("history", "--read", uuid(1), "-f", "-n", "0")
        time.sleep(1)
        house.claude(1, line(122, "m122"), "a")
        heard = os.read(late.stdout.fileno(), 4096)
        t.ok("or-only-what-is-added", b"m122" in heard and b"m121" not in heard, heard)
        late.send_signal(signal.SIGINT)
        late.wait(LONG)
        late.stdout.close()
        follower.send_signal(signal.SIGINT)
        follower.wait(LONG)
        follower.stdout.close()
        follower.stderr.close()
        os.truncate(path, len(line(0, "m0")))
        page = call(id=uuid(1), **{"from": at})
        t.eq("what-was-cut-is-noticed", (page.get("changed"), texts(page)), ("truncated", ["m0"]))
        os.rename(path, path + ".1")
        house.claude(1, "".join(line(n, "n%d" % n) for n in range(200)))
        page = call(id=uuid(1), **{"from": at})
        t.eq("what-was-rotated-is-noticed", (page.get("changed"), texts(page)[:1]), ("replaced", ["n0"]))
        for id, agent in ((IDS[a], a) for a in IDS):
            page = call(id=id)
            kinds = {e["kind"] for m in page["messages"] for e in m["elements"]}
            t.ok("elements-of-%s" % agent, {"text", "thought", "tool", "result"} <= kinds, kinds)
            changes = [d["path"] for m in page["messages"] for e in m["elements"] for d in e.get("diffs", [])]
            t.ok("with-what-was-changed-by-%s" % agent, any(p.startswith(house.work) for p in changes), changes)
    finally:
        house.down()


@area("history-hostile")
def hostile(t):
    house = Past(t)
    try:
        wire = Wire(house.socket())
        wire.call("history.list")
        before = anon_kib(house.daemon_pid())
        deep = '{"type":"user","message":{"content":' + "[" * 100_000 + "]" * 100_000 + "}}\n"
        long = line(2, "x" * 10_000_000 + " the end")
        endless = "y" * 40_000_000 + "\n"
        escapes = line(3, "\x1b[2J\x1b]0;title\x07 wiped", sessionId="../../../etc", cwd="relative/../../x")
        house.claude(2, line(1, "first") + deep + long + endless + "\x00\xff\n" + escapes + line(4, "last"))
        page = wire.call("history.messages", id=uuid(2))["result"]
        t.eq("what-is-around-is-told", (texts(page)[0], texts(page)[-1], page["unread"]), ("first", "last", 3))
        t.ok("what-is-long-is-cut", max(len(text) for text in texts(page)) <= 65536 and any(m.get("cut") for m in page["messages"]), [len(x) for x in texts(page)])
        out = house.good("history") + house.good("history", "--read", uuid(2)) + house.good("history", "wiped")
        t.ok("nothing-moves-a-cursor", "\x1b" not in out and "\x07" not in out and "wiped" in out, out[-300:])
        found = house.json("history", "the end")
        t.eq("the-end-of-a-long-line-is-found", [c["conversation"]["id"] for c in found["conversations"]], [uuid(2)])
        # 200 MB of a conversation: its end is there at once.
        big = house.claude(3, "")
        with open(big, "w") as f:
            filler = line(5, "hay " * 2000)
            for _ in range(200_000_000 // len(filler)):
                f.write(filler)
            f.write(line(6, "the very last"))
        began, opened = time.monotonic(), anon_kib(house.daemon_pid())
        page = wire.call("history.messages", id=uuid(3))["result"]
        took, opened = time.monotonic() - began, anon_kib(house.daemon_pid()) - opened
        t.ok("200-MB-open-at-the-end", texts(page)[-1] == "the very last" and page["older"] and took < 5, took)
        grown = anon_kib(house.daemon_pid()) - before
        t.ok("200-MB-leave-memory-as-it-was", opened < 8_000, "%d KiB" % opened)
        # Of hostile lines, some tens of megabytes stay with the allocator.
        t.ok("the-daemon-stays-small", grown < 80_000, "%d KiB" % grown)
        began = time.monotonic()
        found = wire.call("history.search", query="not there at all", within_ms=1)["result"]
        t.ok("no-time-is-said", found["unsearched"] > 0, found)
        t.ok("and-kept", time.monotonic() - began < 10, time.monotonic() - began)
    finally:
        house.down()


@area("history-search")
def search(t):
    house = Past(t)
    try:
        own = house.new("--name", "talk")
        house.good("send", own, "a needle of our own")
        found = house.json("history", "needle")
        t.eq("in-all-of-them", {c["conversation"]["agent"] for c in found["conversations"]}, set(IDS) | {"echo"})
        t.eq("and-says-how-many", (found["searched"], found["unsearched"], found["behind"]), (5, 0, 0))
        wire = Wire(house.socket())
        for each in found["conversations"]:
            agent, hit = each["conversation"]["agent"], each["hits"][0]
            page = wire.call("history.messages", id=each["conversation"]["id"], limit=1, **{"from": hit["position"]})["result"]
            t.ok("the-place-to-jump-to-in-%s" % agent, "needle" in json.dumps(page["messages"][0]["elements"]), page)
        kinds = {h["kind"] for c in found["conversations"] for h in c["hits"]}
        t.ok("what-was-said-and-run", {"text", "tool", "result"} <= kinds, kinds)
        t.ok("which-file-was-touched", house.json("history", "work.x/a.txt", "--agent", "claude")["conversations"], "")
        t.eq("capitals-count", house("history", "NEEDLE")[0], 1)
        t.ok("one-conversation", [c["conversation"]["id"] for c in house.json("history", "needle", "--read", "talk")["conversations"]] == [own], "")
        t.eq("bounded", sum(len(c["hits"]) for c in house.json("history", "needle", "-n", "3")["conversations"]), 3)
        rc, o, e = house("history", "nothing like this")
        t.ok("nothing-is-said", rc == 1 and "nothing found in 5 conversations" in e, (rc, o, e))
        t.ok("an-id-is-no-word-and-how-to-read-it-is-said", "ostler history --read %s" % own in house("history", own)[2], house("history", own))
        t.ok("no-names-of-the-format", house("history", "parentUuid")[0] == 1, "")
        # Who leaves costs nothing more.
        for number in range(20, 30):
            house.claude(number, "".join(line(n, "hay " * 5000) for n in range(1000)))
        # Nothing of it can be looked for in raw bytes: every line is understood.
        whole, left = for_nobody(house, "history.search", query="\u00e9\u00e8\u00ea", within_ms=60000)
        t.ok("a-search-for-nobody-ends", left < max(whole * 2 // 3, 3), (whole, left))
    finally:
        house.down()


@area("history-resume")
def resume(t):
    house = Past(t)
    try:
        rc, o, e = house("resume", "no-such-thing")
        t.ok("unknown-is-said", rc == 4 and "no conversation `no-such-thing`" in e and "ostler history" in e, (rc, o, e))
        for number in (1, 2):
            house.claude(number, line(1, "hello", cwd=house.work))
        rc, o, e = house("resume", "00000000")
        t.ok("ambiguous-is-said", rc == 2 and "matches several" in e and uuid(1) in e, (rc, o, e))
        house.claude(3, line(1, "hello", cwd=house.dir + "/gone"))
        rc, o, e = house("resume", uuid(3))
        t.ok("a-folder-that-is-gone-is-said", rc == 4 and "/gone is gone" in e, (rc, o, e))
        # Somebody is still at it.
        old = time.time() - 3600
        for number in (1, 2):
            os.utime(house.claude(number, line(1, "hello", cwd=house.work)), (old, old))
        agent = subprocess.Popen(["claude", "-c", "read line", "--resume", uuid(1)], executable="/bin/sh", stdin=subprocess.PIPE)
        try:
            named = lambda: uuid(1).encode() in open("/proc/%d/cmdline" % agent.pid, "rb").read()
            wait_for(named, LONG, 0)
            rc, o, e = house("resume", uuid(1))
            t.ok("still-open-there-is-refused", rc == 5 and "still open in claude (pid %d)" % agent.pid in e and "--force" in e, (rc, o, e))
            rc, o, e = house("--json", "resume", uuid(1), "--force")
            t.ok("unless-forced", rc == 0 and "still has it open" in e and json.loads(o)["agent_session"] == uuid(1), (rc, o, e))
        finally:
            agent.kill()
            agent.communicate()
        made = json.loads(o)
        t.eq("a-session-where-it-began", (made["workspace"], made["agent"], made["status"]), (os.path.realpath(house.work), "claude", "idle"))
        rc, o, e = house("resume", uuid(1))
        t.ok("an-open-one-is-told", rc == 0 and made["id"] in o and "already" in o, (rc, o, e))
        house.claude(2, line(2, "just now"), "a")
        rc, o, e = house("resume", uuid(2))
        t.ok("just-written-is-a-maybe", rc == 0 and "may still be open" in e, (rc, o, e))
        found = {c.get("conversation"): c for c in house.json("history")["conversations"]}
        t.ok("one-entry-for-both", found[uuid(1)]["session"] == made["id"] and len([c for c in found.values() if c.get("session") == made["id"]]) == 1, found)
        # Forgetting reaches what is kept; the transcript is the agent's.
        wire = Wire(house.socket())
        wire.call("history.get", id=uuid(1))
        kept = lambda: sum(uuid(1).encode() in open(os.path.join(folder, name), "rb").read() for folder, _, names in os.walk(house.kept()) for name in names)
        offsets = lambda: os.listdir(house.kept() + "/offsets")
        t.ok("something-is-kept", kept() == 1 and len(offsets()) > 0, offsets())
        house.good("close", made["id"])
        count = len(offsets())
        house.good("forget", made["id"])
        t.eq("forgetting-reaches-it", (kept(), len(offsets())), (0, count - 1))
        t.ok("and-not-the-agents-own", os.path.exists(house.dir + "/.claude/projects/-w/%s.jsonl" % uuid(1)), "")
    finally:
        house.down()


@area("history-killed")
def killed(t):
    """The daemon is killed again and again while it looks into transcripts for the first time: the list is whole, and each is there once."""
    house = Past(t)
    try:
        count = 1500
        for number in range(1, count + 1):
            house.claude(number, "".join(line(n, "m%d of %d" % (n, number), cwd="/w") for n in range(20)))
        for pause in (0.0, 0.02, 0.05, 0.1, 0.2):
            looking = house.start("history", "--json")
            time.sleep(pause)
            os.kill(house.daemon_pid(), signal.SIGKILL)
            looking.communicate(timeout=LONG)
            wait_for(lambda: house("up")[0] == 0, LONG, 0.1)
        wire = Wire(house.socket())

        def everything():
            found, page = [], None
            while not page or page["conversations"]:
                page = wire.call("history.list", skip=len(found))["result"]
                found += [entry["id"] for entry in page["conversations"]]
            return found, page["behind"]
        # What there was no time for is listed next.
        wait_for(lambda: everything()[1] == 0, LONG, 0.2)
        found, _ = everything()
        t.eq("none-is-missing-and-none-is-there-twice", (len(found), len(set(found))), (count + len(IDS), count + len(IDS)))
        texts = [m["elements"][0]["text"] for m in wire.call("history.messages", id=uuid(7), number=0, limit=50)["result"]["messages"]]
        t.eq("and-so-are-its-messages", texts, ["m%d of 7" % n for n in range(20)])
    finally:
        house.down()
