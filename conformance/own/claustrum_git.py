"""git.list_branches."""
import os

from lib import area
from t_git import Repo


@area("git.list_branches")
def branches(t):
    c = t.common().conn()
    M = "git.list_branches"
    r = Repo(t)
    t.res("one", c, M, {"path": r.dir}, '{"isRepo":true,"branches":["main"]}')
    for name in ("zeta", "Alpha", "feature/b", "feature/a", "a-b", "a<b>&c"):
        r("branch", name)
    want = '{"isRepo":true,"branches":["Alpha","a-b","a\\u003cb\\u003e\\u0026c","feature/a","feature/b","main","zeta"]}'
    t.res("sorted", c, M, {"path": r.dir}, want)
    os.makedirs(r.dir + "/sub")
    t.res("from-a-subdirectory", c, M, {"path": r.dir + "/sub"}, want)
    t.res("non-repo", c, M, {"path": r.base}, '{"isRepo":false,"branches":[]}')
    t.res("missing-directory", c, M, {"path": r.base + "/none"}, '{"isRepo":false,"branches":[]}')
    e = Repo(t, "empty", commits=0)
    t.res("obs.unborn-has-none", c, M, {"path": e.dir}, '{"isRepo":true,"branches":[]}')
    k = os.path.join(r.base, "clone")
    r("clone", "-q", r.dir, k)
    r("tag", "v1", cwd=k)
    r("checkout", "-q", "--detach", cwd=k)
    t.res("obs.local-heads-only", c, M, {"path": k}, '{"isRepo":true,"branches":["main"]}')
    r("worktree", "add", "-q", "-b", "wt", r.base + "/wt")
    t.eq("seen-from-a-linked-worktree", "wt" in c.call(M, {"path": r.base + "/wt"})["result"]["branches"], True)


@area("git.guarded")
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
        t.ok("control-the-trap-works", os.path.exists(trap))
        os.remove(trap)
        made = c.call("git.worktree_create", {"baseRepo": r.dir, "branchName": "w", "worktreePath": r.base + "/w"})
        t.ok("worktree-made", "result" in made and open(r.base + "/w/a.txt").read() == "v0\n", made)
        r.write("a.txt", "changed\n")
        t.res("status", c, "git.status", {"path": r.dir}, '{"isRepo":true,"clean":false,"changes":["M a.txt"]}')
        c.call("git.info", {"path": r.dir})
        c.call("git.list_branches", {"path": r.dir})
        c.call("git.worktree_remove", {"baseRepo": r.dir, "worktreePath": r.base + "/w"})
        t.ok("worktree-removed", not os.path.exists(r.base + "/w"))
        t.ok("nothing-of-the-repository-ran", not os.path.exists(trap))
        t.ok("the-users-own-driver-ran", os.path.exists(own))
    finally:
        os.remove(settings)
