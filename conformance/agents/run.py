#!/usr/bin/env python3
"""The real claude, codex, gemini and opencode as sessions of ostler, in front of a scripted model (fake_model.py).

  run.py --bin OSTLER [--agent NAME]... [--kills 2] [--filter AREA] [--list] [--at-once 2]

Whether a tool ran is read from the file system, never from what an agent says. `--kills` is how often the daemon is killed in the
middle of a turn of each agent; 10 is the full setting."""
import argparse
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import clis
import codecast
import screens
import terminal
from kit import Fail, House, Session, alive, wait_for

AREAS = []


def area(name):
    def register(function):
        AREAS.append((name, function))
        return function
    return register


class Run:
    """One agent's run: its results, and what the areas need."""

    def __init__(self, agent, options):
        self.agent, self.options = agent, options
        self.passed = self.failed = 0
        self.house = None

    def ok(self, case, good, seen=""):
        name = "%s-%s/%s" % (self.agent, self.area, case)
        if good:
            self.passed += 1
            print("ok %s" % name, flush=True)
        else:
            self.failed += 1
            print("FAIL %s: %s" % (name, json.dumps(seen, default=str)[-1500:]), flush=True)
        return good

    def session(self, autonomy="ask", lifetime="session", **more):
        folder = self.house.workspace("%s-%d" % (self.area, self.passed + self.failed))
        return Session(self.house, self.agent, folder, autonomy=autonomy, lifetime=lifetime, **more)

    def yes(self, id):
        self.house.decide(id, "once")

    def no(self, id):
        self.house.decide(id, "deny", message="not that")


def lines(*path):
    """How many lines a file has; 0 when it is not there. A tool that adds one each time shows how often it ran."""
    try:
        with open(os.path.join(*path)) as f:
            return len(f.readlines())
    except FileNotFoundError:
        return 0


def add_line(session, name):
    """Words that make the model use the shell, so that its effect can be counted."""
    return "RUN:echo x >> %s" % os.path.join(session.workspace, name)


def mebibyte(first, last):
    """A prompt of exactly 1 MiB: no agent takes less, and codex takes no more."""
    filler = "some words that fill a line and mean nothing\n" * 23_500
    return first + "\n" + filler[:(1 << 20) - len(first) - len(last) - 2] + "\n" + last


@area("talk")
def talk(run):
    s = run.session()
    after, end = s.turn("hello there my friend")
    run.ok("chat", end["reason"] == "completed" and "hello there my friend" in s.said(after), s.events(after))
    run.ok("pieces-make-the-whole", len(s.pieces(after)) >= 3 and "".join(s.pieces(after)) == s.said(after), s.events(after))
    run.ok("its-own-id-is-known", s.info()["agent_session"], s.info())
    after, end = s.turn("--version and --help")
    run.ok("a-prompt-that-begins-with-dashes", end["reason"] == "completed" and "--version and --help" in s.said(after), s.events(after))
    after, end = s.turn(mebibyte("begin", "end of a long story"))
    run.ok("a-prompt-of-1-MiB", end["reason"] == "completed" and "end of a long story" in s.said(after), s.events(after)[-3:])
    after, end = s.turn("THINK first")
    run.ok("thoughts", end["reason"] == "completed" and s.events(after, "thought") and "thought about it" in s.said(after), s.events(after))
    processes = s.events(0, "process")
    run.ok("one-process-for-all-of-it", len(processes) == 1, processes)


# What the question is filed under, for the agents that let their model ask.
QUESTIONS = {"claude": "Which colour do you want?", "codex": "colour"}


