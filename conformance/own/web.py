"""The port for devices: which requests get as far as to show who they are from, the three ways from elsewhere, clients that break the
protocol, and a long session read from its end."""
import json
import os
import shutil
import socket
import ssl
import struct
import subprocess

from approvals_kit import LONG, Terminal, confirms
from codecast import as_nobody
from devices_kit import Device, Guests, paired, port_of, refused
from kit import Fail
from lib import area, wait_for

UPGRADE = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]


def ask(port, *lines, first="GET /rpc HTTP/1.1", address="127.0.0.1", tls=None, keep=False):
    """The status and headers of one request, and the connection if it is to be kept."""
    s = socket.create_connection((address, port), LONG)
    s = tls.wrap_socket(s, server_hostname=tls.name) if tls else s
    try:
        s.sendall("\r\n".join([first, *lines, "", ""]).encode())
        f = s.makefile("rb")
        head = f.readline().split()
        headers = {}
        while line := f.readline().strip():
            headers[line.split(b":")[0].decode().lower()] = line.split(b":", 1)[1].strip().decode()
        status = int(head[1]) if head else 0
        if keep:
            return status, s, f
        return status, headers
    finally:
        if not keep:
            s.close()


def status(port, *lines, **how):
    try:
        return ask(port, *UPGRADE, *lines, **how)[0]
    except (OSError, IndexError, ValueError) as e:
        # What is no answer in HTTP is none.
        return type(e).__name__


def settings(house, text):
    os.makedirs(house.dir + "/.config/ostler", exist_ok=True)
    with open(house.dir + "/.config/ostler/config.toml", "w") as f:
        f.write(text)


def confirmed(house, *names):
    """A person confirms settings, and they count."""
    for name in names:
        code, seen = confirms(house, name)
        if code != 0:
            raise Fail("not confirmed: %r" % seen[-300:])
    house.good("restart")
    wait_for(lambda: port_of(house), LONG, 0.1)


@area("web-guards")
def guards(t):
    house = Guests(t).up()
    try:
        port = port_of(house)
        here = "Host: 127.0.0.1:%d" % port
        t.ok("it-is-listed", "ws://127.0.0.1:%d/rpc" % port in house.good("status", "--connect"))
        t.eq("our-own-programs-come-as-far-as-to-show-who-they-are", status(port, here), 101)
        t.eq("so-does-a-page-of-its-own", status(port, here, "Origin: http://127.0.0.1:%d" % port), 101)
        for name, lines in {
            "no-host": [], "two-hosts": [here, here], "another-host": ["Host: evil.example"], "another-port-of-this-machine": [here, "Origin: http://127.0.0.1:%d" % (port + 1)],
            "another-origin": [here, "Origin: https://evil.example"], "a-null-origin": [here, "Origin: null"], "two-origins": [here, "Origin: http://127.0.0.1:%d" % port, "Origin: null"],
            "forwarded": [here, "X-Forwarded-For: 1.2.3.4"], "through-a-proxy": [here, "Via: 1.1 x"], "for-a-name-that-is-bound-to-us": ["Host: rebind.example:%d" % port, "Origin: http://rebind.example:%d" % port],
        }.items():
            got = status(port, *lines)
            t.ok("refused-%s" % name, got in (400, 403), got)
        t.eq("a-wrong-token", status(port, here, "Authorization: Bearer nobody"), 401)
        got, headers = ask(port, here, first="GET / HTTP/1.1")
        t.ok("the-page-is-for-everybody-who-may-come-here", got == 200 and headers.get("content-type", "").startswith("text/html") and "set-cookie" not in headers, (got, headers))
        t.ok("and-is-framed-by-nobody", "frame-ancestors 'none'" in headers.get("content-security-policy", "") and not any(h.startswith("access-control") for h in headers), headers)
        for site, mode, dest, want in (("cross-site", "navigate", "document", 200), ("none", "navigate", "document", 200), ("cross-site", "navigate", "iframe", 403), ("same-site", "cors", "empty", 403)):
            got = ask(port, here, "Sec-Fetch-Site: " + site, "Sec-Fetch-Mode: " + mode, "Sec-Fetch-Dest: " + dest, first="GET / HTTP/1.1")[0]
            t.eq("the-page-%s-%s-%s" % (site, mode, dest), got, want)
        t.eq("no-websocket-for-another-site-whatever-its-origin-says", status(port, here, "Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: websocket"), 403)
        got, headers = ask(port, here, first="GET /nothing HTTP/1.1")
        t.ok("elsewhere-is-nothing", got == 404 and "set-cookie" not in headers, (got, headers))
        t.ok("answers-are-no-pages", headers.get("x-content-type-options") == "nosniff" and "frame-ancestors 'none'" in headers.get("content-security-policy", "")
             and headers.get("cache-control") == "no-store" and not any(h.startswith("access-control") for h in headers), headers)
        t.eq("without-a-websocket-426", ask(port, here)[0], 426)
        t.eq("nor-by-another-verb", ask(port, here, *UPGRADE, first="POST /rpc HTTP/1.1")[0], 426)
        t.ok("an-endless-header-is-refused", status(port, here, "X: " + "x" * 200000) in (431, "ConnectionResetError", "BrokenPipeError"))
        if os.geteuid() != 0:
            return t.skip("another-user", "needs root to become another user")
        said = as_nobody(lambda: status(port, here))
        t.ok("another-user-is-not-heard", said in ("0", "ConnectionResetError"), said)
    finally:
        house.down()


