"""The port of cdev clients: a hosted process that would be a phone, a page or a tunnel that would be the machine itself, and a phone that
would be more than it is."""
import base64
import hashlib
import json
import os
import shlex
import shutil

from approvals_kit import LONG, House, Terminal, run_hosted
from cdev_kit import Port, Socket
from lib import area, wait_for

# Says one request, and prints the status and what was said. A file of its own, so that a hosted process can run it.
ASKER = r'''
import http.client, json, socket, sys
port, method, path, headers, body = int(sys.argv[1]), sys.argv[2], sys.argv[3], json.loads(sys.argv[4]), sys.argv[5]
if path == "/ws":
    headers = dict(headers, Upgrade="websocket", Connection="Upgrade", **{"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="})
c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
c.request(method, path, body or None, headers)
r = c.getresponse()
print("status", r.status, "" if r.status == 101 else r.read().decode(errors="replace"))
'''


def cdev_port(house):
    address = next(d["address"] for d in house.record()["doors"] if d["name"] == "cdev")
    return Port(int(address.rsplit(":", 1)[1]))


def asks(house, port, method, path, body=None, **headers):
    """A command line that asks this."""
    script = house.dir + "/asker.py"
    with open(script, "w") as f:
        f.write(ASKER)
    words = [shutil.which("python3"), script, str(port.port), method, path, json.dumps({n.replace("_", "-"): v for n, v in headers.items()}), json.dumps(body) if body is not None else ""]
    return " ".join(shlex.quote(word) for word in words)


def let_in(house, port, key=b"y"):
    """A phone that a person lets in at a terminal: its tokens, or the last answer."""
    token = port.token()
    asked = port.exchange(token)
    term = Terminal(house, "devices", "admit", asked.json["request_id"])
    term.press(key)
    term.wait()
    return port.exchange(token).json


def refused(said):
    return "status 401" in said or "status 403" in said


@area("cdev-port")
def hosted(t):
    """What a hosted process tries at the port."""
    house = House(t).up()
    try:
        port = cdev_port(house)
        audited = lambda: len(house.audit("attempted"))
        for name, path in {"is-shown-a-token": "/api/pair/info", "is-shown-a-square": "/api/pair/qr", "is-shown-the-page": "/pair"}.items():
            said = run_hosted(house, [], asks(house, port, "GET", path))
            t.stopped(name, refused(said) and "cdev_p_" not in said, said)
        t.control("a-persons-program-is-shown-one", port.token().startswith("cdev_p_"))
        token = port.token()
        before = audited()
        said = run_hosted(house, [], asks(house, port, "POST", "/api/auth/exchange", {"pairing_token": token}))
        t.stopped("exchanges-a-token-that-it-read", refused(said) and "cdev_s_" not in said, said)
        t.ok("that-is-audited", audited() > before)
        asked = port.exchange(token)
        t.control("a-phone-exchanges-it", asked.status == 202, asked)
        id = asked.json["request_id"]
        for name, command in {
            "lets-it-in": asks(house, port, "POST", "/api/auth/pairing/approve", {"request_id": id}),
            "lets-it-in-by-the-command": "%s devices admit %s" % (shlex.quote(house.program), id),
            "lets-it-in-on-a-terminal-of-its-own": "(sleep 1; echo y) | script -qec '%s devices admit %s' /dev/null" % (house.program, id),
            "sees-who-waits": asks(house, port, "GET", "/api/auth/pairing/pending"),
        }.items():
            said = run_hosted(house, [], command)
            t.stopped(name, port.exchange(token).status == 202 and id not in said.replace(" admit %s" % id, ""), said)
        term = Terminal(house, "devices", "admit", id)
        term.press(b"y")
        t.control("a-person-lets-it-in", term.wait() == 0 and port.exchange(token).status == 200, term.seen[-300:])
        phone = let_in(house, port)
        bearer = {"Authorization": "Bearer " + phone["access_token"]}
        for name, command in {
            "uses-a-stolen-token": asks(house, port, "GET", "/api/status", **bearer),
            "opens-a-socket-with-it": asks(house, port, "GET", "/ws", **bearer),
            "prompts-with-it": asks(house, port, "POST", "/api/claude/run", {"prompt": "x"}, **bearer),
            "renews-it": asks(house, port, "POST", "/api/auth/refresh", {"refresh_token": phone["refresh_token"]}),
            "puts-the-phone-out": asks(house, port, "POST", "/api/auth/revoke", {"refresh_token": phone["refresh_token"]}),
        }.items():
            before = audited()
            said = run_hosted(house, [], command)
            t.stopped(name, refused(said) and "cdev_s_" not in said, said)
            t.ok("%s-is-audited" % name, audited() > before, said)
        t.control("the-phone-itself-is-served", port("GET", "/api/status", token=phone["access_token"]).status == 200)
        t.control("and-renews-it", port("POST", "/api/auth/refresh", {"refresh_token": phone["refresh_token"]}).status == 200)
    finally:
        house.down()


