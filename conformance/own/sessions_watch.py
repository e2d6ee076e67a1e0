"""Everybody sees what is said, from any position, once, across crashes."""
import json
import os
import re
import signal

from approvals_kit import approved
from kit import Fail
from lib import area, wait_for
from sessions_kit import LONG, House, Wire


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
             and "session closed" in shown, shown)
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


@area("sessions-down")
def down(t):
    """Whoever ends everything begins nothing: prompts that wait are for the next daemon."""
    house = House(t)
    try:
        id = house.new()
        house.good("send", id, "SLOW:300 first", "--no-wait")
        house.good("send", id, "second words", "--no-wait")
        house.until(id, "running")
        house.good("down", "--kill")
        house.good("up")
        wait_for(lambda: "second words" in house.texts(id), LONG, 0.1)
        turns = [e for e in house.events(id) if e["type"] in ("turn", "turn_ended")]
        t.ok("the-second-waited-for-the-next-daemon", house.texts(id) == ["second words"], house.texts(id))
        t.ok("and-began-once", [e["type"] for e in turns] == ["turn", "turn_ended", "turn", "turn_ended"], turns)
        kinds = [e["type"] for e in house.events(id)]
        t.ok("with-one-process-after-the-other", kinds.count("process") == 2 and kinds.count("exited") >= 1, kinds)
    finally:
        house.down()
