"""The unmodified TUI of the original (from the crate registry, compiled into the test cache) in a real terminal: it starts our daemon,
joins an `ostler up` that runs, and comes back to its turn whoever of them is killed."""
import os
import re
import shutil
import signal

from approvals_kit import LONG, Tmux, approved
from cli import Home
from codecast_kit import suite
from kit import Fail
from lib import area, pid_alive, wait_for
from sessions_kit import House

SIZE = (120, 40)
# What the tests and what they start find by name: no agent that the person who runs them has installed.
NEEDED = ("cat", "env", "git", "sh", "sleep", "tmux")
# In a folder; it notes the pid, and afterwards the exit code.
RUN = 'cd "$0"; sh -c \'echo $$ >"$1/pid"; exec "$0"\' "$1" "$2"; echo $? >"$2/code"'
BOX = "Approval Required"
KEYS = "Enter=Allow  a=Always  Ctrl+D=Reject"


def beside(home, t):
    """zerocode, and what it starts, in one folder of the home; and a folder to work in."""
    home.bin, home.work, home.tuis = home.dir + "/bin", home.dir + "/work", []
    os.makedirs(home.bin)
    os.makedirs(home.work)
    for name in NEEDED:
        os.symlink(shutil.which(name), home.bin + "/" + name)
    # It looks for its daemon where it lies itself, behind any symbolic link.
    original = os.path.join(t.opt.original, "bin", "zerocode")
    try:
        os.link(original, home.bin + "/zerocode")
    except OSError:
        shutil.copy(original, home.bin)
    home.env.update(PATH=home.bin)
    home.good("link", home.bin)


def leave(home):
    for tui in home.tuis:
        tui.close()
    home.tuis.clear()


class Alone(Home):
    """A home without a daemon: zerocode starts one."""

    def __init__(self, t):
        super().__init__(t)
        beside(self, t)

    def stop(self):
        leave(self)
        super().stop()


class Joined(House):
    """A home in which `ostler up` runs."""

    def __init__(self, t):
        self.t = t
        super().__init__(t)

    def prepare(self):
        beside(self, self.t)

    def stop(self):
        leave(self)
        super().stop()

    def holder(self):
        """The pid of the daemon that zerocode started, which holds the lease of its door."""
        told = [d["connect"] for d in self.json("status")[0]["doors"] if d["name"] == "zeroclaw"]
        pids = [int(pid) for line in told for pid in re.findall(r"\(pid (\d+)\)", line)]
        return pids[0] if pids else 0


class Terminal:
    """Where a terminal of its own keeps its socket."""

    def __init__(self, home, number):
        self.env, self.dir = home.env, home.dir + "/tmux%d" % number
        os.mkdir(self.dir)


