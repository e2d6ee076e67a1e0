"""What was tried, what was stopped, and where the same move worked: per class, with what is known to be open."""
import os

import kit

OPEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "open.txt")


def known_open():
    """Case -> why it is not stopped."""
    with open(OPEN) as f:
        lines = [line.strip() for line in f if line.strip() and not line.startswith("#")]
    return dict(line.split(": ", 1) for line in lines)


class Attempts(kit.Suite):
    """The result sink of the own suites, which counts attacks and controls for each class."""

    def __init__(self, opt, outside):
        super().__init__(opt)
        self.outside = outside
        self.known, self.tried, self.held, self.controls, self.still = known_open(), {}, {}, {}, {}

    def count(self, where):
        where[self.area] = where.get(self.area, 0) + 1

    def stopped(self, case, is_stopped, got=""):
        """An attack was tried; whether it came to nothing."""
        name = "%s/%s" % (self.area, case)
        self.count(self.tried)
        if is_stopped:
            self.count(self.held)
        if name not in self.known:
            return self.ok(case, is_stopped, got, "it to be stopped")
        if is_stopped:
            return self.rec(case, False, "got it stopped want the line in open.txt to go")
        self.still[name] = self.known[name]
        print("open %s" % name, flush=True)

    def control(self, case, works, got=""):
        """The same move where it is meant to work: without it a refusal shows nothing."""
        self.count(self.controls)
        self.ok(case, works, got, "it to work here")

    def table(self, whole):
        rows = ["%-14s %5s  %7s  %8s" % ("class", "tried", "stopped", "controls")]
        for name, tried in self.tried.items():
            rows.append("%-14s %5d  %7d  %8d" % (name, tried, self.held.get(name, 0), self.controls.get(name, 0)))
            if whole and not self.controls.get(name):
                self.rec("has-a-control", False, "got none for %s want one" % name)
        rows.append("open: %d" % len(self.still))
        rows += ["    %s: %s" % pair for pair in sorted(self.still.items())]
        if whole:
            for name in sorted(set(self.known) - set(self.still)):
                if "%s/" % name.split("/")[0] in {"%s/" % a for a in self.tried}:
                    rows.append("    (not tried here: %s)" % name)
        return "\n".join(rows)
