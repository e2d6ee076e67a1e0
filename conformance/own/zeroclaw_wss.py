"""The zeroclaw door on the web port: off until somebody wants it, TLS and a device's token, the same methods in texts, and what a
device may not."""
import base64
import json
import os
import shutil
import signal
import ssl
import struct
import subprocess
import sys
import threading
import time

from approvals_kit import LONG, Terminal
from cdev_kit import Socket
from devices_kit import Guests, paired, port_of
from kit import Fail
from lib import area, wait_for
from web import UPGRADE, ask, frame, settings, status
from zeroclaw import Client

NAME = "box.example"
PATH = "GET /zeroclaw HTTP/1.1"
# Nobody's message, and the longest one of a device: clients know 8 MiB with a newline.
NOBODYS, LONGEST = 16 << 10, (8 << 20) - 1


class Place:
    """Where the door is: enough for a hosted program too."""

    def __init__(self, port, pem):
        self.port, self.tls = port, ssl.create_default_context(cafile=pem)
        self.tls.name = NAME


class Wss(Client):
    """One connection, each message a text."""

    def __init__(self, place, token=None, **params):
        super().__init__(place, **dict({"auth_token": token} if token else {"init": False}, **params))

    def connect(self, place):
        self.ws = Socket(place.port, None, path="/zeroclaw", tls=place.tls)
        if self.ws.status != 101:
            raise Fail("no WebSocket: %d %s" % (self.ws.status, self.ws.refusal))
        self.s = self.ws.s

    def raw(self, message):
        self.ws.send(json.dumps(message))

    def line(self):
        said = self.ws.hear()
        if said is None:
            raise EOFError
        return said

    def close(self):
        self.ws.f.close()
        self.ws.close()

    def rest(self):
        """The texts that come before the end; nothing where that does not come soon: a connection that stays is not told from one that ends late."""
        stop, texts = time.monotonic() + 10, []
        self.s.settimeout(10)
        try:
            while time.monotonic() < stop:
                kind, content = self.frame()
                if kind in (None, 8):
                    return texts
                texts += [content] if kind != 9 else []
        except TimeoutError:
            pass
        except OSError:
            return texts
        return None

    def ends(self):
        """Whether nothing more comes, but the end."""
        return self.rest() == []

    def frame(self):
        """The kind and content of the next frame; nothing at the end."""
        head = self.ws.f.read(2)
        if len(head) < 2:
            return None, b""
        n = head[1] & 127
        n = struct.unpack(">H", self.ws.f.read(2))[0] if n == 126 else struct.unpack(">Q", self.ws.f.read(8))[0] if n == 127 else n
        return head[0] & 15, self.ws.f.read(n)

    def closed(self, data):
        """The code with which the other side ends the connection after this."""
        self.s.sendall(data)
        while True:
            kind, said = self.frame()
            if kind in (None, 8):
                return struct.unpack(">H", said[:2])[0] if said else kind


class Wired(Guests):
    """A home with the door on its web port, once `wire` was called."""

    def wire(self):
        self.pem, key = self.dir + "/c.pem", self.dir + "/k.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", self.pem, "-days", "9",
                        "-subj", "/CN=box", "-addext", "subjectAltName=DNS:" + NAME], check=True, stderr=subprocess.DEVNULL)
        settings(self, '[web]\nzeroclaw = true\ncertificate = "%s"\nkey = "%s"\n' % (self.pem, key))
        self.good("restart")
        wait_for(lambda: port_of(self), LONG, 0.1)
        self.work = self.dir + "/work"
        os.makedirs(self.work, exist_ok=True)
        return self

    def place(self):
        return Place(port_of(self), self.pem)

    def unix(self):
        return Client(next(d["address"] for d in self.record()["doors"] if d["name"] == "zeroclaw"))


def wired(t, *phones):
    """A home with these devices, each a name and flags of `pair`, and their tokens."""
    if not shutil.which("openssl"):
        return t.skip("all", "openssl is missing")
    house = Wired(t).up()
    # Devices are paired before the port speaks TLS: who paired them does.
    tokens = [paired(house, name, *flags)["tokens"]["access"] for name, *flags in phones]
    return (house.wire(), *tokens)


def refusal(place, **params):
    """The error of an initialize on a new connection, and whether that then ends."""
    c = Wss(place)
    said = c.rpc("initialize", dict({"protocol_version": 1}, **params)).get("error", {})
    return said.get("code"), bool(c.ends())


