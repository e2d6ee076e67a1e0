"""An agent that answers its own request: every way it could try."""
import json
import os
import re
import shlex
import shutil
import threading

from approvals_kit import LONG, Asker, House, Terminal, approved
from lib import area, wait_for


@area("approvals-hosted")
def hosted(t):
    """An agent that answers its own request: every way it could try."""
    house = House(t).up()
    try:
        asker = house.ask(["echo", "self-service"])
        one = house.waiting()[0]
        o = shlex.quote(house.program)
        id = one["id"]
        native = house.record()["native"]
        keeper = house.state + "/instances/main/keeper.sock"
        decide = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "approval.decide", "params": {"id": id, "hash": one["hash"], "verdict": "once"}})
        python = shutil.which("python3")
        tries = {
            "approve": "%s approve %s" % (o, id),
            "deny": "%s deny %s" % (o, id),
            "rules": "%s rules add -- echo self-service" % o,
            "inbox": "%s approvals" % o,
            "approve-in-a-clean-environment": "env -i HOME=$HOME setsid %s approve %s" % (o, id),
            "approve-on-a-terminal-of-its-own": "script -qec '%s approve %s' /dev/null </dev/null" % (o, id),
            "native-socket": "%s -c %s" % (python, shlex.quote(
                "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(%r); s.sendall(%r); print(s.makefile().readline())"
                % (native, decide.encode() + b"\n"))),
        }
        for how in ([], ["-t"]):
            kind = "terminal" if how else "pipe"
            for name, line in tries.items():
                before = len(house.audit("attempted"))
                said = run_hosted(house, how, line)
                t.ok("%s-%s-is-refused" % (name, kind), "runs in ostler" in said and "a terminal of your own" in said, said)
                if name != "inbox":
                    t.ok("%s-%s-is-audited" % (name, kind), len(house.audit("attempted")) > before, said)
                t.eq("%s-%s-decides-nothing" % (name, kind), (house.state_of(id), house.good("rules")), ("pending", ""))
            hello = json.dumps({"id": 1, "verb": {"hello": {"protocol": 1, "oldest": 1, "pid": 1, "program": "x"}}}).encode()
            script = ("import socket; s=socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(20); s.connect(%r); "
                      "s.send(%r); print('keeper said', s.recv(65536))" % (keeper, len(hello).to_bytes(4, "little") + hello))
            before = len(house.audit("attempted"))
            said = run_hosted(house, how, "%s -c %s" % (python, shlex.quote(script)))
            t.ok("keeper-socket-%s-is-refused" % kind, "is hosted here" in said and "a terminal that it does not host" in said, said)
            t.ok("keeper-socket-%s-is-audited" % kind, wait_for(lambda: len(house.audit("attempted")) > before, LONG, 0.1), said)
            t.ok("keeper-socket-%s-gives-nothing" % kind, "batch" not in said.lower() and "spawned" not in said.lower(), said)
            t.eq("keeper-socket-%s-decides-nothing" % kind, house.state_of(id), "pending")
            said = run_hosted(house, how, "%s restart" % o)
            t.ok("restart-%s-is-refused" % kind, "cannot replace it" in said, said)
        own = own_prompt(house)
        t.ok("its-own-sudo-proxy-decides-nothing", own.get("status") in ("error", "denied", "timeout"), own)
        t.ok("who-tried-is-in-the-audit", all(re.match(r"(uid \d+ )?pid \d+", a["record"]["who"]) for a in house.audit("attempted")))
        inside = run_hosted(house, [], "%s approvals --list" % o)
        t.ok("looking-is-allowed", id in inside, inside)
        seen, code = approved(house, id)
        t.ok("a-person-decides-all-the-same", code == 0 and asker.answer().get("text") == "self-service\n", seen)
    finally:
        house.down()


def own_prompt(house):
    """What a request hears from a sudo-proxy that runs on a hosted terminal, with somebody who presses y all the time."""
    place = house.dir + "/own.sock"
    term = Terminal(house, "run", "-t", "--", house.program, "as", "sudo-proxy", "--socket", place)
    stop = threading.Event()

    def press():
        while not stop.wait(0.3):
            try:
                term.type(b"y")
            except OSError:
                return
    try:
        if not wait_for(lambda: os.path.exists(place), LONG, 0.1):
            return {"status": "error", "message": "it does not even start"}
        threading.Thread(target=press, daemon=True).start()
        return Asker(house, [["echo", "prompted"]], {}, place).answer(90)
    finally:
        stop.set()
        for process in house.json("ps"):
            house("kill", process["id"], "--wait")
        term.wait()


def run_hosted(house, how, line):
    """What a hosted shell hears when it tries this."""
    if not how:
        rc, o, e = house("run", "--", "sh", "-c", line, timeout=LONG * 2)
        return o + e
    term = Terminal(house, "run", "-t", "--", "sh", "-c", line)
    term.wait(LONG * 2)
    return re.sub(r"\s+", " ", term.seen.decode(errors="replace"))
