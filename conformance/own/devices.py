"""Devices: pairing at a person's terminal, tokens that rotate, keys that sign, and what is left of all that after a kill."""
import json
import os
import signal
import time

from approvals_kit import LONG, Terminal
from devices_kit import Device, Guests, Key, Refused, offered, paired, port_of, proven, refused
from events import events
from lib import area, wait_for


@area("devices-without")
def without(t):
    """What the verbs say where nobody is paired, and where nobody sits."""
    house = Guests(t).up()
    try:
        t.ok("none-at-first", house("devices")[0] == 0 and "no devices are paired" in house("devices")[2], house("devices"))
        for verb in (["pair"], ["web"]):
            rc, o, e = house(*verb)
            t.ok("%s-not-from-a-script" % verb[0], rc == 5 and "has no terminal" in e, (rc, o, e))
        t.eq("that-is-audited", len(house.audit("attempted")), 2)
        rc, o, e = house("pair", "--rights", "root")
        t.ok("a-right-that-is-none", rc == 2 and "answer_once" in e, (rc, o, e))
        t.eq("revoke-of-nobody-exit-4", house("devices", "revoke", "nobody")[0], 4)
        t.eq("revoke-says-whom-exit-2", house("devices", "revoke")[0], 2)
        if port_of(house) is None:
            term = Terminal(house, "pair")
            t.ok("no-port-is-said", term.wait() == 1 and b"does not listen for devices" in term.seen, term.seen)
            return
        term = Terminal(house, "pair")
        offered(term)
        t.ok("an-address-of-this-machine-is-no-phone-s", b"phones cannot reach that address" in term.seen, term.seen)
        term.type(b"q")
        t.ok("who-stops-it-has-refused-nobody", term.wait() == 1 and b"canceled" in term.seen and b"refused" not in term.seen, term.seen)
    finally:
        house.down()


def with_port(t):
    """A home with a port for devices; nothing where there is none."""
    house = Guests(t).up()
    if port_of(house) is not None:
        return house
    t.skip("all", "no port for devices")
    house.down()


