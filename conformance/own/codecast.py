"""The codecast door beyond its document: who may come in, what survives, what is never lost, and what nobody can hold up."""
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time

from codecast_kit import LONG, kinds, partials, running, suite, texts
from cli import Home
from kit import proc_bytes
from lib import area, pid_alive, wait_for

HEALTH = b'{"method":"health.check"}'


def as_nobody(work):
    """What `work` gives back when another user runs it, as text."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(out)
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.write(into, str(work()).encode())
        finally:
            os._exit(0)
    os.close(into)
    said = b""
    while piece := os.read(out, 65536):
        said += piece
    os.close(out)
    os.waitpid(child, 0)
    return said.decode()


@area("codecast-users")
def users(t):
    with running(t) as d:
        def ask():
            try:
                return d.rpc.post(HEALTH, timeout=LONG)[0]
            except (OSError, http.client.HTTPException) as e:
                return "refused: %s" % type(e).__name__
        t.eq("our-own-user-is-served", ask(), 200)
        if os.geteuid() != 0:
            return t.skip("another-user-is-refused", "needs root to become another user")
        said = as_nobody(ask)
        t.ok("another-user-is-refused", said.startswith("refused"), said)
        t.eq("and-the-daemon-goes-on", ask(), 200)
        body = json.dumps({"method": "session.create", "params": {"path": d.home}}).encode()
        request = b"POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

        def flee():
            """Sends its requests and is gone before anybody looks: a socket without an owner is listed as root's."""
            for _ in range(50):
                with socket.create_connection(("127.0.0.1", d.port)) as s:
                    s.sendall(request)
            return "done"
        t.eq("one-that-flees", as_nobody(flee), "done")
        t.eq("is-not-taken-for-root", (ask(), d.rpc.ok("session.list")["sessions"]), (200, []))


@area("codecast-headers")
def headers(t):
    with running(t) as d:
        def status(**more):
            pairs = {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in more.items()}}
            return d.rpc.post(HEALTH, headers=pairs)[0]
        t.eq("foreign-host", status(Host="evil.example:%d" % d.port), 403)
        t.eq("host-through-a-tunnel", status(Host="127.0.0.1:19100"), 200)
        t.eq("localhost-by-name", status(Host="localhost:%d" % d.port), 200)
        t.eq("foreign-origin", status(Origin="https://evil.example"), 403)
        t.eq("origin-of-another-port", status(Origin="http://127.0.0.1:3000"), 403)
        t.eq("null-origin", status(Origin="null"), 403)
        for name in ("Forwarded", "X-Forwarded-For", "X-Real-IP"):
            t.eq("forwarded-%s" % name.lower(), d.rpc.post(HEALTH, headers={"Content-Type": "application/json", name: "1.2.3.4"})[0], 403)
        body = HEALTH

        def raw(target, *lines):
            """The status of a request whose first lines are these, to the letter."""
            with socket.create_connection(("127.0.0.1", d.port), 20) as s:
                rest = ("Content-Type: application/json", "Content-Length: %d" % len(body), "Connection: close", "", "")
                s.sendall("\r\n".join(("POST %s HTTP/1.1" % target, *lines, *rest)).encode() + body)
                return int(s.makefile("rb").readline().split()[1])
        t.eq("spelled-out", raw("/rpc", "Host: localhost"), 200)
        t.eq("no-host", raw("/rpc"), 400)
        t.eq("two-hosts", raw("/rpc", "Host: localhost", "Host: localhost"), 400)
        t.eq("another-host-in-the-first-line", raw("http://evil.example/rpc", "Host: localhost"), 400)
        t.eq("the-same-host-in-the-first-line", raw("http://localhost/rpc", "Host: localhost"), 200)
        t.eq("two-origins", raw("/rpc", "Host: localhost", "Origin: http://localhost", "Origin: https://evil.example"), 403)
        with socket.create_connection(("127.0.0.1", d.port), 20) as slow:
            slow.sendall(b"POST /rpc HTTP/1.1\r\nHost: loc")
            t.eq("headers-that-do-not-come-are-not-waited-for", slow.recv(1000), b"")
        t.eq("no-content-type", d.rpc.post(HEALTH, headers={})[0], 415)
        t.eq("a-form-of-a-web-page", status(Content_Type="text/plain"), 415)
        t.eq("a-body-that-is-too-large", status(Content_Length=str(64 << 20)), 413)
        for name, length in (("at-once", "Content-Length: %d" % (16 << 20)), ("in-pieces", "Transfer-Encoding: chunked")):
            # Looks for an answer when it has said all, as most do.
            with socket.create_connection(("127.0.0.1", d.port), 20) as s:
                try:
                    s.sendall(("POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\n\r\n" % length).encode())
                    piece = b"x" * (16 << 20)
                    s.sendall(piece if name == "at-once" else b"%x\r\n%s\r\n0\r\n\r\n" % (len(piece), piece))
                    said = s.makefile("rb").readline().split()[1]
                except (OSError, IndexError) as e:
                    said = repr(e)
            t.eq("who-says-all-of-it-%s-hears-so" % name, said, b"413")
        answer = json.loads(d.rpc.post(HEALTH)[2])
        t.eq("health-has-ok-beside-its-result-and-no-version-there", (answer.get("ok"), "version" in answer), (True, False))
        t.eq("nothing-else-has", "ok" in json.loads(d.rpc.post({"method": "session.list"})[2]), False)
        for value in (7, {"a": [1]}, True, 1.5):
            t.eq("id-%s" % type(value).__name__, json.loads(d.rpc.post({"method": "health.check", "id": value})[2])["id"], value)


