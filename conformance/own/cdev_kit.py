"""A cdev server in a home of its own, and a phone in a few lines: requests of HTTP, and a WebSocket."""
import base64
import http.client
import json
import os
import signal
import socket
import struct
import subprocess

from approvals_kit import LONG, House
from kit import Fail
from lib import wait_for


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        try:
            self.json = json.loads(body)
        except ValueError:
            self.json = None

    def __repr__(self):
        return "<%d %r>" % (self.status, self.body[:200])


class Port:
    """The port of a server."""

    def __init__(self, port):
        self.port, self.tls = port, None

    def __call__(self, method, path, body=None, token=None, **headers):
        secure = {"context": self.tls} if self.tls else {}
        c = (http.client.HTTPSConnection if self.tls else http.client.HTTPConnection)("127.0.0.1", self.port, timeout=LONG, **secure)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers.setdefault("Host", "127.0.0.1:%d" % self.port)
        if token:
            headers["Authorization"] = "Bearer " + token
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            c.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                c.putheader(name, value)
            if "Content-Length" not in headers and (data is not None or method == "POST"):
                c.putheader("Content-Length", str(len(data or b"")))
            c.endheaders(data)
            r = c.getresponse()
            return Answer(r.status, {k.lower(): v for k, v in r.getheaders()}, r.read())
        finally:
            c.close()

    def token(self):
        return self("GET", "/api/pair/info").json["token"]

    def exchange(self, token=None, **headers):
        return self("POST", "/api/auth/exchange", {"pairing_token": token or self.token()}, **headers)

    def paired(self):
        """The tokens of a device."""
        answer = self.exchange()
        if answer.status != 200:
            raise Fail("not paired: %r" % answer)
        return answer.json


class Socket:
    """A WebSocket."""

    def __init__(self, port, token, path="/ws", tls=None, **headers):
        self.s = socket.create_connection(("127.0.0.1", port), LONG)
        self.s = tls.wrap_socket(self.s, server_hostname=tls.name) if tls else self.s
        lines = ["GET %s HTTP/1.1" % path, "Host: %s:%d" % (tls.name if tls else "127.0.0.1", port), "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
                 "Sec-WebSocket-Key: " + base64.b64encode(os.urandom(16)).decode()] + (["Authorization: Bearer " + token] if token else [])
        lines += ["%s: %s" % (name.replace("_", "-"), value) for name, value in headers.items()]
        self.s.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self.f = self.s.makefile("rb")
        self.status = int(self.f.readline().split()[1])
        self.headers = {}
        while line := self.f.readline().strip():
            self.headers[line.split(b":")[0].decode().lower()] = line.split(b":", 1)[1].strip().decode()
        self.count = 0
        # Why not, if not.
        self.refusal = "" if self.status == 101 else self.f.read(int(self.headers.get("content-length", 0))).decode(errors="replace")

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        n = len(data)
        size = bytes([0x80 | n]) if n < 126 else bytes([0xfe]) + struct.pack(">H", n) if n < 65536 else bytes([0xff]) + struct.pack(">Q", n)
        self.s.sendall(b"\x81" + size + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def hear(self):
        """The next message; nothing at the end."""
        while True:
            try:
                head = self.f.read(2)
            except OSError:
                return None
            if len(head) < 2 or head[0] & 15 == 8:
                return None
            n = head[1] & 127
            n = struct.unpack(">H", self.f.read(2))[0] if n == 126 else struct.unpack(">Q", self.f.read(8))[0] if n == 127 else n
            data = self.f.read(n)
            if head[0] & 15 == 1:
                return json.loads(data)

    def call(self, method, params=None):
        """The answer; what comes in between is passed over."""
        self.count += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params or {}}))
        while (said := self.hear()) is not None:
            if isinstance(said, dict) and said.get("id") == self.count:
                return said
        raise Fail("the connection ended instead of an answer to %s" % method)

    def ended(self):
        """Waits for the end."""
        while self.hear() is not None:
            pass
        return True

    def close(self):
        self.s.close()


class Cdev(House):
    """`cdev start` for a folder."""

    def __init__(self, t, *flags, env=None, start=True):
        super().__init__(t)
        self.repo, self.flags, self.more = self.dir + "/project", list(flags), env or {}
        os.makedirs(self.repo, exist_ok=True)
        self.p = None
        if start:
            self.start()

    def start(self, port=None):
        self.port = port or Port(free_port())
        self.log = self.dir + "/cdev.log"
        words = [self.program, "as", "cdev", "start", "--repo", self.repo, "--port", str(self.port.port), "--headless"]
        with open(self.log, "ab") as log:
            self.p = subprocess.Popen(words + self.flags, env=dict(self.env, **self.more), cwd=self.dir, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if not wait_for(self.answers, LONG, 0.05):
            raise Fail("cdev does not answer: %s" % self.said()[-500:])
        return self

    @classmethod
    def joining(cls, house, **env):
        """One in the home of an `ostler up`."""
        own = cls.__new__(cls)
        own.__dict__.update(house.__dict__)
        own.repo, own.flags, own.more = house.dir + "/project", [], env
        os.makedirs(own.repo, exist_ok=True)
        return own.start()

    def run_as(self, *words, **env):
        """The exit code of `cdev` with these words."""
        return subprocess.run([self.program, "as", "cdev", *words], env=dict(self.env, **env), cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=LONG).returncode

    def answers(self):
        try:
            return self.p.poll() is not None or self.port("GET", "/health").status == 200
        except OSError:
            return False

    def said(self):
        return open(self.log, errors="replace").read()

    def instance(self):
        """What its own engine is called."""
        return next(name for name in os.listdir(self.state + "/instances") if name.startswith("cdev-"))

    def stop(self):
        if self.p and self.p.poll() is None:
            self.p.send_signal(signal.SIGTERM)
            self.p.wait(LONG)

    def down(self):
        self.stop()
        super().down()
