"""An ordinary user of the system, made for one check: with a password, a sudo policy, and gone afterwards. Needs root."""
import os
import pwd
import subprocess

from lib import Fail, wait_for

# Others may be writing the system's files, which then are locked for a moment.
LOCKED = 60


class Account:
    def __init__(self, password, policy):
        self.name = "ostler-t%d" % (os.getpid() % 100000)
        self.file = "/etc/sudoers.d/" + self.name.replace("-", "_")
        self.tool("useradd", "--no-create-home", "--shell", "/bin/sh", self.name)
        try:
            self.tool("chpasswd", input=("%s:%s\n" % (self.name, password)).encode())
            self.policy(policy)
        except BaseException:
            self.remove()
            raise
        self.user = pwd.getpwnam(self.name)

    def tool(self, *argv, input=b""):
        said = []

        def done():
            r = subprocess.run(argv, input=input, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            said.append(r.stdout.decode(errors="replace"))
            return r.returncode == 0
        if not wait_for(done, LOCKED, 0.2):
            raise Fail("%s: %s" % (" ".join(argv), said[-1]))

    def policy(self, line):
        """sudo may read the folder at any moment: a file is there whole or not at all (names with a dot are not read)."""
        draft = self.file + ".new"
        with open(draft, "w") as f:
            f.write("%s %s\n" % (self.name, line))
        os.chmod(draft, 0o440)
        os.rename(draft, self.file)

    def remove(self):
        if os.path.exists(self.file):
            os.remove(self.file)
        for ticket in (self.name, str(getattr(getattr(self, "user", None), "pw_uid", ""))):
            if ticket and os.path.isfile("/run/sudo/ts/" + ticket):
                os.remove("/run/sudo/ts/" + ticket)
        self.tool("userdel", "-f", self.name)
