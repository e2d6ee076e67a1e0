"""A hosted process that writes itself a rule: into the database with right hashes, or into the settings, and then kills who would notice."""
import json
import os
import shutil
import signal
import subprocess

from approvals_kit import LONG, House, Terminal, Tmux, confirms
from approvals_password import unlock
from by_hosted_helpers import Attack, delegated, parent
from lib import area, pid_alive, wait_for

# Appends an entry to the audit as the daemon would: the right number, time and hash, and the note beside it.
FORGE = r'''
import hashlib, json, os, sqlite3, struct, sys, time
folder, about, body = sys.argv[1:4]
db = sqlite3.connect(folder + "/inbox.db", timeout=20)
seq, before = db.execute("SELECT seq, hash FROM entry ORDER BY seq DESC LIMIT 1").fetchone()
seq, at = seq + 1, int(time.time() * 1000)
sum = hashlib.sha256(before + struct.pack("<QQ", seq, at))
for part in (about.encode(), body.encode()):
    sum.update(struct.pack("<Q", len(part)) + part)
names = [row[1] for row in db.execute("PRAGMA table_info(entry)")]
row = {"seq": seq, "at_ms": at, "about": about or None, "body": body, "hash": sum.digest()}
row = {name: row.get(name, b"") for name in names}
db.execute("INSERT INTO entry (%s) VALUES (%s)" % (", ".join(row), ", ".join("?" * len(row))), list(row.values()))
db.commit()
open(folder + "/inbox.head", "w").write("%d %s\n" % (seq, sum.hexdigest()))
print("forged", seq)
'''


def both_killed(house):
    """SIGKILL for daemon and keepers, as any process of the user can."""
    pids = [house.record()["pid"]] + house.keepers
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    wait_for(lambda: not any(map(pid_alive, pids)), LONG, 0.05)


def hosted(house, name, *instance):
    """A hosted process that stays, and its keeper, noted."""
    house.good("run", "-d", "--name", name, *instance, "--", "sleep", "1000")
    pid = next(p for p in house.json("ps") if p.get("name") == name)["pid"]
    house.keepers = [parent(pid)]
    return pid


def add_rule(house, *words):
    term = Terminal(house, "--json", "rules", "add", *words)
    code = term.wait(LONG)
    return json.loads(term.seen) if code == 0 else (code, term.seen)


def granted(house, *stage, **more):
    """Whether a request is answered without anybody being asked."""
    asker = house.ask(list(stage), **more)
    answer = {}
    wait_for(lambda: house.pending() or answer.update(said(asker)) or answer, 10, 0.1)
    asker.sock.close()
    return answer.get("status") == "ok", answer


def said(asker):
    asker.sock.setblocking(False)
    try:
        data = asker.sock.recv(1 << 16)
    except BlockingIOError:
        return {}
    return json.loads(data) if data else {"status": "gone"}


@area("hosted")
def forged_record(t):
    """A rule appended to the database with a right hash, while all run, after the daemon's death and after the death of both."""
    house = House(t).up()
    script = house.dir + "/forge.py"
    with open(script, "w") as f:
        f.write(FORGE)
    folder = house.state + "/instances/main"
    try:
        rule = add_rule(house, "--", "echo", "honest")
        t.control("a-person-adds-a-rule", isinstance(rule, dict), rule)
        works, answer = granted(house, "echo", "honest")
        t.control("and-it-answers", works, answer)
        body = next(r for r in house.audit("rule_added"))["record"]
        mark = lambda word: json.dumps(body).replace("honest", word).replace(rule["name"], rule["name"][:-2] + word[-2:])

        def forge(word):
            rc, o, e = house("run", "--", shutil.which("python3"), script, folder, "", mark(word))
            return o + e
        told = forge("forged-aa")
        works, answer = granted(house, "echo", "forged-aa")
        t.stopped("a-forged-rule-while-it-runs", "forged" in told and not works, (told, answer))
        t.ok("and-verify-names-it", house("audit", "--verify")[0] == 1, house("audit", "--verify"))
        for name, kill in (("after-the-daemon", lambda: os.kill(house.record()["pid"], signal.SIGKILL)), ("after-both", lambda: both_killed(house))):
            house.down()
            shutil.rmtree(house.state)
            house.up()
            hosted(house, "stays")
            rule = add_rule(house, "--", "echo", "honest")
            body = next(r for r in house.audit("rule_added"))["record"]
            before = house.record()["pid"]
            told = ""
            if name == "after-both":
                kill()
                told = forge_here(script, folder, mark("forged-bb"))
            else:
                told = forge("forged-bb")
                kill()
            house("up")
            wait_for(lambda: house("ps")[0] == 0 and house.record()["pid"] != before, LONG, 0.1)
            try:
                works, answer = granted(house, "echo", "forged-bb")
            except (OSError, StopIteration) as closed:
                # A daemon that does not open on such a record grants nothing either.
                works, answer = False, repr(closed)
            t.stopped("a-forged-rule-%s" % name, "forged" in told and not works, (told, answer))
            if name == "after-the-daemon":
                rc, o, e = house("audit", "--verify")
                t.stopped("unnoticed-%s" % name, rc == 1, (rc, o, e))
                continue
            # Nobody is left who could tell one from the other: none counts until a person has seen the list.
            rules = house.json("rules")
            t.stopped("unnoticed-%s" % name, len(rules) == 2 and all(rule.get("suspended") for rule in rules), rules)
            house("rules", "revoke", next((rule["name"] for rule in rules if "forged" in rule["title"]), "none"))
            if not t.outside:
                continue
            # Nor from a person, until that one has shown to know the password.
            early = Terminal(house, "rules", "affirm")
            early.press(b"y")
            t.stopped("affirming-without-a-password-%s" % name, early.wait(LONG) != 0 and not granted(house, "echo", "honest")[0], early.seen)
            code, seen = unlock(house, t.outside.facts["password"].encode())
            person = Terminal(house, "rules", "affirm")
            person.press(b"y")
            person.wait(LONG)
            t.control("a-person-affirms-their-own", code == 0 and granted(house, "echo", "honest")[0], (seen, person.seen))
    finally:
        house.down()


