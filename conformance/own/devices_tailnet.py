"""`ostler pair` on a machine with tailscale. tailscale itself cannot be had where the tests run: a stand-in says what the real one says
with `status --json` and `serve status --json` (release 1.90), and stands where only root can put a program. Only the daemon sees it."""
import http.client
import json
import os
import shutil
import subprocess
import sys

from approvals_kit import LONG, Terminal
from devices_kit import Guests, port_of
from kit import Fail
from lib import area, wait_for

NAME = "box.tail1234.ts.net"
STATUS = {"Version": "1.90.8", "BackendState": "Running", "MagicDNSSuffix": "tail1234.ts.net", "CertDomains": [NAME],
          "Self": {"ID": "n1", "HostName": "box", "DNSName": NAME + ".", "TailscaleIPs": ["100.64.0.1"], "Online": True}, "Peer": None}
STAND_IN = """#!/bin/sh
echo "$*, in $OSTLER_PROCESS" >> {0}/calls
[ -e {0}/hangs ] && exec sleep 300
case "$*" in
"status --json") cat {0}/status.json;;
"serve status --json") cat {0}/serve.json;;
*) exit 64;;
esac
"""
HOSTED = """import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "device.tailnet", "params": {"allow": True}}).encode() + b"\\n")
print(s.recv(65536).decode())
"""


class Tailnet(Guests):
    """A home whose daemon finds a tailscale."""

    def up(self):
        self.bin = self.dir + "/sbin"
        os.mkdir(self.bin)
        with open(self.bin + "/tailscale", "w") as f:
            f.write(STAND_IN.format(self.dir))
        os.chmod(self.bin + "/tailscale", 0o755)
        self.tell("status", STATUS)
        self.tell("serve", {})
        inside = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /usr/local/sbin && exec "$@"', self.bin, self.program, "up"]
        started = subprocess.run(inside, env=self.env, cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LONG)
        if started.returncode:
            raise Fail("ostler up: %s" % started.stdout)
        return self

    def tell(self, what, value):
        with open(self.dir + "/%s.new" % what, "w") as f:
            json.dump(value, f)
        os.rename(self.dir + "/%s.new" % what, self.dir + "/%s.json" % what)

    def serve(self, port, **more):
        self.tell("serve", dict({"TCP": {"443": {"HTTPS": True}}, "Web": {NAME + ":443": {"Handlers": {"/": {"Proxy": "http://127.0.0.1:%d" % port}}}}}, **more))

    def through(self):
        """What somebody in the tailnet is answered: tailscale passes it on with these headers."""
        c = http.client.HTTPConnection("127.0.0.1", port_of(self), timeout=LONG)
        try:
            c.request("GET", "/", headers={"Host": NAME, "X-Forwarded-For": "100.64.0.2", "X-Forwarded-Host": NAME, "X-Forwarded-Proto": "https"})
            return c.getresponse().status
        finally:
            c.close()


@area("devices-tailnet")
def tailnet(t):
    if os.geteuid() != 0 or not shutil.which("unshare") or subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode:
        return t.skip("all", "needs root and unshare")
    house = Tailnet(t).up()
    try:
        port = port_of(house)
        command = b"tailscale serve --bg %d" % port
        t.eq("nobody-comes-by-that-name-at-first", house.through(), 403)
        said = house.good("run", "--", sys.executable, "-c", HOSTED, house.record()["native"])
        t.ok("nobody-hosted-opens-it", '"error"' in said and "runs in ostler" in said, said)
        term = Terminal(house, "pair", "--name", "phone")
        seen = term.until(command, LONG)
        t.ok("the-one-command-is-said", NAME.encode() in seen and b"the code" not in seen, seen)
        house.serve(port + 1)
        term.until(b"waiting for that", LONG)
        house.serve(port)
        seen = term.until(b"the code", LONG)
        t.ok("once-it-was-run-the-code-is-for-that-name", ("at https://" + NAME).encode() in term.until(b"waiting for the device", LONG), seen[-400:])
        t.ok("and-a-square-to-scan", "█".encode() in seen or b"Type the code" in seen, seen[-400:])
        t.eq("who-comes-by-that-name-is-let-in-to-show-who-it-is", house.through(), 200)
        term.type(b"q")
        term.wait()
        calls = open(house.dir + "/calls").read().splitlines()
        t.ok("it-is-run-as-every-helper-is-by-the-keeper", calls and all(", in " in c and not c.endswith(", in ") for c in calls), calls[:3])
        confirmed = [r["record"] for r in house.audit("setting_confirmed")]
        t.ok("a-person-allowed-it-and-the-record-says-who", len(confirmed) == 1 and confirmed[0]["value"] == "https://" + NAME and confirmed[0]["by"]["from"] == "terminal", confirmed)

        house.serve(port, AllowFunnel={NAME + ":443": True})
        term = Terminal(house, "pair")
        seen = term.until(b"waiting for the device", LONG)
        t.ok("what-is-open-to-everybody-is-said-and-nothing-is-asked-twice", b"whole internet" in seen and command not in seen, seen[-600:])
        term.type(b"q")
        term.wait()
        open(house.dir + "/hangs", "w").close()
        term = Terminal(house, "pair")
        seen = term.until(b"waiting for the device", LONG)
        t.ok("one-that-hangs-holds-nobody-up", b"no end in time" in seen, seen[-600:])
        term.type(b"q")
        term.wait()
        os.remove(house.dir + "/hangs")
        house.tell("status", dict(STATUS, BackendState="Stopped"))
        term = Terminal(house, "pair")
        seen = term.until(b"waiting for the device", LONG)
        t.ok("one-that-is-not-connected-is-said", b"tailscale is not connected (Stopped)" in seen, seen[-600:])
        term.type(b"q")
        term.wait()
        house.good("restart")
        t.ok("the-name-is-allowed-after-a-restart", wait_for(lambda: house.through() == 200, LONG, 0.2))
    finally:
        house.down()
