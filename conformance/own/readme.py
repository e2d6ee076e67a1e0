"""The README and the other documents: their length, their links, and every command that the README shows, literally."""
import glob
import os
import re
import shutil
import subprocess
import sys
import termios

from cli import Home
from hangup_kit import Seat
from lib import area, wait_for

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
# Written by the program itself.
GENERATED = ["docs/commands.md"]
# The README's words as `wc -w` counts them; of all documents without the bars of their tables.
README_MOST, ALL_MOST = 900, 20000
# Nouns of ours that a newcomer need not know.
OURS = ["door", "keeper", "stand-in", "autonomy", "stables"]


def text_of(name):
    with open(os.path.join(ROOT, name)) as f:
        return f.read()


def documents():
    tops = ["README.md", "ARCHITECTURE.md", "DIVERGENCES.md", "SECURITY.md", "CHANGELOG.md", "bench/README.md"]
    below = [os.path.relpath(path, ROOT) for path in sorted(glob.glob(ROOT + "/docs/*.md"))]
    return tops + [name for name in below if name not in GENERATED]


def commands(text):
    """Every line of every shell block, without its comment."""
    lines = "\n".join(re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)).splitlines()
    return [line for line in (re.sub(r"\s+#.*$", "", line).strip() for line in lines) if line]


def anchors(text):
    heads = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@area("readme-words")
def words(t):
    t.ok("at-most-900-words", len(text_of("README.md").split()) <= README_MOST, len(text_of("README.md").split()))
    counts = {name: sum(bool(re.search(r"\w", word)) for word in text_of(name).split()) for name in documents()}
    t.ok("all-documents-at-most-20000", sum(counts.values()) <= ALL_MOST, (sum(counts.values()), counts))
    readme = text_of("README.md").lower()
    t.eq("no-noun-that-only-we-know", [noun for noun in OURS if re.search(r"\b%s" % noun, readme)], [])
    begin = text_of("README.md").split("##")[0]
    t.ok("it-begins-with-what-it-is-for-and-linux", "leave, come back, lose nothing" in begin and "Linux only" in begin and "docs/demo.svg" in begin)


@area("readme-links")
def links(t):
    bad = []
    for name in documents() + GENERATED + ["conformance/COVERAGE.md"]:
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```$", "", text_of(name), flags=re.M | re.S)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            if not os.path.exists(os.path.join(ROOT, file)) or (anchor and anchor not in anchors(text_of(file))):
                bad.append("%s: %s" % (name, target))
    t.eq("every-link-leads-somewhere", bad, [])


class Seen:
    """Stands where a step's work stands, and only looks at what it would run."""
    name = "readme"

    def __init__(self):
        self.ran = []

    def run(self, argv, **_):
        self.ran.append(" ".join(argv[1:]))
        return 0

    def __getattr__(self, _):
        return lambda *args, **options: []


@area("readme-proofs")
def proofs(t):
    sys.path.insert(0, os.path.join(ROOT, "conformance", "command"))
    import steps
    readme = text_of("README.md")
    run = []
    for name in ("crash", "conversations", "decisions"):
        seen = Seen()
        steps.STEPS[name].function(seen)
        run += seen.ran
    t.eq("the-batteries-of-the-readme-are-those-of-the-test-command", [proof for proof in re.findall(r"-p bench -- ([^`]+)`", readme) if proof not in run], [])
    named = re.findall(r"`\./test (\w[\w-]*)`", readme)
    t.eq("its-steps-are-steps", [name for name in named if name != "quick" and name not in steps.STEPS], [])
    t.ok("the-test-command-is-what-ci-runs", "./test" in commands(readme) and re.search(r'^exec \./test "\$@"$', "".join(text_of(os.path.relpath(p, ROOT)) for p in glob.glob(ROOT + "/.ci/*")), re.M))


@area("readme-blocks")
def blocks(t):
    """What can not be had here is replaced by what can: the build by the program that was built, claude by what is built in."""
    home = Home(t)
    os.makedirs(home.dir + "/clone/target/release")
    os.mkdir(home.dir + "/project")
    subprocess.run(["git", "init", "-q", home.dir + "/project"], env=home.env, check=True)
    shutil.copy(home.program, home.dir + "/clone/target/release/ostler")
    shutil.copy(ROOT + "/install", home.dir + "/clone/install")
    home.env["PATH"] = home.dir + "/.local/bin:" + home.env["PATH"]
    before = {"clone", "project"}
    keys = {"ostler": ("fix", b"q"), "ostler attach fix": ("leave", b"\x1d"), "ostler run -t": ("leave", b"\x1d"), "ostler demo": ("Enter opens", b"\r")}
    lines = commands(text_of("README.md"))
    t.ok("there-are-blocks", len(lines) >= 10, lines)
    for line in lines:
        if line == "./test":
            continue
        told = line.replace("cargo run --release --", "target/release/ostler").replace("new claude", "new echo").replace("-- claude", "-- cat")
        told = told + " --from target/release/ostler" if told == "./install" else told
        wait, press = next((what for begin, what in keys.items() if line == begin or line.startswith(begin + " ") and begin != "ostler" and "--remove" not in line), ("", b""))
        with Seat(home, argv=["bash", "-c", "cd clone && " + told], size=(40, 100)) as seat:
            if press:
                seat.until(wait.encode())
                # A key before the terminal takes single keys would wait for the end of its line.
                if press != b"\r":
                    wait_for(lambda: not termios.tcgetattr(seat.slave)[3] & termios.ICANON, 10, 0.02)
                seat.type(press)
            if press == b"\r":
                seat.until(b"demo-asks", 30)
                wait_for(lambda: not termios.tcgetattr(seat.slave)[3] & termios.ICANON, 10, 0.02)
                seat.type(b"q")
            rc = seat.wait(60)
        t.ok("works-as-it-stands: %s" % line.split(" -m ")[0], rc == 0, (rc, seat.seen[-600:]))
    home.stop()
    left = set(os.listdir(home.dir)) - before
    files = [os.path.join(folder, name) for top in left for folder, _, names in os.walk(os.path.join(home.dir, top)) for name in names]
    t.eq("and-removing-it-leaves-nothing", files, [])
