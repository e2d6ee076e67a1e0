"""--host: a daemon at the far end of a real sshd, its terminal and a tunnel at this end, opened by start_server."""
import json
import os
import shutil
import socket
import subprocess
import sys

from kit import end
from lib import area, pid_alive, wait_for
from ssh import Sshd
from sudo_kit import Home, LONG, original, ours

# A terminal emulator with a person at it who says yes to everything.
XTERM = """#!%(python)s
import os, pty, select, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
with open(%(log)r, "ab") as log:
    log.write(b"pid %%d %%d argv %%r\\n" %% (os.getpid(), pid, sys.argv[1:]))
    log.flush()
    tail, waits = b"", False
    while True:
        # A key that came before the question waited for one was thrown away: a person presses it again.
        if waits and not select.select([fd], [], [], 1)[0]:
            os.write(fd, b"y")
            continue
        try:
            data = os.read(fd, 65536)
        except OSError:
            break
        if not data:
            break
        log.write(data)
        log.flush()
        # The question may come in pieces.
        tail = (tail + data)[-400:]
        waits = tail.rfind(b"y/N") > tail.rfind("\u2192".encode())
        if b"y/N" in tail and waits:
            time.sleep(0.2)
            os.write(fd, b"y")
os.waitpid(pid, 0)
"""


@area("sudo-host-original")
def through_original(t):
    """Our client, through a tunnel that the original opened to its own daemon."""
    far(t, ours(t), original(t), by_hand=True)


@area("sudo-host-original-original")
def control(t):
    far(t, original(t), original(t))


@area("sudo-host-ours")
def through_ours(t):
    far(t, ours(t), ours(t))


@area("sudo-host-ours-to-original")
def to_original(t):
    """Our client and our tunnel, the original daemon at its far end."""
    far(t, ours(t), original(t))


@area("sudo-host-original-to-ours")
def original_to_ours(t):
    far(t, original(t), ours(t))


def answers(path):
    """Somebody listens there; a socket that was left behind is nobody's, and any daemon replaces it."""
    with socket.socket(socket.AF_UNIX) as s:
        try:
            s.connect(path)
        except OSError:
            return False
    return True


def far(t, clients, daemon, by_hand=False):
    """clients: who asks and opens the tunnel, unless a person does so by hand with the daemon's own program; daemon: who runs over there."""
    absent = [p for p in ("sshd", "ssh", "ssh-keygen") if not shutil.which(p)]
    if absent:
        return t.skip("all", "missing programs: %s" % " ".join(absent))
    runtime = "/run/user/%d" % os.getuid()
    if answers(runtime + "/sudo-proxy.sock"):
        return t.skip("all", "somebody's sudo-proxy is running at %s" % runtime)
    made = not os.path.isdir(runtime)
    try:
        os.makedirs(runtime, mode=0o700, exist_ok=True)
    except OSError as error:
        return t.skip("all", "cannot make %s: %s" % (runtime, error))
    there, here = Home(t), Home(t)
    with_far_command(there, daemon)
    sshd = Sshd(t.tmp(), "SetEnv PATH=%s HOME=%s XDG_RUNTIME_DIR=%s XDG_CONFIG_HOME=%s NO_COLOR=1\n"
                % (there.env["PATH"], there.env["HOME"], runtime, there.env["XDG_CONFIG_HOME"]))
    try:
        with_ssh(here, sshd)
        with_terminal(here)
        tunnel(t, here, clients, daemon("sudo-proxy", "--host", "far") if by_hand else None)
    finally:
        ended(here)
        sshd.stop()
        if made:
            shutil.rmtree(runtime, ignore_errors=True)


def script(path, text):
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o755)


def with_far_command(there, daemon):
    """`sudo-proxy`, as ssh calls it there."""
    script(there.bin + "/sudo-proxy", "#!/bin/sh\nexec %s \"$@\"\n" % " ".join(daemon("sudo-proxy")))


def with_ssh(here, sshd):
    """`ssh far` reaches our private sshd."""
    with open(here.dir + "/ssh.conf", "w") as f:
        f.write("Host far\n HostName 127.0.0.1\n Port %d\n IdentityFile %s/user\n IdentitiesOnly yes\n UserKnownHostsFile %s/known\n"
                " StrictHostKeyChecking no\n BatchMode yes\n" % (sshd.port, sshd.folder, sshd.folder))
    script(here.bin + "/ssh", "#!/bin/sh\nexec %s -F %s/ssh.conf \"$@\"\n" % (shutil.which("ssh"), here.dir))


def with_terminal(here):
    script(here.bin + "/x-terminal-emulator", XTERM % {"python": sys.executable, "log": here.dir + "/window.log"})


def window(here):
    try:
        with open(here.dir + "/window.log", "rb") as f:
            return f.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def ended(here):
    """Whatever the windows still run."""
    for line in window(here).splitlines():
        if line.startswith("pid "):
            end(*(int(word) for word in line.split()[1:3]))


def tunnel(t, here, clients, by_hand):
    near_end = here.run + "/sudo-proxy-far.sock"
    server = here.mcp(clients)
    opened = None
    try:
        server.initialize()
        t.eq("not-connected", server.call("execute", host="far", privileged=False, argv=["true"]),
             (["sudo-proxy is not running (socket not found at %s). Call start_server first." % near_end], True))
        if by_hand:
            opened = subprocess.Popen([here.bin + "/x-terminal-emulator", "-e"] + by_hand, env=here.env, stdin=subprocess.DEVNULL)
            wait_for(lambda: server.call("status", host="far")[0][0].startswith("far: running"), LONG, 0.5)
        else:
            t.eq("start", server.call("start_server", host="far"), (["SSH tunnel to far established at %s" % near_end], False))
        if not os.path.exists(near_end):
            return t.rec("tunnel", False, "got %s" % window(here)[-600:])
        t.eq("start-again", server.call("start_server", host="far"), (["SSH tunnel to far is already active at %s" % near_end], False))
        t.eq("execute-there", server.call("execute", host="far", privileged=False, argv=["sh", "-c", "echo $HOME | wc -l; exit 5"], description="over there"),
             (["1\n", "[exit code: 5]"], True))
        t.ok("asked-in-the-window", "sudo-proxy-mcp @ far" in window(here) and "over there" in window(here), window(here)[-600:])
        t.eq("pipeline-there", server.call("execute", host="far", privileged=False, pipeline=[["seq", "3"], ["tail", "-n", "1"]]), (["3\n"], False))
        text, error = server.call("status")
        t.ok("status-lists-it", any(line.startswith("far: running (sudo-proxy ") for line in text[0].splitlines()) and not error, text)
        with open(here.hosts) as f:
            t.eq("uid-noted", json.load(f)["hosts"]["far"]["uid"], str(os.getuid()))
        t.eq("stop", server.call("stop_server", host="far"), (["Stopped sudo-proxy on far."], False))
        t.ok("near-end-gone", wait_for(lambda: not os.path.exists(near_end), 10), near_end)
        pids = [int(line.split()[1]) for line in window(here).splitlines() if line.startswith("pid ")]
        t.ok("window-closed", wait_for(lambda: (opened and opened.poll(), not any(pid_alive(pid) for pid in pids))[1], LONG), pids)
    finally:
        server.close()
        ended(here)
        if opened:
            opened.wait(LONG)
