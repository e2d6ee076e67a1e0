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
