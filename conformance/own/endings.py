"""Endings told truthfully: keeper and daemon killed at once, spawns caught by the death of a keeper, launchers, damage."""
import contextlib
import json
import os
import signal
import subprocess
import threading
import time

import sudo_kit
from cli import Home, Terminal
from kit import end, give_to_nobody, hold, kill9, parent_of, raw_socket, request, unprivileged, Fail
from lib import area, wait_for
from sessions_kit import House

# Goes on whatever becomes of its pipes, and says what it does in a file.
STUBBORN = "trap '' PIPE HUP; echo before; n=0; while :; do n=$((n+1)); echo tick-$n 2>/dev/null; echo $n > %s; sleep 0.05; done"


SECRET = "hush-4711"


class Poor(Home):
    """The home of an ordinary user, to whom no control group is delegated."""

    def __call__(self, *args, stdin=b"", timeout=60):
        p = subprocess.run(unprivileged([self.program] + list(args)), input=stdin, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, env=self.env, cwd=self.dir, timeout=timeout)
        return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")


def poor(t):
    home = Poor(t)
    give_to_nobody(home.dir)
    return home


def processes(home):
    return {p.get("name"): p for p in home.json("ps", "-a")}


def with_pid(home, pid):
    """The one that runs as this, by whatever name."""
    return next((p for p in home.json("ps", "-a") if p["state"] == "running" and p.get("pid") == pid), {})


def ended(pid):
    """Gone, or dead and waiting for whoever is the parent here."""
    try:
        return open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def kill_both(home, child):
    """SIGKILL for the keeper and the daemon, at once as far as both can tell: neither has a moment to replace the other."""
    keeper, daemon = parent_of(child), home.daemon_pid()
    hold(daemon)
    os.kill(keeper, signal.SIGKILL)
    os.kill(daemon, signal.SIGKILL)
    if not wait_for(lambda: ended(keeper) and ended(daemon), 10):
        raise Fail("keeper %d or daemon %d survived SIGKILL" % (keeper, daemon))


def stubborn(home, name):
    note = os.path.join(home.dir, name + ".note")
    home.good("run", "-d", "--name", name, "sh", "-c", STUBBORN % note)
    if not wait_for(lambda: os.path.exists(note), 10):
        raise Fail("%s does not run" % name)
    return processes(home)[name]["pid"], note


def both_killed(t, home, who):
    home.good("up")
    pid, note = stubborn(home, "stubborn")
    # Without its mark: all that is left to know it by is its number and when it was started.
    home.good("run", "-d", "--name", "bare", "env", "-i", "sleep", "300")
    bare = processes(home)["bare"]["pid"]
    home.good("run", "-d", "--name", "quick", "sh", "-c", "echo said; exit 3")
    # Of these nothing is on the disk but what the kernel calls them.
    home.good("run", "-d", "--private", "--name", "hush", "sh", "-c", "echo %s-$((40+2)); exec sleep 300" % SECRET)
    home.good("run", "-d", "--private", "--name", "hush-bare", "env", "-i", "sleep", "300")
    hush = [processes(home)[name]["pid"] for name in ("hush", "hush-bare")]
    wait_for(lambda: SECRET in home("logs", "hush")[1], 10)
    wait_for(lambda: processes(home)["quick"]["state"] == "exited", 10)
    kill_both(home, pid)
    t.ok(who + "-the-child-lives", not any(ended(p) for p in [pid, bare] + hush))
    rc, _, said = home("ps")
    t.ok(who + "-what-lives-without-a-daemon-is-counted", rc != 0 and "4 processes" in said, said)
    home.good("up")
    now = processes(home)
    t.eq(who + "-is-found-and-listed-as-alive", (now["stubborn"]["state"], now["stubborn"]["pid"]), ("running", pid))
    t.eq(who + "-is-found-without-its-mark", (now["bare"]["state"], now["bare"]["pid"]), ("running", bare))
    found = [with_pid(home, p) for p in hush]
    t.ok(who + "-private-ones-are-found-too", all(found), found)
    t.eq(who + "-what-they-said-is-on-no-disk", home.holds((SECRET + "-42").encode()), [])
    t.eq(who + "-an-end-that-was-seen-stays-what-it-was", now["quick"].get("exit", {}).get("code"), 3)
    t.ok(who + "-ps-says-that-it-has-no-pipes", "output lost" in home.good("ps"), home.good("ps"))
    rc, out, err = home("logs", "stubborn")
    t.ok(who + "-its-output-until-then-is-there", rc == 0 and out.startswith("before\n"), (rc, out[:80], err))
    t.ok(who + "-what-is-lost-is-said-where-it-is-read", "lost" in err, err)
    rc, out, err = home("logs", "quick")
    t.ok(who + "-nothing-is-said-to-be-lost-of-what-was-whole", (rc, out, err) == (0, "said\n", ""), (rc, out, err))
    if "pid" in now["stubborn"]:
        n = open(note).read()
        t.ok(who + "-nothing-has-stopped-it", wait_for(lambda: open(note).read() not in (n, ""), 20))
    home("kill", "stubborn", "--signal", "KILL")
    t.ok(who + "-it-can-be-killed", wait_for(lambda: ended(pid), 10))
    wait_for(lambda: processes(home)["stubborn"]["state"] == "exited", 10)
    t.eq(who + "-then-its-end-is-told", processes(home)["stubborn"]["state"], "exited")
    if found[0]:
        home("kill", found[0]["id"], "--signal", "KILL")
        t.ok(who + "-a-private-one-can-be-killed", wait_for(lambda: ended(hush[0]), 10))
        # And found again by the daemon after this one, which has a keeper to ask.
        home.good("restart")
        t.eq(who + "-and-the-other-is-still-there", with_pid(home, hush[1]).get("id"), found[1].get("id"))
    rc, out, err = home("down", "--kill")
    t.ok(who + "-down-kill-ends-the-rest", rc == 0 and wait_for(lambda: ended(bare) and ended(hush[1]), 10), (rc, out, err))
    end(pid, bare, *hush)


