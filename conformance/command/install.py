"""What the steps need beyond cargo: packages, the real agents, and the original programs that ours are compared with."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import places
from work import Counts

# What the steps call, and the Debian package that brings it.
PROGRAMS = {
    "cc": "build-essential", "chromium": "chromium", "curl": "curl", "faketime": "faketime", "git": "git", "ip": "iproute2", "lsof": "lsof", "mkfs.ext4": "e2fsprogs", "npm": "npm", "openssl": "openssl", "pgrep": "procps", "prlimit": "util-linux", "ps": "procps", "rg": "ripgrep", "fdfind": "fd-find",
    "setpriv": "util-linux", "fish": "fish", "man": "man-db", "nsenter": "util-linux", "systemctl": "systemd", "zsh": "zsh",
    "ssh": "openssh-client", "ssh-keygen": "openssh-client", "sshd": "openssh-server", "script": "bsdutils", "setsid": "util-linux", "sudo": "sudo", "tmux": "tmux", "unshare": "util-linux", "useradd": "passwd", "vim": "vim", "zstd": "zstd",
}
# The command-line agents that the adapters are tried with, and a node for them where the system's is older (npm then silently
# installs older agents). Pinned: a new version is tried by a person first. One folder each in the cache.
NODE = ("node22", "node", "22.23.3")
AGENTS = [
    ("claude", "@anthropic-ai/claude-code", "2.1.325"), ("codex", "@openai/codex", "0.166.0"),
    ("gemini", "@google/gemini-cli", "0.61.0"), ("opencode", "opencode-ai", "1.18.33"),
]
# The head node and the TUI that our daemon is tried with, and the release whose clients and daemon ours are compared with.
CODECAST = "0.3.2"
SUDO_PROXY = "1.2.0"
ZEROCODE = "0.8.7"
# Drives the browser that the page is tried in, and what looks for what a screen reader would stumble over.
PLAYWRIGHT = "1.65.0"
AXE = ("axe", "axe-core", "4.14.0")
# Asks every address that the OpenAPI description names, with what it allows and what it does not.
SCHEMATHESIS = "4.32.5"
# Knows advisories, which a script cannot; compiled for minutes, so only for --full.
CARGO_DENY = "0.20.2"
# For a large program of others that is tried and not measured.
QUICKLY = {"CARGO_PROFILE_RELEASE_OPT_LEVEL": "0", "CARGO_PROFILE_RELEASE_LTO": "off", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16", "CARGO_PROFILE_RELEASE_DEBUG": "0"}


def plan():
    """What `install` would fetch, in words."""
    packages = sorted({PROGRAMS[p] for p in PROGRAMS if not shutil.which(p)})
    found = ["Debian packages: %s" % " ".join(packages)] if packages else []
    agents = absent_agents()
    if agents:
        found.append("from npm, some 1.5 GB in all: %s" % ", ".join("%s %s" % (package, version) for name, package, version in AGENTS if name in agents))
        if node_version() < 22:
            found.append("node %s from npm" % NODE[2])
    if not os.path.exists(os.path.join(codecast_root(), "bin", "python")):
        found.append("codecast %s from PyPI" % CODECAST)
    if not os.path.exists(playwright_python()):
        found.append("playwright %s from PyPI" % PLAYWRIGHT)
    if not os.path.exists(schemathesis()):
        found.append("schemathesis %s from PyPI" % SCHEMATHESIS)
    if not os.path.exists(os.path.join(sudo_proxy_root(), "bin", "sudo-proxy")):
        found.append("sudo-proxy %s from the crate registry, compiled" % SUDO_PROXY)
    if not os.path.exists(os.path.join(zerocode_root(), "bin", "zerocode")):
        found.append("zerocode %s from the crate registry, compiled" % ZEROCODE)
    if "--full" in sys.argv and not os.path.exists(cargo_deny()):
        found.append("cargo-deny %s from the crate registry, compiled" % CARGO_DENY)
    return found


def everything(work):
    good = Counts()
    if work.run(["cargo", "--version"]) != 0:
        work.say("cargo is missing: install Rust from https://rustup.rs")
        return Counts(failed=1)
    for component in ("fmt", "clippy"):
        if work.run(["cargo", component, "--version"]) != 0:
            name = {"fmt": "rustfmt"}.get(component, component)
            if work.run(["rustup", "component", "add", name]) != 0:
                good.add(work.missing("cargo %s is missing and rustup could not add it" % component))
    absent = sorted(p for p in PROGRAMS if not shutil.which(p))
    if absent:
        good.add(apt(work, absent, sorted({PROGRAMS[p] for p in absent})))
    good.add(agents(work))
    good.add(codecast(work))
    good.add(playwright(work))
    good.add(described(work))
    good.add(sudo_proxy(work))
    good.add(zerocode(work))
    if "--full" in sys.argv and not has_cargo_deny(work):
        compiled(work, "cargo-deny", CARGO_DENY, os.path.join(places.CACHE, "cargo-deny"))
        good.add(Counts() if has_cargo_deny(work) else work.missing("cargo-deny %s could not be installed from the crate registry" % CARGO_DENY))
    return good if good.failed or good.skipped else Counts(passed=1)


def agents(work):
    """The real agents, from npm into the cache."""
    if not shutil.which("npm"):
        return work.missing("npm is missing: the real agents can not be installed")
    path = os.environ["PATH"]
    if node_version() < 22:
        if not npm_package(work, *NODE, path):
            return work.missing("node %s could not be installed from npm" % NODE[2])
        path = os.path.join(places.CACHE, NODE[0], "node_modules", "node", "bin") + os.pathsep + path
    absent = ["%s %s" % (package, version) for name, package, version in AGENTS if not npm_package(work, name, package, version, path)]
    return work.missing("could not be installed from npm: %s" % ", ".join(absent)) if absent else Counts()


def absent_agents():
    return [name for name, package, version in AGENTS if npm_version(os.path.join(places.CACHE, name), package) != version]


def node_version():
    try:
        return int(re.search(r"\d+", subprocess.run(["node", "--version"], stdout=subprocess.PIPE, text=True).stdout).group())
    except (OSError, AttributeError):
        return 0


def npm_package(work, name, package, version, path):
    """Whether this version is in the cache, after installing it if it was not."""
    folder = os.path.join(places.CACHE, name)
    if not npm_version(folder, package) == version:
        # What a broken or older installation left behind would only confuse npm.
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        # What the agents' own installers leave in the folder for temporary files is not the step's.
        with tempfile.TemporaryDirectory(dir=places.CACHE) as scratch:
            work.run(["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "--loglevel=error", "%s@%s" % (package, version)], env={"PATH": path, "TMPDIR": scratch})
    return npm_version(folder, package) == version


def npm_version(folder, package):
    """The installed version, from the file that npm writes last."""
    try:
        with open(os.path.join(folder, "node_modules", ".package-lock.json")) as f:
            return json.load(f)["packages"]["node_modules/" + package]["version"]
    except (OSError, ValueError, KeyError):
        return None


def apt(work, absent, packages):
    what = "missing programs: %s (Debian packages: %s)" % (" ".join(absent), " ".join(packages))
    if not shutil.which("apt-get"):
        return work.missing("%s; no apt-get here, install them with your package manager" % what)
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if root and (not shutil.which("sudo") or work.run(["sudo", "-n", "true"]) != 0):
        return work.missing("%s; neither root nor sudo without a password, so not installed" % what)
    archives = os.path.join(places.CACHE, "apt")
    os.makedirs(os.path.join(archives, "partial"), exist_ok=True)
    apt_get = root + ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", "-o", "Dir::Cache::archives=" + archives,
                      "-o", "APT::Sandbox::User=root", "-o", "APT::Keep-Downloaded-Packages=true"]
    work.run(apt_get + ["update"])
    work.run(apt_get + ["install", "--no-install-recommends"] + packages)
    # Services that a package starts are the system's, and stay.
    work.left.clear()
    still = [p for p in absent if not shutil.which(p)]
    if still:
        work.show_tail(8)
        return work.missing("still missing after apt-get install: %s" % " ".join(still))
    return Counts()


def codecast_root():
    return os.path.join(places.CACHE, "codecast-" + CODECAST)


def has_codecast(work):
    python = os.path.join(codecast_root(), "bin", "python")
    return os.access(python, os.X_OK) and work.run([python, "-c", "import head.daemon_client, head.ssh_manager"]) == 0


def codecast(work):
    if has_codecast(work):
        return Counts()
    pip = [os.path.join(codecast_root(), "bin", "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    # Of what it depends on, what its client and its manager import: no chat programs.
    work.run([sys.executable, "-m", "venv", "--clear", codecast_root()])
    work.run(pip + ["--no-deps", "codecast==" + CODECAST])
    work.run(pip + ["aiohttp", "asyncssh", "pyyaml", "ruamel.yaml"])
    return Counts() if has_codecast(work) else work.missing("codecast %s could not be installed from PyPI" % CODECAST)


def playwright_python():
    return os.path.join(places.CACHE, "playwright-" + PLAYWRIGHT, "bin", "python")


def schemathesis():
    return os.path.join(places.CACHE, "schemathesis-" + SCHEMATHESIS, "bin", "schemathesis")


def has_schemathesis(work):
    return os.access(schemathesis(), os.X_OK) and work.run([schemathesis(), "--version"]) == 0


def described(work):
    if not has_schemathesis(work):
        python = os.path.join(os.path.dirname(schemathesis()), "python")
        work.run([sys.executable, "-m", "venv", "--clear", os.path.dirname(os.path.dirname(schemathesis()))])
        work.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "schemathesis==" + SCHEMATHESIS])
    return Counts() if has_schemathesis(work) else work.missing("schemathesis %s could not be installed from PyPI" % SCHEMATHESIS)


def axe():
    return os.path.join(places.CACHE, AXE[0], "node_modules", AXE[1], "axe.min.js")


def has_playwright(work):
    return os.path.exists(axe()) and os.access(playwright_python(), os.X_OK) and work.run([playwright_python(), "-c", "import playwright.sync_api"]) == 0


def playwright(work):
    """The driver alone: the browser is Debian's."""
    if not has_playwright(work):
        work.run([sys.executable, "-m", "venv", "--clear", os.path.dirname(os.path.dirname(playwright_python()))])
        work.run([playwright_python(), "-m", "pip", "install", "-q", "--disable-pip-version-check", "playwright==" + PLAYWRIGHT])
        if shutil.which("npm"):
            npm_package(work, *AXE, os.environ["PATH"])
    return Counts() if has_playwright(work) else work.missing("playwright %s could not be installed from PyPI, or %s from npm" % (PLAYWRIGHT, AXE[1]))