def forge_here(script, folder, body):
    return subprocess.run([shutil.which("python3"), script, folder, "", body], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


@area("hosted")
def keeper_lost(t):
    """An orphan that forks again after the death of keeper and daemon, with an empty environment and a terminal of its own."""
    for name in ("after-the-keepers-death", "after-the-death-of-both", "after-the-death-of-anothers-keeper", "after-the-death-of-both-and-of-the-note"):
        house = House(t).up()
        other = ["--instance", "other"] if "anothers" in name else []
        if other:
            house.good("up", *other)
        attack = Attack(t, house, name, wait=True)
        try:
            hosted(house, "stays", *other)
            house.good("run", *other, "--", "sh", "-c", attack.line)
            attack.pid()
            if "both" in name:
                both_killed(house)
                if "note" in name:
                    os.unlink(house.state + "/instances/main/hosting")
                house("up")
            else:
                os.kill(house.keepers[0], signal.SIGKILL)
                wait_for(lambda: not pid_alive(house.keepers[0]), LONG, 0.05)
            wait_for(lambda: house("ps")[0] == 0, LONG, 0.1)
            open(attack.start, "w").close()
            said = attack.said()
            t.stopped(name, said != "" and house.json("rules") == [], (said, house.json("rules")))
            if "note" not in name and t.outside:
                t.ok("%s-and-is-told-why" % name, "--unlock" in said, said)
                code, seen = unlock(house, t.outside.facts["password"].encode(), *[t.outside.facts["password"].encode() for _ in other])
                t.control("%s-a-password-unlocks" % name, code == 0 and isinstance(add_rule(house, "--", "echo", "mine"), dict), seen)
        finally:
            house("down", "--kill", *other)
            house.down()


@area("hosted")
def control_groups(t):
    """Where control groups are delegated who was hosted is known by its own, after the death of its keeper too; unless it left."""
    if not t.outside:
        return t.skip("control-groups", "needs root, to hand one over")
    for name, leave in (("in-its-control-group", ""), ("after-leaving-its-control-group", "echo 0 > \"$(awk '$3 == \"cgroup2\" {print $2; exit}' /proc/mounts)/%s/cgroup.procs\" || exit 7; ")):
        house = House(t)
        attack = Attack(t, house, name, wait=True)
        try:
            with delegated(t):
                house.up()
                hosted(house, "stays")
            house.good("run", "--", "sh", "-c", (leave % ("ostler-at-%d" % os.getpid()) if leave else "") + attack.line)
            attack.pid()
            if leave:
                t.ok("while-the-keeper-lives-%s-changes-nothing" % name, descends(attack.pid(), house.keepers[0]))
            os.kill(house.keepers[0], signal.SIGKILL)
            wait_for(lambda: not pid_alive(house.keepers[0]) and house("ps")[0] == 0, LONG, 0.05)
            open(attack.start, "w").close()
            said = attack.said()
            t.stopped(name, said != "" and house.json("rules") == [], (said, house.json("rules")))
            t.control("%s-a-person-decides" % name, isinstance(add_rule(house, "--", "echo", "mine"), dict))
        finally:
            house.down()


def descends(pid, ancestor):
    while pid > 1 and pid != ancestor:
        pid = parent(pid)
    return pid == ancestor


@area("hosted")
def clean_ends(t):
    """What locks nothing: a stop and a start, a daemon that was killed, a machine that was restarted since."""
    house = House(t).up()
    note = house.state + "/instances/main/hosting"
    try:
        house.good("run", "--", "true")
        house.good("down", "--kill")
        t.control("a-stop-locks-nothing", wait_for(lambda: os.path.getsize(note) == 0, LONG, 0.1))
        house.up()
        t.control("nor-the-next-start", isinstance(add_rule(house, "--", "echo", "one"), dict))
        before = house.record()["pid"]
        os.kill(before, signal.SIGKILL)
        wait_for(lambda: house("ps")[0] == 0 and house.record()["pid"] != before, LONG, 0.1)
        t.control("nor-the-death-of-the-daemon", isinstance(add_rule(house, "--", "echo", "two"), dict))
        hosted(house, "stays")
        both_killed(house)
        with open(note, "w") as f:
            f.write("another boot")
        house.up()
        t.control("nor-what-was-before-a-restart-of-the-machine", isinstance(add_rule(house, "--", "echo", "three"), dict))
    finally:
        house.down()


@area("hosted")
def settings(t):
    """A setting that loosens security, written into the file by a hosted process, and the daemon killed so that it is read."""
    house = House(t)
    script = house.dir + "/mine"
    with open(script, "w") as f:
        f.write("#!/bin/sh\nid -u\n")
    os.chmod(script, 0o755)
    house.up()
    try:
        refused = house.ask([script], privileged=True).answer()
        t.control("unloosened-it-is-refused", "could be replaced" in refused.get("message", ""), refused)
        place = house.dir + "/.config/ostler"
        before = house.record()["pid"]
        ran, text = house.dir + "/forwarded", '[approvals]\\nwritable_programs = "warn"\\nfatigue = "off"\\n[audit]\\nforward = "cat >> %s/forwarded"\\n' % house.dir
        house("run", "--", "sh", "-c", "mkdir -p %s && printf '%s' > %s/config.toml; kill -9 %d" % (place, text, place, before))
        wait_for(lambda: house("ps")[0] == 0 and house.record()["pid"] != before, LONG, 0.1)
        asker = house.ask([script], privileged=True)
        answer = {}
        wait_for(lambda: house.pending() or answer.update(said(asker)) or answer, LONG, 0.1)
        t.stopped("the-settings-file", "could be replaced" in answer.get("message", ""), (answer, house.pending()))
        asker.sock.close()
        for n in range(3):
            asker = house.ask(["echo", "again"])
            Terminal(house, "deny", house.waiting()[0]["id"]).wait(LONG)
            asker.answer()
        answer = house.ask(["echo", "again"]).answer()
        t.stopped("a-setting-that-lets-it-ask-for-ever", "refused 3 times" in answer.get("message", ""), answer)
        t.stopped("a-command-for-the-audit", not os.path.exists(ran), ran)
        t.control("a-person-confirms-it", confirms(house, "audit.forward")[0] == 0)
        house.good("restart")
        t.control("and-then-the-audit-goes-there", wait_for(lambda: os.path.exists(ran), LONG, 0.1), ran)
    finally:
        house.down()


# Listens in the keeper's place, kills the daemon, greets the next one as a keeper, and notes what that tells it.
KEEPER = r'''
import json, os, signal, socket, sys
place, daemon, protocol, note = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
def pack(body, id=0):
    head = json.dumps({"id": id, "body": body}).encode()
    return len(head).to_bytes(4, "little") + head
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
os.unlink(place)
os.chdir(os.path.dirname(place))
s.bind("keeper.sock")
s.listen(8)
os.kill(daemon, signal.SIGKILL)
log = open(note, "wb", 0)
while True:
    peer, _ = s.accept()
    peer.send(pack({"hello": {"protocol": protocol, "oldest": 1, "pid": os.getpid(), "program": "x"}}))
    peer.send(pack({"batch": {"children": [], "more": False}}))
    while True:
        try:
            data = peer.recv(1 << 18)
        except OSError:
            break
        if not data:
            break
        log.write(data + b"\n")
'''


@area("hosted")
def a_keeper_of_its_own(t):
    """A hosted process that listens where the next daemon looks for its keeper, and so would run what you approved."""
    house = House(t).up()
    place, note, script = house.state + "/instances/main/keeper.sock", house.dir + "/told", house.dir + "/keeper.py"
    with open(script, "w") as f:
        f.write(KEEPER)
    try:
        hosted(house, "stays")
        before = house.record()["pid"]
        house("run", "-d", "--name", "posing", "--", shutil.which("python3"), script, place, str(before), "2", note)
        wait_for(lambda: os.path.exists(note) and not pid_alive(before), LONG, 0.1)
        house("up")
        try:
            house("run", "--", "echo", "told-in-confidence", timeout=20)
        except subprocess.TimeoutExpired:
            pass
        told = open(note, "rb").read() if os.path.exists(note) else b""
        t.stopped("a-keeper-of-its-own", b"told-in-confidence" not in told, told[-600:])
    finally:
        # Nobody finds the keeper whose place was taken; it would start the daemon again.
        os.kill(house.keepers[0], signal.SIGKILL)
        for pid in [int(d) for d in os.listdir("/proc") if d.isdigit() and script.encode() in cmdline(d)]:
            os.kill(pid, signal.SIGKILL)
        house.down()


# Stops the daemon, listens in its place and, if told so, in its keeper's; greets whoever comes, and notes what it is asked.
DAEMON = r'''
import json, os, signal, socket, sys, threading
place, daemon, note, keeper = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
os.kill(daemon, signal.SIGSTOP)
def kept(s):
    while True:
        peer, _ = s.accept()
        try:
            peer.recv(1 << 16)
            head = json.dumps({"id": 0, "body": {"daemon": {"pid": os.getpid()}}}).encode()
            peer.send(len(head).to_bytes(4, "little") + head)
        except OSError:
            pass
for at in keeper:
    os.unlink(at)
    os.chdir(os.path.dirname(at))
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind("keeper.sock")
    s.listen(8)
    threading.Thread(target=kept, args=(s,), daemon=True).start()
os.unlink(place)
s = socket.socket(socket.AF_UNIX)
s.bind(place)
s.listen(8)
log = open(note, "wb", 0)
def serve(peer):
    try:
        for line in peer.makefile("rb"):
            log.write(line)
            ask = json.loads(line)
            hello = {"version": 1, "program": "0", "instance": "main", "pid": daemon, "started": "2026-01-01T00:00:00Z"}
            peer.sendall(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": hello if ask["method"] == "instance.hello" else {}}).encode() + b"\n")
    except (OSError, ValueError):
        pass
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
'''


@area("hosted")
def a_daemon_of_its_own(t):
    """A hosted process that stops the daemon and listens in its place: it could show a question of its own, and ask for a password."""
    for name in ("a-daemon-of-its-own", "a-daemon-and-a-keeper-of-its-own"):
        house = House(t).up()
        note, script, daemon = house.dir + "/asked", house.dir + "/daemon.py", house.record()["pid"]
        with open(script, "w") as f:
            f.write(DAEMON)
        hosted(house, "stays")
        id = one_asked(house, "echo", "real")
        keeper = [house.state + "/instances/main/keeper.sock"] if "keeper" in name else []
        try:
            # Brought back by its keeper the daemon is its child, as an orphan of somebody hosted would be.
            os.kill(daemon, signal.SIGKILL)
            wait_for(lambda: house("ps")[0] == 0 and house.record()["pid"] != daemon, LONG, 0.1)
            daemon = house.record()["pid"]
            term = Terminal(house, "rules", "add", "--", "echo", "real")
            t.control("%s-the-real-one-is-believed" % name, term.wait(LONG) == 0, term.seen)
            house.good("run", "-d", "--name", "posing", "--", shutil.which("python3"), script, house.record()["native"], str(daemon), note, *keeper)
            wait_for(lambda: os.path.exists(note), LONG, 0.1)
            refused = []
            for words in (["approvals", "--list"], ["approve", id], ["deny", id], ["approvals"], ["approvals", "--unlock"], ["rules", "add", "--", "echo", "x"],
                          ["rules"], ["rules", "affirm"], ["config", "confirm", "daemon.core_dumps"]):
                term = Terminal(house, *words)
                code = term.wait(LONG)
                refused.append((words, code, b"nothing is decided" in term.seen and b"kill " in term.seen or term.seen))
            asked = open(note, "rb").read()
            t.stopped(name, not any(word in asked for word in (b"approval.", b"rule.", b"setting.", b"instance.status")), asked)
            t.ok("%s-and-is-named" % name, all(code not in (0, None) and said is True for _, code, said in refused), refused)
            now = Tmux(house, house.program, size=(200, 20))
            t.ok("%s-now-says-so" % name, wait_for(lambda: "nothing is decided" in now.screen(), LONG, 0.1), now.screen())
            now.close()
            t.stopped("%s-in-now" % name, b"approval." not in open(note, "rb").read() and b"hosted." not in open(note, "rb").read(), open(note, "rb").read())
        finally:
            for pid in [int(d) for d in os.listdir("/proc") if d.isdigit() and script.encode() in cmdline(d)]:
                os.kill(pid, signal.SIGKILL)
            os.kill(daemon, signal.SIGCONT)
            if keeper:
                # Nobody finds it any more.
                os.kill(house.keepers[0], signal.SIGKILL)
            house.down()


def one_asked(house, *stage):
    house.ask(list(stage))
    return house.waiting()[0]["id"]


def cmdline(pid):
    try:
        with open("/proc/%s/cmdline" % pid, "rb") as f:
            return f.read()
    except OSError:
        return b""
