"""A hostile client: broken, endless, replayed, dressed up, at every door of one daemon, and a web page."""
import datetime
import json
import os
import socket
import uuid

from approvals_kit import LONG, House, approved
from lib import area, wait_for

DEEP = b"[" * 200000


def time_at(minutes):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


@area("client")
def requests(t):
    """Requests that are replayed, early, dressed up, or smuggle something to sudo."""
    house = House(t).up()
    try:
        id = str(uuid.uuid4())
        asker = house.ask(["echo", "once"], id=id)
        approved(house, house.waiting()[0]["id"])
        t.control("an-honest-request-runs", asker.answer().get("text") == "once\n")
        now = time_at(0)
        for name, stage, more in [
            ("the-same-id-again", ["echo", "once"], {"id": id}),
            ("a-time-that-is-to-come", ["echo", "x"], {"time": time_at(30)}),
            ("a-time-that-is-long-over", ["echo", "x"], {"time": time_at(-600)}),
            ("escapes-in-the-reason", ["echo", "x"], {"reason": "fine \x1b[2J\x1b[H"}),
            ("escapes-in-the-time", ["echo", "x"], {"time": now + "\x1b[2J"}),
            ("c1-in-an-argument", ["echo", "\x9b2J"], {}),
            ("text-that-turns-around", ["echo", "\u202egnp.exe"], {}),
            ("a-variable-that-loads-code", ["echo", "x"], {"env": {"LD_PRELOAD": "/tmp/x.so"}}),
            ("a-variable-for-perl", ["echo", "x"], {"env": {"PERL5LIB": "/tmp"}}),
            ("a-name-that-no-variable-can-have", ["echo", "x"], {"env": {"LANG=x\nPATH": "/tmp"}}),
            ("no-command-at-all", [], {}),
        ]:
            asker = house.ask(stage, **more)
            answer = {}
            try:
                wait_for(lambda: house.pending() or answer.update(told(asker)) or answer, LONG, 0.1)
            except ValueError as error:
                answer = {"status": "garbled", "why": str(error)}
            shown = house.pending()
            asker.sock.close()
            wait_for(lambda: not house.pending(), LONG, 0.1)
            t.stopped(name, not shown and answer.get("status") in ("error", "denied"), (answer, shown))
        for name, stage in [("an-option-for-sudo", ["-u#-1", "id"]), ("an-assignment-for-sudo", ["LD_PRELOAD=/tmp/x.so", "id"]), ("another-root-for-sudo", ["-R", "/", "id"])]:
            asker = house.ask(stage, privileged=True)
            seen, code = approved(house, house.waiting()[0]["id"])
            answer = asker.answer()
            failed = all(stage["exit_code"] != 0 for stage in answer.get("stages", []))
            t.stopped(name, failed and answer.get("text", "") == "" and "assword" not in seen, (answer, seen))
        one = house.ask(["echo", "shown"])
        waiting = house.waiting()[0]
        native = house.record()["native"]
        line = {"jsonrpc": "2.0", "id": 1, "method": "approval.decide", "params": {"id": waiting["id"], "hash": "0" * 64, "verdict": "once"}}
        said = say(native, json.dumps(line).encode() + b"\n")
        t.stopped("a-decision-about-other-content", b"error" in said and house.state_of(waiting["id"]) == "pending", said)
        line["params"]["hash"] = waiting["hash"]
        said = say(native, json.dumps(line).encode() + b"\n")
        t.stopped("a-decision-without-a-terminal", b"terminal of your own" in said and house.state_of(waiting["id"]) == "pending", said)
        one.sock.close()
    finally:
        house.down()


def told(asker):
    asker.sock.setblocking(False)
    try:
        data = asker.sock.recv(1 << 16)
    except BlockingIOError:
        return {}
    except ConnectionError:
        return {"status": "error", "message": "hung up"}
    return json.loads(data) if data else {"status": "error", "message": "hung up"}


