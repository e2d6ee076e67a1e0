"""The record of what was asked, decided and done: whole, forwarded, and found out when somebody edits it."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading

from approvals_kit import LONG, House, approved, confirms
from lib import area, wait_for


@area("approvals-audit")
def audit(t):
    house = House(t)
    sink = house.dir + "/forwarded"
    house.env["OSTLER_AUDIT_FORWARD"] = "cat >> %s" % sink
    house.up()
    try:
        # A command line in the settings counts once a person has confirmed it.
        t.eq("a-person-confirms-the-command", confirms(house, "audit.forward")[0], 0)
        house.good("restart")
        # A test that was started in the background ignores Ctrl-C, and so would everything that it starts.
        follow = subprocess.Popen([house.program, "--json", "audit", "--follow"], stdout=subprocess.PIPE, env=house.env,
                                  preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        lines = []
        threading.Thread(target=lambda: [lines.append(json.loads(x)) for x in follow.stdout], daemon=True).start()
        asker = house.ask(["echo", "noted"], reason="for the log")
        one = house.waiting()[0]
        approved(house, one["id"])
        asker.answer()
        t.ok("the-whole-story-is-there", wait_for(lambda: len(house.audit("finished")) == 1, LONG, 0.1))
        story = [r["record"]["what"] for r in house.audit() if r["about"] == one["id"]]
        t.eq("in-order-and-once", story, ["asked", "shown", "decided", "applied", "finished"])
        t.ok("follow-sees-it", wait_for(lambda: [l["seq"] for l in lines] == [r["seq"] for r in house.audit()], LONG, 0.2), lines)
        follow.send_signal(signal.SIGINT)
        follow.wait(LONG)
        text = house.good("audit")
        t.ok("people-read-lines", "echo noted" in text and "approved by " in text and "exit 0" in text, text)
        t.ok("no-output-is-kept", "noted\\n" not in house.good("--json", "audit"))
        after = [json.loads(x)["seq"] for x in house.good("--json", "audit", "--after", "3").splitlines()]
        t.eq("after-skips", after[0], 4)
        rc, o, e = house("audit", "--verify")
        t.ok("verify-holds", rc == 0 and re.search(r"ok +main: \d+ entries verified; head [0-9a-f]{64}", o), (rc, o, e))
        sent = lambda: [json.loads(x)["seq"] for x in open(sink)] if os.path.exists(sink) else []
        t.ok("forward-sends-every-entry-in-order", wait_for(lambda: sent() == [r["seq"] for r in house.audit()], LONG, 0.2), sent())
        house.good("restart")
        house.ask(["echo", "later"])
        house.waiting(1)
        t.ok("forward-goes-on-after-a-restart-and-repeats-nothing",
             wait_for(lambda: sent() == [r["seq"] for r in house.audit()], LONG, 0.2), (sent(), [r["seq"] for r in house.audit()]))
        house("down", "--kill")
        rc, o, e = house("audit", "--verify")
        t.ok("verify-holds-when-it-does-not-run", rc == 0 and "not running" in o, (rc, o, e))
    finally:
        house.down()


JOURNALD = next((p for p in ("/usr/lib/systemd/systemd-journald", "/lib/systemd/systemd-journald") if os.path.exists(p)), None)
# Its sockets and files are at fixed places, so it gets places of its own.
OWN_JOURNAL = (r'mkdir -p /run/systemd /run/log && mount -t tmpfs none /run/systemd && mount -t tmpfs none /run/log && '
               r'mkdir -p /run/systemd/journal /run/log/journal && exec "$0"')


@contextlib.contextmanager
def journald():
    """A real journald in a mount namespace of its own: the process whose namespace it is, or nothing where that cannot be."""
    if os.geteuid() != 0 or not JOURNALD or not shutil.which("journalctl"):
        yield None
        return
    p = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", OWN_JOURNAL, JOURNALD],
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        there = "/proc/%d/root/run/systemd/journal/socket" % p.pid
        own = lambda: os.readlink("/proc/%d/ns/mnt" % p.pid) != os.readlink("/proc/self/ns/mnt")
        up = wait_for(lambda: p.poll() is not None or own() and os.path.exists(there), LONG, 0.1)
        yield p if up and p.poll() is None else None
    finally:
        if p.poll() is None:
            p.terminate()
        p.wait()


@area("approvals-journald")
def to_journald(t):
    with journald() as journal:
        if journal is None:
            # The format itself is checked by `no_text_can_pose_as_another_field`.
            print("no journald can be run here", flush=True)
            return
        house = House(t)
        inside = ["nsenter", "--mount=/proc/%d/ns/mnt" % journal.pid]
        wrapper = t.tmp() + "/ostler-with-journald"
        with open(wrapper, "w") as f:
            f.write("#!/bin/sh\nexec %s %s \"$@\"\n" % (" ".join(inside), house.program))
        os.chmod(wrapper, 0o755)
        house.program = wrapper
        house.env["OSTLER_AUDIT_FORWARD"] = "journald"
        house.up()
        try:
            asker = house.ask(["echo", "noted"], reason="two words; PRIORITY=0")
            approved(house, house.waiting()[0]["id"])
            asker.answer()
            wait_for(lambda: len(house.audit("finished")) == 1, LONG, 0.1)

            def taken():
                p = subprocess.run(inside + ["journalctl", "--no-pager", "--quiet", "-o", "json", "SYSLOG_IDENTIFIER=ostler"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=house.env)
                return [json.loads(x) for x in p.stdout.splitlines()]
            want = lambda: [str(r["seq"]) for r in house.audit()]
            t.ok("journald-has-every-entry-in-order", wait_for(lambda: [e["OSTLER_AUDIT_SEQ"] for e in taken()] == want(), LONG, 0.3),
                 (want(), taken()))
            records = [json.loads(e["OSTLER_AUDIT_RECORD"]) for e in taken()]
            t.eq("as-it-was-recorded", records, [r["record"] for r in house.audit()])
            t.ok("nothing-poses-as-another-field", {e["PRIORITY"] for e in taken()} == {"5"} and
                 {e["_UID"] for e in taken()} == {str(os.getuid())}, taken()[:2])
        finally:
            house.down()
