"""The cdev door, to the letter of its document where no other suite looks: members that are null, decisions that are made once, tokens that
nobody gave, every member of an event, and agents other than claude in claude's words."""
import json
import os
import sys

from approvals_kit import LONG
from cdev_kit import Cdev
from cdev_work import Desk, codecast, git
from lib import area, wait_for

# What a parameter that must be there is given.
GIVEN = {"session_id": "none", "path": "README.md", "paths": ["README.md"], "branch": "none", "query": "READ", "tool_use_id": "none", "decision": "allow",
         "response": "yes", "input": "x", "after": "0"}
# What would change something, or wait for another machine.
NOT_TRIED = ("shutdown", "agent/run", "git/commit", "git/push", "git/pull", "git/fetch", "git/stash", "git/stash/pop", "git/stash/apply", "git/stash/drop", "git/discard",
             "session/send", "session/start", "events/resume", "upload/start", "upload/chunk", "image/add")


@area("cdev-letter-null")
def null(t):
    """A member that is null is one that is missing, of every method."""
    desk = Desk(t)
    try:
        phone, tried = desk.phone(), 0
        for method in desk.port("GET", "/api/rpc/discover", token=desk.access).json["methods"]:
            if method["name"] in NOT_TRIED:
                continue
            must = {p["name"]: GIVEN.get(p["name"], "x") for p in method["params"] if p["required"]}
            without = phone.code(method["name"], must)
            for p in method["params"]:
                tried += 1
                if p["required"]:
                    said = phone.call(method["name"], {**must, p["name"]: None})["error"]
                    t.ok("%s-needs-%s" % (method["name"], p["name"]), said["code"] == -32602 and "`%s`" % p["name"] in said["message"], said)
                else:
                    t.eq("%s-%s" % (method["name"], p["name"]), phone.code(method["name"], {**must, p["name"]: None}), without)
        t.ok("many-were-tried", tried > 80, tried)
        run = phone.ok("agent/run", {"prompt": "CONF:simple", "mode": None, "session_id": None, "permission_mode": None, "agent_type": None, "workspace_id": None})
        t.eq("a-prompt-with-nothing-but-nulls-runs", (run["status"], run["mode"], run["agent_type"]), ("started", "new", "claude"))
        desk.idle(phone)
        answer = desk.port("POST", "/api/git/checkout", {"branch": "main", "create": None}, token=desk.access)
        t.eq("over-rest-too", (answer.status, answer.json["success"]), (200, True))
    finally:
        desk.down()


@area("cdev-letter-pairing")
def pairing(t):
    house = Cdev(t, env={"CDEV_SECURITY_REQUIRE_PAIRING_APPROVAL": "true"})
    try:
        port = house.port
        token = port.token()
        id = port.exchange(token).json["request_id"]
        decide = lambda verb, id: port("POST", "/api/auth/pairing/" + verb, {"request_id": id}).status
        t.eq("no-id-is-a-mistake-of-the-client", [decide(verb, "") for verb in ("approve", "reject")], [400, 400])
        t.eq("a-decision-is-made-once", [decide(verb, id) for verb in ("approve", "reject", "approve")], [200, 404, 404])
        device = port.exchange(token)
        t.eq("and-is-what-counts", device.status, 200)
        good = device.json["refresh_token"]
        for name, made_up in (("longer", good + "x"), ("another-end", good[:-1] + ("A" if good[-1] != "A" else "B")), ("shorter", good[:-1])):
            said = [port("POST", "/api/auth/" + verb, {"refresh_token": made_up}).status for verb in ("revoke", "refresh")]
            t.eq("a-token-that-was-never-given-%s" % name, said, [401, 401])
        t.eq("puts-nobody-out", port("GET", "/api/status", token=device.json["access_token"]).status, 200)
        t.eq("and-the-good-one-is-still-good", port("POST", "/api/auth/refresh", {"refresh_token": good}).status, 200)
    finally:
        house.down()


@area("cdev-letter-git")
def repository(t):
    desk = Desk(t)
    try:
        phone = desk.phone()
        git(desk.dir, "init", "-q", "--bare", "-b", "main", "remote.git")
        git(desk.repo, "remote", "add", "origin", desk.dir + "/remote.git")

        def did(operation, call):
            """What the call answered, and the event that it made."""
            phone.events.clear()
            answer = call()
            return answer, phone.until("git_operation_completed", lambda e: e["operation"] == operation)
        members = lambda event, *names: {name: event.get(name, "is not there") for name in names}
        first, event = did("push", lambda: phone.ok("git/push", {"set_upstream": True}))
        t.eq("a-first-push-counts-its-commits", (first["commits_pushed"], event["commits_pushed"], first["message"]), (1, 1, "Pushed 1 commit"))
        _, event = did("commit", lambda: phone.code("git/commit", {"message": "nothing is staged"}))
        t.eq("a-commit-that-failed-has-its-members", members(event, "success", "sha", "files_affected"), {"success": False, "sha": None, "files_affected": 0})
        _, event = did("pull", lambda: phone.ok("git/pull"))
        t.eq("so-has-a-pull-without-conflicts", members(event, "commits_pulled", "conflicted_files"), {"commits_pulled": 0, "conflicted_files": []})
        git(desk.dir, "clone", "-q", "remote.git", "other")
        git(desk.dir + "/other", "commit", "-q", "--allow-empty", "-m", "theirs")
        git(desk.dir + "/other", "push", "-q", "origin", "main", "main:feature/far")
        git(desk.repo, "commit", "-q", "--allow-empty", "-m", "ours")
        _, event = did("push", lambda: phone.code("git/push"))
        t.eq("and-a-push-that-was-refused", members(event, "success", "commits_pushed"), {"success": False, "commits_pushed": 0})
        os.makedirs(desk.repo + "/folder")
        for n in range(3):
            with open("%s/folder/%d" % (desk.repo, n), "w") as f:
                f.write("x\n")
        for operation in ("stage", "unstage"):
            _, event = did(operation, lambda: phone.ok("git/" + operation, {"paths": ["folder", "README.md"]}))
            t.eq("a-folder-counts-as-its-files-%s" % operation, event["files_affected"], 4)
        phone.ok("git/fetch")
        for name in ("feature/far", "origin/feature/far"):
            taken, event = did("checkout", lambda: phone.ok("git/checkout", {"branch": name}))
            t.eq("a-branch-that-only-a-remote-has-%s" % name.split("/")[0], (event["branch"], git(desk.repo, "rev-parse", "--abbrev-ref", "@{u}")), ("feature/far", "origin/feature/far"))
            phone.ok("git/checkout", {"branch": "main"})
            git(desk.repo, "branch", "-q", "-D", "feature/far")
        git(desk.repo, "remote", "add", "second", desk.dir + "/remote.git")
        git(desk.repo, "fetch", "-q", "second")
        t.eq("which-of-two-remotes-is-not-guessed", phone.code("git/checkout", {"branch": "feature/far"}), "GIT_ERROR")
        beyond = phone.ok("file/get", {"path": "README.md", "offset": 1000})
        t.eq("a-part-beyond-the-end-is-empty-of-a-file-of-its-size", members(beyond, "content", "size", "total_size", "truncated"),
             {"content": "", "size": 0, "total_size": 6, "truncated": False})
    finally:
        desk.down()