@area("codecast-start")
def start(t):
    def run(*args, **env):
        base = {k: v for k, v in os.environ.items() if not k.startswith(("DAEMON_", "OSTLER_"))}
        return subprocess.run([t.ostler(), "as", "codecast-daemon", *args], env={**base, "HOME": t.tmp(), **env}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LONG)
    r = run("--version")
    t.eq("version", (r.returncode, r.stdout), (0, "codecast-daemon 0.3.2\n"))
    t.eq("version-is-a-setting", run("-V", OSTLER_CODECAST_VERSION="9.8.7").stdout, "codecast-daemon 9.8.7\n")
    r = run(DAEMON_BIND="not-an-address")
    t.ok("a-bad-address-is-named", r.returncode == 1 and "DAEMON_BIND" in r.stderr and "not-an-address" in r.stderr and "panicked" not in r.stderr, r)
    with running(t, env={"OSTLER_CODECAST_VERSION": "1.2.3"}) as d:
        t.eq("the-version-is-reported", d.rpc.ok("health.check")["version"], "1.2.3")
        t.eq("the-port-is-said", open(d.stdout_path).read(), "DAEMON_PORT=%d\n" % d.port)
        t.eq("the-port-file-has-no-line-end", open(d.home + "/.codecast/daemon.port").read(), str(d.port))
        session = d.new(cli_type="echo")
        stream = d.send(session, "SLOW:20 a")
        stream.wait_type("partial", LONG)
        # One real client kills whatever a search for the daemon's name finds.
        found = subprocess.run(["pgrep", "-f", "codecast-daemon"], stdout=subprocess.PIPE, text=True).stdout.split()
        ours = [pid for pid in found if d.home.encode() in proc_bytes(int(pid), "environ")]
        t.eq("a-search-for-its-name-finds-the-daemon-alone", ours, [str(d.proc.pid)])
        stream.finish(LONG)
        open(d.home + "/.codecast/tokens.yaml", "w").write("tokens: [\n")
        r = run(HOME=d.home, DAEMON_BIND="0.0.0.0", DAEMON_PORT=str(d.port))
        t.ok("one-that-could-not-serve-says-so", r.returncode == 1 and "tokens.yaml" in r.stderr, r)
        t.eq("and-leaves-the-living-one-alone", (d.proc.poll(), d.rpc.ok("health.check")["version"]), (None, "1.2.3"))
        open(d.home + "/.codecast/daemon.yaml", "w").write("port: [\n")
        d.restart(signal.SIGTERM)
        t.ok("broken-settings-mean-the-defaults", d.rpc.ok("health.check")["ok"])
    home = t.tmp()
    read, write = os.pipe()
    os.close(read)
    p = subprocess.Popen([t.ostler(), "as", "codecast-daemon"], env={**os.environ, "HOME": home, "DAEMON_PORT": "0"}, stdin=subprocess.DEVNULL,
                         stdout=write, stderr=subprocess.DEVNULL)
    os.close(write)
    try:
        port = lambda: os.path.exists(home + "/.codecast/daemon.port") and int(open(home + "/.codecast/daemon.port").read())
        wait_for(lambda: port() or p.poll() is not None, LONG)
        t.ok("a-closed-stdout-is-no-failure", port() and suite.Rpc(port()).ok("health.check")["ok"], p.poll())
    finally:
        p.terminate()
        p.wait(LONG)


