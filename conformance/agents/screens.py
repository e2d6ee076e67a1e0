"""The agents in their own screens, in front of the scripted model: what they say they are doing while nobody is attached, and a session's
conversation taken up there and given back."""
import base64
import json
import os
import shutil
import subprocess
import time

import clis
from kit import Fail, wait_for

# How each is started so that it asks (codex without the server that it leaves behind), and the words that make the model want
# something that must be asked for.
ASKS = {"claude": (["--permission-mode", "default"], "RUN:touch made-it"),
        "codex": (["-c", "features.daemon_auto_start=false", "--ask-for-approval", "on-request", "--sandbox", "read-only"], "ESC:touch made-it")}
WITH_SCREEN = ("claude", "codex", "opencode")


def settle(house, agent, folder):
    """What an agent asks its user when it is started for the first time, or in a new folder, has been answered."""
    if agent == "claude":
        path = os.path.join(house.home, ".claude.json")
        known = json.load(open(path)) if os.path.exists(path) else {}
        known.update(hasCompletedOnboarding=True, theme="dark")
        known.setdefault("customApiKeyResponses", {"approved": [house.env["ANTHROPIC_API_KEY"][-20:]], "rejected": []})
        known.setdefault("projects", {}).setdefault(folder, {})["hasTrustDialogAccepted"] = True
        clis.write(house.home, ".claude.json", json.dumps(known))
    elif agent == "codex":
        with open(os.path.join(house.home, ".codex/config.toml"), "a") as f:
            f.write('[projects."%s"]\ntrust_level = "trusted"\n' % folder)


class Screen:
    """A terminal program as somebody sees it who is not attached."""

    def __init__(self, house, id):
        self.house, self.id = house, id

    def claim(self):
        return self.house.door.call("process.get", id=self.id).get("claim") or {}

    def until(self, case, run, **wanted):
        seen = []

        def there():
            seen[:] = [self.claim()]
            return all(seen[0].get(key) == value for key, value in wanted.items())
        try:
            return run.ok(case, wait_for("claim %s" % wanted, there))
        except Fail as error:
            return run.ok(case, False, (str(error), seen, self.text()[-1200:]))

    def text(self):
        return self.house.run("logs", "--screen", self.id)

    def shows(self, *any_of):
        try:
            return wait_for("screen with %s" % (any_of,), lambda: any(text in self.text() for text in any_of), step=0.3)
        except Fail as error:
            raise Fail("%s: %s" % (error, self.text()[-1500:]))

    def type(self, data):
        self.house.door.call("process.stdin", id=self.id, data=base64.b64encode(data).decode())

    def say(self, text):
        """As a person types: a line that comes with its end in one piece is taken for something pasted."""
        self.type(text.encode())
        self.shows(text)
        self.type(b"\r")


class Now:
    """`ostler` alone on a terminal that is high enough for every session of the house, if tmux is there to look at it with."""

    def __init__(self, house):
        self.socket, self.env = os.path.join(house.dir, "now.sock"), dict(house.env, TERM="xterm-256color", LC_ALL="C.UTF-8")
        self.there = bool(shutil.which("tmux", path=self.env["PATH"]))
        self("-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "60", house.program)

    def __call__(self, *args):
        if not self.there:
            return ""
        p = subprocess.run(["tmux", "-u", "-S", self.socket, *args], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        return p.stdout.decode(errors="replace")

    def shows(self, run, case, *texts):
        if not self.there:
            return
        try:
            wait_for("Now with %s" % (texts,), lambda: all(text in self("capture-pane", "-p") for text in texts), step=0.1)
            run.ok(case, True)
        except Fail as error:
            shown = [line for line in self("capture-pane", "-p").splitlines() if line.strip()]
            run.ok(case, False, (str(error), shown))

    def close(self):
        self("kill-server")


def states(run):
    """working, needs you, done: told by the program to whoever owns its terminal, which is ostler."""
    if run.agent not in ASKS:
        return
    args, asks = ASKS[run.agent]
    house, folder = run.house, run.house.workspace("states")
    settle(house, run.agent, folder)
    env = list(dict(house.env, TERM="xterm-256color").items())
    info = house.door.call("process.spawn", program=clis.program(run.agent), args=args, env=env, cwd=folder, tty={"rows": 40, "cols": 100})
    screen, app = Screen(house, info["id"]), {"claude": "claude-code", "codex": "codex"}[run.agent]
    screen.until("it-says-that-it-waits-for-words", run, state="idle", app=app, reported=True)
    screen.say("SLOW:20")
    screen.until("working", run, state="working", app=app, reported=True)
    shown = house.run("ps")
    run.ok("shown-as-its-claim", "working (says %s)" % app in shown, shown)
    now = Now(house)
    now.shows(run, "now-shows-working", "working?")
    screen.until("done", run, state="done")
    now.shows(run, "now-shows-done", "done?")
    house.crash()
    screen.until("the-next-daemon-knows", run, state="done", app=app)
    screen.say(asks)
    screen.until("needs-you", run, state="needs_you", kind="permission")
    now.shows(run, "now-shows-that-it-needs-you", "NEEDS YOU", "needs you?")
    now.close()
    # Keys that come before the question is drawn are not its answer.
    screen.shows("Do you want", "Would you like")
    time.sleep(1)
    screen.type(b"\r")
    screen.until("done-when-allowed", run, state="done")
    run.ok("it-did-it", os.path.exists(os.path.join(folder, "made-it")), screen.text())
    house.run("kill", info["id"], "--wait")


def taken_up(run):
    """One writer at a time: the session, or the agent's own screen."""
    house = run.house
    s = run.session()
    settle(house, run.agent, s.workspace)
    if run.agent not in WITH_SCREEN:
        s.turn("hello")
        try:
            house.run("tui", s.id, "-d")
            run.ok("has-none", False, "it was opened")
        except Fail as error:
            run.ok("has-none", "%s has no screen of its own that takes up a conversation" % run.agent in str(error), str(error))
        return
    s.turn("remember the walnut")
    after = s.info()["last"]
    s.prompt("SLOW:40")
    s.until(after, "text_delta")
    try:
        house.run("tui", s.id, "-d")
        run.ok("not-in-the-middle-of-an-answer", False, "it was opened")
    except Fail as error:
        run.ok("not-in-the-middle-of-an-answer", "in the middle of an answer" in str(error) and "--interrupt" in str(error), str(error))
    screen = Screen(house, house.run("tui", s.id, "-d", "--interrupt").strip())
    screen.shows("walnut")
    run.ok("the-conversation-is-there", True)
    run.ok("the-session-says-so", s.info()["screen"] == screen.id and s.info()["process"] is None, s.info())
    for case in ("the-other-is-told", "also-by-the-next-daemon"):
        try:
            s.prompt("too soon")
            run.ok(case, False, s.info())
        except Fail as error:
            run.ok(case, "is open on the agent's own screen" in str(error), str(error))
        if case == "the-other-is-told":
            house.crash()
            s.watch()
    screen.say("remember the hazel")
    screen.shows("You said: remember the hazel")
    run.ok("it-is-spoken-to-there", True)
    house.run("kill", screen.id, "--wait")
    wait_for("the session is free", lambda: s.info()["screen"] is None)
    after, end = s.turn("RECALL:hazel")
    run.ok("and-goes-on-with-what-was-said-there", end["reason"] == "completed" and "I know hazel" in s.said(after), (s.said(after), s.events(after)))