def say(place, data, wait=5.0):
    """What a place answers to these bytes, whatever they are."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(wait)
    try:
        s.connect(place)
        s.sendall(data)
        return s.recv(1 << 16)
    except OSError as error:
        return repr(error).encode()
    finally:
        s.close()


@area("client")
def broken(t):
    """Garbage, depth, endless lines and hundreds of idle connections, at every door at once."""
    house = House(t).up()
    held = []
    try:
        doors = {d["name"]: d["address"] for d in house.record()["doors"]}
        unix = {name: place for name, place in doors.items() if place.startswith("/")}
        unix["native"] = house.record()["native"]
        before = house.record()["pid"]
        for name, place in sorted(unix.items()):
            for data in (os.urandom(4096) + b"\n", DEEP + b"\n", b'{"jsonrpc":"2.0","id":1,"method":' + DEEP + b"}\n", b"\x00\xff\n" * 1000, b"A" * (4 << 20)):
                say(place, data, 2)
            for _ in range(150):
                s = socket.socket(socket.AF_UNIX)
                s.settimeout(2)
                try:
                    s.connect(place)
                    s.sendall(b'{"id":')
                except OSError:
                    pass
                held.append(s)
            t.stopped("broken-and-idle-at-%s" % name, house("ps")[0] == 0 and house.record()["pid"] == before, house("ps"))
        for s in held:
            s.close()
        # Those that hung up are noticed a moment later.
        asker = wait_for(lambda: one_that_waits(house), LONG, 0.5)
        approved(house, house.waiting()[0]["id"])
        t.control("an-honest-client-is-served-afterwards", asker.answer().get("text") == "honest\n")
        token = say(unix["claustrum"], b'{"jsonrpc":"2.0","id":1,"method":"server.ping","params":{},"auth":"guess"}\n')
        t.stopped("a-guessed-token", b"-32001" in token, token)
        with open(house.state + "/instances/main/claustrum.token") as f:
            right = f.read().strip()
        said = say(unix["claustrum"], json.dumps({"jsonrpc": "2.0", "id": 1, "method": "server.ping", "params": {}, "auth": right}).encode() + b"\n")
        t.control("the-right-token", b"result" in said, said)
    finally:
        for s in held:
            s.close()
        house.down()


def one_that_waits(house):
    """Asks, and gives the asker back if there was a place for it."""
    asker = house.ask(["echo", "honest"])
    if wait_for(house.pending, 3, 0.1):
        return asker
    asker.sock.close()
    return None


@area("client")
def web_page(t):
    """A page in the user's browser, a name that is pointed at this machine, a proxy."""
    house = House(t).up()
    try:
        port = int(next(d["address"] for d in house.record()["doors"] if d["name"] == "codecast").rsplit(":", 1)[1])
        body = b'{"method":"health.check"}'

        def status(*lines, kind="application/json", target="/rpc"):
            with socket.create_connection(("127.0.0.1", port), 20) as s:
                rest = ("Content-Type: " + kind, "Content-Length: %d" % len(body), "Connection: close", "", "")
                s.sendall("\r\n".join(("POST %s HTTP/1.1" % target, *lines, *rest)).encode() + body)
                first = s.makefile("rb").readline().split()
                return int(first[1]) if first else 0
        t.control("a-client-of-this-machine", status("Host: localhost") == 200)
        for name, lines in {
            "another-host": ["Host: evil.example"], "no-host": [], "two-hosts": ["Host: localhost", "Host: localhost"],
            "another-origin": ["Host: localhost", "Origin: https://evil.example"], "no-origin-at-all": ["Host: localhost", "Origin: null"],
            "two-origins": ["Host: localhost", "Origin: http://localhost", "Origin: https://evil.example"],
            "through-a-proxy": ["Host: localhost", "X-Forwarded-For: 1.2.3.4"],
        }.items():
            got = status(*lines)
            t.stopped(name, got in (400, 403), got)
        t.stopped("a-form", status("Host: localhost", kind="text/plain") == 415)
        t.stopped("another-host-in-the-first-line", status("Host: localhost", target="http://evil.example/rpc") in (400, 403))
    finally:
        house.down()