class Tui(Tmux):
    """zerocode in a terminal, on one of its panes."""

    def __init__(self, home, pane="Chat"):
        place = Terminal(home, len(home.tuis))
        self.dir = place.dir
        super().__init__(place, "sh", "-c", RUN, home.work, home.bin + "/zerocode", self.dir, size=SIZE)
        home.tuis.append(self)
        self("set-option", "-g", "escape-time", "0")
        self.until("Dashboard", "● Connected")
        self.go(pane)

    def go(self, pane):
        """To a pane: its own words are on the screen."""
        to_the_right, mark = {"Dashboard": (0, "RPC API"), "Code": (2, "Session history saved"), "Chat": (3, "Type to chat")}[pane]
        for _ in range(to_the_right):
            self.keys("M-Right")
        self.until(mark)

    def pid(self):
        return int(open(self.dir + "/pid").read())

    def ended(self):
        """Its exit code, once it has ended."""
        try:
            return int(open(self.dir + "/code").read())
        except (OSError, ValueError):
            return None

    def say(self, text):
        """Prompts, and what was said before it is another turn."""
        self.keys("-l", text)
        self.keys("Enter")
        last = lambda: [row for row in self.transcript() if row.startswith("You: ")][-1:]
        if not wait_for(lambda: last() == ["You: " + text], LONG, 0.1):
            raise Fail("the prompt should be on the screen: %s" % self.screen())

    def attach(self, path):
        self.keys("-l", "/attach " + path)
        self.keys("Enter")
        self.until("Attached: " + os.path.basename(path))

    def transcript(self):
        """What was said, as it stands in the conversation's part of the screen: no borders, no columns beside it."""
        rows = [re.split("[█║]", row[1:])[0].rstrip() for row in self.screen().split("\n")[3:-5] if row.startswith("│")]
        return [row.strip() for row in rows]

    def turn(self):
        """What was said after the last prompt."""
        rows = self.transcript()
        last = max([n for n, row in enumerate(rows) if row.startswith("You: ")], default=-1)
        return rows[last + 1:]

    def counted(self):
        """The numbers that the agent has counted in this turn, in the order of the screen."""
        return [int(word) for row in self.turn() for word in row.split() if word.isdigit()]

    def has(self, *texts):
        """Whether the last turn comes to show these, and no box is left."""
        done = lambda: all(any(text in row for row in self.turn()) for text in texts) and BOX not in self.screen()
        if not wait_for(done, LONG, 0.1):
            raise Fail("the turn should show %r: %s" % (texts, self.screen()))
        return True

    def counts_to(self, number):
        if not wait_for(lambda: self.counted()[-1:] >= [number], LONG, 0.1):
            raise Fail("the agent should count to %d: %s" % (number, self.screen()))

    def session(self):
        """The beginning of its session's id, from the title of the conversation."""
        return re.search(r"┌ echo  ([0-9a-f]+) ", self.screen()).group(1)

    def open(self, session):
        """Chooses a session in the list of this pane."""
        self.keys("C-s")
        self.until("Sessions (Enter=switch", session)
        listed = re.findall(r"│([0-9a-f]{8}-[0-9a-f-]{27}) ", self.screen())
        for _ in range(next(n for n, id in enumerate(listed) if id.startswith(session))):
            self.keys("Down")
        self.keys("Enter")
        self.until("┌ echo  " + session)

    def quit(self):
        """Its exit code, after it was asked to leave and asked back."""
        self.keys("C-c")
        self.until(" Quit? ")
        self.keys("C-c")
        if not wait_for(lambda: self.ended() is not None, LONG, 0.1):
            raise Fail("it should end: %s" % self.screen())
        return self.ended()

    def kill(self):
        if pid_alive(self.pid()):
            os.kill(self.pid(), signal.SIGKILL)

    def close(self):
        # One whose terminal is gone would run on for ever.
        self.kill()
        super().close()


def count(n):
    return list(range(1, n + 1))


@area("zerocode-alone")
def alone(t):
    home = Alone(t)
    tui = Tui(home, "Dashboard")
    text = tui.until("RPC API", "● echo", "(you)")
    daemon = home.json("status")[0]["pid"]
    t.ok("its-dashboard-shows-our-daemon", "v0.8.7" in text and home.dir + "/.zeroclaw/data/daemon.sock" in text, text)
    tui.go("Chat")
    tui.say("hello from zerocode")
    t.ok("a-prompt-is-answered", tui.has("Agent:", "hello from zerocode"), tui.turn())
    t.ok("and-nothing-is-said-twice", tui.turn().count("hello from zerocode") == 1, tui.turn())
    tui.say("ASK for it")
    text = tui.until(BOX, "pretend to write a file", '{"what":"write a file"}')
    t.ok("a-request-comes-in-a-box-with-its-keys", KEYS in text, text)
    tui.keys("Enter")
    t.ok("enter-allows-it", tui.has("pretended to write a file", "ASK for it"), tui.turn())
    tui.say("ASK and hear no")
    tui.until(BOX)
    tui.keys("C-d")
    t.ok("ctrl-d-rejects-it", tui.has("result: denied", "ASK and hear no"), tui.turn())
    tui.say("QUESTION please")
    tui.until("Choose one", "Which colour?", "red", "blue")
    tui.keys("Down")
    tui.keys("Enter")
    t.ok("a-question-is-a-form", tui.has("You chose blue."), tui.turn())
    tui.say("ASK always")
    tui.until(BOX)
    tui.keys("a")
    t.ok("a-allows-it-for-good", tui.has("pretended to write a file", "ASK always")
         and wait_for(lambda: home.json("rules"), LONG, 0.1), (tui.turn(), home.json("rules")))
    tui.say("SLOW:3000")
    tui.counts_to(3)
    tui.keys("C-c")
    tui.has("turn cancelled via client_rpc")
    session = tui.session()
    listed = [s for s in home.json("sessions") if s["uuid"].startswith(session)]
    t.eq("ctrl-c-stops-the-turn", [s["status"] for s in listed], ["interrupted"])
    t.eq("leaving-is-clean", tui.quit(), 0)
    t.ok("and-its-daemon-leaves-with-it", wait_for(lambda: not pid_alive(daemon), LONG, 0.1))
    tui = Tui(home)
    tui.open(session)
    t.ok("the-next-one-finds-the-whole-conversation",
         all(tui.transcript().count(row) == 1 for row in ("You: hello from zerocode", "You chose blue.", "result: denied", "You: ASK always")),
         tui.transcript())
    # Killed in mid-turn, it comes back to the same turn; the daemon that it started has left by then.
    daemon = home.json("status")[0]["pid"]
    tui.say("SLOW:10 ASK:go_on SLOW:10")
    tui.counts_to(3)
    tui.kill()
    t.ok("one-that-is-killed-takes-its-daemon-along", wait_for(lambda: not pid_alive(daemon), LONG, 0.1))
    tui = Tui(home)
    tui.open(session)
    tui.until(BOX)
    t.eq("who-comes-back-is-told-all-of-the-turn-so-far-once", tui.counted(), count(10))
    tui.keys("Enter")
    tui.has("SLOW:10 ASK:go_on SLOW:10")
    t.eq("and-the-rest-of-it-live", tui.counted(), count(10) + count(10))
    # The daemon, killed in mid-turn: zerocode starts another, and comes back while the agent counts.
    daemon = home.json("status")[0]["pid"]
    tui.say("SLOW:70 ASK:go_on SLOW:5")
    tui.counts_to(3)
    os.kill(daemon, signal.SIGKILL)
    tui.until("Reconnecting")
    tui.until(BOX, "● Connected")
    t.ok("a-killed-daemon-is-started-again", home.json("status")[0]["pid"] != daemon)
    t.eq("and-the-turn-went-on-and-is-told-once", tui.counted(), count(70))
    tui.keys("Enter")
    tui.has("SLOW:70 ASK:go_on SLOW:5")
    t.eq("to-its-end", tui.counted(), count(70) + count(5))
    t.eq("it-leaves-cleanly-again", tui.quit(), 0)


