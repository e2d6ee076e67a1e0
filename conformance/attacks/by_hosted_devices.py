"""A hosted process that would become a device: it reads a code, pairs itself, lets itself in, or uses what it stole."""
import glob
import json
import os
import shlex
import shutil
import time
import urllib.request

from approvals_kit import LONG, Terminal, run_hosted
from devices_kit import Device, Guests, offered, port_of, speaker
from lib import area, wait_for


def line(method, **params):
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def native(house, *lines):
    """A command line that says these at the native socket, and prints what it hears."""
    path = house.dir + "/says-%s.py" % os.urandom(4).hex()
    with open(path, "w") as f:
        f.write("import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect(%r)\nf = s.makefile()\n" % house.record()["native"])
        f.write("for line in %r:\n    s.sendall(line.encode() + b'\\n')\n    print(f.readline().strip())\n" % (list(lines),))
    return "%s %s" % (shutil.which("python3"), path)


def remote(house, *lines, token=""):
    """The same at the port for devices."""
    path = house.dir + "/lines-%s" % os.urandom(4).hex()
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
    return "%s %s %d %s <%s" % (shutil.which("python3"), speaker(house), port_of(house), token, path)


@area("hosted")
def becomes_a_device(t):
    """Pairing itself, and letting itself in."""
    house = Guests(t).up()
    try:
        o = shlex.quote(house.program)
        tries = {
            "pairs-itself": "%s pair" % o,
            "makes-itself-a-link": "%s web" % o,
            "offers-itself-a-place": native(house, line("device.offer", code=True, rights=["admit", "view"])),
            "offers-on-a-terminal-of-its-own": "script -qec '%s pair' /dev/null </dev/null" % o,
            "lets-devices-in-again": native(house, line("device.affirm", digests=["0" * 64])),
            "puts-all-out": native(house, line("device.revoke", all=True)),
        }
        for name, command in tries.items():
            before = len(house.audit("attempted"))
            said = run_hosted(house, [], command)
            t.stopped(name, " in ostler" in said and "link\":" not in said and "/#" not in said, said)
            t.ok("%s-is-audited" % name, len(house.audit("attempted")) > before, said)
        t.control("a-person-puts-all-out", Terminal(house, "devices", "revoke", "--all").wait() == 0)
        for method in ("device.list", "device.offers"):
            said = run_hosted(house, [], native(house, line(method)))
            t.stopped("looks-at-%s" % method.split(".")[1], "error" in said and "devices\":" not in said and "offers\":" not in said, said)
    finally:
        house.down()


@area("hosted-at-port")
def at_the_port(t):
    """What it can do with codes, links and tokens that it got hold of."""
    house = Guests(t).up()
    try:
        if port_of(house) is None:
            return t.skip("all", "no port for devices")
        steals(t, house)
    finally:
        house.down()


