"""Requests through the sudo-proxy door of `ostler up`, answered with one key in a terminal, in any of a user's instances."""
import json
import os
import re
import shutil
import subprocess
import time

from approvals_kit import LONG, Asker, House, Terminal, Tmux, approved
from lib import area, wait_for


@area("approvals-answers")
def answers(t):
    house = House(t).up()
    try:
        rc, o, e = house("approvals", "--list")
        t.ok("nothing-waits", rc == 0 and "nothing is waiting" in e, (rc, o, e))
        asker = house.ask(["echo", "hello there"], ["cat"])
        one = house.waiting()[0]
        t.ok("list-names-asker-and-content", one["asker"]["claimed_session"] == "test-session" and "hello there" in one["content"]
             and one["asker"]["uid"] == os.getuid() and one["asker"]["pid"], one)
        t.ok("list-is-a-table-for-people", "echo 'hello there' | cat" in house.good("approvals", "--list"))
        seen, code = approved(house, one["id"][:6])
        answer = asker.answer()
        t.ok("approve-runs-it", code == 0 and answer.get("status") == "ok" and answer["text"] == "hello there\n", (seen, code, answer))
        t.ok("approve-shows-everything", all(part in seen for part in ("echo 'hello there'", "| cat", "/cat", "test-session", "(not verified)",
                                                                       "a test", one["hash"][:12])), seen)
        t.ok("approve-says-applied", "approved by " in seen, seen)
        rc, o, e = house("deny", one["id"])
        t.ok("without-a-terminal-refused", rc == 5 and "has no terminal" in e and "ostler approvals" in e, (rc, o, e))
        late = Terminal(house, "approve", one["id"])
        t.ok("too-late-is-told-who-was-first", late.wait(LONG) == 5 and b"already answered" in late.seen and b"/dev/pts/" in late.seen, late.seen)

        asker = house.ask(["echo", "never"])
        one = house.waiting()[0]
        early = Terminal(house, "approve", one["id"])
        early.type(b"yyyy")
        early.until(b"[y/N]", LONG)
        time.sleep(1.5)
        t.ok("keys-typed-ahead-do-not-count", house.state_of(one["id"]) == "pending", early.seen)
        early.press(b"x")
        t.ok("another-key-is-no-yes", early.wait(LONG) == 1 and b"still waiting" in early.seen and house.state_of(one["id"]) == "pending", early.seen)
        seen, code = approved(house, one["id"], key=b"yn")
        t.ok("a-paste-is-no-key", code == 1, (seen, code))
        fed = subprocess.Popen([house.program, "approve", one["id"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=house.env, start_new_session=True)
        o, e = fed.communicate(b"y\n", timeout=LONG)
        t.ok("standard-input-is-never-asked", fed.returncode == 5 and b"has no terminal" in e, (o, e))
        denied = Terminal(house, "deny", one["id"][:8], "--message", "not today")
        t.ok("deny-exit-0", denied.wait(LONG) == 0 and b"denied" in denied.seen, denied.seen)
        t.eq("deny-reaches-the-asker", asker.answer().get("status"), "denied")
        last = house.audit("decided")[-1]["record"]
        t.ok("audit-names-who-denied-and-why", last["decision"]["message"] == "not today" and last["by"]["tty"].startswith("/dev/pts/"), last)
        t.ok("attempts-are-audited", len([a for a in house.audit("attempted") if a["about"]]) >= 2, house.audit("attempted"))

        asker = house.ask(["sleep", "300"])
        one = house.waiting()[0]
        asker.sock.close()
        t.ok("a-client-that-hangs-up-takes-its-request-along", wait_for(lambda: house.state_of(one["id"]) == "withdrawn", LONG, 0.1))
        gone = Terminal(house, "approve", one["id"])
        t.ok("withdrawn-is-told", gone.wait(LONG) == 5 and b"withdrawn" in gone.seen, gone.seen)

        asker = house.ask(["id", "-u"], privileged=True)
        one = house.waiting()[0]
        seen, code = approved(house, one["id"])
        answer = asker.answer()
        if os.getuid() == 0:
            t.ok("a-privileged-command-runs", code == 0 and answer.get("text") == "0\n", (seen, code, answer))
            t.ok("approve-says-how-it-ended", "AS ROOT" in seen and "exit 0" in seen, seen)
        for args, near in ((["approve", "--alway", "x"], "--always"), (["deny", "--mesage", "m", "x"], "--message"), (["audit", "--folow"], "--follow"),
                           (["rules", "ad"], "add"), (["approvals", "--lst"], "--list"), (["aprovals"], "approvals")):
            rc, o, e = house(*args)
            t.ok("mistyped-%s" % "-".join(args[:2]).replace("--", ""), rc == 2 and near in e, (rc, o, e))
        t.eq("approve-of-nothing-exit-4", house("approve", "azzzz")[0], 4)
        rc, o, e = house("approve", "--session", "--always", "a")
        t.eq("session-and-always-exclude-each-other", rc, 2)
    finally:
        house.down()


@area("approvals-instances")
def instances(t):
    """Several instances of one user are one inbox."""
    house = House(t).up()
    try:
        house.good("--instance", "second", "up")
        with open(house.state + "/instances/second/instance.json") as f:
            door = next(d["address"] for d in json.load(f)["doors"] if d["name"] == "sudo-proxy")
        one, two = house.ask(["echo", "one"]), Asker(house, [["echo", "two"]], {}, door)
        ids = {a["instance"]: a["id"] for a in house.waiting(2)}
        t.eq("both-are-listed", sorted(ids), ["main", "second"])
        t.ok("the-table-names-the-instance", "INSTANCE" in house.good("approvals", "--list"))
        seen, code = approved(house, ids["second"])
        t.ok("approve-finds-it-in-any", code == 0 and two.answer().get("text") == "two\n", seen)
        if shutil.which("tmux"):
            three = Asker(house, [["echo", "three"]], {}, door)
            screen = Tmux(house, house.program, "approvals")
            try:
                screen.until("2 waiting", "echo one", "echo three", "second")
                screen.go_to("of second")
                screen.until("of second", "approve? y/n")
                screen.keys("n")
                t.eq("the-inbox-decides-in-any", three.answer().get("status"), "denied")
            finally:
                screen.close()
        one.sock.close()
        rc, o, e = house("audit", "--after", "1")
        t.ok("a-position-belongs-to-one-log", rc == 2 and "--instance" in e, (rc, o, e))
        t.ok("one-audit-of-both", {r["instance"] for r in house.audit("asked")} == {"main", "second"})
        rc, o, e = house("audit", "--verify")
        t.ok("both-hold", rc == 0 and len(re.findall(r"(entry|entries) verified", o)) == 2, (rc, o, e))
    finally:
        house("--instance", "second", "down", "--kill")
        house.down()
