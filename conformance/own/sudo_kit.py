"""A sudo-proxy daemon in a pseudo-terminal, a person at it, and the two clients: the original's or ours in every place."""
import json
import os
import re
import select
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sudo-proxy"))
from ptyhost import PtyDaemon
from lib import Fail, wait_for

PROMPT = re.compile(r"\[y/N(?:/a)?\]")
# Generous: the machine may be busy. Nothing here asserts that something is fast.
LONG = 60.0


class Programs:
    """argv prefixes of the four programs of one maker."""

    def __init__(self, maker, argv):
        self.maker, self.argv = maker, argv

    def __call__(self, name, *args):
        return self.argv(name) + list(args)


def ours(t):
    return Programs("ours", lambda name: [t.ostler(), "as", name])


def original(t):
    return Programs("original", lambda name: [os.path.join(t.opt.original, "bin", name)])


def sudo_works():
    return bool(shutil.which("sudo")) and subprocess.run(["sudo", "-n", "true"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


class Home:
    """Folders and environment of one pretended user; a daemon may run in it."""

    def __init__(self, t):
        self.t, self.up = t, None
        self.dir = t.tmp()
        os.chmod(self.dir, 0o755)
        self.run = self.dir + "/run"
        self.bin = self.dir + "/bin"
        self.sock = self.run + "/sudo-proxy.sock"
        self.hosts = self.dir + "/cfg/sudo-proxy/hosts.json"
        for folder in (self.run, self.bin, self.dir + "/home"):
            os.makedirs(folder, mode=0o700)
        self.env = {"PATH": self.bin + ":" + os.environ["PATH"], "HOME": self.dir + "/home", "XDG_RUNTIME_DIR": self.run,
                    "XDG_CONFIG_HOME": self.dir + "/cfg", "TERM": "xterm", "NO_COLOR": "1"}
        self.pty = None

    def join(self, *prefix, program=None):
        """Where the suite runs joined: a daemon that every sudo-proxy of this home finds."""
        if self.t.opt.joined and not self.up:
            self.up = list(prefix) + [program or self.t.ostler()]
            env = {k: v for k, v in self.env.items() if not k.startswith("SUDO_PROXY_")}
            up = subprocess.run(self.up + ["up"], env=env, cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if up.returncode:
                raise Fail("ostler up: %s" % up.stdout)

    def serve(self, programs, *args):
        if programs.maker == "ours":
            self.join()
        self.pty = PtyDaemon(programs("sudo-proxy", *args), self.env, self.dir)
        if not wait_for(lambda: os.path.exists(self.sock) or self.pty.poll() is not None, LONG) or self.pty.poll() is not None:
            raise Fail("the daemon does not come up: %s" % self.pty.text_since(0)[-600:])
        return self

    def answer(self, key, mark):
        """A person who reads the question that came after `mark` and presses a key."""
        shown = self.pty.wait_for(PROMPT, mark, LONG)
        if shown is None:
            raise Fail("no question within %.0f s; screen: %s" % (LONG, self.pty.text_since(mark)[-600:]))
        self.pty.wait_raw(5)
        self.pty.key(key)
        return shown

    def request(self, programs, *args, key=None, env=None):
        """sudo-request run to its end: (exit code, stdout, stderr, what the person saw)."""
        mark = self.pty.mark() if self.pty else 0
        p = subprocess.Popen(programs("sudo-request", *args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=dict(self.env, **(env or {})), cwd=self.dir)
        try:
            shown = self.answer(key, mark) if key else ""
            out, err = p.communicate(timeout=LONG)
        finally:
            if p.poll() is None:
                p.kill()
                p.communicate()
        return p.returncode, out, err.decode(), shown

    def mcp(self, programs):
        return Mcp(programs("sudo-proxy-mcp"), self.env)

    def close(self):
        if self.pty:
            self.pty.stop()
            self.pty = None
        if self.up:
            subprocess.run(self.up + ["down", "--kill"], env=self.env, cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            self.up = None


class Mcp:
    """An MCP client on the stdin and stdout of a server."""

    META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {}}

    def __init__(self, argv, env):
        self.p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, bufsize=0)
        self.n, self.held, self.meta = 0, b"", None

    def send(self, method, params):
        self.n += 1
        if self.meta:
            params = dict(params, _meta=self.meta)
        self.write({"jsonrpc": "2.0", "id": self.n, "method": method, "params": params})
        return self.n

    def write(self, message):
        self.p.stdin.write(json.dumps(message).encode() + b"\n")

    def wait(self, id):
        end = time.monotonic() + LONG
        while True:
            while b"\n" not in self.held:
                if not select.select([self.p.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                    raise Fail("no MCP answer to %d within %.0f s" % (id, LONG))
                piece = os.read(self.p.stdout.fileno(), 1 << 16)
                if not piece:
                    raise Fail("the MCP server ended before it answered %d" % id)
                self.held += piece
            line, self.held = self.held.split(b"\n", 1)
            message = json.loads(line)
            if message.get("id") == id:
                return message

    def ask(self, method, params):
        return self.wait(self.send(method, params))

    def initialize(self, version="2025-03-26"):
        result = self.ask("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "tests", "version": "0"}})["result"]
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def start(self, tool, arguments):
        return self.send("tools/call", {"name": tool, "arguments": arguments})

    def result(self, id):
        """(text parts, isError) of a tool call, or the error itself."""
        message = self.wait(id)
        if "error" in message:
            return message["error"]
        return [part["text"] for part in message["result"]["content"]], message["result"]["isError"]

    def call(self, tool, **arguments):
        return self.result(self.start(tool, arguments))

    def close(self):
        self.p.stdin.close()
        try:
            self.p.wait(20)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()
        self.p.stdout.close()
        return self.p.returncode
