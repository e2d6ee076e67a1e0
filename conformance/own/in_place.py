"""Requests answered where a session is followed: `send`, `watch` and `attach SESSION`; prompts typed, turns interrupted, left."""
import os
import re
import signal
import termios
import time

from hangup_kit import DETACH, LONG, Seat, leave, screen
from kit import Fail
from lib import area, wait_for
from sessions_kit import House

ASKS = b"q later? "


def decided(house, id):
    """How the requests of a session were answered."""
    return [e["decision"] for e in house.events(id) if e["type"] == "answered"]


def last_turn(house, id):
    house.until(id, "idle")
    return [e["reason"] for e in house.events(id) if e["type"] == "turn_ended"][-1:]


def press(seat, key):
    """A key counts once the question has stood for a while: it is pressed until something follows."""
    seat.until(ASKS)
    seat.seen = b""
    if not wait_for(lambda: seat.type(key) or seat.look(0.2) or seat.seen.strip(key) != b"", LONG, 0.2):
        raise Fail("%r does nothing: %r" % (key, seat.seen))


@area("in-place-send")
def send(t):
    house = House(t)
    id = house.new()
    with Seat(house, "send", id, "ASK") as seat:
        press(seat, b"y")
        t.eq("yes-ends-the-turn-well", seat.wait(), 0)
        t.ok("what-follows-is-shown", b"pretended to write a file" in seat.seen, seat.seen)
    with Seat(house, "send", id, "ASK") as seat:
        press(seat, b"n")
        t.eq("no-is-an-answer-too", seat.wait(), 0)
        t.ok("a-no-is-shown", b"denied" in seat.seen, seat.seen)
    with Seat(house, "send", id, "ASK") as seat:
        press(seat, b"m")
        seat.until(b"why not? ")
        seat.type(b"not on a Monday\r")
        t.eq("a-reason-is-given", seat.wait(), 0)
        t.ok("the-reason-arrives", b"denied: not on a Monday" in seat.seen, seat.seen)
    with Seat(house, "send", id, "QUESTION") as seat:
        seat.until(ASKS)
        shown = seat.seen.count(b"blue")
        press(seat, b"2")
        t.eq("a-question-is-answered-by-the-number-of-a-choice", seat.wait(), 0)
        t.ok("the-choice-arrives", b"You chose blue." in seat.seen, seat.seen)
        t.eq("and-the-choices-were-shown-once", shown, 1)
    with Seat(house, "send", id, "QUESTION") as seat:
        press(seat, b"3")
        t.ok("a-number-that-is-no-choice-only-rings", seat.seen.strip(b"\x07") == b"" and house.info(id)["approvals"], seat.seen)
        seat.seen = ASKS
        press(seat, b"t")
        seat.until(b"or type an answer: ")
        seat.type(b"green\r")
        t.eq("a-question-is-answered-in-words", seat.wait(), 0)
        t.ok("the-answer-arrives", b"You chose green." in seat.seen, seat.seen)
    house.good("send", id, "QUESTION", "--no-wait")
    with Seat(house, "approve", house.waiting(id)) as seat:
        press(seat, b"1")
        t.eq("approve-asks-the-question-too", seat.wait(), 0)
        t.ok("and-says-what-was-answered", b"approved by" in seat.seen, seat.seen)
    house.until(id, "idle")
    before = len(decided(house, id))
    with Seat(house, "send", id, "ASK") as seat:
        # Typed before anything was asked: meant for something else.
        seat.type(b"y" * 20)
        seat.until(ASKS)
        seat.look(0.5)
        t.ok("keys-typed-before-do-not-count", house.info(id)["approvals"], house.events(id)[-3:])
        request = house.waiting(id)
        with Seat(house, "deny", request) as other:
            other.wait()
        seat.wait()
        t.ok("answered-elsewhere-goes-away", b"answered: no" in seat.seen, seat.seen)
        t.ok("and-is-told-once", b"denied by" not in seat.seen, seat.seen)
    t.eq("each-was-decided-once", len(decided(house, id)), before + 1)
    house.down()


