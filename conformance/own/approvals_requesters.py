"""Agents that run as another user than the one who holds sudo: they may ask, and nothing else."""
import os
import shutil
import tempfile
import types

from approvals_kit import LONG, House, approved
from lib import area, wait_for


def user(uid):
    return types.SimpleNamespace(pw_uid=uid)


@area("approvals-requesters")
def requesters(t):
    if os.geteuid() != 0:
        return t.skip("users", "needs root, to be somebody else")
    guest, stranger = user(61001), user(61002)
    folder = tempfile.mkdtemp(prefix="ostler-asks-")
    os.chmod(folder, 0o711)
    house = House(t)
    house.env["OSTLER_CONFIG"] = house.dir + "/config.toml"
    with open(house.env["OSTLER_CONFIG"], "w") as f:
        f.write('[approvals]\nrequesters = "%d"\nsocket = "%s/ask.sock"\n' % (guest.pw_uid, folder))
    house.up()
    try:
        t.eq("the-door-is-where-the-settings-say", house.door(), folder + "/ask.sock")
        house.user = guest
        asker = house.ask(["echo", "from-a-guest"])
        one = house.waiting()[0]
        t.eq("its-user-is-shown", one["asker"]["uid"], guest.pw_uid)
        approved(house, one["id"])
        t.eq("a-guest-asks-and-the-owner-decides", asker.answer().get("text"), "from-a-guest\n")
        answer = house.ask(["x"], action="stop").answer()
        t.ok("a-guest-may-not-stop-it", "only the user whose sudo-proxy this is" in answer.get("message", ""), answer)
        house.user = stranger
        try:
            house.ask(["true"])
            t.ok("nobody-else-gets-in", False, "connected")
        except PermissionError:
            t.ok("nobody-else-gets-in", True)
        house.user = guest
        os.unlink(folder + "/ask.sock")
        wait_for(lambda: os.path.exists(folder + "/ask.sock"), LONG)
        answer = house.ask(action="ping").answer()
        t.eq("a-door-that-was-swept-away-opens-for-guests-again", answer.get("status"), "ok")
    finally:
        house.user = None
        house.down()
        shutil.rmtree(folder)
