"""Being told: a notice when something has needed somebody for a while and nobody looks, by every way, once, across kills; and nothing
before a destination was named."""
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time

from approvals_kit import LONG, Terminal
from devices_kit import Device, Guests, paired, port_of, refused
from kit import Fail
from lib import area, wait_for
from notices_kit import Server, vapid
from web import ask, confirmed, settings

# Seconds that something has to stand: more than a loaded machine takes to answer.
AFTER = 3
# Set where one of them runs by itself: they wait for most of their time, so they wait beside each other.
INSIDE = "TEST_INSIDE_NOTICES"
PARTS = []


def part(name):
    def register(function):
        PARTS.append(name)
        return area(name)(function) if INSIDE in os.environ else function
    return register


def run_parts(t):
    """Runs every part in a process of its own; what each reports is counted here."""
    command = [sys.executable, "-u", os.path.abspath(sys.argv[0]), "--suite", "notices", "--bin", t.argv[0], "--filter"]
    running = {name: subprocess.Popen(command + [name], env=dict(os.environ, **{INSIDE: "1"}), stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for name in PARTS}
    for name, p in running.items():
        said = p.communicate(timeout=300)[0].decode(errors="replace")
        t.area = name
        for line in said.splitlines():
            if line.startswith("ok %s/" % name):
                t.rec(line[len("ok %s/" % name):], True)
            elif line.startswith("FAIL %s/" % name):
                case, _, detail = line[len("FAIL %s/" % name):].partition(": ")
                t.rec(case, False, detail)
        if p.returncode not in (0, 1) or " passed, " not in said:
            t.rec("ran", False, said[-300:])


if INSIDE not in os.environ:
    area("notices")(run_parts)


def config(house, *lines):
    settings(house, "[notify]\nafter = \"%ds\"\ndesktop = false\n%s\n" % (AFTER, "\n".join(lines)))


def asking(house, *more):
    """A session whose agent waits for a permission."""
    id = house.json("new", "echo", *more)["id"]
    house.good("send", "--no-wait", id, "ASK for something secret")
    return id


def quiet_for(seconds, count, expected):
    """Whether it stays at this number."""
    time.sleep(seconds)
    return count() == expected


@part("notices-webhook")
def webhook(t):
    server, house = Server(), Guests(t)
    try:
        config(house, "webhook = \"%s\"" % server.url("topic"))
        house.up()
        first = asking(house, "--name", "before")
        said = house("status")[1] + house("status")[2]
        t.ok("a-destination-in-the-file-does-not-count", "notify.webhook" in said and "confirm" in said, said)
        said = "".join(house("notify")[1:]) + "".join(house("restart")[1:])
        t.eq("notify-and-restart-say-what-to-do", said.count("ostler config confirm notify.webhook"), 2)
        t.ok("nor-is-it-told", quiet_for(AFTER + 2, lambda: len(server.requests), 0), server.texts())
        rc, out, err = house("run", "--", getattr(house, "real", house.program), "config", "confirm", "notify.webhook")
        t.ok("an-agent-cannot-confirm-it", rc != 0 and not server.requests, (rc, out, err))
        confirmed(house, "notify.webhook")
        house.good("interrupt", first)
        t.ok("notify-shows-it", server.url("topic") in house.good("notify"), house("notify"))
        rc, out, err = house("notify", "test")
        t.ok("a-test-arrives", rc == 0 and "201 Created" in out and wait_for(lambda: server.texts("topic"), LONG), (out, err))
        del server.requests[:]
        begun = time.monotonic()
        id = asking(house, "--name", "fix-login")
        t.ok("it-is-told", wait_for(lambda: server.got("topic"), LONG, 0.05), house("notify"))
        got = server.got("topic")[0]
        t.ok("not-before-it-stood-for-a-while", got["at"] - begun >= AFTER, got["at"] - begun)
        t.eq("in-words-of-its-own", got["body"], "fix-login needs you: permission")
        t.ok("as-ntfy-takes-it", got["headers"].get("title") == "ostler" and got["headers"].get("priority") == "high"
             and got["headers"].get("click", "").endswith("/#/session/" + id), got["headers"])
        t.ok("without-what-was-asked", "secret" not in json.dumps(got), got)
        # Three more: two stand while the gap of the next runs, and are one.
        asking(house, "--name", "one")
        time.sleep(1)
        two = [asking(house, "--name", name) for name in ("two", "three")]
        answered = asking(house, "--name", "answered")
        house.good("interrupt", answered)
        t.ok("several-are-one-with-a-count", wait_for(lambda: any("2 need you" in text for text in server.texts("topic")), LONG, 0.05), server.texts())
        several = next((text for text in server.texts("topic") if "2 need you" in text), "")
        t.ok("they-are-named", "two" in several and "three" in several, several)
        count = len(server.got("topic"))
        t.ok("answered-meanwhile-is-told-to-nobody", quiet_for(AFTER + 1, lambda: len(server.got("topic")), count) and not any("answered" in x for x in server.texts()), server.texts())
        # Killed while something stands, and after it was told.
        last = asking(house, "--name", "across-a-kill")
        time.sleep(1)
        pid = house.record()["pid"]
        os.kill(pid, signal.SIGKILL)
        t.ok("it-is-told-across-a-kill", wait_for(lambda: any("across-a-kill" in text for text in server.texts()), LONG, 0.05), server.texts())
        os.kill(house.record()["pid"], signal.SIGKILL)
        wait_for(lambda: house("status")[0] == 0 and house.record()["pid"] != pid, LONG, 0.2)
        time.sleep(AFTER + 2)
        once = [text for text in server.texts() if "across-a-kill" in text]
        t.eq("and-once", once, ["across-a-kill needs you: permission"])
        t.eq("none-of-them-twice", len(server.texts("topic")), len(set(server.texts("topic"))))
        told = house.json("notify")["notices"]
        t.ok("all-are-listed-with-what-came-of-them", told and all(way.get("done") == "201 Created" for n in told[:1] for way in n["ways"] if way["way"] == "webhook"), told)
        for id in [id, last] + two:
            house("interrupt", id)
        house.good("send", last, "hello")
        t.ok("what-ended-is-told", wait_for(lambda: any(text == "across-a-kill is done" for text in server.texts()), LONG, 0.05), server.texts())
    finally:
        house.down()
        server.close()


@part("notices-ways")
def ways(t):
    server, house = Server(), Guests(t)
    try:
        script, out = house.dir + "/tell", house.dir + "/told"
        with open(script, "w") as f:
            f.write("#!/bin/sh\n{ echo \"$OSTLER_NOTICE_KIND|$OSTLER_NOTICE_TEXT|$OSTLER_NOTICE_LINK|$*\"; cat; } >> %s\n" % out)
        os.chmod(script, 0o755)
        token = house.dir + "/token"
        with open(token, "w") as f:
            f.write("tk_1234\n")
        config(house, "command = \"%s a;b $(touch %s/shell)\"" % (script, house.dir), "webhook = \"%s\"" % server.url("slow"), "webhook_token = \"%s\"" % token, "content = true")
        house.up()
        confirmed(house, "notify.command", "notify.webhook", "notify.webhook_token", "notify.content")
        begun = time.monotonic()
        asking(house, "--name", "shown")
        t.ok("a-command-is-run", wait_for(lambda: os.path.exists(out) and "\n{" in open(out).read(), LONG, 0.05), house("notify"))
        t.ok("a-slow-way-stops-no-other", time.monotonic() - begun < 20 and wait_for(lambda: server.got("slow"), LONG), time.monotonic() - begun)
        line, body = open(out).read().splitlines()[:2]
        t.ok("with-variables-and-arguments-and-no-shell", line.startswith("needs|shown needs you: permission: ") and line.endswith("|a;b $(touch %s/shell)" % house.dir)
             and not os.path.exists(house.dir + "/shell"), line)
        t.ok("and-json-on-stdin", json.loads(body)["kind"] == "needs" and json.loads(body)["text"] == line.split("|")[1], body)
        title = house.json("approvals", "--list")[0]["title"]
        t.eq("a-setting-lets-the-content-in", line.split("|")[1], "shown needs you: permission: " + title)
        t.eq("the-token-is-shown-to-the-server", server.got("slow")[0]["headers"].get("authorization"), "Bearer tk_1234")
        t.ok("and-to-nobody-else", "tk_1234" not in house.good("notify") + house("doctor")[1])
        t.ok("a-slow-server-is-given-up", wait_for(lambda: "no answer within 10 s" in house.good("notify"), LONG, 0.5), house("notify"))
        asking(house, "--name", "half-way")
        wait_for(lambda: len(server.got("slow")) == 2, LONG, 0.05)
        os.kill(house.record()["pid"], signal.SIGKILL)
        wait_for(lambda: house("notify")[0] == 0, LONG, 0.2)
        t.ok("what-was-under-way-at-a-kill-is-not-sent-again", quiet_for(AFTER + 2, lambda: len(server.got("slow")), 2), server.texts())
        last = house.json("notify")["notices"][-1]
        t.ok("and-is-listed-as-unknown", "half-way" in last["text"] and "webhook" not in [way["way"] for way in last["ways"]], last)
        # Redirects lead nowhere.
        config(house, "webhook = \"%s\"" % server.url("redirect"))
        house.good("restart")
        confirmed(house, "notify.webhook")
        rc, said, err = house("notify", "test")
        t.ok("a-redirect-is-not-followed", rc == 1 and "redirects are not followed" in said and not server.got("led-on"), (said, err))
        doctor = house("doctor")[1]
        t.ok("doctor-says-what-there-is", "notify webhook" in doctor and "notify push" in doctor, doctor)
    finally:
        house.down()
        server.close()


@part("notices-desktop")
def desktop(t):
    """Where there is a desktop its own program is run: with words of ours, and nothing in them that it would read as markup."""
    house = Guests(t)
    try:
        folder, out = house.dir + "/bin", house.dir + "/told"
        os.mkdir(folder)
        with open(folder + "/notify-send", "w") as f:
            f.write("#!/bin/sh\nprintf '%%s\\n' \"$@\" >> %s\n" % out)
        os.chmod(folder + "/notify-send", 0o755)
        house.env.update(PATH=folder + ":" + house.env.get("PATH", os.environ["PATH"]), DISPLAY=":99", DBUS_SESSION_BUS_ADDRESS="unix:path=%s/bus" % house.dir)
        settings(house, "[notify]\nafter = \"%ds\"\ncontent = true\n" % AFTER)
        house.up()
        confirmed(house, "notify.content")
        id = house.json("new", "echo", "--name", "desk")["id"]
        house.good("send", "--no-wait", id, "ASK:<b>loud</b>&more")
        t.ok("notify-send-is-run", wait_for(lambda: os.path.exists(out) and open(out).read().count("\n") >= 5, LONG, 0.05), house("notify"))
        said = open(out).read().splitlines()
        t.eq("as-ours-with-its-words-behind-the-options", said[:4], ["--app-name=ostler", "--urgency=normal", "--", "ostler"])
        t.ok("and-what-was-asked-is-no-markup", said[4].startswith("desk needs you: permission: ") and "&lt;b&gt;loud&lt;/b&gt;&amp;more" in said[4] and "<" not in said[4], said[4:])
        t.ok("it-says-that-it-was", "desktop" in [way["way"] for way in house.json("notify")["notices"][-1]["ways"] if way.get("done")], house.json("notify")["notices"])
        with open(folder + "/notify-send", "w") as f:
            f.write("#!/bin/sh\necho no bus >&2; exit 1\n")
        rc, said, _ = house("notify", "test")
        t.ok("one-that-fails-is-said-to", rc == 1 and "desktop" in said and "no bus" in said, said)
    finally:
        house.down()


@part("notices-push")
def push(t):
    server, house = Server(), Guests(t)
    try:
        config(house)
        house.up()
        mine = paired(house, "phone")
        phone = Device(house, mine["tokens"]["access"]) if "tokens" in mine else None
        if phone is None:
            raise Fail("no tokens: %s" % mine)
        for name, endpoint in {
            "http": "http://push.example/x", "loopback": "https://127.0.0.1/x", "loopback-6": "https://[::1]/x", "private": "https://10.0.0.1/x", "metadata": "https://169.254.169.254/latest/meta-data",
            "mapped": "https://[::ffff:192.168.0.1]/", "another-port": "https://push.example:22/", "a-user": "https://a@push.example/", "a-file": "file:///etc/passwd", "nothing": "", "too-long": "https://push.example/" + "x" * 3000,
        }.items():
            said = refused(phone, "notice.subscribe", endpoint=endpoint)
            t.ok("refused-%s" % name, bool(said), said)
        phone("notice.subscribe", endpoint="https://localhost/x")
        rc, said, _ = house("notify", "test")
        t.ok("a-name-that-means-a-private-address-is-not-connected-to", rc == 1 and "not a public address" in said, said)
        config(house, "push_private = true")
        house.good("restart")
        confirmed(house, "notify.push_private")
        phone = Device(house, mine["tokens"]["access"])
        key = phone("notice.key")["key"]
        t.eq("the-key-stays", phone("notice.key")["key"], key)
        mode = stat.S_IMODE(os.stat(house.state + "/instances/main/push.key").st_mode)
        t.eq("and-is-its-users-alone", mode, 0o600)
        phone("notice.subscribe", endpoint=server.url("push/abc"))
        t.ok("it-knows", phone("notice.list")["subscribed"])
        id = asking(house, "--name", "pushed")
        t.ok("it-is-pushed", wait_for(lambda: server.got("push/abc"), LONG, 0.05), house("notify"))
        got = server.got("push/abc")[0]
        claims = vapid(got["headers"].get("authorization", ""), key)
        t.ok("signed-by-the-key", isinstance(claims, dict) and claims["aud"] == "http://127.0.0.1:%d" % server.port and claims["sub"].startswith("mailto:")
             and time.time() < claims["exp"] <= time.time() + 24 * 3600, claims)
        t.ok("with-nothing-in-it", got["body"] == "" and got["headers"].get("urgency") == "high" and int(got["headers"].get("ttl", 0)) > 0 and "pushed" not in json.dumps(got), got)
        told = phone("notice.list")["notices"]
        t.ok("the-page-fetches-what-it-may-see", told[-1]["text"] == "pushed needs you: permission" and told[-1]["session"] == id and told[-1]["link"].endswith(id), told)
        # Whoever has it in view is not told.
        phone("notice.looking", sessions=[asking(house, "--name", "seen")])
        t.ok("what-is-in-view-is-not-pushed", quiet_for(AFTER + 2, lambda: len(server.got("push")), 1), server.requests)
        phone("notice.looking")
        t.ok("what-is-left-open-is", wait_for(lambda: len(server.got("push")) == 2, LONG, 0.05), server.requests)
        phone("notice.subscribe", endpoint=server.url("gone/abc"))
        house("notify", "test")
        t.ok("a-subscription-that-is-gone-is-forgotten", server.got("gone/abc") and not phone("notice.list")["subscribed"], server.requests)
        phone("notice.subscribe", endpoint=server.url("push/abc"))
        t.ok("where-a-device-is-pushed-to-is-on-record", any(r["record"].get("endpoint") == server.url("push/abc") for r in house.audit("device_subscribed")), house.audit())
        count = len(server.got("push"))
        term = Terminal(house, "devices", "revoke", "phone")
        term.wait()
        house("notify", "test")
        t.eq("a-revoked-device-is-not-pushed-to", len(server.got("push")), count)
        out = refused_hosted(house, "notice.test")
        t.ok("an-agent-tries-nothing-and-sees-nothing", "only reach their own" in out, out)
    finally:
        house.down()
        server.close()


@part("notices-answer")
def answer(t):
    """Answered from the notice: only where it says all of it and somebody wants that; by a link that works once, and never for root."""
    server, house = Server(), Guests(t)
    try:
        web = "[web]\nurl = \"https://ostler.example\"\n"
        settings(house, web + "[notify]\nafter = \"%ds\"\ndesktop = false\nwebhook = \"%s\"\ncontent = true\n" % (AFTER, server.url("topic")))
        house.up()
        confirmed(house, "web.url", "notify.webhook", "notify.content")
        first = asking(house, "--name", "plain")
        t.ok("it-is-told", wait_for(lambda: server.got("topic"), LONG, 0.05), house("notify"))
        t.ok("off-unless-somebody-wants-it", "actions" not in server.got("topic")[0]["headers"], server.got("topic"))
        house.good("interrupt", first)
        with open(house.dir + "/.config/ostler/config.toml", "a") as f:
            f.write("answer = true\n")
        house.good("restart")
        rc, out, err = house("run", "--", getattr(house, "real", house.program), "config", "confirm", "notify.answer")
        t.ok("an-agent-cannot-confirm-it", rc != 0, (rc, out, err))
        confirmed(house, "notify.answer")
        links = {}
        for name, word in (("yes", "ASK:paint_it"), ("no", "ASK:burn_it"), ("gone", "ASK:sell_it")):
            del server.requests[:]
            id = house.json("new", "echo", "--name", name)["id"]
            house.good("send", "--no-wait", id, word)
            wait_for(lambda: server.got("topic"), LONG, 0.05)
            got = server.got("topic")[0]
            links[name] = dict(zip(("allow", "deny"), [part.split(", ")[2] for part in got["headers"].get("actions", "").split("; ") if part.startswith("http, ")]))
            if name == "yes":
                t.ok("the-whole-of-it-is-in-the-notice", "paint it" in got["body"] and house.dir in got["body"], got)
                t.ok("with-two-answers-and-a-way-to-look", len(links[name]) == 2 and "; view, Open, https://ostler.example/#/session/" in got["headers"]["actions"], got["headers"])
        port = port_of(house)

        def press(link, *lines, verb="POST"):
            path = link[len("https://ostler.example"):]
            return ask(port, "Host: ostler.example", "X-Forwarded-For: 192.0.2.7", "Content-Length: 0", *lines, first="%s %s HTTP/1.1" % (verb, path))[0]

        status_of = lambda name: next(a["state"] for a in house.json("approvals", "--list", "--all") if a["asker"].get("session_name") == name)
        t.ok("whoever-only-looks-at-a-link-answers-nothing", press(links["yes"]["allow"], verb="GET") in (404, 405) and press(links["yes"]["allow"], verb="HEAD") in (404, 405) and status_of("yes") == "pending")
        t.eq("nor-does-a-page-of-another-site", press(links["yes"]["allow"], "Origin: https://evil.example"), 403)
        code = "import http.client,sys; c=http.client.HTTPConnection('127.0.0.1', %d); c.request('POST', sys.argv[1], headers={'Host': 'ostler.example'}); print(c.getresponse().status)" % port
        said = house("run", "--", "python3", "-c", code, links["no"]["allow"][len("https://ostler.example"):])[1]
        t.ok("nor-anybody-who-is-hosted", said.strip() == "403" and status_of("no") == "pending", (said, status_of("no")))
        t.ok("a-link-allows-once", press(links["yes"]["allow"]) == 200 and wait_for(lambda: status_of("yes") == "applied", LONG, 0.1), status_of("yes"))
        t.eq("and-no-more", [press(links["yes"]["allow"]), press(links["yes"]["deny"])], [403, 403])
        t.eq("a-link-denies", [press(links["no"]["deny"]), status_of("no")], [200, "denied"])
        by = [row["record"]["by"] for row in house.audit("decided")]
        t.ok("on-record-as-what-it-was", all("notice" in str(one).lower() and "webhook" in str(one) for one in by) and len(by) == 2, by)
        os.kill(house.record()["pid"], signal.SIGKILL)
        wait_for(lambda: house("status")[0] == 0 and port_of(house), LONG, 0.2)
        port = port_of(house)
        t.ok("none-outlives-the-daemon", press(links["gone"]["allow"]) == 403 and status_of("gone") == "pending", status_of("gone"))
        del server.requests[:]
        asker = socket.socket(socket.AF_UNIX)
        asker.connect(next(d["address"] for d in house.record()["doors"] if d["name"] == "sudo-proxy"))
        asker.sendall(json.dumps({"id": "00000000-0000-4000-8000-000000000001", "host": "h", "session": "root", "reason": "r", "env": {}, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                                  "pipeline": [["id"]], "privileged": True, "forward_agent": False}).encode() + b"\n")
        t.ok("root-is-told-of-and-never-answered-from-there", wait_for(lambda: server.got("topic"), LONG, 0.05) and all("actions" not in r["headers"] for r in server.got("topic")), server.requests)
        asker.close()
    finally:
        house.down()
        server.close()


def refused_hosted(house, method):
    """What a hosted program is told when it calls this."""
    code = "import json,socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(json.dumps({'jsonrpc':'2.0','id':1,'method':sys.argv[2],'params':{}}).encode()+b'\\n'); print(s.makefile().readline())"
    return house("run", "--", "python3", "-c", code, house.record()["native"], method)[1]


@part("notices-terminal")
def terminal(t):
    house = Guests(t)
    try:
        config(house)
        house.up()
        mine = house.json("new", "echo", "--name", "mine")["id"]
        term = Terminal(house, "attach", mine)
        term.until(b"mine", LONG)
        asking(house, "--name", "elsewhere")
        term.until(b"\x1b]9;ostler: elsewhere needs you: permission\x1b\\", LONG)
        t.ok("the-terminal-rings", b"\x07\x1b]9;" in term.seen, term.seen[-200:])
        before = len(house.json("notify")["notices"])
        house.good("send", "--no-wait", mine, "ASK")
        t.ok("what-is-attached-is-not-told", quiet_for(AFTER + 2, lambda: len(house.json("notify")["notices"]), before), house("notify"))
        os.close(term.fd)
        # A terminal program that says what it needs, in the words of its own protocol.
        house.good("run", "-d", "-t", "--name", "asks", "--", "sh", "-c", "printf '\\033]7501;state=blocked:kind=question\\007'; sleep 60")
        t.ok("a-terminal-program-is-told", wait_for(lambda: any("asks" in n["text"] for n in house.json("notify")["notices"]), LONG, 0.1), house("notify"))
        house.good("run", "-d", "-t", "--name", "broke", "--", "sh", "-c", "exit 3")
        t.ok("and-how-it-ended", wait_for(lambda: any("broke failed" in n["text"] for n in house.json("notify")["notices"]), LONG, 0.1), house("notify"))
        events = lambda: [json.loads(line) for line in house.good("--json", "events", "--kind", "notice").splitlines()]
        told = lambda: [number for e in events() for number in range(e["record"], e.get("last", e["record"]) + 1)]
        numbers = lambda: [n["number"] for n in house.json("notify")["notices"]]
        t.ok("the-feed-tells-of-each-once", wait_for(lambda: told() == numbers() != [], LONG, 0.1), (events(), numbers()))
        before = house.daemon_pid()
        os.kill(before, signal.SIGKILL)
        wait_for(lambda: house("status")[0] == 0 and house.daemon_pid() != before, LONG, 0.1)
        asking(house, "--name", "later")
        t.ok("also-after-a-kill", wait_for(lambda: any("later" in n["text"] for n in house.json("notify")["notices"]) and told() == numbers(), LONG, 0.1), (events(), numbers()))
    finally:
        house.down()


@part("notices-seen")
def seen(t):
    """The next daemon does not know who looked: it is written down, also where nothing else is."""
    house = Guests(t)
    try:
        config(house)
        house.up()
        term = Terminal(house, "run", "-t", "--name", "watched", "--", "sh", "-c", "echo rea''dy; read line")
        term.until(b"ready", LONG)
        term.type(b"\r")
        term.wait()
        ended = next(p["id"] for p in house.json("ps", "-a") if p["name"] == "watched")

        def known():
            try:
                with open(house.state + "/instances/main/notices.json") as f:
                    return json.load(f)["subjects"].get(ended, {}).get("told")
            except FileNotFoundError:
                return None
        t.ok("what-ended-in-front-of-somebody-is-written-down", wait_for(known, 20, 0.1), ended)
        house.good("restart")
        about = lambda: len([n for n in house.json("notify")["notices"] if "watched" in n["text"]])
        t.ok("and-no-news-after-a-restart", quiet_for(AFTER + 2, about, 0), house("notify"))
    finally:
        house.down()
