"""The unmodified head node of the original (PyPI, in a virtual environment of the test cache) against our daemon: its client for the
daemon's protocol, and its manager of machines through a real sshd, which starts the daemon at the first contact."""
import getpass
import json
import os
import shutil
import signal
import subprocess
import threading

from account import Account
from approvals_kit import approved
from codecast_kit import LONG, kinds, partials, running, suite
from lib import area, wait_for
from sessions_kit import House
from ssh import Sshd

# Every method of the client, one after the other; prints one JSON object.
CLIENT = r'''
import asyncio, json, os, sys
from head.daemon_client import DaemonClient, DaemonError
port, project, release = int(sys.argv[1]), sys.argv[2], sys.argv[3]
async def main():
    out = {}
    async with DaemonClient() as c:
        sid = await c.create_session(port, project, mode="code", model="m-1")
        async def send(text):
            return [e async for e in c.send_message(port, sid, text) if e["type"] != "ping"]
        events = await send("@@tools"); out["stream"] = [e["type"] for e in events]; sdk = events[-1]["session_id"]
        first = asyncio.create_task(send("@@hold:client"))
        while True:
            if [s for s in await c.list_sessions(port) if s["sessionId"] == sid][0]["status"] == "busy": break
            await asyncio.sleep(0.05)
        out["queued"] = await send("@@say:second")
        out["stats"] = await c.get_queue_stats(port, sid)
        open(release, "w").close()
        out["first"] = [e["content"] for e in await first if e["type"] == "text"]
        stopped = asyncio.create_task(send("@@term143"))
        while True:
            r = await c.interrupt_session(port, sid)
            if r["interrupted"]: break
            await asyncio.sleep(0.05)
        out["interrupt"] = (r, [e["type"] for e in await stopped][-1])
        out["resume"] = await c.resume_session(port, sid, sdk)
        out["set_mode"] = await c.set_mode(port, sid, "plan")
        out["set_model"] = [await c.set_model(port, sid, "m-2"), await c.set_model(port, sid, None)]
        out["list"] = [s for s in await c.list_sessions(port) if s["sessionId"] == sid][0]["mode"]
        out["health"] = await c.health_check(port)
        out["monitor"] = (await c.monitor_sessions(port))["totalSessions"]
        out["reconnect"] = await c.reconnect_session(port, sid)
        out["big"] = sum(len(e["content"]) for e in await send("@@big:1500000") if e["type"] == "text")
        out["destroy"] = await c.destroy_session(port, sid)
        try: await c.set_mode(port, sid, "plan")
        except DaemonError as e: out["error"] = (e.code, str(e))
        out["unknown"] = [e["type"] for e in await send("@@say:x")]
        try: await c.create_session(port, "/no/such/place")
        except DaemonError as e: out["path"] = str(e)
    print(json.dumps(out))
asyncio.run(main())
'''

# A message whose daemon leaves in the middle of the answer, and then the rest of it from the next daemon.
LEFT = r'''
import asyncio, json, sys
from head.daemon_client import DaemonClient
port, session, message = int(sys.argv[1]), sys.argv[2], sys.argv[3]
async def main():
    async with DaemonClient() as c:
        if message: out = [e async for e in c.send_message(port, session, message)]
        else: out = await c.reconnect_session(port, session)
        print(json.dumps([e for e in out if e["type"] != "ping"]))
asyncio.run(main())
'''

# The manager of machines: a tunnel to a machine where nothing runs yet, and again where it does.
MANAGER = r'''
import asyncio, json, sys
from head.config import Config, PeerConfig
from head.daemon_client import DaemonClient
from head.ssh_manager import SSHManager
ssh_port, user, key, folder, daemon_port, project = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), sys.argv[6]
async def main():
    out = {}
    config = Config.__new__(Config)
    peer = PeerConfig(id="m", transport="ssh", ssh_host="127.0.0.1", ssh_user=user, ssh_key=key, ssh_port=ssh_port, daemon_port=daemon_port)
    class Install: install_dir = folder; auto_deploy = False; log_file = folder + "/../daemon.log"
    config.__dict__.update(machines={"m": peer}, peers={"m": peer}, daemon=Install())
    for name in ("first", "second"):
        manager = SSHManager(config)
        found = await manager.ensure_tunnel("m")
        async with DaemonClient() as c:
            out[name] = {"upgraded": found.daemon_upgraded, "health": await c.health_check(found.local_port)}
            if name == "first":
                sid = await c.create_session(found.local_port, project, cli_type="echo")
                out["events"] = [e["type"] async for e in c.send_message(found.local_port, sid, "over ssh")]
                out["mode"] = await c.set_mode(found.local_port, sid, "auto")
            else:
                out["kept"] = [s["sessionId"] for s in await c.list_sessions(found.local_port)] == [sid]
        await manager.close_all()
    print(json.dumps(out))
asyncio.run(main())
'''


