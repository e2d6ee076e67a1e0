"""The zeroclaw door: who comes to a turn that runs is told all of it, live; what is answered elsewhere is told too; messages are counted."""
import signal

from lib import area, wait_for
from zeroclaw import LONG, Daemon


def come(c, session):
    return c.ok("session/new", {"agent_alias": "echo", "cwd": None, "session_id": session})


def kinds(c):
    return [u["type"] for u in c.told]


@area("zeroclaw-live")
def live(t):
    whole = lambda n: "".join("%d " % i for i in range(1, n + 1))
    with Daemon(t) as d:
        c = d.client()
        s = c.new(cwd=d.work)
        c.turn(s, "before")
        i = c.prompt(s, "SLOW:20")
        c.until("agent_message_chunk", 4)
        other = d.client()
        counted = come(other, s)["message_count"]
        said = other.ok("session/messages", {"session_id": s})
        t.eq("who-attaches-finds-what-was-said-before-the-turn", [m["content"] for m in said["messages"]], ["before", "before", "SLOW:20"])
        t.eq("and-is-told-how-much-that-is", (counted, said["total"]), (3, 3))
        come(other, s)
        other.until("turn_complete")
        first = other.text()
        t.ok("and-gets-the-rest-of-it-live-each-piece-once", first.startswith(whole(20)), first)
        c.reply(i)
        t.eq("as-who-prompted-it-does", first, c.text()[len("before"):])
        t.ok("what-it-had-missed-comes-in-few-lines", len([u for u in other.told if u["type"] == "agent_message_chunk"]) < len([u for u in c.told if u["type"] == "agent_message_chunk"]) - 1, kinds(other))
        t.eq("and-nothing-follows-the-end", kinds(other).count("turn_complete"), 1)
        t.eq("then-all-of-it-is-among-the-messages", [m["content"] for m in other.ok("session/messages", {"session_id": s})["messages"][3:]], first.split("\n\n"))
        # A daemon that dies in the turn: who comes back to the next one has it all the same.
        c.told.clear()
        c.prompt(s, "SLOW:25")
        c.until("agent_message_chunk", 8)
        d.restart(signal.SIGKILL)
        back = d.client()
        come(back, s)
        back.until("turn_complete")
        t.ok("who-comes-back-after-a-crash-gets-the-rest-live", back.text().startswith(whole(25)), back.text())
        # An approval that is shown again, and the turn after the answer.
        asks = d.client()
        asks.prompt(s, "ASK and go on")
        asks.until("approval_request")
        asks.close()
        back = d.client()
        come(back, s)
        rid = back.until("approval_request")["request_id"]
        t.eq("what-waits-is-shown-again-and-answered", back.ok("session/approve", {"session_id": s, "request_id": rid, "decision": "allow_once"})["acknowledged"], True)
        back.until("turn_complete")
        after = kinds(back)[kinds(back).index("approval_request") + 1:]
        t.ok("and-the-turn-is-told-on", "tool_result" in after and "agent_message_chunk" in after and after[-1] == "turn_complete", kinds(back))
        t.eq("who-answered-is-not-told-that-it-was-answered", after.count("approval_request"), 0)


def comes_back(d, session):
    """What zerocode does on its own after its connection broke in a turn: the client, and what it heard and read."""
    c = d.client(tui_id="tui_0badcafe")
    come(c, session)
    c.ok("session/messages", {"session_id": session})
    code = c.code("session/cancel", {"session_id": session})
    state = c.ok("session/state", {"session_id": session})
    read = c.ok("session/messages", {"session_id": session})["messages"]
    said = " ".join(m["content"] for m in read if (m["role"], m["kind"]) == ("assistant", "message"))
    return c, code, (state["state"], state["turn_id"]), said


