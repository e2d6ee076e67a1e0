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
import socket
import ssl
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
         "--disable-sync", "--disable-dev-shm-usage", "--ignore-certificate-errors", "--mute-audio", "--host-resolver-rules=MAP evil.test 127.0.0.1, MAP rebind.test 127.0.0.2"]
# For each door with a port: where its requests go, a request that leaves something behind (a session in a folder named after the try, a device
# that waits), and the first words of a WebSocket.
DOORS = {
    "cdev": {"path": "/api/auth/exchange", "words": '{"pairing_token":"TOKEN","params":{}}', "hello": "{}"},
    "cdev-info": {"path": "/api/pair/info", "words": '{"params":{}}', "hello": "{}", "on": "cdev"},
    "cdev-socket": {"path": "/ws", "words": '{"params":{}}', "hello": '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}', "on": "cdev"},
    "codecast": {"path": "/rpc", "words": '{"method":"session.create","params":{"cli_type":"echo","path":"FOLDER/ATTEMPT"}}', "hello": "{}"},
    "web": {"path": "/rpc", "words": '{"jsonrpc":"2.0","id":1,"method":"session.create","params":{"agent":"echo","workspace":"FOLDER/ATTEMPT"}}',
            "hello": '{"jsonrpc":"2.0","id":1,"method":"device.challenge","params":{}}'},
    # The page on the same port: everybody may open it, no page may read, frame or load it.
    "page": {"path": "/", "words": '{"params":{"workspace":"FOLDER/ATTEMPT"}}', "hello": "{}", "on": "web"},
    # Beside the page where somebody wants it, and then with TLS only: an instance of its own.
    "zeroclaw": {"path": "/zeroclaw", "words": '{"params":{}}', "hello": '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocol_version":1}}', "on": "web-tls"},
}
# Where a page can come from: another name, another port of this machine under both its names, a frame without any, a name that was bound to us.
ORIGINS = ("evil", "port", "localhost", "null", "rebound")
TRIES = ["fetch-%s-%s" % (mode, kind) for kind in ("none", "text", "form", "multipart", "json") for mode in ("cors", "no-cors")] + [
    "fetch-preflight", "fetch-get", "fetch-get-no-cors", "beacon", "form-text", "form-urlencoded", "form-multipart", "script", "image", "frame", "websocket"]


UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}


def is_secure(name):
    return DOORS[name].get("on") == "web-tls"


class Results:
    def __init__(self, verbose):
        self.passed, self.failed, self.verbose = 0, 0, verbose

    def rec(self, name, good, detail=""):
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        print("ok %s" % name if good else "FAIL %s: %s" % (name, str(detail)[:300]), flush=True)


