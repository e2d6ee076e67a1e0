"""A hostile disk: a record that was edited, files that were swapped for links or garbage, a note about the daemon that lies."""
import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess

from approvals_kit import LONG, House
from lib import area, pid_alive, wait_for


@area("disk")
def tampered(t):
    """Entries and contents of the record changed, removed, cut off."""
    changes = {
        "an-entry-changed": "UPDATE entry SET body = replace(body, 'test-session', 'other-session') WHERE body LIKE '%test-session%'",
        "an-entry-removed": "DELETE FROM entry WHERE seq = 2",
        "the-end-cut-off": "DELETE FROM entry WHERE seq = (SELECT max(seq) FROM entry)",
        "the-content-changed": "UPDATE content SET body = replace(body, 'harmless', 'harmful!')",
    }
    for name, sql in changes.items():
        house = House(t).up()
        try:
            asker = house.ask(["echo", "harmless"])
            house.waiting()
            t.control("%s-before-it-holds" % name, house("audit", "--verify")[0] == 0)
            db = house.state + "/instances/main/inbox.db"
            change(db, sql)
            rc, o, e = house("audit", "--verify")
            t.stopped("%s-is-found-while-it-runs" % name, rc == 1 and "FAIL" in o, (rc, o, e))
            rc, o, e = house("doctor")
            t.ok("%s-doctor-says-so" % name, rc == 1 and re.search(r"FAIL audit .*was changed", o), o)
            asker.sock.close()
            house("down", "--kill")
            rc, o, e = house("audit", "--verify")
            t.stopped("%s-is-found-when-it-does-not-run" % name, rc == 1 and "FAIL" in o and "not running" in o, (rc, o, e))
            rows = json.loads(house("--json", "audit", "--verify")[1])
            t.ok("%s-json-says-why" % name, rows[0]["holds"] is False and rows[0]["why"], rows)
            rc, o, e = house("up")
            log = house("logs", "--daemon")
            t.stopped("%s-is-refused-at-the-next-start" % name, rc != 0 and "was changed" in "".join((o, e) + tuple(map(str, log))), (rc, o, e, log))
        finally:
            house.down()


def change(db, sql):
    with contextlib.closing(sqlite3.connect(db, timeout=LONG)) as c:
        c.execute(sql)
        c.commit()


@area("disk")
def swapped(t):
    """Files of the state folder swapped for links and garbage, while nothing runs and while it does."""
    house = House(t)
    folder = house.state + "/instances/main"
    victim = house.dir + "/victim"
    try:
        for name in ("lock", "inbox.head", "keys", "epoch", "claustrum.token"):
            shutil.rmtree(house.state, ignore_errors=True)
            house.up()
            house.good("down", "--kill")
            path = folder + "/" + name
            with open(victim, "w") as f:
                f.write("precious\n")
            if os.path.lexists(path):
                os.unlink(path)
            os.symlink(victim, path)
            rc, o, e = house("up")
            house("down", "--kill")
            t.stopped("%s-is-a-link" % name.replace(".", "-"), open(victim).read() == "precious\n", (rc, o, e, open(victim).read()[:100]))
        for name in ("inbox.db", "roll", "keys", "epoch", "boot"):
            shutil.rmtree(house.state, ignore_errors=True)
            house.up()
            house.good("run", "--", "echo", "words")
            house.good("down", "--kill")
            with open(folder + "/" + name, "wb") as f:
                f.write(os.urandom(5000))
            rc, o, e = house("up")
            text = o + e + str(house("logs", "--daemon"))
            t.stopped("%s-is-garbage" % name.replace(".", "-"), "panicked" not in text and rc in (0, 1), (rc, text[-400:]))
            house("down", "--kill")
        shutil.rmtree(house.state)
        t.control("a-whole-one-starts", house("up")[0] == 0)
    finally:
        house.down()


@area("disk")
def pipes(t):
    """A pipe that nobody writes to where a record, a setting or a note is read: it is named, and nobody waits for it."""
    house = House(t).up()
    beside, settings, notes = house.state + "/instances/beside", house.dir + "/.config/ostler/config.toml", house.state + "/instances/main/"
    try:
        os.mkdir(beside)
        os.mkfifo(beside + "/instance.json")
        rc, o, e = house("ps")
        t.stopped("a-record-is-a-pipe", rc == 0 and "this is not a file" in e, (rc, o, e))
        shutil.rmtree(beside)
        os.makedirs(os.path.dirname(settings), exist_ok=True)
        os.mkfifo(settings)
        rc, o, e = house("config")
        t.stopped("the-settings-are-a-pipe", rc != 0 and "this is not a file" in o + e, (rc, o, e))
        os.unlink(settings)
        house.good("down", "--kill")
        for name in ("epoch", "claustrum.token"):
            if os.path.lexists(notes + name):
                os.unlink(notes + name)
            os.mkfifo(notes + name)
            rc, o, e = house("up")
            t.stopped("%s-is-a-pipe" % name.replace(".", "-"), rc != 0 and "this is not a file" in o + e, (rc, o, e))
            house("down", "--kill")
            os.unlink(notes + name)
        for name in ("keys", "boot", "agents.json"):
            if os.path.lexists(notes + name):
                os.unlink(notes + name)
            os.mkfifo(notes + name)
        rc, o, e = house("up")
        good = rc == 0 and house("new", "echo", "-m", "hello")[0] == 0
        files = all(stat.S_ISREG(os.stat(notes + name).st_mode) for name in ("keys", "boot"))
        t.stopped("what-is-only-remembered-is-a-pipe", good and files, (rc, o, e))
        house("down", "--kill")
        os.unlink(notes + "agents.json")
        t.control("with-files-it-starts", house("up")[0] == 0 and house("ps")[0] == 0)
    finally:
        house.down()


@area("disk")
def the_note_lies(t):
    """instance.json that names another process and another socket: nobody else is ended, nobody else is asked."""
    house = House(t).up()
    folder = house.state + "/instances/main"
    bystander = subprocess.Popen(["sleep", "1000"])
    true = house.record()
    try:
        house.good("run", "-d", "--name", "hosted", "--", "sleep", "1000")
        for name, more in (("another-process", {"pid": bystander.pid}), ("no-process", {"pid": 0}), ("every-process", {"pid": -1})):
            with open(folder + "/instance.json", "w") as f:
                json.dump(dict(true, **more), f)
            rc, o, e = house("down", "--kill")
            t.stopped("the-note-names-%s" % name, bystander.poll() is None and "panicked" not in e, (rc, o, e, bystander.poll()))
            if not pid_alive(true["pid"]):
                house.up()
                true = house.record()
        house.up()
        t.control("a-true-note-ends-it", house("down", "--kill")[0] == 0 and wait_for(lambda: not pid_alive(true["pid"]), LONG, 0.1))
    finally:
        bystander.kill()
        bystander.wait()
        if pid_alive(true["pid"]):
            with open(folder + "/instance.json", "w") as f:
                json.dump(true, f)
        house.down()
