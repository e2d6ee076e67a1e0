"""A hosted process whose parents cannot be told: it stands below more of them than anybody walks up, or whoever connected for it is gone.
Not to know whom it descends from must never be the same as nobody."""
import json
import os
import shlex
import shutil

from approvals_kit import LONG, House, approved, request
from by_hosted_record import add_rule
from lib import area, wait_for

# `how place kill`: says hello to the keeper as a daemon would, below 520 parents (`deep`), over a connection whose maker has ended
# (`gone`), or plainly; first it kills the process `kill`, so that there is no daemon. Prints the last answer.
HELLO = r'''
import json, os, socket, sys, time
how, place, kill = sys.argv[1], sys.argv[2], int(sys.argv[3])
if "OSTLER_PROCESS" in os.environ:
    os.execve(sys.executable, [sys.executable] + sys.argv, {})
for _ in range(520 if how == "deep" else 0):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        os._exit(0)
hello = json.dumps({"id": 1, "verb": {"hello": {"protocol": 4, "oldest": 1, "pid": os.getpid(), "program": "x"}}}).encode()
def connected():
    if how != "gone":
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.connect(place)
        return s
    one, other = socket.socketpair()
    child = os.fork()
    if not child:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.connect(place)
        time.sleep(0.05)
        socket.send_fds(other, [b"x"], [s.fileno()])
        os._exit(0)
    s = socket.socket(fileno=socket.recv_fds(one, 1, 1)[1][0])
    os.waitpid(child, 0)
    return s
os.kill(kill, 9)
for _ in range(40):
    s = connected()
    s.settimeout(5)
    try:
        s.send(len(hello).to_bytes(4, "little") + hello)
        said = s.recv(1 << 17)
    except OSError as error:
        said = str(error).encode()
    if b'"hello"' in said:
        break
    time.sleep(0.005)
print("heard", said[4:300])
'''


@area("hosted")
def a_daemon_of_unknown_parents(t):
    """A hosted process that kills the daemon and greets the keeper in its place, to be told the key of the record."""
    house = House(t).up()
    script, python = house.dir + "/hello.py", shutil.which("python3")
    with open(script, "w") as f:
        f.write(HELLO)
    try:
        for how in ("deep", "gone", "plain"):
            daemon = house.record()["pid"]
            words = (python, script, how, house.state + "/instances/main/keeper.sock", str(daemon))
            # The daemon that could tell what it said is killed: into a file.
            said = house.dir + "/said-" + how
            house("run", "-d", "--", "sh", "-c", " ".join(map(shlex.quote, words)) + " > %s.new 2>&1; mv %s.new %s" % (said, said, said))
            heard = lambda: open(said).read() if os.path.exists(said) else ""
            wait_for(heard, LONG, 0.1)
            t.stopped("a-daemon-of-unknown-parents-%s" % how, "heard" in heard() and "entrusted" not in heard() and '"hello"' not in heard(), heard())
            wait_for(lambda: house("ps")[0] == 0 and house.record()["pid"] != daemon, LONG, 0.2)
        t.control("the-keepers-own-daemon-is-let-in", house.good("run", "--", "echo", "served") == "served\n")
    finally:
        house.down()


# `place request how`: a child connects, and ends (`gone`) or stays; then the request is sent. Or the same below 520 parents.
ASKER = r'''
import os, socket, sys
place, request, how = sys.argv[1:]
for _ in range(520 if how == "deep" else 0):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        os._exit(0)
one, other = socket.socketpair()
child = os.fork()
if not child:
    s = socket.socket(socket.AF_UNIX)
    s.connect(place)
    socket.send_fds(other, [b"x"], [s.fileno()])
    if how != "gone":
        other.recv(1)
    os._exit(0)
s = socket.socket(fileno=socket.recv_fds(one, 1, 1)[1][0])
if how == "gone":
    os.waitpid(child, 0)
    child = 0
s.sendall(request.encode() + b"\n")
s.settimeout(5)
try:
    print("answer", s.recv(65536))
except TimeoutError:
    print("asked")
if child:
    os.kill(child, 9)
'''


@area("hosted")
def an_asker_of_unknown_parents(t):
    """A hosted process that asks as if it were a program of yours, for which there is a rule."""
    house = House(t).up()
    script, python = house.dir + "/asker.py", shutil.which("python3")
    with open(script, "w") as f:
        f.write(ASKER)
    try:
        rule = add_rule(house, "--session", "my-editor", "--", "echo", "ruled")
        t.control("a-rule-for-a-session-of-yours", house.ask(["echo", "ruled"], session="my-editor").answer().get("text") == "ruled\n", rule)
        for how in ("gone", "deep", "stays"):
            asked = request([["echo", "ruled"]], session="my-editor")
            words = (python, script, house.door(), json.dumps(asked), how)
            said = house("run", "--", *words, timeout=LONG * 2)[1]
            t.stopped("an-asker-of-unknown-parents-%s" % how, "asked" in said, said)
        asker = house.ask(["echo", "by-a-person"])
        one = next(one for one in house.waiting() if "by-a-person" in one["title"])
        seen, code = approved(house, one["id"])
        t.control("a-person-still-decides", code == 0 and asker.answer().get("text") == "by-a-person\n", seen)
    finally:
        house.down()
