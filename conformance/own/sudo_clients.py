"""sudo-request and sudo-proxy-mcp: ours against the original daemon, the original's against ours, ours against ours.

The same checks run for every pair, so what they expect is what both makers do; what only ours can do comes after."""
import json
import os
import re
import stat

from lib import Fail, area, wait_for
from sudo_kit import Home, LONG, Mcp, PROMPT, original, ours, sudo_works

MIB = 1 << 20
TOOLS = ["execute", "start_server", "status", "stop_server", "update_host"]


@area("sudo-ours-on-original")
def ours_on_original(t):
    pair(t, ours(t), original(t))
    beyond(t, original(t))


@area("sudo-original-on-original")
def original_on_original(t):
    """The control: what is expected of us is what the original does."""
    pair(t, original(t), original(t))


@area("sudo-original-on-ours")
def original_on_ours(t):
    pair(t, original(t), ours(t))


@area("sudo-ours-on-ours")
def ours_on_ours(t):
    pair(t, ours(t), ours(t))
    beyond(t, ours(t))


def pair(t, clients, daemon):
    home = Home(t)
    try:
        nobody_there(t, home, clients)
        home.serve(daemon)
        request(t, home, clients)
        mcp(t, home, clients)
    finally:
        home.close()


def nobody_there(t, home, clients):
    t.eq("request-without-daemon", home.request(clients, "true")[:3],
         (1, b"", "error: could not connect to %s: No such file or directory (os error 2)\n" % home.sock))
    code, out, err, _ = home.request(clients, "--odd")
    t.eq("request-unknown-option", (code, out, err.splitlines()[0]), (1, b"", "error: unknown option: --odd"))
    code, out, err, _ = home.request(clients, "--print")
    t.eq("request-no-command", (code, out, err.splitlines()[0]), (1, b"", "error: no command specified"))
    t.eq("request-version", home.request(clients, "-V")[:3], (0, b"sudo-request 1.2.0\n", ""))
    code, out, err, _ = home.request(clients, "-h")
    t.eq("request-help-on-stderr", (code, out, err.split(" [")[0]), (0, b"", "Usage: sudo-request"))


def request(t, home, clients):
    def ask(*args, **options):
        return home.request(clients, *args, **options)

    code, out, err, shown = ask("--no-privilege", "--session", "my-session", "--reason", "because I ask", "sh", "-c", "echo out; echo err >&2; exit 3", key="y")
    t.eq("request-output-and-code", (code, out, err), (3, b"out\n", "err\n(exit code: 3)\n"))
    t.ok("request-says-who-and-why", "From:    my-session @ " in shown and "Reason:  because I ask" in shown and "Client:  sudo-proxy 1.2.0" in shown, shown)
    t.eq("request-pipeline", ask("--no-privilege", "printf", "b\\na\\n", "|", "sort", "|", "head", "-n", "1", key="y")[:3], (0, b"a\n", ""))
    t.eq("request-denied", ask("--no-privilege", "true", key="n")[:3], (1, b"", "Request denied.\n"))
    t.eq("request-refused-unasked", ask("--no-privilege", "echo", "\x01")[:3],
         (1, b"", "Error: pipeline[0][1] contains forbidden control/bidi characters\n"))
    t.eq("request-death-by-signal", ask("--no-privilege", "sh", "-c", "kill -9 $$", key="y")[:3], (255, b"", "(exit code: -1)\n"))
    t.eq("request-bytes-untouched", ask("--no-privilege", "python3", "-c", "import os; os.write(1, bytes(range(256)))", key="y")[:3], (0, bytes(range(256)), ""))
    t.eq("request-print", ask("--no-privilege", "--print", "sh", "-c", "seq 5; echo oops >&2; exit 2", key="y")[:3],
         (0, b"exit 2\n== stdout == (5 lines, truncated)\n1\n2\n3\n== stderr == (1 lines)\noops\n", ""))
    t.eq("request-print-denied", ask("--print", "--no-privilege", "true", key="n")[:3], (0, b"denied\n", ""))
    code, out, err, _ = ask("--no-privilege", "head", "-c", str(5 * MIB), "/dev/zero", key="y")
    t.eq("request-5-mib", (code, out == bytes(5 * MIB), err), (0, True, ""))
    if sudo_works():
        t.eq("request-privileged", ask("id", "-u", key="y")[:3], (0, b"0\n", ""))
    else:
        t.skip("request-privileged", "sudo asks for a password here")


