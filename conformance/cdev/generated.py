#!/usr/bin/env python3
"""A client that is made from an OpenRPC document: `generated.py DOCUMENT PORT TOKEN`.

Every method of the document becomes a function with its parameters by name; it refuses arguments that the document does not allow and
answers that are not as described. Then all of them are called in an order in which each has something to do, and once with nothing. One
line of JSON for each call: the case, the method, whether it gave a result, and what was wrong."""
import base64
import hashlib
import json
import os
import subprocess
import sys
import time

import jsonschema_rs

from cdev_kit import Socket

DOCUMENT, PORT, TOKEN = json.load(open(sys.argv[1])), int(sys.argv[2]), sys.argv[3]
CODES = {e["code"]: e["data"]["code"] for e in DOCUMENT["components"]["errors"].values()}
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def validator(schema):
    """With what it refers to."""
    return jsonschema_rs.Draft7Validator({**schema, "components": DOCUMENT["components"]})


class Refused(Exception):
    """The server said no, in the form that the document describes."""


class Method:
    def __init__(self, client, described):
        self.client, self.name = client, described["name"]
        self.params = {p["name"]: validator(p["schema"]) for p in described["params"]}
        self.required = {p["name"] for p in described["params"] if p.get("required")}
        self.result = validator(described["result"]["schema"])

    def __call__(self, **given):
        for name, value in given.items():
            if name not in self.params:
                raise TypeError("%s takes no %s" % (self.name, name))
            self.params[name].validate(value)
        if missing := self.required - set(given):
            raise TypeError("%s needs %s" % (self.name, missing))
        return self.send(given)

    def send(self, given):
        answer = self.client.socket.call(self.name, given)
        if "error" in answer:
            error = answer["error"]
            if CODES.get(error["code"]) != error["data"]["code"] or not error["message"]:
                raise ValueError("an error that the document does not name: %s" % error)
            raise Refused(error["data"]["code"])
        self.result.validate(answer["result"])
        return answer["result"]


class Heard(Socket):
    """Remembers where in the events it is."""
    position = None

    def hear(self):
        said = super().hear()
        if isinstance(said, dict) and "position" in said.get("params", {}):
            self.position = said["params"]["position"]
        return said


class Client:
    def __init__(self):
        self.socket = Heard(PORT, TOKEN)
        self.methods = {m["name"]: Method(self, m) for m in DOCUMENT["methods"]}

    def __getitem__(self, name):
        return self.methods[name]


client = Client()


BEGAN = time.monotonic()


def told(case, method, answered, why=""):
    print(json.dumps({"at": round(time.monotonic() - BEGAN, 2), "case": case, "method": method, "answered": answered, "why": str(why)[:600]}), flush=True)


def call(name, expect=None, **given):
    """One call. `expect` is the word of a refusal that is right here."""
    case = "%s%s" % (name, "-" + expect if expect else "")
    try:
        result = client[name](**given)
        told(case, name, True, "wanted %s" % expect if expect else "")
        return result
    except Refused as e:
        told(case, name, False, "" if str(e) == expect else "refused: %s" % e)
    except (ValueError, TypeError, jsonschema_rs.ValidationError) as e:
        told(case, name, True, e)
    return {}


def settled():
    """No agent runs any more."""
    for _ in range(300):
        if client["agent/status"]()["state"] not in ("running", "waiting"):
            return
        time.sleep(0.05)


def asked():
    """What waits for an answer, once something does."""
    for _ in range(300):
        if waiting := client["permission/pending"]()["requests"]:
            return waiting
        time.sleep(0.05)
    return [{"tool_use_id": "nobody asked"}]


# In an order in which there is something to find.
call("initialize", protocolVersion="1.0", clientInfo={"name": "generated", "version": "1"}, capabilities={})
call("initialized")
call("status/get")
repo = call("workspace/list")["workspaces"][0]
here = repo["path"]
call("agent/stop", "CLAUDE_NOT_RUNNING")
session = call("agent/run", prompt="CONF:permission")["session_id"]
waiting = asked()
call("permission/pending")
call("agent/status")
call("agent/respond", tool_use_id=waiting[0]["tool_use_id"], response="approved")
settled()
call("permission/respond", "CLAUDE_NOT_RUNNING", tool_use_id="none", decision="allow")
call("session/start")
again = call("session/start", prompt="CONF:permission")
waiting = asked()
call("permission/respond", tool_use_id=waiting[0]["tool_use_id"], decision="allow")
settled()
call("session/send", session_id=session, prompt="CONF:ask")
waiting = asked()
call("session/respond", session_id=session, response="yes")
settled()
call("session/input", session_id=session, input="CONF:simple")
settled()
call("session/send", session_id=session, prompt="CONF:slow")
call("session/stop", session_id=session)
call("agent/run", prompt="CONF:slow")
call("agent/stop")
for name in ("session/list", "session/history", "workspace/session/history"):
    call(name)
