#!/usr/bin/env python3
"""A real browser with a page of another site, against every port of a running instance: none of the tries gets in, and each of them gets into a
port that lets everybody in.

  run.py --bin PATH [-v]

PATH is the program. A door with a port has a line in DOORS; one that has none fails this suite."""
import argparse
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "own"), os.path.join(HERE, "..", "claustrum")]
from lib import clean_env
from servers import Rebound, open_port, page, site

LONG = 90
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--disable-dev-shm-usage", "--mute-audio", "--host-resolver-rules=MAP evil.test 127.0.0.1, MAP rebind.test 127.0.0.2"]
# For each door with a port: where its requests go, a request that leaves something behind (a session in a folder named after the try), and the
# first words of a WebSocket.
DOORS = {
    "cdev": {"path": "/api/pair/info", "words": "{}", "hello": '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'},
    "codecast": {"path": "/rpc", "words": '{"method":"session.create","params":{"cli_type":"echo","path":"FOLDER/ATTEMPT"}}', "hello": "{}"},
    "web": {"path": "/rpc", "words": '{"jsonrpc":"2.0","id":1,"method":"session.create","params":{"agent":"echo","workspace":"FOLDER/ATTEMPT"}}',
            "hello": '{"jsonrpc":"2.0","id":1,"method":"device.challenge","params":{}}'},
    # The page on the same port: everybody may open it, no page may read, frame or load it.
    "page": {"path": "/", "words": '{"params":{"workspace":"FOLDER/ATTEMPT"}}', "hello": "{}", "on": "web"},
}
# Where a page can come from: another name, another port of this machine under both its names, a frame without any, a name that was bound to us.
ORIGINS = ("evil", "port", "localhost", "null", "rebound")
TRIES = ["fetch-%s-%s" % (mode, kind) for kind in ("none", "text", "form", "multipart", "json") for mode in ("cors", "no-cors")] + [
    "fetch-preflight", "fetch-get", "fetch-get-no-cors", "beacon", "form-text", "form-urlencoded", "form-multipart", "script", "image", "frame", "websocket"]


class Results:
    def __init__(self, verbose):
        self.passed, self.failed, self.verbose = 0, 0, verbose

    def rec(self, name, good, detail=""):
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        print("ok %s" % name if good else "FAIL %s: %s" % (name, str(detail)[:300]), flush=True)


class Instance:
    """`ostler up` in a home of its own."""

    def __init__(self, program):
        self.program, self.dir = program, tempfile.mkdtemp(prefix="b")
        self.env = clean_env(self.dir)
        self("up")
        with open(self.dir + "/.local/state/ostler/instances/main/instance.json") as f:
            doors = json.load(f)["doors"]
        self.ports = {d["name"]: int(d["address"].rsplit(":", 1)[1]) for d in doors if not d["address"].startswith("/")}

    def __call__(self, *args):
        return subprocess.run([self.program, *args], env=self.env, cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LONG).stdout

    def sessions(self):
        """Folders that somebody began a session in."""
        return {os.path.basename(s["workspace"]) for s in json.loads(self("--json", "sessions", "--all"))}

    def close(self):
        self("down", "--kill")
        shutil.rmtree(self.dir, ignore_errors=True)


def raw(port, method, path, headers, body=None):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG)
    c.putrequest(method, path, skip_host=True)
    for name, value in headers.items():
        c.putheader(name, value)
    if body is not None:
        c.putheader("Content-Length", str(len(body)))
    c.endheaders(body)
    r = c.getresponse()
    return r.status, {k.lower(): v for k, v in r.getheaders()}


def browse(evil, expected):
    """Has the browser open the page, until every page has reported."""
    with tempfile.TemporaryDirectory(prefix="c", ignore_cleanup_errors=True) as profile:
        browser = subprocess.Popen(["chromium", *FLAGS, "--user-data-dir=" + profile, "http://evil.test:%d/start" % evil.port],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, env=dict(os.environ, HOME=profile, TMPDIR=profile, XDG_RUNTIME_DIR=profile))
        try:
            stop = time.monotonic() + LONG
            with evil.came:
                while len(evil.reports) < expected and time.monotonic() < stop and browser.poll() is None:
                    evil.came.wait(1)
        finally:
            # It has a group of its own, with every process that it started.
            os.killpg(browser.pid, 9)
            browser.wait()