def head(t, source, *args):
    python = os.path.join(t.opt.original, "bin", "python")
    r = subprocess.run([python, "-c", source, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=5 * LONG, cwd="/")
    if r.returncode != 0:
        t.ok("the-original-runs-to-its-end", False, r.stderr[-1500:])
        return None
    return json.loads(r.stdout)


@area("codecast-client")
def client(t):
    with running(t) as d:
        out = head(t, CLIENT, d.port, d.proj(), d.d + "/release.client")
        if out is None:
            return
        t.ok("stream", out["stream"][0] == "system" and out["stream"][-1] == "result" and "tool_use" in out["stream"], out["stream"])
        t.eq("queued", out["queued"], [{"type": "queued", "position": 1}])
        t.eq("queue-stats", out["stats"], {"userPending": 1, "responsePending": 0, "clientConnected": True})
        t.eq("queued-answers-arrive", out["first"], ["working done:client", "second"])
        t.eq("interrupt", out["interrupt"], [{"ok": True, "interrupted": True}, "interrupted"])
        t.eq("resume", out["resume"], {"ok": True, "fallback": False})
        t.eq("set-mode-and-model", (out["set_mode"], out["set_model"], out["list"]), (True, [True, True], "plan"))
        t.ok("health", out["health"]["ok"] and out["health"]["version"] == "0.3.2", out["health"])
        t.eq("monitor", out["monitor"], 1)
        t.eq("reconnect", out["reconnect"], [])
        t.eq("a-large-text-does-not-break-it", out["big"], 1500000)
        t.eq("destroy", (out["destroy"], out["error"][0], out["unknown"]), (True, -32000, ["error"]))
        t.ok("a-missing-path-is-named", "Path does not exist" in out["path"], out["path"])


@area("codecast-client-left")
def left(t):
    with running(t) as d:
        def half(session, name, leave):
            told = []
            talk = threading.Thread(target=lambda: told.append(head(t, LEFT, d.port, session, "@@hold:" + name)))
            talk.start()
            t.ok("%s-it-runs" % name, wait_for(lambda: d.starts("@@hold:" + name) and d.stats(session)["clientConnected"] and d.info(session)["sdkSessionId"], LONG))
            leave()
            talk.join(LONG)
            return told[0] or [{"type": "nothing"}]
        session, first = d.new(), d.proc
        told = half(session, "takeover", d.start)
        t.ok("half-an-answer-is-an-error-to-it", told[-1]["type"] == "error" and "Connection" in told[-1]["message"] and "result" not in kinds(told), told)
        first.wait(LONG)
        d.release("takeover")
        d.wait_idle(session)
        rest = head(t, LEFT, d.port, session, "") or []
        t.eq("and-reconnect-gives-it-the-rest-once", (partials(told + rest), kinds(rest)[-1:]), (["working ", "done:takeover"], ["result"]))
        told = half(d.new(), "sigterm", lambda: d.restart(signal.SIGTERM))
        t.ok("a-turn-that-was-ended-is-an-error-too", told[-1]["type"] == "error" and "before its answer was whole" in told[-1]["message"], told)


def managed(t, home, then):
    """The manager on a machine with this home; `then` gets what came of it, while the daemon runs that it started."""
    absent = [p for p in ("sshd", "ssh-keygen", "lsof", "curl", "pgrep") if not shutil.which(p)]
    if absent:
        return t.skip("all", "missing programs: %s" % " ".join(absent))
    folder = t.tmp()
    os.makedirs(home + "/.codecast/daemon")
    os.symlink(t.ostler(), home + "/.codecast/daemon/codecast-daemon")
    # The manager ends every program of the user that looks like its daemon: here it finds those of this home alone.
    os.mkdir(folder + "/bin")
    with open(folder + "/bin/pgrep", "w") as f:
        f.write("#!/bin/sh\nfor p in $(%s \"$@\"); do grep -qz '^HOME=%s$' /proc/$p/environ 2>/dev/null && echo $p; done; true\n" % (shutil.which("pgrep"), home))
    os.chmod(folder + "/bin/pgrep", 0o755)
    # The daemon's home, not ours: what ssh starts finds it in its environment.
    sshd = Sshd(folder, "SetEnv HOME=%s PATH=%s/bin:%s\n" % (home, folder, os.environ["PATH"]))
    try:
        where = sshd.run("echo $HOME").stdout.decode().strip()
        if where != home:
            return t.skip("all", "this sshd does not set HOME: %r" % where)
        if sshd.run("command -v pgrep").stdout.decode().strip() != folder + "/bin/pgrep":
            return t.skip("all", "this sshd does not set PATH, and other daemons of this user would be ended")
        from t_life import free_port
        out = head(t, MANAGER, sshd.port, getpass.getuser(), folder + "/user", home + "/.codecast/daemon", free_port(), home)
        if out is not None:
            then(out)
    finally:
        port = home + "/.codecast/daemon.port"
        if os.path.exists(port):
            os.kill(suite.Rpc(int(open(port).read())).ok("health.check", timeout=LONG)["pid"], signal.SIGTERM)
            wait_for(lambda: not os.path.exists(port), LONG)
        sshd.stop()


@area("codecast-ssh")
def ssh(t):
    def then(out):
        t.ok("first-contact-starts-the-daemon-cleanly", out["first"]["health"]["ok"] and not out["first"]["upgraded"], out["first"])
        t.ok("a-turn-through-the-tunnel", "text" in out["events"] and out["events"][-1] == "result", out["events"])
        t.eq("a-mode-is-set-through-the-tunnel", out["mode"], True)
        t.eq("second-contact-finds-it", (out["second"]["upgraded"], out["second"]["health"]["pid"], out["kept"]), (False, out["first"]["health"]["pid"], True))
    managed(t, t.tmp(), then)


@area("codecast-client-joined")
def joined(t):
    """The daemon that the manager starts joins `ostler up`, which offers the manager no port of its own."""
    house = House(t, "[doors]\ncodecast = false\n")

    def then(out):
        pid, port = out["first"]["health"]["pid"], int(open(house.dir + "/.codecast/daemon.port").read())
        doors = [d["connect"] for d in house.json("status")[0]["doors"] if d["name"] == "codecast"]
        t.ok("its-door-is-that-of-the-daemon-it-started", len(doors) == 1 and "(pid %d)" % pid in doors[0], (pid, doors))
        t.ok("a-turn-through-the-tunnel", "text" in out["events"] and out["events"][-1] == "result", out["events"])
        t.eq("second-contact-finds-it", (out["second"]["upgraded"], out["second"]["health"]["pid"], out["kept"]), (False, pid, True))
        session = house.json("sessions")[0]
        t.eq("its-session-is-in-the-one-list", ([session["door"], session["instance"]], len(house.json("status"))), (["codecast", "main"], 1))
        house.good("set", session["id"], "--autonomy", "ask")
        told = []
        talk = threading.Thread(target=lambda: told.append(head(t, LEFT, port, session["uuid"], "ASK")))
        talk.start()
        seen, code = approved(house, house.waiting(session["id"]))
        talk.join(LONG)
        t.ok("and-what-it-asks-is-answered-in-the-one-inbox", code == 0 and kinds(told[0] or [])[-1:] == ["result"], (code, told, seen))
    managed(t, house.dir, then)
    house.down()


@area("codecast-ssh-ordinary")
def ssh_ordinary(t):
    """The same on the account of an ordinary user, where nobody looks into the daemon: the manager finds it by lsof."""
    absent = [p for p in ("sshd", "ssh-keygen", "lsof", "curl", "pgrep", "useradd") if not shutil.which(p)]
    if absent or os.geteuid() != 0:
        return t.skip("all", "needs root and: %s" % " ".join(absent))
    account = Account("not used 17", "ALL=(root) ALL")
    folder, home, sshd = t.tmp(), t.tmp(), None
    try:
        os.makedirs(home + "/.codecast/daemon")
        shutil.copy(t.ostler(), home + "/.codecast/daemon/codecast-daemon")
        for path in (home, home + "/.codecast", home + "/.codecast/daemon"):
            os.chown(path, account.user.pw_uid, account.user.pw_gid)
        os.chmod(folder, 0o755)
        sshd = Sshd(folder, "SetEnv HOME=%s PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin\n" % home, account.name)
        if sshd.run("echo $HOME").stdout.decode().strip() != home:
            return t.skip("all", "this sshd does not set HOME")
        from t_life import free_port
        out = head(t, MANAGER, sshd.port, account.name, folder + "/user", home + "/.codecast/daemon", free_port(), home)
        if out is None:
            return
        pid = out["first"]["health"]["pid"]
        t.eq("the-daemon-is-the-users", os.stat("/proc/%d" % pid).st_uid, account.user.pw_uid)
        t.ok("first-contact-starts-the-daemon-cleanly", out["first"]["health"]["ok"] and not out["first"]["upgraded"], out["first"])
        t.ok("a-turn-through-the-tunnel", "text" in out["events"] and out["events"][-1] == "result", out["events"])
        t.eq("a-mode-is-set-through-the-tunnel", out["mode"], True)
        t.eq("second-contact-finds-it", (out["second"]["upgraded"], out["second"]["health"]["pid"], out["kept"]), (False, pid, True))
        port = int(open(home + "/.codecast/daemon.port").read())
        listed = sshd.run("lsof -ti :%d -sTCP:LISTEN | xargs ps -o user=" % port).stdout.decode().split()
        t.eq("lsof-names-the-user-once", listed, [account.name])
        ended = sshd.run("pgrep -u %s -f codecast-daemon" % account.name).stdout.decode().split()
        t.ok("pgrep-finds-the-daemon", str(pid) in ended, ended)
    finally:
        if sshd:
            # Also one that never answered; the account is this check's alone.
            sshd.run("pkill -u %s -f codecast-daemon" % account.name)
            wait_for(lambda: not os.path.exists(home + "/.codecast/daemon.port"), LONG)
            sshd.stop()
        account.remove()
