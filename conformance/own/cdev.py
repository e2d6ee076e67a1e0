"""The cdev door: who needs no token and who gets none, devices that come and go, pages of other sites, hosted programs, a tunnel in
front of it, limits, and what its document left to do."""
import base64
import gzip
import hashlib
import json
import os
import re
import shutil
import ssl
import subprocess

import squares
from approvals_kit import LONG, House, Terminal
from cdev_kit import Cdev, Port, Socket, free_port
from codecast import as_nobody
from devices_kit import Key
from lib import area, wait_for
from web import own_address, status

OPEN = ("/health", "/pair", "/api/pair/info", "/api/pair/qr")
# What a check for beginnings lets in, and what is nobody's.
NEARLY = ("/health2", "/healthz", "/health/", "/pairx", "/pair/", "/api/pairs", "/api/auth/exchange2", "/api/auth/refreshx", "/api/auth/pairingx", "/", "/ws2", "//health", "/HEALTH",
          "/api/auth", "/api", "/index.html", "/favicon.ico")
PAIRING = ("/pair", "/api/pair/info", "/api/pair/qr", "/api/auth/pairing/pending")
# Asks for each of these paths, and shows a token; prints one status after the other. For a hosted process.
ASKER = r'''
import http.client, json, sys
port, paths, token = int(sys.argv[1]), sys.argv[2].split(","), sys.argv[3]
def ask(method, path, body=None, bearer=None):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    headers = {"Authorization": "Bearer " + bearer} if bearer else {}
    c.request(method, path, body, headers)
    r = c.getresponse()
    said = r.read()
    return r.status, b"cdev_p_" in said or b"cdev_s_" in said
print(json.dumps([ask("GET", path) for path in paths]
                 + [ask("POST", "/api/auth/exchange", json.dumps({"pairing_token": token})), ask("GET", "/api/status", bearer=token), ask("POST", "/api/pair/code", '{"code":"123456"}')]))
'''


@area("cdev-who-needs-no-token")
def allowlist(t):
    house = Cdev(t)
    try:
        port = house.port
        for path in OPEN:
            t.eq("open-%s" % path, port("GET", path).status, 200)
        for path in NEARLY:
            t.eq("a-token-is-needed-at-%s" % path, port("GET", path).status, 401)
        t.eq("below-the-open-ones-nothing-is-there", port("GET", "/api/pair/../status").status, 404)
        device = port.paired()
        for path in NEARLY:
            t.eq("and-with-one-nothing-is-there-%s" % path, port("GET", path, token=device["access_token"]).status, 404)
        t.eq("unauthenticated-rotation-is-not-there", port("POST", "/api/pair/refresh").status, 404)
        t.eq("so-no-device-was-put-out", port("GET", "/api/status", token=device["access_token"]).status, 200)
        answer = port("GET", "/api/status")
        t.eq("who-has-none-is-told-in-both-words", (answer.status, answer.json["code"], answer.headers["www-authenticate"]), (401, "UNAUTHORIZED", "Bearer"))
        for header in ("content-security-policy", "x-content-type-options", "x-frame-options", "referrer-policy", "cache-control"):
            t.ok("every-answer-has-%s" % header, header in answer.headers, answer.headers)
        t.ok("no-cookie-is-set", "set-cookie" not in port("GET", "/pair").headers)
        policy = port("GET", "/pair").headers["content-security-policy"]
        t.ok("the-page-runs-nothing-but-its-own-file", "default-src 'none'" in policy and "unsafe" not in policy, policy)
        t.eq("authentication-cannot-be-switched-off", house.run_as("config", CDEV_SECURITY_REQUIRE_AUTH="false"), 1)
    finally:
        house.down()