@area("zeroclaw-wss-off")
def off(t):
    """Nothing is there unless it is wanted, and then never in the clear."""
    house = Guests(t).up()
    try:
        port = port_of(house)
        t.eq("by-default-nothing-is-there", status(port, "Host: localhost:%d" % port, first=PATH), 404)
        t.ok("and-nothing-is-listed", "/zeroclaw" not in house.good("status", "--connect"))
        t.ok("the-setting-is-described", "web.zeroclaw" in house.good("config"))
        house.good("down", "--kill")
        settings(house, "[web]\nzeroclaw = true\n")
        rc, o, e = house("up")
        t.ok("without-a-certificate-it-does-not-start-and-says-what-to-do", rc != 0 and all(word in e for word in ("web.zeroclaw", "web.certificate", "web.key")), (rc, o, e))
    finally:
        settings(house, "")
        house.down()
    made = wired(t, ("phone",))
    if not made:
        return
    house, token = made
    try:
        place = house.place()
        t.ok("it-is-listed", "wss://127.0.0.1:%d/zeroclaw" % place.port in house.good("status", "--connect"), house.good("status", "--connect"))
        t.ok("nothing-in-the-clear", status(place.port, "Host: %s:%d" % (NAME, place.port), first=PATH) != 101)
        here = "Host: %s:%d" % (NAME, place.port)
        t.eq("no-other-page-comes-in", status(place.port, here, "Origin: https://evil.example", first=PATH, tls=place.tls), 403)
        t.eq("nor-by-another-name", status(place.port, "Host: evil.example", first=PATH, tls=place.tls), 403)
        t.eq("it-is-a-websocket-and-nothing-else", ask(place.port, here, first=PATH, tls=place.tls)[0], 426)
        t.eq("the-page-is-still-there", ask(place.port, here, first="GET / HTTP/1.1", tls=place.tls)[0], 200)
        t.eq("and-so-is-the-native-door", ask(place.port, here, *UPGRADE, "Authorization: Bearer " + token, tls=place.tls)[0], 101)
    finally:
        house.down()