@area("in-place-watch")
def watch(t):
    house = House(t)
    id = house.new()
    house.good("send", id, "ASK", "--no-wait")
    request = house.waiting(id)
    for way in ("closed", "hup", "kill"):
        with Seat(house, "watch", id) as seat:
            seat.until(ASKS)
            leave(seat, way)
        t.eq("%s-decides-nothing" % way, house.info(id)["approvals"], [request])
    with Seat(house, "watch", id) as seat:
        # No shell is above it, as over `ssh -t`: who could not be continued is not stopped.
        press(seat, b"\x1a")
        press(seat, b"\x03")
        t.eq("ctrl-c-leaves", seat.wait(), 130)
        t.ok("the-terminal-is-given-back", seat.modes_are_back(), termios.tcgetattr(seat.slave)[3])
    t.eq("leaving-decides-nothing", house.info(id)["approvals"], [request])
    with Seat(house, "watch", id) as seat:
        seat.until(ASKS)
        os.kill(house.daemon_pid(), signal.SIGKILL)
        seat.seen = b""
        seat.until(b"reconnected")
        press(seat, b"y")
        seat.until(b"pretended to write a file")
        t.ok("asked-again-after-a-crash", True)
        t.eq("and-answered-once", len(decided(house, id)), 1)
    house.good("send", id, "ASK", "--no-wait")
    request = house.waiting(id)
    with Seat(house, "watch", id) as seat:
        press(seat, b"n")
        seat.until(b"done (")
        seat.asks(b"\x1a", b"^Z")
        house.good("send", id, "after-the-key", "--no-wait")
        seat.until(b"after-the-key")
        seat.asks(b"\x03", b"\r\nostler: left")
        t.eq("ctrl-z-freezes-nobody-whom-no-shell-continues", seat.wait(), 130)
    house.good("send", id, "ASK", "--no-wait")
    request = house.waiting(id)
    p = house.start("watch", id)
    t.ok("who-has-no-terminal-is-not-asked", not wait_for(lambda: not house.info(id)["approvals"], 1, 0.2))
    p.kill()
    p.communicate()
    house.down()


MORE = b"more: space --"
# Blanks that make room for a row of somebody's own, and signs that look like blanks.
PADDED = "red%s1_keep_everything\u2800" % ("_" * 90)
LONG_ASK = "ASK:" + "_".join("word%03d" % n for n in range(300))


def rows_of(seat):
    return [row for row in screen(seat.seen) if row]


def to_the_last_page(t, seat, what):
    """Turns pages; on the way no key decides anything, and nothing asks for one."""
    seat.until(MORE)
    seen = seat.seen
    for key in (b"y", b"s", b"n", b"i"):
        # Longer than a page has to stand before keys count.
        seat.look(0.4)
        seat.type(key)
        seat.look(0.1)
    t.ok("%s-no-key-counts-before-the-last-page" % what, ASKS not in seat.seen, seat.seen[-300:])
    stop = time.monotonic() + LONG
    while ASKS not in seat.seen and time.monotonic() < stop:
        seat.type(b" ")
        seat.look(0.4)
    seen += seat.seen
    # What we put between two halves of a word: colours, the mark of a broken line, the foot of a page.
    seen = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]|[\r\n\x07]|    \xe2\x86\xb3 |-- [0-9]+-[0-9]+ of [0-9]+ lines, more: space --", b"", seen)
    missing = [n for n in range(300) if b"word%03d" % n not in seen]
    t.eq("%s-all-of-it-was-on-the-screen" % what, missing, [])