def frame(kind, data, mask=b"\1\2\3\4"):
    n = len(data)
    size = bytes([0x80 | n]) if n < 126 else bytes([0xfe]) + struct.pack(">H", n) if n < 65536 else bytes([0xff]) + struct.pack(">Q", n)
    return bytes([0x80 | kind]) + size + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data))


def closed(port, data):
    """The code with which the other side ends the connection after this."""
    _, s, f = ask(port, *UPGRADE, "Host: localhost", keep=True)
    with s:
        s.settimeout(LONG)
        try:
            s.sendall(data)
        except OSError:
            pass
        while True:
            head = f.read(2)
            if len(head) < 2:
                return "gone"
            n = head[1] & 127
            body = f.read(struct.unpack(">H", f.read(2))[0] if n == 126 else n)
            if head[0] & 15 == 8:
                return struct.unpack(">H", body[:2])[0]


@area("web-hostile")
def hostile(t):
    house = Guests(t).up()
    try:
        port = port_of(house)
        t.eq("not-masked", closed(port, b"\x81\x02{}"), 1002)
        t.eq("a-reserved-bit", closed(port, b"\xc1" + frame(1, b"{}")[1:]), 1002)
        t.eq("binary", closed(port, frame(2, b"{}")), 1003)
        t.eq("no-text", closed(port, frame(1, b"\xff")), 1007)
        t.eq("too-much-from-nobody", closed(port, frame(1, b"x" * 20000)), 1009)
        t.eq("more-than-there-can-be", closed(port, b"\x81\xff" + b"\xff" * 8 + b"\1\2\3\4"), 1009)
        t.eq("a-goodbye-is-answered", closed(port, frame(8, b"\x03\xe8")), 1000)
        flood = b"".join(frame(9, b"x" * 125) for _ in range(2000))
        t.eq("pings-are-answered-and-held-back", closed(port, flood + frame(8, b"\x03\xe8")), 1000)
        device = Device(house)
        t.ok("what-is-no-json-is-answered", "not a request" in (refused_line(device, "nonsense") or ""))
        t.ok("and-nobody-is-told-anything", all("has not shown" in (refused(device, method) or "") for method in ("instance.hello", "instance.status", "feed.read", "rpc.discover")))
        held = [ask(port, *UPGRADE, "Host: localhost", keep=True) for _ in range(200)]
        t.ok("two-hundred-who-say-nothing-hold-nobody-up", "challenge" in Device(house)("device.challenge"))
        for _, s, f in held:
            f.close()
            s.close()
        t.eq("and-the-daemon-goes-on", house("status")[0], 0)
    finally:
        house.down()


