"""`ostler finish`: a session's work tree is merged, proposed or discarded; what cannot be is said, and nothing is lost."""
import os
import signal
import subprocess

from cli import Terminal
from lib import area, wait_for
from sessions_kit import LONG, House, Wire
from sessions_worktree import repository

ODD = ["with space", "quote\"d", "new\nline", "gr\u00fc\u00dfe", "-dash", ":colon", "*"]


class Trees(House):
    """A house with a repository, and sessions that have work trees of it."""

    def prepare(self):
        self.repo, self.git = repository(self)
        for key, value in (("user.name", "t"), ("user.email", "t@example.invalid"), ("commit.gpgsign", "false")):
            self.git("config", key, value)

    def tree(self, name, **files):
        made = self.json("new", "echo", self.repo, "--name", name, "--worktree")
        for file, text in files.items():
            self.write(made["worktree"] + "/" + file + ".txt", text)
        made["branch"] = self.git("branch", "--show-current", at=made["worktree"]).strip()
        return made

    def write(self, path, text, mode=None):
        with open(path, "w") as f:
            f.write(text)
        if mode:
            os.chmod(path, mode)

    def commit(self, made, message="work"):
        self.git("add", "-A", at=made["worktree"])
        self.git("commit", "-qm", message, at=made["worktree"])

    def is_gone(self, made):
        return (os.path.exists(made["worktree"]), made["branch"] in self.git("branch", "--list"), self.info(made["id"])["status"]) == (False, False, "closed")

    def refs(self):
        return self.git("for-each-ref", "--format=%(refname)", "refs/ostler")


