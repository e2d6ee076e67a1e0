#!/usr/bin/env python3
"""What the program is built from, judged by ../deny.toml over `cargo metadata`: licences, sources, bans, doubles, and how many.

  dependencies.py [--metadata FILE]

Prints what is wrong, and one line of sums. cargo-deny judges by the same file, and knows advisories too: `./test --full`."""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# More is a sign that something was taken on for one function; 328 when this was written.
PACKAGES_MAX = 450


def allows(expression, allowed):
    """Whether an SPDX expression can be met with these licences; in old manifests `/` means OR."""
    words = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))

    def either():
        good = both()
        while words and words[0] == "OR":
            words.pop(0)
            good = both() or good
        return good

    def both():
        good = one()
        while words and words[0] == "AND":
            words.pop(0)
            good = one() and good
        return good

    def one():
        word = words.pop(0) if words else ""
        if word == "(":
            good = either()
            return words.pop(0) == ")" and good if words else False
        if words and words[0] == "WITH":
            # With an exception it is another licence, allowed only by its whole name.
            word = " ".join([word, words.pop(0), words.pop(0) if words else ""])
        return word in allowed
    good = either()
    return good and not words


def wrong(packages, policy):
    """Every reason against this set of packages."""
    allowed = set(policy["licenses"]["allow"])
    banned = {ban["name"] for ban in policy["bans"]["deny"]}
    doubles = {skip["name"] for skip in policy["bans"]["skip"]}
    foreign = [p for p in packages if p["source"]]
    for p in packages:
        name = "%s %s" % (p["name"], p["version"])
        if not p["license"]:
            yield "%s names no licence" % name
        elif not allows(p["license"], allowed):
            yield "%s: licence %s is not allowed by deny.toml" % (name, p["license"])
        if p["name"] in banned:
            yield "%s is banned by deny.toml" % name
    for p in foreign:
        if not p["source"].startswith("registry+"):
            yield "%s %s comes from %s, not from the registry" % (p["name"], p["version"], p["source"].split("+")[0])
    registries = {p["source"] for p in foreign if p["source"].startswith("registry+")}
    if len(registries) > 1:
        yield "packages come from %d registries; one is allowed" % len(registries)
    counts = collections.Counter(p["name"] for p in packages)
    for name, count in sorted(counts.items()):
        if count > 1 and name not in doubles:
            yield "%s is there %d times and not in `skip` of deny.toml" % (name, count)
    for name in sorted(doubles):
        if counts[name] < 2:
            yield "%s is in `skip` of deny.toml and there only %d times: take the line out" % (name, counts[name])
    if len(packages) > PACKAGES_MAX:
        yield "%d packages; at most %d" % (len(packages), PACKAGES_MAX)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--metadata", help="a file with the output of cargo metadata, instead of running it")
    opt = ap.parse_args()
    if opt.metadata:
        with open(opt.metadata) as f:
            packages = json.load(f)["packages"]
    else:
        run = subprocess.run(["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"], cwd=ROOT, stdout=subprocess.PIPE)
        if run.returncode != 0:
            return run.returncode
        packages = json.loads(run.stdout)["packages"]
    with open(os.path.join(ROOT, "deny.toml"), "rb") as f:
        found = list(wrong(packages, tomllib.load(f)))
    print("\n".join(found + ["%d packages, %d wrong" % (len(packages), len(found))]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