@area("cdev-devices-come-and-go")
def devices(t):
    house = Cdev(t)
    try:
        port = house.port
        page = port("GET", "/pair").body.decode()
        code = page.split('class="code">')[1].split("<")[0].replace(" ", "")
        t.ok("the-page-shows-six-digits", len(code) == 6 and code.isdigit(), code)
        token = port("POST", "/api/pair/code", {"code": code}).json["pairing_token"]
        t.eq("a-code-works-once", port("POST", "/api/pair/code", {"code": code}).status, 401)
        device = port.exchange(token, User_Agent="Phone/1.0").json
        t.eq("so-does-what-it-was-exchanged-for", port.exchange(token).status, 401)
        listed = house.json("--instance", house.instance(), "devices")
        t.eq("it-is-a-device-like-every-other", [(d["name"], d["rights"]) for d in listed], [("Phone", ["view", "prompt", "answer_once", "write"])])
        s = Socket(port.port, device["access_token"])
        t.eq("its-first-words-are-session_start", s.hear()["method"], "event/session_start")
        s.call("status/get")
        t.eq("revoked-by-itself", port("POST", "/api/auth/revoke", {"refresh_token": device["refresh_token"]}).status, 200)
        t.ok("its-sockets-end", s.ended())
        t.eq("and-its-tokens", [port("GET", "/api/status", token=device["access_token"]).status, port("POST", "/api/auth/refresh", {"refresh_token": device["refresh_token"]}).status], [401, 401])
        other = port.paired()
        renewed = port("POST", "/api/auth/refresh", {"refresh_token": other["refresh_token"]}).json
        t.eq("the-older-access-token-is-used-up", port("GET", "/api/status", token=other["access_token"]).status, 401)
        t.eq("a-refresh-token-works-once", port("POST", "/api/auth/refresh", {"refresh_token": other["refresh_token"]}).status, 401)
        t.eq("who-asks-again-at-once-is-not-put-out", port("GET", "/api/status", token=renewed["access_token"]).status, 200)
        s = Socket(port.port, renewed["access_token"])
        t.eq("shutdown-is-answered", s.call("shutdown")["result"]["success"], True)
        t.ok("it-ends-this-client", s.ended())
        t.eq("and-not-the-server", port("GET", "/health").status, 200)
        house.stop()
        house.start()
        t.eq("tokens-outlive-the-server", house.port("GET", "/api/status", token=renewed["access_token"]).status, 200)
        t.eq("doctor-looks-at-it", house.run_as("doctor"), 0)
        told = subprocess.run([house.program, "as", "cdev", "config"], env=dict(house.env, CDEV_SERVER_PORT="4321"), capture_output=True, text=True, timeout=LONG)
        t.ok("config-says-each-setting-with-its-variable", told.returncode == 0 and "CDEV_SERVER_PORT" in told.stdout and "4321" in told.stdout, told)
        t.ok("auth-reset-is-for-a-terminal", house.run_as("auth", "reset") != 0 and house.port("GET", "/api/status", token=renewed["access_token"]).status == 200)
        term = Terminal(house, "as", "cdev", "auth", "reset")
        t.eq("there-it-puts-every-device-out", (term.wait(), house.port("GET", "/api/status", token=renewed["access_token"]).status), (0, 401))
        house.stop()
        house.more["CDEV_SECURITY_SHUTDOWN_ENDS_SERVER"] = "true"
        house.start()
        s = Socket(house.port.port, house.port.paired()["access_token"])
        t.eq("by-a-setting-shutdown-ends-the-server", (s.call("shutdown")["result"]["success"], house.p.wait(LONG)), (True, 0))
    finally:
        house.down()


@area("cdev-pages-of-other-sites")
def pages(t):
    house = Cdev(t, env={"CDEV_SECURITY_ALLOWED_ORIGINS": "https://app.example,https://*.dev.example"})
    try:
        port = house.port
        token = port.paired()["access_token"]
        for origin in ("http://localhost:3000", "http://127.0.0.1:5173", "https://app.example", "https://a.dev.example"):
            answer = port("GET", "/api/status", token=token, Origin=origin)
            t.eq("may-call-%s" % origin, (answer.status, answer.headers.get("access-control-allow-origin")), (200, origin))
            for path in PAIRING:
                answer = port("GET", path, Origin=origin)
                t.eq("and-is-given-no-token-%s-%s" % (origin, path), (answer.status, answer.headers.get("access-control-allow-origin")), (403, None))
        for origin in ("https://evil.example", "null", "https://app.example.evil.example", "https://dev.example"):
            answer = port("GET", "/health", Origin=origin)
            t.eq("may-not-%s" % origin, (answer.status, answer.headers.get("access-control-allow-origin")), (403, None))
    finally:
        house.down()