@area("sessions-finish-merge")
def merge(t):
    house = Trees(t)
    try:
        plain = house.json("new", "echo", house.repo, "--name", "plain")
        rc, o, e = house("finish", "plain", "--merge")
        t.ok("without-a-tree-of-its-own-nothing-is-done", rc == 5 and "not in a worktree of its own" in e and plain["status"] == "idle", (rc, o, e))
        house.write(house.repo + "/.git/hooks/pre-commit", "#!/bin/sh\necho the hook ran\n", 0o755)
        fix = house.tree("fix", b="new\n")
        rc, o, e = house("finish", "fix")
        t.ok("it-shows-the-changes-and-asks-a-script-what-to-do", rc == 2 and "b.txt +1" in o and "1 file not committed" in o and "--merge, --pr or --discard" in e, (rc, o, e))
        t.eq("as-data-nothing-is-done-either", [house.json("finish", "fix")[k] for k in ("branch", "into", "ahead", "uncommitted")], [fix["branch"], "main", 0, 1])
        rc, o, e = house("finish", "fix", "--merge")
        t.ok("what-is-not-committed-is-not-left-behind", rc == 5 and "1 file is not committed" in e and os.path.exists(fix["worktree"]), (rc, o, e))
        house.write(house.repo + "/sub/a.txt", "dirty\n")
        rc, o, e = house("finish", "fix", "--merge", "-m", "add b")
        t.ok("a-dirty-target-is-refused", rc == 5 and house.repo in e and "uncommitted files" in e and not os.path.exists(house.repo + "/b.txt"), (rc, o, e))
        t.eq("before-anything-is-committed", house.json("finish", "fix")["uncommitted"], 1)
        house.git("checkout", "-q", "--", "sub/a.txt")
        rc, o, e = house("finish", "fix", "--merge", "-m", "add b")
        t.ok("committed-merged-and-gone", rc == 0 and "fix is merged and closed" in o and house.is_gone(fix), (rc, o, e))
        t.eq("with-what-it-had", (house.git("log", "-1", "--format=%s"), os.path.exists(house.repo + "/b.txt")), ("add b\n", True))
        t.ok("hooks-run-as-hosted-processes", any("the hook ran" in "".join(house("logs", p["id"])[1:]) for p in house.json("ps", "-a")))
        rc, o, e = house("finish", "fix", "--merge")
        t.ok("again-is-no-harm", rc == 0, (rc, o, e))
        rc, o, e = house("finish", "fix")
        t.ok("what-is-finished-is-said-to-be", rc == 5 and "fix is finished already" in e, (rc, o, e))
        clash = house.tree("clash", c="theirs\n")
        house.commit(clash)
        house.write(house.repo + "/c.txt", "ours\n")
        house.git("add", "-A")
        house.git("commit", "-qm", "ours")
        before = house.git("rev-parse", "HEAD")
        rc, o, e = house("finish", "clash", "--merge")
        t.ok("a-conflict-is-named", rc == 1 and "CONFLICT" in o + e and "c.txt" in o + e and "nothing was removed" in e, (rc, o, e))
        t.eq("and-taken-back", (house.git("rev-parse", "HEAD"), house.git("status", "--porcelain"), os.path.exists(house.repo + "/.git/MERGE_HEAD")), (before, "", False))
        t.ok("its-tree-stays", os.path.exists(clash["worktree"] + "/c.txt") and house.info(clash["id"])["status"] != "closed")
        busy = house.tree("busy")
        house.good("send", "busy", "SLOW:600", "--no-wait")
        house.until(busy["id"], "running")
        rc, o, e = house("finish", "busy", "--discard")
        t.ok("not-while-its-agent-is-at-work", rc == 5 and "at work" in e and "ostler interrupt busy" in e and os.path.exists(busy["worktree"]), (rc, o, e))
        house.good("interrupt", "busy")
        house.until(busy["id"], "interrupted")
        house.good("send", "busy", "ASK", "--no-wait")
        request = house.waiting(busy["id"])
        rc, o, e = house("finish", "busy", "--merge")
        t.ok("a-request-that-waits-is-named-and-not-waited-for", rc == 5 and request in e and "ostler approve " + request in e and "wait for it" not in e, (rc, o, e))
        rc, o, e = house("finish", "busy", "--undo")
        t.ok("what-was-never-discarded-is-not-said-to-be-kept-no-more", rc == 5 and "nothing of it is discarded" in e and busy["worktree"] in e, (rc, o, e))
        script = "import json,socket; s=socket.socket(socket.AF_UNIX); s.connect(%r); s.sendall(b'{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session.finish\",\"params\":{\"id\":\"busy\",\"how\":\"discard\"}}\\n'); print(s.makefile().readline())" % house.socket()
        t.has("nobody-hosted-may", house("run", "--", "python3", "-c", script)[1], "only reach their own")
        other = house.tree("other", d="d\n")
        house.commit(other, "add d")
        house.git("branch", "side")
        rc, o, e = house("finish", "other", "--merge", "--into", "side")
        t.ok("a-branch-that-nobody-has-checked-out-is-said", rc == 5 and "no worktree has branch side" in e, (rc, o, e))
        side = house.dir + "/side"
        house.git("worktree", "add", "-q", side, "side")
        rc, o, e = house("finish", "other", "--merge", "--into", "side")
        t.ok("another-branch-takes-it-in", rc == 0 and os.path.exists(side + "/d.txt") and not os.path.exists(house.repo + "/d.txt") and house.is_gone(other), (rc, o, e))
    finally:
        house.down()