for name in ("session/get", "session/state", "session/messages", "session/elements", "session/watch", "workspace/session/messages", "workspace/session/watch", "workspace/session/activate"):
    call(name, session_id=session)
    call(name, "SESSION_NOT_FOUND", session_id="00000000-0000-4000-8000-000000000000")
call("session/unwatch")
call("workspace/session/unwatch")
for name in ("file/get", "workspace/file/get"):
    call(name, path="README.md")
    call(name, "PATH_TRAVERSAL", path="../x")
call("file/list")
call("workspace/files/list")
for name in ("git/status", "git/branches", "git/log", "git/stash/list"):
    call(name)
with open(os.path.join(here, "README.md"), "a") as f:
    f.write("more\n")
call("git/diff", path="README.md")
for name in ("git/stage", "git/unstage", "git/stage"):
    call(name, paths=["README.md"])
call("git/commit", message="by a generated client")
for take in ("git/stash/pop", "git/stash/apply", "git/stash/drop"):
    with open(os.path.join(here, "README.md"), "a") as f:
        f.write(take + "\n")
    call("git/stash")
    call(take)
with open(os.path.join(here, "README.md"), "a") as f:
    f.write("to be discarded\n")
call("git/restore", id=call("git/discard", paths=["README.md"])["kept"])
call("git/discard", paths=["README.md"], without_keeping=True)
call("git/checkout", branch="made", create=True)
call("git/checkout", branch="main")
call("git/branch/delete", branch="made")
call("git/checkout", "GIT_ERROR", branch="none")
call("git/fetch")
call("git/pull")
call("git/push")
call("git/checkout", branch="theirs", create=True)
for branch, text in (("theirs", "theirs\n"), ("main", "ours\n")):
    call("git/checkout", branch=branch)
    with open(os.path.join(here, "README.md"), "w") as f:
        f.write(text)
    call("git/stage", paths=["README.md"])
    call("git/commit", message=branch)
subprocess.run(["git", "-C", here, "merge", "-q", "theirs"], stdout=subprocess.DEVNULL)
call("git/merge/abort")
call("git/merge/abort", "GIT_ERROR")
for name in ("repository/index/status", "repository/files/list", "repository/files/tree", "repository/stats", "repository/index/rebuild"):
    call(name)
call("repository/search", query="README")
for name in ("workspace/get", "workspace/status", "workspace/subscribe", "workspace/unsubscribe"):
    call(name, workspace_id=repo["id"])
call("workspace/subscribeAll")
call("workspace/subscriptions")
call("workspace/add", path=here)
call("workspace/remove", "FORBIDDEN", workspace_id=repo["id"])
call("events/subscribe", types=["claude_status"])
call("events/resume", after=client.socket.position)
call("events/resume", "INVALID_PAYLOAD", after="yesterday")
data = base64.b64decode(PICTURE)
upload = dict(path="generated.png", size=len(data), sha256=hashlib.sha256(data).hexdigest())
for end in ("upload/cancel", "upload/finish"):
    id = call("upload/start", **upload)["upload_id"]
    call("upload/chunk", upload_id=id, offset=0, data=PICTURE)
    call("upload/status", upload_id=id)
    call(end, upload_id=id)
call("image/add", data=PICTURE)
# Every method once more with nothing: a result as described, or the word for what is missing.
for name, method in client.methods.items():
    if name in ("shutdown", "initialized", "agent/stop", "git/stash", "git/push", "git/pull"):
        continue
    try:
        method.send({})
        told("%s-with-nothing" % name, name, True)
    except Refused as e:
        known = method.required and str(e) == "INVALID_PAYLOAD" or str(e) in ("GIT_ERROR", "FORBIDDEN", "CLAUDE_NOT_RUNNING", "SESSION_NOT_FOUND")
        told("%s-with-nothing" % name, name, False, "" if known else "refused: %s" % e)
    except (ValueError, jsonschema_rs.ValidationError) as e:
        told("%s-with-nothing" % name, name, True, e)
call("shutdown")
