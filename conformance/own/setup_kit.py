"""A user of the system with a home, and a real service manager of that user in namespaces of its own. Needs root."""
import os
import shutil
import signal
import subprocess
import time

from account import Account
from lib import Fail, wait_for

# Inside the namespaces: as if the machine had been booted with systemd, and nothing of it on the machine itself.
INSIDE = """
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system "$RUNTIME"
chown "$USER_ID" "$RUNTIME"
chmod 700 "$RUNTIME"
umount -R /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec setpriv --reuid="$USER_ID" --regid="$GROUP_ID" --clear-groups env -i HOME="$HOME" USER="$NAME" LOGNAME="$NAME" PATH="$PATH" \
    XDG_RUNTIME_DIR="$RUNTIME" LC_ALL=C.UTF-8 systemd --user
"""


class Caller:
    """Whoever runs a command when called."""

    def good(self, *argv, **options):
        code, out, err = self(*argv, **options)
        if code != 0:
            raise Fail("%s: exit %d, %s%s" % (" ".join(argv), code, out[-400:], err[-400:]))
        return out


class Person(Caller):
    """Somebody without any privilege, with a home and a shell."""

    def __init__(self, t):
        self.account = Account("secret", "ALL=(ALL) !ALL")
        self.uid, self.gid = self.account.user.pw_uid, self.account.user.pw_gid
        self.home = os.path.join(t.tmp(), "home of one")
        os.mkdir(self.home)
        os.chown(self.home, self.uid, self.gid)
        # The folders above are the test's own, and private.
        above = os.path.dirname(self.home)
        while os.stat(above).st_uid == 0 and above not in ("/", "/tmp") and not os.stat(above).st_mode & 0o001:
            os.chmod(above, os.stat(above).st_mode | 0o011)
            above = os.path.dirname(above)
        self.env = {"HOME": self.home, "USER": self.account.name, "LOGNAME": self.account.name, "LC_ALL": "C.UTF-8",
                    "PATH": "%s/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" % self.home, "TMPDIR": self.home}
        t.daemons.append(self)

    def __call__(self, *argv, cwd=None, timeout=60, **env):
        whole = ["setpriv", "--reuid=%d" % self.uid, "--regid=%d" % self.gid, "--clear-groups"] + list(argv)
        p = subprocess.run(whole, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(self.env, **env),
                           cwd=cwd or self.home, timeout=timeout)
        return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")

    def processes(self):
        """Everything of this user, whoever started it."""
        found = []
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and os.stat("/proc/" + name).st_uid == self.uid:
                    found.append(int(name))
            except OSError:
                pass
        return found

    def stop(self):
        def gone():
            for pid in self.processes():
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            return not self.processes()
        wait_for(gone, 20)
        self.account.remove()
        shutil.rmtree(self.home, ignore_errors=True)


class Manager(Caller):
    """systemd --user for a person."""

    def __init__(self, person):
        self.person, self.runtime = person, "/run/user/%d" % person.uid
        unified = [line.split()[1] for line in open("/proc/mounts") if line.split()[2] == "cgroup2"]
        if not unified:
            raise Fail("no unified control groups here")
        self.group = "%s/ostler-manager-%d" % (unified[0], os.getpid())
        os.mkdir(self.group)
        try:
            for name in ("", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"):
                os.chown(self.group + name, person.uid, person.gid)
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        env = dict(self.person.env, USER_ID=str(self.person.uid), GROUP_ID=str(self.person.gid), NAME=self.person.account.name, RUNTIME=self.runtime)
        self.log = open(os.path.join(self.person.home, "manager.log"), "wb")
        script = 'echo $$ > "%s/cgroup.procs" && exec unshare --mount --cgroup sh -c "$1"' % self.group
        self.process = subprocess.Popen(["sh", "-c", script, "sh", INSIDE], env=env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        answers = lambda: self.process.poll() is None and self("systemctl", "--user", "show", "--property=Version")[0] == 0
        if not wait_for(lambda: answers() or self.process.poll() is not None, 15, 0.2) or self.process.poll() is not None:
            raise Fail("no user manager: %s" % open(self.log.name, errors="replace").read()[-300:])

    def __call__(self, *argv, timeout=60):
        """Runs something where the manager is, as its user."""
        inside = ["nsenter", "--target", str(self.process.pid), "--mount", "--cgroup", "setpriv", "--reuid=%d" % self.person.uid,
                  "--regid=%d" % self.person.gid, "--clear-groups"]
        p = subprocess.run(inside + list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           env=dict(self.person.env, XDG_RUNTIME_DIR=self.runtime), cwd=self.person.home, timeout=timeout)
        return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")

    def stop(self):
        process = getattr(self, "process", None)
        if process and process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        deadline = time.monotonic() + 10
        while os.path.isdir(self.group) and time.monotonic() < deadline:
            for folder, _, _ in os.walk(self.group, topdown=False):
                try:
                    with open(folder + "/cgroup.procs") as f:
                        for pid in f.read().split():
                            os.kill(int(pid), signal.SIGKILL)
                    os.rmdir(folder)
                except OSError:
                    pass
            time.sleep(0.05)
        if getattr(self, "log", None):
            self.log.close()
