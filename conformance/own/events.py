"""`ostler events`: what happens, in one order, told once to whoever resumes, whatever dies in between."""
import json
import os
import signal
import subprocess
import threading
import time

from kit import Fail
from lib import area, pid_alive, wait_for
from sessions_kit import LONG, House, Wire

KILLS = 5


def events(house, *args):
    return [json.loads(line) for line in house.good("--json", "events", *args).splitlines()]


def settled(house):
    """What is told once nothing more comes: it is told a moment after it happened."""
    before = events(house)
    while True:
        time.sleep(0.3)
        found = events(house)
        if found == before:
            return found
        before = found


def kinds(found, **about):
    return [e["kind"] for e in found if all(e.get(key) == value for key, value in about.items())]


def every_file(folder):
    return [os.path.join(path, name) for path, _, names in os.walk(folder) for name in names]


def contents(path):
    """What a file holds; nothing for a socket, and for what is gone."""
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


@area("events-told")
def told(t):
    house = House(t)
    try:
        id = house.new("--name", "talk")
        process = house.good("run", "-d", "--", "true").split()[0]
        house.good("wait", process)
        house.good("send", id, "hello unforgotten words")
        house.good("send", id, "ASK", "--no-wait")
        asked = house.waiting(id)
        house.json("history", "unforgotten")
        house.good("interrupt", id)
        house.until(id, "interrupted")
        house.good("close", id)
        holds = lambda: [path for path in every_file(house.state) if b"unforgotten" in contents(path)]
        t.ok("what-was-said-is-on-the-disk", holds())
        house.good("forget", id)
        t.ok("and-in-no-file-once-it-is-forgotten", wait_for(lambda: not holds(), LONG, 0.2), holds())
        want = ["session.made", "session.prompted", "session.turn_began", "session.turn_ended", "session.prompted", "session.turn_began",
                "session.asked", "session.turn_ended", "session.closed", "session.forgotten"]
        of_session = lambda: [kind for kind in kinds(events(house), session=id) if kind.startswith("session.") and kind != "session.answered"]
        t.ok("a-session-from-its-beginning-to-its-end", wait_for(lambda: of_session() == want, LONG, 0.2), of_session())
        found = settled(house)
        t.eq("a-process-starts-and-ends", kinds(found, process=process), ["process.started", "process.ended"])
        t.eq("a-request-is-asked-and-withdrawn", [k for k in kinds(found, approval=asked) if k != "approval.shown"][:2], ["approval.asked", "approval.withdrawn"])
        t.ok("and-says-whose-it-is", all(e.get("session") == id for e in found if e.get("approval") == asked), found)
        t.ok("what-is-deleted-says-where-it-was", [e.get("workspace") for e in found if e["kind"] == "session.forgotten"] == [house.dir], found[-3:])
        t.ok("what-an-agent-says-only-if-asked-for", "session.said" not in kinds(found) and "session.said" in kinds(events(house, "--kind", "session.said")), found)
        t.eq("only-one-kind", set(kinds(events(house, "--kind", "process.ended"))), {"process.ended"})
        t.eq("only-one-sort", {k.split(".")[0] for k in kinds(events(house, "--kind", "approval"))}, {"approval"})
        middle = len(found) // 2
        t.eq("after-any-of-them-comes-the-rest", events(house, "--after", found[middle]["position"]), found[middle + 1:])
        lines = house.good("events").splitlines()
        t.ok("a-line-each-for-people", len(lines) == len(found) and "session.turn_ended" in "".join(lines) and process in "".join(lines), lines[:5])
        short = lines[middle].split()[0]
        t.eq("a-phone-that-was-told-a-part-of-one-is-told-it-again", events(house, "--after", found[middle]["position"] + ":1"), found[middle:])
        t.eq("whose-position-is-as-good", events(house, "--after", short), found[middle + 1:])
        wire = Wire(house.socket())
        first = wire.call("feed.follow", kinds=["process.started"])["result"]
        t.ok("following-begins-with-what-is-new", "watch" in first and not first.get("gap"), first)
        again = house.good("run", "-d", "--", "true").split()[0]
        line = wire.line()
        t.eq("and-tells-what-is-wanted", (line["method"], [c["process"] for c in line["params"]["changes"]]), ("feed.changes", [again]))
        t.ok("until-it-is-ended", wire.call("feed.unfollow", watch=first["watch"]).get("result") == {}, first)
        settled(house)
        page = wire.call("feed.read", limit=3)["result"]
        rest = wire.call("feed.read", after=page["position"])["result"]
        whole = wire.call("feed.read")["result"]
        t.eq("pages-add-up", [c["position"] for c in page["changes"] + rest["changes"]], [c["position"] for c in whole["changes"]])
        here = wire.call("feed.read", workspace=house.dir, kinds=["process.started"])["result"]["changes"]
        t.eq("only-what-is-in-a-folder", (len(here), wire.call("feed.read", workspace=house.dir + "/x")["result"]["changes"]), (2, []))
    finally:
        house.down()


