"""The record cannot be written by who it is about: rows with right hashes, forged by somebody who can write the file and kill everybody."""
import contextlib
import hashlib
import json
import os
import signal
import socket
import sqlite3
import struct
import time

from approvals_kit import LONG, House, Terminal, approved
from kit import Fail, hold
from lib import area, wait_for


def database(house):
    return house.state + "/instances/main/inbox.db"


def pids(house):
    status = house.json("status")[0]
    return status["pid"], status["keeper_pid"]


def forge(house, *rows):
    """Appends rows as ostler chains them, and notes the new end beside the file; only the key is not ours."""
    with contextlib.closing(sqlite3.connect(database(house), timeout=LONG, isolation_level=None)) as c:
        c.execute("BEGIN IMMEDIATE")
        seq, before = c.execute("SELECT seq, hash FROM entry ORDER BY seq DESC LIMIT 1").fetchone()
        for about, record in rows:
            seq, now, body = seq + 1, int(time.time() * 1000), json.dumps(record)
            parts = [(about or "").encode(), body.encode()]
            before = hashlib.sha256(before + struct.pack("<QQ", seq, now) + b"".join(struct.pack("<Q", len(p)) + p for p in parts)).digest()
            c.execute("INSERT INTO entry (seq, at_ms, about, body, hash, mac) VALUES (?, ?, ?, ?, ?, ?)", (seq, now, about, body, before, os.urandom(32)))
        c.execute("COMMIT")
    with open(database(house).replace(".db", ".head"), "w") as f:
        f.write("%d %s\n" % (seq, before.hex()))


def forged_rule(name, *argv):
    path = "/usr/bin/" + argv[0]
    stages = [[{"is": path}] + [{"is": a} for a in argv[1:]]]
    return {"what": "rule_added", "rule": {
        "name": name, "effect": "allow", "scope": {"in": "host"}, "title": "harmless", "made_at": 1,
        "pattern": {"about": "command", "stages": stages, "env": {}, "privileged": False, "forward_agent": False},
        "made_by": {"from": "terminal", "uid": os.getuid(), "pid": 1, "tty": "/dev/pts/0"}}}


def add_rule(house, *argv):
    term = Terminal(house, "--json", "rules", "add", "--", *argv)
    if term.wait() != 0:
        raise Fail("no rule: %r" % term.seen)
    return json.loads(term.seen)["name"]


def answers(house, *argv):
    """Whether a rule answers; a request that waits is withdrawn again."""
    asker = house.ask(list(argv))
    with contextlib.suppress(Fail):
        return asker.answer(3).get("status") == "ok"
    asker.sock.close()
    house.waiting(0)
    return False


def gone(pid):
    return wait_for(lambda: not os.path.exists("/proc/%d" % pid) or open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()[0] == "Z", LONG, 0.05)


def kill_both(house):
    daemon, keeper = pids(house)
    for pid in (keeper, daemon):
        os.kill(pid, signal.SIGKILL)
    if not (gone(daemon) and gone(keeper)):
        raise Fail("still there")


def back(house, other_than):
    """A daemon that was killed is brought back."""
    def there():
        rc, o, _ = house("--json", "status")
        return rc == 0 and json.loads(o) and json.loads(o)[0]["pid"] != other_than
    if not wait_for(there, LONG, 0.1):
        raise Fail("no daemon came back")


@area("approvals-record-one-lost")
def one_lost(t):
    house = House(t).up()
    try:
        add_rule(house, "echo", "kept")
        t.ok("the-rule-answers", answers(house, "echo", "kept"))
        daemon, keeper = pids(house)
        os.kill(daemon, signal.SIGKILL)
        back(house, daemon)
        t.ok("the-daemon-alone-suspends-nothing", answers(house, "echo", "kept"), house.json("rules"))
        os.kill(keeper, signal.SIGKILL)
        t.ok("another-keeper-comes", wait_for(lambda: pids(house)[1] not in (None, keeper), LONG, 0.1))
        t.ok("the-keeper-alone-suspends-nothing", answers(house, "echo", "kept"), house.json("rules"))
        daemon = pids(house)[0]
        os.kill(daemon, signal.SIGKILL)
        back(house, daemon)
        t.ok("the-next-keeper-was-told", answers(house, "echo", "kept"), house.json("rules"))
        house.good("restart")
        t.ok("nor-does-a-restart", answers(house, "echo", "kept"), house.json("rules"))
        t.ok("nothing-was-suspended", not house.audit("suspended") and "suspended" not in house.good("status"))
        t.ok("the-record-holds", house("audit", "--verify")[0] == 0)
    finally:
        house.down()


