#!/usr/bin/env python3
"""Fails when COVERAGE.md has a promise without a test, or it, DIVERGENCES.md or SECURITY.md names a test that does not exist; when SECURITY.md
has an attack without a test, or says nothing of one that conformance/attacks/open.txt knows to succeed.

  check_coverage.py --logs DIR

Names of the Python suites are looked up in the logs of this run (DIR/claustrum.log, own.log, sudo-proxy.log and so on), names of
Rust tests in the sources (a function with a test attribute in the named crate) and, where they ran, in DIR/unit.log and integration.log."""
import argparse
import contextlib
import fnmatch
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
LOGS = {"claustrum": ["claustrum"], "sudo-proxy": ["sudo-proxy"], "cdev": ["cdev"], "codecast": ["codecast"], "zeroclaw": ["zeroclaw"], "attacks": ["attacks"], "browser": ["browser"],
        "own": ["own", "ssh", "netns", "cli", "daily", "ordinary", "demo", "hangup", "screens", "sessions", "approvals", "now", "agents", "self", "sudo-own", "sudo-clients", "cdev-own", "codecast-own", "codecast-client", "zerocode-client", "zeroclaw-own", "joining", "setup", "web", "page", "notices"]}
# How ./test marks the log of a step that could not run.
NOT_RUN = "not run here: "
NAMED = re.compile(r"`(claustrum|sudo-proxy|cdev|codecast|zeroclaw|attacks|browser|own|rust): ([^`]+)`")
# Programs that are their own test harness list their tests in `tests![...]`.
LISTED = re.compile(r"\btests!\[([^\]]*)\]")
TEST_FN = re.compile(r"#\[(?:tokio::)?test[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:async )?fn (\w+)|^\s*fn (\w+)\([^)]*\bin\b", re.M)


def suite_names(folder, suite):
    """(names that ran, areas that were skipped as a whole)."""
    ran, skipped = set(), set()
    for log in LOGS[suite]:
        try:
            with open(os.path.join(folder, log + ".log"), errors="replace") as f:
                text = f.read()
        except FileNotFoundError:
            text = ""
        if NOT_RUN in text:
            # What it needs is not installed here: nothing can be said about areas that no other step ran.
            ran.add(NOT_RUN)
        elif " passed, " not in text:
            sys.exit("no finished run in %s/%s.log: run ./test %s first" % (folder, log, log))
        # A case may say more about how it went, in parentheses.
        ran.update(re.sub(r" \([^()]*\)$", "", name) for name in re.findall(r"^ok (.+)$", text, re.M))
        ran.update(m.split(": ")[0] for m in re.findall(r"^FAIL (.+)$", text, re.M))
        skipped.update(re.findall(r"^SKIP ([^/]+)/all: ", text, re.M))
    return ran, skipped


def rust_tests():
    """crate name -> names of its test functions (also of property tests, whose arguments read `x in strategy`)."""
    found = {}
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [d for d in folders if d not in ("target", ".git", "src", "tests", "benches")]
        if "Cargo.toml" not in files:
            continue
        with open(os.path.join(folder, "Cargo.toml")) as f:
            name = re.search(r'^\[package\][^\[]*?^name = "([^"]+)"', f.read(), re.M | re.S)
        if not name:
            continue
        tests = found.setdefault(name.group(1).replace("-", "_"), set())
        for part in ("src", "tests"):
            for place, _, sources in os.walk(os.path.join(folder, part)):
                for source in sources:
                    if source.endswith(".rs"):
                        with open(os.path.join(place, source), errors="replace") as f:
                            text = f.read()
                        tests.update(a or b for a, b in TEST_FN.findall(text))
                        tests.update(re.findall(r"\w+", " ".join(LISTED.findall(text))))
    return found


def rust_that_ran(folder):
    """Names without their modules; nothing where they were not run."""
    ran = set()
    for log in ("unit", "integration"):
        with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, log + ".log"), errors="replace") as f:
            ran.update(re.findall(r"^test (?:\w+::)*(\w+)(?: - should panic)? \.\.\. ", f.read(), re.M))
    return ran


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--logs", default=os.path.join(ROOT, "target", "test-logs"))
    folder = ap.parse_args().logs
    suites = {suite: suite_names(folder, suite) for suite in LOGS}
    rust, ran_rust = rust_tests(), rust_that_ran(folder)
    bad, promises, named = [], 0, 0

    def exists(kind, name):
        if kind == "rust":
            crate, _, path = name.partition("::")
            test = path.rsplit("::", 1)[-1]
            return test in rust.get(crate, ()) and (not ran_rust or test in ran_rust)
        ran, skipped = suites[kind]
        area = name.split("/")[0]
        if area in skipped or (NOT_RUN in ran and not any(one.startswith(area + "/") for one in ran)):
            return True
        return bool(fnmatch.filter(ran, name)) if "*" in name else name in ran

    with open(os.path.join(HERE, "COVERAGE.md")) as f:
        for number, line in enumerate(f, 1):
            if not line.startswith("|") or line.startswith(("|---", "| promise")):
                continue
            promises += 1
            tests = NAMED.findall(line)
            named += len(tests)
            if not tests:
                bad.append("line %d names no test: %s" % (number, line.split("|")[1].strip()))
            bad += ["line %d: no test `%s: %s`" % (number, k, n) for k, n in tests if not exists(k, n)]
    with open(os.path.join(ROOT, "SECURITY.md")) as f:
        text = f.read()
    for number, line in enumerate(text.splitlines(), 1):
        tests = NAMED.findall(line)
        named += len(tests)
        bad += ["SECURITY.md line %d: no test `%s: %s`" % (number, k, n) for k, n in tests if not exists(k, n)]
        if line.startswith("|") and not line.startswith(("|---", "| who")) and not tests:
            bad.append("SECURITY.md line %d names no test: %s" % (number, line.split("|")[1].strip()))
    with open(os.path.join(HERE, "attacks", "open.txt")) as f:
        still = [line.split(": ")[0] for line in f if line.strip() and not line.startswith("#")]
    bad += ["SECURITY.md does not say that `%s` is open" % name for name in still if "`%s`" % name not in text]
    with open(os.path.join(ROOT, "DIVERGENCES.md")) as f:
        for number, line in enumerate(f, 1):
            bad += ["DIVERGENCES.md line %d: no test `%s: %s`" % (number, k, n) for k, n in NAMED.findall(line) if not exists(k, n)]
    print("\n".join(bad))
    print("%d promises, %d tests named, %d wrong" % (promises, named, len(bad)))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