def refused_line(device, line):
    device.p.stdin.write(line + "\n")
    device.p.stdin.flush()
    return json.loads(device.p.stdout.readline()).get("error", {}).get("message")


def own_address():
    """An address of this machine that is not the loopback's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("198.51.100.1", 9))
        except OSError:
            return None
        return None if s.getsockname()[0].startswith("127.") else s.getsockname()[0]


@area("web-ways")
def ways(t):
    """How a phone gets here: none by itself, three by a person's choice."""
    house = Guests(t)
    try:
        settings(house, '[web]\nbind = "0.0.0.0"\n')
        rc, o, e = house("up")
        t.ok("open-to-others-without-a-way-it-does-not-start", rc != 0 and all(way in e for way in ("web.url", "web.certificate", "web.insecure_lan")), (rc, o, e))
        settings(house, '[web]\nurl = "https://box.example"\n')
        house.up()
        port, through = port_of(house), ["Host: box.example", "X-Forwarded-For: 203.0.113.5"]
        t.eq("url-counts-once-a-person-confirmed-it", status(port, *through), 403)
        confirmed(house, "web.url")
        port = port_of(house)
        t.ok("and-is-listed", "https://box.example" in house.good("status", "--connect"))
        t.eq("url-a-proxy-is-heard-under-its-name", status(port, *through), 101)
        t.eq("url-its-own-page-too", status(port, *through, "Origin: https://box.example"), 101)
        t.eq("url-no-other-page", status(port, *through, "Origin: https://evil.example"), 403)
        t.eq("url-a-token-is-needed", status(port, *through, "Authorization: Bearer nobody"), 401)
        t.eq("url-no-proxy-under-another-name", status(port, "Host: localhost", "X-Forwarded-For: 203.0.113.5"), 403)
        if os.geteuid() == 0:
            t.eq("url-a-proxy-of-another-user", as_nobody(lambda: status(port, *through)), "101")
            t.eq("url-which-is-not-us", as_nobody(lambda: status(port, "Host: localhost")), "403")
    finally:
        house.down()
    address = own_address()
    if not address:
        return t.skip("lan", "this machine has no address but the loopback")
    lan(t, address)
    certificate(t, address)


def shows(house, *words):
    """What a person sees who offers a place to a device."""
    term = Terminal(house, *words)
    term.until(b"q to stop", LONG)
    term.type(b"q")
    term.wait()
    return term.seen.decode(errors="replace")


def lan(t, address):
    house = Guests(t)
    try:
        settings(house, '[web]\nbind = "0.0.0.0"\ninsecure_lan = true\n')
        house.up()
        t.ok("lan-counts-once-a-person-confirmed-it", status(port_of(house), "Host: x", address=address) == "ConnectionRefusedError")
        confirmed(house, "web.bind", "web.insecure_lan")
        port = port_of(house)
        told = "http://%s:%d" % (address, port)
        t.ok("lan-the-address-is-listed-and-no-other", house.good("status", "--connect").count("from elsewhere http://%s:" % address) == 2 and "://0.0.0.0" not in house.good("status", "--connect"))
        shown = shows(house, "pair")
        t.ok("lan-a-device-is-sent-to-the-address", "at " + told in shown and "phones cannot reach" not in shown, shown)
        t.ok("lan-a-browser-here-to-where-it-keeps-a-key", "http://127.0.0.1:%d/#" % port in shows(house, "web"))
        t.ok("lan-so-is-a-cdev-client", "at http://%s:" % address in shows(house, "as", "cdev", "pair"))
        t.eq("lan-by-its-address", status(port, "Host: %s:%d" % (address, port), address=address), 101)
        t.eq("lan-not-by-a-name", status(port, "Host: evil.example:%d" % port, address=address), 403)
        t.eq("lan-no-other-page", status(port, "Host: %s:%d" % (address, port), "Origin: http://evil.example", address=address), 403)
        t.eq("lan-a-token-is-needed", status(port, "Host: %s:%d" % (address, port), "Authorization: Bearer nobody", address=address), 401)
    finally:
        house.down()


