"""A hosted process that takes every place, fills the record, or asks for what it can replace after the yes."""
import os
import re
import shutil

from approvals_kit import LONG, House, approved
from by_hosted_record import said
from lib import area, wait_for

# Asks as often as it is let, and holds on to every place that it got.
STARVE = r'''
import datetime, json, socket, sys, time, uuid
door, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
held, told = [], []
for n in range(count):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(5)
    try:
        s.connect(door)
        s.sendall(json.dumps({"id": str(uuid.uuid4()), "host": "h", "session": "greedy-%d" % n, "reason": "r", "env": {},
                              "time": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                              "pipeline": [["echo", str(n), "x" * size]], "privileged": False, "forward_agent": False}).encode() + b"\n")
    except OSError as error:
        told.append(str(error))
        break
    held.append(s)
print("held", len(held), told, flush=True)
time.sleep(float(sys.argv[4]))
'''


@area("hosted")
def starves(t):
    """Every place taken by one asker: somebody else's request still gets one."""
    house = House(t).up()
    try:
        script = house.dir + "/starve.py"
        with open(script, "w") as f:
            f.write(STARVE)
        house.good("run", "-d", "--name", "greedy", "--", shutil.which("python3"), script, house.door(), "200", "10", "1000")
        wait_for(lambda: "held" in house("logs", "greedy")[1], LONG, 0.1)
        # It has connected; the daemon may still be reading.
        wait_for(lambda: len(house.pending()) > 5, LONG, 0.2)
        taken = len(house.pending())
        asker = house.ask(["echo", "from-somebody-else"])
        answer = {}
        mine = lambda: [a for a in house.pending() if "from-somebody-else" in a["title"]]
        wait_for(lambda: mine() or answer.update(said(asker)) or answer, LONG, 0.1)
        t.stopped("every-place-taken", bool(mine()), (taken, answer))
        t.control("the-greedy-one-got-some", taken > 5, taken)
        house("kill", "greedy", "--wait")
        if not mine():
            asker = house.ask(["echo", "from-somebody-else"])
            wait_for(mine, LONG, 0.1)
        seen, code = approved(house, mine()[0]["id"])
        t.control("and-it-is-answered", code == 0 and asker.answer().get("text") == "from-somebody-else\n", seen)
    finally:
        house.down()


@area("hosted")
def grows(t):
    """Requests of the largest size, withdrawn at once, until the disk is full: the record stays within bounds."""
    house = House(t).up()
    try:
        script = house.dir + "/starve.py"
        with open(script, "w") as f:
            f.write(STARVE)
        size = lambda: sum(os.path.getsize(os.path.join(house.state, "instances/main", n)) for n in os.listdir(house.state + "/instances/main") if n.startswith("inbox.db"))
        before = size()
        for n in range(5):
            house("run", "--", shutil.which("python3"), script, house.door(), "40", "900000", "1", timeout=LONG * 2)
        grown = (size() - before) >> 20
        t.stopped("the-record-grows-without-end", grown < 64, "%d MiB" % grown)
        t.control("the-record-goes-on", len(house.audit("asked")) + len(house.audit("refused")) > 0)
    finally:
        house.down()


@area("hosted")
def replaces(t):
    """Programs, interpreters and scripts that the asker can write, asked for as root."""
    house = House(t).up()
    try:
        mine = house.dir + "/mine"
        for path, text in ((mine, "#!/bin/sh\nid -u\n"), (house.dir + "/data", "id -u\n")):
            with open(path, "w") as f:
                f.write(text)
            os.chmod(path, 0o755)

        def refused(*stage):
            asker = house.ask(list(stage), privileged=True)
            answer = {}
            wait_for(lambda: house.pending() or answer.update(said(asker)) or answer, LONG, 0.1)
            shown = house.pending()
            asker.sock.close()
            wait_for(lambda: not house.pending(), LONG, 0.1)
            return "replaced" in answer.get("message", "") or "could be" in answer.get("message", ""), (answer, shown)
        for name, stage in (("a-program", [mine]), ("a-script-for-sh", ["sh", house.dir + "/data"]), ("a-script-for-python", [shutil.which("python3"), house.dir + "/data"])):
            is_refused, got = refused(*stage)
            t.stopped("%s-that-it-can-write" % name, is_refused, got)
        if t.outside:
            # A script of root's, whose first line names an interpreter that is the asker's.
            there = t.outside.facts["base"] + "/bin/of-root"
            t.outside.root("sh", "-c", "printf '#!%s\\nid -u\\n' > %s; chmod 755 %s" % (mine, there, there))
            is_refused, got = refused(there)
            t.stopped("an-interpreter-that-it-can-write", is_refused, got)
        is_refused, got = refused("/usr/bin/id", "-u")
        t.control("a-program-of-the-system-is-asked-about", not is_refused and len(got[1]) == 1, got)
    finally:
        house.down()


@area("hosted")
def replaced_program(t):
    """ostler itself, installed where an agent can write: nothing stops that, doctor says it."""
    house = House(t)
    good = house.program
    copy = house.dir + "/ostler"
    shutil.copy(good, copy)
    try:
        house.program = copy
        house.up()
        rc, said, e = house("doctor")
        t.ok("doctor-tells-of-a-program-that-an-agent-can-replace", re.search(r"weak +program .*%s" % re.escape(house.dir), said), said)
        house.good("down", "--kill")
        house.program = good
        house.up()
        rc, said, e = house("doctor")
        t.control("one-of-roots-is-not-named", not re.search(r"weak +program ", said), said)
    finally:
        house.down()
