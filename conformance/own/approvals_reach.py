"""What a hosted process reaches at the native door: its own session, and nothing of others, until a person says so."""
import json
import re
import shlex

from approvals_kit import LONG, House, Terminal, run_hosted
from lib import Fail, area, wait_for

# Every method that touches what may be another's, and what to call it with.
TOUCHING = {
    "process.signal": {"signal": 15}, "process.kill": {}, "process.attach": {}, "process.stdin": {"data": ""}, "process.close_stdin": {},
    "process.resize": {"rows": 9, "cols": 9}, "process.rename": {"name": "stolen"}, "process.forget": {},
    "session.prompt": {"text": "obey"}, "session.edit": {"number": 1}, "session.interrupt": {}, "session.watch": {}, "session.close": {}, "session.forget": {},
    "session.raw": {"source": 1, "from": 0, "to": 1}, "session.change": {"name": "stolen"},
    "instance.stop": {}, "instance.leave": {}, "instance.prune": {"dry_run": False}, "audit.read": {"after": 0}, "feed.read": {}, "feed.follow": {}, "device.list": {}, "device.offers": {},
    "notice.list": {}, "notice.ways": {}, "notice.test": {}, "notice.looking": {},
    "history.get": {}, "history.messages": {}, "history.search": {"query": "secret"},
}


def called(house, method, params):
    """What a hosted program hears at the socket."""
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"
    script = "import socket; s=socket.socket(socket.AF_UNIX); s.connect(%r); s.sendall(%r); print(s.makefile().readline())" % (house.record()["native"], line)
    return run_hosted(house, [], "python3 -c " + shlex.quote(script))


@area("approvals-reach")
def reach(t):
    """Whoever is hosted reaches its own session, and nothing of others."""
    house = House(t).up()
    o = shlex.quote(house.program)
    try:
        other = house.good("run", "-d", "-t", "--name", "other", "--", "sh", "-c", "echo a secret of another; exec sleep 600").split()[0]
        session = house.good("new", "echo", ".", "--name", "talk").split()[0]
        if not wait_for(lambda: "a secret" in house.good("logs", other), LONG, 0.1):
            raise Fail("it says nothing")
        for method, params in TOUCHING.items():
            if not method.startswith("instance") and not method.startswith("audit"):
                params = dict(params, id=session if method.startswith(("session", "history")) else other)
            said = called(house, method, params)
            t.ok("%s-is-refused" % method, '"refused"' in said and "only reach their own" in said, said)
            t.ok("%s-names-the-setting" % method, re.search(r"ostler set p\w+ --access all", said), said)
        for verb in ("down --kill", "down --keep", "kill other", "attach other", "logs other", "export talk", "send talk hello", "watch talk", "close talk", "prune", "audit"):
            # At its very beginning the daemon knows that it is hosted, but not yet as whom, and names no setting.
            again = "for n in $(seq 100); do said=$(%s %s </dev/null 2>&1); case $said in *'--access all'*) break;; esac; sleep 0.1; done; echo \"$said\""
            said = run_hosted(house, [], again % (o, verb))
            t.ok("%s-is-refused" % verb.replace(" ", "-"), "only reach their own" in said and "--access all" in said, said)
        t.eq("nothing-came-of-it", [p["id"] for p in house.json("ps")], [other])
        said = run_hosted(house, [], "%s ps --json; %s sessions --json" % (o, o))
        t.ok("what-there-is-may-be-seen", other in said and session in said, said)
        said = called(house, "hosted.list", {"all": True, "lines": 5})
        t.ok("but-not-what-it-says", other in said and "a secret" not in said.replace("echo a secret of another", ""), said)
        house.good("send", "talk", "a secret of this conversation")
        said = called(house, "history.list", {}) + called(house, "history.search", {"query": "conversation"})
        t.ok("nor-any-conversation-of-others", '"total":0' in said and '"searched":0' in said and "a secret" not in said, said)
        said = called(house, "process.spawn", {"program": "true", "env": [["A=B", "c"]]}) + called(house, "process.spawn", {"program": "true", "env": [["", "c"]]})
        t.ok("no-variable-has-such-a-name", said.count("no variable can be called") == 2, said)
        own(t, house, o)
        opened(t, house, o, other)
    finally:
        house.down()


def own(t, house, o):
    """Nested use stays as it was."""
    script = "\n".join(["set -e", "id=$(%s run -d -- sh -c 'echo mine; sleep 600')" % o, "until %s logs $id | grep mine; do sleep 0.1; done" % o, "%s kill $id --wait" % o,
                        "%s run -- echo nested" % o, "%s new echo . --name child >/dev/null" % o, "%s send child 'hello there'" % o,
                        "%s export child >/dev/null; %s close child; echo done-nested" % (o, o)])
    said = run_hosted(house, [], script)
    t.ok("what-it-started-is-its-own", "mine" in said and "nested" in said and "hello there" in said and "done-nested" in said, said)


def opened(t, house, o, other):
    """A person may open everything to one process, at a place of theirs."""
    shell = house.good("run", "-d", "-t", "--name", "shell", "--", "sh").split()[0]
    said = run_hosted(house, ["-t"], "%s set %s --access all" % (o, shell))
    t.ok("no-hosted-process-opens-it", "runs in ostler" in said, said)
    rc, out, err = house("set", shell, "--access", "all")
    t.ok("nor-whoever-has-no-terminal", rc != 0 and "no terminal" in out + err, out + err)
    term = Terminal(house, "set", shell, "--access", "all")
    code = term.wait()
    t.ok("a-person-does", code == 0 and b"reaches everything" in term.seen, term.seen)
    t.ok("which-is-in-the-audit", any(r["record"].get("process") == shell and r["record"]["all"] for r in house.audit("access")), house.audit())
    inside = Terminal(house, "attach", shell)
    inside.type(("%s logs other; echo said-$?\r" % o).encode())
    seen = inside.until(b"said-0", LONG)
    t.ok("then-that-process-reaches-everything", b"a secret of another" in seen, seen)
    said = run_hosted(house, [], "%s logs other" % o)
    t.ok("and-no-other", "only reach their own" in said, said)
    term = Terminal(house, "set", shell, "--access", "own")
    term.wait()
    inside.type(("%s logs other; echo again-$?\r" % o).encode())
    t.ok("until-it-is-taken-back", b"only reach their own" in inside.until(b"again-5", LONG), inside.seen)
    inside.type(b"exit\r")
    inside.wait()
