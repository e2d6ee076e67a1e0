"""Every method of the native protocol there is, called by who may not: by a hosted process about what is another's, and by devices of
little right. One that somebody adds without a thought of them fails here."""
import json
import os
import select
import shlex
import shutil
import time

from approvals_kit import LONG, run_hosted
from devices_kit import Device, Guests, paired, port_of, refused
from lib import area
from t_git import Repo
from web import UPGRADE, ask, frame

# What tells a hosted process nothing of what others say, and changes nothing of theirs; and what it makes of its own.
HOSTED = {"instance.hello", "instance.status", "instance.agents", "instance.metrics", "hosted.list", "process.list", "process.get", "process.spawn", "session.create", "session.list",
          "session.get", "history.list", "history.search", "approval.list", "approval.get", "approval.unlock", "rule.list", "notice.key", "audit.verify"}
WATCH = HOSTED - {"process.spawn", "session.create", "approval.unlock"} | {
    "process.attach", "process.detach", "session.watch", "session.unwatch", "session.read", "session.raw", "session.changes", "session.setup", "workspace.list", "workspace.tree",
    "workspace.read", "workspace.watch", "workspace.unwatch", "search.names", "search.content", "search.status", "search.stats", "search.rebuild", "git.status", "git.diff", "git.log",
    "git.branches", "git.remotes", "git.stashes", "git.worktrees", "git.kept", "feed.read", "feed.follow", "feed.unfollow", "history.get", "history.messages",
    "audit.read", "notice.list", "notice.looking", "notice.subscribe", "notice.unsubscribe", "device.trouble", "device.revoke"}
ANSWER = WATCH | {"session.create", "session.prompt", "session.edit", "session.review", "session.interrupt", "session.continue", "session.close", "session.change", "approval.decide", "approval.shown"}
WORK = ANSWER | {"session.finish", "session.unfinish", "workspace.write", "git.stage", "git.unstage", "git.stage_patch", "git.discard", "git.restore", "git.branch_create",
                 "git.branch_delete", "git.stash", "git.stash_take", "git.merge_abort", "git.remote_add", "git.remote_remove", "git.commit", "git.push", "git.pull", "git.fetch", "git.switch",
                 "git.merge"}
# These say so in other words: there is no such watch, and that is what a connection to the port begins with.
OTHERWISE = ("has no watch", "only for the first words on a connection")

# Each request of a file on a connection of its own; the answers as one list.
SPEAKS = r'''
import json, socket, sys
answers = []
for call in json.load(open(sys.argv[2])):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    f = s.makefile("rw")
    f.write(json.dumps(call) + "\n")
    f.flush()
    answers.append(json.loads(f.readline()))
    s.close()
print(json.dumps(answers))
'''


def calls(house, repo, session, process, request):
    """Every method, told all that it must be told and whose it is."""
    known = {"version": 1, "program": "/bin/true", "data": "eA==", "signal": 15, "watch": 1, "rows": 9, "cols": 9, "name": "stolen", "all": True, "agent": "echo", "workspace": repo.dir,
             "size": {"rows": 9, "cols": 9}, "source": 0, "from": 0, "to": 1, "session": session, "depth": 1, "path": "a.txt", "paths": ["a.txt"], "query": "a", "commit": "HEAD",
             "how": "pop", "url": "/nowhere", "surface": "x", "hash": request["hash"], "verdict": "once", "effect": "allow", "privileged": False, "stages": [[{"is": "echo"}]], "setting": "x",
             "value": "y", "offer": "o", "message": "m", "code": "123456", "link": "l", "refresh": "r", "device": "d", "signature": "s", "token": "t", "endpoint": "https://1.1.1.1/x",
             "digests": [], "patch": "x", "number": 1, "comments": [{"path": "a.txt", "line": 1, "text": "x"}]}
    of = {"session": session, "history": session, "approval": request["id"]}
    more = {"device.revoke": {"all": True}, "rule.add": {"stages": [[{"is": "echo"}]]}, "rule.affirm": {"digests": []}, "device.affirm": {"digests": []}, "git.stage_patch": {"patch": "x"},
            "session.review": {"comments": known["comments"]}, "session.setup": {"again": True}, "session.change": {"autonomy": "all"}}
    for method in json.loads(house.good("api"))["methods"]:
        name, said = method["name"], {}
        for one in method.get("params", []):
            if one.get("required") or one["name"] in ("session", "paths"):
                said[one["name"]] = known.get(one["name"], of.get(name.split(".")[0], process))
        yield name, dict(said, **more.get(name, {}))


