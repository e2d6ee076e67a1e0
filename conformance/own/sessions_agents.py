"""Why an agent failed, wherever one looks; by which names every door finds a session; each answer in its own turn."""
import os

from cdev_kit import Cdev, Port
from cdev_work import Phone
from codecast_kit import suite as codecast
from lib import area, wait_for
from sessions_kit import LONG, House, Wire
from zeroclaw import Client as Zeroclaw

REASON = "the settings of doom cannot be read"
# What its help must hold for an agent to be kept running, as docs/agents.md says.
HELPS = {"claude": "--input-format", "codex": "app-server", "gemini": "--acp", "opencode": "acp"}


class Doors(House):
    """A home whose daemon has every door open, and clients for those that hold sessions."""

    def __init__(self, t, **programs):
        self.programs = programs
        super().__init__(t)
        doors = {door["name"]: door["address"] for door in self.json("status")[0]["doors"]}
        self.native = Wire(self.socket())
        self.codecast = codecast.Rpc(int(doors["codecast"].rsplit(":", 1)[1]))
        self.zeroclaw = Zeroclaw(doors["zeroclaw"])
        self.cdev_port = int(doors["cdev"].rsplit(":", 1)[1])
        # A phone works where somebody does, and never in a home.
        self.work = self.dir + "/work"
        os.makedirs(self.work)

    def phone(self):
        """A cdev client: paired where that needs nobody, at a `cdev start` that joins, and known at every port."""
        joined = Cdev.joining(self)
        try:
            self.access = joined.port.paired()["access_token"]
            self.port = Port(self.cdev_port)
            return Phone(self)
        finally:
            joined.stop()

    def prepare(self):
        os.makedirs(self.dir + "/bin")
        for name, source in self.programs.items():
            path = "%s/bin/%s" % (self.dir, name)
            with open(path, "w") as f:
                f.write(source)
            os.chmod(path, 0o755)
        # The daemon's PATH is that of a login shell, which takes its time: whoever is first waits for it.
        with open(self.dir + "/.profile", "w") as f:
            f.write('sleep 1\nexport PATH="%s/bin:$PATH"\n' % self.dir)


def failing(help):
    """An agent that says why on its stderr, and leaves."""
    return '#!/bin/sh\n[ "$1" = --help ] && { echo "%s"; exit 0; }\necho "a warning first" >&2\necho "%s" >&2\nexit 7\n' % (help, REASON)


@area("sessions-start-failure")
def start_failure(t):
    house = Doors(t, **{name: failing(help) for name, help in HELPS.items()})
    phone = house.phone()
    try:
        for name in HELPS:
            rc, o, e = house("new", name, house.work, "-m", "hello")
            t.ok(name + "-new-says-why", rc == 1 and REASON in o and "exit code 7" in o and "failed" in o, (rc, o, e))
            id = next(s["id"] for s in house.json("sessions") if s["agent"] == name)
            rc, o, e = house("send", id, "hello again")
            t.ok(name + "-send-says-why", rc == 1 and REASON in o and "exit code 7" in o and "failed" in o, (rc, o, e))
            info = house.until(id, "failed")
            t.ok(name + "-the-session-says-why", REASON in (info["why"] or ""), info)
            t.ok(name + "-sessions-says-why", REASON in house.good("sessions"), house.good("sessions"))
            house.good("close", id)
            t.ok(name + "-watch-says-why", REASON in house.good("watch", id), house.good("watch", id))
            t.ok(name + "-export-says-why", REASON in house.good("export", id), house.good("export", id))
            sid = house.codecast.ok("session.create", {"path": house.work, "cli_type": name})["sessionId"]
            events = codecast.Stream(house.codecast, sid, "hello").finish(LONG).events()
            errors = [e["message"] for e in events if e["type"] == "error"]
            t.ok(name + "-codecast-says-why-once", len(errors) == 1 and REASON in errors[0], events)
            sid = house.zeroclaw.new(agent_alias=name, cwd=house.work)
            reply = house.zeroclaw.turn(sid, "hello")
            t.ok(name + "-zeroclaw-says-why", REASON in reply.get("error", {}).get("message", ""), reply)
            phone.events.clear()
            phone.ok("agent/run", {"prompt": "hello", "agent_type": name, "workspace_id": house.work})
            told = phone.until("claude_status", lambda e: e["agent_type"] == name and e["state"] in ("error", "idle"))
            t.ok(name + "-cdev-says-why", told["state"] == "error" and REASON in told["error"], told)
    finally:
        house.down()