def mcp(t, home, clients):
    server = home.mcp(clients)
    try:
        hello = server.initialize()
        t.eq("mcp-hello", (hello["protocolVersion"], hello["serverInfo"]["name"], hello["serverInfo"]["version"], sorted(hello["capabilities"])),
             ("2025-03-26", "sudo-proxy", "1.2.0", ["resources", "tools"]))
        t.eq("mcp-tools", sorted(tool["name"] for tool in server.ask("tools/list", {})["result"]["tools"]), TOOLS)
        text, error = server.call("status")
        t.ok("mcp-status-running", re.fullmatch(r"localhost: running \(sudo-proxy [^ )]+\)", text[0]) and not error, text)
        t.eq("mcp-start-when-running", server.call("start_server"), (["sudo-proxy is already running at %s" % home.sock], False))
        execute(t, home, server)
        hosts(t, home, server)
        stop(t, home, server)
    finally:
        code = server.close()
    t.eq("mcp-ends-with-its-client", code, 0)


def execute(t, home, server):
    def run(key, **arguments):
        mark = home.pty.mark()
        call = server.start("execute", arguments)
        shown = home.answer(key, mark) if key else ""
        return server.result(call), shown

    text, error = run(None, argv=["id"], privileged=False)[0]
    t.ok("mcp-local-unprivileged-refused", error and text[0].startswith("Refusing to run an unprivileged command on the local machine."), text)
    t.eq("mcp-nothing-to-run", run(None, argv=[])[0], (["Either `argv` or `pipeline` must be provided."], True))
    t.eq("mcp-agent-for-root-refused", run(None, argv=["id"], forward_agent=True)[0], (["forward_agent is only allowed with privileged: false"], True))
    t.eq("mcp-denied", run("n", argv=["id"])[0], (["Request denied by user."], True))
    text, error = run(None, argv=["id"], env={"LD_PRELOAD": "x"})[0]
    t.ok("mcp-daemon-error", error and re.fullmatch(
        r"Error from sudo-proxy \S+ \(client sudo-proxy-mcp 1\.2\.0\): environment variable not allowed: LD_PRELOAD", text[0]), text)
    if not sudo_works():
        return t.skip("mcp-execute", "sudo asks for a password here")
    got, shown = run("y", argv=["id", "-u"], description="who am I", env={"LANG": "C"})
    t.eq("mcp-execute", got, (["0\n"], False))
    t.ok("mcp-says-who-and-why", "From:    sudo-proxy-mcp @ local" in shown and "Reason:  who am I" in shown, shown)
    t.eq("mcp-silent-success", run("y", argv=["true"])[0], (["[exit code: 0]"], False))
    t.eq("mcp-failure", run("y", argv=["sh", "-c", "echo out; echo err >&2; exit 4"])[0], (["out\n", "[stderr]\nerr\n", "[exit code: 4]"], True))
    t.eq("mcp-pipeline", run("y", pipeline=[["sh", "-c", "echo b; echo a; echo err >&2"], ["sort"]])[0], (["a\nb\n", "[stderr stage 0]\nerr\n"], False))
    t.eq("mcp-pipeline-failure", run("y", pipeline=[["true"], ["sh", "-c", "exit 7"]])[0], (["[exit codes: 0, 7]"], True))
    text, error = run(None, argv=["id"], host="127.0.0.1", privileged=False)[0]
    t.ok("mcp-loopback-is-local", error and text[0].startswith("Refusing to run"), text)


def hosts(t, home, server):
    t.eq("mcp-update-host", server.call("update_host", host="zoo", os="BSD", description="animals"), (["Updated host zoo"], False))
    t.eq("mcp-bad-host", server.call("update_host", host="a/b"), (["invalid host: host contains forbidden character: '/'"], True))
    with open(home.hosts) as f:
        known = json.load(f)
    t.eq("mcp-hosts-file", (known["hosts"]["zoo"], known["policy"]), ({"description": "animals", "os": "BSD", "last_connected": ""}, {"unattended_eligible": False}))
    t.ok("mcp-local-daemon-noted", known["hosts"]["localhost"]["last_connected"].endswith("Z") and known["hosts"]["localhost"]["version"], known)
    t.eq("mcp-hosts-private", (stat.S_IMODE(os.stat(home.hosts).st_mode), stat.S_IMODE(os.stat(os.path.dirname(home.hosts)).st_mode)), (0o600, 0o700))
    read = server.ask("resources/read", {"uri": "sudo-proxy://hosts"})["result"]["contents"][0]
    t.eq("mcp-hosts-resource", (read["mimeType"], json.loads(read["text"])), ("application/json", known))
    text, _ = server.call("status", host="zoo")
    t.eq("mcp-status-of-a-host", text, ["zoo: not running (no socket) — animals (BSD)"])