@area("methods")
def every_method(t):
    """What nobody hosted and no device of little right may call, method by method."""
    house = Guests(t).up()
    try:
        repo = Repo(t)
        session = house.json("new", "echo", repo.dir, "--name", "other")["id"]
        house.good("run", "-d", "--name", "another", "--", "sleep", "600")
        process = next(p["id"] for p in house.json("ps") if p.get("name") == "another")
        house.ask(["echo", "asked"])
        all = list(calls(house, repo, session, process, house.waiting()[0]))
        t.control("there-are-many", len(all) > 100 and not (WORK | HOSTED) - {name for name, _ in all}, sorted((WORK | HOSTED) - {name for name, _ in all}))
        by_hosted(t, house, [call for call in all if call[0] not in HOSTED])
        for rights, may in (("watch", WATCH), ("answer", ANSWER), ("work", WORK)):
            device = Device(house, paired(house, rights, "--rights", rights)["tokens"]["access"])
            through = []
            for name, params in all:
                # Its own place it may always give up.
                params = dict(params, device="another") if name == "device.revoke" else params
                said = None if name in may else refused(device, name, **params) or "it was let"
                if said and not any(word in said for word in ("may not", "no device may call") + OTHERWISE):
                    through.append((name, said))
            t.stopped("a-%s-device-does-more" % rights, not through, through)
            t.control("a-%s-device-looks" % rights, device("session.get", id=session)["name"] == "other")
            device.close()
        t.ok("nothing-was-done", house.state_of(house.waiting()[0]["id"]) == "pending" and any(p.get("name") == "another" for p in house.json("ps")))
    finally:
        house.down()


def by_hosted(t, house, all):
    script, file = house.dir + "/speaks.py", house.dir + "/calls.json"
    with open(script, "w") as f:
        f.write(SPEAKS)
    with open(file, "w") as f:
        json.dump([{"jsonrpc": "2.0", "id": 1, "method": name, "params": params} for name, params in all], f)
    said = run_hosted(house, [], " ".join(map(shlex.quote, (shutil.which("python3"), script, house.record()["native"], file))))
    answers = json.loads(said.strip().splitlines()[-1])
    refusal = lambda answer: answer.get("error", {}).get("data", {}).get("kind") == "refused" or any(word in answer.get("error", {}).get("message", "") for word in OTHERWISE)
    through = [(name, str(answer)[:200]) for (name, _), answer in zip(all, answers) if not refusal(answer)]
    t.stopped("a-hosted-process-does-more", len(answers) == len(all) and not through, through)