@area("devices-tokens")
def tokens(t):
    """A phone: by a code, with a person's yes; its tokens and their end."""
    house = with_port(t)
    if not house:
        return
    try:
        term = Terminal(house, "pair", "--name", "phone")
        code, _ = offered(term)
        phone = Device(house)
        t.ok("a-wrong-code", "wrong" in (refused(phone, "device.code", code="%06d" % ((int(code) + 1) % 1000000)) or ""))
        t.ok("nobody-says-nothing-else", "has not shown" in (refused(phone, "session.list") or ""))
        link = phone("device.code", code=code)["link"]
        t.ok("a-code-works-once", refused(phone, "device.code", code=code) is not None)
        who = dict(link=link, name="my phone")
        t.ok("a-person-is-asked", phone("device.redeem", **who).get("offer") and not house.json("devices"))
        term.press(b"y")
        told = {}
        wait_for(lambda: told.update(phone("device.redeem", **who)) or told.get("paired"), LONG, 0.2)
        t.ok("and-then-it-is-paired", term.wait() == 0 and b"phone is paired (answer)" in term.seen, term.seen)
        t.ok("once", refused(phone, "device.redeem", **who) is not None)
        paired_as = told["paired"]
        t.eq("with-the-usual-rights", paired_as["rights"], ["view", "prompt", "answer_once"])
        first = paired_as["tokens"]
        with open(house.state + "/instances/main/inbox.db", "rb") as f:
            kept = f.read() + (open(f.name + "-wal", "rb").read() if os.path.exists(f.name + "-wal") else b"")
        secrets = [code, link, first["access"]] + first["refresh"].split(".")
        t.ok("no-secret-is-on-the-disk", b"device_paired" in kept and not any(b'"%s"' % s.encode() in kept or (len(s) > 6 and s.encode() in kept) for s in secrets))
        t.eq("it-comes-by-its-token", phone("device.show", token=first["access"])["name"], "phone")
        t.ok("sees", "processes" in phone("process.list"))
        for method, params in (("process.spawn", {"program": "true"}), ("rule.add", {"effect": "allow", "stages": []}), ("device.list", {}), ("instance.stop", {})):
            t.ok("but-may-not-%s" % method, "may" in (refused(phone, method, **params) or ""), refused(phone, method, **params))
        t.ok("refusals-are-audited", any(r["record"]["who"] == "device phone" for r in house.audit("attempted")))
        t.ok("as-a-header-too", "processes" in Device(house, first["access"])("process.list"))
        t.ok("listed-with-its-place", house.json("devices")[0]["address"] == "127.0.0.1", house.json("devices"))
        house.ask(["echo", "asked"])
        one = house.waiting()[0]
        t.ok("answers-nothing-lasting", "once" in (refused(phone, "approval.decide", id=one["id"], hash=one["hash"], verdict="always") or ""))
        phone("approval.decide", id=one["id"], hash=one["hash"], verdict="once")
        t.eq("answers-once", house.audit("decided")[-1]["record"]["by"], {"from": "device", "name": "phone"})
        os.kill(house.record()["pid"], signal.SIGKILL)
        old = house.record()["pid"]
        wait_for(lambda: house("status")[0] == 0 and house.record()["pid"] != old, LONG, 0.2)
        again = Device(house)
        t.eq("a-kill-changes-nothing", again("device.show", token=first["access"])["name"], "phone")
        lost = Device(house)("device.refresh", refresh=first["refresh"])
        t.ok("a-refresh-ends-the-token-before", refused(Device(house), "device.show", token=first["access"]) is not None)
        second = Device(house)("device.refresh", refresh=first["refresh"])
        t.ok("a-lost-answer-is-given-again", second["access"] != lost["access"] and refused(Device(house), "device.show", token=lost["access"]) is not None)
        t.eq("and-lets-it-in", Device(house)("device.show", token=second["access"])["name"], "phone")
        t.ok("used-twice-it-is-revoked", "used before" in (refused(Device(house), "device.refresh", refresh=first["refresh"]) or ""))
        t.ok("with-all-that-came-of-it", refused(Device(house), "device.show", token=second["access"]) is not None and house.json("devices") == [])
        t.ok("and-its-connections", again.ends())
        t.ok("and-the-audit-says-why", "used twice" in house.audit("device_revoked")[-1]["record"]["why"], house.audit("device_revoked"))
        found = lambda: [(e["kind"], e.get("device")) for e in events(house, "--kind", "device")]
        want = [("device.paired", paired_as["id"]), ("device.revoked", paired_as["id"])]
        t.ok("the-feed-tells-of-both", wait_for(lambda: found() == want, LONG, 0.2), found())
    finally:
        house.down()