@area("stopped-keeper")
def stopped_keeper(t):
    """Whoever starts a command while nothing can be started is told so after a moment, and what to do."""
    home = Home(t)
    home.good("up")
    home.good("run", "-d", "--name", "held", "sleep", "300")
    keeper = parent_of(processes(home)["held"]["pid"])
    os.kill(keeper, signal.SIGSTOP)
    try:
        waiting = subprocess.Popen([home.program, "run", "sh", "-c", "echo begun"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=home.env, cwd=home.dir)
        said = waiting.stderr.readline().decode()
        t.ok("it-is-said-who-is-stopped-and-what-to-do", "not started yet" in said and "kill -CONT %d" % keeper in said, said)
    finally:
        os.kill(keeper, signal.SIGCONT)
    out, err = waiting.communicate(timeout=60)
    t.eq("then-it-runs", (waiting.returncode, out), (0, b"begun\n"))
    home.good("down", "--kill")


@area("both-killed")
def both_killed_area(t):
    both_killed(t, Home(t), "root" if os.geteuid() == 0 else "user")
    if os.geteuid() == 0:
        both_killed(t, poor(t), "ordinary-user")


@area("both-killed-attached")
def both_killed_attached(t):
    """Whoever is attached is told on lines of their own, although the terminal is the program's."""
    home = Home(t)
    home.good("up")
    screen = Terminal(home, "run", "-t", "--name", "sh", "--", "sh", "-c", "echo rea''dy; exec sleep 300")
    screen.until(b"ready")
    kill_both(home, processes(home)["sh"]["pid"])
    screen.until(b"reconnecting")
    home.good("up")
    screen.until(b"killed at once")
    screen.wait()
    told = screen.seen[screen.seen.index(b"reconnecting"):].split(b"\n")[:-1]
    t.ok("what-was-lost-is-not-denied", b"reconnected; output was lost" in screen.seen and b"nothing was lost" not in screen.seen, told)
    t.ok("each-line-begins-at-the-left", told and all(line.endswith(b"\r") for line in told), told)


@area("both-killed-down")
def both_killed_down(t):
    home = Home(t)
    home.good("up")
    pid, _ = stubborn(home, "stubborn")
    kill_both(home, pid)
    rc, out, err = home("down", "--kill")
    t.ok("down-kill-without-a-daemon-ends-it", rc == 0 and wait_for(lambda: ended(pid), 10), (rc, out, err))
    t.ok("and-says-so", "1 process ended" in out, out)
    home("down", "--kill")
    end(pid)


def next_keeper(home, before):
    """The keeper that lives now, if it is another one than before."""
    rc, out, _ = home("--json", "status")
    pid = json.loads(out)[0].get("keeper_pid") if rc == 0 else None
    return pid if pid and pid != before and not ended(pid) else None


@area("spawn-in-flight")
def spawn_in_flight(t):
    """The keeper is killed again and again while things are started: each answer is a process, or says what is not known."""
    home = Home(t)
    home.good("up")
    said, stop = [], threading.Event()

    def starter(worker):
        n = 0
        while not stop.is_set():
            n += 1
            key = "%d-%d" % (worker, n)
            mark = os.path.join(home.dir, "ran-" + key)
            command = ("run", "-d", "--name", "n" + key, "--key", "k" + key, "sh", "-c", "echo x >> " + mark)
            rc, out, err = home(*command)
            said.append((key, mark, rc, out, err, command))

    home.good("run", "-d", "--name", "holder", "sleep", "600")
    holder = processes(home)["holder"]["pid"]
    workers = [threading.Thread(target=starter, args=(w,)) for w in range(4)]
    for w in workers:
        w.start()
    kills, keeper = 0, parent_of(holder)
    # On a busy machine a keeper is back sooner than a command line has started.
    while kills < 25 or (len(said) <= 25 and kills < 250):
        os.kill(keeper, signal.SIGKILL)
        kills += 1
        if not wait_for(lambda: next_keeper(home, keeper), 30):
            raise Fail("no keeper took the place of %d" % keeper)
        keeper = next_keeper(home, keeper)
    stop.set()
    for w in workers:
        w.join()
    bad = [s for s in said if s[2] != 0 and "may have run" not in s[4]]
    t.ok("no-answer-is-a-panic", not [s for s in said if "panic" in s[4] or "after complete" in s[4]], bad[:3])
    t.ok("each-spawn-succeeds-or-says-that-it-is-not-known", not bad, bad[:3])
    unsure = [s for s in said if s[2] != 0]
    known = processes(home)
    t.ok("what-is-not-known-is-listed", all("n" + s[0] in known for s in unsure), [s[0] for s in unsure])
    # Under its key each is found again, with the same answer, and nothing is started.
    other = [(s[:5], again) for s in said for again in [home(*s[5])]
             if again[:2] != s[2:4] or (s[2] != 0 and "may have run" not in again[2])]
    t.eq("the-same-key-gets-the-same-answer", other[:3], [])
    time.sleep(1)
    twice = [s for s in said if os.path.exists(s[1]) and open(s[1]).read() != "x\n"]
    t.ok("nothing-ran-twice", not twice, twice[:3])
    never = [s for s in said if s[2] == 0 and not wait_for(lambda: os.path.exists(s[1]), 20)]
    t.ok("what-was-answered-ran", not never, never[:3])
    t.rec("spawns", len(said) > 25, "%d spawns, %d unsure, %d kills" % (len(said), len(unsure), kills))
    home("down", "--kill")


@area("spawn-at-sigterm")
def spawn_at_sigterm(t):
    """SIGTERM in the middle of many spawns: each is answered with a process or with words that mean something."""
    said, left, kept = b"", [], []
    for attempt in range(16):
        d = t.daemon()
        keeper = parent_of(d.conn().call("process.spawn", {"id": "one", "command": "sleep", "args": ["300"], "wantPid": True})["result"]["pid"])
        # A time that nobody else sleeps for.
        mark = "300.0%d%02d" % (os.getpid(), attempt)
        command = {"command": "sleep", "args": [mark]} if attempt % 2 else {"command": "true"}
        socks = [raw_socket(d.sock) for _ in range(10)]
        for k, s in enumerate(socks):
            s.sendall(b"".join(request(n, "process.spawn", dict(command, id="s%d-%d" % (k, n))) for n in range(20)))
        # At another moment each time.
        time.sleep(0.003 * attempt)
        os.kill(d.pid, signal.SIGTERM)
        said += b"".join(answers(s) for s in socks)
        if not wait_for(lambda: ended(d.pid), 20):
            raise Fail("the daemon did not end")
        left += [pid for pid in marked(mark) if not wait_for(lambda: ended(pid), 20)]
        # It holds nothing that anybody could ask for: not even the end of what ran to its end.
        kept += [keeper] if not wait_for(lambda: ended(keeper), 20) else []
    bad = [w for w in (b"panic", b"after complete", b"cancelled") if w in said]
    t.ok("no-answer-is-an-accident", not bad, bad)
    t.ok("some-were-started", b'"success":true' in said, said[-300:])
    t.ok("some-were-refused-by-name", b"not started: ostler is stopping" in said, said[-300:])
    t.ok("nothing-that-began-then-lives-on", not left, left)
    t.ok("no-keeper-stays", not kept, kept)
    end(*left, *kept)


def marked(text):
    """Processes with this in their command line."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if text.encode() in open("/proc/%s/cmdline" % name, "rb").read():
                found.append(int(name))
        except OSError:
            pass
    return found


def answers(s):
    """Everything until the other side is gone, however it goes."""
    data = b""
    try:
        while piece := s.recv(1 << 18):
            data += piece
    except ConnectionResetError:
        pass
    return data


@area("damaged-index")
def damaged_index(t):
    """One flipped record costs its frame, and that is said where it is missing."""
    home = Home(t)
    home.good("up")
    home.good("run", "-d", "--name", "lines", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo line-$i; sleep 0.05; done")
    wait_for(lambda: processes(home)["lines"]["state"] == "exited", 20)
    about = processes(home)["lines"]
    home.good("down", "--kill")
    path = os.path.join(home.state, "instances", "main", "procs", about["id"], "idx")
    with open(path, "r+b") as f:
        f.seek(2 * 32 + 3)
        byte = f.read(1)
        f.seek(2 * 32 + 3)
        f.write(bytes([byte[0] ^ 4]))
    home.good("up")
    rc, out, err = home("logs", "lines")
    got = [l for l in out.split("\n") if l]
    t.eq("it-costs-one-frame", (rc, got), (0, ["line-%d" % i for i in (1, 2, 4, 5, 6, 7, 8)]))
    t.ok("and-that-is-said", "damaged" in err, err)
    home.good("down", "--kill")


@area("damaged-events")
def damaged_events(t):
    """The same for a conversation: what was said before and after is there, and it goes on."""
    house = House(t)
    id = house.new("--name", "talk")
    for word in ("one", "two", "three"):
        house.good("send", id, word)
    records = house.records(id)
    # In the second answer: a piece of text that nothing else depends on.
    said = [r["record"] for r in records if any(e["type"] == "text" for e in r["events"])]
    house.good("down", "--kill")
    folder = os.path.join(house.state, "instances", "main", "sessions", id)
    with open(os.path.join(folder, "events.idx"), "r+b") as f:
        f.seek((said[1] - 1) * 32 + 9)
        byte = f.read(1)
        f.seek(-1, 1)
        f.write(bytes([byte[0] ^ 16]))
    os.unlink(os.path.join(folder, "snapshot.json"))
    house.good("up")
    rc, out, err = house("--json", "export", id)
    now = json.loads(out)["records"] if rc == 0 else []
    whole = {r["record"]: r for r in records}
    t.eq("it-costs-one-record", [r for r in now if r["record"] <= len(records)], [whole[n] for n in sorted(whole) if n != said[1]])
    t.ok("and-that-is-said", "missing" in err and "damaged" in err, err)
    rc, out, err = house("send", id, "four")
    t.ok("it-goes-on", rc == 0 and "four" in out, (rc, out, err))
    house.good("down", "--kill")


@area("left-behind")
def left_behind(t):
    """A stand-in that was killed leaves a keeper that holds nothing: it goes, and so does a runner that waits for its word."""
    d = t.daemon()
    c = d.conn()
    pid = c.call("process.spawn", {"id": "one", "command": "sleep", "args": ["300"], "wantPid": True})["result"]["pid"]
    keeper = parent_of(pid)
    c.call("process.killAndWait", {"id": "one"})
    if os.geteuid() == 0:
        # An end that the daemon has not taken is something to hold.
        wait_for(lambda: not pipes_of(keeper), 20)
        kill9(d)
        t.ok("a-keeper-that-holds-nothing-goes", wait_for(lambda: ended(keeper), 60), keeper)
    else:
        t.skip("a-keeper-that-holds-nothing-goes", "only root sees when it holds nothing")
    home = sudo_kit.Home(t)
    try:
        home.serve(sudo_kit.ours(t))
        asker = subprocess.Popen(sudo_kit.ours(t)("sudo-request", "true"), env=home.env, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found = wait_for(lambda: runners(home), 20)
        t.ok("a-runner-waits-while-a-person-reads", found)
        waiting = runners(home)
        keepers = [parent_of(pid) for pid in waiting]
        os.kill(home.pty.pid, signal.SIGKILL)
        t.ok("a-runner-whose-daemon-is-gone-leaves", wait_for(lambda: all(ended(pid) for pid in waiting), 60), waiting)
        t.ok("and-its-keeper-after-it", wait_for(lambda: all(ended(pid) for pid in keepers), 60), keepers)
        asker.kill()
        asker.wait()
        end(*waiting, *keepers)
    finally:
        home.close()


def pipes_of(pid):
    found = []
    for entry in os.scandir("/proc/%d/fd" % pid):
        # Some are closed meanwhile.
        with contextlib.suppress(OSError):
            found.append(os.readlink(entry.path))
    return [link for link in found if link.startswith("pipe:")]


def runners(home):
    """Runners of commands, of this home."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = open("/proc/%s/cmdline" % name, "rb").read()
        except OSError:
            continue
        if b"__stages" in line and home.dir.encode() in line:
            found.append(int(name))
    return found
