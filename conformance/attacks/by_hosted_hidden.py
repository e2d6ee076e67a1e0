"""A hosted process whose connection no program shows: its end is under way between two sockets of its own, or closed, while it is looked for."""
import json
import os
import shlex
import shutil
import signal

from approvals_kit import LONG, run_hosted
from cdev_kit import Cdev, Port, Socket
from devices_kit import Guests, paired
from lib import area, wait_for
from web import confirmed, own_address, settings

# `address port method path token body how`: says it at the port, and prints what is answered. With `way` what was said leaves 0.2 s
# after the connection is under way to itself, and nobody's; with `gone` after its end was closed.
SAYS = r'''
import socket, sys, time
address, port, method, path, token, body, how = sys.argv[1:]
s = socket.create_connection((address, int(port)), 20)
if how != "plain":
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
head = ["%s %s HTTP/1.1" % (method, path), "Host: %s:%s" % (address, port), "Connection: close"]
if token:
    head.append("Authorization: Bearer " + token)
if body:
    head += ["Content-Type: application/json", "Content-Length: %d" % len(body)]
s.sendall(("\r\n".join(head) + "\r\n\r\n" + body).encode())
if how == "gone":
    s.close()
    time.sleep(2)
    sys.exit()
if how == "way":
    one, other = socket.socketpair()
    socket.send_fds(one, [b"x"], [s.fileno()])
    s.close()
    time.sleep(2)
    s = socket.socket(fileno=socket.recv_fds(other, 1, 1)[1][0])
said = b""
while piece := s.recv(65536):
    said += piece
print(said.decode(errors="replace"))
'''


def says(house, port, method, path, token="", body="", how="way", address="127.0.0.1"):
    file = house.dir + "/says.py"
    if not os.path.exists(file):
        with open(file, "w") as f:
            f.write(SAYS)
    words = (shutil.which("python3"), file, address, port, method, path, token, body, how)
    return " ".join(shlex.quote(str(word)) for word in words)


def door(house):
    """The port of cdev clients of `ostler up`."""
    return int(next(d["address"] for d in house.record()["doors"] if d["name"] == "cdev").rsplit(":", 1)[1])


def yes(one):
    return json.dumps({"tool_use_id": "apr_" + one["id"], "response": "approved"})


def asked(house, words):
    house.ask(["echo", words])
    return next(one for one in house.waiting() if words in one["title"])


@area("hosted-at-port")
def shown_by_nobody(t):
    """It pairs itself and decides over a connection that is under way between two sockets of its own."""
    house = Guests(t).up()
    cdev = Cdev.joining(house)
    try:
        said = run_hosted(house, [], says(house, cdev.port.port, "GET", "/api/pair/info"))
        t.stopped("pairs-while-its-connection-is-under-way", " 403 " in said and "cdev_p_" not in said, said)
        t.control("a-program-of-yours-pairs", cdev.port.exchange().status == 200)
        token = paired(house, "phone")["tokens"]["access"]
        one = asked(house, "under-way")
        said = run_hosted(house, [], says(house, door(house), "POST", "/api/claude/respond", token, yes(one)))
        t.stopped("decides-while-its-connection-is-under-way", house.state_of(one["id"]) == "pending", (said, house.state_of(one["id"])))
        Port(door(house))("POST", "/api/claude/respond", json.loads(yes(one)), token=token)
        t.control("the-device-itself-answers", wait_for(lambda: house.state_of(one["id"]) == "applied", LONG, 0.1), house.state_of(one["id"]))
    finally:
        cdev.stop()
        house.down()


@area("hosted-at-port")
def gone_from_an_address(t):
    """It decides from an address of this machine that others have, and is gone when it is looked for."""
    address = own_address()
    if not address:
        return t.skip("decides-and-is-gone", "this machine has no address but the loopback")
    house = Guests(t)
    settings(house, '[web]\nbind = "0.0.0.0"\ninsecure_lan = true\n')
    house.up()
    try:
        confirmed(house, "web.bind", "web.insecure_lan")
        token = paired(house, "phone")["tokens"]["access"]
        one = asked(house, "gone")
        for how in ("plain", "gone"):
            said = run_hosted(house, [], says(house, door(house), "POST", "/api/claude/respond", token, yes(one), how, address))
            t.stopped("decides-and-is-%s" % {"plain": "there"}.get(how, how), house.state_of(one["id"]) == "pending", (said, house.state_of(one["id"])))
    finally:
        house.down()