def start_page(evil, targets):
    """The page of the other site, with one frame for each other place that a page can come from."""
    own = page("http://evil.test:%d" % evil.port, "evil", targets)
    inner = page("http://evil.test:%d" % evil.port, "null", targets)
    frames = ["<iframe src='http://127.0.0.1:%d/port'></iframe>" % evil.port, "<iframe src='http://localhost:%d/localhost'></iframe>" % evil.port,
              "<iframe sandbox='allow-scripts allow-forms' srcdoc='%s'></iframe>" % inner.replace("&", "&amp;").replace("'", "&#39;")]
    frames += ["<iframe src='http://rebind.test:%d/page'></iframe>" % port for port in sorted({t["port"] for t in targets})]
    return own + "".join(frames)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", required=True)
    ap.add_argument("-v", action="store_true")
    opt = ap.parse_args()
    t = Results(opt.v)
    instance, control, pages, relays = Instance(os.path.abspath(opt.bin)), open_port(), {}, []
    evil = site(pages)
    try:
        for name in sorted(set(instance.ports) - set(DOORS)):
            t.rec("%s/is-in-the-table" % name, False, "a door with a port has no line in DOORS")
        ports = {name: instance.ports[door.get("on", name)] for name, door in DOORS.items() if door.get("on", name) in instance.ports}
        t.rec("ports", set(ports) == set(DOORS), instance.ports)
        folder = instance.dir + "/a"
        targets = [dict(DOORS[name], name=name, port=port, base="http://127.0.0.1:%d" % port, words=DOORS[name]["words"].replace("FOLDER", folder)) for name, port in ports.items()]
        targets.append({"name": "control", "port": control.port, "base": "http://127.0.0.1:%d" % control.port, "path": "/rpc", "words": '{"params":{}}', "hello": "hello"})
        for target in targets:
            for origin in ORIGINS:
                for attempt in TRIES:
                    os.makedirs("%s/%s-%s-%s" % (folder, target["name"], origin, attempt))
        for port in {target["port"] for target in targets}:
            own = [dict(target, base="http://rebind.test:%d" % port) for target in targets if target["port"] == port]
            relays.append(Rebound(port, page("http://evil.test:%d" % evil.port, "rebound", own)))
        to = "http://evil.test:%d" % evil.port
        pages.update({"/start": start_page(evil, targets), "/port": page(to, "port", targets),
                      "/localhost": page(to, "localhost", [dict(x, base=x["base"].replace("127.0.0.1", "localhost")) for x in targets])})
        browse(evil, len(ORIGINS) * len(targets))
        judge(t, instance, control, evil, ports)
        by_hand(t, ports)
    finally:
        for relay in relays:
            relay.close()
        instance.close()
    print("%d passed, %d failed" % (t.passed, t.failed))
    return 1 if t.failed else 0


def judge(t, instance, control, evil, ports):
    reported = {(r["target"], r["from"]): r["results"] for r in evil.reports}
    sessions = instance.sessions()
    stopped = 0
    for origin in ORIGINS:
        for attempt in TRIES:
            got = reported.get(("control", origin), {}).get(attempt, {})
            arrived = "control/%s/%s" % (origin, attempt) in control.arrived
            t.rec("control/%s/%s" % (origin, attempt), arrived, "it does not reach a port that lets everybody in: %s" % got)
            for name in ports:
                got = reported.get((name, origin), {}).get(attempt)
                is_in = got is None or got.get("opened") or 200 <= got.get("status", 0) < 300 or "%s-%s-%s" % (name, origin, attempt) in sessions
                stopped += not is_in
                t.rec("%s/%s/%s" % (name, origin, attempt), not is_in, got)
    print("tried %d, stopped %d" % (len(ORIGINS) * len(TRIES) * len(ports), stopped))


def by_hand(t, ports):
    """What only a browser of another make would send, and our own programs, who are let in."""
    for name, port in ports.items():
        path, here = DOORS[name]["path"], "127.0.0.1:%d" % port
        ask = {"Host": here, "Origin": "https://evil.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type",
               "Access-Control-Request-Private-Network": "true", "Access-Control-Request-Local-Network": "true"}
        status, headers = raw(port, "OPTIONS", path, ask)
        t.rec("%s/preflight-of-a-private-network" % name, not any(h.startswith("access-control-") for h in headers) and status >= 400, (status, headers))
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        tries = {"no-host": {}, "another-host": {"Host": "evil.example"}, "null-origin": {"Host": here, "Origin": "null"},
                 "another-origin": {"Host": here, "Origin": "https://evil.example"}, "forwarded": {"Host": here, "X-Forwarded-For": "1.2.3.4"}}
        for attempt, more in tries.items():
            status, headers = raw(port, "POST" if name == "codecast" else "GET", path, {**upgrade, "Content-Type": "application/json", **more}, b"{}")
            t.rec("%s/%s" % (name, attempt), status in (400, 403), status)
            t.rec("%s/%s-sets-no-cookie" % (name, attempt), "set-cookie" not in headers, headers)
    status, _ = raw(ports["cdev"], "GET", "/api/pair/info", {"Host": "localhost"})
    t.rec("cdev/control-our-own-program", status == 200, status)
    status, _ = raw(ports["codecast"], "POST", "/rpc", {"Host": "localhost", "Content-Type": "application/json"}, b'{"method":"health.check"}')
    t.rec("codecast/control-our-own-program", status == 200, status)
    status, _ = raw(ports["web"], "GET", "/rpc", {"Host": "localhost", **upgrade})
    t.rec("web/control-our-own-program", status == 101, status)


if __name__ == "__main__":
    sys.exit(main())