@area("tools")
def tools(run):
    s = run.session()
    after, end = s.turn(add_line(s, "allowed"), run.yes)
    run.ok("allowed", end["reason"] == "completed" and lines(s.workspace, "allowed") == 1, (lines(s.workspace, "allowed"), s.events(after)))
    run.ok("asked-called-answered-and-told", all(s.events(after, kind) for kind in ("asked", "approval", "answered", "tool_call", "tool_result")), s.events(after))
    after, end = s.turn(add_line(s, "denied"), run.no)
    run.ok("denied", lines(s.workspace, "denied") == 0 and s.events(after, "asked"), s.events(after))
    after, end = s.turn(add_line(s, "stopped"), lambda id: run.house.decide(id, "deny", message="stop", interrupt=True))
    run.ok("denied-and-stopped", end["reason"] == "interrupted" and lines(s.workspace, "stopped") == 0, s.events(after))
    after = s.prompt(add_line(s, "withdrawn"))
    id = s.waiting()
    run.ok("waiting", s.info()["status"] == "waiting", s.info())
    run.house.door.call("session.interrupt", id=s.id)
    end = s.rest(after)
    state = wait_for("withdrawal", lambda: run.house.door.call("approval.get", id=id)["state"] != "pending") and run.house.door.call("approval.get", id=id)
    run.ok("interrupted-while-asking", end["reason"] == "interrupted" and lines(s.workspace, "withdrawn") == 0 and state["state"] == "withdrawn",
           (state, s.events(after)))
    if run.agent == "claude":
        changed = json.dumps({"command": add_line(s, "other")[4:], "description": "another"})
        after, end = s.turn(add_line(s, "original"), lambda id: run.house.decide(id, "changed", input=changed))
        run.ok("changed-input", (lines(s.workspace, "original"), lines(s.workspace, "other")) == (0, 1), s.events(after))
    if run.agent in QUESTIONS:
        answers = json.dumps({QUESTIONS[run.agent]: ["Blue"]})
        after, end = s.turn("ASK me", lambda id: run.house.decide(id, "answers", answers=answers))
        run.ok("question-answered", end["reason"] == "completed" and "Blue" in s.said(after) and s.events(after, "asked"), s.events(after))
    after, end = s.turn("and goes on")
    run.ok("goes-on", end["reason"] == "completed" and "and goes on" in s.said(after), s.events(after))


@area("trouble")
def trouble(run):
    s = run.session()
    after = s.prompt("SLOW:100")
    s.until(after, "text_delta")
    run.house.door.call("session.interrupt", id=s.id)
    end = s.rest(after)
    run.ok("interrupted", end["reason"] == "interrupted" and len(s.pieces(after)) < 90, s.events(after)[-3:])
    after, end = s.turn("still there")
    run.ok("goes-on-after-an-interrupt", end["reason"] == "completed" and "still there" in s.said(after), s.events(after))
    after, end = s.turn("ERR:400")
    run.ok("model-error", end["reason"] == "failed" and end.get("message"), s.events(after))
    after, end = s.turn("DROPONCE:trouble")
    run.ok("dropped-connection", end["reason"] == "completed" and "I am back" in s.said(after) or end["reason"] == "failed" and end.get("message"),
           s.events(after))
    after, end = s.turn("still here")
    run.ok("goes-on-after-an-error", end["reason"] == "completed" and "still here" in s.said(after), s.events(after))


def family(session):
    """The process of a session that the keeper started, and everybody who carries its mark."""
    hosted = [p for p in session.house.door.call("process.list")["processes"] if p.get("name", "").startswith(session.id + ".") and p["state"] == "running"]
    if not hosted:
        return 0, []
    mark = ("OSTLER_PROCESS=%s" % hosted[-1]["id"]).encode()
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % name, "rb") as f:
                if mark in f.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            pass
    return hosted[-1]["pid"], found


@area("launcher")
def launcher(run):
    """The process that is started is not always the agent: whoever dies, nobody of the old tree is there when the next one speaks."""
    s = run.session("all")
    s.turn("hello")
    leader, before = family(s)
    os.kill(leader, signal.SIGKILL)
    after, end = s.turn("and once more")
    run.ok("the-next-prompt-is-not-the-old-ones", end["reason"] == "completed" and "and once more" in s.said(after), s.events(after))
    left = [pid for pid in before if alive(pid)]
    run.ok("nobody-of-the-old-tree-is-left", not left, (leader, before, left))
    tool = os.path.join(s.workspace, "tool")
    after = s.prompt("RUN:echo $$ > %s; exec sleep 300" % tool)
    wait_for("the tool", lambda: lines(tool) == 1)
    with open(tool) as f:
        pid = int(f.read())
    run.house.door.call("session.interrupt", id=s.id)
    end = s.rest(after)
    run.ok("interrupt-ends-the-tool", end["reason"] == "interrupted" and wait_for("the end of the tool", lambda: not alive(pid)), (end, pid))
    after, end = s.turn("still here")
    run.ok("and-it-goes-on", end["reason"] == "completed" and "still here" in s.said(after), s.events(after))
    leader, before = family(s)
    run.house.door.call("session.close", id=s.id)
    wait_for("nobody is left behind by close", lambda: not [pid for pid in before if alive(pid)])
    run.ok("close-leaves-nobody", before and not [pid for pid in before if alive(pid)], before)