@area("sessions-export-turns")
def export_turns(t):
    house = House(t)
    try:
        id = house.new()
        house.good("send", id, "SLOW:10 first", "--no-wait")
        if not wait_for(lambda: [e for e in house.events(id) if e["type"] == "text_delta"], LONG, 0.05):
            t.rec("pieces", False, house.events(id))
        house.good("send", id, "the second prompt", "--no-wait")
        house.good("send", id, "a third one", "--no-wait")
        middle = [e["type"] for e in house.events(id)]
        t.ok("the-prompts-came-in-mid-answer", middle.count("prompt") == 3 and "text" not in middle, middle)
        now = house.good("export", id)
        t.ok("what-waits-stands-behind-the-answer-that-runs", now.index("## Prompt 1") < now.index("(so far)") < now.index("## Prompt 2"), now)
        if not wait_for(lambda: house.info(id)["status"] == "idle" and len(house.texts(id)) >= 4, LONG, 0.1):
            t.rec("rest", False, house.info(id))
        answers, document = house.texts(id), house.good("export", id)
        t.ok("each-answer-is-there-once", all(document.count("\n%s\n" % a.strip()) == 1 for a in answers) and "cut off" not in document, (answers, document))
        parts = ["## Prompt 1", "\n1 2 3 4 5 6 7 8 9 10\n", "## Prompt 2", "> the second prompt", "\nthe second prompt\n", "## Prompt 3", "\na third one\n"]
        places = [document.find(part) for part in parts]
        t.ok("and-in-its-own-turn", -1 not in places and places == sorted(places), (places, document))
    finally:
        house.down()


@area("sessions-about-itself")
def about_itself(t):
    """What an agent tells beside the conversation: seen while it happens, in lists, and by the next daemon."""
    house = House(t)
    try:
        id = house.new()
        shown = house.good("send", id, "OFFER TITLE:Mend_the_roof LIMIT:95")
        t.ok("watch", all(part in shown for part in ("commands: /echo", "MCP server mountains: failed", "called Mend the roof", "95% of the limit patience")), shown)
        told = {e["type"]: e for e in house.events(id)}
        t.ok("events", told["title"]["title"] == "Mend the roof" and told["offers"]["commands"][0]["name"] == "echo" and "tools" not in told["offers"], told)
        house.good("restart")
        listed = house.good("sessions")
        t.ok("sessions", "Mend the roof" in listed and "95% of the limit patience is used; it resets at 2100-01-01 00:00 UTC" in listed, listed)
        info = house.info(id)
        t.ok("the-protocol", info["title"] == "Mend the roof" and info["limits"][0]["state"] == "near", info)
        t.ok("export", house.good("export", id).startswith("# Mend the roof\n"), house.good("export", id)[:200])
        plain = house.info(house.new())
        t.ok("what-nobody-told-is-absent", "title" not in plain and "limits" not in plain, plain)
    finally:
        house.down()


