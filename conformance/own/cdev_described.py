"""Clients that we did not write: schemathesis over the OpenAPI description, and one that is made from the OpenRPC document, calls every
method and holds every answer to what the document says of it."""
import json
import os
import re
import subprocess
import tempfile

from cdev_work import Desk, git
from lib import Fail, area

HERE = os.path.dirname(os.path.abspath(__file__))
# A server that fails, or says what is not described, is wrong. Which of the allowed values mean anything is not for a description to say, and
# `?recursive` or `=1` is as good as `=true`.
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,unsupported_method"


def tool(t):
    """What `./test install` put into the cache."""
    path = t.opt.original
    if not os.access(path, os.X_OK):
        raise Fail("schemathesis is not installed; run ./test install")
    return path


def described(desk, path):
    document = desk.port("GET", path, token=desk.access).json
    with tempfile.NamedTemporaryFile("w", suffix=".json", dir=desk.dir, delete=False) as f:
        json.dump(document, f)
    return document, f.name


def tried(t, desk, path, *more):
    """Runs it, and says how many requests it made and what it found."""
    words = [tool(t), "run", path, "--url", "http://127.0.0.1:%d" % desk.port.port, "-H", "Authorization: Bearer " + desk.access, "--checks", CHECKS,
             "--phases", "coverage,fuzzing", "--continue-on-failure", "--no-color", *more]
    done = subprocess.run(words, cwd=desk.dir, capture_output=True, text=True)
    made = re.search(r"(\d+) generated", done.stdout)
    return int(made.group(1)) if made else 0, done.returncode, done.stdout


@area("cdev-openapi")
def openapi(t):
    many = os.environ.get("CDEV_EXAMPLES")
    desk = Desk(t)
    try:
        document, path = described(desk, "/api/openapi.json")
        routes = sum(len(verbs) for verbs in document["paths"].values())
        t.ok("every-route-is-described", routes >= 26 and "/api/images" in document["paths"], sorted(document["paths"]))
        made, code, said = tried(t, desk, path, "--max-examples", many or "10", *([] if many else ["--seed", "16"]))
        found = said.split("= FAILURES =")[-1] if code else ""
        t.ok("no-5xx-and-nothing-undescribed", code == 0 and made > 500, "%d requests, exit %d: %s" % (made, code, found[:3000]))
        print("cdev: schemathesis made %d requests to %d routes" % (made, routes), flush=True)
        t.eq("the-server-is-as-well-as-before", (desk.port("GET", "/health").status, git(desk.repo, "rev-parse", "HEAD") != ""), (200, True))
        # The same tool, where the description is wrong: it must say so, or it shows nothing.
        wrong = document["paths"]["/api/status"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        wrong.clear()
        wrong.update({"type": "object", "required": ["no_such_member"]})
        with open(path, "w") as f:
            json.dump(document, f)
        _, code, said = tried(t, desk, path, "--include-path", "/api/status", "--max-examples", "1")
        t.ok("control-a-wrong-description-is-found", code != 0 and "no_such_member" in said, said[-800:])
    finally:
        desk.down()


@area("cdev-openrpc")
def openrpc(t):
    desk = Desk(t)
    try:
        git(desk.dir, "init", "-q", "--bare", "remote.git")
        git(desk.repo, "remote", "add", "origin", desk.dir + "/remote.git")
        git(desk.repo, "push", "-q", "-u", "origin", "main")
        document, path = described(desk, "/api/rpc/discover")
        python = os.path.join(os.path.dirname(tool(t)), "python")
        words = [python, os.path.join(HERE, "..", "cdev", "generated.py"), path, str(desk.port.port), desk.access]
        done = subprocess.run(words, capture_output=True, text=True, env=dict(os.environ, PYTHONPATH=HERE))
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        t.ok("it-ran-to-its-end", done.returncode == 0 and rows, done.stdout[-500:] + done.stderr[-1500:])
        for row in rows:
            t.ok(row["case"], not row["why"], row["why"])
        names = {m["name"] for m in document["methods"]}
        called = {row["method"] for row in rows}
        t.eq("every-method-was-called", sorted(names - called), [])
        answered = {row["method"] for row in rows if row["answered"]}
        # That is for a device which may type into terminals, and for a server of more than one repository.
        t.eq("and-gave-a-result", sorted(names - answered), ["workspace/remove"])
    finally:
        desk.down()