@area("codecast-echo")
def echo(t):
    with running(t) as d:
        session = d.new(cli_type="echo")
        s = d.run(session, "hello there")
        t.ok("works-with-no-agent-installed", "hello there" in "".join(texts(s.events())) and kinds(s.events())[-1] == "result", s.events())
        t.eq("is-listed-as-such", d.info(session)["cliType"], "echo")
        s = d.run(session, "QUESTION")
        asked = [e for e in s.events() if e["type"] == "tool_use" and e["tool"] == "AskUserQuestion"]
        t.ok("a-question-is-shown-as-heads-show-it", len(asked) == 1 and all(
            {"question", "header", "options", "multiSelect"} <= set(q) for q in asked[0]["input"]["questions"]), s.events())
        t.ok("and-the-stream-ends-so-that-it-can-be-answered", s.done() and "result" not in kinds(s.events()), kinds(s.events()))
        t.eq("the-session-waits", d.info(session)["status"], "busy")
        option = asked[0]["input"]["questions"][0]["options"][0]["label"]
        s = d.run(session, option)
        t.ok("the-next-message-is-the-answer", kinds(s.events())[-1] == "result" and option in "".join(texts(s.events())), s.events())
        t.eq("and-is-no-prompt", d.stats(session)["userPending"], 0)
        d.rpc.ok("session.set_mode", {"sessionId": session, "mode": "ask"})
        s = d.send(session, "ASK")
        s.wait(lambda s: any("ostler approve" in text for text in texts(s.events())), LONG, "a notice of how to decide")
        t.ok("a-permission-shows-as-its-tool-and-a-notice", "tool_use" in s.types() and not s.done(), s.events())
        t.eq("an-interrupt-takes-it-back", d.rpc.ok("session.interrupt", {"sessionId": session})["interrupted"], True)
        t.eq("and-ends-the-stream", kinds(s.finish(LONG).events())[-1], "interrupted")


