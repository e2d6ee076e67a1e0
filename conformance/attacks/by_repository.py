"""A repository that names programs: hooks, filters, a file system monitor. See also `git_helpers` in by_hosted_helpers.py."""
import os

from approvals_kit import LONG, House, Terminal
from lib import area
from t_git import Repo


@area("repository")
def guarded(t):
    """Nothing that a repository names runs; what the user's own configuration names does."""
    d = t.common()
    c = d.conn()
    r = Repo(t)
    trap, own = r.base + "/trapped", r.base + "/own"
    r.write(".gitattributes", "*.txt filter=trap\n*.own filter=mine\n")
    r.write("b.own", "1\n")
    r("add", "-A")
    r("commit", "-q", "-m", "attributes")
    evil = "touch %s; cat" % trap
    for key in ("filter.trap.smudge", "filter.trap.clean", "filter.mine.smudge", "core.fsmonitor"):
        r("config", key, evil)
    for hook in ("post-checkout", "reference-transaction"):
        path = r.dir + "/.git/hooks/" + hook
        with open(path, "w") as f:
            f.write("#!/bin/sh\n%s\n" % evil)
        os.chmod(path, 0o755)
    settings = d.home + "/.gitconfig"
    with open(settings, "w") as f:
        f.write("[filter \"mine\"]\n\tsmudge = \"touch %s; cat\"\n" % own)
    try:
        r("worktree", "add", "-q", r.base + "/control")
        t.control("git-itself-runs-the-trap", os.path.exists(trap))
        os.remove(trap)
        made = c.call("git.worktree_create", {"baseRepo": r.dir, "branchName": "w", "worktreePath": r.base + "/w"})
        t.control("worktree-made", "result" in made and open(r.base + "/w/a.txt").read() == "v0\n", made)
        r.write("a.txt", "changed\n")
        t.res("status", c, "git.status", {"path": r.dir}, '{"isRepo":true,"clean":false,"changes":["M a.txt"]}')
        c.call("git.info", {"path": r.dir})
        c.call("git.list_branches", {"path": r.dir})
        c.call("git.worktree_remove", {"baseRepo": r.dir, "worktreePath": r.base + "/w"})
        t.ok("worktree-removed", not os.path.exists(r.base + "/w"))
        t.stopped("hooks-filters-and-fsmonitor-of-the-repository", not os.path.exists(trap))
        t.control("the-users-own-driver-ran", os.path.exists(own))
    finally:
        os.remove(settings)
