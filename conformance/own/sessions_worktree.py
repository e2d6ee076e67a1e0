"""A session with a git work tree of its own, and what becomes of it."""
import os
import subprocess

from lib import area
from sessions_kit import House


def repository(house):
    """A repository with one commit, and git in it."""
    repo = house.dir + "/repo"

    def git(*args, at=repo):
        return subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"] + list(args),
                              cwd=at, env=house.env, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()
    os.makedirs(repo + "/sub")
    git("init", "-q", "-b", "main")
    with open(repo + "/sub/a.txt", "w") as f:
        f.write("1\n")
    git("add", "-A")
    git("commit", "-qm", "first")
    return repo, git


@area("sessions-worktree")
def worktree(t):
    house = House(t)
    try:
        trap = house.dir + "/trapped"
        repo, git = repository(house)
        hook = repo + "/.git/hooks/post-checkout"
        with open(hook, "w") as f:
            f.write("#!/bin/sh\ntouch %s\n" % trap)
        os.chmod(hook, 0o755)
        git("config", "core.fsmonitor", "touch %s; false" % trap)
        clean = house.json("new", "echo", repo + "/sub", "--name", "Clean One", "--worktree")
        t.ok("its-folder-is-the-same-place-in-the-tree", clean["workspace"] == clean["worktree"] + "/sub" and os.path.exists(clean["workspace"] + "/a.txt"), clean)
        t.ok("beneath-the-state-folder", clean["worktree"].startswith(house.state), clean["worktree"])
        branches = git("branch", "--list", "ostler/*")
        t.ok("on-a-branch-of-its-own", "ostler/Clean-One-" in branches, branches)
        t.ok("the-repository-runs-nothing", not os.path.exists(trap))
        rc, o, e = house("close", "Clean One")
        t.ok("a-clean-tree-goes-with-its-session", rc == 0 and not os.path.exists(clean["worktree"]), (rc, o, e))
        t.ok("and-so-does-its-branch", "ostler/Clean" not in git("branch", "--list"), o)
        finished = house.json("new", "echo", repo, "--worktree", "--resume", "known-elsewhere")
        t.eq("the-root-is-called-as-its-tree-is", finished["workspace"], finished["worktree"])
        house.good("close", finished["id"])
        rc, o, e = house("resume", finished["id"])
        t.ok("resuming-says-how-to-put-its-tree-back", rc == 4 and "git -C %s worktree add --detach %s" % (repo, finished["worktree"]) in e, (rc, o, e))
        dirty = house.json("new", "echo", repo, "--worktree", "feature")
        with open(dirty["worktree"] + "/new.txt", "w") as f:
            f.write("work\n")
        rc, o, e = house("close", dirty["id"])
        t.ok("changes-stay-and-are-told", rc == 0 and dirty["worktree"] in o and "not committed" in o and os.path.exists(dirty["worktree"] + "/new.txt"), (rc, o, e))
        t.ok("and-so-does-the-branch-that-was-named", "feature" in git("branch", "--list"))
        t.ok("closing-runs-nothing-either", not os.path.exists(trap))
        trees = os.listdir(house.state + "/instances/main/worktrees")
        one, two = (house.json("new", "echo", repo, "--worktree", "--key", "t")["worktree"] for _ in range(2))
        t.eq("the-same-key-makes-one-tree", (one, len(os.listdir(house.state + "/instances/main/worktrees"))), (two, len(trees) + 1))
        rc, o, e = house("new", "echo", repo, "--worktree", "feature")
        t.ok("a-branch-that-is-checked-out-is-refused-and-where-is-said", rc == 5 and "feature" in e and dirty["worktree"] in e, (rc, o, e))
        git("add", "-A", at=dirty["worktree"])
        git("commit", "-qm", "the work", at=dirty["worktree"])
        git("worktree", "remove", dirty["worktree"])
        again = house.json("new", "echo", repo, "--worktree", "feature")
        t.ok("a-branch-that-is-there-is-worked-on", os.path.exists(again["worktree"] + "/new.txt") and "feature" in git("branch", "--show-current", at=again["worktree"]), again)
        house.good("close", again["id"])
        t.ok("and-stays", "feature" in git("branch", "--list"))
        rc, o, e = house("new", "echo", "--worktree", repo)
        t.ok("a-path-is-no-branch", rc == 2 and "ostler new echo" in e, (rc, o, e))
    finally:
        house.down()


@area("sessions-uninstall")
def uninstall(t):
    house = House(t)
    try:
        repo, git = repository(house)
        clean, dirty, gone = (house.json("new", "echo", repo, "--name", name, "--worktree")["worktree"] for name in ("clean", "dirty", "gone"))
        for tree in (dirty, gone):
            with open(tree + "/precious", "w") as f:
                f.write("work\n")
        house.good("close", "gone")
        o = house.good("forget", "gone")
        t.ok("forget-names-the-tree-that-stays", gone in o and "git worktree remove" in o, o)
        rc, o, e = house("uninstall", "--purge")
        t.ok("not-while-it-runs", rc == 5 and "ostler down --kill" in e and "ostler up" not in e, (rc, o, e))
        house.good("down", "--kill")
        o = house.good("uninstall", "--purge", "--dry-run")
        lines = o.splitlines()
        t.ok("a-dry-run-lists-work-trees", "would remove worktree " + clean in lines, o)
        t.ok("and-says-which-would-stop-it", all(any(l.startswith("would stop") and tree in l for l in lines) for tree in (dirty, gone)), o)
        rc, o, e = house("uninstall", "--purge")
        t.ok("work-that-is-on-no-branch-stops-it", rc == 5 and dirty in e and gone in e and clean not in e and "--force" in e, (rc, o, e))
        t.ok("and-nothing-was-removed", all(os.path.exists(p) for p in (clean, dirty + "/precious", gone + "/precious")), o)
        git("add", "-A", at=dirty)
        git("commit", "-qm", "saved", at=dirty)
        rc, o, e = house("uninstall", "--purge", "--force")
        t.ok("force-removes-all", rc == 0 and not os.path.exists(house.state + "/instances"), (rc, o, e))
        t.eq("and-the-repository-knows", len(git("worktree", "list").splitlines()), 1)
        t.ok("what-is-left-is-named", any(l.startswith("left branch ostler/dirty-") for l in o.splitlines()), o)
        t.ok("commits-keep-their-branch", "saved" in git("log", "--all", "--format=%s"), git("log", "--all", "--oneline"))
    finally:
        house.down()