def stop(t, home, server):
    t.eq("mcp-stop", server.call("stop_server"), (["Stopped sudo-proxy on localhost."], False))
    t.eq("mcp-stopped-daemon-exits-0", home.pty.wait(30), 0)
    t.ok("mcp-stop-notice", "stopped by sudo-proxy-mcp" in home.pty.text_since(0), home.pty.text_since(0)[-300:])
    t.eq("mcp-stop-again", server.call("stop_server"), (["sudo-proxy is not running on localhost (no socket at %s)" % home.sock], False))
    t.ok("mcp-status-stopped", server.call("status", host="localhost")[0][0].startswith("localhost: not running (no socket)"))
    text, error = server.call("execute", argv=["id"])
    t.eq("mcp-execute-stopped", (text, error), (["sudo-proxy is not running (socket not found at %s). Call start_server first." % home.sock], True))


def beyond(t, daemon):
    """What only our clients can do."""
    home = Home(t).serve(daemon)
    try:
        us = ours(t)
        t.eq("own-two-dashes", home.request(us, "--no-privilege", "--", "echo", "--print", key="y")[:3], (0, b"--print\n", ""))
        both = "import os; os.write(1, b'o' * (16 << 20)); os.write(2, b'e' * (16 << 20))"
        code, out, err, _ = home.request(us, "--no-privilege", "python3", "-c", both, key="y")
        t.eq("own-two-full-streams", (code, out == b"o" * (16 * MIB), err == "e" * (16 * MIB)), (0, True, True))
        code, out, err, _ = home.request(us, "--no-privilege", "head", "-c", str(16 * MIB + 1), "/dev/zero", key="y")
        t.eq("own-cut-output-is-told", (code, len(out), err), (0, 16 * MIB, "(stdout truncated at 16 MiB)\n"))
        code, out, err, _ = home.request(us, "--no-privilege", "true", env={"SUDO_REQUEST_TIMEOUT_SECS": "1"})
        t.eq("own-patience-ends", (code, out, err), (1, b"", "error: no response from daemon after 1s — it may be wedged or waiting on a prompt\n"))
        newest_protocol(t, home, us)
        ostler_mcp(t, home, daemon)
    finally:
        home.close()


def newest_protocol(t, home, us):
    server = home.mcp(us)
    try:
        server.meta = server.META
        versions = server.ask("server/discover", {})["result"]["supportedVersions"]
        t.ok("own-mcp-versions", {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} <= set(versions), versions)
        t.eq("own-mcp-wrong-arguments-are-the-tool's-answer", server.call("execute", argv="id"),
             (['failed to deserialize parameters: invalid type: string "id", expected a sequence'], True))
        text, error = server.call("status")
        t.ok("own-mcp-without-initialize", text[0].startswith("localhost: running (sudo-proxy ") and not error, text)
    finally:
        server.close()


def ostler_mcp(t, home, daemon):
    """`ostler mcp`: the same server under its own name, and what waits for a person."""
    server = Mcp([t.ostler(), "mcp"], home.env)
    try:
        hello = server.initialize("2025-11-25")
        t.eq("own-ostler-mcp-name", hello["serverInfo"]["name"], "ostler")
        tools = sorted(tool["name"] for tool in server.ask("tools/list", {})["result"]["tools"])
        t.eq("own-ostler-mcp-cannot-decide", tools, sorted(TOOLS + ["pending"]))
        text, error = server.call("status")
        t.ok("own-ostler-mcp-asks-the-same-daemon", text[0].startswith("localhost: running (sudo-proxy ") and not error, text)
        text, error = server.call("pending")
        t.ok("own-ostler-mcp-nothing-pending", text[0].startswith("Nothing is pending") and not error, text)
        if daemon.maker == "ours":
            pending(t, home, server)
    finally:
        server.close()


def pending(t, home, server):
    mark = home.pty.mark()
    call = server.start("execute", {"argv": ["true"], "description": "look at me"})
    if home.pty.wait_for(PROMPT, mark, LONG) is None:
        raise Fail("no question: %s" % home.pty.text_since(mark)[-400:])
    # While one call waits another is answered.
    text, error = server.call("pending")
    waiting = json.loads(text[0])
    t.ok("own-ostler-mcp-pending", not error and len(waiting) == 1 and waiting[0]["reason"] == "look at me" and waiting[0]["privileged"]
         and waiting[0]["asker"]["session"] == "ostler-mcp" and "hash" not in text[0], text)
    server.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
    t.ok("own-ostler-mcp-cancel-withdraws", wait_for(lambda: server.call("pending")[0][0] == "Nothing is pending.", LONG, 0.2))