@area("sessions-finish-discard")
def discard(t):
    house = Trees(t)
    try:
        trap = house.dir + "/trapped"
        for hook in ("post-checkout", "reference-transaction"):
            house.write(house.repo + "/.git/hooks/" + hook, "#!/bin/sh\necho \"$0 $*\" $(cat) >> %s\n" % trap, 0o755)
        fix = house.tree("fix", b="committed\n")
        os.path.exists(trap) and os.remove(trap)
        tree = fix["worktree"]
        house.commit(fix)
        head = house.git("rev-parse", "HEAD", at=tree).strip()
        for name in ODD:
            house.write(tree + "/" + name, name)
        house.write(tree + "/sub/a.txt", "changed\n")
        house.git("add", "sub/a.txt", at=tree)
        os.remove(tree + "/b.txt")
        status = house.git("status", "--porcelain", "-z", at=tree)
        os.path.exists(trap) and os.remove(trap)
        rc, o, e = house("finish", "fix", "--discard")
        t.ok("discarded-and-gone", rc == 0 and house.is_gone(fix), (rc, o, e))
        t.ok("the-way-back-is-said", "ostler finish %s --undo" % fix["id"] in o and "refs/ostler/discarded/" in o, o)
        t.eq("commits-stay-under-a-reference", house.git("rev-parse", house.refs().strip()).strip(), head)
        kept = [os.path.join(folder, name) for top in ("discarded", "finished") for folder, _, names in os.walk(house.state + "/instances/main/" + top) for name in names]
        t.ok("files-for-nobody-else", kept and {os.stat(path).st_mode & 0o777 for path in kept} == {0o600}, kept)
        rc, o, e = house("finish", fix["id"], "--undo")
        t.ok("undone", rc == 0 and tree in o, (rc, o, e))
        t.eq("every-file-is-back-as-it-was", (house.git("status", "--porcelain", "-z", at=tree), house.git("rev-parse", "HEAD", at=tree).strip(), house.git("branch", "--show-current", at=tree).strip()), (status, head, fix["branch"]))
        t.eq("by-every-name", [open(tree + "/" + name).read() for name in ODD], ODD)
        t.eq("and-nothing-is-kept-twice", (house.refs(), os.listdir(house.state + "/instances/main/finished")), ("", []))
        rc, o, e = house("finish", fix["id"], "--undo")
        t.ok("once", rc == 5 and "nothing of it is discarded" in e, (rc, o, e))
        t.ok("the-repository-runs-nothing", not os.path.exists(trap), os.path.exists(trap) and open(trap).read())
        large = house.tree("large")
        with open(large["worktree"] + "/large", "wb") as f:
            f.truncate((64 << 20) + 1)
        rc, o, e = house("finish", "large", "--discard")
        t.ok("what-cannot-be-kept-stops-it", rc == 5 and "67108865 bytes" in e and os.path.exists(large["worktree"] + "/large") and house.info(large["id"])["status"] != "closed" and house.refs() == "", (rc, o, e))
        os.remove(large["worktree"] + "/large")
        os.mkfifo(large["worktree"] + "/pipe")
        house.git("init", "-q", large["worktree"] + "/inner")
        house.write(large["worktree"] + "/inner/x", "x")
        rc, o, e = house("finish", "large", "--discard")
        t.ok("nor-is-a-repository-in-it", rc != 0 and os.path.exists(large["worktree"] + "/inner/x"), (rc, o, e))
        bare = house.tree("bare")
        o = house.good("finish", "bare", "--discard")
        t.ok("without-commits-none-are-said-to-be-kept", "kept" not in o and "--undo" in o, o)
        house.good("finish", bare["id"], "--undo")
        house.write(bare["worktree"] + "/new", "new")
        o = house.good("finish", "bare", "--discard")
        t.ok("only-what-is-not-committed", "its uncommitted files are kept for" in o and "commits are" not in o, o)
        asked = house.tree("asked", e="e\n")
        screen = Terminal(house, "finish", "asked")
        screen.until(b"[m/p/d/N]? ")
        screen.type(b"\r")
        t.eq("on-a-terminal-nothing-is-the-default", (screen.wait(), os.path.exists(asked["worktree"])), (0, True))
        screen = Terminal(house, "finish", "asked")
        screen.until(b"[m/p/d/N]? ")
        screen.type(b"m\r")
        screen.until(b"message for a commit of 1 file: ")
        screen.type(b"from a terminal\r")
        t.eq("and-everything-is-asked-for", (screen.wait(), house.git("log", "-1", "--format=%s"), house.is_gone(asked)), (0, "from a terminal\n", True))
    finally:
        house.down()


