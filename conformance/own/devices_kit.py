"""A device as a program: a WebSocket in a few lines, a key that signs as a browser does, and the terminal of the person who lets it in."""
import base64
import hashlib
import json
import os
import re
import socket
import subprocess

from approvals_kit import LONG, House, Terminal
from kit import Fail
from lib import wait_for

# Speaks lines of JSON over a WebSocket: `port token?` as arguments, requests on stdin one per line, answers on stdout. A file of its
# own, so that a hosted process can run it.
SPEAKER = r'''
import base64, os, socket, struct, sys
port, token = int(sys.argv[1]), (sys.argv[2:] or [None])[0]
s = socket.create_connection(("127.0.0.1", port), 20)
head = ["GET /rpc HTTP/1.1", "Host: 127.0.0.1:%d" % port, "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: " + base64.b64encode(os.urandom(16)).decode()]
if token:
    head.append("Authorization: Bearer " + token)
s.sendall(("\r\n".join(head) + "\r\n\r\n").encode())
f = s.makefile("rb")
status = f.readline().decode().strip()
length = 0
while True:
    line = f.readline().strip().lower()
    if line.startswith(b"content-length:"):
        length = int(line.split(b":")[1])
    if not line:
        break
if " 101 " not in status + " ":
    print("refused:", status, f.read(length).decode(errors="replace").strip(), flush=True)
    sys.exit(3)
print("open", flush=True)
def send(text):
    data, mask = text.encode(), os.urandom(4)
    n = len(data)
    size = bytes([0x80 | n]) if n < 126 else bytes([0xfe]) + struct.pack(">H", n) if n < 65536 else bytes([0xff]) + struct.pack(">Q", n)
    s.sendall(b"\x81" + size + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))
def receive():
    whole = b""
    while True:
        head = f.read(2)
        if len(head) < 2:
            return None
        n = head[1] & 127
        n = struct.unpack(">H", f.read(2))[0] if n == 126 else struct.unpack(">Q", f.read(8))[0] if n == 127 else n
        data = f.read(n)
        kind = head[0] & 15
        if kind == 8:
            return None
        if kind == 9:
            s.sendall(b"\x8a\x80" + os.urandom(4))
            continue
        if kind in (0, 1, 2):
            whole += data
            if head[0] & 0x80:
                return whole.decode(errors="replace").strip()
for line in sys.stdin:
    if line.strip() == "end?":
        while receive() is not None:
            pass
        print("ended", flush=True)
        break
    try:
        send(line.strip())
        said = receive()
    except OSError:
        said = None
    if said is None:
        print("ended", flush=True)
        break
    print(said, flush=True)
'''


def port_of(house):
    """Where devices come to; nothing while ostler has no such port."""
    door = next((d for d in house.record()["doors"] if d["name"] == "web"), None)
    return int(door["address"].rsplit(":", 1)[1]) if door else None


def speaker(house):
    path = house.dir + "/speaker.py"
    if not os.path.exists(path):
        with open(path, "w") as f:
            f.write(SPEAKER)
    return path


class Refused(Exception):
    """The protocol said no."""


class Device:
    """One connection of a device."""

    def __init__(self, house, token=None):
        import sys
        command = [sys.executable, speaker(house), str(port_of(house))] + ([token] if token else [])
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        house.speakers.append(self.p)
        self.said = self.p.stdout.readline().strip()
        if self.said != "open":
            raise Refused(self.said)

    def __call__(self, method, **params):
        self.p.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline().strip()
        if line in ("ended", ""):
            raise Fail("%s: the connection ended" % method)
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"]["message"])
        return answer["result"]

    def ends(self):
        """Whether the other side hangs up."""
        self.p.stdin.write("end?\n")
        self.p.stdin.flush()
        return wait_for(lambda: self.p.poll() is not None, LONG, 0.05) and self.p.stdout.read().strip() == "ended"

    def close(self):
        self.p.kill()
        self.p.wait()


def refused(call, *args, **params):
    """What it says if it says no; nothing if it says yes."""
    try:
        call(*args, **params)
    except Refused as e:
        return str(e)
    return None


class Key:
    """A key as a browser's: P-256, signatures as `r` and `s`."""

    def __init__(self, house):
        self.path = house.dir + "/key-%s.pem" % os.urandom(4).hex()
        self.run("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.path)

    def run(self, *args, data=b""):
        return subprocess.run(["openssl", *args], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True).stdout

    def public(self):
        # The uncompressed point ends what is written of a public key.
        return url64(self.run("ec", "-in", self.path, "-pubout", "-outform", "DER")[-65:])

    def sign(self, text):
        der = self.run("dgst", "-sha256", "-sign", self.path, data=text.encode())
        at, parts = 2 + (der[1] & 0x7f if der[1] & 0x80 else 0), []
        for _ in range(2):
            n = der[at + 1]
            parts.append(der[at + 2:at + 2 + n].lstrip(b"\0").rjust(32, b"\0"))
            at += 2 + n
        return url64(b"".join(parts))


def url64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Guests(House):
    """A home that lets devices in."""

    def __init__(self, t, user=None):
        super().__init__(t, user)
        self.speakers = []

    def down(self):
        for p in self.speakers:
            if p.poll() is None:
                p.kill()
            p.wait()
        super().down()


def offered(term):
    """The code or link that a person sees."""
    term.until(b"q to stop", LONG)
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", term.seen.decode(errors="replace"))
    code = re.search(r"the code (\d{3}) (\d{3})", text)
    link = re.search(r"/#([A-Za-z0-9_-]{43})", text)
    return code and code.group(1) + code.group(2), link and link.group(1)


def paired(house, name, *more, key=None):
    """A device, let in by a person at a terminal: what it was told."""
    term = Terminal(house, "pair", "--name", name, *more)
    code, _ = offered(term)
    device = Device(house)
    introduction = dict(link=device("device.code", code=code)["link"], name=name, **({"key": key.public()} if key else {}))
    device("device.redeem", **introduction)
    term.press(b"y")
    told = {}
    if not wait_for(lambda: told.update(device("device.redeem", **introduction)) or told.get("paired"), LONG, 0.2):
        raise Fail("not paired: %s" % told)
    if term.wait() != 0:
        raise Fail("pair: %r" % term.seen[-300:])
    device.close()
    return told["paired"]


def proven(house, key, id):
    """A connection of a device with a key."""
    device = Device(house)
    asked = device("device.challenge")
    device("device.prove", device=id, signature=key.sign("ostler connect\n%s\n%s\n%s" % (asked["challenge"], id, asked["host"])))
    return device