@area("cdev-hosted-programs")
def hosted(t):
    house = Cdev(t, env={"CDEV_SECURITY_REQUIRE_PAIRING_APPROVAL": "true"})
    try:
        script = house.dir + "/asker.py"
        with open(script, "w") as f:
            f.write(ASKER)
        # A good token, which it could have read somewhere.
        good = house.port.token()
        said = house.good("--instance", house.instance(), "run", "--", "python3", script, str(house.port.port), ",".join(PAIRING), good)
        answers = json.loads(said.strip().splitlines()[-1])
        t.eq("a-hosted-program-is-refused-everywhere", [status for status, _ in answers], [403] * 7)
        t.ok("and-sees-no-token", not any(seen for _, seen in answers), answers)
        t.eq("the-token-is-still-good-for-who-may", house.port.exchange(good).status, 202)
        tried = [json.loads(line) for line in house.good("--instance", house.instance(), "--json", "audit").splitlines()]
        t.ok("it-is-on-record", any("cannot act as a device" in json.dumps(row) for row in tried))
    finally:
        house.down()


@area("cdev-behind-a-tunnel")
def tunnel(t):
    house = Cdev(t, "--external-url", "https://box.example")
    try:
        port = house.port
        info = port("GET", "/api/pair/info").json
        t.eq("phones-are-told-the-outer-address", (info["http"], info["ws"], info["approval_required"]), ("https://box.example", "wss://box.example/ws", True))
        through = {"Host": "box.example", "X_Forwarded_For": "203.0.113.7"}
        far = port("GET", "/api/pair/info", **through)
        t.eq("who-comes-through-it-is-given-no-token", (far.status, "token" in far.json), (200, False))
        t.eq("nor-a-code-to-scan", port("GET", "/api/pair/qr", **through).status, 403)
        t.ok("nor-one-to-read", 'class="code"' not in port("GET", "/pair", **through).body.decode())
        asked = port.exchange(info["token"], **through)
        t.eq("what-it-scanned-it-may-show-and-a-person-is-asked", (asked.status, asked.json["status"]), (202, "pending_approval"))
        id = asked.json["request_id"]
        for name, how in {"through-the-tunnel": through, "with-the-outer-name": {"Host": "box.example"}, "forwarded": {"X_Forwarded_For": "127.0.0.1"}}.items():
            t.eq("nobody-decides-%s" % name, [port("GET", "/api/auth/pairing/pending", **how).status, port("POST", "/api/auth/pairing/approve", {"request_id": id}, **how).status], [403, 403])
        waiting = port("GET", "/api/auth/pairing/pending").json["pending"]
        t.eq("a-program-of-this-machine-sees-who-waits", [(w["request_id"], w["remote_addr"]) for w in waiting], [(id, "203.0.113.7")])
        t.eq("and-lets-it-in", port("POST", "/api/auth/pairing/approve", {"request_id": id}).status, 200)
        device = port.exchange(info["token"], **through).json
        t.eq("the-phone-is-served-through-the-tunnel", port("GET", "/api/status", token=device["access_token"], **through).status, 200)
        t.eq("another-host-is-not", port("GET", "/health", Host="evil.example").status, 403)
        if os.geteuid() != 0:
            return t.skip("another-user", "needs root to become another user")
        good = port.token()
        stranger = lambda path, **how: as_nobody(lambda: (lambda a: (a.status, b"cdev_p_" in a.body))(port("GET", path, **how)))
        t.eq("a-tunnel-of-another-user-is-elsewhere-too", [stranger(path, Host="box.example") for path in ("/api/pair/info", "/pair", "/api/pair/qr", "/api/auth/pairing/pending")],
             ["(200, False)", "(200, False)", "(403, False)", "(403, False)"])
        t.eq("and-passes-on-what-a-phone-scanned", as_nobody(lambda: port.exchange(good, **through).status), "202")
        t.eq("without-the-outer-name-it-is-not-heard", stranger("/api/pair/info"), "(403, False)")
    finally:
        house.down()