@area("zerocode-joined")
def joined(t):
    house = Joined(t)
    tui = Tui(house)
    main = house.json("status")[0]["pid"]
    t.ok("the-daemon-that-it-starts-joins", len(house.json("status")) == 1 and house.holder() not in (0, main), house.json("status"))
    tui.say("hello from zerocode")
    tui.has("Agent:", "hello from zerocode")
    info = house.json("sessions")[0]
    t.eq("its-session-is-in-the-one-list", (info["door"], info["instance"], info["workspace"], info["uuid"][:7]), ("zeroclaw", "main", house.work, tui.session()))
    cast = next(d["address"] for d in house.json("status")[0]["doors"] if d["name"] == "codecast")
    listed = suite.Rpc(int(cast.rsplit(":", 1)[1])).ok("session.list", {})["sessions"]
    t.eq("and-in-the-other-doors", [s["sessionId"] for s in listed], [info["uuid"]])
    tui.say("ASK elsewhere")
    tui.until(BOX, KEYS)
    seen, code = approved(house, house.waiting(info["id"]))
    t.ok("what-it-asks-is-answered-in-the-one-inbox", code == 0 and "pretend" in seen, seen)
    text = tui.until("nothing is left to decide", "answered by")
    t.ok("its-box-says-so-and-how-to-close-it", "Any of these keys closes this" in text and KEYS in text, text)
    tui.keys("C-d")
    t.ok("and-closes-with-a-key-that-decides-nothing", tui.has("pretended to write a file", "ASK elsewhere"), tui.turn())
    # What others said in the session is there when it is opened; who comes to a turn that runs sees it as the first one does.
    house.good("send", info["id"], "from the command line")
    other = Tui(house)
    tui.say("SLOW:20 then ASK both")
    tui.counts_to(2)
    other.open(tui.session())
    t.ok("what-was-said-elsewhere-is-there", wait_for(lambda: "You: from the command line" in other.transcript(), LONG, 0.1), other.transcript())
    other.until(BOX)
    t.eq("two-on-one-session-are-told-the-same-turn", (tui.counted(), other.counted()), (count(20), count(20)))
    tui.until(BOX)
    other.keys("Enter")
    tui.until("nothing is left to decide")
    tui.keys("Enter")
    t.ok("one-answers-for-both", tui.has("SLOW:20 then ASK both") and other.has("SLOW:20 then ASK both"), (tui.turn(), other.turn()))
    t.eq("and-nothing-came-twice", [rows.count("result: pretended to write a file") for rows in (tui.turn(), other.turn())], [1, 1])
    holder = house.holder()
    t.eq("leaving-is-clean", (tui.quit(), other.quit()), (0, 0))
    t.ok("what-it-started-leaves-with-it-and-up-stays", wait_for(lambda: not pid_alive(holder), LONG, 0.1) and house.json("status")[0]["pid"] == main)


def kill_up(house, tui):
    """SIGKILL for the daemon, and nobody comes back before zerocode has shown that: whoever holds the lease stands still."""
    holder = house.holder()
    os.kill(holder, signal.SIGSTOP)
    os.kill(house.json("status")[0]["pid"], signal.SIGKILL)
    tui.until("Reconnecting")
    os.kill(holder, signal.SIGCONT)