@area("approvals-record-both-lost")
def both_lost(t):
    house = House(t).up()
    try:
        own = add_rule(house, "echo", "kept")
        kill_both(house)
        forge(house, (None, forged_rule("rforged00000", "touch", house.dir + "/forged")))
        house.up()
        t.eq("every-rule-is-suspended", sorted((r["name"], r["suspended"]) for r in house.json("rules")), sorted([(own, True), ("rforged00000", True)]))
        t.ok("a-forged-rule-answers-nothing", not answers(house, "touch", house.dir + "/forged") and not os.path.exists(house.dir + "/forged"))
        t.ok("nor-does-one-that-nobody-vouches-for", not answers(house, "echo", "kept"))
        t.ok("it-is-in-the-audit", len(house.audit("suspended")) == 1)
        command = "ostler rules affirm"
        for words in (["rules"], ["status"], ["approvals", "--list"]):
            rc, o, e = house(*words)
            t.ok("%s-says-so-and-how-to-go-on" % words[0], "2 rules are suspended" in o + e and command in o + e, (o, e))
        rc, o, e = house("rules", "affirm")
        t.ok("not-from-a-script", rc == 5 and "terminal" in e, (rc, o, e))
        daemon = pids(house)[0]
        os.kill(daemon, signal.SIGKILL)
        back(house, daemon)
        t.ok("it-stays-so-when-the-daemon-is-killed-again", all(r["suspended"] for r in house.json("rules")) and not answers(house, "echo", "kept"))
        term = Terminal(house, "rules", "affirm")
        term.press(b"n")
        shown, code = (term.wait(), term.seen.decode(errors="replace"))[::-1]
        t.ok("a-person-sees-what-they-match", code == 1 and "echo kept" in shown and house.dir + "/forged" in shown.replace("\r\n", "").replace("↳ ", "").replace("  ", " ") and "harmless" not in shown, shown)
        t.ok("a-no-affirms-nothing", all(r["suspended"] for r in house.json("rules")))
        t.eq("a-rule-that-is-not-theirs-is-revoked", Terminal(house, "rules", "revoke", "rforged00000").wait(), 0)
        term = Terminal(house, "rules", "affirm")
        term.press(b"y")
        t.eq("a-person-affirms-the-rest", term.wait(), 0)
        t.ok("it-answers-again", answers(house, "echo", "kept"), house.json("rules"))
        t.ok("the-forged-one-does-not", not answers(house, "touch", house.dir + "/forged"))
        t.ok("the-affirmation-is-in-the-audit", house.audit("affirmed")[0]["record"]["rules"] == [own])
        daemon = pids(house)[0]
        os.kill(daemon, signal.SIGKILL)
        back(house, daemon)
        t.ok("and-holds", answers(house, "echo", "kept"))
        house.good("down")
        house.up()
        t.ok("a-clean-end-suspends-too", not answers(house, "echo", "kept") and "1 rule is suspended" in house.good("status"))
    finally:
        house.down()


@area("approvals-record-forged-yes")
def forged_yes(t):
    """A request that waits, and a yes that nobody said."""
    house = House(t).up()
    try:
        for name in ("the-daemon-killed", "both-killed"):
            marker = "%s/%s" % (house.dir, name)
            asker = house.ask(["touch", marker])
            one = house.waiting()[0]
            yes = {"what": "decided", "decision": {"verdict": "once"}, "content": one["hash"],
                   "by": {"from": "terminal", "uid": os.getuid(), "pid": 1, "tty": "/dev/pts/0"}}
            daemon = pids(house)[0]
            if name == "both-killed":
                kill_both(house)
                forge(house, (one["id"], yes))
                house.up()
            else:
                forge(house, (one["id"], yes))
                os.kill(daemon, signal.SIGKILL)
                back(house, daemon)
            asker.sock.close()
            again = house.ask(["touch", marker])
            t.ok("%s-it-waits-again" % name, wait_for(lambda: any(a["state"] == "pending" for a in house.pending()), LONG, 0.1), house.pending())
            time.sleep(1)
            t.ok("%s-nothing-ran" % name, not os.path.exists(marker))
            newest = max(house.pending(), key=lambda a: a["asked"])
            seen, code = approved(house, newest["id"])
            t.ok("%s-a-persons-yes-runs" % name, code == 0 and again.answer().get("status") == "ok" and os.path.exists(marker), seen)
            house.waiting(0)
    finally:
        house.down()


