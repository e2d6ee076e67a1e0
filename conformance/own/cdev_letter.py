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
        phone.send('{"jsonrpc": "2.0", "id": "by place", "method": "status/get", "params": []}')
        while (said := phone.hear()).get("id") != "by place":
            pass
        t.ok("nothing-by-place-is-nothing", "result" in said, said)
        t.eq("but-no-body", desk.port("POST", "/api/claude/stop", [], token=desk.access).status, 400)
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
        git(desk.repo, "add", "-A")
        git(desk.repo, "commit", "-q", "-m", "all")
        limit = 500 * 1024
        for name in ("README.md", "new.txt"):
            for size in (400 * 1024, 490 * 1024, 3 * limit):
                with open("%s/%s" % (desk.repo, name), "w") as f:
                    f.write("0123456789abcde\n" * (size // 16))
                told = phone.ok("git/diff", {"path": name})
                whole = size < 450 * 1024
                t.ok("a-diff-is-given-as-far-as-it-fits-%s-%d" % (name, size), told["is_truncated"] != whole and (size if whole else limit - 100) < len(told["diff"]) <= limit and told["diff"].startswith("diff --git "),
                     (told["is_truncated"], len(told["diff"])))
            os.unlink("%s/%s" % (desk.repo, name))
            git(desk.repo, "checkout", "-q", "--", ".")
        beyond = phone.ok("file/get", {"path": "README.md", "offset": 1000})
        t.eq("a-part-beyond-the-end-is-empty-of-a-file-of-its-size", members(beyond, "content", "size", "total_size", "truncated"),
             {"content": "", "size": 0, "total_size": 6, "truncated": False})
    finally:
        desk.down()


@area("cdev-letter-agents")
def agents(t):
    desk = Desk(t)
    try:
        phone = desk.phone()
        can = phone.ok("initialize")["capabilities"]
        t.eq("what-it-can-do-has-the-names-that-clients-look-for", [can[group].get(name) for group, name in (
            ("agent", "sessions"), ("agent", "sessionWatch"), ("repository", "index"), ("repository", "list"), ("repository", "tree"), ("repository", "rebuild"))], [True] * 6)
        session = phone.ok("agent/run", {"prompt": "QUESTION:red,blue", "agent_type": "echo"})["session_id"]
        asked = phone.until("claude_waiting")
        shown = json.loads(asked["input"])["questions"][0]
        t.eq("a-question-of-any-agent-is-the-tool-that-clients-know", (asked["tool_name"], sorted(shown), shown["multiSelect"], [o["label"] for o in shown["options"]]),
             ("AskUserQuestion", ["header", "id", "multiSelect", "options", "question"], False, ["red", "blue"]))
        pending = phone.ok("permission/pending")["requests"][0]
        t.eq("to-who-asks-too", (pending["tool_name"], pending["tool_input"]), ("AskUserQuestion", json.loads(asked["input"])))
        phone.ok("agent/respond", {"tool_use_id": asked["tool_use_id"], "response": json.dumps({shown["question"]: "blue"})})
        phone.until("claude_status", lambda e: e["state"] == "idle")
        parsed = [e["parsed"] for e in phone.events if e["event"] == "claude_log" and e["parsed"]]
        t.ok("its-lines-say-whose-they-are", parsed and all(p["session_id"] == session for p in parsed), parsed)
        desk.idle(phone)
        counted = lambda: [s["message_count"] for s in phone.ok("session/list")["sessions"] if s["session_id"] == session] + [phone.ok("session/get", {"session_id": session})["message_count"]]
        said = phone.ok("session/messages", {"session_id": session})["total"]
        t.ok("messages-are-counted-as-they-are-given", said > 1 and counted() == [said, said], (said, counted()))
        phone.ok("agent/run", {"prompt": "again", "agent_type": "echo", "mode": "continue", "session_id": session})
        desk.idle(phone)
        t.eq("and-counted-on", counted(), [said + 2] * 2)
        with open(desk.claude, "w") as f:
            f.write("#!/bin/sh\nexit 7\n")
        phone.events.clear()
        phone.ok("agent/run", {"prompt": "hello"})
        # What is told of the turn before may come after its end was seen.
        ended = phone.until("claude_status", lambda e: e["prompt"] == "hello" and e["state"] not in ("running", "waiting"))
        t.ok("one-that-ends-at-once-says-how", (ended["state"], ended["exit_code"]) == ("error", 7) and ended["error"], ended)
        t.ok("and-is-over", wait_for(lambda: phone.code("agent/stop") == "CLAUDE_NOT_RUNNING", LONG, 0.1))
        phone.send('{"jsonrpc": "2.0", "id": "last", "method": "shutdown"}')
        said = phone.f.read()
        t.ok("who-says-goodbye-is-answered-and-not-just-hung-up-on", b'"id":"last","result":{"success":true}' in said and said.endswith(b"\x88\x02\x03\xe8"), said[-120:])
    finally:
        desk.down()


@area("cdev-letter-names")
def names(t):
    """An agent that calls its conversations as it likes: clients know them by one name."""
    desk = Desk(t)
    try:
        desk.stop()
        with open(desk.fakes + "/gemini", "w") as f:
            f.write(codecast.FAKE.replace("@PY@", sys.executable).replace("@DIR@", desk.fakes))
        os.chmod(desk.fakes + "/gemini", 0o755)
        desk.more.update(PATH=desk.fakes + ":" + os.environ["PATH"], OSTLER_AGENT_DRIVE="oneshot")
        desk.start()
        phone = desk.phone()
        session = phone.ok("agent/run", {"prompt": "@@say:hello", "agent_type": "gemini"})["session_id"]
        info = phone.until("claude_session_info")
        phone.until("claude_status", lambda e: e["state"] == "idle")
        t.eq("every-event-has-the-name-that-the-run-was-answered-with", {e["session_id"] for e in phone.told()}, {session})
        t.ok("and-its-own-is-beside-it", info["agent_session_id"].startswith("sdk-"), info)
    finally:
        desk.down()
