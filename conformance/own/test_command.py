"""The test command itself: what steps leave behind is found, budgets are kept, lanes are apart, and nothing outlives it."""
import os
import signal
import subprocess
import sys
import threading

from kit import Fail
from lib import area, pid_alive, wait_for

COMMAND = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "command")
sys.path.insert(0, COMMAND)
import lanes
import places
import steps
import work as working

LONG = 60


def fake(name, function, minutes=1, needs=()):
    return steps.Step(name, "", function, minutes, minutes, needs, False, True)


class Run:
    """A run of made-up steps, with logs of its own."""

    def __init__(self, t, *these):
        logs, grace = places.LOGS, working.GRACE
        places.LOGS, working.GRACE, self.said = t.tmp(), 0.5, []
        try:
            with places.Place() as self.folders:
                self.lanes = lanes.Lanes(these, self.folders, self.said.append)
                self.counts = self.lanes.run()
        finally:
            places.LOGS, working.GRACE = logs, grace
        self.text = "\n".join(self.said)


def sh(script):
    return lambda work: work.plain(["sh", "-c", script])


@area("test-command")
def left_behind(t):
    note = t.tmp() + "/pid"
    run = Run(t, fake("clean", sh("sleep 0.1 & exit 0")), fake("bad", sh("exit 3")))
    t.eq("what-ends-by-itself-is-not-left", (run.lanes.results["clean"].passed, run.lanes.results["clean"].failed), (1, 0))
    t.eq("a-failure-is-one", (run.lanes.results["bad"].failed, run.lanes.left), (1, 0))
    # Out of its group, its session and its environment, without a parent.
    run = Run(t, fake("stray", sh("env -i setsid sh -c 'sleep 1000 & echo $! > %s'" % note)))
    t.ok("a-stray-process-is-a-failure", run.counts.failed == 1 and "left behind: process" in run.text and "sleep 1000" in run.text, run.text)
    t.ok("and-is-ended", wait_for(lambda: not pid_alive(int(open(note).read())), LONG), run.text)
    run = Run(t, fake("folder", sh("mkdir $TMPDIR/kept && touch $TMPDIR/kept/x $HOME/y")))
    t.ok("folders-and-files-are-failures", run.counts.failed == 2 and "/kept (x)" in run.text and "/home/y" in run.text, run.text)
    t.ok("the-folders-of-a-run-go-with-it", not os.path.exists(run.folders[0].folder), run.folders[0].folder)
    if os.geteuid() != 0:
        return t.skip("mounts", "needs root")
    run = Run(t, fake("mount", sh("mkdir $TMPDIR/m && mount -t tmpfs none $TMPDIR/m")))
    t.ok("a-mount-is-a-failure", "left behind: mount" in run.text and "/m\n" in run.text, run.text)
    with open("/proc/self/mountinfo") as f:
        t.ok("and-is-undone", run.folders[0].folder not in f.read())


@area("test-command")
def tried_again(t):
    once, seen = t.tmp() + "/once", t.tmp() + "/seen"
    run = Run(t, fake("unsteady", sh("[ -e %s ] || { touch %s; exit 1; }" % (once, once)), needs=("build",)))
    t.ok("what-passes-the-second-time-passes-and-is-named", run.counts.failed == 0 and "passed only the second time: unsteady" in run.text, run.text)
    run = Run(t, fake("broken", sh("echo run >> %s; exit 1" % seen), needs=("build",)))
    t.eq("what-fails-twice-fails", (run.counts.failed, open(seen).read().count("run")), (1, 2))
    os.unlink(seen)
    run = Run(t, fake("lint", sh("echo run >> %s; exit 1" % seen)))
    t.eq("what-judges-the-sources-is-not-tried-again", (run.counts.failed, open(seen).read().count("run")), (1, 1))
    run = Run(t, fake("many", lambda work: working.Counts(failed=lanes.FEW + 1), needs=("build",)))
    t.ok("nor-where-many-fail", "second time" not in run.text, run.text)


@area("test-command")
def in_time(t):
    note = t.tmp() + "/pid"
    run = Run(t, fake("slow", sh("setsid sleep 1000 & echo $! > %s; sleep 1000" % note), 0.05))
    t.ok("over-its-budget-is-a-failure", run.counts.failed == 1 and "over its budget" in run.text, run.text)
    t.ok("and-everything-of-it-is-ended", wait_for(lambda: not pid_alive(int(open(note).read())), LONG))
    missing = [name for name in steps.STEPS if name not in steps.MINUTES]
    t.eq("every-step-has-its-budget", missing, [])
    homes = []
    both = threading.Barrier(2)

    def meet(work):
        both.wait(LONG)
        homes.append((work.lane.env["HOME"], work.lane.env["XDG_RUNTIME_DIR"], work.lane.env["TMPDIR"], work.lane.env["TEST_PORTS"]))
        return working.verdict(True)
    run = Run(t, fake("one", meet), fake("two", meet))
    t.ok("two-lanes-run-at-once", run.counts.passed == 2, run.text)
    t.eq("and-share-nothing", len({value for home in homes for value in home}), 8)
    order = []
    made = lambda name: lambda work: (order.append(name), working.verdict(name != "first"))[1]
    run = Run(t, fake("first", made("first")), fake("then", made("then"), 9, ("first",)))
    t.eq("what-needs-a-failed-step-is-not-run", (order, run.counts.failed), (["first"], 2))


@area("test-command")
def ended(t):
    """Whoever ends the test command, in whichever way, ends its steps."""
    for sig in (signal.SIGTERM, signal.SIGKILL):
        note = t.tmp() + "/pid"
        script = ("import sys; sys.path.insert(0, %r)\nimport os, lanes, places, steps\nplaces.LOGS = %r\n"
                  "step = steps.Step('x', '', lambda w: w.plain(['sh', '-c', 'env -i setsid sleep 1000 & echo $! > %s; sleep 1000']), 1, 1, (), False, True)\n"
                  "import signal\nsignal.signal(signal.SIGTERM, signal.default_int_handler)\n"
                  "with places.Place() as folders: lanes.Lanes([step], folders, print).run()\n" % (COMMAND, t.tmp(), note))
        p = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             env=dict(os.environ, TMPDIR=t.tmp()))
        if not wait_for(lambda: os.path.exists(note) and open(note).read().strip(), LONG):
            raise Fail("the step does not start")
        pid = int(open(note).read())
        p.send_signal(sig)
        p.wait(LONG)
        t.ok("%s-ends-its-steps" % signal.Signals(sig).name, wait_for(lambda: not pid_alive(pid), LONG), pid)
