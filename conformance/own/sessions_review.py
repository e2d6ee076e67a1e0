"""Comments on lines of a difference: `session.review` at the native door, and `ostler diff --comment` with an editor."""
import os
import stat

from lib import area
from sessions_kit import House, Wire
from sessions_worktree import repository


def editor(house, script):
    """An editor that is a shell script: $1 is the file."""
    path = house.dir + "/editor"
    with open(path, "w") as f:
        f.write("#!/bin/sh\n" + script)
    os.chmod(path, 0o755)
    house.env["EDITOR"] = path
    house.env.pop("VISUAL", None)


def prompts(house, id):
    return [e["blocks"][0]["text"] for e in house.events(id) if e["type"] == "prompt"]


@area("sessions-review")
def review(t):
    house = House(t)
    try:
        repo, git = repository(house)
        made = house.json("new", "echo", repo, "--name", "fix", "--permissions", "all", "--worktree")
        id, tree = made["id"], made["worktree"]
        house.good("send", "fix", "WRITE:new.txt")
        with open(tree + "/sub/a.txt", "w") as f:
            f.write("one\n2\n")
        wire = Wire(house.socket())
        comments = [{"path": "sub/a.txt", "line": 1, "quote": "one", "text": "two words\nwould do"}, {"path": "sub/a.txt", "line": 1, "removed": True, "quote": "1", "text": "why?"}]
        said = wire.call("session.review", id=id, comments=comments, text="Nearly.", key="r1")
        t.ok("comments-are-one-prompt", said.get("result") and said["result"]["number"] == 2, said)
        again = wire.call("session.review", id=id, comments=comments, text="Nearly.", key="r1")
        t.eq("once-for-each-key", (again["result"]["number"], again["result"]["again"]), (2, True))
        house.until(id, "idle")
        t.eq("file-line-quote-and-comment", prompts(house, id)[1:], ["Nearly.\n\nComments on the changes:\n\nsub/a.txt, line 1:\n> one\ntwo words\nwould do\n\nsub/a.txt, line 1, removed:\n> 1\nwhy?"])
        odd = wire.call("session.review", id=id, comments=[{"path": "a\nb\x1b", "line": 1, "quote": "\x1b[2J\u202e", "text": "x\x07"}])
        house.until(id, "idle")
        t.ok("nothing-in-it-acts", "result" in odd and not set("\x1b\x07\u202e") & set(prompts(house, id)[-1]), prompts(house, id)[-1])
        for name, params in (("no-comments", {"comments": []}), ("an-empty-one", {"comments": [{"path": "a", "text": " "}]}), ("too-many", {"comments": [{"path": "a", "text": "x"}] * 501}), ("too-long", {"comments": [{"path": "a", "text": "x" * 16385}]})):
            error = wire.call("session.review", id=id, **params).get("error") or {}
            t.eq(name + "-is-refused", (error.get("data") or {}).get("kind"), "bad_params")
        count = len(prompts(house, id))
        editor(house, 'stat -c %%a "$1" > %s/mode; cp "$1" %s/sheet; sed -i -e "/^+one/a first\\nsecond" -e "/^-1/a gone" -e "1i Good." "$1"\n' % (house.dir, house.dir))
        rc, o, e = house("diff", "fix", "--comment")
        t.ok("the-editor-is-opened-on-the-difference", rc == 0 and "3 comments sent for fix" in o, (rc, o, e))
        with open(house.dir + "/sheet") as f:
            sheet = f.read()
        t.ok("which-says-how", sheet.startswith("# Comments for fix.") and "diff --git a/sub/a.txt b/sub/a.txt" in sheet, sheet[:300])
        with open(house.dir + "/mode") as f:
            t.eq("for-nobody-else", f.read(), "600\n")
        house.until(id, "idle")
        t.eq("what-was-added-is-sent", prompts(house, id)[count:], ["Good.\n\nComments on the changes:\n\nsub/a.txt, line 1, removed:\n> 1\ngone\n\nsub/a.txt, line 1:\n> one\nfirst\nsecond"])
        count = len(prompts(house, id))
        editor(house, 'echo comment >> "$1"; exit 1\n')
        rc, o, e = house("diff", "fix", "--comment")
        t.ok("an-aborted-editor-sends-nothing", rc == 1 and "nothing was sent" in e, (rc, o, e))
        editor(house, "exit 0\n")
        rc, o, e = house("diff", "fix", "--comment")
        t.ok("nothing-added-sends-nothing", rc == 0 and "nothing was sent" in e, (rc, o, e))
        t.eq("nothing", len(prompts(house, id)), count)
        house.env["VISUAL"] = house.env["EDITOR"] + " "
        editor(house, 'sed -i "1i by turn" "$1"\n')
        house.env["VISUAL"], house.env["EDITOR"] = house.env["EDITOR"], "false"
        rc, o, e = house("diff", "fix", "--turn", "1", "--comment")
        t.ok("visual-counts-first-and-a-turn-too", rc == 0, (rc, o, e))
        house.until(id, "idle")
        del house.env["VISUAL"], house.env["EDITOR"]
        rc, o, e = house("diff", "fix", "--comment")
        t.ok("without-an-editor-it-says-so", rc == 2 and "EDITOR" in e, (rc, o, e))
        left = [n for n in os.listdir(os.path.dirname(house.socket())) if n.startswith("review-")]
        t.eq("nothing-is-left-behind", left, [])
        house.good("close", "fix")
        editor(house, 'sed -i "1i lost?" "$1"\n')
        rc, o, e = house("diff", "fix", "--comment")
        file = e.split("your comments are in ")[-1].strip()
        t.ok("what-cannot-be-sent-is-kept", rc == 5 and "is closed" in e and os.path.exists(file) and stat.S_IMODE(os.stat(file).st_mode) == 0o600, (rc, o, e))
        with open(file) as f:
            t.has("with-every-word", f.read(), "lost?")
    finally:
        house.down()
