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