@area("approvals-record-alive")
def alive(t):
    """Somebody writes into the file of a daemon that runs."""
    house = House(t).up()
    try:
        asker = house.ask(["echo", "decided"])
        id = house.waiting()[0]["id"]
        forge(house, (None, forged_rule("rforged00000", "echo", "forged")))
        seen, code = approved(house, id)
        t.ok("a-yes-fails-and-says-why", code != 0 and "written by somebody else" in " ".join(seen.split()) and "UNIQUE" not in seen, seen)
        t.eq("it-still-waits", house.state_of(id), "pending")
        rc, o, e = house("audit", "--verify")
        t.ok("verify-names-what-was-put-aside", rc == 1 and "rforged00000" in o and "not counted" in o, (rc, o, e))
        t.ok("it-is-in-the-audit", house.audit("quarantined") and not house.audit("rule_added"))
        seen, code = approved(house, id)
        t.ok("the-next-yes-counts", code == 0 and asker.answer().get("text") == "decided\n", seen)
        forge(house, (None, forged_rule("rforged00001", "echo", "forged")))
        daemon = pids(house)[0]
        os.kill(daemon, signal.SIGKILL)
        back(house, daemon)
        t.ok("after-a-kill-it-is-put-aside-too", house.json("rules") == [] and "rforged00001" in house("audit", "--verify")[1])
        t.ok("and-answers-nothing", not answers(house, "echo", "forged"))
        add_rule(house, "echo", "true")
        t.ok("a-persons-rule-does", answers(house, "echo", "true"))
        asker = house.ask(["echo", "late"])
        id = house.waiting()[0]["id"]
        with contextlib.closing(sqlite3.connect(database(house), timeout=LONG)) as c:
            c.execute("DELETE FROM entry WHERE seq = (SELECT max(seq) FROM entry)")
            c.commit()
        term = Terminal(house, "approve", id)
        code = term.wait()
        t.ok("with-an-entry-gone-no-yes-counts", code != 0 and b"gone or changed" in term.seen, term.seen)
        t.eq("it-waits", house.state_of(id), "pending")
        asker.sock.close()
    finally:
        house.down()


@area("approvals-record-files")
def files(t):
    house = House(t).up()
    try:
        asker = house.ask(["echo", "x"])
        approved(house, house.waiting()[0]["id"])
        asker.answer()
        loose = []
        for root, _, names in os.walk(house.state):
            loose += [os.path.join(root, n) for n in names if os.stat(os.path.join(root, n), follow_symlinks=False).st_mode & 0o077 and not os.path.islink(os.path.join(root, n))]
        t.eq("every-file-is-for-its-user-alone", loose, [])
        t.ok("without-rules-nobody-is-asked-to-affirm", "suspended" not in house.good("status"))
        house.good("down")
        house.up()
        t.ok("nor-after-a-stop", "suspended" not in house.good("status") and not house.audit("suspended"))
    finally:
        house.down()


@area("approvals-record-impostor")
def impostor(t):
    """Somebody who waits where the keeper was, to be told the key."""
    house = House(t).up()
    try:
        add_rule(house, "echo", "kept")
        daemon, keeper = pids(house)
        hold(daemon)
        os.kill(keeper, signal.SIGKILL)
        gone(keeper)
        place = house.state + "/instances/main/keeper.sock"
        os.unlink(place)
        heard = []
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as listener:
            listener.bind(place)
            listener.listen(4)
            listener.settimeout(LONG)
            os.kill(daemon, signal.SIGCONT)
            client, _ = listener.accept()
            client.settimeout(LONG)

            def say(body):
                head = json.dumps({"id": 0, "body": body}).encode()
                client.send(struct.pack("<I", len(head)) + head)
            heard.append(client.recv(1 << 17))
            say({"hello": {"protocol": 3, "oldest": 1, "pid": os.getpid(), "program": "ostler-keeper 9"}})
            say({"batch": {"children": [], "more": False}})
            with contextlib.suppress(OSError):
                while heard[-1]:
                    heard.append(client.recv(1 << 17))
            client.close()
        t.ok("it-was-met", b"hello" in heard[0], heard)
        t.ok("it-is-told-nothing", not any(b"entrust" in packet for packet in heard), heard)
        t.ok("the-daemon-starts-its-own", wait_for(lambda: pids(house)[1] not in (None, keeper, os.getpid()), LONG, 0.1), pids(house))
        t.ok("and-nothing-is-suspended", answers(house, "echo", "kept"))
        os.kill(daemon, signal.SIGKILL)
        back(house, daemon)
        t.ok("which-was-told", answers(house, "echo", "kept"), house.json("rules"))
    finally:
        house.down()