def steals(t, house):
    audited = lambda: len(house.audit("attempted"))
    term = Terminal(house, "pair", "--name", "phone", "--rights", "full")
    code, _ = offered(term)
    # Everything a process of the same user can read: what is on the disk, and the arguments of every program.
    kept = b"".join(open(path, "rb").read() for path in glob.glob(house.state + "/instances/main/inbox.db*"))
    arguments = run_hosted(house, [], "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
    t.stopped("reads-a-code", b'"%s"' % code.encode() not in kept and code not in arguments, code)
    before = audited()
    said = run_hosted(house, [], remote(house, line("device.code", code=code)))
    t.stopped("redeems-a-code", " in ostler" in said and "link\":" not in said, said)
    t.ok("redeems-a-code-is-audited", audited() > before, said)
    phone = Device(house)
    who = dict(link=phone("device.code", code=code)["link"], name="phone")
    t.control("a-device-redeems-it", "offer" in phone("device.redeem", **who))
    before = audited()
    said = run_hosted(house, [], remote(house, line("device.redeem", **who)))
    t.stopped("takes-anothers-place", " in ostler" in said and "paired\":" not in said, said)
    t.ok("takes-anothers-place-is-audited", audited() > before, said)
    waiting = next(r for r in [phone("device.redeem", **who)] if r.get("offer"))["offer"]
    before = audited()
    said = run_hosted(house, [], native(house, line("device.admit", offer=waiting)))
    t.stopped("lets-in-who-waits", " in ostler" in said and "offer" in phone("device.redeem", **who), said)
    t.ok("lets-in-who-waits-is-audited", audited() > before, said)
    term.press(b"y")
    told = {}
    wait_for(lambda: told.update(phone("device.redeem", **who)) or told.get("paired"), LONG, 0.2)
    t.control("a-person-lets-it-in", term.wait() == 0 and told.get("paired"), term.seen)
    token = told["paired"]["tokens"]
    house.ask(["echo", "stolen"])
    one = house.waiting()[0]
    decide = line("approval.decide", id=one["id"], hash=one["hash"], verdict="once")
    for name, command in {
        "decides-with-a-stolen-token": remote(house, line("device.show", token=token["access"]), decide),
        "shows-a-stolen-token-as-a-header": remote(house, decide, token=token["access"]),
        "refreshes-a-stolen-token": remote(house, line("device.refresh", refresh=token["refresh"])),
    }.items():
        before = audited()
        said = run_hosted(house, [], command)
        t.stopped(name, (" in ostler" in said or "refused:" in said) and house.state_of(one["id"]) == "pending" and "access\":" not in said, said)
        t.ok("%s-is-audited" % name, audited() > before, said)
    phone("device.show", token=token["access"])
    phone("approval.decide", id=one["id"], hash=one["hash"], verdict="once")
    t.control("the-device-itself-decides", house.audit("decided")[-1]["record"]["by"] == {"from": "device", "name": "phone"})


# Opens connections in three processes, says this on each and nothing more, tells how many were closed at once, and stays.
CROWD = r'''
import os, select, socket, sys, time
port, count, words = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode().decode("unicode_escape").encode()
for _ in range(2):
    if os.fork() == 0:
        break
held = []
for _ in range(count):
    try:
        s = socket.create_connection(("127.0.0.1", port), 5)
        s.sendall(words)
        held.append(s)
    except OSError:
        pass
end = time.time() + 4
refused = set()
while time.time() < end:
    for s in select.select([s for s in held if s not in refused], [], [], 0.2)[0]:
        refused.add(s)
open(sys.argv[4] + "." + str(os.getpid()), "w").write("%d %d" % (len(held), len(refused)))
time.sleep(float(sys.argv[5]))
'''


@area("hosted-at-port")
def crowds(t):
    """It wants every place at the port, with heads that do not end and with upgrades that show nothing."""
    house = Guests(t).up()
    try:
        port = port_of(house)
        if port is None:
            return t.skip("crowds", "no port for devices")
        script = house.dir + "/crowd.py"
        with open(script, "w") as f:
            f.write(CROWD)

        def come(name, words):
            """How many came and were sent away, and how long a person waits while they stand there."""
            report = "%s/%s" % (house.dir, name)
            house.good("run", "-d", "--name", name, "--", shutil.which("python3"), script, str(port), "480", words, report, "60")
            waits = []

            def looks():
                began = time.monotonic()
                with urllib.request.urlopen("http://127.0.0.1:%d/" % port, timeout=LONG) as answer:
                    answer.read()
                waits.append(round(time.monotonic() - began, 2))
                return len(glob.glob(report + ".*")) == 3
            wait_for(looks, LONG, 0.1)
            counts = [list(map(int, open(path).read().split())) for path in glob.glob(report + ".*")]
            threads = len(os.listdir("/proc/%d/task" % house.record()["pid"]))
            device = Device(house)
            challenged = "challenge" in device("device.challenge")
            device.close()
            house("kill", name)
            return sum(c for c, _ in counts), sum(c for _, c in counts), max(waits), threads, challenged
        t.control("a-person-is-served", urllib.request.urlopen("http://127.0.0.1:%d/" % port, timeout=LONG).status == 200)
        came = come("heads", "GET / HTTP/1.1\\r\\n")
        t.stopped("takes-every-place-with-heads", came[0] - came[1] <= 100 and came[2] < 5 and came[3] < 300 and came[4], came)
        came = come("upgrades", "\\r\\n".join(["GET /rpc HTTP/1.1", "Host: 127.0.0.1:%d" % port, "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
                                             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "", ""]))
        t.stopped("takes-every-place-with-upgrades", came[0] == came[1] and came[2] < 5 and came[3] < 300 and came[4], came)
    finally:
        house.down()