@area("zeroclaw-comes-back")
def comes_back_to_it(t):
    numbers = lambda text: [int(word) for word in text.split() if word.isdigit()]
    with Daemon(t) as d:
        first = d.client()
        s = first.new(cwd=d.work)
        first.prompt(s, "SLOW:15 ASK SLOW:10")
        first.until("agent_message_chunk", 4)
        d.restart(signal.SIGKILL)
        c, code, state, said = comes_back(d, s)
        t.eq("who-comes-back-does-not-stop-the-turn-by-that", (code, d.client().ok("session/state", {"session_id": s})["state"]), (-32000, "running"))
        t.eq("and-hears-that-nothing-runs", state, ("idle", None))
        c.told.clear()
        for _ in range(2):
            c.ok("session/git_branch", {"session_id": s})
        rid = c.until("approval_request")["request_id"]
        t.eq("it-has-read-what-was-said-and-is-told-the-rest", numbers(said + " " + c.text()), list(range(1, 16)))
        c.told.clear()
        c.ok("session/approve", {"session_id": s, "request_id": rid, "decision": "allow_once"})
        c.until("turn_complete")
        t.ok("also-after-its-answer", numbers(c.text()) == list(range(1, 11)) and kinds(c).count("tool_result") == 1, c.told)
        first = d.client()
        first.prompt(s, "SLOW:3000")
        first.until("agent_message_chunk", 2)
        c, code, state, said = comes_back(d, s)
        t.eq("what-it-stops-then-is-stopped", c.ok("session/cancel", {"session_id": s})["cancelled"], True)
        t.eq("for-who-prompted-it-too", first.until("turn_complete")["outcome"], "cancelled")
        i = c.prompt(s, "SLOW:3000 mine")
        c.until("agent_message_chunk", 2)
        t.eq("its-own-turn-it-stops-at-once", c.ok("session/cancel", {"session_id": s})["cancelled"], True)
        c.reply(i)


@area("zeroclaw-elsewhere")
def elsewhere(t):
    with Daemon(t) as d:
        c = d.client()
        s = c.new(cwd=d.work)
        i = c.prompt(s, "ASK there")
        rid = c.until("approval_request")["request_id"]
        other = d.client()
        come(other, s)
        other.until("approval_request")
        other.ok("session/approve", {"session_id": s, "request_id": rid, "decision": "allow_once"})
        settled = c.until("approval_request", 2)
        t.eq("a-box-that-was-answered-elsewhere-is-taken-over", (settled["request_id"], settled["resolved"], settled["timeout_secs"]), (rid, True, 0))
        t.ok("by-who-answered-it", "answered by" in settled["tool_name"], settled)
        t.eq("and-decides-nothing", c.ok("session/approve", {"session_id": s, "request_id": rid, "decision": "reject"})["acknowledged"], False)
        t.eq("the-turn-goes-on", c.reply(i)["result"]["stop_reason"], "end_turn")
        t.eq("and-ends-with-its-end", kinds(c)[-1], "turn_complete")
        c.told.clear()
        i = c.prompt(s, "ASK again")
        c.until("approval_request")
        d.client().ok("session/cancel", {"session_id": s})
        c.reply(i)
        t.eq("one-that-was-taken-back-is-said-to-be-before-the-end", (kinds(c)[-2:], c.told[-2].get("resolved")), (["approval_request", "turn_complete"], True))
        f = d.client(clientCapabilities={"elicitation": {"form": {}}})
        f.prompt(s, "QUESTION here")
        f.form()
        other = d.client(clientCapabilities={"elicitation": {"form": {}}})
        come(other, s)
        asked = other.form()
        other.raw({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"choice": "choice-0"}}})
        t.ok("a-question-that-was-answered-elsewhere-is-said-to-be", "answered by" in f.until("agent_thought_chunk")["text"], f.told)


@area("zeroclaw-counts")
def counts(t):
    with Daemon(t) as d:
        c = d.client()
        s = c.new(cwd=d.work, session_id="counted")
        listed = lambda: [e["message_count"] for e in c.ok("session/list")["sessions"] if e["session_id"] == s]
        total = lambda: c.ok("session/messages", {"session_id": s})["total"]
        t.eq("none-at-first", (listed(), total()), ([0], 0))
        c.turn(s, "one")
        t.eq("a-prompt-and-an-answer-are-two", (listed(), total()), ([2], 2))
        c.turn(s, "TOOL please")
        want = total()
        t.ok("tools-count-as-they-are-listed", want > 4 and listed() == [want], (listed(), want))
        i = c.prompt(s, "SLOW:60")
        c.until("agent_message_chunk", 6)
        c.ok("session/cancel", {"session_id": s})
        c.reply(i)
        t.ok("half-an-answer-counts", wait_for(lambda: listed() == [total()], LONG) and total() == want + 2, (listed(), total(), want))
        want = total()
        t.eq("attaching-counts-the-same", come(c, s)["message_count"], want)
        c.ok("session/close", {"session_id": s})
        t.eq("and-so-does-what-goes-on-under-its-name", come(c, s)["message_count"], want)
        d.restart(signal.SIGKILL)
        c = d.client()
        t.eq("also-after-a-crash", listed(), [want])