def certificate(t, address):
    if not shutil.which("openssl"):
        return t.skip("certificate", "openssl is missing")
    house = Guests(t)
    try:
        pem, key = house.dir + "/c.pem", house.dir + "/k.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", pem, "-days", "9",
                        "-subj", "/CN=box", "-addext", "subjectAltName=DNS:box.example"], check=True, stderr=subprocess.DEVNULL)
        settings(house, '[web]\nbind = "0.0.0.0"\ncertificate = "%s"\nkey = "%s"\n' % (pem, key))
        house.up()
        confirmed(house, "web.bind")
        port, tls = port_of(house), ssl.create_default_context(cafile=pem)
        tls.name = "box.example"
        told = "https://box.example:%d" % port
        t.ok("certificate-its-name-is-listed", "from elsewhere " + told in house.good("status", "--connect"), house.good("status", "--connect"))
        t.ok("certificate-a-device-is-sent-there", "at " + told in shows(house, "pair"))
        t.ok("certificate-a-browser-too", told + "/#" in shows(house, "web"))
        t.eq("certificate-for-its-name", status(port, "Host: box.example:%d" % port, address=address, tls=tls), 101)
        t.eq("certificate-for-no-other", status(port, "Host: evil.example:%d" % port, address=address, tls=tls), 403)
        t.eq("certificate-nor-for-the-address", status(port, "Host: %s:%d" % (address, port), address=address, tls=tls), 403)
        t.ok("certificate-nothing-in-the-clear", status(port, "Host: box.example:%d" % port, address=address) != 101)
    finally:
        house.down()


@area("web-session")
def session(t):
    """A device reads a session from its end, follows it, and the feed with it."""
    house = Guests(t).up()
    try:
        told = paired(house, "phone")
        phone = Device(house, told["tokens"]["access"])
        id = house.json("new", "echo", house.dir)["id"]
        for n in range(3):
            house.good("send", id, "words %d" % n)
        whole = phone("session.read", id=id, limit=1000)
        t.ok("all-of-it-in-order", not whole["more"] and [r["record"] for r in whole["records"]] == list(range(1, whole["last"] + 1)), whole)
        pages, before = [], None
        while True:
            page = phone("session.read", id=id, limit=4, **({"before": before} if before else {}))
            t.ok("a-page-is-no-longer-than-asked-for", 0 < len(page["records"]) <= 4) if len(pages) < 2 else None
            pages = page["records"] + pages
            if not page["more"]:
                break
            before = page["records"][0]["record"]
        t.eq("backwards-page-by-page-it-is-the-same", pages, whole["records"])
        t.eq("before-the-first-is-nothing", phone("session.read", id=id, before=1)["records"], [])
        text = json.dumps(whole["records"])
        t.ok("and-holds-what-was-said", all("words %d" % n in text for n in range(3)))
        sent = phone("session.prompt", id=id, text="from the phone")
        t.ok("it-prompts", sent["session"] == id, sent)
        changes = phone("feed.read")["changes"] if house.good("wait", id) is not None else []
        t.ok("the-feed-tells-it", any(c.get("session") == id for c in changes), changes[-3:])
        page = phone("session.read", id=id)
        t.eq("a-watch-goes-on-after-it", phone("session.watch", id=id, **{"from": page["last"] + 1})["from"], page["last"] + 1)
    finally:
        house.down()