@area("all")
def all_(run):
    s = run.session("all")
    after, end = s.turn(add_line(s, "ran"))
    run.ok("runs-without-asking", end["reason"] == "completed" and lines(s.workspace, "ran") == 1 and not s.events(after, "asked"), s.events(after))
    after, end = s.turn("WRITE:%s/written" % s.workspace)
    run.ok("writes-without-asking", lines(s.workspace, "written") == 1 and not s.events(after, "asked"), s.events(after))
    run.ok("as-this-user", os.stat(os.path.join(s.workspace, "ran")).st_uid == os.getuid())
    if run.agent == "codex":
        with open(os.path.join(run.house.home, ".codex", "config.toml")) as f:
            settings = f.read()
        run.ok("no-folder-becomes-trusted", "trust_level" not in settings, settings)


@area("turn")
def turn(run):
    """A process for each prompt."""
    s = run.session(lifetime="turn")
    after, end = s.turn("remember the word cormorant")
    run.ok("chat", end["reason"] == "completed" and "cormorant" in s.said(after), s.events(after))
    after, end = s.turn("RECALL:cormorant")
    run.ok("resumes-in-a-new-process", "I know cormorant" in s.said(after) and len(s.events(0, "exited")) == 2, s.events(after))
    after, end = s.turn(add_line(s, "allowed"), run.yes)
    run.ok("allowed", end["reason"] == "completed" and lines(s.workspace, "allowed") == 1, s.events(after))
    after, end = s.turn(add_line(s, "denied"), run.no)
    run.ok("denied", lines(s.workspace, "denied") == 0 and s.events(after, "asked"), s.events(after))
    run.ok("nothing-stays-behind", s.info()["process"] is None, s.info())


# A model that each has, and one that it has not: opencode would run its own default instead, claude a newer one. The others pass any
# name on to their model.
MODELS = {"claude": ("claude-sonnet-4-5", "claude-opus-4-1"), "opencode": ("fake/fake-model", "fake/nope"), "codex": ("gpt-5", None),
          "gemini": ("gemini-2.5-pro", None)}


def refused(s, after, end, model):
    """The turn failed before the prompt went out, and says of which model. A later version of the agent may have it after all: then the
    model's own log says so, and not what the agent is shown to run."""
    if model.split("/")[-1] in s.house.model.heard():
        return end["reason"] == "completed"
    return end["reason"] == "failed" and model in end.get("message", "") and not s.events(after, "sent")


@area("model")
def model(run):
    wanted, other = MODELS[run.agent]
    s = run.session(model=wanted)
    after, end = s.turn("which one")
    run.ok("what-it-says-is-shown", end["reason"] == "completed" and s.info()["reported_model"] == wanted, (s.info(), s.events(after)))
    if not other:
        return
    run.house.door.call("session.change", id=s.id, model=other)
    run.ok("nothing-is-shown-before-it-says-so", s.info()["reported_model"] is None and s.info()["model"] == other, s.info())
    after, end = s.turn("and now")
    run.ok("another-is-refused-before-the-prompt", refused(s, after, end, other), s.events(after))
    run.ok("and-never-shown-as-if-it-ran", (s.info()["reported_model"] or "").split("/")[-1] in ("", *run.house.model.heard()), s.info())
    run.house.door.call("session.change", id=s.id, model=wanted)
    after, end = s.turn("back again")
    run.ok("goes-on-with-a-model-that-it-has", end["reason"] == "completed" and s.info()["reported_model"] == wanted, s.events(after))
    s = run.session(model=other)
    after, end = s.turn("from the start")
    run.ok("a-new-session-is-refused-it-too", refused(s, after, end, other), s.events(after))


def used(s, after):
    """The figures of a turn."""
    figures = {}
    for event in s.events(after, "usage"):
        figures.update(event)
    return figures


