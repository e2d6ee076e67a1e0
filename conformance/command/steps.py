"""The steps of the test command: what each runs, how long it usually takes, and how long it may."""
import json
import os
import re
import shutil
import sys

import install
import places
from work import Counts, verdict

PATIENCE = float(os.environ.get("OSTLER_TEST_PATIENCE", "1"))
STEPS = {}


class Step:
    def __init__(self, name, about, function, usual, budget, needs, quick, home):
        self.name, self.about, self.function = name, about, function
        self.usual, self.budget, self.needs, self.quick, self.home = usual, budget, needs, quick, home

    def seconds(self):
        return self.budget * 60 * PATIENCE * (10 if full() else 1)


def full():
    return "--full" in sys.argv


def step(name, about, needs=(), quick=False, home=True):
    """`home`: whether it has a HOME of its own; what cargo and npm keep is in the user's."""
    def register(function):
        usual, budget = MINUTES[name]
        STEPS[name] = Step(name, about, function, usual, budget, needs, quick, home)
        return function
    return register


# Minutes on two cores that both lanes share: usual and budget. Who needs longer fails, and is in need of repair.
MINUTES = {
    "install": (0, 30), "fmt": (0.1, 1), "build": (8, 18), "compile": (5, 14), "clippy": (2, 6), "dependencies": (0.1, 2), "unit": (1, 4), "integration": (3, 8),
    "claustrum": (0.7, 4), "own": (2.5, 7), "ssh": (0.3, 2), "netns": (0.1, 2), "cli": (0.3, 3), "daily": (0.4, 3), "ordinary": (0.7, 4), "demo": (0.7, 4), "hangup": (1.3, 5), "screens": (1, 4), "sessions": (0.6, 4), "sudo-proxy": (2, 6),
    "sudo-own": (0.6, 4), "cdev": (3.5, 8), "cdev-own": (1.5, 5), "codecast": (1.2, 4), "codecast-own": (0.5, 4), "zeroclaw": (1.2, 4), "zeroclaw-own": (0.6, 4), "joining": (1.3, 4), "codecast-client": (0.3, 3), "zerocode-client": (1.6, 5),
    "approvals": (0.5, 4), "attacks": (3.5, 8), "web": (0.4, 3), "notices": (0.7, 3), "page": (2.6, 7), "built": (0.3, 3), "browser": (0.5, 3), "now": (1, 4), "sudo-clients": (0.5, 4), "agents": (5, 12), "crash": (0.2, 3), "conversations": (0.2, 3), "decisions": (0.2, 3),
    "setup": (0.5, 3), "package": (0, 3),
    "fuzz": (1.6, 4), "self": (0.3, 2), "coverage": (0.1, 1),
}
# The whole of it, cold, without what `install` fetches.
WHOLE = 40
# What is for now and then, after the build.
QUICK = 5
BUILT = ("build",)


@step("install", "packages, agents and original programs that the other steps need (only what is missing)", home=False)
def install_everything(work):
    return install.everything(work)


@step("fmt", "cargo fmt --check", quick=True, home=False)
def fmt(work):
    return work.plain(["cargo", "fmt", "--all", "--check"])


@step("build", "cargo build --release --workspace: the program itself", quick=True, home=False)
def build(work):
    counts = work.plain(["cargo", "build", "--release", "--workspace"])
    if counts.passed:
        shutil.rmtree(places.LINKS, ignore_errors=True)
        os.makedirs(places.LINKS)
        counts = work.plain([places.OSTLER, "link", places.LINKS])
    return counts


@step("compile", "cargo test --no-run: the tests, quick to compile, with the hooks that only tests need", quick=True, home=False)
def compile_tests(work):
    return work.plain(["cargo", "test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"])


