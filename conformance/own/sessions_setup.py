"""`.ostler.toml`: a new work tree is made ready as the repository says, once a person has said yes to exactly that file."""
import os

from cli import Terminal
from lib import area, wait_for
from sessions_finish import Trees
from sessions_kit import LONG, Wire

FILE = """[worktree]
setup = "echo setting up; cat .env; echo $OSTLER_PORT > port; exit 0"
run = "echo runs on $OSTLER_PORT to $OSTLER_PORT_LAST"
copy = [".env", "missing", "out"]
ports = 10
"""


@area("sessions-setup")
def setup(t):
    class Ready(Trees):
        def prepare(self):
            super().prepare()
            self.says(FILE)
            self.write(self.repo + "/.env", "KEY=secret\n", 0o600)
            self.write(self.dir + "/outside", "outside\n")
            os.symlink("../outside", self.repo + "/out")
            self.write(self.repo + "/.git/info/exclude", ".env\nout\nport\n")

        def says(self, text):
            self.write(self.repo + "/.ostler.toml", text)
            self.git("add", ".ostler.toml")
            self.git("commit", "-qm", "setup")

    house = Ready(t)
    try:
        first = house.json("new", "echo", house.repo, "--name", "first", "--worktree")
        t.ok("nothing-is-done-before-somebody-says-yes", not os.path.exists(first["worktree"] + "/.env") and not house.json("ps", "-a"), house.json("ps", "-a"))
        rc, o, e = house("new", "echo", house.repo, "--name", "second", "--worktree")
        t.ok("and-that-is-said", rc == 0 and ".ostler.toml of this repository was not followed" in e and "ostler set second --setup" in e, (rc, o, e))
        wire = Wire(house.socket())
        seen = wire.call("session.setup", id="first")["result"]
        t.eq("what-it-says-is-told", (seen["file"]["trusted"], seen["file"]["text"], seen["file"]["ports"]), (False, FILE, 10))
        hash = seen["file"]["hash"]
        script = "import socket; s=socket.socket(socket.AF_UNIX); s.connect(%r); s.sendall(b'{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session.setup\",\"params\":{\"id\":\"first\",\"trust\":\"%s\"}}\\n'); print(s.makefile().readline())" % (house.socket(), hash)
        t.has("nobody-hosted-says-yes", house("run", "--", "python3", "-c", script)[1], "refused")
        # At once: who is quicker than the note of its own start is waited for.
        rc, o, e = house("run", "--", house.program, "new", "echo", house.repo, "--worktree")
        t.ok("who-is-hosted-gets-a-tree-and-nothing-of-it-runs", rc == 0 and "was not followed" in e, (rc, o, e))
        t.eq("so-nothing-counts", wire.call("session.setup", id="first")["result"]["file"]["trusted"], False)
        other = wire.call("session.setup", id="first", trust=hash)
        t.ok("nor-does-a-program-without-a-terminal", "has no terminal" in str(other.get("error")), other)
        screen = Terminal(house, "set", "first", "--setup")
        screen.until(b"[y/N]? ")
        t.ok("a-person-reads-it-first", b'setup = "echo setting up' in screen.seen, screen.seen)
        screen.type(b"y\r")
        t.ok("and-watches-the-setup", screen.wait() == 0 and b"setting up" in screen.seen and b"KEY=secret" in screen.seen, screen.seen)
        tree = first["worktree"]
        t.eq("ignored-files-are-copied", (open(tree + "/.env").read(), os.stat(tree + "/.env").st_mode & 0o777), ("KEY=secret\n", 0o600))
        done = wire.call("session.setup", id="first")["result"]
        t.ok("what-was-not-is-said", done["copied"] == [".env"] and len(done["not_copied"]) == 2 and not os.path.exists(tree + "/out"), done)
        t.eq("with-ports-of-its-own", (done["port_last"] - done["port"], open(tree + "/port").read()), (9, "%d\n" % done["port"]))
        screen = Terminal(house, "set", "second", "--setup")
        t.ok("a-yes-holds-for-every-tree-of-the-repository", screen.wait() == 0 and b"KEY=secret" in screen.seen, screen.seen)
        third = house.json("new", "echo", house.repo, "--name", "third", "--worktree")
        t.ok("from-then-on-by-itself", wait_for(lambda: os.path.exists(third["worktree"] + "/port"), LONG, 0.1))
        ports = wire.call("session.setup", id="third")["result"]
        t.ok("with-other-ports", ports["port"] > done["port_last"] or ports["port_last"] < done["port"], (done, ports))
        t.has("what-is-worked-on-is-run", house.good("run", "--of", "third"), "runs on %d to %d" % (ports["port"], ports["port_last"]))
        house.good("up")
        agent = house.json("new", "acp", house.repo, "--name", "agent", "--worktree", "--", "sh", "-c", "echo $OSTLER_PORT > agent-port; cat")
        house("send", "agent", "go", "--no-wait")
        t.ok("its-agent-knows-them", wait_for(lambda: os.path.exists(agent["worktree"] + "/agent-port") and open(agent["worktree"] + "/agent-port").read().strip().isdigit(), LONG, 0.1))
        house.says(FILE.replace("exit 0", "exit 3"))
        fourth = house.json("new", "echo", house.repo, "--name", "fourth", "--worktree")
        t.eq("a-changed-file-asks-again", (wire.call("session.setup", id="fourth")["result"]["file"]["trusted"], os.path.exists(fourth["worktree"] + "/port")), (False, False))
        screen = Terminal(house, "set", "fourth", "--setup")
        screen.until(b"[y/N]? ")
        screen.type(b"\r")
        t.eq("no-is-the-default", (screen.wait(), wire.call("session.setup", id="fourth")["result"]["file"]["trusted"]), (0, False))
        screen = Terminal(house, "set", "fourth", "--setup")
        screen.until(b"[y/N]? ")
        screen.type(b"y\r")
        t.ok("a-setup-that-fails-is-told", screen.wait() == 1 and b"the setup of fourth exited with code 3" in screen.seen, screen.seen)
        t.has("where-one-looks", house.good("sessions"), "fourth: its setup failed: ostler logs p")
        t.has("and-on-record", house.good("audit"), ".ostler.toml of ")
        house("new", "echo", house.repo, "--name", "late", "--worktree")
        late = next(s for s in house.json("sessions") if s["name"] == "late")
        house.write(late["worktree"] + "/.ostler.toml", FILE + "# other\n")
        screen = Terminal(house, "set", "late", "--setup")
        screen.until(b"[y/N]? ")
        house.write(late["worktree"] + "/.ostler.toml", FILE.replace("echo setting up", "touch trapped"))
        screen.type(b"y\r")
        t.ok("a-yes-is-to-what-was-read", screen.wait() == 5 and b"is not what was read" in screen.seen and not os.path.exists(late["worktree"] + "/trapped"), screen.seen)
        house.says("[worktree]\nsetpu = 'x'\n")
        rc, o, e = house("new", "echo", house.repo, "--name", "fifth", "--worktree")
        t.ok("a-slip-is-told-at-once", rc == 5 and "unknown field `setpu`" in e, (rc, o, e))
    finally:
        house.down()
