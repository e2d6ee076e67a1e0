"""An instance of ostler that hosts a real agent, and what a client sees of it through the native door."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import clis

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import at_terminal
# Some agents take half a minute to start on a busy machine; a turn may hold several such starts.
LONG = 180


class Fail(Exception):
    pass


def wait_for(what, test, timeout=LONG, step=0.05):
    """What `test` gives once it is true; everything else is an error that names what was waited for."""
    stop = time.monotonic() + timeout
    while True:
        found = test()
        if found:
            return found
        if time.monotonic() > stop:
            raise Fail("no %s within %d s" % (what, timeout))
        time.sleep(step)


def alive(pid):
    """Whether any thread of it is: the first may be over while another still holds its files."""
    def over(task):
        try:
            with open("/proc/%d/task/%s/stat" % (pid, task)) as f:
                return f.read().rsplit(")", 1)[1].split()[0] in ("Z", "X")
        except (OSError, IndexError):
            return True
    try:
        return not all(over(task) for task in os.listdir("/proc/%d/task" % pid))
    except OSError:
        return False


class House:
    """A home folder with an instance in it, and the agents' settings for the scripted model."""

    def __init__(self, program, **env):
        self.program = program
        self.dir = tempfile.mkdtemp(prefix="ostler-agents-")
        self.home = os.path.join(self.dir, "home")
        os.mkdir(self.home)
        self.model = clis.Model(log=os.path.join(self.dir, "model.log"))
        self.env = dict(clis.environment(self.home, self.model.url), **env)
        self.door = None
        self.up()

    def run(self, *args, timeout=LONG):
        p = subprocess.run([self.program] + list(args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           env=self.env, cwd=self.home, timeout=timeout, text=True)
        if p.returncode:
            raise Fail("ostler %s: exit %d, %s%s" % (" ".join(args), p.returncode, p.stdout[-300:], p.stderr[-300:]))
        return p.stdout

    def up(self):
        self.run("up")
        with open(os.path.join(self.home, ".local/state/ostler/instances/main/instance.json")) as f:
            record = json.load(f)
        self.pid, self.socket = record["pid"], record["native"]
        self.door = Door(self.socket)

    def crash(self):
        """SIGKILL for the daemon alone, and a new one: the keeper brings it, or `up` does, whoever is first."""
        os.kill(self.pid, signal.SIGKILL)
        wait_for("end of the killed daemon", lambda: not alive(self.pid), 30)
        self.door.close()

        def back():
            try:
                self.up()
                return True
            except (Fail, OSError):
                return False
        wait_for("daemon after the kill", back, step=0.2)

    def workspace(self, name):
        folder = os.path.join(self.dir, name)
        os.makedirs(folder)
        subprocess.run(["git", "init", "-q", folder], check=True, env=self.env)
        return folder

    def decide(self, id, verdict, **more):
        """What a person at a terminal of their own says to a request."""
        info = self.door.call("approval.get", id=id)
        params = dict(more, id=id, hash=info["hash"], verdict=verdict)
        return self.personal("approval.decide", params)

    def personal(self, method, params):
        request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        _, said = at_terminal.run([sys.executable, os.path.join(HERE, "person.py"), self.socket, request])
        answer = json.loads(said)
        if "error" in answer:
            raise Fail("%s: %s" % (method, answer["error"]))
        return answer["result"]

    def close(self):
        if self.door:
            self.door.close()
        try:
            self.run("down", "--kill")
        finally:
            self.model.close()
            shutil.rmtree(self.dir, ignore_errors=True)


class Door:
    """A connection to the native door."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.lock = threading.Condition()
        self.answers, self.watches, self.number, self.gone = {}, {}, 0, False
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            for line in self.socket.makefile("rb"):
                message = json.loads(line)
                with self.lock:
                    if "method" in message:
                        params = message["params"]
                        self.watches.setdefault(params.get("watch"), []).append((message["method"], params))
                    else:
                        self.answers[message["id"]] = message
                    self.lock.notify_all()
        except (OSError, ValueError):
            pass
        with self.lock:
            self.gone = True
            self.lock.notify_all()

    def call(self, method, **params):
        with self.lock:
            self.number += 1
            number = self.number
        self.socket.sendall(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n")
        with self.lock:
            if not self.lock.wait_for(lambda: number in self.answers or self.gone, 60) or number not in self.answers:
                raise Fail("%s: %s" % (method, "the connection broke" if self.gone else "no answer within 60 s"))
            answer = self.answers.pop(number)
        if "error" in answer:
            raise Fail("%s: %s" % (method, answer["error"]))
        return answer["result"]

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()


class Session:
    """A session and every record of it that a watcher saw."""

    def __init__(self, house, agent, workspace, **more):
        self.house = house
        self.workspace = workspace
        self.id = house.door.call("session.create", agent=agent, workspace=workspace, **more)["id"]
        self.records = []
        self.watch()

    def watch(self, door=None):
        """Watches from where it was."""
        door = door or self.house.door
        since = self.records[-1]["record"] + 1 if self.records else None
        number = door.call("session.watch", id=self.id, **({"from": since} if since else {}))["watch"]
        self.source = (door, number)
        self.taken = 0

    def look(self):
        """Takes what came. Each record comes once and in order, or it is an error."""
        door, number = self.source
        with door.lock:
            came = list(door.watches.get(number, []))[self.taken:]
        self.taken += len(came)
        for method, params in came:
            if method != "session.events":
                raise Fail("%s in a watch" % method)
            if self.records and params["record"] != self.records[-1]["record"] + 1:
                raise Fail("record %d after %d" % (params["record"], self.records[-1]["record"]))
            self.records.append(params)
        return self.records

    def events(self, after=0, kind=None):
        """(type, event) of what was said after a record; what the daemon says in an agent's words counts as said."""
        found = []
        for record in self.look():
            if record["record"] > after:
                found += [event["event"] if event["type"] == "said" else event for event in record["events"]]
        return [event for event in found if kind is None or event["type"] == kind]

    def info(self):
        return self.house.door.call("session.get", id=self.id)

    def prompt(self, text, **more):
        return self.house.door.call("session.prompt", id=self.id, text=text, **more)["record"]

    def until(self, after, kind, count=1, timeout=LONG):
        """The events of this type after a record, once there are so many."""
        def there():
            found = self.events(after, kind)
            return found if len(found) >= count else None
        try:
            return wait_for("%s" % kind, there, timeout)
        except Fail as error:
            raise Fail("%s; status %s, said since: %s" % (error, self.info(), json.dumps(self.events(after))[-1500:]))

    def rest(self, after):
        """The end of the turn that a prompt began, once the session takes another."""
        end = self.until(after, "turn_ended")[0]
        wait_for("rest after the turn", lambda: self.info()["status"] in ("idle", "interrupted", "failed"))
        return end

    def turn(self, text, answer=None):
        """A whole turn: its record and how it ended. `answer(approval id)` is called for each request."""
        after = self.prompt(text)
        answered = set()

        def over():
            for event in self.events(after, "approval"):
                if event["approval"] not in answered:
                    answered.add(event["approval"])
                    if answer:
                        answer(event["approval"])
            return self.events(after, "turn_ended")
        try:
            wait_for("end of the turn", over)
        except Fail as error:
            raise Fail("%s; status %s, said since: %s" % (error, self.info(), json.dumps(self.events(after))[-1500:]))
        return after, self.rest(after)

    def waiting(self):
        """The request that waits for a person."""
        return wait_for("request in the inbox", lambda: self.info()["approvals"])[0]

    def said(self, after):
        return "".join(event["text"] for event in self.events(after, "text"))

    def pieces(self, after):
        return [event["text"] for event in self.events(after, "text_delta")]

    def again(self):
        """Everything from the beginning, as a new watcher sees it."""
        last = self.info()["last"]
        other = Session.__new__(Session)
        other.house, other.id, other.records = self.house, self.id, []
        door = Door(self.house.socket)
        other.watch(door)
        wait_for("record %d for a new watcher" % last, lambda: other.look() and other.records[-1]["record"] >= last)
        door.close()
        return other.records
