"""Programs that the daemon starts for a moment (git, a login shell, an agent that is asked what it can, a place for the audit)
and that try to be a person: away from their parents, in an empty environment, on a terminal of their own."""
import contextlib
import json
import os
import shlex
import signal
import sys
import time

from approvals_kit import LONG, House, Terminal, confirms
from kit import kill9, serve_again
from lib import Fail, area, wait_for
from t_git import Repo

# Arguments: what it writes its answer to, a file it waits for first ("" for none), the home, the program.
ATTACK = '''
import os, pty, sys, time
answer, start, home, program = sys.argv[1:5]
heard, away = os.pipe()
if os.fork():
    os.close(away)
    os.read(heard, 1)
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.close(away)
null = os.open("/dev/null", os.O_RDWR)
for fd in (0, 1, 2):
    os.dup2(null, fd)
with open(answer + ".pid", "w") as f:
    f.write(str(os.getpid()))
while start and not os.path.exists(start):
    time.sleep(0.05)
pid, fd = pty.fork()
if pid == 0:
    os.chdir("/")
    os.execve(program, [program, "rules", "add", "--privileged", "--", "id"], {"HOME": home, "TERM": "dumb"})
said = b""
while True:
    try:
        piece = os.read(fd, 4096)
    except OSError:
        break
    if not piece:
        break
    said += piece
os.waitpid(pid, 0)
with open(answer + ".new", "wb") as f:
    f.write(said)
os.rename(answer + ".new", answer)
'''


class Attack:
    """A command line that leaves such an attacker behind, and what that was told."""

    def __init__(self, t, house, name, wait=False):
        self.t, self.house, self.name = t, house, name
        self.file = "%s/%s" % (house.dir, name)
        self.start = self.file + ".start" if wait else ""
        with open(self.file + ".py", "w") as f:
            f.write(ATTACK)
        words = ["env", "-i", sys.executable, self.file + ".py", self.file, self.start, house.dir, house.program]
        self.line = " ".join(shlex.quote(word) for word in words)

    def said(self, within=LONG):
        wait_for(lambda: os.path.exists(self.file), within, 0.05)
        return open(self.file).read() if os.path.exists(self.file) else ""

    def pid(self):
        wait_for(lambda: os.path.exists(self.file + ".pid") and os.path.getsize(self.file + ".pid"), LONG, 0.05)
        return int(open(self.file + ".pid").read())

    def refused(self):
        said = self.said()
        self.t.stopped(self.name, "runs in ostler" in said and self.house.json("rules") == [], (said or "it never ran", self.house.json("rules")))


def parent(pid):
    return int(open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()[1])


def script(path, text):
    with open(path, "w") as f:
        f.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)


def trapped(t):
    """A repository whose files pass a filter that the user's own configuration names."""
    repo = Repo(t)
    repo.write(".gitattributes", "* filter=mine\n")
    repo("add", "-A")
    repo("commit", "-q", "-m", "attributes")
    return repo