@area("zeroclaw-wss-turn")
def turn(t):
    """The same methods as at the socket, for a device with the usual rights."""
    made = wired(t, ("phone",))
    if not made:
        return
    house, token = made
    try:
        house.good("new", "echo", house.work)
        place, idle = house.place(), Idle(house.place(), token)
        c = Wss(place, token, env={"OF_THE_CLIENT": "s3cret"}, client_capabilities={"elicitation": {}})
        local = house.unix()
        t.eq("it-is-greeted-as-at-the-socket", {k: v for k, v in c.hello.items() if k not in ("tui_id", "tuiId")}, {k: v for k, v in local.hello.items() if k not in ("tui_id", "tuiId")})
        s = c.new(cwd=house.work)
        r = c.turn(s, "hello there")
        t.ok("a-turn-is-told-and-answered", r.get("result", {}).get("content") == "hello there" == c.text() and c.told[-1]["type"] == "turn_complete", (r, c.told))
        i = c.prompt(s, "ASK first")
        rid = c.until("approval_request")["request_id"]
        env = open("/proc/%d/environ" % next(p["pid"] for p in house.json("ps") if p["exit"] is None), "rb").read()
        t.ok("its-variables-are-another-machines", b"OF_THE_CLIENT" not in env)
        t.eq("a-yes-for-ever-is-not-among-its-rights", c.code("session/approve", {"session_id": s, "request_id": rid, "decision": "allow_always"}), -32602)
        t.eq("and-changes-nothing", [a["state"] for a in house.json("approvals", "--list")], ["pending"])
        t.ok("but-is-on-record", any(r["record"]["who"] == "device phone" for r in house.audit("attempted")), house.audit("attempted"))
        t.eq("an-approval-is-answered-there", c.ok("session/approve", {"session_id": s, "request_id": rid, "decision": "allow_once"})["acknowledged"], True)
        t.eq("and-the-turn-goes-on", c.reply(i)["result"]["stop_reason"], c.turn(s, "again")["result"]["stop_reason"])
        t.eq("by-the-device-and-no-person", house.audit("decided")[-1]["record"]["by"], {"from": "device", "name": "phone"})
        for method in ("status", "session/list", "session/list-acp", "agents/status", "config/sections", "config/templates", "logs/subscribe"):
            t.eq("the-same-answer-%s" % method.replace("/", "-"), c.ok(method), local.ok(method))
        for method in ("session/messages", "session/state", "session/git_branch"):
            t.eq("the-same-answer-%s" % method.replace("/", "-"), c.ok(method, {"session_id": s}), local.ok(method, {"session_id": s}))
        tuis = {g["tui_id"]: (g["transport"], g["peer_label"].split(":")[0]) for g in c.ok("tui/list")["tuis"]}
        t.eq("who-is-connected-and-how", (tuis[c.hello["tui_id"]], tuis[local.hello["tui_id"]]), (("wss", "wss"), ("unix", "unix")))
        label = next(g["peer_label"] for g in c.ok("tui/list")["tuis"] if g["tui_id"] == c.hello["tui_id"])
        t.eq("by-its-address", label, "wss:%s:%d" % c.s.getsockname())
        i = c.prompt(s, "SLOW:100 wait")
        c.until("agent_message_chunk", 3)
        other = Wss(place, token)
        t.eq("who-has-not-opened-it-does-not-stop-it", other.code("session/cancel", {"session_id": s}), -32003)
        t.eq("nor-what-is-not-there", other.code("session/cancel", {"session_id": "nothing"}), -32003)
        t.eq("who-has-does", c.ok("session/cancel", {"session_id": s})["cancelled"], True)
        t.ok("and-the-turn-ends", "result" in c.reply(i) and c.until("turn_complete", 4)["outcome"] == "cancelled", c.told[-2:])
        files(t, house, c, s)
        t.eq("no-device-deletes-what-was-said", c.code("session/delete", {"session_id": s}), -32012)
        t.eq("it-closes-a-session", c.ok("session/close", {"session_id": s})["closed"], True)
        frames(t, place, token, c)
        t.ok("who-is-silent-is-asked-after-20-seconds", idle.joined() and 19 < idle.asked < 26, (idle.asked, idle.gone))
        t.ok("and-gone-after-10-more", 9 < idle.gone - idle.asked < 16, (idle.asked, idle.gone))
    finally:
        house.down()


def files(t, house, c, s):
    """What comes along with a prompt: whole, never by its path."""
    secret = house.dir + "/secret.txt"
    with open(secret, "w") as f:
        f.write("of this machine")
    t.eq("a-path-is-refused", c.code("session/prompt", {"session_id": s, "prompt": "x", "attachments": [{"path": secret}]}), -32602)
    t.eq("also-one-that-is-not-there", c.code("session/prompt", {"session_id": s, "prompt": "x", "attachments": [{"path": "/no/such"}]}), -32602)
    r = c.turn(s, "look", attachments=[{"data_b64": base64.b64encode(b"text").decode(), "filename": "n.txt"}])
    t.ok("what-comes-whole-is-taken", "-n.txt" in r.get("result", {}).get("content", ""), r)


def frames(t, place, token, c):
    """A text is a message; what is none, or too long."""
    c.s.sendall(frame(2, b"\xff\xfe") + b"\x01\x86\0\0\0\0" + b'{"json' + b"\x80" + frame(1, b'rpc":"2.0","method":"status","id":"pieces"}')[1:])
    t.ok("binary-is-passed-over-and-pieces-are-one-message", "result" in c.reply("pieces"))
    c.s.sendall(frame(1, b'[1]\n{"jsonrpc":"2.0"}'))
    t.eq("two-lines-are-one-message-and-no-good-one", c.reply(None)["error"]["code"], -32700)
    head = b'{"jsonrpc":"2.0","method":"status","id":"long","params":{"x":"'
    body = head + b"x" * (LONGEST - len(head) - 3) + b'"}}'
    c.s.sendall(b"\x81\xff" + struct.pack(">Q", len(body)) + b"\0\0\0\0" + body)
    t.ok("the-longest-message-is-served", "result" in c.reply("long"))
    t.eq("a-longer-one-ends-it", c.closed(b"\x81\xff" + struct.pack(">Q", LONGEST + 1) + b"\0\0\0\0"), 1009)
    t.eq("of-nobody-much-less-is-read", Wss(place).closed(b"\x81\xfe" + struct.pack(">H", NOBODYS + 1) + b"\0\0\0\0"), 1009)
    t.ok("and-others-are-served", "result" in Wss(place, token).rpc("status"))