@area("device")
def folders(t):
    """A device of little right names a folder for a session or for files: its user's home, ostler's own, one that a link leads to."""
    house = Guests(t).up()
    try:
        repo, other = Repo(t), t.tmp()
        os.makedirs(repo.dir + "/sub")
        os.symlink(other, repo.dir + "/out")
        for folder in (house.dir, other, repo.dir):
            with open(folder + "/secret.txt", "w") as f:
                f.write("secret\n")
        own = house.state + "/instances/main"
        house.json("new", "echo", repo.dir)
        at_home = house.json("new", "echo", house.dir)["id"]
        for rights in ("answer", "work"):
            device = Device(house, paired(house, rights, "--rights", rights)["tokens"]["access"])
            begins = lambda folder, **more: device("session.create", agent="echo", workspace=folder, **more)["id"]
            t.control("a-%s-device-begins-where-somebody-works" % rights, device("workspace.read", session=begins(repo.dir), path="secret.txt") and device("workspace.read", session=begins(repo.dir + "/sub/.."), path="secret.txt"))
            away = {"home": house.dir, "ssh": house.dir + "/.ssh", "root": "/", "proc": "/proc/self/root" + other, "state": own, "config": house.dir + "/.config", "other": other, "link": repo.dir + "/out",
                    "above": os.path.dirname(repo.dir), "none": other + "/none"}
            os.makedirs(away["ssh"], exist_ok=True)
            said = {name: refused(device, "session.create", agent="echo", workspace=folder) or "it was let" for name, folder in away.items()}
            t.stopped("a-%s-device-begins-anywhere" % rights, all("works in" in words or "ostler's own" in words for words in said.values()), said)
            said = {name: refused(device, "workspace.read", root=folder, path="secret.txt") or "it was let" for name, folder in away.items()}
            t.stopped("a-%s-device-reads-anywhere" % rights, all("works in" in words or "ostler's own" in words for words in said.values()), said)
            said = [refused(device, method, session=at_home, **more) or "it was let" for method, more in (("workspace.read", {"path": "secret.txt"}), ("search.content", {"query": "secret"}), ("workspace.list", {}))]
            t.stopped("a-%s-device-reads-home-because-of-a-session-there" % rights, all("ostler's own" in words for words in said), said)
            device.close()
        t.ok("that-is-on-record", any("works in" in json.dumps(row) for row in house.audit("attempted")), house.audit("attempted"))
        device = Device(house, paired(house, "works", "--rights", "work")["tokens"]["access"])
        tree = device("session.create", agent="echo", workspace=repo.dir, worktree=True)
        t.control("it-has-a-work-tree", device("workspace.list", session=tree["id"])["total"] > 0 and device("session.create", agent="echo", workspace=tree["workspace"])["id"])
        full = Device(house, paired(house, "types", "--rights", "full")["tokens"]["access"])
        t.control("one-that-types-begins-anywhere-and-others-after-it", full("session.create", agent="echo", workspace=other) and device("session.create", agent="echo", workspace=other)["id"])
        said = [refused(full, "session.create", agent="echo", workspace=own) or "it was let", refused(full, "workspace.read", root=own, path="claustrum.token") or "it was let"]
        t.stopped("ostlers-own-folders-are-any-devices", all("ostler's own" in words for words in said), said)
    finally:
        house.down()


@area("device")
def searches_without_end(t):
    """A device that only watches asks for more searches than there are threads: everybody else is served."""
    house = Guests(t).up()
    connections = []
    try:
        repo = Repo(t)
        for n in range(200):
            with open("%s/%d.txt" % (repo.dir, n), "w") as f:
                f.write(("a" * 200 + "\n") * 4000)
        session = house.json("new", "echo", repo.dir)["id"]
        token = paired(house, "watches", "--rights", "watch")["tokens"]["access"]
        asks = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "search.content", "params": {"session": session, "query": "(a+)+$b|(a|aa)+c", "regex": True, "within_ms": 60000}})
        found = Device(house, token)("search.content", session=session, query="hello")
        t.control("it-may-search", found["searched"] > 0, found)
        port = port_of(house)
        for _ in range(24):
            connections.append(ask(port, *UPGRADE, "Host: 127.0.0.1:%d" % port, "Authorization: Bearer " + token, keep=True)[1])
        time.sleep(1)
        # Whoever was sent away can be read from: there is the end.
        alive = [s for s in connections if not select.select([s], [], [], 0)[0]]
        t.stopped("takes-every-place", 0 < len(alive) <= 16, len(alive))
        for s in alive:
            s.sendall(frame(1, asks.encode()) * 40)
        # It would have as many as it can by then.
        time.sleep(2)
        threads = len(os.listdir("/proc/%d/task" % house.record()["pid"]))
        rc, out, err = house("ps")
        t.stopped("takes-every-thread-by-searching", threads < 150 and rc == 0, (threads, rc, err))
    finally:
        for s in connections:
            s.close()
        house.down()