@area("codecast-restart")
def restart(t):
    with running(t) as d:
        made = {d.new(mode="plan", model="m-1"), d.new(cli_type="codex")}
        busy = d.new()
        sdk = d.run(busy, "@@say:before").events()[-1]["session_id"]
        d.wait_idle(busy)
        d.restart(signal.SIGTERM)
        listed = {s["sessionId"]: s for s in d.rpc.ok("session.list")["sessions"]}
        t.eq("sessions-are-there-again", set(listed), made | {busy})
        t.eq("with-what-they-were", sorted((s["mode"], s["model"] or "") for i, s in listed.items() if i in made), [("auto", ""), ("plan", "m-1")])
        d.run(busy, "@@say:after")
        t.ok("and-go-on-where-they-were", suite.has_seq(d.wait_start("@@say:after", LONG)["argv"], "--resume", sdk), d.starts("@@say:after"))
        stream = d.send(busy, "@@hold:kill9")
        stream.wait_type("partial", LONG)
        agent = d.wait_start("@@hold:kill9")["pid"]
        d.restart(signal.SIGKILL)
        t.ok("a-turn-outlives-a-killed-daemon", pid_alive(agent) and d.info(busy)["status"] == "busy", d.info(busy))
        t.eq("whose-client-counts-as-gone", d.stats(busy)["clientConnected"], False)
        d.release("kill9")
        d.wait_idle(busy)
        events = d.owed(busy)
        t.eq("and-what-it-said-is-there", (texts(events), kinds(events)[-1]), (["working done:kill9"], "result"))
        t.eq("once", d.owed(busy), [])
        stream.close()


# As many as a stream needs longer for than a kill.
MANY = 10000


def seen_and_owed(d, session, count, patience):
    """A stream that a kill cuts off: what came before it, and the answer to who asks for the rest."""
    stream = d.send(session, "@@burst:%d" % count)
    stream.wait_type("partial", LONG)
    time.sleep(patience)
    d.restart(signal.SIGKILL)
    stream.wait(lambda s: s.closed, LONG, "the end of a cut stream")
    d.wait_idle(session)
    answer = d.rpc.ok("session.reconnect", {"sessionId": session}, timeout=LONG)
    return stream.events(), answer


@area("codecast-killed")
def killed(t):
    """What comes twice after a kill in the middle of a stream is said to, and nothing is missing."""
    with running(t) as d:
        session, wrong, twice = d.new(), [], 0
        d.run(session, "@@say:before")
        for n in range(20):
            seen, answer = seen_and_owed(d, session, MANY, 0.004 * n)
            owed, may = answer["bufferedEvents"], answer.get("mayRepeat", 0)
            # So many of the last that came before are the first that come after.
            again = next(k for k in range(min(len(seen), len(owed)), -1, -1) if seen[len(seen) - k:] == owed[:k])
            twice += again
            whole = kinds(seen + owed[again:])
            if again > may or whole.count("partial") != MANY or whole[-1:] != ["result"] or d.owed(session):
                wrong.append((n, len(seen), len(owed), again, may, whole.count("partial")))
        t.eq("every-event-comes-and-what-may-come-twice-is-said", wrong, [])
        print("codecast: %d events came twice after 20 kills, and were said to" % twice)
        held = d.send(session, "@@hold:more")
        held.wait_type("partial", LONG)
        for _ in range(4):
            d.run(session, "@@big:5000000")
        d.cut(held, session)
        d.release("more")
        d.wait_idle(session)
        first, second = (d.rpc.ok("session.reconnect", {"sessionId": session}, timeout=LONG) for _ in range(2))
        t.eq("an-answer-says-that-there-is-more", (first.get("more"), second.get("more")), (True, None))
        sizes = [len(text) for text in texts(first["bufferedEvents"] + second["bufferedEvents"])]
        t.ok("and-the-next-one-has-it", sum(sizes) >= 20000000 and not d.owed(session), sum(sizes))