class Idle(threading.Thread):
    """A client that says nothing after its greeting, not even that it is there."""

    def __init__(self, place, token):
        super().__init__(daemon=True)
        self.c, self.began, self.asked, self.gone = Wss(place, token), time.monotonic(), 0, 0
        self.start()

    def run(self):
        kind = 0
        while kind not in (None, 8):
            kind, _ = self.c.frame()
            self.asked = self.asked or (time.monotonic() - self.began if kind == 9 else 0)
        self.gone = time.monotonic() - self.began

    def joined(self):
        self.join(LONG)
        return not self.is_alive()


@area("zeroclaw-wss-token")
def token(t):
    """Who comes in, as what, and for how long."""
    made = wired(t, ("phone",), ("watcher", "--rights", "watch"), ("desk", "--rights", "full"))
    if not made:
        return
    house, token, watching, full = made
    try:
        place = house.place()
        c = Wss(place)
        for method in ("status", "session/list", "session/new", "health", "tui/list"):
            t.eq("before-a-token-%s" % method.replace("/", "-"), c.code(method, {"agent_alias": "echo"}), -32010)
        t.eq("nothing-is-told-of-who-is-there", c.code("no/such"), -32601)
        t.eq("and-a-token-still-lets-it-in", (c.ok("initialize", {"auth_token": token})["protocol_version"], "result" in c.rpc("status")), (1, True))
        t.eq("no-token-is-refused-and-the-end", refusal(place), (-32010, True))
        t.eq("a-wrong-one-too", refusal(place, auth_token="nobody"), (-32010, True))
        t.eq("and-what-is-no-text", refusal(place, auth_token=7), (-32010, True))
        t.ok("which-is-on-record", len(house.audit("attempted")) >= 1, house.audit("attempted"))
        both = Wss(place)
        first, second = both.post("initialize", {"authToken": token}), both.post("status")
        t.ok("what-is-sent-along-waits-for-the-token", "result" in both.reply(first) and "result" in both.reply(second))
        wrong = Wss(place)
        first, _ = wrong.post("initialize", {"auth_token": "nobody"}), wrong.post("status")
        t.eq("and-is-not-answered-behind-a-wrong-one", wrong.reply(first)["error"]["code"], -32010)
        behind = wrong.rest()
        t.ok("but-with-the-end", behind is not None and all(json.loads(text)["error"]["code"] == -32010 for text in behind), behind)
        late = Wss(place)
        t.eq("another-version-is-refused", late.code("initialize", {"auth_token": token, "protocol_version": 9}), -32011)
        t.eq("and-nothing-is-served-before-the-right-one", (late.code("status"), late.code("initialize", {}), late.code("status")), (-32010, None, None))
        t.eq("nobody-works-there-yet", [Wss(place, token).code("session/new", {"agent_alias": "echo", "cwd": folder}) for folder in (house.work, house.dir, house.state)], [-32012] * 3)
        s = Wss(place, full).new(cwd=house.work)
        t.ok("and-now-somebody-does", Wss(place, token).new(cwd=house.work) != s and Wss(place, token).new())
        w = Wss(place, watching)
        t.ok("who-may-look-looks", s in w.ok("status")["session_ids"] and w.ok("session/new", {"agent_alias": "echo", "session_id": s})["session_id"] == s)
        for method, params in (("session/new", {"agent_alias": "echo"}), ("session/prompt", {"session_id": s, "prompt": "x"}), ("session/cancel", {"session_id": s}),
                               ("session/close", {"session_id": s}), ("session/configure", {"session_id": s, "overrides": {"model": "m"}}), ("session/delete", {"session_id": s})):
            t.eq("and-does-nothing-%s" % method.replace("/", "-"), w.code(method, params), -32012)
        c = Wss(place, token)
        i = c.prompt(s, "ASK for it")
        rid = c.until("approval_request")["request_id"]
        w.ok("session/new", {"agent_alias": "echo", "session_id": s})
        w.until("approval_request")
        t.eq("nor-answers-what-it-was-shown", w.code("session/approve", {"session_id": s, "request_id": rid, "decision": "allow_once"}), -32602)
        d = Wss(place, full)
        d.ok("session/new", {"agent_alias": "echo", "session_id": s})
        d.until("approval_request")
        t.eq("even-one-with-every-right-deletes-nothing", d.code("session/delete", {"session_id": s}), -32012)
        hosted(t, house, place, token, s)
        c.ok("session/approve", {"session_id": s, "request_id": rid, "decision": "reject"})
        c.reply(i)
        sockets = [Wss(place, token) for _ in range(3)]
        term = Terminal(house, "devices", "revoke", "phone")
        began = time.monotonic()
        t.ok("revoked-its-sockets-end-at-once", term.wait() == 0 and all(x.ends() for x in [c, *sockets]) and time.monotonic() - began < 10, term.seen)
        t.eq("and-it-does-not-come-in-again", refusal(place, auth_token=token), (-32010, True))
        t.ok("others-stay", "result" in w.rpc("status"))
        many = [Wss(place, full) for _ in range(15)]
        t.eq("one-device-does-not-take-every-place", refusal(place, auth_token=full), (-32004, True))
        many[0].close()
        t.ok("and-has-its-places-back", wait_for(lambda: refusal_or_none(place, full) is None, LONG, 0.2))
    finally:
        house.down()