@area("in-place-drawn")
def drawn(t):
    """A request is drawn in one way: paged, its words quoted where they could pose as more, broken lines marked."""
    house = House(t)
    id = house.new()
    with Seat(house, "send", id, LONG_ASK) as seat:
        to_the_last_page(t, seat, "send")
        t.eq("send-nothing-was-decided-by-then", decided(house, id), [])
        press(seat, b"y")
        t.eq("send-then-the-key-counts", seat.wait(), 0)
    house.good("send", id, LONG_ASK, "--no-wait")
    request = house.waiting(id)
    with Seat(house, "watch", id) as seat:
        to_the_last_page(t, seat, "watch")
        press(seat, b"n")
        seat.until(b"done (")
    house.good("send", id, LONG_ASK, "--no-wait")
    request = house.waiting(id)
    with Seat(house, "approve", request) as seat:
        seat.until(MORE)
        seat.look(0.4)
        seat.type(b"y")
        seat.look(0.4)
        t.eq("approve-no-key-counts-before-the-last-page", house.info(id)["approvals"], [request])
        while b"[y/N] " not in seat.seen:
            seat.type(b" ")
            seat.look(0.4)
        if not wait_for(lambda: seat.type(b"y") or seat.look(0.2) or b"approved by" in seat.seen, LONG, 0.2):
            raise Fail("y does nothing: %r" % seat.seen[-300:])
        t.eq("approve-then-the-key-counts", seat.wait(), 0)
    house.until(id, "idle")
    with Seat(house, "send", id, "QUESTION:%s,blue_(best)" % PADDED) as seat:
        press(seat, b"t")
        seat.until(b"or type an answer: ")
        shown = rows_of(seat)
        t.ok("a-choice-draws-no-other", not [row for row in shown if "keep" in row and not row.startswith("    \u21b3 ")], shown)
        t.ok("what-looks-like-a-blank-is-written-out", any("\\u2800'" in row for row in shown), shown)
        t.ok("plain-words-stay-as-they-are", "    2 blue (best)" in shown, shown)
        seat.type(b"2\r")
        t.eq("and-the-number-is-the-answer", seat.wait(), 0)
        t.ok("as-it-was-shown", b"You chose blue (best)." in seat.seen, seat.seen)
    house.good("send", id, "QUESTION:%s,blue" % PADDED, "--no-wait")
    request = house.waiting(id)
    for verb in ("watch", "approve"):
        with Seat(house, verb, id if verb == "watch" else request) as seat:
            seat.until(ASKS)
            shown = rows_of(seat)
            # The person's own prompt stands there too, as it was typed.
            t.ok("%s-draws-it-the-same-way" % verb, not [row for row in shown if "keep" in row and "_keep" not in row and not row.startswith("    \u21b3 ")], shown)
            if verb == "approve":
                press(seat, b"2")
                t.eq("and-takes-the-choice", seat.wait(), 0)
    house.down()


@area("in-place-attach")
def attach(t):
    house = House(t)
    id = house.new("--name", "talk")
    with Seat(house, "attach", "talk") as seat:
        seat.until(b"type a prompt")
        seat.asks(b"hello there\r", b"done (")
        t.eq("a-line-is-a-prompt", house.texts(id)[-1:], ["hello there"])
        seat.asks(b"ASK\r", ASKS)
        press(seat, b"y")
        seat.until(b"done (")
        t.ok("a-request-is-answered-in-place", len(decided(house, id)) == 1, seat.seen)
        seat.asks(b"SLOW:1000\r", b"3 4 5")
        seat.asks(b"\x03", b"interrupted")
        house.until(id, "interrupted")
        t.ok("ctrl-c-interrupts-the-turn", True)
        seat.asks(b"\x03", b"nothing is running")
        t.ok("ctrl-c-at-rest-says-so", True)
        os.kill(house.daemon_pid(), signal.SIGKILL)
        seat.until(b"reconnected")
        seat.asks(b"still here\r", b"done (")
        t.eq("it-outlives-the-daemon", house.texts(id)[-1:], ["still here"])
        seat.type(b"half a line" + DETACH)
        t.eq("the-key-leaves", seat.wait(), 0)
        t.ok("the-terminal-is-given-back", seat.modes_are_back())
    t.eq("half-a-line-is-not-sent", house.texts(id)[-1:], ["still here"])
    with Seat(house, "attach", id) as seat:
        seat.until(b"type a prompt")
        seat.type(b"\x04")
        t.eq("ctrl-d-leaves", seat.wait(), 0)
    for way in ("closed", "gone", "hup", "kill"):
        with Seat(house, "attach", id, controlling=way != "gone") as seat:
            seat.until(b"type a prompt")
            seat.asks(b"SLOW:8\r", b"1 2")
            seat.type(b"half a line")
            leave(seat, way)
        t.eq("%s-the-turn-goes-on" % way, last_turn(house, id), ["completed"])
    rc, _, err = house("attach", id)
    t.ok("without-a-terminal-it-says-what-to-do", rc == 2 and "ostler send" in err, (rc, err))
    house.down()