@area("cdev-said-out-loud")
def out_loud(t):
    house = Cdev(t, "--external-url", "https://box.example", "--insecure-pairing")
    try:
        far = house.port("GET", "/api/pair/info", Host="box.example").json
        t.eq("everybody-is-shown-a-token-and-let-in", house.port.exchange(far["token"], Host="box.example").status, 200)
        open_port = house.run_as("start", "--repo", house.repo, "--host", "0.0.0.0", "--port", "0")
        t.eq("an-open-address-needs-a-way-to-protect-it", open_port, 1)
    finally:
        house.down()


def told_at_start(house, *flags, **env):
    """What `cdev start` prints for people, with a port of its own."""
    port = free_port()
    words = [house.program, "as", "cdev", "start", "--repo", house.dir, "--port", str(port), *flags]
    with subprocess.Popen(words, env=dict(house.env, **env), cwd=house.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as p:
        wait_for(lambda: status(port, "Host: localhost", first="GET /health HTTP/1.1") == 200, LONG, 0.05)
        p.terminate()
        return port, p.communicate()[0].splitlines()


@area("cdev-an-address-for-others")
def addresses(t):
    """What a phone scans leads it here: by the address where all are bound, by a name where there is a certificate."""
    house = Cdev(t)
    try:
        here = "http://127.0.0.1:%d" % house.port.port
        square = json.loads(squares.read(house.port("GET", "/api/pair/qr").body))
        t.eq("the-square-says-what-a-phone-must-know", ({name: square[name] for name in ("http", "ws", "repo")}, sorted(square)),
             ({"http": here, "ws": here.replace("http", "ws") + "/ws", "repo": "project"}, ["http", "repo", "session", "token", "ws"]))
        t.eq("and-its-token-pairs", house.port.exchange(square["token"]).status, 200)
    finally:
        house.down()
    address = own_address()
    if not address:
        return t.skip("lan", "this machine has no address but the loopback")
    lan = ("--host", "0.0.0.0", "--insecure-lan")
    house = Cdev(t, *lan)
    try:
        there = "http://%s:%d" % (address, house.port.port)
        info = house.port("GET", "/api/pair/info").json
        t.eq("lan-phones-are-told-the-address", (info["http"], info["ws"]), (there, there.replace("http", "ws") + "/ws"))
        t.eq("lan-the-square-says-the-same", json.loads(squares.read(house.port("GET", "/api/pair/qr").body))["http"], there)
        t.ok("lan-and-the-page", there in house.port("GET", "/pair").body.decode())
        host = "%s:%d" % (address, house.port.port)
        t.eq("lan-which-lets-them-in", [status(house.port.port, "Host: " + host, first="GET %s HTTP/1.1" % path, address=address) for path in ("/health", "/pair")], [200, 200])
        t.eq("lan-where-a-token-is-needed", status(house.port.port, "Host: " + host, first="GET /ws HTTP/1.1", address=address), 401)
        port, lines = told_at_start(house, *lan)
        t.eq("lan-who-starts-it-is-told-both", lines, ["Pair a device: http://127.0.0.1:%d/pair" % port, "From elsewhere: http://%s:%d" % (address, port)])
    finally:
        house.down()
    certified(t, address)


def certified(t, address):
    if not shutil.which("openssl"):
        return t.skip("certificate", "openssl is missing")
    house = Cdev(t, "--host", "0.0.0.0", start=False)
    try:
        pem, key = house.dir + "/c.pem", house.dir + "/k.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", pem, "-days", "9",
                        "-subj", "/CN=box", "-addext", "subjectAltName=DNS:localhost,DNS:box.example,IP:127.0.0.1"], check=True, stderr=subprocess.DEVNULL)
        house.more.update(CDEV_SECURITY_TLS_CERT=pem, CDEV_SECURITY_TLS_KEY=key)
        port = Port(free_port())
        port.tls = ssl.create_default_context(cafile=pem)
        house.start(port)
        there = "https://box.example:%d" % house.port.port
        info = house.port("GET", "/api/pair/info").json
        t.eq("certificate-phones-are-told-its-name", (info["http"], info["ws"]), (there, there.replace("http", "ws") + "/ws"))
        t.eq("certificate-the-square-says-the-same", json.loads(squares.read(house.port("GET", "/api/pair/qr").body))["http"], there)
        tls = ssl.create_default_context(cafile=pem)
        tls.name = "box.example"
        t.eq("certificate-which-lets-them-in", status(house.port.port, "Host: box.example:%d" % house.port.port, first="GET /health HTTP/1.1", address=address, tls=tls), 200)
    finally:
        house.down()


