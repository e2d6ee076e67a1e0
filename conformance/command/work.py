"""One step at work: its lane, its log, its budget, and what it found."""
import json
import os
import re
import subprocess
import sys
import time

import leftovers
import places

HERE = os.path.dirname(os.path.abspath(__file__))
# What has been told to end may need this long on a busy machine.
GRACE = 20.0


class Counts:
    def __init__(self, passed=0, failed=0, skipped=0):
        self.passed, self.failed, self.skipped = passed, failed, skipped

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self):
        return "%d passed, %d failed, %d skipped" % (self.passed, self.failed, self.skipped)


def verdict(good):
    return Counts(passed=1) if good else Counts(failed=1)


class Work:
    def __init__(self, step, lane):
        self.step, self.name, self.lane = step, step.name, lane
        self.lines, self.seen, self.left = [], set(), []
        self.started = time.monotonic()
        self.child = None

    def say(self, text):
        """Shown when the step is over: two lanes would talk into each other."""
        self.lines.append("    " + text)

    def show(self, lines, most=25):
        lines = list(lines)
        for line in lines[:most]:
            self.say(line[:300])
        if len(lines) > most:
            self.say("... and %d more" % (len(lines) - most))

    def show_tail(self, lines=30):
        self.show(self.log().rstrip().splitlines()[-lines:], lines)
        self.say("log: %s" % os.path.relpath(places.log_path(self.name), places.ROOT))

    def log(self):
        return places.log_text(self.name)

    def last_line(self):
        lines = self.log()[-2000:].strip().splitlines()
        return lines[-1].strip()[:100] if lines else ""

    def missing(self, reason):
        """Something of the machine is missing: a skip for a person at a desk, a failure in CI."""
        self.say(reason)
        with open(places.log_path(self.name), "a") as log:
            log.write("not run here: %s\n" % reason)
        return Counts(failed=1) if places.CI else Counts(skipped=1)

    def run(self, argv, env=None, cwd=places.ROOT):
        """Runs argv with its output appended to the step's log. Returns the exit code; 124 when the budget is used up."""
        report = os.path.join(self.lane.folder, "report")
        with open(places.log_path(self.name), "ab") as log:
            log.write(("$ %s\n" % " ".join(argv)).encode())
            log.flush()
            self.child = subprocess.Popen([sys.executable, os.path.join(HERE, "reaper.py"), report, str(GRACE)] + argv, cwd=cwd,
                                          stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(self.env(), **(env or {})), start_new_session=True)
        try:
            code = self.child.wait(max(0.1, self.step.seconds() - (time.monotonic() - self.started)))
        except subprocess.TimeoutExpired:
            self.say("over its budget of %g minutes, stopped (OSTLER_TEST_PATIENCE=2 doubles all budgets)" % (self.step.seconds() / 60))
            code = 124
        finally:
            self.stop()
        try:
            with open(report) as f:
                told = json.load(f)
            os.unlink(report)
        except (OSError, ValueError):
            return code
        self.seen.update(told["seen"])
        self.left += ["process %s" % process for process in told["left"]]
        return code

    def env(self):
        return self.lane.env if self.step.home else self.lane.users_env

    def stop(self):
        """Ends what runs, and all that it started."""
        if self.child and self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(20)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()

    def plain(self, argv, **options):
        """A test that is one command: it passes when that exits with 0."""
        good = self.run(argv, **options) == 0
        if not good:
            self.show_tail()
        return verdict(good)

    def suite(self, argv, **options):
        """A black-box suite: counts come from its last line, failures from its FAIL lines."""
        begin = len(self.log())
        code = self.run(argv, **options)
        text = self.log()[begin:]
        found = re.findall(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", text, re.M)
        counts = Counts(*(int(n or 0) for n in found[-1])) if found else Counts()
        self.show(re.findall(r"^FAIL .*$", text, re.M))
        self.show(re.findall(r"^SKIP .*$", text, re.M))
        if not found or (code != 0 and counts.failed == 0):
            counts.failed += 1
            self.show_tail()
        elif counts.failed:
            self.say("log: %s" % os.path.relpath(places.log_path(self.name), places.ROOT))
        return counts

    def own(self, which, *more):
        return self.suite([sys.executable, "-u", "conformance/own/run.py", "--suite", which, "--bin", places.LINKS + "/claustrum", *more])

    def may_be_tried_again(self):
        """What runs the built programs, was in time and left nothing behind: what judges the sources knows no luck."""
        in_time = time.monotonic() - self.started < self.step.seconds()
        return self.step.home and bool({"build", "compile"} & set(self.step.needs)) and in_time and not self.left

    def look_behind(self):
        """What the step left on the machine is a failure of it. Returns how many things that were."""
        self.left += leftovers.of(self.lane, self.seen)
        for thing in self.left:
            self.say("left behind: %s" % thing)
        return len(self.left)