@area("in-place-typing")
def typing(t):
    """A line that is typed while the agent speaks stands below what it says, and is sent as it was typed."""
    house = House(t)
    id = house.new("--name", "talk")
    with Seat(house, "attach", "talk") as seat:
        seat.until(b"type a prompt")
        seat.asks(b"SLOW:60\r", b"3 4 5")
        for key in b"half a lime":
            seat.type(bytes([key]))
            seat.look(0.1)
        seat.type(b"\x7f\x7fne")
        # The row is taken away before something is said and drawn again after it: read when both are done.
        stop = time.monotonic() + LONG
        while time.monotonic() < stop:
            seat.look(0.1)
            shown = [row for row in screen(seat.seen) if row]
            if b"30" in seat.seen and shown[-1:] == ["half a line"]:
                break
        t.eq("it-stands-below-what-is-said", shown[-1:], ["half a line"])
        t.ok("and-nowhere-in-it", not [row for row in shown[:-1] if "half" in row] and any("5 6 7 8 9 10 11 12" in row for row in shown), shown)
        seat.until(b"done (")
        seat.asks(b" more\r", b"done (")
        t.eq("it-is-sent-as-it-was-typed", house.texts(id)[-1:], ["half a line more"])
        t.ok("and-stays-where-it-was-typed", "half a line more" in screen(seat.seen), screen(seat.seen))
        seat.type(DETACH)
        t.eq("then-it-is-left", seat.wait(), 0)
        t.ok("with-the-terminal-as-it-was", seat.modes_are_back())
    house.down()


def sent(house, id):
    """Every prompt that the session was given."""
    return [block["text"] for e in house.events(id) if e["type"] == "prompt" for block in e["blocks"]]


@area("in-place-kills")
def kills(t):
    """Lines typed at `attach SESSION` while its daemon is killed: each is one prompt, and nothing else is said to be lost."""
    house = House(t)
    id = house.new("--name", "talk")
    lines = ["line-%02d" % n for n in range(20)]
    with Seat(house, "attach", "talk") as seat:
        seat.until(b"type a prompt")
        for n, line in enumerate(lines):
            daemon = house.daemon_pid() if n % 3 else 0
            if n % 3 == 1:
                os.kill(daemon, signal.SIGKILL)
            seat.type(line.encode() + b"\r")
            if n % 3 == 2:
                # While it takes the line: a little later each time.
                time.sleep(0.002 * (n // 3))
                os.kill(daemon, signal.SIGKILL)
            seat.look(0.05)
        wait_for(lambda: seat.look(0.1) or house("up") and len(sent(house, id)) >= len(lines), LONG, 0.1)
        t.eq("each-line-is-a-prompt-once", sent(house, id), lines)
        t.ok("nothing-was-said-to-be-unsent", b"not sent" not in seat.seen and b"not known" not in seat.seen, seat.seen)
        t.ok("and-so-nothing-was-lost", b"nothing was lost" in seat.seen, seat.seen)
        house.good("down", "--keep")
        seat.until(b"connection lost")
        seat.asks(b"nobody hears this\r", b"nobody hears this")
        seat.look(0.3)
        seat.type(DETACH)
        t.eq("the-key-leaves-while-nobody-is-there", seat.wait(), 0)
        t.ok("and-says-what-was-not-sent", b"not sent: nobody hears this" in seat.seen, seat.seen)
    house.good("up")
    t.eq("what-was-not-sent-is-not-sent", sent(house, id), lines)
    with Seat(house, "attach", "talk") as seat:
        seat.until(b"type a prompt")
        house.good("down", "--keep")
        seat.until(b"connection lost")
        more = ["more-%02d" % n for n in range(35)]
        for line in more:
            seat.asks(line.encode() + b"\r", line.encode())
        seat.until(b"too many lines wait")
        house.good("up")
        seat.until(b"reconnected")
        seat.look(0.3)
        t.ok("nothing-was-lost-is-not-said-of-lines-that-were", b"nothing was lost" not in seat.seen, seat.seen[-300:])
        t.eq("those-that-found-room-are-sent", sent(house, id), lines + more[:32])
        seat.type(DETACH)
        seat.wait()
    house.down()