@area("codecast-queue")
def queue(t):
    with running(t) as d:
        session = d.new()
        first = d.send(session, "@@hold:q1")
        first.wait_type("partial", LONG)
        for n in (1, 2):
            t.eq("position-%d" % n, d.run(session, "@@say:queued %d" % n).events(), [{"type": "queued", "position": n}])
        d.release("q1")
        first.finish(LONG)
        t.eq("events-of-queued-prompts-come-on-the-open-stream", texts(first.events()), ["working done:q1", "queued 1", "queued 2"])
        t.eq("each-with-its-result", kinds(first.events()).count("result"), 3)
        t.eq("and-nothing-is-left", (d.stats(session), d.owed(session)), ({"userPending": 0, "responsePending": 0, "clientConnected": True}, []))
        second = d.send(session, "@@hold:q2")
        second.wait_type("partial", LONG)
        d.run(session, "@@say:alone")
        d.cut(second, session)
        d.release("q2")
        d.wait_start("@@say:alone", LONG)
        d.wait_idle(session)
        third = d.run(session, "@@say:third")
        t.eq("a-new-stream-carries-its-own-events", texts(third.events()), ["third"])
        waiting = d.stats(session)["responsePending"]
        events = d.owed(session)
        t.eq("and-what-a-cut-one-owed-still-waits", texts(events), ["working done:q2", "alone"])
        t.eq("as-many-as-were-said-to", len(events), waiting)
        t.eq("and-comes-once", d.owed(session), [])


@area("codecast-cuts")
def cuts(t):
    """Streams that are cut again and again by a client that never asks for the rest until the end."""
    with running(t) as d:
        session, seen = d.new(), []
        for n in range(3):
            stream = d.send(session, "@@hburst:200,cut%d" % n)
            stream.wait_type("partial", LONG)
            d.cut(stream, session)
            d.release("cut%d" % n)
            d.wait_idle(session)
            seen += partials(stream.events())
        t.eq("what-was-delivered", seen, ["start "] * 3)
        owed, want = partials(d.owed(session)), ["p%d " % i for i in range(200)] * 3
        # The lists are long: what is told is where they part.
        part = next((i for i, (a, b) in enumerate(zip(owed + [None], want + [None])) if a != b), None)
        t.eq("every-piece-that-was-not-comes-once-and-in-order", (len(owed), part, owed[part - 2:part + 3] if part else []), (600, None, []))
        stream = d.send(session, "@@hburst:5000,cut3")
        stream.wait_type("partial", LONG)
        d.release("cut3")
        stream.wait(lambda s: len(partials(s.events())) > 50, LONG, "some pieces")
        stream.close()
        d.wait_idle(session)
        got = partials(stream.events()) + partials(d.owed(session))
        want = ["start "] + ["p%d " % i for i in range(5000)]
        # What was on its way to a client that hung up is nobody's to give back; nothing may come twice or out of order.
        t.ok("cut-in-full-flow-nothing-comes-twice", len(got) == len(set(got)) and [p for p in want if p in set(got)] == got, len(got))


@area("codecast-lines")
def lines(t):
    with running(t) as d:
        session = d.new()
        s = d.run(session, "@@big:2000000")
        longest = max(len(line) for _, line in s.lines)
        t.ok("no-line-is-as-long-as-clients-break-on", longest < 512 * 1024, longest)
        t.eq("and-no-word-is-missing", len("".join(texts(s.events()))), 2000000)
        s = d.run(session, "@@say:" + "y" * 1000000)
        t.eq("a-message-of-a-megabyte", len("".join(texts(s.events()))), 1000000)


@area("codecast-stubborn")
def stubborn(t):
    with running(t) as d:
        session, other = d.new(), d.new()
        stream = d.send(session, "@@stubborn")
        stream.wait_type("partial", LONG)
        pid = d.wait_start("@@stubborn")["pid"]
        ending = subprocess.Popen([sys.executable, "-c", "import sys,http.client as h; c=h.HTTPConnection('127.0.0.1',int(sys.argv[1]),timeout=60); "
                                   "c.request('POST','/rpc',sys.argv[2],{'Content-Type':'application/json'}); print(c.getresponse().read().decode())",
                                   str(d.port), json.dumps({"method": "session.destroy", "params": {"sessionId": session}})], stdout=subprocess.PIPE, text=True)
        if not wait_for(lambda: d.info(session) is None, LONG):
            t.ok("a-destroyed-session-is-gone-from-the-list", False, d.info(session))
        t.eq("while-one-is-being-destroyed-another-one-works", texts(d.run(other, "@@say:meanwhile").events()), ["meanwhile"])
        t.eq("and-new-ones-are-made", d.info(d.new())["status"], "idle")
        t.eq("the-answer-comes", json.loads(ending.communicate(timeout=LONG)[0])["result"], {"ok": True})
        t.ok("and-the-stubborn-is-dead", wait_for(lambda: not suite.alive(pid), LONG))
        stream.finish(LONG)
        group = d.send(other, "@@child")
        group.wait_type("partial", LONG)
        child = [e for e in d.log() if e["ev"] == "child"][-1]["child"]
        d.rpc.ok("session.interrupt", {"sessionId": other})
        t.ok("an-interrupt-reaches-the-whole-group", wait_for(lambda: not suite.alive(child), LONG))
        t.eq("and-the-stream-says-so", kinds(group.finish(LONG).events())[-1], "interrupted")