@area("hosted")
def helpers(t):
    """Programs that the daemon runs for a moment and that try to be a person."""
    house = House(t)
    os.makedirs(house.dir + "/bin")
    login, probe, forward = Attack(t, house, "login-shell"), Attack(t, house, "agent-probe"), Attack(t, house, "audit-forward")
    # What a probed program leaves behind ends with it, so this one takes its time.
    script(house.dir + "/bin/claude", "[ \"$1\" = --help ] || exit 0\n%s\nn=0; while [ ! -e %s ] && [ $n -lt 200 ]; do sleep 0.1; n=$((n+1)); done\n"
           "echo --input-format\n" % (probe.line, probe.file))
    with open(house.dir + "/.profile", "w") as f:
        f.write('%s\nexport PATH="%s/bin:$PATH"\n' % (login.line, house.dir))
    house.env["OSTLER_AUDIT_FORWARD"] = "cat >> %s/forwarded; %s" % (house.dir, forward.line)
    house.up()
    try:
        login.refused()
        if confirms(house, "audit.forward")[0] != 0:
            raise Fail("audit.forward is not confirmed")
        house.good("restart")
        # The refusal is an entry, and goes there.
        forward.refused()
        house("new", "claude", "--name", "probed", "-m", "hello")
        probe.refused()
        t.ok("who-tried-is-in-the-audit", len(house.audit("attempted")) >= 3, house.audit("attempted"))
        names = [row.get("name") or row.get("command") for row in house.json("ps", "-a")]
        t.ok("helpers-are-not-listed", not any("claude" == name or "sh" == name for name in names), names)
        folder = house.state + "/instances/main/procs"
        t.ok("helpers-have-no-journal", not any("--help" in open(os.path.join(d, f), errors="replace").read()
                                               for d, _, fs in os.walk(folder) for f in fs), os.listdir(folder))
        control = Terminal(house, "rules", "add", "--privileged", "--", "id")
        t.control("a-person-adds-such-a-rule", control.wait(LONG) == 0 and len(house.json("rules")) == 1, control.seen)
    finally:
        house.down()


@contextlib.contextmanager
def delegated(t):
    """A control group that is ours, as a user manager gives one; without it a keeper cannot make any."""
    make = (r'''top=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts); cd "$top" && mkdir -p ostler-at-$1 && cd ostler-at-$1 && chown $2 . cgroup.procs cgroup.threads cgroup.subtree_control && echo $1 > cgroup.procs''')
    back = r'''top=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts); echo $1 > "$top/cgroup.procs"'''
    made = t.outside.root("sh", "-c", make, "sh", str(os.getpid()), str(os.getuid()))
    if made["code"] != 0:
        raise Fail("no control group can be made: %s" % made)
    try:
        yield
    finally:
        t.outside.root("sh", "-c", back, "sh", str(os.getpid()))


@area("repository")
def git_helpers(t):
    """A filter or hook that makes a terminal and adds a rule: at once, later, without the daemon, without the keeper."""
    house = House(t).up()
    hook, driver = Attack(t, house, "git-hook"), Attack(t, house, "git-filter")
    late, orphan = Attack(t, house, "git-filter-later", wait=True), Attack(t, house, "git-filter-without-its-daemon", wait=True)
    unkept = Attack(t, house, "git-filter-without-its-keeper", wait=True)
    d = t.daemon()
    try:
        repo = trapped(t)
        script(repo.dir + "/.git/hooks/post-checkout", hook.line + "\n")

        def create(name, line):
            with open(d.home + "/.gitconfig", "w") as f:
                f.write("[filter \"mine\"]\n\tsmudge = %s\n" % json.dumps("%s; cat" % line))
            return d.conn().call("git.worktree_create", {"baseRepo": repo.dir, "branchName": name, "worktreePath": "%s/%s" % (repo.base, name)})
        made = create("one", driver.line)
        t.control("the-worktree-is-made", "result" in made and os.path.exists(repo.base + "/one/a.txt"), made)
        driver.refused()
        t.stopped("git-hook", hook.said(2) == "" and house.json("rules") == [], (hook.said(0), house.json("rules")))
        create("two", late.line)
        open(late.start, "w").close()
        late.refused()
        create("three", orphan.line)
        kill9(d)
        # Longer than a keeper stays that has nobody to look after.
        time.sleep(11)
        open(orphan.start, "w").close()
        orphan.refused()
        if not t.outside:
            return t.skip("git-filter-without-its-keeper", "needs root, to hand over a control group")
        with delegated(t):
            serve_again(d)
        create("four", unkept.line)
        keeper = parent(unkept.pid())
        kill9(d)
        os.kill(keeper, signal.SIGKILL)
        wait_for(lambda: parent(unkept.pid()) != keeper, LONG, 0.05)
        open(unkept.start, "w").close()
        unkept.refused()
    finally:
        house.down()