class Instance:
    """`ostler up` in a home of its own; its port for devices speaks TLS where zeroclaw is to be there too."""

    def __init__(self, program, zeroclaw=False):
        self.program, self.dir = program, tempfile.mkdtemp(prefix="b")
        # Beside another one: each has its sockets in a folder of its own.
        self.env = dict(clean_env(self.dir), XDG_RUNTIME_DIR=self.dir)
        if zeroclaw:
            files = self.dir + "/c.pem", self.dir + "/k.pem"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-out", files[0], "-keyout", files[1], "-days", "9", "-subj", "/CN=box",
                            "-addext", "subjectAltName=DNS:box.example"], check=True, stderr=subprocess.DEVNULL)
            os.makedirs(self.dir + "/.config/ostler")
            with open(self.dir + "/.config/ostler/config.toml", "w") as f:
                f.write('[web]\nzeroclaw = true\ncertificate = "%s"\nkey = "%s"\n' % files)
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

    def device(self):
        """A device's token: of a `cdev start` that joins, whose own user pairs unasked. What it pairs is known at every port."""
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
        os.makedirs(self.dir + "/r", exist_ok=True)
        words = [self.program, "as", "cdev", "start", "--headless", "--port", str(port), "--repo", self.dir + "/r"]
        joined = subprocess.Popen(words, env=self.env, cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            stop = time.monotonic() + LONG
            while time.monotonic() < stop:
                try:
                    raw(port, "GET", "/health", {"Host": "localhost"})
                    break
                except OSError:
                    time.sleep(0.1)
            return json.loads(exchanged(port, pairing_token(port))[2])["access_token"]
        finally:
            joined.terminate()
            joined.wait()


def pairing_token(port):
    return json.loads(raw(port, "GET", "/api/pair/info", {"Host": "localhost"})[2])["token"]


def exchanged(port, token, **headers):
    return raw(port, "POST", "/api/auth/exchange", {"Host": "localhost", "User-Agent": "Own/1", **headers}, json.dumps({"pairing_token": token}))


def raw(port, method, path, headers, body=None, tls=False):
    """The status, the headers and the beginning of the body."""
    secure = {"context": ssl._create_unverified_context()} if tls else {}
    c = (http.client.HTTPSConnection if tls else http.client.HTTPConnection)("127.0.0.1", port, timeout=LONG, **secure)
    c.putrequest(method, path, skip_host=True)
    for name, value in headers.items():
        c.putheader(name, value)
    if body is not None:
        c.putheader("Content-Length", str(len(body)))
    c.endheaders(body.encode() if isinstance(body, str) else body)
    r = c.getresponse()
    said = b"" if r.status == 101 else r.read()
    c.close()
    return r.status, {k.lower(): v for k, v in r.getheaders()}, said


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


def start_page(evil, given):
    """The page of the other site, with one frame for each other place that a page can come from."""
    own = page("http://evil.test:%d" % evil.port, "evil", given("evil"))
    inner = page("http://evil.test:%d" % evil.port, "null", given("null"))
    frames = ["<iframe src='http://127.0.0.1:%d/port'></iframe>" % evil.port, "<iframe src='http://localhost:%d/localhost'></iframe>" % evil.port,
              "<iframe sandbox='allow-scripts allow-forms' srcdoc='%s'></iframe>" % inner.replace("&", "&amp;").replace("'", "&#39;")]
    frames += ["<iframe src='http://rebind.test:%d/page'></iframe>" % port for port in sorted({t["port"] for t in given("rebound")})]
    return own + "".join(frames)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", required=True)
    ap.add_argument("-v", action="store_true")
    opt = ap.parse_args()
    t = Results(opt.v)
    program = os.path.abspath(opt.bin)
    instance, wired, control, pages, relays = Instance(program), Instance(program, zeroclaw=True), open_port(), {}, []
    evil = site(pages)
    try:
        for name in sorted(set(instance.ports) - set(DOORS)):
            t.rec("%s/is-in-the-table" % name, False, "a door with a port has no line in DOORS")
        known = dict(instance.ports, **{"web-tls": wired.ports["web"]})
        ports = {name: known[door.get("on", name)] for name, door in DOORS.items() if door.get("on", name) in known}
        t.rec("ports", set(ports) == set(DOORS), known)
        folder = instance.dir + "/a"
        # A good one for each, which a page could have seen on a screen: whoever shows it first waits to be let in. A client that this machine
        # serves may come with what its user gave it, so those pages have none.
        tokens = {origin: pairing_token(ports["cdev"]) for origin in ORIGINS if origin not in ("port", "localhost")}
        targets = [dict(DOORS[name], name=name, port=port, base="%s://127.0.0.1:%d" % ("https" if is_secure(name) else "http", port),
                        words=DOORS[name]["words"].replace("FOLDER", folder)) for name, port in ports.items()]
        targets.append({"name": "control", "port": control.port, "base": "http://127.0.0.1:%d" % control.port, "path": "/rpc", "words": '{"params":{}}', "hello": "hello"})
        given = lambda origin: [dict(target, words=target["words"].replace("TOKEN", tokens.get(origin, "cdev_p_nobody"))) for target in targets]
        for target in targets:
            for origin in ORIGINS:
                for attempt in TRIES:
                    os.makedirs("%s/%s-%s-%s" % (folder, target["name"], origin, attempt))
        for port in {target["port"] for target in targets}:
            own = [dict(target, base=target["base"].replace("127.0.0.1", "rebind.test")) for target in given("rebound") if target["port"] == port]
            relays.append(Rebound(port, page("http://evil.test:%d" % evil.port, "rebound", own)))
        to = "http://evil.test:%d" % evil.port
        pages.update({"/start": start_page(evil, given), "/port": page(to, "port", given("port")),
                      "/localhost": page(to, "localhost", [dict(x, base=x["base"].replace("127.0.0.1", "localhost")) for x in given("localhost")])})
        browse(evil, len(ORIGINS) * len(targets))
        judge(t, instance, control, evil, ports)
        by_hand(t, ports)
        controls(t, instance, ports, tokens)
    finally:
        for relay in relays:
            relay.close()
        instance.close()
        wired.close()
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
        status, headers, _ = raw(port, "OPTIONS", path, ask, tls=is_secure(name))
        t.rec("%s/preflight-of-a-private-network" % name, not any(h.startswith("access-control-") for h in headers) and status >= 400, (status, headers))
        tries = {"no-host": {}, "another-host": {"Host": "evil.example"}, "null-origin": {"Host": here, "Origin": "null"},
                 "another-origin": {"Host": here, "Origin": "https://evil.example"}, "forwarded": {"Host": here, "X-Forwarded-For": "1.2.3.4"}}
        for attempt, more in tries.items():
            status, headers, _ = raw(port, "POST" if name in ("codecast", "cdev") else "GET", path, {**UPGRADE, "Content-Type": "application/json", **more}, b"{}", tls=is_secure(name))
            t.rec("%s/%s" % (name, attempt), status in (400, 403), status)
            t.rec("%s/%s-sets-no-cookie" % (name, attempt), "set-cookie" not in headers, headers)

def controls(t, instance, ports, tokens):
    """The same requests of our own programs get in."""
    for origin, token in tokens.items():
        status, _, said = exchanged(ports["cdev"], token)
        t.rec("cdev/%s-used-up-no-token" % origin, status == 202, (status, said))
    status, _, said = exchanged(ports["cdev"], pairing_token(ports["cdev"]))
    t.rec("cdev/control-our-own-program", status == 202, (status, said))
    page = exchanged(ports["cdev"], used := pairing_token(ports["cdev"]), Origin="http://localhost:3000", **{"User-Agent": "Page/1"})[0]
    status = exchanged(ports["cdev"], used)[0]
    t.rec("cdev/control-a-token-is-used-up-by-who-shows-it-first", (page, status) == (202, 401), (page, status))
    status, _, said = raw(ports["cdev"], "GET", "/api/pair/info", {"Host": "localhost"})
    t.rec("cdev-info/control-our-own-program", status == 200 and b"cdev_p_" in said, status)
    device = {"Host": "localhost", "Authorization": "Bearer " + instance.device(), **UPGRADE}
    status = raw(ports["cdev"], "GET", "/ws", device)[0]
    t.rec("cdev-socket/control-our-own-program", status == 101, status)
    status = raw(ports["cdev"], "GET", "/ws", {**device, "Origin": "https://evil.example"})[0]
    t.rec("cdev-socket/another-origin-with-a-good-token", status == 403, status)
    status = raw(ports["codecast"], "POST", "/rpc", {"Host": "localhost", "Content-Type": "application/json"}, b'{"method":"health.check"}')[0]
    t.rec("codecast/control-our-own-program", status == 200, status)
    status = raw(ports["web"], "GET", "/rpc", {"Host": "localhost", **UPGRADE})[0]
    t.rec("web/control-our-own-program", status == 101, status)
    status = raw(ports["zeroclaw"], "GET", "/zeroclaw", {"Host": "localhost", **UPGRADE}, tls=True)[0]
    t.rec("zeroclaw/control-our-own-program", status == 101, status)


if __name__ == "__main__":
    sys.exit(main())