# Knows no conversation, and says so as the real one does.
FORGETFUL = """
import json, sys
if "--help" in sys.argv or "--version" in sys.argv: print("fake"); sys.exit(0)
sys.stdin.read()
if "--resume" in sys.argv:
    sys.stderr.write("No conversation found with session ID: x\\n")
    print(json.dumps({"type": "result", "subtype": "error_during_execution", "is_error": True, "errors": ["No conversation found with session ID: x"]}))
    sys.exit(1)
print(json.dumps({"type": "system", "subtype": "init", "session_id": "fresh-1", "model": "m"}))
print(json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": "a new beginning"}]}}))
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "session_id": "fresh-1"}))
"""


@area("codecast-fallback")
def fallback(t):
    with running(t) as d:
        d.fake("claude", FORGETFUL)
        session = d.new()
        resume = lambda: d.rpc.ok("session.resume", {"sessionId": session, "sdkSessionId": "forgotten"})
        t.eq("a-resume-is-taken-at-its-word", resume(), {"ok": True, "fallback": False})
        s = d.run(session, "hello")
        t.ok("a-conversation-that-is-gone-is-an-error-that-says-so", "No conversation found" in json.dumps(s.events()), s.events())
        t.eq("and-from-then-on-a-resume-of-it-is-a-fresh-conversation", resume(), {"ok": True, "fallback": True})
        s = d.run(session, "hello again")
        t.eq("which-it-is", (texts(s.events()), s.events()[-1].get("session_id")), (["a new beginning"], "fresh-1"))


# An agent that would like to be asked less: by itself, and through an orphan that has nothing left of where it comes from.
RESTLESS = r"""
import json, os, sys, time, urllib.request
if "--help" in sys.argv or "--version" in sys.argv: print("fake"); sys.exit(0)

def ask(port, session, method, **params):
    body = json.dumps({"method": method, "params": dict(params, sessionId=session)}).encode()
    request = urllib.request.Request("http://127.0.0.1:%d/rpc" % port, body, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=60))

if sys.argv[1:2] == ["orphan"]:
    port, session, said = int(sys.argv[2]), sys.argv[3], sys.argv[4]
    with open(said + ".new", "w") as f: json.dump(ask(port, session, "session.set_mode", mode="auto"), f)
    os.rename(said + ".new", said); sys.exit(0)
sys.stdin.read()
port, session, said = json.load(open("leash.json"))
out = {"own": ask(port, session, "session.set_mode", mode="auto"), "same": ask(port, session, "session.set_mode", mode="ask"),
       "model": ask(port, session, "session.set_model", model="m-2")}
if os.fork() == 0:
    parent = os.getpid()
    if os.fork() == 0:
        os.setsid()
        while os.getppid() == parent: time.sleep(0.02)
        os.execve(sys.executable, [sys.executable, __file__, "orphan", str(port), session, said], {})
    os._exit(0)
os.wait()
end = time.time() + 60
while not os.path.exists(said) and time.time() < end: time.sleep(0.02)
out["orphan"] = json.load(open(said))
print(json.dumps({"type": "system", "subtype": "init", "session_id": "r-1", "model": "m"}))
print(json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": json.dumps(out)}]}}))
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "session_id": "r-1"}))
"""


