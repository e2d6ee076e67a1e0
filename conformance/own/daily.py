"""The verbs of every day: what needs no id, names that are nobody else's, the end of a log, waiting, renaming, whose environment
agents get, what our processes are called, and what `up`, `status` and `doctor` say."""
import datetime
import json
import os
import re
import signal
import subprocess
import termios
import time

import approvals_kit
import sessions_kit
from cli import hosted, Terminal
from kit import Fail, catches
from lib import area, pid_alive, wait_for


def comm(pid):
    with open("/proc/%d/comm" % pid) as f:
        return f.read().strip()


def words(pid):
    with open("/proc/%d/cmdline" % pid, "rb") as f:
        return f.read().decode().split("\0")[:-1]


def environ(pid):
    with open("/proc/%d/environ" % pid, "rb") as f:
        return dict(pair.split("=", 1) for pair in f.read().decode().split("\0") if "=" in pair)


def restarted(house):
    """SIGKILL for the daemon; its keeper brings the next one."""
    before = house.daemon_pid()
    os.kill(before, signal.SIGKILL)
    if not wait_for(lambda: not pid_alive(before) and house("status")[0] == 0, 30, 0.1):
        raise Fail("no daemon after the kill")


@area("daily-decisions")
def decisions(t):
    house = approvals_kit.House(t).up()
    try:
        for verb in ("approve", "deny"):
            rc, o, e = house(verb)
            t.ok("%s-with-nothing-to-decide" % verb, rc == 4 and "nothing is waiting" in e, (rc, o, e))
        asker = house.ask(["echo", "one-4711"])
        house.waiting(1)
        only = house.pending()[0]["id"]
        screen = Terminal(house, "deny", "--message", "not now")
        t.eq("deny-takes-the-only-one", (screen.wait(), house.state_of(only)), (0, "denied"))
        t.ok("and-says-which", b"one-4711" in screen.seen and only.encode() in screen.seen, screen.seen[-300:])
        asker.answer()
        asker = house.ask(["echo", "two-4711"])
        house.waiting(1)
        screen = approvals_kit.Terminal(house, "approve")
        screen.until(b"[y/N]")
        t.ok("approve-shows-the-only-one", b"two-4711" in screen.seen, screen.seen[-400:])
        screen.press(b"y")
        t.eq("approve-takes-the-only-one", screen.wait(), 0)
        t.ok("and-it-ran", "two-4711" in json.dumps(asker.answer()))
        first, second = house.ask(["echo", "three"]), house.ask(["echo", "four"])
        rows = house.waiting(2)
        for verb in ("approve", "deny"):
            rc, o, e = house(verb)
            t.ok("%s-of-several-lists-them" % verb, rc == 2 and all(r["id"] in e for r in rows) and "three" in e and "four" in e, (rc, o, e))
        t.eq("and-decides-nothing", len(house.pending()), 2)
        screen = Terminal(house, "deny", rows[0]["id"])
        t.eq("one-that-is-named-is-meant", (screen.wait(), [r["id"] for r in house.pending()]), (0, [rows[1]["id"]]))
    finally:
        house.down()