@area("hosted-at-port")
def a_device_while_nobody_decides(t):
    """With the keeper dead nobody is told from who was hosted: no device answers at any door."""
    house = Guests(t).up()
    phone = None
    try:
        house.good("run", "-d", "--", "sleep", "600")
        phone = Socket(door(house), paired(house, "phone")["tokens"]["access"])
        answer = lambda one: phone.call("permission/respond", {"tool_use_id": "apr_" + one["id"], "decision": "allow"})
        one = asked(house, "before")
        t.control("it-answers-before", "result" in answer(one), one)
        wait_for(lambda: not house.pending(), LONG, 0.1)
        one = asked(house, "after")
        keeper = house.json("status")[0]["keeper_pid"]
        os.kill(keeper, signal.SIGKILL)
        wait_for(lambda: house.json("status")[0]["keeper_pid"] not in (None, keeper), LONG, 0.1)
        said = answer(one)
        t.stopped("a-device-answers-while-nobody-decides", "error" in said and house.state_of(one["id"]) == "pending", said)
    finally:
        if phone:
            phone.close()
        house.down()


# An agent that calls its request what it is told, and asks for nothing but to read a file.
CALLED = r'''
import json, os, sys
say = lambda **message: print(json.dumps(dict(message, jsonrpc="2.0")), flush=True)
for line in sys.stdin:
    m = json.loads(line)
    method, id, params = m.get("method"), m.get("id"), m.get("params") or {}
    if method == "initialize":
        say(id=id, result={"protocolVersion": 1, "agentCapabilities": {}})
    elif method == "session/new":
        say(id=id, result={"sessionId": "c%d" % os.getpid()})
    elif method == "session/prompt":
        call = {"toolCallId": params["prompt"][0]["text"], "title": "Read README", "kind": "read", "rawInput": {"path": "README"}}
        say(id=77, method="session/request_permission", params={"sessionId": params["sessionId"], "toolCall": call, "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]})
        while json.loads(sys.stdin.readline()).get("id") != 77:
            pass
        say(id=id, result={"stopReason": "end_turn"})
    elif id is not None:
        say(id=id, error={"code": -32601, "message": "Method not found"})
'''


@area("hosted-at-port")
def called_as_another(t):
    """An agent calls its harmless request what a waiting command is called: a yes to it on a phone runs no command."""
    house = Guests(t).up()
    phone = None
    try:
        script = house.dir + "/called.py"
        with open(script, "w") as f:
            f.write(CALLED)
        phone = Socket(door(house), paired(house, "phone")["tokens"]["access"])
        command = asked(house, "harmful")
        for number, id in enumerate(("apr_" + command["id"], command["id"])):
            name = "a%d" % number
            house.good("new", "--name", name, "acp", house.dir, "--", shutil.which("python3"), script)
            house.good("send", "--no-wait", name, id)
            session = lambda: next(s for s in house.json("sessions") if s["name"] == name)
            pending = lambda: [r for r in phone.call("permission/pending")["result"]["requests"] if r["description"].endswith("Read README") or "README" in str(r["tool_input"])]
            wait_for(pending, LONG, 0.1)
            said = phone.call("permission/respond", {"tool_use_id": pending()[0]["tool_use_id"], "decision": "allow"})
            t.stopped("calls-its-request-as-a-command-%d" % number, house.state_of(command["id"]) == "pending", (said, house.state_of(command["id"])))
            t.control("a-yes-means-its-own-%d" % number, "result" in said and wait_for(lambda: session()["status"] == "idle", LONG, 0.1), (said, session()))
        for name in ("a0", "a1"):
            house.good("send", "--no-wait", name, "the-same")
        wait_for(lambda: len(pending()) == 2, LONG, 0.1)
        said = phone.call("agent/respond", {"tool_use_id": "the-same", "response": "approved"})
        t.stopped("calls-its-request-as-anothers", "error" in said and len(pending()) == 2, said)
        said = phone.call("agent/respond", {"tool_use_id": "the-same", "response": "approved", "session_id": pending()[0]["session_id"]})
        t.control("a-yes-that-names-its-session", "result" in said and wait_for(lambda: len(pending()) == 1, LONG, 0.1), said)
    finally:
        if phone:
            phone.close()
        house.down()