@area("events-words")
def words(t):
    house = House(t)
    try:
        house.good("run", "--", "true")
        wait_for(lambda: events(house), LONG, 0.1)
        rc, o, e = house("events", "--after", "99999")
        t.ok("a-position-beyond-the-end-is-said", rc == 0 and "starting with the oldest" in e and "process.started" in o, (rc, o, e))
        first = events(house)[0]["position"]
        other = first[:-1] + ("0" if first[-1] != "0" else "1")
        rc, o, e = house("--json", "events", "--after", other)
        t.ok("so-is-one-of-another-feed", json.loads(o.splitlines()[0]).get("missing") == "lost", (rc, o, e))
        rc, o, e = house("events", "--after", "soon")
        t.ok("a-word-is-no-position", rc != 0 and "is no position" in e, (rc, o, e))
        rc, o, e = house("events", "--kind", "nothing")
        t.ok("nor-a-kind", rc == 2 and "session.turn_ended" in e, (rc, o, e))
        rc, o, e = house("events", "--session", "nobody")
        t.ok("nor-a-session", rc == 4, (rc, o, e))
    finally:
        house.down()


class Resuming(threading.Thread):
    """Reads pages by position, whoever the daemon is."""

    def __init__(self, house):
        super().__init__(daemon=True)
        self.house, self.found, self.over = house, [], threading.Event()
        self.start()

    def run(self):
        after = []
        while True:
            last = self.over.is_set()
            rc, o, e = self.house("--json", "events", *after)
            if rc == 0:
                self.found += [json.loads(line) for line in o.splitlines()]
                if self.found:
                    after = ["--after", self.found[-1]["position"]]
                if last:
                    return


@area("events-alone")
def alone(t):
    """A cursor is the only way to be told: no method waits for news beside it."""
    house = House(t)
    try:
        wire = Wire(house.socket())
        waits = {m["name"] for m in house.json("api")["methods"] if "wait_ms" in json.dumps(m["params"])}
        t.eq("nothing-else-is-waited-for", waits, {
            "approval.terminal",  # a password is asked for there, which is in no journal
            "history.messages",  # a cursor in the transcript of another program
        })
        refused = wire.call("approval.changes", after=0, wait_ms=0)["error"]
        t.ok("an-older-client-is-told-about-versions", refused["data"]["kind"] == "unknown_method" and "version" in refused["data"]["hint"], refused)
        watch = wire.call("feed.follow", kinds=["approval.asked", "approval.decided"])["result"]["watch"]
        id = house.new()
        house.good("send", id, "ASK", "--no-wait")
        told = wire.line()["params"]
        listed = wire.call("approval.list")["result"]["approvals"]
        t.ok("who-is-told-of-a-request-finds-it", told["watch"] == watch and [a["id"] for a in listed] == [told["changes"][0]["approval"]], (told, listed))
    finally:
        house.down()


@area("events-killed")
def killed(t):
    house = House(t)
    try:
        follower = subprocess.Popen([house.program, "--json", "events", "--follow", "--after", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    stdin=subprocess.DEVNULL, env=house.env, cwd=house.dir)
        lines = []
        threading.Thread(target=lambda: lines.extend(iter(follower.stdout.readline, b"")), daemon=True).start()
        reader = Resuming(house)
        started, ids = [], [house.new() for _ in range(3)]
        for round in range(KILLS):
            for id in ids:
                house("send", id, "TOOL round %d" % round, "--no-wait")
            before = house.daemon_pid()
            started += [house.good("run", "-d", "--", "sh", "-c", "sleep 0.%d" % n).split()[0] for n in range(3)]
            os.kill(before, signal.SIGKILL)
            if not wait_for(lambda: not pid_alive(before) and house("status")[0] == 0, LONG, 0.1):
                raise Fail("no daemon after the kill")
        for id in ids:
            if not wait_for(lambda: house.info(id)["status"] in ("idle", "interrupted"), LONG, 0.2):
                raise Fail("%s should rest: %s" % (id, house.info(id)))
        done = lambda: all(kinds(events(house), process=p) == ["process.started", "process.ended"] for p in started)
        t.ok("every-process-is-told-once", wait_for(done, LONG, 0.5), [kinds(events(house), process=p) for p in started])
        whole = settled(house)
        t.ok("every-turn-is-told-once", all(kinds(whole, session=id).count("session.turn_began") == kinds(whole, session=id).count("session.turn_ended")
             == kinds(whole, session=id).count("session.prompted") for id in ids), [kinds(whole, session=id) for id in ids])
        records = [(e["session"], n) for e in events(house, "--kind", "session") if e.get("record") for n in range(e["record"], e.get("last", e["record"]) + 1)]
        last = {id: house.info(id)["last"] for id in ids}
        t.eq("every-record-once-and-in-order", {id: [n for s, n in records if s == id] for id in ids}, {id: list(range(1, last[id] + 1)) for id in ids})
        reader.over.set()
        reader.join(LONG)
        positions = [e["position"] for e in whole]
        t.eq("whoever-resumed-was-told-the-same", [e["position"] for e in reader.found], positions)
        t.ok("and-whoever-followed", wait_for(lambda: len(lines) >= len(whole), LONG, 0.2)
             and [json.loads(line).get("position") for line in lines] == positions, (len(lines), len(whole), lines[:2]))
    finally:
        follower.kill()
        follower.wait()
        house.down()