@area("codecast-leash")
def leash(t):
    """An agent, whatever it runs, does not loosen its own session here either."""
    with running(t) as d:
        d.fake("claude", RESTLESS)
        path = d.proj()
        session = d.new(path=path, mode="ask")
        with open(path + "/leash.json", "w") as f:
            json.dump([d.port, session, path + "/said"], f)
        s = d.run(session, "hello")
        said = json.loads((texts(s.events()) or ["{}"])[-1])
        refused = lambda who: "its own permissions" in said.get(who, {}).get("error", {}).get("message", "")
        t.ok("an-agent-does-not-set-its-own-mode", refused("own"), s.events())
        t.ok("nor-does-an-orphan-of-its", refused("orphan") and "ostler" in json.dumps(said["orphan"]), said)
        t.eq("what-changes-nothing-is-no-matter", (said.get("same", {}).get("result"), said.get("model", {}).get("result")), ({"ok": True}, {"ok": True}))
        t.eq("and-it-is-as-it-was", d.info(session)["mode"], "ask")
        t.eq("its-person-does", (d.rpc.ok("session.set_mode", {"sessionId": session, "mode": "auto"}), d.info(session)["mode"]), ({"ok": True}, "auto"))


# Answers what an agent asks, from inside.
HOSTED_ANSWER = r"""
import json, sys, urllib.request
body = json.dumps({"method": "session.send", "params": {"sessionId": sys.argv[2], "message": sys.argv[3]}}).encode()
request = urllib.request.Request("http://127.0.0.1:%s/rpc" % sys.argv[1], body, {"Content-Type": "application/json"})
print(urllib.request.urlopen(request, timeout=60).read().decode())
"""


@area("codecast-answer")
def hosted_answer(t):
    """A hosted program does not answer what an agent asks, and its attempt is on record."""
    house = Home(t)
    try:
        house.good("up")
        with open(house.state + "/instances/main/instance.json") as f:
            port = next(d["address"] for d in json.load(f)["doors"] if d["name"] == "codecast").rsplit(":", 1)[1]
        rpc = suite.Rpc(int(port))
        session = rpc.ok("session.create", {"path": house.dir, "cli_type": "echo"})["sessionId"]
        asked = suite.Stream(rpc, session, "QUESTION", timeout=LONG).finish(LONG)
        option = next(e for e in asked.events() if e["type"] == "tool_use")["input"]["questions"][0]["options"][0]["label"]
        said = house.good("run", "--", sys.executable, "-c", HOSTED_ANSWER, port, session, option)
        t.ok("a-hosted-program-may-not-answer", '"type":"error"' in said and "runs in ostler" in said, said)
        t.eq("the-question-still-waits", [a["state"] for a in house.json("approvals", "--list")], ["pending"])
        t.ok("and-the-attempt-is-on-record", "runs in ostler" in house.good("audit"))
        s = suite.Stream(rpc, session, option, timeout=LONG).finish(LONG)
        t.ok("a-client-outside-answers", kinds(s.events())[-1] == "result" and option in "".join(texts(s.events())), s.events())
    finally:
        house("down", "--kill")


@area("codecast-worktree")
def worktree(t):
    """A work tree that was made for a session goes with it, through whichever door it ends."""
    house = Home(t)
    try:
        house.good("up")
        repo = house.dir + "/project"
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(git + ["init", "-q", repo], check=True, env=house.env)
        subprocess.run(git + ["commit", "-q", "--allow-empty", "-m", "first"], cwd=repo, check=True, env=house.env)
        made = house.json("new", "echo", repo, "--worktree")
        with open(house.state + "/instances/main/instance.json") as f:
            address = next(d["address"] for d in json.load(f)["doors"] if d["name"] == "codecast")
        rpc = suite.Rpc(int(address.rsplit(":", 1)[1]))
        t.ok("it-is-there", os.path.isdir(made["worktree"]), made)
        t.eq("destroyed", rpc.ok("session.destroy", {"sessionId": made["uuid"]}), {"ok": True})
        t.ok("and-its-work-tree-with-it", not os.path.exists(made["worktree"]), made)
    finally:
        house("down", "--kill")


