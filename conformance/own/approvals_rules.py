"""Standing answers, and the refusal that needs no further asking."""
import json
import os
import socket
import sys

from approvals_kit import LONG, House, Terminal
from lib import area, wait_for


@area("approvals-fatigue")
def fatigue(t):
    house = House(t).up()
    try:
        for n in range(3):
            asker = house.ask(["echo", "again"], reason="please %d" % n)
            one = house.waiting()[0]
            t.eq("refusal-%d" % n, Terminal(house, "deny", one["id"]).wait(LONG), 0)
            t.eq("denied-%d" % n, asker.answer().get("status"), "denied")
        answer = house.ask(["echo", "again"]).answer()
        t.ok("the-fourth-time-nobody-is-asked", answer.get("status") == "error" and "refused 3 times" in answer.get("message", ""), answer)
        t.ok("that-is-audited", "refused 3 times" in house.audit("refused")[-1]["record"]["why"])
        asker = house.ask(["echo", "something else"])
        one = house.waiting()[0]
        t.ok("something-else-is-asked", "something else" in one["title"], one)
        asker.sock.close()
    finally:
        house.down()


@area("approvals-rules")
def rules(t):
    house = House(t).up()
    try:
        t.ok("none-at-first", house("rules")[1:] == ("", "no rules; you are asked about everything\n"), house("rules"))
        rc, o, e = house("rules", "add", "--", "echo", "x")
        t.ok("not-from-a-script", rc == 5 and "has no terminal" in e, (rc, o, e))

        def add(*args):
            term = Terminal(house, "--json", "rules", "add", *args)
            code = term.wait(LONG)
            return json.loads(term.seen) if code == 0 else (code, term.seen)

        rule = add("--expires", "30d", "--", "echo", "lib*-dev", "x")
        t.ok("a-rule-is-made", isinstance(rule, dict) and rule["effect"] == "allow" and rule["expires"] and rule["scope"] == "host", rule)
        t.eq("a-pattern-answers", house.ask(["echo", "libfoo-dev", "x"]).answer().get("text"), "libfoo-dev x\n")
        by = house.audit("decided")[-1]["record"]["by"]
        t.eq("audited-with-the-rule's-name", by, {"from": "rule", "name": rule["name"]})
        for other in (["echo", "libfoo-dev"], ["echo", "xlibfoo-dev", "x"], ["echo", "libfoo-dev", "x", "y"]):
            asker = house.ask(other)
            house.waiting(1)
            asker.sock.close()
            house.waiting(0)
        t.ok("a-pattern-is-anchored-and-counts-arguments", True)
        asker = house.ask(["echo", "libfoo-dev", "x"], privileged=True)
        house.waiting(1)
        t.ok("as-root-is-another-command", True)
        asker.sock.close()
        house.waiting(0)
        no = add("--deny", "--", "echo", "*", "x")
        t.eq("a-no-wins-over-a-yes", house.ask(["echo", "libbar-dev", "x"]).answer().get("status"), "denied")
        t.ok("both-are-listed", rule["name"] in house.good("rules") and no["name"] in house.good("rules", "list"))
        star = add("--exact", "--session", "test-session", "--", "printf", "%s", "*")
        t.eq("exact-stars-are-stars", house.ask(["printf", "%s", "*"]).answer().get("text"), "*")
        asker = house.ask(["printf", "%s", "anything"])
        house.waiting(1)
        asker.sock.close()
        house.waiting(0)
        for name in (no["name"], rule["name"][:6], star["name"]):
            t.eq("revoke-%s" % name[:1], Terminal(house, "rules", "revoke", name).wait(LONG), 0)
        t.eq("nothing-is-left", house.json("rules"), [])
        asker = house.ask(["echo", "libfoo-dev", "x"])
        house.waiting(1)
        asker.sock.close()
        t.ok("a-revoked-rule-answers-no-more", True)
        t.eq("making-and-revoking-is-audited", (len(house.audit("rule_added")), len(house.audit("rule_revoked"))), (3, 3))
        t.eq("revoke-of-nothing-exit-4", house("rules", "revoke", "rzzz")[0], 4)
        t.eq("a-program-that-is-not-there-exit-4", house("rules", "add", "--", "no-such-program-zz")[0], 4)
        rc, o, e = house("rules", "add", "--expires", "soon", "--", "echo")
        t.ok("a-bad-time-is-explained", rc == 2 and "30d" in e or "7d" in e, (rc, e))
    finally:
        house.down()