@area("devices-keys")
def keys(t):
    """A browser: by a link, with a key that signs."""
    house = with_port(t)
    if not house:
        return
    try:
        key, other = Key(house), Key(house)
        term = Terminal(house, "web", "--name", "browser", "--rights", "full")
        code, link = offered(term)
        t.ok("a-link-and-no-code", code is None and link, term.seen)
        told = Device(house)("device.redeem", link=link, name="x", key=key.public())["paired"]
        t.ok("at-this-machine-at-once", term.wait() == 0 and not told["limited"] and "tokens" not in told, (told, term.seen))
        t.ok("a-link-works-once", refused(Device(house), "device.redeem", link=link, name="x", key=key.public()) is not None)
        browser = proven(house, key, told["id"])
        t.ok("its-key-lets-it-in", browser("device.list")["devices"][0]["key"], browser("device.list"))
        try:
            proven(house, other, told["id"])
            t.ok("no-other-key-does", False)
        except Refused as e:
            t.ok("no-other-key-does", "not paired" in str(e), str(e))
        house.ask(["echo", "signed"])
        one = house.waiting()[0]
        answer = {"id": one["id"], "hash": one["hash"], "verdict": "once", "until_ms": int(time.time() * 1000) + 60000}
        text = json.dumps(answer)
        plain = {k: answer[k] for k in ("id", "hash", "verdict")}
        late = json.dumps(dict(answer, until_ms=1))
        for name, signed in (("unsigned", None), ("by-another-key", (text, other.sign(text))), ("other-words", (text.replace("once", "always"), key.sign(text))), ("too-late", (late, key.sign(late)))):
            more = {"signed": {"text": signed[0], "signature": signed[1]}} if signed else {}
            t.ok("%s-counts-for-nothing" % name, refused(browser, "approval.decide", **plain, **more) is not None and house.state_of(one["id"]) == "pending")
        signature = key.sign(text)
        browser("approval.decide", **plain, signed={"text": text, "signature": signature})
        by = house.audit("decided")[-1]["record"]["by"]
        t.eq("the-record-holds-the-signature", by, {"from": "device", "name": "browser", "signed": {"text": text, "signature": signature}})
        # A device with the right to admit others gives what it has, and a person need not come.
        offer = browser("device.offer", code=True, name="tablet")
        tablet = Device(house)
        who = dict(link=tablet("device.code", code=offer["code"])["link"], name="tablet")
        tablet("device.redeem", **who)
        browser("device.admit", offer=offer["offer"])
        t.ok("a-device-admits-another", tablet("device.redeem", **who)["paired"]["name"] == "tablet")
        small = paired(house, "small", "--rights", "watch,admit")
        small_one = Device(house, small["tokens"]["access"])
        t.ok("nobody-grants-more-than-they-have", "do not have" in (refused(small_one, "device.offer", rights=["prompt"]) or ""))
        watching = Device(house, small["tokens"]["access"])
        t.eq("revoke", Terminal(house, "devices", "revoke", "small").wait(), 0)
        t.ok("its-connections-end", watching.ends())
        limited = Terminal(house, "web", "--rights", "full")
        bare = Device(house)("device.redeem", link=offered(limited)[1], name="bare")["paired"]
        t.ok("without-a-key-it-gets-less-and-is-told", bare["limited"] and bare["rights"] == ["view", "prompt", "answer_once"], bare)
        limited.wait()
        t.eq("revoke-all", Terminal(house, "devices", "revoke", "--all").wait(), 0)
        t.ok("nobody-is-left", house.json("devices") == [] and browser.ends())
    finally:
        house.down()


@area("devices-refused")
def no(t):
    """A person who says no, or goes away; and nobody to vouch for the record."""
    house = with_port(t)
    if not house:
        return
    try:
        term = Terminal(house, "pair")
        code, _ = offered(term)
        device = Device(house)
        who = dict(link=device("device.code", code=code)["link"], name="stranger\x1b[31m")
        device("device.redeem", **who)
        term.press(b"n")
        t.ok("a-no-is-told-to-both", term.wait() == 5 and "refused" in (refused(device, "device.redeem", **who) or ""), term.seen)
        t.ok("what-it-calls-itself-commands-no-terminal", b"stranger" in term.seen and b"stranger\x1b" not in term.seen, term.seen)
        term = Terminal(house, "pair")
        code, _ = offered(term)
        term.type(b"q")
        t.ok("who-leaves-takes-the-code-along", term.wait() != 0 and refused(Device(house), "device.code", code=code) is not None, term.seen)
        wrong = [refused(Device(house), "device.code", code="000000") for _ in range(8)]
        t.ok("who-guesses-waits", any("too many wrong codes" in said for said in wrong), wrong)
        told = paired_later(house)
        house.good("down", "--kill")
        house.good("up")
        t.ok("with-nobody-to-vouch-it-waits", house.json("devices")[0]["suspended"] and "affirmed" in (refused(Device(house), "device.show", token=told["tokens"]["access"]) or ""), house.json("devices"))
        term = Terminal(house, "devices", "affirm")
        term.press(b"y")
        t.ok("for-a-person", term.wait() == 0 and b"late affirmed" in term.seen, term.seen)
        t.eq("and-is-let-in-again", Device(house)("device.show", token=told["tokens"]["access"])["name"], "late")
    finally:
        house.down()


def paired_later(house):
    """A device, once the pause for wrong codes is over."""
    term = Terminal(house, "web", "--name", "late")
    told = Device(house)("device.redeem", link=offered(term)[1], name="late")["paired"]
    term.wait()
    return told
