"""Conversations on the command line, with the built-in agent: what is said, queued and meant; a prompt with a key runs once."""
import os
import re
import signal

from lib import area, wait_for
from sessions_kit import LONG, House, Wire


@area("sessions-first-contact")
def first_contact(t):
    house = House(t)
    try:
        rc, o, e = house("new", "echo", "-m", "hello there")
        t.ok("new-with-a-message-answers", rc == 0 and "hello there\n" in o, (rc, o, e))
        t.ok("the-answer-is-said-once", o.count("hello there") == 1, o)
        t.ok("it-names-the-session", re.search(r"^s\w+", e), e)
        rc, o, e = house("new", "echo", "--name", "friend")
        t.ok("new-says-what-to-type-next", rc == 0 and "ostler send friend" in o and "ostler watch friend" in o, (rc, o, e))
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
        open(house.dir + "/a.bmp", "w").close()
        rc, o, e = house("send", id, "x", "--image", house.dir + "/a.bmp")
        t.ok("an-unknown-picture-is-exit-2", rc == 2 and "png" in e, (rc, o, e))
        rc, o, e = house("forget", id)
        t.ok("an-open-session-is-not-forgotten", rc == 5 and "ostler close" in e, (rc, o, e))
        rc, o, e = house("interrupt", id)
        t.ok("nothing-to-interrupt-is-said", rc == 0 and "was not running" in o, (rc, o, e))
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
        t.ok("and-says-that-it-waits", b"number 2 in the queue" in e, e)
        turns = [e["number"] for e in house.events(id) if e["type"] == "turn"]
        t.eq("turns-run-in-order", turns, [1, 2, 3])
        house.good("send", id, "SLOW:500", "--no-wait")
        house.good("send", id, "never", "--no-wait")
        t.ok("ps-names-the-agent-by-the-program", "ostler __echo" in house.good("ps"), house.good("ps"))
        waiting = house.start("send", id, "never either")
        wait_for(lambda: house.info(id).get("queued") == 2, LONG, 0.05)
        rc, o, e = house("interrupt", id, "--clear-queue")
        t.ok("interrupt-clears-the-queue-and-counts", rc == 0 and "interrupted, 2 queued prompts dropped" in o, (rc, o, e))
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
        t.ok("the-same-key-shows-the-same-answer", rc == 0 and "only once" in o and "already sent" in e, (rc, o, e))
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


@area("sessions-what-is-meant")
def meant(t):
    """Nothing is guessed: a name of two, a key of another, a program that is not there."""
    house = House(t)
    try:
        one = house.new("--name", "twin")
        rc, o, e = house("new", "echo", "--name", "twin")
        t.ok("a-name-of-two-is-refused", rc == 5 and one in e, (rc, o, e))
        house.good("close", one)
        two = house.new("--name", "twin")
        rc, o, e = house("send", "twin", "still here")
        t.ok("of-one-it-is-enough", rc == 0 and "still here" in o and house.texts(two), (rc, o, e))
        house.new("--key", "k1")
        rc, o, e = house("new", "echo", "/tmp", "--key", "k1")
        t.ok("a-key-of-another-session-is-refused", rc == 5 and "another session" in e, (rc, o, e))
        wire, agent = Wire(house.socket()), house.dir + "/vanishing"
        os.symlink(house.program, agent)
        first = wire.call("session.create", agent="echo", program=agent, workspace=house.dir, key="k2")
        os.unlink(agent)
        again = wire.call("session.create", agent="echo", program=agent, workspace=house.dir, key="k2")
        t.eq("also-when-its-program-is-gone", again.get("result", again).get("id"), first["result"]["id"])
        before = len(house.json("sessions", "--all"))
        rc, o, e = house("new", "acp", ".", "--", "no-such-agent")
        t.ok("a-program-that-is-not-there-is-said-at-once", rc == 4 and "no-such-agent" in e and "PATH" in e and "ostler restart" in e, (rc, o, e))
        t.ok("and-nothing-was-made", len(house.json("sessions", "--all")) == before)
    finally:
        house.down()
