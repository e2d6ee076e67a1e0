"""A real agent through the codecast door: what a chat head node sees of it over HTTP, with the person at the inbox beside it.

Every message is a process of the agent's own here, and some take seconds to start: so a turn shows as many things as it can."""
import importlib.util
import json
import os
import re

from kit import Fail, LONG, at_terminal, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = importlib.util.spec_from_file_location("codecast_suite", os.path.join(HERE, "..", "codecast", "run.py"))
protocol = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(protocol)


class Head:
    """A client of the door of one house."""

    def __init__(self, house):
        with open(os.path.join(house.home, ".local/state/ostler/instances/main/instance.json")) as f:
            doors = json.load(f)["doors"]
        address = next((door["address"] for door in doors if door["name"] == "codecast"), None)
        if not address:
            raise Fail("the instance has no codecast door: %s" % doors)
        self.rpc = protocol.Rpc(int(address.rsplit(":", 1)[1]))

    def __call__(self, method, **params):
        return self.rpc.ok(method, params, timeout=LONG)

    def send(self, session, message):
        return protocol.Stream(self.rpc, session, message, timeout=LONG)

    def info(self, session):
        return next((s for s in self("session.list")["sessions"] if s["sessionId"] == session), None)


def words(stream, kind):
    return "".join(event["content"] for event in stream.events() if event["type"] == kind)


def approve(house, id):
    """`ostler approve ID` at a terminal of its own, and `y`: again until it is taken, because a key that is pressed too soon does not
    count. What it showed, and its exit code."""
    def key(seen):
        # It may ask for the next page, if it looked before the terminal was so large.
        return b"y" if seen.endswith(b"[y/N] ") else b" " if seen.endswith(b"space --") else b""
    # All of the request fits on one page.
    code, seen = at_terminal.run([house.program, "approve", id], key, dict(house.env, TERM="xterm"), size=(200, 200), patience=LONG)
    return seen.decode(errors="replace"), code


def lines(path):
    try:
        with open(path) as f:
            return len(f.readlines())
    except FileNotFoundError:
        return 0


def scenario(run):
    try:
        turns(run, Head(run.house))
    except protocol.Fail as error:
        raise Fail(str(error))


def turns(run, head):
    folder = run.house.workspace("codecast")
    file = lambda name: os.path.join(folder, name)
    id = head("session.create", path=folder, mode="auto", cli_type=run.agent)["sessionId"]

    # Its tools run without a question, and what it says is seen as it is said.
    stream = head.send(id, "RUN:echo cormorant >> %s" % file("auto")).finish(LONG)
    kinds = stream.types()
    run.ok("the-stream-has-every-part", kinds[:1] == ["system"] and kinds[-1:] == ["result"] and {"partial", "tool_use", "text"} <= set(kinds), stream.events())
    run.ok("words-come-in-pieces", kinds.count("partial") >= 3 and words(stream, "partial").split() == words(stream, "text").split(), stream.events())
    tools = [event for event in stream.events() if event["type"] == "tool_use"]
    run.ok("auto-runs-the-tool-once", lines(file("auto")) == 1 and any("cormorant" in json.dumps(tool.get("input")) for tool in tools), tools)
    run.ok("its-result-is-told", "Done. The tool said" in words(stream, "text") and (run.agent == "claude" or any("message" in tool for tool in tools)), stream.events())
    info = head.info(id)
    sdk = stream.events()[-1].get("session_id")
    run.ok("the-list-knows-it", info["status"] == "idle" and info["mode"] == "auto" and info["cliType"] == run.agent and info["sdkSessionId"] == sdk and sdk, (info, sdk))

    # A permission that is needed: the stream says how to decide, waits, and goes on.
    head("session.set_mode", sessionId=id, mode="ask")
    stream = head.send(id, "RUN:echo x >> %s" % file("asked"))
    stream.wait(lambda s: "ostler approve " in words(s, "text"), LONG, "a permission to be decided")
    request = re.search(r"ostler approve (\w+)", words(stream, "text")).group(1)
    run.ok("a-permission-is-waited-for", not stream.done() and lines(file("asked")) == 0 and head.info(id)["status"] == "busy", stream.events())
    rows = {row["uuid"]: row for row in json.loads(run.house.run("--json", "sessions"))}
    run.ok("the-command-line-sees-it-wait", rows[id]["status"] == "waiting" and rows[id]["approvals"] == [request] and rows[id]["door"] == "codecast", rows)
    seen, code = approve(run.house, request)
    run.ok("the-inbox-takes-a-yes", code == 0 and "echo x" in seen, (code, seen))
    stream.finish(LONG)
    run.ok("the-stream-goes-on", lines(file("asked")) == 1 and stream.types()[-1] == "result" and "Done. The tool said" in words(stream, "text"), stream.events())

    # Stopped in the middle of its words.
    stream = head.send(id, "SLOW:300")
    stream.wait_type("partial", LONG)
    told = head("session.interrupt", sessionId=id)
    stream.finish(LONG)
    run.ok("an-interrupt-ends-the-stream", told == {"ok": True, "interrupted": True} and stream.types()[-1] == "interrupted" and "result" not in stream.types(),
           (told, stream.events()[-3:]))
    wait_for("idle session after the interrupt", lambda: head.info(id)["status"] == "idle")

    # All of it on the command line, also when the session is over.
    head("session.destroy", sessionId=id)
    run.ok("destroyed-is-gone-from-the-list", head.info(id) is None, head("session.list"))
    record = json.loads(run.house.run("--json", "export", rows[id]["id"]))
    said = [event["type"] for one in record["records"] for event in one["events"]]
    run.ok("export-has-the-whole-conversation", said.count("prompt") == 3 and said.count("answered") == 1 and said[-1] == "closed", said)

    # The conversation is the agent's: another session goes on with it.
    other = head("session.create", path=folder, mode="auto", cli_type=run.agent)["sessionId"]
    resumed = head("session.resume", sessionId=other, sdkSessionId=sdk)
    stream = head.send(other, "RECALL:cormorant").finish(LONG)
    run.ok("resumed-by-its-own-id", resumed == {"ok": True, "fallback": False} and "I know cormorant" in words(stream, "text"), (resumed, stream.events()))
    head("session.destroy", sessionId=other)