@area("cdev-limits-and-forms")
def limits(t):
    house = Cdev(t, env={"CDEV_SECURITY_RATE_LIMIT_ENABLED": "true"})
    try:
        port = house.port
        token, second = (port.paired()["access_token"] for _ in range(2))
        s = Socket(port.port, token)
        answers = [s.call("status/get") for _ in range(101)]
        t.eq("a-hundred-a-minute", ["error" in a for a in answers], [False] * 100 + [True])
        data = answers[-1]["error"]["data"]
        t.ok("the-answer-says-how-long-to-wait", data["code"] == "RATE_LIMITED" and 0 < data["retry_after_ms"] <= 60000, data)
        tries = [port.exchange("nonsense") for _ in range(70)]
        t.ok("tries-at-tokens-are-counted-by-address", tries[0].status == 401 and tries[-1].status == 429 and int(tries[-1].headers["retry-after"]) > 0, tries[-1])
        other = Socket(port.port, token)
        t.ok("another-connection-has-its-own", "result" in other.call("status/get"))
        more = [Socket(port.port, token) for _ in range(4)]
        answers = [s.call("status/get") for s in more for _ in range(80)]
        t.ok("a-device-has-four-times-that-over-all-its-connections", all("result" in a for a in answers[:290]) and answers[-1]["error"]["data"]["code"] == "RATE_LIMITED", answers[-1])
        token = second
        other = Socket(port.port, token)
        t.ok("another-device-has-its-own", "result" in other.call("status/get"))
        doc = port("GET", "/api/rpc/discover", token=token, Accept_Encoding="gzip")
        t.ok("long-answers-are-packed-for-who-can-read-it", doc.headers.get("content-encoding") == "gzip" and json.loads(gzip.decompress(doc.body))["methods"])
        t.ok("and-not-for-who-cannot", "content-encoding" not in port("GET", "/api/rpc/discover", token=token).headers)
        for version, status in (("1.0.0", 200), ("1.9", 200), ("2.0.0", 400), ("99.0.0", 400), ("x", 400)):
            t.eq("version-%s" % version, port("GET", "/api/status", token=token, X_Cdev_Protocol_Version=version).status, status)
        t.eq("initialize-too", other.call("initialize", {"protocolVersion": "9.0"})["error"]["data"]["code"], "INCOMPATIBLE_VERSION")
        t.eq("a-wrong-verb", (port("DELETE", "/api/status", token=token).status, port("DELETE", "/api/status", token=token).headers["allow"]), (405, "GET"))
    finally:
        house.down()


@area("cdev-of-ostler-up")
def of_up(t):
    house = House(t).up()
    try:
        address = next(d["address"] for d in house.record()["doors"] if d["name"] == "cdev")
        port = Port(int(address.rsplit(":", 1)[1]))
        asked = port.exchange()
        t.eq("a-person-is-asked", asked.status, 202)
        id = asked.json["request_id"]
        t.eq("no-program-decides", [port("GET", "/api/auth/pairing/pending").status, port("POST", "/api/auth/pairing/approve", {"request_id": id}).status], [403, 403])
        joined = Cdev.joining(house)
        try:
            device = joined.port.paired()
            t.eq("a-cdev-that-joins-keeps-its-own-settings", joined.port("GET", "/api/status", token=device["access_token"]).status, 200)
            t.eq("its-device-is-one-of-everybodys", port("GET", "/api/status", token=device["access_token"]).status, 200)
            t.eq("and-there-is-one-instance", len(house.json("status")), 1)
        finally:
            joined.stop()
        t.ok("its-door-closes-with-it", wait_for(lambda: sum(d["name"].startswith("cdev") for d in house.record()["doors"]) == 1, LONG), house.record()["doors"])
    finally:
        house.down()