@area("cost")
def cost(run):
    """Each request to the model costs the same, and a turn with a tool has two. The process is ended in the middle of the session, and killed."""
    s = run.session("all")
    turns = [used(s, s.turn(text)[0]) for text in ("one", add_line(s, "f"))]
    for signal in ("TERM", "KILL"):
        run.house.run("kill", "-s", signal, s.info()["process"])
        wait_for("end of the process", lambda: not s.info()["process"])
        turns.append(used(s, s.turn("after " + signal)[0]))
        turns.append(used(s, s.turn("and one more")[0]))
    total = s.info()["usage"]
    if run.agent in ("claude", "opencode"):
        one = turns[0].get("turn_cost_usd") or 0
        costs = [round((turn.get("turn_cost_usd") or 0) / one, 6) if one else None for turn in turns]
        run.ok("each-turn-says-what-it-cost", one > 0 and costs == [1, 2, 1, 1, 1, 1], turns)
        run.ok("and-the-session-their-sum", abs((total["cost_usd"] or 0) - 7 * one) < 1e-9, (total, turns))
        row = next(row for row in json.loads(run.house.run("--json", "sessions")) if row["id"] == s.id)
        run.ok("sessions-shows-it", row["usage"]["cost_usd"] == total["cost_usd"] and "$%.4f" % (7 * one) in run.house.run("sessions"), row)
    else:
        run.ok("no-cost-is-made-up", total["cost_usd"] is None and not any("turn_cost_usd" in turn for turn in turns), (total, turns))
    # opencode tells the tokens of a turn's last request only.
    counts = [1, 1, 1, 1, 1, 1] if run.agent == "opencode" else [1, 2, 1, 1, 1, 1]
    tokens = [(turn.get("input_tokens"), turn.get("output_tokens")) for turn in turns]
    run.ok("tokens-are-those-of-the-turn", tokens == [(10 * n, 20 * n) for n in counts], turns)
    run.ok("and-add-up", (total["input_tokens"], total["output_tokens"]) == (10 * sum(counts), 20 * sum(counts)), total)


area("codecast")(codecast.scenario)


@area("slow-start")
def slow_start(run):
    """A program that takes its time before it says anything."""
    program = os.path.join(run.house.dir, "slow-" + run.agent)
    with open(program, "w") as f:
        # Its help is quick: only the session waits.
        f.write('#!/bin/sh\n[ "$1" = --help ] || sleep 10\nexec %s "$@"\n' % clis.program(run.agent))
    os.chmod(program, 0o755)
    s = run.session(program=program)
    began = time.monotonic()
    after, end = s.turn("patience")
    run.ok("is-waited-for", end["reason"] == "completed" and "patience" in s.said(after) and time.monotonic() - began > 10, s.events(after))


@area("kills")
def kills(run):
    """SIGKILL of the daemon in the middle of turns: while the agent speaks, and while it waits for an answer."""
    s = run.session()
    s.turn("warm up")
    for number in range(run.options.kills):
        (kill_while_speaking if number % 2 == 0 else kill_while_asking)(run, s, number)
    same = [(r["record"], r["source"], r["src_end"], r["events"]) for r in s.look()]
    run.ok("a-new-watcher-sees-the-same", same == [(r["record"], r["source"], r["src_end"], r["events"]) for r in s.again()])
    ends = {}
    for record in s.records:
        run_on = record["source"] == 0 or record["src_end"] > ends.get(record["source"], 0)
        if not run_on:
            run.ok("each-line-has-one-record", False, record)
        ends[record["source"]] = max(ends.get(record["source"], 0), record["src_end"])
    run.ok("the-same-process-all-along", len(s.events(0, "process")) == 1, s.events(0, "process"))


def kill_while_speaking(run, s, number):
    after = s.prompt("SLOW:15")
    s.until(after, "text_delta", 3 + number % 9)
    run.house.crash()
    s.watch()
    end = s.rest(after)
    whole = "".join("tick%d " % n for n in range(15))
    run.ok("kill-%d-while-speaking" % number, end["reason"] == "completed" and "".join(s.pieces(after)).strip() == whole.strip() == s.said(after).strip()
           and len(s.events(after, "turn_ended")) == 1, s.events(after))


def kill_while_asking(run, s, number):
    name = "once-%d" % number
    after = s.prompt(add_line(s, name))
    id = s.waiting()
    run.house.crash()
    s.watch()
    info = run.house.door.call("approval.get", id=id)
    run.ok("kill-%d-still-pending" % number, info["state"] == "pending" and s.info()["approvals"] == [id] and lines(s.workspace, name) == 0, (info, s.info()))
    run.yes(id)
    end = s.rest(after)
    run.ok("kill-%d-answered-once" % number, end["reason"] == "completed" and lines(s.workspace, name) == 1 and len(s.events(after, "answered")) == 1
           and len(s.events(after, "turn_ended")) == 1, s.events(after))