@area("daily-names")
def names(t):
    house = sessions_kit.House(t)
    build = house.good("run", "-d", "--name", "build", "--", "sleep", "300").strip()
    rc, o, e = house("run", "-d", "--name", "build", "--", "true")
    t.ok("a-name-of-a-process-is-its-own", rc == 5 and build in e and "ostler kill build" in e and "--name" in e, (rc, o, e))
    rc, o, e = house("new", "echo", "--name", "build")
    t.ok("also-for-a-session", rc == 5 and build in e, (rc, o, e))
    fix = house.new("--name", "fix")
    for args in (["run", "-d", "--name", "fix", "--", "true"], ["new", "echo", "--name", "fix"], ["set", "build", "--name", "fix"],
                 ["run", "-d", "--name", fix, "--", "true"]):
        rc, o, e = house(*args)
        t.ok("a-name-of-a-session-is-its-own-%s-%d" % (args[0], len(args)), rc == 5 and fix in e, (rc, o, e))
    rc, o, e = house("set", "fix", "--name", "build")
    t.ok("a-session-does-not-get-it-later-either", rc == 5 and build in e, (rc, o, e))
    t.ok("a-name-of-ones-own-is-no-trouble", house("set", "fix", "--name", "fix")[0] == 0 and house("set", "build", "--name", "build")[0] == 0)
    restarted(house)
    rc, o, e = house("run", "-d", "--name", "build", "--", "true")
    t.ok("after-a-kill-too", rc == 5 and build in e, (rc, o, e))
    t.ok("a-process-is-renamed", "build -> old" in house.good("set", "build", "--name", "old"))
    t.eq("and-found-by-it", (house("logs", "old")[0], house("logs", "build")[0]), (0, 4))
    restarted(house)
    t.eq("also-by-the-next-daemon", [p["id"] for p in hosted(house, "old")], [build])
    house.good("run", "-d", "--name", "build", "--", "sleep", "300")
    t.eq("a-name-that-was-let-go-is-free", len(hosted(house, "build")), 1)
    rc, o, e = house("set", "build", "--model", "x")
    t.ok("a-process-has-only-a-name", rc == 2 and "only its name" in e, (rc, o, e))
    t.ok("a-name-is-taken-away", house("set", "build", "--name", "")[0] == 0 and hosted(house, "build") == [])
    house.good("kill", "old", "--wait")
    again = house.good("run", "-d", "--name", "old", "--", "sleep", "300").strip()
    t.ok("the-dead-give-theirs-back", again != build and [p["id"] for p in hosted(house, "old")] == [again])
    house.good("close", "fix")
    t.ok("and-so-do-closed-sessions", house("new", "echo", "--name", "fix")[0] == 0)
    many = [subprocess.Popen([house.program, "run", "-d", "--name", "race", "--", "sleep", "300"], env=house.env, cwd=house.dir,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(12)]
    codes = sorted([p.communicate(timeout=60) and p.returncode for p in many])
    t.eq("of-twelve-at-once-one-gets-it", (codes, len(hosted(house, "race"))), ([0] + [5] * 11, 1))
    many = [subprocess.Popen([house.program, "--json", "new", "echo", "--name", "made", "--key", "k2"], env=house.env, cwd=house.dir,
                             stdout=subprocess.PIPE) for _ in range(6)]
    ids = {json.loads(p.communicate(timeout=60)[0])["id"] for p in many}
    t.eq("the-same-key-at-once-is-one-session", len(ids), 1)
    key = ["run", "-d", "--name", "keyed", "--key", "k1", "--", "sleep", "300"]
    t.eq("the-same-key-again-is-the-same-process", house.good(*key), house.good(*key))


@area("daily-forget")
def forget(t):
    house = sessions_kit.House(t)
    house.good("run", "--name", "x", "--", "echo", "was-here")
    process = [p for p in house.json("ps", "-a") if p.get("name") == "x"][0]["id"]
    session = house.new("--name", "x")
    for state in ("open", "closed"):
        if state == "closed":
            house.good("close", session)
        rc, o, e = house("forget", "x")
        t.ok("never-guesses-%s" % state, rc == 2 and process in e and session in e, (rc, o, e))
        t.eq("and-deletes-neither-%s" % state, (house("logs", process)[0], bool(house.info(session))), (0, True))
    t.eq("the-id-says-which", (house("forget", session)[0], house("logs", "x")[1], house.info(session)), (0, "was-here\n", {}))
    t.eq("alone-the-name-is-enough", (house("forget", "x")[0], house("logs", process)[0]), (0, 4))


@area("daily-logs")
def logs(t):
    house = sessions_kit.House(t)
    gate = house.dir + "/gate"
    script = "for i in $(seq 1 3000); do echo line-$i; done; printf open; while [ ! -e %s ]; do sleep 0.05; done; echo; echo late; exit 3" % gate
    house.good("run", "-d", "--name", "talk", "--", "sh", "-c", script)
    wait_for(lambda: house("logs", "talk")[1].endswith("open"), 60, 0.1)
    t.eq("tail-is-the-last-lines", house.good("logs", "talk", "--tail", "3"), "line-2999\nline-3000\nopen")
    t.eq("tail-of-more-is-all", len(house.good("logs", "talk", "--tail", "9999").splitlines()), 3001)
    t.eq("tail-0-is-nothing", house.good("logs", "talk", "--tail", "0"), "")
    frames = [json.loads(line) for line in house.good("--json", "logs", "talk", "-n", "1").splitlines()]
    t.eq("json-has-the-same-end", [f["data"] for f in frames if "data" in f], ["b3Blbg=="])
    follow = subprocess.Popen([house.program, "logs", "talk", "-f", "--tail", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=house.env)
    first, moment = follow.stdout.read(4), datetime.datetime.now(datetime.timezone.utc)
    open(gate, "w").close()
    o, e = (text.decode() for text in follow.communicate(timeout=60))
    t.eq("follow-goes-on-from-there", (follow.returncode, first.decode() + o), (0, "open\nlate\n"))
    t.ok("follow-says-how-it-ended", "talk exited with code 3" in e, e)
    t.ok("without-follow-nothing-is-said", "exited" not in "".join(house("logs", "talk", "--tail", "1")[1:]))
    rc, o, e = house("logs", "talk", "--since", "1h")
    t.ok("since-how-long-ago", rc == 0 and o.startswith("line-1\n"), (rc, o[:50], e))
    t.ok("since-leaves-out-what-is-older", house.good("logs", "talk", "--since", "1ms") == "")
    t.eq("since-a-date", house.good("logs", "talk", "--since", moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")), "\nlate\n")
    t.ok("since-a-time-of-the-day", house.good("logs", "talk", "--since", "00:00:00") != "" or time.localtime().tm_hour == 0)
    t.eq("since-and-tail", house.good("logs", "talk", "--since", "1h", "--tail", "1"), "late\n")
    rc, o, e = house("logs", "talk", "--since", "soon")
    t.ok("since-nonsense-is-a-usage-error", rc == 2 and "10m" in e, (rc, e))
    house.good("run", "-d", "--name", "victim", "--", "sh", "-c", "echo here; sleep 300")
    follow = subprocess.Popen([house.program, "logs", "-f", "victim"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=house.env)
    follow.stdout.readline()
    house.good("kill", "victim", "--signal", "KILL")
    t.ok("and-by-which-signal", b"victim ended by SIGKILL" in follow.communicate(timeout=20)[1])


@area("daily-watch")
def watch(t):
    house = sessions_kit.House(t)
    id = house.new("--name", "talk")
    for text in ("uno", "due", "tre"):
        house.good("send", id, text)
    house.good("close", id)
    shown = {n: house.good("watch", "talk", "--tail", str(n)) for n in (0, 1, 2, 99)}
    t.ok("tail-0-is-only-what-comes", not any(word in shown[0] for word in ("uno", "due", "tre")), shown[0])
    t.ok("tail-1-is-the-last-exchange", "tre" in shown[1] and "due" not in shown[1], shown[1])
    t.ok("tail-2-is-two", "due" in shown[2] and "tre" in shown[2] and "uno" not in shown[2], shown[2])
    t.eq("tail-of-more-is-all", "uno" in shown[99], True)


@area("daily-wait")
def wait(t):
    house = sessions_kit.House(t)
    house.good("run", "-d", "--name", "bad", "--", "sh", "-c", "sleep 0.5; exit 3")
    house.good("run", "-d", "--name", "good", "--", "sleep", "0.3")
    house.good("run", "-d", "--name", "hit", "--", "sleep", "300")
    rc, o, e = house("wait", "bad")
    t.eq("ends-as-the-command-does", (rc, o), (3, "bad: exited with code 3\n"))
    t.eq("also-when-it-is-over", house("wait", "bad")[0], 3)
    t.eq("all-well-is-0", house("wait", "good")[0], 0)
    waiter = subprocess.Popen([house.program, "wait", "good", "hit", "bad"], stdout=subprocess.PIPE, env=house.env)
    time.sleep(0.5)
    t.eq("waits-for-all", waiter.poll(), None)
    restarted(house)
    rc, o, e = house("kill", "hit", "nobody")
    t.ok("kill-knows-all-names-first", rc == 4 and waiter.poll() is None, (rc, o, e))
    house.good("run", "-d", "--name", "hit2", "--", "sleep", "300")
    rc, o, e = house("kill", "hit", "hit2", "--wait")
    t.eq("kill-takes-several", (rc, len(o.splitlines())), (0, 2))
    said = waiter.communicate(timeout=20)[0].decode()
    t.eq("several-end-as-the-first-that-failed", (waiter.returncode, len(said.splitlines())), (128 + 15, 3))
    t.ok("and-each-is-told", "hit: ended by SIGTERM" in said and "bad: exited with code 3" in said, said)
    rows = [json.loads(line) for line in house("--json", "wait", "bad", "good")[1].replace("}\n{", "}\0{").split("\0") if line.strip()]
    t.eq("json-says-the-same", [(r["name"], r["code"]) for r in rows], [("bad", 3), ("good", 0)])
    id = house.new("--name", "talk")
    t.eq("a-session-that-rests", house("wait", "talk"), (0, "talk: done\n", ""))
    house.good("send", id, "--no-wait", "hello")
    t.eq("a-session-that-answers", house("wait", "talk")[0], 0)
    t.ok("and-has-answered", "hello" in "".join(house.texts(id)))
    rc, o, e = house("wait", "nothing-like-that")
    t.ok("nobody-is-waited-for", rc == 4 and "no process or session" in e, (rc, e))
    house.good("run", "-d", "--name", "long", "--", "sleep", "300")
    waiter = subprocess.Popen([house.program, "wait", "long"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=house.env)
    wait_for(lambda: catches(waiter.pid, signal.SIGINT), 20, 0.05)
    waiter.send_signal(signal.SIGINT)
    t.eq("ctrl-c-leaves-it", (waiter.wait(20), len(hosted(house, "long"))), (130, 1))


@area("daily-environment")
def environment(t):
    house = sessions_kit.House.__new__(sessions_kit.House)
    sessions_kit.Home.__init__(house, t)
    house.env["OF_DAEMON"] = "from-up"
    house.good("up")
    house.env["OF_DAEMON"], house.env["OF_CALLER"] = "changed", "from-here"
    id = house.new("--env", "GIVEN=1 2", "--env", "OF_CALLER", "--env", "NOT_SET")
    plain = house.new()
    for one in (id, plain):
        house.good("send", one, "hello")
    seen = [environ(next(p["pid"] for p in house.json("ps") if p["id"] == house.info(one)["process"])) for one in (id, plain)]
    t.eq("agents-get-the-environment-of-up", [e.get("OF_DAEMON") for e in seen], ["from-up", "from-up"])
    t.eq("and-what-env-says", [seen[0].get(k) for k in ("GIVEN", "OF_CALLER", "NOT_SET")], ["1 2", "from-here", None])
    t.eq("and-nothing-else-of-this-terminal", seen[1].get("OF_CALLER"), None)
    rc, o, e = house("new", "echo", "--env", "=x")
    t.ok("a-variable-has-a-name", rc == 2 and "name before `=`" in e, (rc, e))
    help = " ".join(house.good("new", "--help").split())
    t.ok("the-rule-is-in-the-help", "was started in" in help and "--env" in help and "login shell" in help)


FAKE = """#!/bin/sh
case "$1" in --version) echo 2.1.0;; --help) echo --input-format --output-format --permission-prompt-tool;; esac
"""


def with_agent(t, **variables):
    """A home with a program that passes for claude, and a daemon with these variables."""
    house = sessions_kit.House.__new__(sessions_kit.House)
    sessions_kit.Home.__init__(house, t)
    os.mkdir(house.dir + "/bin")
    with open(house.dir + "/bin/claude", "w") as f:
        f.write(FAKE)
    os.chmod(house.dir + "/bin/claude", 0o755)
    own = [p for p in house.env["PATH"].split(":") if not any(os.path.exists(p + "/" + a) for a in ("claude", "codex", "gemini", "opencode"))]
    house.env["PATH"] = ":".join([house.dir + "/bin"] + own)
    plain = dict(house.env)
    house.env.update(variables)
    up = house.good("up")
    house.env = plain
    return house, up


def doctor_rows(house):
    rc, o, e = house("--json", "doctor")
    return {row["check"]: row for row in json.loads(o)}


@area("daily-doctor")
def doctor(t):
    house, up = with_agent(t, ANTHROPIC_API_KEY="k-4711")
    rows = doctor_rows(house)
    t.eq("a-login-of-the-daemon-counts", (rows["claude"]["verdict"], "ANTHROPIC_API_KEY" in rows["claude"]["text"]), ("good", True))
    t.eq("not-installed-is-neither-good-nor-bad", (rows["codex"]["verdict"], rows["codex"]["text"]), ("absent", "not installed"))
    text = house("doctor")[1]
    t.ok("and-is-marked-as-such", any(line.startswith("-") and "codex" in line and "not installed" in line for line in text.splitlines()), text)
    t.ok("the-key-itself-is-not-shown", "k-4711" not in text + json.dumps(rows))
    t.ok("up-says-the-same", any("claude" in line and "logged in" in line and "not logged" not in line for line in up.splitlines()), up)
    other, up = with_agent(t)
    other.env["ANTHROPIC_API_KEY"] = "k-4711"
    rows = doctor_rows(other)
    t.ok("one-of-this-terminal-does-not", rows["claude"]["verdict"] == "weak" and "not logged in where ostler runs it" in rows["claude"]["text"], rows["claude"])
    t.ok("up-says-how-to-log-in", "not logged in: claude auth login" in up, up)
    other("down", "--kill")
    rows = doctor_rows(other)
    t.eq("without-a-daemon-it-is-this-terminal", (rows["claude"]["verdict"], rows["daemon"]["verdict"]), ("good", "absent"))


@area("daily-up")
def up(t):
    house, said = with_agent(t)
    lines = said.splitlines()
    t.ok("up-says-at-most-twelve-lines", len(lines) <= 12, said)
    t.ok("what-to-try", "ostler new echo -m hello" in said and "what needs you, what runs" in said, said)
    t.ok("no-socket-but-where-they-are", ".sock" not in said and "ostler status --connect" in said, said)
    t.ok("no-tunnel-for-who-sits-here", "ssh -L" not in said)
    doors = house.json("up")["doors"]
    shown = house.good("status", "--connect")
    t.ok("connect-has-every-socket", len(doors) >= 4 and all(d["address"] in shown and d["name"] in shown for d in doors), shown)
    house.env["SSH_CONNECTION"], house.env["USER"] = "10.1.1.2 4000 10.1.1.1 22", "ada"
    ports = [d["address"].rsplit(":", 1)[1] for d in doors if d["address"].startswith("127.0.0.1:")]
    again = house.good("up")
    tunnel = "ssh %s ada@10.1.1.1" % " ".join("-L %s:127.0.0.1:%s" % (port, port) for port in ports)
    t.ok("a-tunnel-for-who-came-by-ssh", len(ports) == 3 and tunnel in again, again)
    t.ok("still-twelve-lines", len(again.splitlines()) <= 12, again)
    t.ok("restart-is-brief", len(house.good("restart").splitlines()) <= 3)


@area("daily-shown-as")
def shown_as(t):
    house = approvals_kit.House(t).up()
    try:
        status = house.json("status")[0]
        t.eq("the-daemon", (comm(status["pid"]), words(status["pid"])[0]), ("ostler", "ostler"))
        t.eq("the-keeper", (comm(status["keeper_pid"]), words(status["keeper_pid"])), ("ostler-keeper", ["ostler-keeper"]))
        id = house.json("new", "echo")["id"]
        house.good("send", id, "hello")
        pid = next(p["pid"] for p in house.json("ps") if p["program"].endswith("exe") or "ostler" in p["program"])
        t.eq("the-built-in-agent", (comm(pid), words(pid)[0]), ("ostler-echo", "ostler-echo"))
        house.ask(["sleep", "1"])
        house.waiting(1)
        keeper = status["keeper_pid"]
        below = lambda: [int(p) for p in open("/proc/%d/task/%d/children" % (keeper, keeper)).read().split()]
        runner = lambda: [p for p in below() if "__stages" in words(p)]
        t.ok("what-waits-to-run-a-command", wait_for(lambda: runner() and comm(runner()[0]) == "ostler-run", 10, 0.1), [words(p) for p in below()])
        t.ok("by-its-words-too", runner() and words(runner()[0])[0] == "ostler-run", None)
        restarted(house)
        again = house.json("status")[0]["pid"]
        t.ok("one-that-was-brought-back", comm(again).startswith("ostler"), comm(again))
        house.good("restart")
        again = house.json("status")[0]
        t.eq("one-that-took-over", (comm(again["pid"]), comm(again["keeper_pid"])), ("ostler", "ostler-keeper"))
    finally:
        house.down()
    d = t.daemon()
    t.ok("one-that-stands-in-begins-so", comm(d.pid).startswith("ostler"), comm(d.pid))
    t.ok("and-keeps-its-words", "-serve" in words(d.pid) and os.path.basename(words(d.pid)[0]) == "claustrum", words(d.pid))


@area("daily-come-back")
def come_back(t):
    """`attach` of a session begins with a prompt, however many records its answer has: each word is one."""
    house = sessions_kit.House(t)
    talk = house.new("--name", "talk")
    house.good("send", "talk", "what came before")
    said = ["word%d" % number for number in range(200)]
    house.good("send", "talk", " ".join(said))
    screen = Terminal(house, "attach", "talk")
    screen.until(b"done (200 tokens in")
    words = re.findall(r"word\d+", screen.seen.decode())
    t.eq("the-prompt-and-all-of-its-answer", [words.count(word) for word in said], [2] * 200)
    t.ok("and-what-was-asked-before", b"what came before" in screen.seen, screen.seen[:300])
    screen.until(b"\x1b[?2004h")
    screen.type(b"\x1b[200~pasted one\rpasted two\x1b[201~")
    screen.until("pasted one\u23cepasted two".encode())
    screen.type(b"\r")
    screen.until(b"done (4 tokens in")
    prompts = [event["blocks"] for event in house.events(talk) if event["type"] == "prompt"]
    t.eq("what-is-pasted-is-one-prompt", [prompts[2:], len(prompts)], [[[{"type": "text", "text": "pasted one\npasted two"}]], 3])
    screen.type(b"\x1c")
    t.eq("the-quit-key-leaves", screen.wait(), 131)
    t.ok("and-says-how-to-come-back", b"ostler attach talk" in screen.seen, screen.seen[-300:])
    flags = termios.tcgetattr(screen.fd)[3]
    t.ok("the-terminal-is-as-it-was", flags & termios.ECHO and flags & termios.ICANON, flags)
    house.good("send", "talk", "SLOW:1000", "--no-wait")
    for number in range(3):
        house.good("send", "talk", "later-%d" % number, "--no-wait")
    screen = Terminal(house, "attach", "talk")
    screen.until(b"later-2")
    t.ok("what-runs-is-shown-before-what-waits", b"SLOW:1000" in screen.seen, screen.seen[-300:])
    screen.type(b"\x04")
    t.eq("leaving", screen.wait(), 0)


@area("daily-who-asks")
def who_asks(t):
    """A request is meant by the session that asks, too."""
    house = sessions_kit.House(t)
    one, two = house.new("--name", "one"), house.new("--name", "two")
    for name in ("one", "two"):
        house.good("send", name, "ASK:%s" % name, "--no-wait")
    first, second = house.waiting(one), house.waiting(two)
    rc, o, e = house("send", "one", "later", "--no-wait")
    t.ok("what-is-queued-behind-it-says-so", rc == 0 and "one waits for your answer first: ostler approve %s" % first in e, (rc, o, e))
    screen = approvals_kit.Terminal(house, "deny", "one")
    t.eq("deny-takes-what-the-session-asks", screen.wait(), 0)
    t.ok("and-says-what-that-was", first.encode() in screen.seen and b"pretend to one" in screen.seen, screen.seen)
    house.until(one, "idle")
    t.eq("the-other-still-waits", house.info(two)["approvals"], [second])
    rc, o, e = house("approve", "one")
    t.ok("who-asks-nothing-is-told-so", rc == 4 and "one asks nothing" in e, (rc, o, e))
    rc, o, e = house("approve", "nobody")
    t.ok("who-is-nobody-too", rc == 4 and "no request `nobody`" in e, (rc, o, e))
    screen = approvals_kit.Terminal(house, "approve", "two")
    screen.press(b"y")
    t.eq("approve-takes-what-the-session-asks", screen.wait(), 0)
    house.until(two, "idle")


@area("daily-mistakes")
def mistakes(t):
    """What went wrong is named, and what to do."""
    house = sessions_kit.House(t)
    rc, o, e = house("version")
    t.ok("version-is-a-flag", rc == 2 and "'--version'" in e, (rc, o, e))
    screen = Terminal(house, "send", "nobody")
    t.ok("nobody-types-a-prompt-for-nobody", screen.wait(20) == 4 and b"no session `nobody`" in screen.seen and b"type" not in screen.seen, screen.seen)
    p = subprocess.run(["sh", "-c", '"$0" run --name loud -- yes | head -1', house.program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=house.env)
    t.ok("what-goes-on-without-a-reader-is-named", p.stdout == b"y\n" and b"left loud running; to end it: ostler kill loud" in p.stderr, p)
    house.good("kill", "loud", "--wait")
    p = subprocess.run(["sh", "-c", '"$0" attach loud | head -1', house.program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=house.env)
    t.eq("what-has-ended-is-not", (p.stdout, p.stderr), (b"y\n", b""))
    with open("/dev/full", "w") as full:
        p = subprocess.run([house.program, "status"], stdout=full, stderr=subprocess.PIPE, env=house.env)
    t.ok("no-room-for-the-output", p.returncode == 1 and b"cannot write to stdout: No space left" in p.stderr, p)
    for name, variable in (("OSTLER_STATE", "/proc/nowhere"), ("HOME", "")):
        before, house.env[name] = house.env.get(name), variable
        rc, o, e = house("up")
        t.ok("without-a-place-%s" % name, rc == 1 and "set " in e and "OSTLER_STATE" in e.split("set ")[-1], (rc, o, e))
        house.env.pop(name) if before is None else house.env.update({name: before})