def words_of(term):
    """What a terminal shows, without its colours."""
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", term.seen.decode(errors="replace"))


@area("cdev-a-browser-that-accepts")
def browser(t):
    house = House(t).up()
    try:
        address = next(d["address"] for d in house.record()["doors"] if d["name"] == "cdev")
        port = Port(int(address.rsplit(":", 1)[1]))
        term = Terminal(house, "as", "cdev", "pair")
        term.until(b"q to stop", LONG)
        shown = words_of(term)
        link = re.search(r"http://127\.0\.0\.1:%d/pair#([A-Za-z0-9_-]{43})" % port.port, shown)
        code = re.search(r"the code (\d{3}) (\d{3})", shown)
        t.ok("a-terminal-shows-a-link-and-a-code", link and code, shown[-400:])
        key = Key(house)
        own = port("POST", "/api/auth/exchange", {"pairing_token": link.group(1), "key": key.public(), "device_name": "browser"})
        t.ok("a-browser-that-opens-the-link-keeps-its-key-and-gets-no-token", own.status == 200 and set(own.json) == {"device_id", "name"}, own)
        t.eq("the-link-works-once", port.exchange(link.group(1)).status, 401)

        def proof(signs=key, host=None):
            told = port("POST", "/api/auth/pairing/challenge", {}).json
            text = "ostler connect\n%s\n%s\n%s" % (told["challenge"], own.json["device_id"], host or told["host"])
            return {"X_Cdev_Device": own.json["device_id"], "X_Cdev_Challenge": told["challenge"], "X_Cdev_Signature": signs.sign(text)}

        asked = port.exchange(User_Agent="Phone/1.0", token=port("GET", "/api/pair/info").json["token"])
        id = asked.json["request_id"]
        once = proof()
        waiting = port("GET", "/api/auth/pairing/pending", **once)
        t.eq("it-sees-who-waits", [(w["request_id"], w["user_agent"]) for w in waiting.json["pending"]], [(id, "Phone")])
        t.eq("a-signature-works-once", port("GET", "/api/auth/pairing/pending", **once).status, 401)
        t.eq("so-does-no-other-key", port("POST", "/api/auth/pairing/approve", {"request_id": id}, **proof(Key(house))).status, 401)
        t.eq("nor-one-for-another-host", port("POST", "/api/auth/pairing/approve", {"request_id": id}, **proof(host="evil.example")).status, 401)
        t.eq("it-accepts", port("POST", "/api/auth/pairing/approve", {"request_id": id}, **proof()).status, 200)
        refused = port.exchange()
        t.eq("and-refuses", port("POST", "/api/auth/pairing/reject", {"request_id": refused.json["request_id"]}, **proof()).status, 200)
        ticket = port("POST", "/api/pair/code", {"code": code.group(1) + code.group(2)}).json["pairing_token"]
        t.eq("who-types-the-code-waits-for-the-terminal", port.exchange(ticket, User_Agent="Pad/1").status, 202)
        term.press(b"y")
        t.eq("and-is-let-in-there", (term.wait() if wait_for(lambda: port.exchange(ticket, User_Agent="Pad/1").status == 200, LONG, 0.2) else None), 0)
    finally:
        house.down()


