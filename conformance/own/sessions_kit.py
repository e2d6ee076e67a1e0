"""A home with a daemon that holds sessions, and the native door spoken to directly."""
import json
import socket
import subprocess
import time

from cli import Home
from kit import Fail
from lib import wait_for

LONG = 60


class House(Home):
    """A home with a daemon, and the words for its sessions."""

    def __init__(self, t, settings=None):
        super().__init__(t)
        self.env["GIT_CONFIG_NOSYSTEM"] = "1"
        if settings is not None:
            self.configure(settings)
        self.prepare()
        self.good("up")

    def prepare(self):
        """What must be in the home before the daemon is."""

    def configure(self, settings):
        self.env["OSTLER_CONFIG"] = self.dir + "/config.toml"
        with open(self.env["OSTLER_CONFIG"], "w") as f:
            f.write(settings)

    def new(self, *args):
        return self.json("new", "echo", *args)["id"]

    def info(self, id):
        return next((s for s in self.json("sessions", "--all") if s["id"] == id), {})

    def until(self, id, status, timeout=LONG):
        if not wait_for(lambda: self.info(id).get("status") == status, timeout, 0.1):
            raise Fail("%s should be %s: %s" % (id, status, self.info(id)))
        return self.info(id)

    def waiting(self, id):
        """The request that the session waits for."""
        if not wait_for(lambda: self.info(id).get("approvals"), LONG, 0.1):
            raise Fail("%s should wait for somebody: %s" % (id, self.info(id)))
        return self.info(id)["approvals"][0]

    def end_process(self, id):
        self.good("kill", self.info(id)["process"])
        if not wait_for(lambda: not self.info(id)["process"], LONG, 0.1):
            raise Fail("its process should be gone: %s" % self.info(id))

    def records(self, id):
        return self.json("export", id)["records"]

    def events(self, id):
        return [e for r in self.records(id) for e in r["events"]]

    def texts(self, id):
        return [e["text"] for e in self.events(id) if e["type"] == "text"]

    def start(self, *args):
        return subprocess.Popen([self.program] + list(args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=self.env, cwd=self.dir)

    def socket(self):
        with open(self.state + "/instances/main/instance.json") as f:
            return json.load(f)["native"]

    def down(self):
        self("down", "--kill")


def for_nobody(house, method, **params):
    """What a question costs the daemon that is waited for, and one whose asker leaves at once: hundredths of a second of CPU."""
    def cpu():
        with open("/proc/%d/stat" % house.daemon_pid()) as f:
            return sum(int(x) for x in f.read().rsplit(")", 1)[1].split()[11:13])

    def quiet():
        then = cpu()
        time.sleep(0.5)
        return cpu() == then
    before = cpu()
    Wire(house.socket()).call(method, **params)
    whole, before = cpu() - before, cpu()
    leaving = Wire(house.socket())
    leaving.send(method, **params)
    leaving.sock.close()
    if not wait_for(quiet, LONG, 0):
        raise Fail("the daemon is not quiet after %s" % method)
    return whole, cpu() - before


class Wire:
    """The native door, spoken to directly."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(path)
        self.sock.settimeout(LONG)
        self.buffer = b""
        self.last = 0

    def send(self, method, **params):
        self.last += 1
        self.sock.sendall(json.dumps({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}).encode() + b"\n")
        return self.last

    def line(self):
        while b"\n" not in self.buffer:
            piece = self.sock.recv(1 << 16)
            if not piece:
                raise Fail("the daemon closed the connection")
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def call(self, method, **params):
        id = self.send(method, **params)
        while True:
            line = self.line()
            if line.get("id") == id:
                return line

    def records(self, until):
        """Records up to this number."""
        found = []
        while not found or found[-1]["record"] < until:
            line = self.line()
            if line.get("method") == "session.events":
                found.append(line["params"])
        return found
