"""An agent that answers its own request, or takes what is another's, through everything that ostler listens on."""
import datetime
import json
import os
import re
import shlex
import shutil
import threading
import uuid

from approvals_kit import LONG, Asker, House, Terminal, approved, run_hosted
from lib import area, wait_for


@area("hosted")
def decides(t):
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
        knock = house.dir + "/knock.py"
        with open(knock, "w") as f:
            f.write("import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect(%r)\ns.sendall(%r)\nprint(s.makefile().readline())\n" % (native, decide.encode() + b"\n"))
        tries = {
            "approve": "%s approve %s" % (o, id),
            "deny": "%s deny %s" % (o, id),
            "rules": "%s rules add -- echo self-service" % o,
            "inbox": "%s approvals" % o,
            "approve-in-a-clean-environment": "env -i HOME=$HOME setsid %s approve %s" % (o, id),
            "approve-on-a-terminal-of-its-own": "script -qec '%s approve %s' /dev/null </dev/null" % (o, id),
            "approve-in-a-tmux-of-its-own": "env -u TMUX tmux -S %s/own.tmux new-session -d '%s approve %s >%s/tmux.said 2>&1; sleep 1'; for n in 1 2 3 4 5 6 7 8 9; do sleep 0.3; done; cat %s/tmux.said; tmux -S %s/own.tmux kill-server"
                                            % (house.dir, o, id, house.dir, house.dir, house.dir),
            "native-socket": "%s %s" % (python, knock),
            "native-socket-in-other-namespaces": "unshare --user --map-current-user --pid --fork script -qec '%s %s' /dev/null </dev/null" % (python, knock),
        }
        refused = lambda said: "runs in ostler" in said and "a terminal of your own" in said
        for how in ([], ["-t"]):
            kind = "terminal" if how else "pipe"
            for name, line in tries.items():
                if how and name in ("approve-in-a-tmux-of-its-own", "native-socket-in-other-namespaces"):
                    continue
                before = len(house.audit("attempted"))
                said = run_hosted(house, how, line)
                if "unshare: " in said:
                    t.skip(name, said.strip()[:100])
                    continue
                t.stopped("%s-%s" % (name, kind), refused(said) and (house.state_of(id), house.good("rules")) == ("pending", ""), said)
                if name != "inbox":
                    t.ok("%s-%s-is-audited" % (name, kind), len(house.audit("attempted")) > before, said)
            hello = json.dumps({"id": 1, "verb": {"hello": {"protocol": 1, "oldest": 1, "pid": 1, "program": "x"}}}).encode()
            script = ("import socket; s=socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(20); s.connect(%r); "
                      "s.send(%r); print('keeper said', s.recv(65536))" % (keeper, len(hello).to_bytes(4, "little") + hello))
            before = len(house.audit("attempted"))
            said = run_hosted(house, how, "%s -c %s" % (python, shlex.quote(script)))
            t.stopped("keeper-socket-%s" % kind, "is hosted here" in said and "batch" not in said.lower() and "spawned" not in said.lower()
                      and house.state_of(id) == "pending", said)
            t.ok("keeper-socket-%s-is-audited" % kind, wait_for(lambda: len(house.audit("attempted")) > before, LONG, 0.1), said)
            said = run_hosted(house, how, "%s restart" % o)
            t.stopped("restart-%s" % kind, "cannot replace it" in said, said)
        own = own_prompt(house)
        t.stopped("its-own-sudo-proxy", own.get("status") in ("error", "denied", "timeout"), own)
        t.ok("who-tried-is-in-the-audit", all(re.match(r"(uid \d+ )?pid \d+", a["record"]["who"]) for a in house.audit("attempted")))
        inside = run_hosted(house, [], "%s approvals --list" % o)
        t.control("looking-is-allowed", id in inside, inside)
        seen, code = approved(house, id)
        t.control("a-person-decides-all-the-same", code == 0 and asker.answer().get("text") == "self-service\n", seen)
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


@area("hosted")
def takes_what_is_anothers(t):
    """`down`, `kill`, `attach` and `logs` of what is not its own."""
    house = House(t).up()
    o = shlex.quote(house.program)
    try:
        house.good("run", "-d", "--name", "other", "--", "sh", "-c", "echo private-words; exec cat")
        wait_for(lambda: "private-words" in house("logs", "other")[1], LONG, 0.1)
        lives = lambda: [p for p in house.json("ps") if p.get("name") == "other" and p.get("state", "running") == "running"]
        said = run_hosted(house, [], "%s logs other" % o)
        t.stopped("logs-of-another", "private-words" not in said, said)
        said = run_hosted(house, [], "timeout 5 %s attach other </dev/null" % o)
        t.stopped("attach-to-another", "private-words" not in said, said)
        house.good("new", "echo", "--name", "talk", "-m", "private-prompt")
        for verb in ("watch talk --tail 9", "export talk", "attach talk"):
            said = run_hosted(house, [], "timeout 5 %s %s </dev/null" % (o, verb))
            t.stopped("%s-of-anothers-session" % verb.split()[0], "private-prompt" not in said, said)
        for verb in ("send talk hijacked", "interrupt talk", "close talk", "forget talk", "set talk --name taken"):
            said = run_hosted(house, [], "timeout 10 %s %s </dev/null; echo ended $?" % (o, verb))
            there = house.good("export", "talk") if house("export", "talk")[0] == 0 else "gone"
            t.stopped("%s-to-anothers-session" % verb.split()[0], "ended 0" not in said and "hijacked" not in there and there != "gone", (said, there[-300:]))
        t.control("a-person-reads-the-session", "private-prompt" in house("export", "talk")[1], house("export", "talk"))
        said = run_hosted(house, [], "%s kill other" % o)
        wait_for(lambda: not lives(), 2, 0.1)
        t.stopped("kill-another", bool(lives()), said)
        if not lives():
            house.good("run", "-d", "--name", "other2", "--", "sleep", "1000")
        before = house.record()["pid"]
        said = run_hosted(house, [], "%s down --keep" % o)
        wait_for(lambda: not running(house), 2, 0.1)
        t.stopped("down", running(house) and house.record()["pid"] == before, said)
        house("up")
        stop = {"id": str(uuid.uuid4()), "host": "h", "session": "s", "reason": "r", "env": {}, "pipeline": [["x"]], "privileged": False, "forward_agent": False,
                "time": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "action": "stop"}
        said = run_hosted(house, [], "%s -c %s" % (shutil.which("python3"), shlex.quote(
            "import socket; s=socket.socket(socket.AF_UNIX); s.connect(%r); s.sendall(%r); print(s.makefile().readline())" % (house.door(), json.dumps(stop).encode() + b"\n"))))
        wait_for(lambda: not running(house), 2, 0.1)
        t.stopped("stop-through-the-sudo-door", running(house), said)
        house("up")
        said = run_hosted(house, [], "echo own-words >&2; %s logs \"$OSTLER_PROCESS\"" % o)
        t.control("its-own-it-reads", said.count("own-words") >= 2, said)
        house.good("run", "-d", "--name", "mine", "--", "sh", "-c", "echo my-words; exec sleep 1000")
        t.control("a-person-reads-it", wait_for(lambda: "my-words" in house("logs", "mine")[1], LONG, 0.1))
        t.control("a-person-ends-it", house("kill", "mine", "--wait")[0] == 0)
        t.control("a-person-stops-it", house("down", "--kill")[0] == 0 and not running(house))
    finally:
        house.down()


def running(house):
    try:
        os.kill(house.record()["pid"], 0)
        return True
    except (OSError, ValueError):
        return False