@contextlib.contextmanager
def page_sources(work):
    """The sources of the page with exactly the packages of their lock file; nothing if npm cannot get those."""
    os.makedirs(places.CACHE, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=places.CACHE) as scratch:
        folder = os.path.join(scratch, "web")
        shutil.copytree(os.path.join(places.ROOT, "web"), folder, ignore=shutil.ignore_patterns("node_modules", "dist"))
        good = work.run(["npm", "ci", "--prefix", folder, "--no-audit", "--no-fund", "--loglevel=error"], env={"TMPDIR": scratch}) == 0
        yield folder if good else None


def sudo_proxy_root():
    return os.path.join(places.CACHE, "sudo-proxy")


def has_sudo_proxy(work):
    programs = [os.path.join(sudo_proxy_root(), "bin", name) for name in ("sudo-proxy", "sudo-request", "sudo-proxy-mcp")]
    return all(os.access(program, os.X_OK) for program in programs) and work.run([programs[0], "--version"]) == 0


def sudo_proxy(work):
    if has_sudo_proxy(work):
        return Counts()
    compiled(work, "sudo-proxy", SUDO_PROXY, sudo_proxy_root(), "--features", "mcp")
    return Counts() if has_sudo_proxy(work) else work.missing("sudo-proxy %s could not be installed from the crate registry" % SUDO_PROXY)


def zerocode_root():
    return os.path.join(places.CACHE, "zerocode-" + ZEROCODE)


def has_zerocode(work):
    program = os.path.join(zerocode_root(), "bin", "zerocode")
    return os.access(program, os.X_OK) and work.run([program, "--version"]) == 0


def zerocode(work):
    if has_zerocode(work):
        return Counts()
    # It waits for keys: a program that is compiled in half the time does as well.
    compiled(work, "zerocode", ZEROCODE, zerocode_root(), env=QUICKLY)
    return Counts() if has_zerocode(work) else work.missing("zerocode %s could not be installed from the crate registry" % ZEROCODE)


def cargo_deny():
    return os.path.join(places.CACHE, "cargo-deny", "bin", "cargo-deny")


def has_cargo_deny(work):
    return os.access(cargo_deny(), os.X_OK) and work.run([cargo_deny(), "--version"]) == 0


def compiled(work, name, version, root, *more, env=None):
    # Its own target folder: nothing of it belongs between our artefacts.
    target = os.path.join(places.CACHE, name + "-target")
    work.run(["cargo", "install", name, "--version", version, "--locked", *more, "--force", "--root", root, "--target-dir", target], env=env)
    shutil.rmtree(target, ignore_errors=True)
