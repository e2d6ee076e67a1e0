"""The check of what we build from finds what it should: one package that is wrong in each way."""
import json
import os
import subprocess
import sys

from lib import area

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dependencies.py")
sys.path.insert(0, os.path.dirname(CHECK))
import dependencies

REGISTRY = "registry+https://example.invalid/index"


def package(name, licence="MIT", source=REGISTRY, version="1.0.0"):
    return {"name": name, "version": version, "license": licence, "source": source}


@area("dependencies")
def dependencies_are_judged(t):
    policy = {"licenses": {"allow": ["MIT", "ISC"]}, "bans": {"deny": [{"name": "openssl-sys"}], "skip": [{"name": "syn"}]}}
    good = [package("ours", source=None), package("syn"), package("syn", version="2.0.0"), package("other", "Apache-2.0 OR MIT")]
    judge = lambda *more: list(dependencies.wrong(good + list(more), policy))
    t.eq("a-good-set-passes", judge(), [])
    for name, more in {
        "no-licence": package("a", None), "another-licence": package("a", "GPL-3.0-only"), "one-of-two-that-both-hold": package("a", "MIT AND GPL-3.0-only"),
        "an-exception-is-another-licence": package("a", "MIT WITH Something"), "half-an-expression": package("a", "(MIT"),
        "a-banned-one": package("openssl-sys"), "from-a-repository": package("a", source="git+https://example.invalid/x"),
        "from-another-registry": package("a", source="registry+https://example.invalid/other"), "a-double": package("other", version="2.0.0"),
    }.items():
        t.ok(name + "-is-found", len(judge(more)) == 1, judge(more))
    for expression in ("MIT", "MIT/GPL-3.0-only", "(GPL-3.0-only OR MIT) AND ISC", "GPL-3.0-only WITH X OR MIT"):
        t.eq("an-expression-with-a-way-out-passes", judge(package("a", expression)), [])
    many = [package("p%d" % n) for n in range(dependencies.PACKAGES_MAX)]
    t.ok("too-many-are-found", any("at most" in why for why in judge(*many)), judge(*many))
    file = t.tmp() + "/metadata.json"
    with open(file, "w") as f:
        json.dump({"packages": good + [package("openssl-sys")]}, f)
    run = subprocess.run([sys.executable, CHECK, "--metadata", file], stdout=subprocess.PIPE, text=True)
    t.ok("what-is-wrong-is-told-and-fails", run.returncode == 1 and "openssl-sys 1.0.0 is banned" in run.stdout, run)
