"""Another user of the machine: at every socket and file, as a guest who may only ask, and in the place where our clients look."""
import base64
import datetime
import json
import os
import stat
import subprocess
import uuid

from approvals_kit import LONG, House, approved
from lib import area, wait_for

# Connects, says a line, prints the answer.
KNOCK = r'''
import socket, sys
kind, place, line = sys.argv[1:4]
s = socket.socket(socket.AF_INET if kind == "tcp" else socket.AF_UNIX, socket.SOCK_SEQPACKET if kind == "packet" else socket.SOCK_STREAM)
s.settimeout(10)
try:
    if kind == "tcp":
        host, port = place.rsplit(":", 1)
        s.connect((host, int(port)))
    else:
        s.connect(place)
    s.sendall(line.encode().decode("unicode_escape").encode())
    s.settimeout(float(sys.argv[4]) if len(sys.argv) > 4 else 10)
    print("heard", s.recv(65536))
except OSError as error:
    print("refused", error)
'''
# Listens in the place of a daemon, for one client; goes on after its starter has its answer.
IMPOSTOR = r'''
import json, os, socket, sys
place, owner = sys.argv[1], sys.argv[2]
s = socket.socket(socket.AF_UNIX)
s.bind(place)
os.chmod(place, 0o777)
s.listen(4)
print("there", flush=True)
if os.fork():
    os._exit(0)
for fd in (0, 1, 2):
    os.close(fd)
s.settimeout(30)
try:
    peer, _ = s.accept()
    asked = json.loads(peer.makefile().readline())
    peer.sendall(json.dumps({"id": asked["id"], "status": "ok", "stdout": "aGk=", "stages": [{"exit_code": 0, "stderr": ""}]}).encode() + b"\n")
except (OSError, ValueError):
    pass
os.unlink(place)
'''
HTTP = "POST /rpc HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: application/json\\r\\nContent-Length: 25\\r\\nConnection: close\\r\\n\\r\\n{\"method\":\"health.check\"}"


def knock(who, kind, place, line, wait="10"):
    return who("python3", "-c", KNOCK, kind, place, line, wait)


def me(*argv):
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LONG)
    return {"code": p.returncode, "out": p.stdout, "err": p.stderr}


@area("another-user")
def sockets_and_files(t):
    """Every socket and every file of a home that others can enter."""
    if not t.outside:
        return t.skip("all", "needs root, to be somebody else")
    house = House(t)
    os.chmod(house.dir, 0o755)
    for folder in (".local", ".local/state"):
        os.mkdir(house.dir + "/" + folder, 0o755)
    house.up()
    try:
        house.good("run", "--", "echo", "said-in-private")
        doors = {d["name"]: d["address"] for d in house.record()["doors"]}
        ping = '{"jsonrpc":"2.0","id":1,"method":"server.ping","params":{}}\\n'
        places = [("native", "unix", house.record()["native"], ping), ("keeper", "packet", house.state + "/instances/main/keeper.sock", "x")]
        for name, address in doors.items():
            kind = "unix" if address.startswith("/") else "tcp"
            places.append((name, kind, address.split("://")[-1], ping if kind == "unix" else HTTP))
        for name, kind, place, line in places:
            said = knock(t.outside.stranger, kind, place, line)["out"]
            t.stopped("socket-of-%s" % name, "heard" not in said or "heard b''" in said, said)
            if name in ("native", "codecast", "claustrum"):
                said = knock(me, kind, place, line)["out"]
                t.control("our-own-user-at-%s" % name, "heard b'" in said and "heard b''" not in said, said)
        read = t.outside.stranger("sh", "-c", "ls -R %s; cat %s/instances/main/*; grep -r said-in-private %s" % ((house.state,) * 3))
        t.stopped("reading-the-state", "said-in-private" not in read["out"] and "inbox" not in read["out"], read)
        loose = {}
        for folder, folders, files in os.walk(house.state):
            for path in [folder] + [os.path.join(folder, f) for f in files]:
                mode = stat.S_IMODE(os.lstat(path).st_mode)
                if mode & 0o077:
                    loose[os.path.relpath(path, house.state)] = oct(mode)
        t.stopped("a-file-with-a-wider-mode", loose == {}, loose)
        mine = subprocess.run(["grep", "-r", "said-in-private", house.state], stdout=subprocess.PIPE).stdout
        t.control("our-own-user-reads-it", b"said-in-private" in mine or b"match" in mine, mine)
    finally:
        house.down()


