"""A codecast daemon with agents that a test holds on strings: the clients and fakes of ../codecast, and a few of our own."""
import importlib.util
import os
import stat
import sys
import types

from lib import Fail, wait_for

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "codecast", "run.py")
SPEC = importlib.util.spec_from_file_location("codecast_suite", PATH)
suite = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(suite)

# Generous: the machine may be busy. Nothing here asserts that something is fast.
LONG = 60


class Daemon(suite.Env):
    """One home, one daemon at a time in it, and the fake agents' log."""

    def __init__(self, t, start=True, env=None):
        super().__init__(types.SimpleNamespace(start="%s as codecast-daemon" % t.ostler(), keep=False))
        self.extra = dict(env or {})
        if start:
            self.start()

    def start(self, port=None, extra_env=None, wait=True, home=None):
        super().start(port, {**self.extra, **(extra_env or {})}, wait, home)

    def restart(self, sig):
        """Ends the daemon alone with this signal and starts another on the same home."""
        self.proc.send_signal(sig)
        self.proc.wait(LONG)
        self.start()

    def send(self, session, message):
        return suite.Stream(self.rpc, session, message, timeout=LONG)

    def run(self, session, message):
        return self.send(session, message).finish(LONG)

    def stats(self, session):
        return self.rpc.ok("session.queue_stats", {"sessionId": session}, timeout=LONG)

    def owed(self, session):
        return self.rpc.ok("session.reconnect", {"sessionId": session}, timeout=LONG)["bufferedEvents"]

    def fake(self, name, source):
        """Puts another program in the place of an agent."""
        path = os.path.join(self.bin, name)
        with open(path, "w") as f:
            f.write("#!%s\n%s" % (sys.executable, source))
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)

    def wait_idle(self, session, timeout=LONG):
        return super().wait_idle(session, timeout)

    def cut(self, stream, session):
        """Breaks a stream off and waits until the daemon has noticed."""
        stream.close()
        if not wait_for(lambda: not self.stats(session)["clientConnected"], LONG):
            raise Fail("the daemon does not notice that its client is gone")


class running:
    """with running(t) as d: a daemon that is gone afterwards, and everything that it started."""

    def __init__(self, t, **options):
        self.t, self.options = t, options

    def __enter__(self):
        self.d = Daemon(self.t, **self.options)
        return self.d

    def __exit__(self, *_):
        self.d.cleanup()


def texts(events):
    return [e["content"] for e in events if e["type"] == "text"]


def partials(events):
    return [e["content"] for e in events if e["type"] == "partial"]


def kinds(events):
    return [e["type"] for e in events if e["type"] != "ping"]
