"""Names, content and watches of a workspace at the native door, and its changes in the feed."""
import base64
import json
import os
import signal
import subprocess
import time

from kit import Fail
from lib import area, wait_for
from sessions_kit import LONG, House, Wire, for_nobody
from workspace import Repo


class Watched(Repo):
    """A repository under watch, and what the feed tells of it."""

    def __init__(self, t):
        super().__init__(t)
        self.watching = self.good("workspace.watch")
        self.position = self.watching["position"]

    def told(self):
        """What the feed has told since the last look."""
        page = self.wire.call("feed.read", after=self.position, workspace=self.root)["result"]
        self.position = page["position"]
        return page["changes"]

    def until(self, wanted, what):
        """Everything up to and with the first change that is wanted."""
        all = []
        deadline = time.monotonic() + LONG
        while time.monotonic() < deadline:
            all += self.told()
            if any(wanted(c) for c in all):
                return all
            time.sleep(0.05)
        raise Fail("%s should be told: %s" % (what, all))

    def file(self, path, change):
        is_it = lambda c: (c.get("file") or {}).get("path") == path and c["file"].get("change") == change
        return next(c["file"] for c in self.until(is_it, "%s %s" % (path, change)) if is_it(c))


def indexed(repo):
    if not wait_for(lambda: repo.good("search.status")["state"] == "ready", LONG, 0.05):
        raise Fail("the index should be ready: %s" % repo.good("search.status"))
    return repo.good("search.status")


@area("search-names")
def names(t):
    repo = Repo(t)
    try:
        for name in ("src/utils.js", "src/main.rs", ".env", "docs/guide.md", "build/out.o"):
            repo.write(name, name)
        repo.write(".gitignore", "build/\n")
        repo.git("add", "-A")
        status = indexed(repo)
        t.ok("an-index-says-how-much-it-holds-and-when-it-looked", status["files"] == 6 and status["git"] and status["last_full_scan"] and status["memory"] > 0, status)

        def found(query, **more):
            return [f["path"] for f in repo.good("search.names", query=query, **more)["files"]]
        t.eq("letters-in-their-order-find-a-file", found("utl"), ["src/utils.js"])
        t.eq("what-is-ignored-is-not-found", found("out", mode="exact"), [])
        t.eq("a-beginning-finds-names-and-paths", found("ma", mode="prefix"), ["src/main.rs"])
        t.eq("an-ending-finds-its-files", found("md", mode="extension"), ["docs/guide.md"])
        t.eq("filters-hold", found("", filters={"sensitive": True}), [".env"])
        repo.write("src/late.rs", "late")
        late = lambda: [(f["path"], f["tracked"]) for f in repo.good("search.names", query="late")["files"]]
        t.eq("a-file-that-was-just-written-is-found-and-not-as-git's", wait_for(late, LONG, 0.05), [("src/late.rs", False)])
        t.ok("what-git-has-is-known", all(f["tracked"] for f in repo.good("search.names", query="utils")["files"]))
        figures = repo.good("search.stats")
        t.ok("figures-say-what-git-has-and-ignores", figures["tracked"] == 6 and figures["ignored"] == 1 and figures["sensitive"] == 1 and figures["files"] == 7, figures)
        page = repo.good("search.names", query="", limit=3)
        rest = repo.good("search.names", query="", limit=50, skip=3)
        t.eq("a-ranking-goes-on-where-a-page-ends", (page["total"], len(page["files"]) + len(rest["files"])), (7, 7))
        repo.good("search.rebuild")
        t.ok("an-index-that-is-made-again-is-ready-again", indexed(repo)["files"] == 7)
        t.eq("a-folder-that-is-not-there-has-none", repo.wire.call("search.names", root=repo.root + "/nowhere", query="")["error"]["data"]["kind"], "not_found")
    finally:
        repo.house.down()