@area("cdev-uploads")
def uploads(t):
    house = Cdev(t)
    try:
        port = house.port
        token = port.paired()["access_token"]
        content = os.urandom(300_000)
        digest, pieces = hashlib.sha256(content).hexdigest(), [content[at:at + 100_000] for at in range(0, len(content), 100_000)]
        s = Socket(port.port, token)
        text = lambda data: base64.b64encode(data).decode()
        told = lambda answer: answer.get("result") or answer["error"]["data"]
        id = told(s.call("upload/start", {"path": "up.bin", "size": len(content), "sha256": digest}))["upload_id"]
        t.eq("a-piece-is-taken", told(s.call("upload/chunk", {"upload_id": id, "offset": 0, "data": text(pieces[0])}))["offset"], 100_000)
        t.eq("and-taken-again-changes-nothing", told(s.call("upload/chunk", {"upload_id": id, "offset": 0, "data": text(pieces[0])}))["offset"], 100_000)
        gap = s.call("upload/chunk", {"upload_id": id, "offset": 200_000, "data": text(pieces[2])})
        t.eq("a-gap-is-not-and-the-place-is-told", (gap["error"]["data"]["code"], gap["error"]["data"]["offset"]), ("CONFLICT", 100_000))
        t.eq("what-is-not-whole-is-not-written", (told(s.call("upload/finish", {"upload_id": id}))["offset"], os.path.exists(house.repo + "/up.bin")), (100_000, False))
        s.close()
        s = Socket(port.port, token)
        t.eq("another-connection-goes-on", told(s.call("upload/status", {"upload_id": id}))["offset"], 100_000)
        other = Socket(port.port, port.paired()["access_token"])
        t.eq("another-device-does-not", told(other.call("upload/status", {"upload_id": id}))["code"], "NOT_FOUND")
        for at in (1, 2):
            s.call("upload/chunk", {"upload_id": id, "offset": at * 100_000, "data": text(pieces[at])})
        t.eq("more-than-announced-is-refused", told(s.call("upload/chunk", {"upload_id": id, "offset": 300_000, "data": text(b"x")}))["code"], "INVALID_PAYLOAD")
        t.eq("the-whole-is-written", (told(s.call("upload/finish", {"upload_id": id}))["sha256"], open(house.repo + "/up.bin", "rb").read() == content), (digest, True))
        wrong = told(s.call("upload/start", {"path": "wrong.bin", "size": 1, "sha256": digest}))["upload_id"]
        s.call("upload/chunk", {"upload_id": wrong, "offset": 0, "data": text(b"x")})
        t.eq("another-hash-is-not-written", (told(s.call("upload/finish", {"upload_id": wrong}))["code"], os.path.exists(house.repo + "/wrong.bin")), ("CONFLICT", False))
        for path in ("../out.bin", "/tmp/out.bin", ".git/config", "up.bin"):
            id = told(s.call("upload/start", {"path": path, "size": 1, "sha256": hashlib.sha256(b"x").hexdigest()}))["upload_id"]
            s.call("upload/chunk", {"upload_id": id, "offset": 0, "data": text(b"x")})
            t.ok("refused-%s" % path, "error" in s.call("upload/finish", {"upload_id": id}))
        t.ok("and-nothing-is-there", not os.path.exists(house.dir + "/out.bin") and open(house.repo + "/up.bin", "rb").read() == content)
        picture = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
        for _ in range(2):
            image = told(s.call("image/add", {"data": text(picture)}))
            t.eq("a-picture-is-where-a-prompt-can-name-it", (image["mime_type"], open(house.repo + "/" + image["local_path"], "rb").read() == picture), ("image/png", True))
        posted = lambda content, name="file", more="": port("POST", "/api/images" + more, b"--x\r\nContent-Disposition: form-data; name=\"" + name.encode() + b"\"; filename=\"../../out.png\"\r\n\r\n" + content + b"\r\n--x--\r\n",
                                                            token=token, Content_Type="multipart/form-data; boundary=x")
        form = posted(picture)
        t.eq("a-form-is-the-same-picture", (form.status, form.json["local_path"], form.json["size"]), (200, image["local_path"], len(picture)))
        t.eq("and-its-name-leads-nowhere", os.path.exists(house.dir + "/out.png"), False)
        t.eq("a-form-without-it-or-of-another-kind", [posted(picture, "other").status, posted(b"<svg>").status, port("POST", "/api/images", {"file": "x"}, token=token).status, posted(picture, more="?workspace_id=none").status, port("POST", "/api/images", b"x").status, port("GET", "/api/images", token=token).status], [400, 415, 415, 404, 401, 405])
        length = port("POST", "/api/images", token=token, Content_Type="multipart/form-data; boundary=x", Content_Length=str(9 << 20))
        t.eq("one-that-is-too-long-is-not-read", length.status, 413)
        t.eq("what-is-no-picture-is-not", told(s.call("image/add", {"data": text(b"<svg onload=alert(1)>")}))["code"], "UNSUPPORTED_MEDIA_TYPE")
    finally:
        house.down()