@step("clippy", "cargo clippy, warnings denied; cargo test --doc: what must not compile does not", needs=("compile",), home=False)
def clippy(work):
    counts = work.plain(["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
    # With the features of the whole, as everything here was compiled.
    counts.add(work.plain(["cargo", "test", "--workspace", "--doc"]))
    return counts


@step("dependencies", "deny.toml over cargo metadata: licences, one source, bans, doubles (--full: cargo-deny, with advisories where they can be had)", quick=True, home=False)
def dependencies(work):
    counts = work.plain([sys.executable, "conformance/dependencies.py"])
    if not full():
        return counts
    if not install.has_cargo_deny(work):
        counts.add(work.missing("cargo-deny %s is not installed; run ./test --full install" % install.CARGO_DENY))
        return counts
    deny = [install.cargo_deny(), "--all-features", "check"]
    counts.add(work.plain(deny + ["licenses", "bans", "sources"]))
    if work.run([install.cargo_deny(), "fetch", "db"]) == 0:
        counts.add(work.plain(deny + ["advisories"]))
    else:
        work.say("advisories are not checked: their database cannot be had here")
        counts.add(Counts(skipped=1))
    return counts


@step("unit", "tests beside the code", needs=("compile",), quick=True)
def unit(work):
    return rust(work, lambda kinds: "test" not in kinds)


@step("integration", "one test program per crate: real processes, terminals, disks and users", needs=("compile",), quick=True)
def integration(work):
    return rust(work, lambda kinds: "test" in kinds)


def rust(work, wanted):
    """Runs test programs as `cargo test` does: each in the folder of its crate."""
    total = Counts()
    for line in places.log_text("compile").splitlines():
        made = json.loads(line) if line.startswith('{"reason":"compiler-artifact"') else {}
        if made.get("executable") and made["profile"]["test"] and wanted(made["target"]["kind"]):
            total.add(program(work, made["executable"], os.path.dirname(made["manifest_path"])))
    return total


def program(work, path, folder):
    begin = len(work.log())
    code = work.run([path], env={"OSTLER_TEST_FULL": "1"} if full() else None, cwd=folder)
    text, counts = work.log()[begin:], Counts()
    for passed, failed, ignored in re.findall(r"^test result: \S+ (\d+) passed; (\d+) failed(?:; (\d+) ignored)?", text, re.M):
        counts.add(Counts(int(passed), int(failed), int(ignored or 0)))
    work.show(re.findall(r"^test .* \.\.\. FAILED.*$", text, re.M))
    if code != 0:
        counts.failed = max(counts.failed, 1)
        work.show_tail()
    return counts


@step("claustrum", "conformance/claustrum: the protocol document, byte for byte", BUILT, quick=True)
def claustrum(work):
    return work.suite([sys.executable, "-u", "conformance/claustrum/run.py", "--bin", places.LINKS + "/claustrum"])


@step("own", "conformance/own: what the document promises beyond that suite, and durability", BUILT)
def own(work):
    return work.own("claustrum")


@step("ssh", "conformance/own: through a real sshd, the connection cut in mid-stream", BUILT)
def ssh(work):
    return work.own("ssh")


@step("netns", "conformance/own: everything works in an empty network namespace", BUILT)
def netns(work):
    return work.own("netns")


@step("cli", "conformance/own: the command line as a person uses it", BUILT, quick=True)
def cli(work):
    return work.own("cli")


@step("demo", "conformance/own: `ostler demo` in terminals of three sizes and without one, as root and not, and the README's picture", BUILT)
def demo(work):
    return work.own("demo")


@step("daily", "conformance/own: names, ends of logs, waiting, environments, what our processes are called", BUILT, quick=True)
def daily(work):
    return work.own("daily")


@step("ordinary", "conformance/own: as an ordinary user: nothing to be taken from our processes, restart and upgrade without looking into them", BUILT)
def ordinary(work):
    return work.own("ordinary")


@step("hangup", "conformance/own: terminals that end in every way, keys that leave, sizes, keys typed through crashes, answers in place", BUILT)
def hangup(work):
    return work.own("hangup")


@step("screens", "conformance/own: what programs with a terminal say they are doing, their question answered once through crashes, their last screen", BUILT)
def screens(work):
    return work.own("screens")


@step("sessions", "conformance/own: conversations with the built-in agent, watched from everywhere and through crashes", BUILT, quick=True)
def sessions(work):
    return work.own("sessions")


@step("sudo-proxy", "conformance/sudo-proxy: the protocol document, the original's words, and the hardening it lacks (--full: joined, too)", BUILT)
def sudo_proxy(work):
    start = places.OSTLER + " as sudo-proxy --socket {socket}"
    suite = [sys.executable, "-u", "conformance/sudo-proxy/run.py", "--start", start, "--levels", "seed,doc,v11,exact,hard"]
    counts = work.suite(suite)
    if full():
        counts.add(work.suite(suite + ["--before", places.OSTLER + " up", "--after", places.OSTLER + " down --kill"]))
    return counts


@step("sudo-own", "conformance/own: the sudo-proxy door through crashes, hang-ups, grants, and a sudo that asks for a password (--full: joined, too)", BUILT)
def sudo_own(work):
    counts = work.own("sudo-proxy")
    if full():
        counts.add(work.own("sudo-proxy", "--joined"))
    return counts


@step("cdev", "conformance/cdev: the protocol document of phones and browsers, of `as cdev` and of `ostler up`", BUILT)
def cdev(work):
    return work.suite([sys.executable, "-u", "conformance/cdev/both.py", places.OSTLER])


@step("cdev-own", "conformance/own: the cdev door: who gets a token, devices, pages of other sites, a tunnel, limits, joining; its agents, events that nobody misses, and clients that others wrote", BUILT)
def cdev_own(work):
    if not shutil.which("faketime"):
        return work.missing("faketime is missing")
    if not install.has_schemathesis(work):
        return work.missing("schemathesis %s is not installed; run ./test install" % install.SCHEMATHESIS)
    long = {"CDEV_FLOOD": "100000", "CDEV_KILLS": "200", "CDEV_EXAMPLES": "300"} if full() else {}
    begin = len(work.log())
    counts = work.suite([sys.executable, "-u", "conformance/own/run.py", "--suite", "cdev", "--bin", places.LINKS + "/claustrum", "--original", install.schemathesis()], env=long)
    work.show([line for line in work.log()[begin:].splitlines() if line.startswith("cdev: ")])
    return counts


@step("codecast", "conformance/codecast: the protocol document, the original's words, the life cycle, TLS and tokens", BUILT)
def codecast(work):
    more = ["--slow"] + (["--auth"] if os.geteuid() == 0 and shutil.which("unshare") and shutil.which("ip") else [])
    if "--auth" not in more:
        work.say("auth mode is not tried: it needs root, unshare and ip")
    return work.suite([sys.executable, "-u", "conformance/codecast/run.py", "--start", places.OSTLER + " as codecast-daemon"] + more)


@step("codecast-own", "conformance/own: the codecast door: users, headers, restarts, cuts, questions, hostile clients", BUILT)
def codecast_own(work):
    return work.own("codecast")


@step("zeroclaw", "conformance/zeroclaw: the protocol document, in both spellings of its clients", BUILT)
def zeroclaw(work):
    daemon = places.OSTLER + " as zeroclaw daemon"
    argv = [sys.executable, "-u", "conformance/zeroclaw/run.py", "--start", daemon, "--ephemeral-start", daemon + " --ephemeral", "--agent", "echo"]
    for kind, prompt in (("slow", "SLOW:60"), ("tool", "TOOL"), ("approval", "ASK")):
        argv += ["--%s-agent" % kind, "echo", "--%s-prompt" % kind, prompt]
    counts = work.suite(argv)
    counts.add(work.suite(argv + ["--spelling", "real"]))
    return counts


@step("zeroclaw-own", "conformance/own: the zeroclaw door through crashes, its neighbours, forms, hostile clients, on the web port", BUILT)
def zeroclaw_own(work):
    return work.own("zeroclaw")


@step("joining", "conformance/own: programs that were started while `ostler up` runs have their doors there, through kills of each", BUILT)
def joining(work):
    return work.own("joining")


@step("codecast-client", "conformance/own: the original's own client and its ssh manager on our daemon", BUILT)
def codecast_client(work):
    if not install.has_codecast(work):
        return work.missing("codecast %s is not installed; run ./test install" % install.CODECAST)
    return work.own("codecast-client", "--original", install.codecast_root())


@step("zerocode-client", "conformance/own: the original TUI in tmux on our daemon: it starts and joins it, every answer, two at once, kills of each", BUILT)
def zerocode_client(work):
    if not install.has_zerocode(work):
        return work.missing("zerocode %s is not installed; run ./test install" % install.ZEROCODE)
    return work.own("zerocode-client", "--original", install.zerocode_root())


@step("setup", "conformance/own: ./install, completions and manual pages, the service under a real user manager, a reboot", BUILT)
def setup(work):
    return work.own("setup")


@step("package", "packaging/build: a static program and a Debian package (only with --full)", BUILT, home=False)
def package(work):
    if not full():
        work.say("a second whole build: only with --full")
        return Counts(skipped=1)
    out = os.path.join(places.ROOT, "target", "packages")
    counts = work.plain(["packaging/build", "--profile", "release", out])
    if counts.passed:
        counts.add(work.own("package", "--original", out))
    return counts


@step("approvals", "conformance/own: requests answered in terminals and by rules, hosted shells refused, a record that holds", BUILT)
def approvals(work):
    return work.own("approvals")


@step("attacks", "conformance/attacks: the table of SECURITY.md tried by an ordinary user: hosted, another user, repository, archive, client, daemon, disk", BUILT)
def attacks(work):
    if not shutil.which("setpriv") or (os.geteuid() == 0 and not shutil.which("useradd")):
        return work.missing("setpriv or useradd is missing")
    begin = len(work.log())
    counts = work.suite([sys.executable, "-u", "conformance/attacks/run.py", "--bin", places.LINKS + "/claustrum"])
    # What was tried and stopped, and what is known to be open, belongs on the screen.
    work.show(work.log()[begin:].partition("\nclass ")[2].splitlines()[1:-1])
    return counts


@step("web", "conformance/own: the port for devices: who may come in, three ways from elsewhere, hostile clients, pages of a session", BUILT)
def web(work):
    return work.own("web")


@step("built", "web/: the page is built from its lock file, in the same bytes as the committed ones; its types hold, and how it keeps pieces is right", BUILT, home=False)
def built(work):
    if not shutil.which("npm"):
        return work.missing("npm is missing")
    with install.page_sources(work) as folder:
        if folder is None:
            return work.missing("the packages of web/package-lock.json could not be installed from npm")
        total = Counts()
        total.add(work.plain(["node", folder + "/build.mjs", folder + "/again"]))
        total.add(work.plain(["diff", "-r", folder + "/again", "web/dist"]))
        total.add(work.plain(["node", folder + "/node_modules/typescript/bin/tsc", "-p", folder]))
        total.add(work.plain(["node", folder + "/test/run.mjs"]))
        # Its types are those of the program, which it is told by `ostler api`.
        total.add(work.plain(["sh", "-c", '"$0" api | node "$1/api.mjs" && diff "$1/src/api.ts" web/src/api.ts', places.OSTLER, folder]))
    return total


@step("page", "conformance/own: the page in a real Chromium: links, Now, sessions, requests, two browsers, a phone, kills, hostile words, 100,000 events, being told, the real claude; pictures and a recording in target/page", BUILT)
def page(work):
    if not shutil.which("chromium"):
        return work.missing("chromium is missing")
    if not install.has_playwright(work):
        return work.missing("playwright %s is not installed; run ./test install" % install.PLAYWRIGHT)
    begin = len(work.log())
    counts = work.suite([install.playwright_python(), "-u", "conformance/own/run.py", "--suite", "page", "--bin", places.LINKS + "/claustrum", "--original", install.axe()])
    work.show([line for line in work.log()[begin:].splitlines() if line.startswith("page: ")])
    return counts


@step("notices", "conformance/own: being told: by webhook, command, push and bell, once, across kills; destinations that mean harm", BUILT)
def notices(work):
    return work.own("notices")


@step("browser", "conformance/browser: a page of another site in a real Chromium against every port: nothing gets in, and each try gets into an open one", BUILT)
def browser(work):
    if not shutil.which("chromium"):
        return work.missing("chromium is missing")
    begin = len(work.log())
    counts = work.suite([sys.executable, "-u", "conformance/browser/run.py", "--bin", places.OSTLER])
    work.show([line for line in work.log()[begin:].splitlines() if line.startswith("tried ")])
    return counts


@step("now", "conformance/own: `ostler` alone in tmux at three sizes: every key, a resize, ssh, no colour, a killed daemon, none", BUILT)
def now(work):
    return work.own("now")


@step("sudo-clients", "conformance/own: our sudo clients on the original daemon, the original's on ours, through a real sshd", BUILT)
def sudo_clients(work):
    if not install.has_sudo_proxy(work):
        return work.missing("sudo-proxy %s is not installed; run ./test install" % install.SUDO_PROXY)
    return work.own("sudo-clients", "--original", install.sudo_proxy_root())


@step("agents", "conformance/agents: the real claude, codex, gemini and opencode as sessions, the daemon killed in their turns (--full: 20 times)", BUILT)
def agents(work):
    absent = install.absent_agents()
    if absent:
        return work.missing("not installed: %s; run ./test install" % ", ".join(absent))
    return work.suite([sys.executable, "-u", "conformance/agents/run.py", "--bin", places.OSTLER, "--kills", kills(2, 20)])


def kills(few, many):
    return str(many if full() else few)


def battery(work, *arguments):
    good = work.run([places.BENCH, *arguments]) == 0
    work.show([work.last_line()])
    if not good:
        work.show_tail()
    return verdict(good)


@step("crash", "60 SIGKILLs of the daemon under load, and 24 of keeper, daemon or both (--full: 1000 and 200): nothing lost, doubled or reordered while one lives, else said", BUILT)
def crash(work):
    counts = battery(work, "crash", "--kills", kills(60, 1000), "--seed", "1")
    counts.add(battery(work, "crash", "--kills", kills(24, 200), "--seed", "1", "--victims", "mixed"))
    return counts


@step("conversations", "6 conversations, 20 SIGKILLs of the daemon (--full: 500) with two readers of the feed: no event lost or doubled, every answer given once", BUILT)
def conversations(work):
    return battery(work, "sessions", "--kills", kills(20, 500), "--seed", "1")


@step("decisions", "200 requests, three racing approvers, 20 SIGKILLs (--full: 2000 and 200): none carried out twice, none without a recorded yes", BUILT)
def decisions(work):
    return battery(work, "approvals", "--runs", kills(200, 2000), "--kills", kills(20, 200), "--seed", "1")


@step("fuzz", "hostile lines, damaged journals, transcripts, git's own words, ignore rules, a hostile client: 10 to 30 seconds each (--full: 10 minutes)", BUILT)
def fuzz(work):
    total = Counts()
    for target, seconds in (("lines", 30), ("journal", 30), ("transcripts", 20), ("porcelain", 5), ("ignores", 5), ("daemon", 30)):
        total.add(work.plain([places.BENCH, "fuzz", "--target", target, "--seconds", kills(seconds, 600)]))
    return total


@step("self", "conformance/own: this test command itself: what is left behind is found, budgets are kept, nothing outlives it", quick=True)
def itself(work):
    return work.own("self")


@step("coverage", "conformance/COVERAGE.md names only tests that exist and ran", needs=("*",))
def coverage(work):
    return work.plain([sys.executable, "conformance/check_coverage.py", "--logs", places.LOGS])