@area("search-content")
def content(t):
    repo = Repo(t)
    try:
        for number in range(40):
            repo.write("d%d/f%02d.txt" % (number % 3, number), "before\nneedle %d\nafter\n" % number)
        repo.write("skipped.log", "needle\n")
        repo.write(".gitignore", "*.log\n")
        repo.write("new", b"needle\0".decode())
        found, after, pages = [], {}, 0
        while True:
            page = repo.good("search.content", query="needle", limit=7, before=1, **after)
            found += [(f["path"], [l["text"] for l in f["lines"]]) for f in page["files"]]
            pages += 1
            if not page["more"]:
                break
            after = {"from": page["next"]}
        t.eq("every-line-is-found-once-page-by-page-in-the-order-of-paths", ([p for p, _ in found], pages > 5), (sorted("d%d/f%02d.txt" % (n % 3, n) for n in range(40)), True))
        t.ok("with-what-stands-before-it", all(lines[0] == "before" and lines[1].startswith("needle") for _, lines in found))
        one = repo.good("search.content", query=r"needle \d7$", regex=True)
        t.eq("a-pattern-is-understood-and-says-where", [f["lines"][0]["spans"] for f in one["files"]], [[[0, 9]]] * 3)
        t.eq("a-pattern-that-is-none-is-refused", repo.refused("search.content", query="(", regex=True), "bad_params")
        # One large file under many names, and a pattern that has to look at each letter of it.
        repo.write("large/0", "some hay and more hay\n" * 100000)
        for number in range(1, 100):
            os.link(repo.root + "/large/0", repo.root + "/large/%d" % number)
        repo.good("search.rebuild")
        looked = lambda: repo.good("search.status")
        t.ok("all-of-it-is-known", wait_for(lambda: looked()["state"] == "ready" and looked()["files"] >= 140, LONG, 0.1), looked())
        slow = {"root": repo.root, "query": r"([a-z]+ ){4}\d", "regex": True, "path": "large", "within_ms": 60000}
        whole, left = for_nobody(repo.house, "search.content", **slow)
        t.ok("a-search-for-nobody-ends", whole >= 10 and left < max(whole // 2, 3), (whole, left))
    finally:
        repo.house.down()


@area("search-watch")
def watch(t):
    repo = Watched(t)
    try:
        t.ok("a-watch-says-where-to-read-on-and-that-the-system-tells", repo.watching["root"] == repo.root and "polled" not in repo.watching, repo.watching)
        repo.write("new.txt", "12345")
        t.eq("a-new-file-is-told-with-its-size", repo.file("new.txt", "created").get("size"), 5)
        repo.write("a.txt", "22")
        t.eq("a-changed-one-too", repo.file("a.txt", "modified").get("size"), 2)
        os.rename(repo.root + "/new.txt", repo.root + "/named.txt")
        t.eq("a-renamed-one-with-its-old-name", repo.file("named.txt", "renamed").get("old_path"), "new.txt")
        os.remove(repo.root + "/named.txt")
        t.ok("and-one-that-is-gone", repo.file("named.txt", "deleted")["path"] == "named.txt")
        repo.git("add", "a.txt")
        stands = repo.until(lambda c: c.get("git") and c["git"]["staged"] == 1, "what is staged")
        t.eq("where-git-stands-is-told", [c["kind"] for c in stands][-1:], ["workspace.git_changed"])
        repo.git("switch", "-q", "-c", "deep/branch")
        repo.until(lambda c: c.get("git") and c["git"]["branch"] == "deep/branch", "the branch")
        tree = repo.house.dir + "/tree"
        repo.git("worktree", "add", "-q", tree, "-b", "other")
        there = repo.wire.call("workspace.watch", root=os.path.realpath(tree))["result"]
        subprocess.run(["git", "-C", tree, "switch", "-q", "-c", "third"], check=True, env=repo.house.env)
        told = lambda: [c for c in repo.wire.call("feed.read", after=there["position"], workspace=there["root"])["result"]["changes"] if (c.get("git") or {}).get("branch") == "third"]
        t.ok("in-a-work-tree-of-its-own-too", wait_for(told, LONG, 0.1))
        repo.good("workspace.unwatch", watch=repo.watching["watch"])
        repo.until(lambda c: (c.get("watch") or {}).get("on") is False, "the end")
        repo.write("unseen", "x")
        time.sleep(2)
        t.eq("who-does-not-watch-any-more-is-told-nothing", repo.told(), [])
    finally:
        repo.house.down()


@area("search-watch-bytes")
def no_text(t):
    """Names that are no UTF-8, of a file and of the folder that a link leads to, come back from the feed as they are."""
    repo = Repo(t)
    try:
        real = os.path.realpath(repo.house.dir).encode() + b"/gr\xfc\xdfe"
        os.makedirs(real)
        link = repo.house.dir + "/link"
        os.symlink(real, link)
        bytes_of = lambda name: {"base64": base64.b64encode(name).decode()}
        watching = repo.good("workspace.watch", root=link)
        t.eq("a-folder-is-called-by-its-bytes", watching["root"], bytes_of(real))
        with open(real + b"/\xff.txt", "w") as f:
            f.write("12")

        def told():
            page = repo.wire.call("feed.read", after=watching["position"], workspace=watching["root"])["result"]
            return [(c["workspace"], c["file"]["path"]) for c in page["changes"] if c.get("file")]
        t.eq("a-file-too", wait_for(told, LONG, 0.1), [(bytes_of(real), bytes_of(b"\xff.txt"))])
        t.eq("and-both-can-be-given-back", repo.good("workspace.read", root=watching["root"], path=bytes_of(b"\xff.txt"))["text"], "12")
        os.rename(real + b"/\xff.txt", real + b"/\xfe.txt")
        moved = lambda: [c["file"] for c in repo.wire.call("feed.read", after=watching["position"], workspace=watching["root"])["result"]["changes"] if (c.get("file") or {}).get("change") == "renamed"]
        t.eq("the-name-before-a-rename-as-well", [f.get("old_path") for f in wait_for(moved, LONG, 0.1) or []], [bytes_of(b"\xff.txt")])
    finally:
        repo.house.down()


class Limited(House):
    """A home in a user namespace of its own, in which the system watches few folders."""
    FEW = 8

    def prepare(self):
        script = "echo %d > /proc/sys/user/max_inotify_watches && echo ready && exec sleep 600" % self.FEW
        self.holder = subprocess.Popen(["unshare", "--user", "--map-root-user", "sh", "-c", script], stdout=subprocess.PIPE)
        if self.holder.stdout.readline() != b"ready\n":
            raise Fail("a user namespace should be made")
        inside = self.dir + "/inside"
        with open(inside, "w") as f:
            f.write("#!/bin/sh\nexec nsenter --target %d --user --preserve-credentials %s \"$@\"\n" % (self.holder.pid, self.program))
        os.chmod(inside, 0o755)
        self.program = inside

    def down(self):
        super().down()
        self.holder.kill()
        self.holder.wait()


@area("search-watch-limit")
def limit(t):
    """The kernel's own limit of watches, lowered for one user namespace: it is said, and everything is looked at instead."""
    house = Limited(t)
    try:
        root = os.path.realpath(house.dir) + "/many"
        for number in range(30):
            os.makedirs("%s/d%d" % (root, number))

        def follow():
            p = house.start("--json", "events", "--follow", "--workspace", root)
            return p, json.loads(p.stdout.readline())
        p, first = follow()
        why = (first.get("watch") or {}).get("why") or ""
        t.ok("the-limit-is-said", first["watch"]["on"] and "fs.inotify.max_user_watches" in why, first)
        with open(root + "/d29/late", "w") as f:
            f.write("x")
        told = {}
        while not told.get("file"):
            told = json.loads(p.stdout.readline())
        t.eq("and-changes-are-found-by-looking", (told["file"]["path"], told["file"]["change"]), ("d29/late", "created"))
        p.terminate()
        p.communicate(timeout=LONG)
        os.makedirs(house.dir + "/few")
        root = os.path.realpath(house.dir) + "/few"
        p, first = follow()
        t.ok("a-folder-that-fits-is-watched-by-the-system", first["watch"]["on"] and "why" not in first["watch"], first)
        p.terminate()
        p.communicate(timeout=LONG)
    finally:
        house.down()


@area("search-watch-storm")
def storm(t):
    repo = Watched(t)
    try:
        repo.told()
        for number in range(50000):
            with open("%s/file-%d" % (repo.root, number), "w"):
                pass
        all = repo.until(lambda c: c["kind"] == "workspace.file_changed" and not c.get("file"), "look again")
        time.sleep(3)
        all += repo.told()
        t.eq("50000-files-are-one-look-again", sum(1 for c in all if c["kind"] == "workspace.file_changed" and not c.get("file")), 1)
        t.ok("and-not-a-list-of-them", len(all) < 3000, len(all))
        t.eq("the-index-has-them-all", repo.good("search.names", query="file-", mode="exact")["total"], 50000)
    finally:
        repo.house.down()


@area("search-watch-kill")
def killed(t):
    repo = Watched(t)
    try:
        repo.write("before", "1")
        repo.file("before", "created")
        position = repo.position
        killed = repo.wire.call("instance.status")["result"]["pid"]
        os.kill(killed, signal.SIGKILL)
        if not wait_for(lambda: _answers(repo), LONG, 0.1):
            raise Fail("a daemon should be back")
        repo.position = position
        told = repo.until(lambda c: (c.get("watch") or {}).get("on") is False, "that nobody watched")
        t.eq("a-follower-learns-that-nobody-watched-for-a-while", [c["watch"].get("why") for c in told if c.get("watch")], ["ostler was restarted"])
        repo.write("meanwhile", "1")
        repo.watching = repo.good("workspace.watch")
        repo.until(lambda c: (c.get("watch") or {}).get("on") is True, "that it is watched again")
        repo.write("after", "1")
        repo.file("after", "created")
        t.ok("what-came-while-nobody-watched-is-found", repo.good("search.names", query="meanwhile")["total"] == 1)
    finally:
        repo.house.down()


@area("search-index-killed")
def killed_in_the_middle(t):
    """The first walk is cut off by SIGKILL: the next daemon has every name, once."""
    repo = Repo(t)
    try:
        for number in range(20000):
            if number % 100 == 0:
                os.makedirs("%s/d%d" % (repo.root, number // 100))
            with open("%s/d%d/file-%d" % (repo.root, number // 100, number), "w"):
                pass
        unfinished = 0
        for _ in range(2):
            pid = repo.wire.call("instance.status")["result"]["pid"]
            Wire(repo.house.socket()).send("search.names", root=repo.root, query="file-", mode="exact", limit=1)
            unfinished += repo.good("search.status")["state"] == "indexing"
            os.kill(pid, signal.SIGKILL)
            if not wait_for(lambda: _answers(repo), LONG, 0.05):
                raise Fail("a daemon should be back")
        t.ok("it-was-killed-in-the-middle", unfinished, unfinished)
        found, total = [], 1
        while len(found) < total:
            page = repo.good("search.names", query="file-", mode="exact", limit=1000, skip=len(found))
            found, total = found + [f["path"] for f in page["files"]], page["total"]
        t.eq("every-name-is-there-once", (total, len(set(found))), (20000, 20000))
    finally:
        repo.house.down()


def _answers(repo):
    try:
        repo.wire = Wire(repo.house.socket())
        return "result" in repo.wire.call("instance.status")
    except (OSError, Fail, ValueError, KeyError):
        return False


@area("search-status-without-git")
def without_git(t):
    """`git.status` of a watched workspace in which nothing changed runs no git."""
    counting = {}

    class Counted(House):
        def prepare(self):
            counting["log"] = self.dir + "/gits"
            folder = self.dir + "/bin"
            os.makedirs(folder)
            real = subprocess.check_output(["sh", "-c", "command -v git"], text=True).strip()
            with open(folder + "/git", "w") as f:
                f.write("#!/bin/sh\necho \"$@\" >> %s\nexec %s \"$@\"\n" % (counting["log"], real))
            os.chmod(folder + "/git", 0o755)
            self.env["PATH"] = folder + ":" + self.env["PATH"]
            # Programs are looked for where a login shell finds them.
            with open(self.env["HOME"] + "/.profile", "a") as f:
                f.write("export PATH=%s:$PATH\n" % folder)

    repo = Repo(t, Counted)
    try:
        def gits(doing):
            with open(counting["log"], "a"):
                pass
            with open(counting["log"]) as f:
                before = len(f.readlines())
            doing()
            with open(counting["log"]) as f:
                return len(f.readlines()) - before
        repo.good("workspace.watch")
        status = lambda: repo.good("git.status")
        quiet = lambda: gits(status) == 0
        t.ok("nothing-changed-git-is-not-run", wait_for(quiet, LONG, 0.3))
        repo.write("a.txt", "changed\n")
        t.eq("a-change-is-seen-at-once", [c["path"] for c in status()["unstaged"]], ["a.txt"])
        t.ok("and-then-git-is-not-run-again", wait_for(quiet, LONG, 0.3))
        with open(repo.house.env["HOME"] + "/.gitconfig", "a") as f:
            f.write("[status]\n\tshowUntrackedFiles = no\n")
        t.ok("other-settings-git-runs", gits(status) > 0)
        t.ok("until-they-are-known", wait_for(quiet, LONG, 0.3))
        repo.write("ignored.log", "1")
        t.eq("a-new-file-is-seen", status()["untracked"], ["ignored.log"])
        repo.write(".gitignore", "*.log\n")
        t.eq("other-rules-are-seen", status()["untracked"], [".gitignore"])
        os.makedirs(repo.root + "/hidden")
        repo.write("hidden/kept.log", "1")
        repo.git("add", "-f", "hidden/kept.log")
        repo.git("commit", "-qam", "kept")
        repo.write("hidden/kept.log", "2")
        t.eq("what-git-has-although-it-is-ignored-is-never-answered-from-memory", [c["path"] for c in status()["unstaged"]], ["hidden/kept.log"])
    finally:
        repo.house.down()
