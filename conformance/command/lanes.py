"""Two lanes, side by side: whoever is free takes the longest step that may run."""
import threading
import time
import traceback

from work import Counts, Work

# So often one is told how far it is.
TELL_EVERY = 30
# A step in which at most so many cases fail is run a second time. What passes then is named at the end: it rests on luck and
# is to be mended, but does not stand in the way of everything else.
FEW = 2
# More steps than this that pass only the second time are no accident.
UNSTEADY_MAX = 2
# Others wait for these.
BUILDS = ("build", "compile")


class Lanes:
    def __init__(self, steps, lanes, say):
        self.waiting = sorted(steps, key=order)
        self.names = {step.name for step in steps}
        self.lanes, self.say = lanes, say
        self.results, self.running, self.left, self.unsteady = {}, {}, 0, []
        self.changed = threading.Condition()
        self.stopped = False
        # Since when there is something to test.
        self.built = time.monotonic()

    def run(self):
        """Runs every step; the counts of all."""
        workers = [threading.Thread(target=self.work, args=(lane,)) for lane in self.lanes]
        started = told = time.monotonic()
        for worker in workers:
            worker.start()
        try:
            while any(worker.is_alive() for worker in workers):
                time.sleep(0.2)
                now = time.monotonic()
                if now - told >= TELL_EVERY:
                    told = now
                    for work in list(self.running.values()):
                        self.say("... %4d s  %s, %d s: %s" % (now - started, work.name, now - work.started, work.last_line()))
        finally:
            self.stop()
            for worker in workers:
                worker.join()
        total = Counts()
        for counts in self.results.values():
            total.add(counts)
        if self.unsteady:
            self.say("passed only the second time: %s" % ", ".join(self.unsteady))
        if len(self.unsteady) > UNSTEADY_MAX:
            total.add(Counts(failed=len(self.unsteady)))
        return total

    def stop(self):
        with self.changed:
            self.stopped = True
            self.changed.notify_all()
        for work in list(self.running.values()):
            work.stop()

    def work(self, lane):
        while True:
            with self.changed:
                step = self.next()
                while step is None and self.waiting and not self.stopped:
                    self.changed.wait()
                    step = self.next()
                if step is None or self.stopped:
                    return
                self.waiting.remove(step)
                work = self.running[step.name] = Work(step, lane)
            counts = self.one(work)
            with self.changed:
                del self.running[step.name]
                self.results[step.name] = counts
                if step.name in BUILDS:
                    self.built = time.monotonic()
                self.changed.notify_all()

    def next(self):
        """The first that needs nothing which is not there yet."""
        for step in self.waiting:
            others = self.names - {step.name} if "*" in step.needs else self.names & set(step.needs)
            if others <= set(self.results):
                return step
        return None

    def one(self, work):
        lacking = [need for need in work.step.needs if need in self.results and self.results[need].failed]
        if lacking:
            counts = Counts(failed=1)
            work.say("not run: %s failed" % lacking[0])
        else:
            counts = self.attempt(work)
            if 0 < counts.failed <= FEW and work.may_be_tried_again():
                counts = self.again(work, counts)
        word = "FAILED" if counts.failed else "ok" if counts.passed else "skipped"
        took = time.monotonic() - work.started
        self.say("\n".join(["%-15s %s in %.1f s of %g (%s)" % (work.name, word, took, work.step.seconds(), counts)] + work.lines))
        return counts

    def again(self, work, first):
        work.say("%d failed: the step is run a second time" % first.failed)
        work.started = time.monotonic()
        counts = self.attempt(work)
        if not counts.failed:
            self.unsteady.append(work.name)
        return counts

    def attempt(self, work):
        try:
            counts = work.step.function(work)
        except Exception:
            work.show(traceback.format_exc().splitlines(), 40)
            counts = Counts(failed=1)
        if not self.stopped:
            left = work.look_behind()
            self.left += left
            counts.failed += left
        return counts


def order(step):
    """What others wait for first, then the longest."""
    return (step.name not in BUILDS, -step.usual)


def expected(steps, is_cold):
    """Minutes that these steps take in two lanes, as a rule."""
    ends, done = [0.0, 0.0], {}
    for step in sorted(steps, key=order):
        usual = step.usual if is_cold or step.name not in (*BUILDS, "clippy") else 0.2
        lane = ends.index(min(ends))
        begin = max([ends[lane]] + [done.get(need, 0.0) for need in step.needs])
        ends[lane] = done[step.name] = begin + usual
    return max(ends)