@area("sessions-ids")
def ids(t):
    house = Doors(t)
    try:
        native, zeroclaw, rpc = house.native, house.zeroclaw, house.codecast
        chosen = zeroclaw.new(session_id="my-own-name", cwd=house.work)
        unnamed = zeroclaw.new(cwd=house.work)
        plain = house.new()
        made = rpc.ok("session.create", {"path": house.dir, "cli_type": "echo"})["sessionId"]
        known = {s["id"]: s for s in house.json("sessions")}
        uuids = {s["uuid"] for s in known.values()}
        t.eq("what-a-client-chose-is-shown", chosen, "my-own-name")
        t.ok("where-none-was-chosen-it-is-the-uuid", unnamed in uuids and made in uuids, (unnamed, made, uuids))
        listed = {s["session_id"] for kind in ("session/list", "session/list-acp") for s in zeroclaw.ok(kind)["sessions"]}
        t.ok("zeroclaw-lists-by-the-same-names", {"my-own-name", unnamed, made, known[plain]["uuid"]} <= listed, listed)
        listed = {s["sessionId"] for s in rpc.ok("session.list")["sessions"]}
        t.eq("codecast-lists-uuids", listed, uuids)
        phone = house.phone()
        begun = phone.call("agent/run", {"prompt": "hello", "agent_type": "echo", "workspace_id": house.work})["result"]["session_id"]
        t.ok("and-names-what-it-begins-so", begun in {s["uuid"] for s in house.json("sessions")} - uuids, begun)
        session = next(s for s in known.values() if s.get("alias") == "my-own-name" or s["door"] == "zeroclaw" and s["uuid"] != unnamed)
        t.ok("the-command-line-shows-the-alias", "my-own-name" in house.good("sessions"), house.good("sessions"))
        house.good("send", session["id"], "hello")
        session = house.info(session["id"])
        listed = {s["session_id"] for s in phone.call("session/list")["result"]["sessions"]}
        t.eq("cdev-lists-uuids-of-what-was-said-something", listed, {session["uuid"], begun})
        names = {"uuid": session["uuid"], "id": session["id"], "alias": "my-own-name", "agents-own": session["agent_session"]}
        for what, name in names.items():
            found = native.call("session.get", id=name).get("result", {}).get("id")
            t.eq("native-takes-the-" + what, found, session["id"])
            stats = rpc.call("session.queue_stats", {"sessionId": name})
            t.ok("codecast-takes-the-" + what, "userPending" in (stats.get("result") or {}), stats)
            state = zeroclaw.rpc("session/state", {"session_id": name})
            t.ok("zeroclaw-takes-the-" + what, state.get("result", {}).get("state") == "idle", state)
            found = [phone.call(method, {"session_id": name}).get("result", {}).get("session_id") for method in ("session/get", "session/state", "agent/status")]
            t.eq("cdev-takes-the-%s-and-shows-the-uuid" % what, found, [session["uuid"]] * 3)
            past = zeroclaw.rpc("session/messages", {"session_id": name})
            t.ok("zeroclaw-has-the-past-by-the-" + what, past.get("result", {}).get("total") == 2, past)
        resumed = house.info(house.json("new", "echo", "--resume", "known-elsewhere")["id"])
        t.eq("cdev-shows-the-uuid-of-what-another-door-went-on-with", phone.ok("session/state", {"session_id": "known-elsewhere"})["session_id"], resumed["uuid"])
        twins = [house.json("new", "echo", "--resume", "the-agents-own")["id"] for _ in range(2)]
        both = lambda text: all(twin in str(text) for twin in twins)
        rc, o, e = house("send", "the-agents-own", "x")
        t.ok("native-refuses-an-ambiguous-one-by-name", rc == 2 and both(e), (rc, o, e))
        for method, more in (("session.queue_stats", {}), ("session.interrupt", {}), ("session.destroy", {}), ("session.resume", {}), ("session.reconnect", {}),
                             ("session.set_mode", {"mode": "ask"})):
            reply = rpc.call(method, dict(more, sessionId="the-agents-own"))
            t.ok("codecast-refuses-it-%s" % method, both(reply.get("error")), reply)
        events = codecast.Stream(rpc, "the-agents-own", "x").finish(LONG).events()
        t.ok("codecast-refuses-it-session.send", [e["type"] for e in events] == ["error"] and both(events), events)
        for method, more in (("session/state", {}), ("session/close", {}), ("session/messages", {}), ("session/prompt", {"prompt": "x"})):
            reply = zeroclaw.rpc(method, dict(more, session_id="the-agents-own"))
            t.ok("zeroclaw-refuses-it-%s" % method, both(reply.get("error")), reply)
        for method, more in (("session/get", {}), ("session/state", {}), ("session/messages", {}), ("agent/stop", {}), ("permission/pending", {}), ("agent/run", {"mode": "continue", "prompt": "x", "workspace_id": house.work})):
            reply = phone.call(method, dict(more, session_id="the-agents-own"))
            t.ok("cdev-refuses-it-%s" % method, both(reply.get("error")), reply)
        reply = zeroclaw.rpc("session/new", {"agent_alias": "echo", "session_id": "the-agents-own"})
        t.ok("zeroclaw-makes-no-third-of-that-name", both(reply.get("error")), reply)
        t.eq("nothing-was-said-to-either", [house.texts(twin) for twin in twins], [[], []])
        for twin in twins:
            house.good("close", twin)
        found = native.call("session.get", id="the-agents-own").get("result", {}).get("id")
        t.eq("one-conversation-in-several-closed-sessions-is-that-of-the-last", found, twins[1])
        reply = rpc.call("session.queue_stats", {"sessionId": "the-agents-own"})
        t.ok("codecast-knows-none-that-is-closed", not both(reply), reply)
        alike = []
        for _ in range(2):
            alike.append(house.new("--name", "alike"))
            house.good("close", "alike")
        for verb in (["send", "alike", "x"], ["export", "alike"], ["forget", "alike"], ["resume", "alike"]):
            rc, o, e = house(*verb)
            t.ok("closed-ones-of-one-name-are-refused-by-name-" + verb[0], rc == 2 and all(id in e for id in alike), (rc, o, e))
        third = house.new("--name", "alike")
        t.eq("unless-one-is-open", native.call("session.get", id="alike")["result"]["id"], third)
    finally:
        house.down()