@area("another-user")
def guest(t):
    """A user that `approvals.requesters` names may ask, and neither decide nor stop; one that it does not name gets nowhere."""
    if not t.outside:
        return t.skip("guest", "needs root, to be somebody else")
    guest = t.outside.facts["stranger"]
    house = House(t)
    folder = t.tmp()
    os.chmod(folder, 0o711)
    place = folder + "/ask.sock"
    house.env["OSTLER_CONFIG"] = house.dir + "/config.toml"

    def allow(uid):
        with open(house.env["OSTLER_CONFIG"], "w") as f:
            f.write('[approvals]\nrequesters = "%d"\nsocket = "%s"\n' % (uid, place))
    allow(guest)
    house.up()
    try:
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        def request(**more):
            return json.dumps({"id": str(uuid.uuid4()), "host": "h", "session": "s", "reason": "a test", "env": {}, "time": now,
                               "pipeline": [["echo", "from-a-guest"]], "privileged": False, "forward_agent": False, **more})
        t.ok("the-door-is-where-the-settings-say", house.door() == place, house.door())
        script = ("import socket,sys,threading; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(sys.argv[2].encode()+b'\\n'); "
                  "import os; os.fork() and os._exit(0); open(sys.argv[3],'w').write(s.makefile().readline())")
        note = "/tmp/guest-%d" % os.getpid()
        t.outside.stranger("sh", "-c", 'exec python3 -c "$0" "$@" >/dev/null 2>&1 </dev/null', script, place, request(), note)
        one = house.waiting()[0]
        t.control("its-user-is-shown", one["asker"]["uid"] == guest, one["asker"])
        said = knock(t.outside.stranger, "unix", house.record()["native"], "x\\n")["out"]
        t.stopped("a-guest-decides", "refused" in said, said)
        said = knock(t.outside.stranger, "unix", place, request(action="stop") + "\\n")["out"]
        t.stopped("a-guest-stops-it", "only the user whose sudo-proxy this is" in said, said)
        approved(house, one["id"])
        heard = lambda: t.outside.stranger("cat", note)["out"]
        wait_for(lambda: "status" in heard(), LONG, 0.2)
        t.control("a-guest-asks-and-the-owner-decides", base64.b64encode(b"from-a-guest\n").decode() in heard(), heard())
        t.outside.stranger("rm", note)
        os.unlink(place)
        wait_for(lambda: os.path.exists(place), LONG)
        said = knock(t.outside.stranger, "unix", place, request(action="ping") + "\\n")["out"]
        t.control("a-door-that-was-swept-away-opens-for-guests-again", '"ok"' in said, said)
        allow(guest + 1)
        house.good("restart")
        said = knock(t.outside.stranger, "unix", place, request(action="ping") + "\\n")["out"]
        t.stopped("somebody-who-is-not-named", "refused" in said or "heard b''" in said, said)
    finally:
        house.down()


@area("another-user")
def impostor(t):
    """Another user's socket where sudo-request looks, and a runtime folder of theirs."""
    if not t.outside:
        return t.skip("impostor", "needs root, to be somebody else")
    house = House(t)
    shared = t.tmp()
    os.chmod(shared, 0o1777)
    theirs = "/tmp/theirs-%d" % os.getpid()
    t.outside.stranger("mkdir", theirs)
    t.outside.stranger("chmod", "711", theirs)
    try:
        for case, folder, asked in [("somebody-elses-socket", shared, False), ("in-their-own-folder-it-is-theirs", theirs, True)]:
            place = folder + "/s"
            t.outside.stranger("python3", "-c", IMPOSTOR, place, "")
            rc, o, e = house("as", "sudo-request", "--socket", place, "--", "true")
            if asked:
                t.control(case, (rc, o) == (0, "hi"), (rc, o, e))
            else:
                t.stopped(case, rc == 1 and o == "" and "belongs to user" in e, (rc, o, e))
        run = "/tmp/runtime-%d" % os.getpid()
        t.outside.stranger("mkdir", "-m", "777", run)
        house.env["XDG_RUNTIME_DIR"] = run
        rc, o, e = house("up")
        made = t.outside.stranger("find", run)["out"].split()
        t.stopped("a-runtime-folder-of-theirs", len(made) == 1, (rc, o, e, made))
        del house.env["XDG_RUNTIME_DIR"]
        t.outside.root("rm", "-rf", run)
        t.control("without-it-it-starts", house("up")[0] == 0)
    finally:
        house.down()
        t.outside.stranger("rm", "-rf", theirs)
