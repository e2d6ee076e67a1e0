"""Where everything is: sources, logs, programs, the cache of what is installed, and the folders of a run."""
import os
import shutil
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOGS = os.path.join(ROOT, "target", "test-logs")
TARGET = os.path.join(os.path.abspath(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))), "release")
# The names that ostler stands in for.
LINKS = os.path.join(ROOT, "target", "test-links")
OSTLER = os.path.join(TARGET, "ostler")
BENCH = os.path.join(TARGET, "bench")
CACHE = os.path.abspath(os.path.expanduser(os.environ.get("OSTLER_TEST_CACHE", "~/.cache/ostler-test")))
CI = os.environ.get("CI") == "true"

# sbin is not on every user's PATH, but sshd and mkfs.ext4 live there.
os.environ["PATH"] += ":/usr/local/sbin:/usr/sbin:/sbin"


def log_path(name):
    return os.path.join(LOGS, name + ".log")


def log_text(name):
    try:
        with open(log_path(name), errors="replace") as f:
            return f.read()
    except FileNotFoundError:
        return ""


class Lane:
    """A machine of its own, as far as folders and ports go."""

    def __init__(self, base, number):
        self.number = number
        self.folder = os.path.join(base, "ab"[number])
        self.home, self.tmp, self.runtime = (os.path.join(self.folder, name) for name in ("home", "t", "run"))
        # Tests act as other users too, who need a way in and a place for temporary files.
        for path, mode in ((self.folder, 0o755), (self.home, 0o755), (self.tmp, 0o1777), (self.runtime, 0o700)):
            os.mkdir(path)
            os.chmod(path, mode)
        self.env = dict(os.environ, HOME=self.home, TMPDIR=self.tmp, XDG_RUNTIME_DIR=self.runtime, OSTLER_TEST_CACHE=CACHE,
                        TEST_PORTS="%d-%d" % (20000 + 5000 * number, 24999 + 5000 * number), PYTHONDONTWRITEBYTECODE="1")
        for name, folder in (("CARGO_HOME", "~/.cargo"), ("RUSTUP_HOME", "~/.rustup")):
            self.env.setdefault(name, os.path.expanduser(folder))
        # For what works with the user's own settings and caches: cargo, npm.
        self.users_env = dict(os.environ, TMPDIR=self.tmp)


class Place:
    """The folders of one run, gone at its end."""

    def __enter__(self):
        # A short name: paths of sockets have at most 107 bytes.
        self.base = os.path.realpath(tempfile.mkdtemp(prefix="o"))
        os.chmod(self.base, 0o755)
        return [Lane(self.base, number) for number in (0, 1)]

    def __exit__(self, *_):
        shutil.rmtree(self.base, ignore_errors=True)