@area("states")
def states(run):
    screens.states(run)


@area("tui")
def tui(run):
    screens.taken_up(run)


@area("history")
def history(run):
    terminal.history(run)


@area("oneshot")
def oneshot(run):
    """The fallback: a process for each prompt that reads it from stdin and can not ask."""
    run.house.close()
    run.house = House(run.options.bin, OSTLER_AGENT_DRIVE="oneshot")
    s = run.session()
    after, end = s.turn("remember the word --cormorant")
    run.ok("chat", end["reason"] == "completed" and "--cormorant" in s.said(after), s.events(after))
    after, end = s.turn("RECALL:cormorant")
    run.ok("resumes-in-a-new-process", "I know cormorant" in s.said(after), s.events(after))
    after, end = s.turn(add_line(s, "ran"))
    run.ok("ask-runs-nothing", lines(s.workspace, "ran") == 0 and not s.events(after, "asked"), s.events(after))
    after, end = s.turn("ERR:400")
    run.ok("model-error", end["reason"] == "failed" and end.get("message"), s.events(after))
    if MODELS[run.agent][1]:
        s = run.session(model=MODELS[run.agent][1])
        after, end = s.turn("which one")
        ran = MODELS[run.agent][1].split("/")[-1] in run.house.model.heard()
        run.ok("another-model-is-a-failure", end["reason"] == ("completed" if ran else "failed"), s.events(after))
    s = run.session("all")
    after, end = s.turn(mebibyte("--begin", add_line(s, "ran")))
    if run.agent == "claude" and os.getuid() == 0:
        run.ok("all-is-refused-to-root", lines(s.workspace, "ran") == 0 and end["reason"] != "completed", s.events(after)[-3:])
    else:
        run.ok("all-runs-a-prompt-of-1-MiB", end["reason"] == "completed" and lines(s.workspace, "ran") == 1, s.events(after)[-3:])


def run_agent(agent, options):
    run = Run(agent, options)
    run.house = House(options.bin)
    try:
        for name, function in AREAS:
            if options.filter not in name:
                continue
            run.area, began = name, time.monotonic()
            try:
                function(run)
            except Fail as error:
                run.ok("aborted", False, str(error))
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                run.ok("crashed", False, "%r at %s:%d" % (error, os.path.basename(where.filename), where.lineno))
            print("   %s %s: %.1f s" % (agent, name, time.monotonic() - began), flush=True)
    finally:
        run.house.close()
    print("%d passed, %d failed" % (run.passed, run.failed))
    return 1 if run.failed else 0


def run_all(agents, options):
    """Each agent in a process and an instance of its own, a few at once; the slow starters first."""
    agents = sorted(agents, key=["opencode", "gemini", "claude", "codex"].index)

    def one(agent):
        argv = [sys.executable, "-u", __file__, "--bin", options.bin, "--agent", agent, "--kills", str(options.kills), "--filter", options.filter]
        said = []
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in child.stdout:
            said.append(line)
            if not re.match(r"\d+ passed", line):
                print(line, end="", flush=True)
        child.wait()
        counts = re.findall(r"^(\d+) passed, (\d+) failed$", "".join(said), re.M)
        if counts:
            return int(counts[-1][0]), int(counts[-1][1])
        print("FAIL %s/run: ended with %d and no result" % (agent, child.returncode), flush=True)
        return 0, 1
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        results = list(pool.map(one, agents))
    passed, failed = sum(r[0] for r in results), sum(r[1] for r in results)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", required=True)
    ap.add_argument("--agent", action="append", choices=clis.NAMES)
    ap.add_argument("--kills", type=int, default=2)
    ap.add_argument("--filter", default="")
    ap.add_argument("--at-once", type=int, default=2)
    ap.add_argument("--list", action="store_true")
    options = ap.parse_args()
    options.bin = os.path.realpath(options.bin)
    if options.list:
        print("\n".join(name for name, _ in AREAS))
        return 0
    absent = [name for name in clis.absent() if name in (options.agent or clis.NAMES)]
    if absent:
        print("FAIL install/all: not installed: %s; run ./test install" % ", ".join(absent))
        print("0 passed, 1 failed")
        return 1
    agents = options.agent or list(clis.NAMES)
    return run_agent(agents[0], options) if len(agents) == 1 else run_all(agents, options)


if __name__ == "__main__":
    sys.exit(main())