# Asks for a command, then becomes the agent.
ASKING = """#!%s
import datetime, json, os, socket, sys, uuid
now = datetime.datetime.now(datetime.timezone.utc).strftime("%%Y-%%m-%%dT%%H:%%M:%%SZ")
request = {"id": str(uuid.uuid4()), "host": "h", "session": "somebody else", "reason": "a test", "env": {}, "time": now,
           "pipeline": [["echo", "of a session"]], "privileged": False, "forward_agent": False}
if os.fork() == 0:
    s = socket.socket(socket.AF_UNIX)
    s.connect(%r)
    s.sendall(json.dumps(request).encode() + b"\\n")
    with open(%r, "a") as f: f.write(s.makefile().readline())
    os._exit(0)
os.execv(%r, [%r, "__echo", "--session", "x"])
"""


@area("approvals-rules-of-a-session")
def of_a_session(t):
    """A rule for a session, or for a folder, answers what that session's agent asks for, and nobody who only claims to be it."""
    house = House(t).up()
    try:
        agent, said = house.dir + "/agent", house.dir + "/said"
        with open(agent, "w") as f:
            f.write(ASKING % (sys.executable, house.door(), said, house.program, house.program))
        os.chmod(agent, 0o755)

        def session(name, folder):
            os.makedirs(folder, exist_ok=True)
            wire = socket.socket(socket.AF_UNIX)
            wire.connect(house.record()["native"])
            params = {"agent": "echo", "program": agent, "workspace": folder, "name": name}
            wire.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "session.create", "params": params}).encode() + b"\n")
            return json.loads(wire.makefile().readline())["result"]["id"]

        def add(*args):
            term = Terminal(house, "--json", "rules", "add", *args, "--", "echo", "of a session")
            return json.loads(term.seen) if term.wait(LONG) == 0 else term.seen

        def answers():
            return [json.loads(line)["status"] for line in open(said)] if os.path.exists(said) else []
        mine, folder = session("mine", house.dir + "/one"), house.dir + "/two"
        house.good("send", "mine", "hello")
        one = house.waiting()[0]
        t.eq("a-session-is-verified-whatever-is-claimed", (one["asker"]["verified_session"], one["asker"]["claimed_session"], one["workspace"]), (mine, "somebody else", house.dir + "/one"))
        t.eq("no", Terminal(house, "deny", one["id"]).wait(LONG), 0)
        rule = add("--session", "mine")
        t.eq("a-name-means-the-session", rule["scope"] if isinstance(rule, dict) else rule, "session " + mine)
        house.good("kill", house.json("sessions")[0]["process"])
        # A prompt that reaches a process on its way out is interrupted with it.
        wait_for(lambda: not house.json("sessions")[0]["process"], LONG, 0.05)
        house.good("send", "mine", "again")
        t.ok("its-rule-answers-also-the-next-process", wait_for(lambda: answers() == ["denied", "ok"], LONG, 0.1), answers())
        other = house.ask(["echo", "of a session"], session=mine)
        t.eq("a-claim-is-not-enough", len(house.waiting()), 1)
        other.sock.close()
        house.waiting(0)
        os.makedirs(folder)
        add("--workspace", folder)
        session("theirs", folder)
        house.good("send", "theirs", "hello")
        t.ok("a-rule-for-a-folder-answers", wait_for(lambda: answers()[2:] == ["ok"], LONG, 0.1), (answers(), house.pending()))
    finally:
        house.down()