def refusal_or_none(place, token):
    return Wss(place).rpc("initialize", {"auth_token": token}).get("error")


def hosted(t, house, place, token, s):
    """A program that an agent could run, with a token that it found."""
    script, here = house.dir + "/hosted.py", os.path.dirname(os.path.abspath(__file__))
    with open(script, "w") as f:
        f.write("import sys; sys.path[:0] = %r\nfrom zeroclaw_wss import Place, Wss\n" % [here, os.path.join(here, "..", "claustrum")])
        f.write("try:\n    print(Wss(Place(%d, %r)).rpc('initialize', {'auth_token': %r}))\nexcept Exception:\n    print('closed')\n" % (place.port, house.pem, token))
    rc, o, e = house("run", "--", sys.executable, script)
    t.ok("a-hosted-program-with-a-stolen-token-is-nobody", o.split() == ["closed"], (rc, o, e))
    t.eq("and-decides-nothing", [a["state"] for a in house.json("approvals", "--list")], ["pending"])
    t.ok("and-that-it-tried-is-on-record", any("cannot act as a device" in r["record"].get("why", "") for r in house.audit("attempted")), house.audit("attempted")[-3:])


@area("zeroclaw-wss-restart")
def restart(t):
    """The daemon is killed, and everything goes on."""
    made = wired(t, ("phone",))
    if not made:
        return
    house, token = made
    try:
        house.good("new", "echo", house.work)
        c = Wss(house.place(), token)
        s = c.new(cwd=house.work, session_id="from-afar")
        c.prompt(s, "SLOW:25 then ASK for it")
        c.until("agent_message_chunk", 5)
        old = house.record()["pid"]
        os.kill(old, signal.SIGKILL)
        t.ok("a-kill-ends-the-socket", all_told(c))
        wait_for(lambda: house("status")[0] == 0 and house.record()["pid"] != old and port_of(house), LONG, 0.2)
        c = Wss(house.place(), token)
        t.ok("the-token-lets-it-in-again", s in c.ok("status")["session_ids"])
        again = c.ok("session/new", {"agent_alias": "echo", "session_id": s})
        t.eq("to-the-same-session", again["workspace_dir"], house.work)
        asked = c.until("approval_request")
        t.eq("all-of-the-turn-is-told", c.text(), "".join("%d " % n for n in range(1, 26)))
        t.eq("what-waits-is-answered-here", c.ok("session/approve", {"session_id": s, "request_id": asked["request_id"], "decision": "allow_once"})["acknowledged"], True)
        t.eq("and-the-turn-ends", c.until("turn_complete")["outcome"], "completed")
        t.eq("by-the-device", house.audit("decided")[-1]["record"]["by"], {"from": "device", "name": "phone"})
        house.good("restart")
        t.ok("a-restart-says-goodbye", all_told(c))
        wait_for(lambda: port_of(house), LONG, 0.1)
        t.ok("and-keeps-it", s in Wss(house.place(), token).ok("status")["session_ids"])
    finally:
        house.down()


def all_told(c):
    """Hears everything that still comes; the end comes."""
    try:
        while True:
            c.line()
    except EOFError:
        return True