@area("sessions-finish-propose")
def propose(t):
    class Forge(Trees):
        def prepare(self):
            super().prepare()
            self.bin = self.dir + "/bin"
            os.makedirs(self.bin)
            self.env["PATH"] = self.bin + ":" + self.env["PATH"]
            self.git("init", "-q", "--bare", "../origin.git")
            self.git("remote", "add", "origin", self.dir + "/origin.git")
            self.git("push", "-q", "origin", "main")

    house = Forge(t)
    try:
        fix = house.tree("fix", b="new\n")
        house.commit(fix, "add b")
        rc, o, e = house("finish", "fix", "--pr")
        t.ok("without-the-program-it-says-which", rc == 5 and "`gh` is not installed" in e and os.path.exists(fix["worktree"]), (rc, o, e))
        calls = house.dir + "/calls"
        house.write(house.bin + "/gh", "#!/bin/sh\nprintf '%%s ' \"$@\" >> %s; echo >> %s\n[ \"$2\" = list ] && exit\n[ -e %s/login ] || { echo 'not logged in' >&2; exit 4; }\necho https://forge.invalid/1\n" % (calls, calls, house.dir), 0o755)
        rc, o, e = house("finish", "fix", "--pr")
        t.ok("what-the-program-says-is-shown-and-nothing-is-removed", rc == 1 and "not logged in" in o + e and "nothing was removed" in e and os.path.exists(fix["worktree"]), (rc, o, e))
        house.write(house.dir + "/login", "")
        rc, o, e = house("finish", "fix", "--pr", "--into", "main")
        t.ok("proposed-and-gone", rc == 0 and "https://forge.invalid/1" in o and "fix is proposed and closed" in o and house.is_gone(fix), (rc, o, e))
        made = [line for line in open(calls) if line.startswith("pr create")]
        t.eq("by-the-users-own-program", made[-1].split(), ["pr", "create", "--head=" + fix["branch"], "--base=main", "--fill"])
        t.ok("the-remote-has-its-commits", fix["branch"] in house.git("ls-remote", "origin") and "add b" in house.git("log", "--format=%s", "origin/" + fix["branch"]))
        none = house.tree("none")
        rc, o, e = house("finish", "none", "--pr")
        t.ok("nothing-to-propose-is-said", rc == 5 and "nothing to propose" in e and os.path.exists(none["worktree"]), (rc, o, e))
        os.symlink("origin.git", house.dir + "/gitlab.git")
        house.git("remote", "set-url", "origin", house.dir + "/gitlab.git")
        house.write(house.bin + "/glab", "#!/bin/sh\nprintf '%%s ' \"$@\" >> %s; echo >> %s\n[ \"$2\" = view ]\n" % (calls, calls), 0o755)
        again = house.tree("again", c="new\n")
        house.commit(again, "add c")
        rc, o, e = house("finish", "again", "--pr")
        looked = [line.split() for line in open(calls) if line.startswith("mr view")]
        t.ok("one-that-is-open-is-looked-at-by-its-branch-and-nothing-else", rc == 0 and looked == [["mr", "view", "--", again["branch"]]], (rc, o, e, looked))
    finally:
        house.down()


@area("sessions-finish-killed")
def killed(t):
    """The daemon is killed while a hook of the merge runs: the merge goes on, and is found again."""
    house = Trees(t)
    go = house.dir + "/go"
    try:
        fix = house.tree("fix", b="new\n")
        house.commit(fix, "add b")
        house.write(house.repo + "/main.txt", "m\n")
        house.git("add", "-A")
        house.git("commit", "-qm", "main goes on")
        house.write(house.repo + "/.git/hooks/pre-merge-commit", "#!/bin/sh\necho hook began\nwhile ! [ -e %s ]; do sleep 0.1; done\n" % go, 0o755)
        wire = Wire(house.socket())
        begun = wire.call("session.finish", id="fix", how="merge")["result"]["process"]["id"]
        t.ok("its-hook-runs", wait_for(lambda: "hook began" in "".join(house("logs", begun)[1:]), LONG, 0.1))
        os.kill(house.daemon_pid(), signal.SIGKILL)
        # The one that is dying may still be found.
        wait_for(lambda: house("up")[0] == 0, LONG, 0.1)
        again = Wire(house.socket()).call("session.finish", id="fix", how="merge")
        t.ok("another-daemon-finds-it-at-work", again.get("result") and again["result"]["process"]["id"] == begun, again)
        waiting = house.start("finish", "fix", "--merge")
        house.write(go, "")
        o, e = waiting.communicate(timeout=LONG)
        t.ok("and-who-asks-again-sees-it-through", waiting.returncode == 0 and house.is_gone(fix), (waiting.returncode, o, e))
        t.eq("merged-once", house.git("log", "--format=%s", "--merges").count("\n"), 1)
    finally:
        subprocess.run(["touch", go], check=True)
        house.down()