@area("cdev-port")
def outside(t):
    """A page, a name and a proxy that would be the machine itself; and what is not on the list of what needs no token."""
    house = House(t).up()
    try:
        port = cdev_port(house)
        phone = let_in(house, port)
        for name, headers in {
            "a-name-that-leads-here": {"Host": "evil.example"},
            "a-page": {"Origin": "https://evil.example"},
            "a-page-without-a-name": {"Origin": "null"},
            "a-proxy": {"X_Forwarded_For": "203.0.113.7"},
            "a-proxy-that-says-it-is-here": {"Forwarded": "for=127.0.0.1"},
        }.items():
            said = port("GET", "/api/pair/info", **headers)
            t.stopped("%s-is-shown-a-token" % name, "token" not in (said.json or {}), said)
        for path in ("/health2", "/pairx", "//api/pair/info", "/api/pair/../status", "/api/auth/exchange/../../status", "/api/pair/%2e%2e/status"):
            said = port("GET", path)
            t.stopped("no-token-at-%s" % path, said.status in (401, 404) and b"repo_path" not in said.body, said)
        t.stopped("a-token-in-the-address", port("GET", "/api/status?token=%s&access_token=%s" % ((phone["access_token"],) * 2)).status == 401)
        t.stopped("nobody-puts-everybody-out", port("POST", "/api/pair/refresh").status == 404 and port("GET", "/api/status", token=phone["access_token"]).status == 200)
        t.stopped("a-refused-phone-comes-again", "access_token" not in let_in(house, port, b"n"))
        t.control("the-same-without-those", "token" in port("GET", "/api/pair/info").json and port("GET", "/api/status", token=phone["access_token"]).status == 200)
    finally:
        house.down()


@area("cdev-port")
def paired(t):
    """A phone that was let in, and wants more than it was given."""
    house = House(t).up()
    try:
        port = cdev_port(house)
        phone = let_in(house, port)
        repo = house.dir + "/project"
        os.makedirs(repo + "/.git/hooks")
        with open(house.dir + "/secret.txt", "w") as f:
            f.write("SECRET\n")
        os.symlink("../secret.txt", repo + "/link")
        house.good("new", "echo", repo)
        s = Socket(port.port, phone["access_token"])
        said = lambda method, params: json.dumps(s.call(method, params))
        for method in ("file/get", "git/diff"):
            for path in ("../secret.txt", "link", "/etc/passwd"):
                t.stopped("%s-of-%s" % (method.replace("/", "-"), path), all(word not in said(method, {"path": path}) for word in ("SECRET", "root:")))
        t.stopped("another-folder", "FORBIDDEN" in said("workspace/add", {"path": "/etc"}))
        t.stopped("a-session-that-never-asks", "FORBIDDEN" in said("agent/run", {"prompt": "x", "agent_type": "echo", "permission_mode": "bypassPermissions"}))
        content = b"#!/bin/sh\n"

        def written(path):
            id = s.call("upload/start", {"path": path, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()})["result"]["upload_id"]
            s.call("upload/chunk", {"upload_id": id, "offset": 0, "data": base64.b64encode(content).decode()})
            return "result" in s.call("upload/finish", {"upload_id": id})
        for path in (".git/hooks/pre-commit", "../out", "link"):
            t.stopped("writes-%s" % path, not written(path) and open(house.dir + "/secret.txt").read() == "SECRET\n")
        t.control("writes-a-file-of-the-workspace", written("own.sh") and open(repo + "/own.sh", "rb").read() == content)
        t.ok("nothing-of-it-is-there", not os.path.exists(repo + "/.git/hooks/pre-commit") and not os.path.exists(house.dir + "/out"))
        s.call("agent/run", {"prompt": "!touch %s/pwned" % repo, "agent_type": "echo"})
        wait_for(lambda: s.call("status/get")["result"]["claude_state"] != "running", LONG, 0.1)
        t.stopped("a-shell-by-a-prompt", not os.path.exists(repo + "/pwned"))
        t.control("a-session-that-asks", '"started"' in said("agent/run", {"prompt": "x", "agent_type": "echo"}))
        t.stopped("lets-others-in", port("GET", "/api/auth/pairing/pending", token=phone["access_token"]).status == 403)
        with open(repo + "/here.txt", "w") as f:
            f.write("inside\n")
        t.control("what-is-its-own-it-may", "inside" in said("file/get", {"path": "here.txt"}))
        Terminal(house, "devices", "revoke", "--all").wait()
        t.stopped("goes-on-after-it-was-put-out", s.ended() and port("GET", "/api/status", token=phone["access_token"]).status == 401)
    finally:
        house.down()
