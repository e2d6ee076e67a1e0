"""A phone's day, with a clock that the test moves: networks that change in mid-word, tokens that run out meanwhile, a night's sleep, and
being put out in the middle of it. What the agent said that day is heard once, and all of it."""
import glob
import json
import os
import subprocess

from approvals_kit import LONG
from cdev_work import Desk, Phone, key
from lib import Fail, area, wait_for

MINUTE, HOUR = 60, 3600
CHANGES = 50


class Day(Desk):
    """A server whose clock stands where the test puts it; time itself runs on as ever."""

    def start(self):
        found = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
        if not found:
            raise Fail("faketime is not installed; run ./test install")
        self.clock = self.dir + "/clock"
        if not os.path.exists(self.clock):
            self.ahead = 0
            self.move(0)
        # The agent has the machine's own clock.
        self.more["CDEV_CLAUDE_COMMAND"] = self.fakes + "/claude-now"
        with open(self.fakes + "/claude-now", "w") as f:
            f.write('#!/bin/sh\nunset LD_PRELOAD\nexec %s "$@"\n' % self.claude)
        os.chmod(self.fakes + "/claude-now", 0o755)
        self.more.update(LD_PRELOAD=found[0], FAKETIME_TIMESTAMP_FILE=self.clock, FAKETIME_NO_CACHE="1", FAKETIME_DONT_FAKE_MONOTONIC="1", NO_FAKE_STAT="1")
        return super().start()

    def move(self, seconds):
        """Later, all at once."""
        self.ahead += seconds
        with open(self.clock + ".new", "w") as f:
            f.write("+%d\n" % self.ahead)
        os.rename(self.clock + ".new", self.clock)

    def comes_back(self, after):
        """As a phone does: with what it has, then with a new token. Says whether it needed one."""
        status = self.port("GET", "/api/status", token=self.access).status
        if status == 401:
            self.renewed()
        return Phone(self, after), status == 401


def ticks(events):
    lines = [e["line"] for e in events if e["event"] == "claude_log" and '"tick ' in e["line"]]
    return [int(json.loads(line)["message"]["content"][0]["text"].split()[1]) for line in lines]


@area("cdev-a-phones-day")
def day(t):
    desk = Day(t)
    try:
        said = subprocess.run(["date", "+%s"], env=dict(desk.env, **desk.more), capture_output=True, text=True).stdout
        desk.move(10)
        later = subprocess.run(["date", "+%s"], env=dict(desk.env, **desk.more), capture_output=True, text=True).stdout
        t.ok("control-the-clock-moves", int(later) - int(said) >= 9, (said, later))
        phone = desk.phone()
        phone.ok("agent/run", {"prompt": "CONF:slow"})
        phone.until("claude_log", lambda e: '"tick 1"' in e["line"])
        heard, renewals, gaps = list(phone.told()), 0, []
        for change in range(CHANGES):
            # No goodbye: the network is another one.
            phone.close()
            desk.move(5 * MINUTE)
            if change == CHANGES // 2:
                t.eq("put-out-in-the-middle", desk.port("POST", "/api/auth/revoke", {"refresh_token": desk.device["refresh_token"]}).status, 200)
                t.eq("neither-token-is-good-then", [desk.port("GET", "/api/status", token=desk.access).status,
                                                    desk.port("POST", "/api/auth/refresh", {"refresh_token": desk.device["refresh_token"]}).status], [401, 401])
                desk.device = desk.port.paired()
                desk.access = desk.device["access_token"]
            phone, renewed = desk.comes_back(heard[-1]["position"])
            renewals += renewed
            gaps += [phone.gap] if phone.gap else []
            phone.ok("status/get")
            if change % 5 == 0:
                phone.until("claude_log", lambda e: '"tick ' in e["line"])
            heard += phone.told()
        t.ok("tokens-ran-out-on-the-way", CHANGES // 4 <= renewals < CHANGES, renewals)
        phone.close()
        desk.move(8 * HOUR)
        phone, renewed = desk.comes_back(heard[-1]["position"])
        t.eq("after-a-nights-sleep-it-renews-and-goes-on", (renewed, phone.gap), (True, None))
        phone.ok("agent/stop")
        phone.until("claude_status", lambda e: e["state"] == "stopped")
        heard += phone.told()
        t.eq("nothing-is-missed-and-nothing-comes-twice", (ticks(heard), len({key(e) for e in heard})), (list(range(len(ticks(heard)))), len(heard)))
        t.eq("and-no-gap-is-told", gaps, [])
        open_socket = desk.phone()
        desk.move(8 * 24 * HOUR)
        t.eq("a-phone-that-slept-for-a-week-pairs-anew", [desk.port("GET", "/api/status", token=desk.access).status,
                                                         desk.port("POST", "/api/auth/refresh", {"refresh_token": desk.device["refresh_token"]}).status], [401, 401])
        open_socket.close()
        t.ok("and-is-served-then", wait_for(lambda: desk.port("GET", "/api/status", token=desk.port.paired()["access_token"]).status == 200, LONG, 0.5))
    finally:
        desk.down()
