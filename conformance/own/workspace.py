"""Files and git of a workspace at the native door, and `ostler diff`."""
import base64
import json
import os
import signal
import subprocess
import time

from kit import Fail
from lib import area, wait_for
from sessions_kit import LONG, House, Wire

ODD = ["with space", "quote\"d", "new\nline", "gr\u00fc\u00dfe", "-dash", ":colon.txt", "..hidden", "*"]


class Repo:
    """A repository with one commit beneath a house, and the native door."""

    def __init__(self, t, house=House):
        self.house = house(t)
        self.root = os.path.realpath(self.house.dir) + "/repo"
        os.makedirs(self.root)
        self.git("init", "-q", "-b", "main")
        for key, value in (("user.name", "t"), ("user.email", "t@example.invalid"), ("commit.gpgsign", "false")):
            self.git("config", key, value)
        self.write("a.txt", "1\n")
        self.git("add", "-A")
        self.git("commit", "-qm", "first")
        self.wire = Wire(self.house.socket())

    def git(self, *args):
        done = subprocess.run(["git", "--literal-pathspecs"] + list(args), cwd=self.root, env=self.house.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise Fail("git %s: %s" % (args, done.stdout))
        return done.stdout.decode(errors="surrogateescape")

    def write(self, name, text, mode=None):
        path = self.root + "/" + name
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        if mode:
            os.chmod(path, mode)

    def read(self, name):
        with open(self.root + "/" + name) as f:
            return f.read()

    def call(self, method, **params):
        return self.wire.call(method, **dict({"root": self.root}, **params))

    def good(self, method, **params):
        answer = self.call(method, **params)
        if "result" not in answer:
            raise Fail("%s: %s" % (method, answer))
        return answer["result"]

    def refused(self, method, **params):
        error = self.call(method, **params).get("error") or {}
        return (error.get("data") or {}).get("kind")

    def process(self, id):
        return self.wire.call("process.get", id=id)["result"]

    def said(self, id):
        """What it said on both outputs: hooks speak on the second."""
        rc, o, e = self.house("logs", id)
        return o + e

    def ended(self, id):
        if not wait_for(lambda: self.process(id)["exit"], LONG, 0.05):
            raise Fail("%s should have ended" % id)
        return self.process(id)["exit"]["code"]


@area("workspace-files")
def files(t):
    repo = Repo(t)
    try:
        outside = repo.house.dir + "/outside"
        with open(outside, "w") as f:
            f.write("secret")
        os.symlink("../outside", repo.root + "/out")
        os.symlink("/proc/self/fd", repo.root + "/fds")
        os.mkfifo(repo.root + "/pipe")
        for path in ("../outside", "/etc/passwd", "out", "fds/0", "a/../../outside"):
            said = repo.call("workspace.read", path=path)
            t.ok("no-way-out-by-%s" % path.replace("/", "-"), said.get("error") and "secret" not in json.dumps(said), said)
        began = time.monotonic()
        t.eq("a-pipe-is-named", (repo.refused("workspace.read", path="pipe"), time.monotonic() - began < 10), ("bad_params", True))
        with open(repo.root + "/huge", "wb") as f:
            f.truncate(4 << 30)
        said = repo.call("workspace.read", path="huge")["error"]["message"]
        t.has("a-huge-file-says-its-size", said, "4294967296 bytes")
        t.eq("and-is-read-in-parts", base64.b64decode(repo.good("workspace.read", path="huge", offset=1 << 31, length=3)["data"]), b"\0\0\0")
        os.remove(repo.root + "/huge")
        for name in ODD:
            repo.write(name, name)
        name = b"\xff\xfe"
        with open(repo.root.encode() + b"/" + name, "w") as f:
            f.write("odd")
        t.eq("every-name-is-read", [repo.good("workspace.read", path=n)["text"] for n in ODD], ODD)
        listed = [e["name"] for e in repo.good("workspace.list")["entries"]]
        odd = {"base64": base64.b64encode(name).decode()}
        t.ok("and-listed-as-it-is", set(ODD) <= {n for n in listed if isinstance(n, str)} and odd in listed, listed)
        t.eq("what-is-no-text-comes-back-too", repo.good("workspace.read", path=odd)["text"], "odd")
        first = repo.good("workspace.list", limit=2)
        rest = repo.good("workspace.list", after=first["entries"][-1]["name"])
        t.eq("pages-add-up", [e["name"] for e in first["entries"] + rest["entries"]], listed)
        tree = repo.good("workspace.tree", depth=3)
        t.ok("a-tree-does-not-enter-what-is-gits", [e for e in tree["entries"] if e["path"] == ".git"][0]["cut"] and not [e for e in tree["entries"] if str(e["path"]).startswith(".git/")], tree["entries"][:5])
        hash = repo.good("workspace.write", path="made", text="one")["hash"]
        t.eq("a-file-is-made-once", repo.refused("workspace.write", path="made", text="x"), "refused")
        repo.good("workspace.write", path="made", text="two", replaces=hash)
        t.eq("and-replaced-as-it-was-seen", (repo.refused("workspace.write", path="made", text="three", replaces=hash), repo.read("made")), ("refused", "two"))
        os.symlink(".git/hooks", repo.root + "/hooks")
        t.eq("never-what-is-gits", [repo.refused("workspace.write", path=p, text="x") for p in (".git/hooks/pre-commit", "hooks/pre-commit", ".git/config")], ["refused"] * 3)
        session = repo.house.json("new", "echo", repo.root)["id"]
        t.eq("a-session-names-its-workspace", repo.wire.call("workspace.read", session=session, path="a.txt")["result"]["text"], "1\n")
        t.ok("one-of-both", repo.wire.call("workspace.read", path="a.txt").get("error") and repo.wire.call("workspace.read", path="a.txt", root="repo").get("error"))
    finally:
        repo.house.down()


@area("workspace-git")
def git(t):
    repo = Repo(t)
    try:
        for name in ODD:
            repo.write(name, "new\n")
        repo.write("a.txt", "2\n")
        status = repo.good("git.status", untracked="all", lines=True)
        t.eq("a-status", (status["branch"], [(c["path"], c["status"], c["added"], c["removed"]) for c in status["unstaged"]], sorted(status["untracked"])), ("main", [("a.txt", "M", 1, 1)], sorted(ODD)))
        staged = []
        for name in ODD:
            repo.good("git.stage", paths=[name])
            staged.append([c["path"] for c in repo.good("git.status")["staged"]])
            repo.good("git.unstage", paths=[name])
        t.eq("exactly-it-is-staged", staged, [[name] for name in ODD])
        patch = repo.good("git.diff", path="a.txt")["files"][0]
        t.ok("a-difference-in-gits-form", patch["patch"].startswith("diff --git a/a.txt b/a.txt\n") and patch["added"] == 1, patch)
        repo.good("git.stage_patch", patch=patch["patch"])
        t.eq("hunks-are-staged-by-their-patch", repo.git("diff", "--cached", "--name-only"), "a.txt\n")
        t.eq("no-file-outside", [repo.refused("git.diff", path=p) for p in ("../../etc/passwd", "/etc/passwd")], ["bad_params"] * 2)
        gone = repo.good("git.discard", paths=["a.txt", "-dash"], staged=True)
        t.eq("discarded", (repo.read("a.txt"), os.path.exists(repo.root + "/-dash")), ("1\n", False))
        kept = gone["kept"]["id"]
        t.eq("and-kept", [k["id"] for k in repo.good("git.kept")["kept"]], [kept])
        modes = {os.stat(os.path.join(folder, name)).st_mode & 0o77 for folder, _, names in os.walk(repo.house.state + "/instances/main/discarded") for name in names}
        t.eq("for-nobody-else", modes, {0})
        repo.good("git.restore", id=kept)
        t.eq("and-put-back", (repo.read("a.txt"), repo.read("-dash"), repo.git("diff", "--cached", "--name-only")), ("2\n", "new\n", "a.txt\n"))
        with open(repo.root + "/large", "wb") as f:
            f.truncate((64 << 20) + 1)
        t.eq("more-than-is-kept-is-refused", (repo.refused("git.discard", paths=["large"]), os.path.exists(repo.root + "/large")), ("refused", True))
        repo.good("git.discard", paths=["large"], without_keeping=True)
        t.ok("unless-nothing-need-be-kept", not os.path.exists(repo.root + "/large"))
        for name in ("--orphan=evil", "a.txt", "HEAD~1", "-"):
            t.ok("no-branch-is-called-%s" % name, repo.refused("git.switch", name=name) in ("not_found", "bad_params"), name)
        repo.git("init", "-q", "--bare", "../origin")
        repo.good("git.remote_add", name="origin", url=repo.house.dir + "/origin")
        commit = repo.good("git.commit", message="--second\n\nbody", key="c1")
        t.eq("a-commit-is-a-hosted-process", repo.ended(commit["id"]), 0)
        t.eq("the-same-key-is-one-commit", repo.good("git.commit", message="--second\n\nbody", key="c1")["id"], commit["id"])
        t.ok("with-a-journal", "second" in repo.said(commit["id"]))
        log = repo.good("git.log")["commits"]
        t.eq("in-the-log", [(c["subject"], c["body"]) for c in log], [("--second", "body"), ("first", "")])
        t.eq("pushed", repo.ended(repo.good("git.push", set_upstream=True)["id"]), 0)
        t.eq("upstream", [repo.good("git.status")[k] for k in ("upstream", "ahead", "behind")], ["origin/main", 0, 0])
        t.eq("switched", (repo.ended(repo.good("git.switch", name="side", create=True)["id"]), repo.good("git.status")["branch"]), (0, "side"))
        tree = repo.house.json("new", "echo", repo.root, "--worktree")
        trees = {t["path"]: t["sessions"] for t in repo.good("git.worktrees")["worktrees"]}
        t.ok("work-trees-with-their-sessions", trees.get(os.path.realpath(tree["worktree"])) == [tree["id"]] and trees.get(repo.root) == [], trees)
        t.ok("what-is-no-repository-says-so", repo.wire.call("git.status", root=repo.house.dir)["error"]["message"].endswith("is not in a git repository"))
        lock = repo.root + "/.git/index.lock"
        open(lock, "w").close()
        said = repo.call("git.stage", paths=["-dash"])["error"]["message"]
        t.has("another-programs-lock-is-named", said, lock)
        os.remove(lock)
    finally:
        repo.house.down()


@area("workspace-hooks")
def hooks(t):
    """Looking runs nothing of the repository; a hook that takes its time holds nobody up, can be stopped, and outlives the daemon."""
    repo = Repo(t)
    try:
        trap, go = repo.house.dir + "/trapped", repo.house.dir + "/go"
        for key in ("filter.evil.clean", "diff.external", "core.fsmonitor"):
            repo.git("config", key, "sh -c 'touch %s; cat'" % trap)
        repo.write(".gitattributes", "*.bin filter=evil diff=evil\n")
        repo.write("x.bin", "x\n")
        for method, params in (("git.status", {"lines": True}), ("git.diff", {}), ("git.log", {}), ("git.branches", {}), ("git.stashes", {}), ("git.worktrees", {}), ("git.remotes", {})):
            repo.good(method, **params)
        t.ok("looking-runs-nothing", not os.path.exists(trap))
        t.eq("and-says-what-was-left-out", repo.good("git.status")["filters_left_out"], ["evil"])
        t.eq("of-a-difference-too", repo.good("git.diff")["filters_left_out"], ["evil", "diff.external"])
        for key in ("filter.evil.clean", "diff.external", "core.fsmonitor"):
            repo.git("config", "--unset", key)
        t.eq("where-nothing-was-nothing-is-said", [method for method in ("git.status", "git.diff") if "filters_left_out" in repo.good(method)], [])
        with open(repo.house.env["HOME"] + "/.gitconfig", "w") as f:
            f.write('[diff "mine"]\n\ttextconv = sed s/^/converted:/\n')
        repo.write(".gitattributes", "a.txt diff=mine\n")
        repo.write("a.txt", "1\n2\n")
        drawn = lambda **how: repo.good("git.diff", path="a.txt", **how)["files"][0]["patch"]
        t.ok("what-the-user-names-does-run", "\n+converted:2\n" in drawn() and "filters_left_out" not in repo.good("git.diff"), drawn())
        repo.good("git.stage_patch", patch=drawn(plain=True))
        t.eq("hunks-are-staged-as-the-file-holds-them", repo.git("show", ":a.txt"), "1\n2\n")
        repo.git("config", "diff.theirs.textconv", "touch %s; cat" % trap)
        named = repo.good("git.diff", of="staged")
        t.ok("unless-the-repository-names-one-too", "converted" not in named["files"][0]["patch"] and named["filters_left_out"] == ["diff.mine", "diff.theirs"] and not os.path.exists(trap), named)
        repo.git("reset", "-q", "--hard")
        repo.write(".git/hooks/pre-commit", "#!/bin/sh\necho hook began\nwhile ! [ -e %s ]; do sleep 0.1; done\necho hook ended\n" % go, 0o755)
        repo.write("a.txt", "2\n")
        repo.good("git.stage", paths=["a.txt"])
        slow = repo.good("git.commit", message="slow")["id"]
        seen = lambda id, text: wait_for(lambda: text in repo.said(id), LONG, 0.1)
        t.ok("a-hook-runs-and-is-watched", seen(slow, "hook began"))
        began = time.monotonic()
        t.ok("and-holds-nobody-up-who-looks", repo.good("git.status")["staged"] and time.monotonic() - began < 20)
        busy = repo.call("git.stage", paths=["x.bin"])["error"]["message"]
        t.ok("who-would-write-is-told-for-whom-it-waits", "git commit is changing this repository" in busy and slow in busy, busy)
        repo.house.good("kill", slow)
        t.ok("stopped", wait_for(lambda: repo.process(slow)["exit"], LONG, 0.1))
        t.eq("and-nothing-is-committed", repo.git("log", "--format=%s"), "first\n")
        wait_for(lambda: not os.path.exists(repo.root + "/.git/index.lock"), LONG, 0.1)
        again = repo.good("git.commit", message="slow", key="k")["id"]
        t.ok("again", seen(again, "hook began"))
        os.kill(repo.house.daemon_pid(), signal.SIGKILL)
        repo.house.good("up")
        repo.wire = Wire(repo.house.socket())
        t.eq("a-killed-daemon-finds-its-commit", repo.good("git.commit", message="slow", key="k")["id"], again)
        open(go, "w").close()
        t.eq("which-ends-well", repo.ended(again), 0)
        t.eq("once", repo.git("log", "--format=%s"), "slow\nfirst\n")
        t.ok("with-all-it-said", "hook ended" in repo.said(again))
        # Push and pull: their hooks are children of a hosted git, which is no child of the daemon.
        os.remove(go)
        repo.git("init", "-q", "--bare", "-b", "main", "../origin")
        repo.git("remote", "add", "origin", "../origin")
        repo.write(".git/hooks/pre-push", "#!/bin/sh\necho pre-push of $PPID.\nwhile ! [ -e %s ]; do sleep 0.1; done\n" % go, 0o755)
        push = repo.good("git.push", set_upstream=True)["id"]
        t.ok("a-hook-of-push-runs-hosted", seen(push, "pre-push of %d." % repo.process(push)["pid"]), repo.said(push))
        parent = lambda pid: int(open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()[1])
        t.ok("not-by-the-daemon", parent(repo.process(push)["pid"]) != repo.house.daemon_pid())
        t.eq("and-holds-the-push-back", repo.git("ls-remote", "origin"), "")
        open(go, "w").close()
        t.eq("until-it-ends", (repo.ended(push), repo.git("rev-parse", "origin/main")), (0, repo.git("rev-parse", "HEAD")))
        repo.git("clone", "-q", "../origin", "../other")
        repo.git("-C", "../other", "-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-q", "--allow-empty", "-m", "theirs")
        repo.git("-C", "../other", "push", "-q")
        repo.write(".git/hooks/post-merge", "#!/bin/sh\necho post-merge of $PPID.\n", 0o755)
        pull = repo.good("git.pull", how="fast_forward")["id"]
        t.ok("a-hook-of-pull-too", repo.ended(pull) == 0 and "post-merge of " in repo.said(pull), repo.said(pull))
        t.eq("with-what-came", repo.git("log", "-1", "--format=%s"), "theirs\n")
        repo.write(".git/hooks/pre-push", "#!/bin/sh\necho not today\nexit 1\n", 0o755)
        repo.git("commit", "-q", "--allow-empty", "-m", "mine", "--no-verify")
        refused = repo.good("git.push")["id"]
        t.ok("a-hook-that-says-no-is-heard", repo.ended(refused) != 0 and "not today" in repo.said(refused), repo.said(refused))
        t.eq("and-nothing-is-pushed", repo.git("log", "-1", "--format=%s", "origin/main"), "theirs\n")
    finally:
        open(repo.house.dir + "/go", "w").close()
        repo.house.down()


PROBE = """
import json, os, socket, sys
out = {}
for name, method, params in json.load(open(%r)):
    s = socket.socket(socket.AF_UNIX)
    s.connect(%r)
    s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\\n")
    out[name] = json.loads(s.makefile().readline())
open(%r, "w").write(json.dumps(out))
"""

WRITING = {
    "workspace.write": {"path": "new", "text": "x"}, "git.stage": {"paths": ["a.txt"]}, "git.unstage": {"paths": ["a.txt"]}, "git.stage_patch": {"patch": "x"},
    "git.discard": {"paths": ["a.txt"]}, "git.restore": {"id": "d0"}, "git.branch_create": {"name": "x"}, "git.branch_delete": {"name": "x"}, "git.stash": {},
    "git.stash_take": {"commit": "x", "how": "pop"}, "git.merge_abort": {}, "git.remote_add": {"name": "x", "url": "/x"}, "git.remote_remove": {"name": "x"},
    "git.commit": {"message": "x"}, "git.push": {}, "git.pull": {}, "git.fetch": {}, "git.switch": {"name": "x"}, "git.merge": {"name": "x"},
}
READING = {
    "workspace.list": {}, "workspace.tree": {"depth": 2}, "workspace.read": {"path": "a.txt"}, "git.status": {}, "git.diff": {}, "git.log": {}, "git.branches": {},
    "git.remotes": {}, "git.stashes": {}, "git.worktrees": {}, "git.kept": {},
}


@area("workspace-reach")
def reach(t):
    """A hosted caller looks at its own session's workspace, and changes nothing."""
    repo = Repo(t)
    house = repo.house
    try:
        other = os.path.realpath(house.dir) + "/other"
        subprocess.run(["git", "clone", "-q", repo.root, other], env=house.env, check=True)
        os.symlink(other, repo.root + "/link")
        asks, said, probe = house.dir + "/asks", house.dir + "/said", house.dir + "/probe.py"
        calls = [("own " + m, m, dict(p, root=repo.root)) for m, p in {**READING, **WRITING}.items()]
        calls += [("other " + m, m, dict(p, root=root)) for root in (other,) for m, p in {**READING, **WRITING}.items()]
        calls += [("link", "workspace.read", {"root": repo.root + "/link", "path": "a.txt"}), ("above", "workspace.list", {"root": house.dir})]
        with open(asks, "w") as f:
            json.dump(calls, f)
        with open(probe, "w") as f:
            f.write(PROBE % (asks, house.socket(), said))
        session = house.json("new", "acp", repo.root, "--", "python3", probe)["id"]
        house("send", session, "go", "--no-wait")
        if not wait_for(lambda: os.path.exists(said) and os.path.getsize(said), LONG, 0.1):
            raise Fail("the agent says nothing: %s" % house.info(session))
        time.sleep(0.2)
        with open(said) as f:
            heard = json.load(f)
        kind = lambda name: ((heard[name].get("error") or {}).get("data") or {}).get("kind", "answered")
        t.eq("it-looks-at-its-own", {m: kind("own " + m) for m in READING}, {m: "answered" for m in READING})
        t.eq("and-changes-nothing-of-it", {m: kind("own " + m) for m in WRITING}, {m: "refused" for m in WRITING})
        t.eq("nothing-of-others", {m: kind("other " + m) for m in {**READING, **WRITING}}, {m: "refused" for m in {**READING, **WRITING}})
        t.eq("by-no-other-way", (kind("link"), kind("above")), ("refused", "refused"))
        t.ok("and-says-why", "only reach their own" in heard["own git.commit"]["error"]["message"], heard["own git.commit"])
        t.eq("nothing-came-of-it", (repo.git("log", "--format=%s"), repo.git("status", "--porcelain", "--", "a.txt"), os.path.exists(repo.root + "/new")), ("first\n", "", False))
        script = "import socket; s=socket.socket(socket.AF_UNIX); s.connect(%r); s.sendall(b'%s\\n'); print(s.makefile().readline())" % (house.socket(), json.dumps({"jsonrpc": "2.0", "id": 1, "method": "git.status", "params": {"root": repo.root}}))
        t.has("a-command-has-no-session-and-no-workspace", house("run", "--", "python3", "-c", script)[1], "only reach their own")
    finally:
        house.down()


@area("workspace-diff")
def diff(t):
    """What a session changed: by turn from its tools, as a whole from git, in a work tree too."""
    repo = Repo(t)
    house = repo.house
    try:
        time.sleep(1.1)
        for where in ("plain", "worktree"):
            more = ["--worktree"] if where == "worktree" else []
            made = house.json("new", "echo", repo.root, "--name", where, "--permissions", "all", *more)
            at = made["worktree"] or repo.root
            house.good("send", where, "WRITE:a.txt and")
            house.good("send", where, "nothing at all")
            time.sleep(1.1)
            house.good("send", where, "WRITE:b.txt")
            whole = house.good("diff", where)
            t.ok(where + "-the-whole-is-gits-difference", "diff --git a/a.txt b/a.txt" in whole and "new file mode" in whole and "b/b.txt" in whole, whole)
            t.eq(where + "-which-git-takes", subprocess.run(["git", "apply", "-R", "--check", "-"], input=whole.encode(), cwd=at, env=house.env).returncode, 0)
            first, none, third = (house("diff", where, "--turn", str(n)) for n in (1, 2, 3))
            t.ok(where + "-a-turn-is-its-own-files", first[0] == 0 and "a.txt" in first[1] and "+This line is" in first[1] and "b.txt" not in first[1] and "b.txt" in third[1] and "a.txt" not in third[1], (first, third))
            t.ok(where + "-a-turn-without-changes-says-so", none[0] == 0 and not none[1] and "changed nothing in turn 2" in none[2], none)
            found = house.json("diff", where)
            t.eq(where + "-as-data", [(turn["turn"], [f["path"] for f in turn["files"]]) for turn in found["turns"]], [(1, ["a.txt"]), (3, ["b.txt"])])
            t.ok(where + "-with-what-was-put-in", found["turns"][0]["files"][0]["edits"][0]["new"].startswith("This line is"), found["turns"][0])
            subprocess.run(["git", "add", "-A"], cwd=at, env=house.env, check=True)
            subprocess.run(["git", "commit", "-qm", "kept"], cwd=at, env=house.env, check=True)
            t.ok(where + "-committed-or-not", "b/b.txt" in house.good("diff", where))
            if where == "plain":
                repo.git("reset", "-q", "--hard", "HEAD~1")
        bare = house.dir + "/bare"
        os.makedirs(bare)
        house.json("new", "echo", bare, "--name", "bare", "--permissions", "all")
        house.good("send", "bare", "WRITE:c.txt")
        said = house.good("diff", "bare")
        t.ok("without-git-what-the-tools-did", "c.txt" in said and "+This line is" in said, said)
        rc, o, e = house("diff", "bare", "--turn", "9")
        t.ok("a-turn-that-never-was", rc == 4 and "no turn 9" in e, (rc, o, e))
        rc, o, e = house("diff", "nobody")
        t.ok("a-session-that-never-was", rc == 4, (rc, o, e))
    finally:
        house.down()