@area("codecast-hostile")
def hostile(t):
    with running(t) as d:
        session = d.new()
        # A client that never reads what it asked for.
        deaf = socket.create_connection(("127.0.0.1", d.port))
        body = json.dumps({"method": "session.send", "params": {"sessionId": session, "message": "@@big:6000000"}}).encode()
        deaf.sendall(b"POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        d.wait_start("@@big:6000000", LONG)
        slow = [socket.create_connection(("127.0.0.1", d.port)) for _ in range(100)]
        for s in slow:
            s.sendall(b"POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Le")
        t.ok("a-deaf-client-and-a-hundred-slow-ones-hold-nobody-up", d.rpc.ok("health.check", timeout=LONG)["ok"])
        t.eq("nor-any-session", texts(d.run(d.new(), "@@say:fine").events()), ["fine"])
        d.wait_idle(session)
        rss = d.rpc.ok("health.check", timeout=LONG)["memory"]["rss"]
        t.ok("and-what-it-does-not-read-is-not-held-in-memory", rss < 200, rss)
        for s in slow + [deaf]:
            s.close()
        for raw in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\xff", b"POST /rpc HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\nFFFFFFFF\r\n",
                    b"X" * 200000):
            with socket.create_connection(("127.0.0.1", d.port)) as s:
                try:
                    s.sendall(raw)
                except OSError:
                    pass
        t.ok("nor-do-broken-requests", d.rpc.ok("health.check", timeout=LONG)["ok"])


@area("codecast-up")
def up(t):
    home = t.tmp()
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("OSTLER_")}, "HOME": home, "OSTLER_STATE": home + "/s", "OSTLER_RUNTIME": home + "/r", "OSTLER_CONFIG": home + "/c"}
    run = lambda *args: subprocess.run([t.ostler(), *args], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LONG)
    try:
        run("up")
        said = run("status", "--connect")
        doors = {door["name"]: door for door in json.loads(run("--json", "up").stdout)["doors"]}
        t.ok("up-says-how-to-connect", "codecast" in said.stdout and "codecast" in doors, said)
        port = int(doors["codecast"]["address"].rsplit(":", 1)[1])
        t.ok("on-its-port-or-the-next-free-one", 9100 <= port <= 9200, port)
        t.ok("another-products-place-is-left-alone", not os.path.exists(home + "/.codecast"))
        rpc = suite.Rpc(port)
        session = rpc.ok("session.create", {"path": home, "cli_type": "echo"})["sessionId"]
        s = suite.Stream(rpc, session, "through up", timeout=LONG).finish(LONG)
        t.ok("and-it-works", "through up" in "".join(texts(s.events())), s.events())
        run("down", "--kill")
        t.eq("a-drop-in-tells-its-port", (run("up", "--drop-in").returncode, os.path.exists(home + "/.codecast/daemon.port")), (0, True))
        port = int(open(home + "/.codecast/daemon.port").read())
        t.ok("where-clients-look-for-it", session in [s["sessionId"] for s in suite.Rpc(port).ok("session.list")["sessions"]])
        run("down", "--kill")
        t.eq("and-takes-it-along", os.path.exists(home + "/.codecast/daemon.port"), False)
        env["OSTLER_DOORS_CODECAST"] = "false"
        t.ok("a-setting-keeps-it-closed", (run("up").returncode, "codecast" in run("status", "--connect").stdout) == (0, False))
    finally:
        run("down", "--kill")