@area("zerocode-killed")
def killed(t):
    house = Joined(t)
    tui = Tui(house)
    tui.say("before")
    tui.has("Agent:", "before")
    main, holder = house.json("status")[0]["pid"], house.holder()
    session = house.json("sessions")[0]["id"]
    tui.say("SLOW:40 then ASK for it")
    tui.counts_to(3)
    os.kill(main, signal.SIGKILL)
    tui.until("transcript was reloaded", "● Connected", BOX)
    t.eq("up-was-killed-and-its-lease-is-kept", (house.json("status")[0]["pid"] != main, house.holder()), (True, holder))
    t.eq("the-turn-goes-on-and-is-told-once", tui.counted(), count(40))
    # With the box on the screen: it comes again, and is answered there.
    kill_up(house, tui)
    tui.until("● Connected", BOX, KEYS)
    tui.keys("Enter")
    t.ok("a-box-comes-again-and-is-answered", tui.has("pretended to write a file", "SLOW:40 then ASK for it"), tui.turn())
    t.eq("with-all-of-the-turn-once", (tui.counted(), tui.turn().count("result: pretended to write a file")), (count(40), 1))
    # And a form.
    tui.say("QUESTION again")
    tui.until("Choose one")
    kill_up(house, tui)
    tui.until("● Connected", "Choose one", "Which colour?")
    # The first that comes goes away with the transcript that is read again, and with it a key that was pressed for it.
    t.ok("a-form-too", wait_for(lambda: tui.keys("Enter") or "You chose red." in tui.turn(), LONG, 0.5), tui.turn())
    t.eq("and-is-answered-once", tui.turn().count("You chose red."), 1)
    # The one that holds the lease.
    tui.say("SLOW:10 ASK on")
    tui.counts_to(3)
    os.kill(holder, signal.SIGKILL)
    tui.until("Reconnecting")
    tui.until("● Connected", BOX)
    t.eq("its-own-daemon-is-started-again-and-joins", (house.holder() not in (0, holder), len(house.json("status"))), (True, 1))
    tui.keys("Enter")
    tui.has("SLOW:10 ASK on")
    t.eq("and-the-turn-is-told-to-its-end-once", tui.counted(), count(10))
    # Both at once.
    main, holder = house.json("status")[0]["pid"], house.holder()
    tui.say("SLOW:10 ASK both")
    tui.counts_to(3)
    os.kill(holder, signal.SIGKILL)
    os.kill(main, signal.SIGKILL)
    tui.until("Reconnecting")
    tui.until("● Connected", BOX)
    t.eq("both-are-back", (house.json("status")[0]["pid"] != main, house.holder() not in (0, holder), len(house.json("status"))), (True, True, 1))
    tui.keys("Enter")
    tui.has("SLOW:10 ASK both")
    t.eq("and-the-turn-is-whole", tui.counted(), count(10))
    t.eq("no-turn-was-cancelled", house.info(session)["status"], "idle")
    tui.quit()


@area("zerocode-code")
def code(t):
    house = Joined(t)
    tui = Tui(house, "Code")
    tui.keys("Enter")
    tui.until("┌ echo  ", "Type to chat")
    tui.say("TOOL and PLAN and ASK")
    tui.until(BOX, KEYS)
    tui.keys("Enter")
    t.ok("the-code-pane-works-as-the-chat-does", tui.has("look around", "pretended to write a file"), tui.turn())
    for name, content in (("p.png", b"\x89PNG\r\n\x1a\n"), ("n.txt", b"notes")):
        with open(house.work + "/" + name, "wb") as f:
            f.write(content)
        tui.attach(house.work + "/" + name)
    tui.say("look")
    t.ok("a-picture-and-a-file-go-with-a-prompt", tui.has("a picture, image/png", "the file", house.work + "/n.txt"), tui.turn())
    main = house.json("status")[0]["pid"]
    tui.say("SLOW:25 more")
    tui.counts_to(3)
    os.kill(main, signal.SIGKILL)
    tui.until("transcript was reloaded", "● Connected")
    tui.has("SLOW:25 more")
    t.eq("and-comes-back-to-its-turn", tui.counted(), count(25))
    session = tui.session()
    t.eq("leaving-is-clean", tui.quit(), 0)
    tui = Tui(house, "Code")
    tui.until(session)
    tui.keys("Enter")
    t.ok("its-sessions-are-offered-again", tui.has("SLOW:25 more"), tui.screen())
    tui.quit()
