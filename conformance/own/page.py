"""The page in a real browser: logging in, Now, a session as it is told, requests answered, two browsers, kills, what is hostile, and what a
screen reader would find."""
import fcntl
import json
import os
import pwd
import re
import shutil
import struct
import subprocess
import sys
import termios
import time

from approvals_kit import LONG, Terminal
from devices_kit import offered
from lib import area, wait_for
from page_kit import PHONE, House, chromium, context, go, logged_in, opened
from sessions_kit import Wire

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@area("page-login")
def login(t):
    house = House(t).up()
    try:
        with chromium() as browser:
            term, link = house.link("--rights", "full")
            first = context(browser)
            page = first.new_page()
            requests = []
            page.on("response", lambda response: requests.append(response))
            page.complaints = []
            page.on("console", lambda message: message.type in ("error", "warning") and page.complaints.append(message.text))
            page.goto(link)
            page.get_by_role("heading", name="Now").wait_for()
            t.eq("a-link-logs-in", term.wait(), 0)
            t.ok("the-link-is-gone-from-the-address", link.split("#")[1] not in page.url, page.url)
            print("page: the first screen takes %d requests and %d bytes" % (len(requests), sum(int(r.headers.get("content-length", 0)) for r in requests)), flush=True)
            t.ok("the-first-screen-is-small", len(requests) <= 15 and sum(int(r.headers.get("content-length", 0)) for r in requests) <= 150_000, [(r.url, r.headers.get("content-length")) for r in requests])
            t.eq("no-cookie", first.cookies(), [])
            t.eq("its-own-policy-stops-nothing-of-it", page.complaints, [])
            policy = requests[0].headers.get("content-security-policy", "")
            t.ok("a-strict-policy", all(rule in policy for rule in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'")) and "unsafe" not in policy, policy)
            page.reload()
            page.get_by_role("heading", name="Now").wait_for()
            t.ok("it-stays-logged-in", True)
            other = opened(t, context(browser), link)
            other.get_by_role("alert").wait_for()
            t.ok("a-link-works-once", "Now" not in other.content() and other.get_by_text("ostler web").count() > 0, other.inner_text("body"))
            # What has expired is forgotten, as all that was offered is with the daemon.
            _, link = house.link()
            house.good("restart")
            late = opened(t, context(browser), link)
            alert = late.get_by_role("alert")
            alert.wait_for()
            t.ok("an-expired-link-says-so-and-how-to-get-another", "has expired" in alert.inner_text() and late.locator(".shell", has_text="ostler web").is_visible() and late.get_by_text("open the link that it prints").is_visible(), late.inner_text("body"))
            stored = page.evaluate("""() => new Promise(done => { const open = indexedDB.open("ostler", 1); open.onsuccess = () => {
                const get = open.result.transaction("device").objectStore("device").get("self"); get.onsuccess = () => done([get.result.key.privateKey.extractable, 'tokens' in get.result]); } })""")
            t.eq("its-key-cannot-be-read-by-anybody", stored, [False, False])
    finally:
        house.down()


@area("page-talk")
def talk(t):
    """A session is begun on the page, is told as it goes on, asks, and is answered."""
    house = House(t).up()
    try:
        with chromium() as browser:
            page = logged_in(t, house, browser, "--rights", "full")
            t.ok("nothing-is-said-to-be-nothing", page.get_by_text("Nothing is open").is_visible())
            page.get_by_role("button", name="New session").click()
            page.get_by_label("Folder").fill(house.dir)
            page.get_by_role("button", name="echo", exact=True).click()
            page.get_by_label("What to do").fill("THINK TOOL **bold** words")
            page.get_by_role("button", name="Start").click()
            page.locator(".answer strong", has_text="bold").first.wait_for()
            t.ok("an-agent-is-started-in-two-clicks-and-answers", True)
            page.locator(".turn-end").wait_for()
            t.ok("thoughts-are-folded", page.locator("details.thought").count() == 1 and page.locator("details.thought[open]").count() == 0)
            t.ok("tools-are-shown", page.locator("details.tool").count() >= 1)
            box = page.get_by_label("prompt", exact=True)
            box.fill("SLOW:15 first")
            box.press("Enter")
            page.locator(".working").wait_for()
            box.fill("second, which waits")
            box.press("Enter")
            page.locator(".queue li", has_text="second, which waits").wait_for()
            t.ok("a-prompt-waits-where-it-is-seen", True)
            page.locator("[data-take-back]").click()
            page.locator(".turn-end", has_text="Stopped").wait_for()
            t.ok("what-waits-is-taken-back-into-the-box", "second, which waits" in box.input_value() and page.locator(".queue li").count() == 0)
            box.fill("ASK please")
            box.press("Enter")
            card = page.locator(".request.open")
            card.wait_for()
            t.ok("a-request-is-shown-where-it-is-asked", card.get_by_role("button", name="Allow once").is_visible())
            page.locator(".session-head .state.needs", has_text="waiting").wait_for()
            t.ok("and-nothing-says-that-it-works", page.locator(".waiting", has_text="waiting").is_visible() and page.locator(".working").count() == 0, page.inner_text("body"))
            time.sleep(0.4)
            card.get_by_role("button", name="Allow once").click()
            page.locator(".asked", has_text="Allowed once").wait_for()
            t.ok("and-says-by-whom-it-was-answered", "device" in page.locator(".asked").last.inner_text() or "chrome" in page.locator(".asked").last.inner_text(), page.locator(".asked").last.inner_text())
            signed = [row for row in house.audit() if '"signature"' in str(row).replace("'", '"')]
            t.ok("the-answer-is-signed-on-record", len(signed) > 0)
            page.get_by_label("more", exact=True).click()
            page.get_by_role("button", name="Search").click()
            page.get_by_label("search this session").fill("bold")
            page.get_by_text(re.compile(r"^[1-9]\d* here, 0 elsewhere$")).wait_for()
            t.ok("it-is-searched", page.locator(".item.is-words").count() >= 1 and page.locator(".item.is-ask").count() == 0)
            t.eq("nothing-went-wrong-on-the-page", page.complaints, [])
    finally:
        house.down()


# Everything that is heard from now on, so much later.
LATE = """{ const own = Object.getOwnPropertyDescriptor(WebSocket.prototype, 'onmessage');
    Object.defineProperty(WebSocket.prototype, 'onmessage', { set(heard) { own.set.call(this, event => window.late ? setTimeout(() => heard(event), window.late) : heard(event)) } }) }"""


@area("page-two")
def two(t):
    """A desk and a phone: what one answers the other sees, and the phone needs two taps."""
    house = House(t).up()
    try:
        with chromium() as browser:
            desk = logged_in(t, house, browser, "--name", "desk")
            phone = logged_in(t, house, browser, "--name", "phone", size=PHONE, touch=True)
            id = house.echo("hello")
            house.good("send", "--no-wait", id, "ASK one")
            for page in (desk, phone):
                page.locator(".request.open").wait_for()
            card = phone.locator(".request.open")
            box = card.bounding_box()
            shown = card.inner_text()
            t.ok("the-whole-request-is-on-the-first-screen", box["y"] + box["height"] <= PHONE[1] and house.dir in shown, (box, shown))
            t.ok("nothing-is-wider-than-the-phone", phone.evaluate("document.documentElement.scrollWidth") <= PHONE[0])
            time.sleep(0.4)
            card.get_by_role("button", name="Allow once").tap()
            phone.locator(".request.settled", has_text="phone").wait_for()
            desk.locator(".request.settled", has_text="phone").wait_for()
            t.ok("one-tap-answers-and-the-other-is-told-by-whom", True)
            # The desk hears late, and answers what the phone has answered.
            desk.context.add_init_script(LATE)
            desk.reload()
            house.good("send", "--no-wait", house.echo("again"), "ASK two")
            desk.locator(".request.open").wait_for()
            phone.locator(".request.open").wait_for()
            time.sleep(0.4)
            desk.evaluate("window.late = 2500")
            phone.locator(".request.open").get_by_role("button", name="Allow once").tap()
            phone.locator(".request.settled", has_text="phone").first.wait_for()
            desk.locator(".request.open").get_by_role("button", name="Deny", exact=True).click()
            desk.get_by_text(re.compile("already approved by device phone")).wait_for()
            t.ok("who-answers-second-is-told-by-whom-it-was-answered", ["once" in str(row["record"]["decision"]) for row in house.audit("decided")] == [True, True], house.audit("decided"))
            edit(t, house, phone)
            id = house.echo("at the desk")
            house.good("send", "--no-wait", id, "ASK three")
            phone.locator(".request.open").wait_for()
            t.eq("somebody-at-a-terminal-denies", Terminal(house, "deny").wait(), 0)
            who = "Denied by %s at /dev/pts/" % pwd.getpwuid(os.getuid()).pw_name
            phone.locator(".request.settled", has_text=who).wait_for()
            go(phone, "/session/" + id)
            phone.locator(".asked", has_text=who[len("Denied "):]).wait_for()
            t.ok("and-is-called-by-name-wherever-it-is-told", True)
            t.eq("nothing-went-wrong-on-either", desk.complaints + phone.complaints, [])
    finally:
        house.down()


def edit(t, house, phone):
    """A change and a command: all that decides is on the first screen of a phone, and two taps from its notice answer."""
    shop = house.dir + "/shop"
    os.mkdir(shop)
    for name, words, whole in (("change", "EDIT a line that is longer than a phone is wide, and its end", ["Edit shop.py", "shop.py", "sum = sum + price", "return sum(prices)", "and its end", shop]), ("command", "RUN rm -rf build && make -j4 release", ["rm -rf build && make -j4 release", shop])):
        id = agent(house, name, shop)
        house.good("send", "--no-wait", id, words)
        phone.locator(".request.open").wait_for()
        # As from a notice: the first tap opens the page.
        phone.goto(house.url())
        card = phone.locator(".request.open")
        card.wait_for()
        t.eq("all-of-a-%s-is-in-view-on-the-first-screen" % name, out_of_view(phone, whole), [])
        t.eq("with-its-answers-%s" % name, [one for one in ("once", "deny") if not in_view(phone, card.locator("[data-answer=%s]" % one).bounding_box())], [])
        time.sleep(0.4)
        card.locator("[data-answer=once]").tap()
        phone.locator(".request.settled", has_text="phone").first.wait_for()
        t.ok("and-the-second-tap-answers-%s" % name, wait_for(lambda: house.pending() == [], LONG, 0.1), house.pending())


def in_view(page, box):
    bar = page.locator(".nav").bounding_box()
    return box["y"] >= 0 and box["x"] >= 0 and box["x"] + box["width"] <= PHONE[0] and box["y"] + box["height"] <= bar["y"]


def out_of_view(page, texts):
    """Those of these texts of a request that somebody would have to scroll for, in any direction."""
    found = """([words, bottom]) => { const box = document.querySelector('.request.open .request-text'), walk = document.createTreeWalker(box, NodeFilter.SHOW_TEXT), around = box.getBoundingClientRect();
        for (let node = walk.nextNode(); node; node = walk.nextNode()) { const at = node.data.indexOf(words); if (at < 0) continue; const range = document.createRange(); range.setStart(node, at); range.setEnd(node, at + words.length); const place = range.getBoundingClientRect();
            const inner = node.parentElement.closest('.diff')?.getBoundingClientRect() ?? around;
            if (place.top >= around.top && place.bottom <= Math.min(around.bottom, bottom) && place.left >= inner.left && place.right <= inner.right) return true } return false }"""
    return [words for words in texts if not page.evaluate(found, [words, page.locator(".nav").bounding_box()["y"]])]


def positions(text):
    """The changes that a message tells of."""
    messages = [json.loads(line) for line in text.splitlines() if "feed.changes" in line]
    return [change["position"] for message in messages for change in message["params"]["changes"]]


def followed(text):
    """How a message follows the feed, if it does."""
    message = json.loads(text)
    return [message["params"]] if message.get("method") == "feed.follow" else []


@area("page-kill")
def kill(t):
    """kill -9 in the middle of an answer: the page says so, goes on by position, and has every word once."""
    house = House(t).up()
    try:
        with chromium() as browser:
            page = logged_in(t, house, browser)
            told, follows = [], []
            page.on("websocket", lambda socket: (socket.on("framereceived", lambda text: told.extend(positions(text))), socket.on("framesent", lambda text: follows.extend(followed(text)))))
            page.reload()
            page.get_by_role("heading", name="Now").wait_for()
            id = house.echo()
            go(page, "/session/" + id)
            box = page.get_by_label("prompt", exact=True)
            box.fill("SLOW:25 " + " ".join("w%d" % n for n in range(25)))
            box.press("Enter")
            page.locator(".answer", has_text="w3").wait_for()
            os.kill(house.record()["pid"], 9)
            page.locator(".lost").wait_for()
            last = told[-1]
            t.ok("it-says-that-the-connection-is-lost", True)
            page.locator(".lost").wait_for(state="detached")
            page.locator(".turn-end").wait_for()
            said = page.locator(".answer").last.inner_text()
            counts = [said.split().count("w%d" % n) for n in range(25)]
            t.eq("every-word-is-there-once", counts, [1] * 25)
            t.eq("it-goes-on-after-the-last-change-that-it-was-told", follows[1:], [{"after": last}])
            all = lambda: [change["position"] for change in Wire(house.record()["native"]).call("feed.read", after=told[0].split(".")[0])["result"]["changes"]]
            wait_for(lambda: told[-1] == all()[-1], LONG, 0.1)
            t.eq("every-change-is-told-once", told[told.index(all()[0]):], all())
            t.eq("one-prompt-one-answer-one-end", [page.locator(".item.is-" + kind).count() for kind in ("prompt", "end")], [1, 1])
    finally:
        house.down()


@area("page-revoked")
def revoked(t):
    house = House(t).up()
    try:
        with chromium() as browser:
            page = logged_in(t, house, browser, "--name", "guest")
            id = house.echo()
            go(page, "/session/" + id)
            house.good("send", "--no-wait", id, "SLOW:300 something private")
            page.locator(".answer", has_text="3").wait_for()
            began = time.monotonic()
            terminal = Terminal(house, "devices", "revoke", "guest")
            t.eq("it-is-revoked", terminal.wait(), 0)
            page.locator(".login").wait_for()
            t.ok("a-revoked-browser-is-out-at-once-in-mid-stream", time.monotonic() - began < 5, time.monotonic() - began)
            t.ok("and-nothing-of-what-it-saw-stays", "private" not in page.content())
            page.reload()
            page.locator(".login").wait_for()
            t.ok("also-after-a-reload", page.get_by_role("heading", name="Now").count() == 0)
    finally:
        house.down()


def agent(house, name, folder=None):
    """A session with the agent that does what the page has to show."""
    script = os.path.join(ROOT, "conformance/own/page_agent.py")
    house.good("new", "--name", name, "acp", folder or house.dir, "--", sys.executable, script)
    return next(s["id"] for s in house.json("sessions") if s.get("name") == name)


@area("page-hostile")
def hostile(t):
    """Whatever an agent says is shown and does nothing."""
    house = House(t).up()
    try:
        with chromium() as browser:
            page = logged_in(t, house, browser)
            asked = []
            page.on("request", lambda request: asked.append(request.url))
            folder = house.dir + "/<img src=x onerror=window.owned=1>"
            os.mkdir(folder)
            id = agent(house, "bad", folder)
            house.good("send", id, "HOSTILE")
            go(page, "/session/" + id)
            page.locator(".turn-end").wait_for()
            page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
            page.mouse.move(400, 30)
            page.evaluate("document.querySelectorAll('.transcript a').forEach(one => one.click())")
            t.eq("nothing-runs", page.evaluate("window.owned"), None)
            t.eq("nothing-is-made-of-it", page.evaluate("""[...document.querySelectorAll('.transcript img, .transcript script, .transcript style, .transcript svg, .transcript iframe, .transcript form, .transcript input, .transcript [onerror], .transcript [style]')]
                .map(one => one.outerHTML.slice(0, 80))"""), [])
            t.eq("nothing-is-fetched", [url for url in asked if ":9/" in url], [])
            t.eq("no-link-runs-anything", page.evaluate("[...document.querySelectorAll('a[href]')].filter(one => !/^(#|https?:)/.test(one.getAttribute('href'))).length"), 0)
            text = page.locator(".transcript").evaluate("one => one.textContent")
            t.ok("letters-that-turn-others-round-are-written-out", "U+202E" in text and "\u202e" not in text)
            t.ok("what-moves-a-cursor-is-left-out", "\x1b" not in text and "red" in text)
            t.ok("a-line-of-10-mb-is-left-out-and-one-of-5-cut-and-both-are-said-to-be", "bytes was left out" in text and "Too long to be shown here" in text and len(text) < 400_000, (len(text), text[-300:]))
            house.good("send", "--no-wait", id, "HIDES")
            page.locator(".request.open").wait_for()
            card = page.locator(".request.open").first.evaluate("one => one.textContent")
            t.ok("nothing-of-a-request-is-left-out", "echo hi \u241b]; touch hidden ;\u2407 done" in card and "a\u27e8U+202E\u27e9b" in card, card)
            go(page, "/now")
            page.get_by_role("heading", name="Now").wait_for()
            t.ok("a-hostile-name-is-a-name", page.get_by_text("<img src=x onerror").count() > 0 and page.evaluate("window.owned") is None)
            page.evaluate("void setTimeout(function breaks() { throw new Error('seen by nobody') })")
            page.evaluate("void Promise.reject(new Error('promised to nobody'))")
            found = lambda: "seen by nobody" in logged(house) and "promised to nobody" in logged(house)
            t.ok("what-goes-wrong-on-the-page-is-in-the-log-with-its-stack", wait_for(found, 10, 0.2) and "at breaks" in logged(house), logged(house)[-600:])
    finally:
        house.down()


def logged(house):
    found = ""
    for folder, _, names in os.walk(house.state):
        for name in names:
            if name.endswith(".log"):
                with open(os.path.join(folder, name), errors="replace") as f:
                    found += f.read()
    return found


@area("page-many")
def many(t):
    """A session of 100,000 events: its end is there at once, it is read backwards page by page, and what is held has a bound."""
    house = House(t).up()
    try:
        id = agent(house, "long")
        house.good("send", id, "MANY:100000")
        last = house.json("sessions")[0]["last"]
        t.ok("so-many-records", last >= 100_000, last)
        house.good("restart")
        pid, wire = house.daemon_pid(), Wire(house.record()["native"])
        so_far = lambda: int(re.search(r"rchar: (\d+)", open("/proc/%d/io" % pid).read()).group(1))
        before, end = so_far(), wire.call("session.read", id=id, limit=50)["result"]
        read = so_far() - before
        t.ok("its-end-is-read-without-the-rest", end["records"][-1]["record"] == last and read < 1 << 20, (read, len(end["records"])))
        with chromium() as browser:
            page = logged_in(t, house, browser)
            began = time.monotonic()
            go(page, "/session/" + id)
            page.locator(".answer", has_text="counted").wait_for()
            t.ok("its-end-is-shown-at-once", time.monotonic() - began < 10, time.monotonic() - began)
            box, oldest = page.locator(".transcript"), None
            most, used = 0, []
            for _ in range(28):
                box.evaluate("one => { one.scrollTop = 0; one.dispatchEvent(new Event('scroll')) }")
                before = oldest
                wait_for(lambda: first_step(page) not in (None, before), 10, 0.02)
                oldest = first_step(page)
                most = max(most, page.locator(".item").count())
                used.append(heap(page))
            t.ok("scrolling-back-reads-older-ones", oldest is not None and oldest < 12_500 - 1_000, oldest)
            t.ok("what-is-held-has-a-bound", most <= 3_000, most)
            print("page: %.1f MB of script heap at most in 14 pages of 100,000 events, %.1f MB in 14 more" % (max(used[:14]) / 1e6, max(used[14:]) / 1e6), flush=True)
            t.ok("and-memory-stays-flat", max(used[14:]) < max(used[:14]) + HEAP_SLACK, used)
            page.get_by_role("button", name="Newest").click()
            page.locator(".answer", has_text="counted").wait_for()
            t.ok("and-the-newest-is-one-click-away", True)
            found(t, page)
            copied(t, house, page)
            t.eq("nothing-went-wrong-on-the-page", page.complaints, [])
    finally:
        house.down()


# What is drawn at the moment differs; fourteen pages that stayed would be many times that.
HEAP_SLACK = 4_000_000


def heap(page):
    """Bytes of the page's script that somebody still holds."""
    tools = page.context.new_cdp_session(page)
    tools.send("HeapProfiler.collectGarbage")
    tools.send("Performance.enable")
    return next(one["value"] for one in tools.send("Performance.getMetrics")["metrics"] if one["name"] == "JSHeapUsedSize")


def found(t, page):
    """Words far before the window are found, and one click goes there and back."""
    page.get_by_label("more", exact=True).click()
    page.get_by_role("button", name="Search").click()
    page.get_by_label("search this session").fill("step 77 is")
    hit = page.locator("[data-hit]").first
    hit.wait_for()
    t.ok("words-are-found-far-before-the-window", "step 77 is done" in hit.inner_text() and "0 here" in page.locator(".find [role=status]").inner_text(), page.locator(".find").inner_text())
    hit.click()
    there = page.locator(".item.found", has_text="step 77 is done")
    there.wait_for()
    seen = there.evaluate("one => { const box = one.getBoundingClientRect(), around = one.closest('.transcript').getBoundingClientRect(); return box.bottom > around.top && box.top < around.bottom }")
    t.ok("and-one-click-shows-them-among-what-was-said-then", seen and page.locator(".item", has_text="step 80 is done").count() > 0 and page.locator(".find").count() == 0, seen)
    page.get_by_role("button", name="Newest").click()
    page.locator(".answer", has_text="counted").wait_for()
    t.ok("and-back", page.locator(".item.found").count() == 0)


def copied(t, house, page):
    """A document has what is not loaded too, and says what does not fit."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=house.url().rstrip("/"))

    def copy():
        page.get_by_label("more", exact=True).click()
        page.get_by_role("button", name="Copy as a document").click()
        page.get_by_role("button", name="Copied").wait_for()
        page.keyboard.press("Escape")
        return page.evaluate("navigator.clipboard.readText()")

    text = copy()
    said = set(re.findall(r"step (\d+) is", text))
    t.ok("a-document-has-what-is-not-loaded-too", text.startswith("# long\n\n> MANY:100000") and "left out" not in text and len(said) == 12_500 and "counted" in text, (text[:200], len(said)))
    other = agent(house, "deep")
    house.good("send", other, "THINK:2100")
    go(page, "/session/" + other)
    page.locator(".turn-end").wait_for()
    text = copy()
    t.ok("one-that-is-too-long-says-so-and-how-to-get-all", text.startswith("# deep\n\n*Older messages are left out here; all of them: `ostler export %s`*\n\nthought" % other) and 1_000 <= text.count("thought") < 2_000, (text[:200], text.count("thought")))


def first_step(page):
    found = re.search(r"step (\d+)", page.locator(".transcript-inner").evaluate("one => one.textContent.slice(0, 4000)"))
    return int(found.group(1)) if found else None


FRAMES = """() => { window.frames_seen = { last: performance.now(), long: 0, count: 0 }; const tick = now => { const seen = window.frames_seen; if (now - seen.last > 50) seen.long++; seen.count++; seen.last = now; requestAnimationFrame(tick) }; requestAnimationFrame(tick) }"""


@area("page-stream")
def stream(t):
    """What it costs to show what an agent says: printed, and bounded far above what it is."""
    house = House(t).up()
    try:
        with chromium() as browser:
            page = logged_in(t, house, browser)
            id = agent(house, "fast")
            go(page, "/session/" + id)
            page.get_by_text("Nothing was said yet").wait_for()
            tools = page.context.new_cdp_session(page)
            tools.send("Performance.enable")
            cpu = lambda: next(one["value"] for one in tools.send("Performance.getMetrics")["metrics"] if one["name"] == "ScriptDuration")
            page.evaluate(FRAMES)
            before = cpu()
            house.good("send", id, "MANY:8000")
            page.locator(".answer", has_text="counted").wait_for()
            spent, frames = (cpu() - before) / 8, page.evaluate("window.frames_seen")
            print("page: %.0f ms of script for 1,000 streamed events, %d of %d frames longer than 50 ms" % (spent * 1000, frames["long"], frames["count"]), flush=True)
            t.ok("script-for-1000-events-is-bounded", spent < 3, spent)
    finally:
        house.down()


@area("page-keys")
def keys(t):
    """By keyboard alone, from the first screen to an answer."""
    house = House(t).up()
    try:
        with chromium() as browser:
            page = logged_in(t, house, browser, "--rights", "full")
            press = page.keyboard.press
            press("?")
            page.get_by_role("dialog").get_by_text("these keys").wait_for()
            t.ok("a-key-shows-the-keys", True)
            press("Escape")
            page.get_by_role("dialog").wait_for(state="hidden")
            press("c")
            page.get_by_label("Folder").wait_for()
            page.get_by_label("Folder").focus()
            press("ControlOrMeta+a")
            page.keyboard.type(house.dir)
            page.get_by_role("button", name="echo", exact=True).wait_for()
            while page.evaluate("document.activeElement.name") != "prompt":
                press("Tab")
            page.keyboard.type("ASK me")
            while page.evaluate("document.activeElement.textContent") != "Start":
                press("Tab")
            press("Enter")
            page.locator(".request.open").wait_for()
            press("r")
            t.ok("a-key-goes-to-the-request", page.evaluate("document.activeElement.className") == "request-text")
            time.sleep(0.4)
            while page.evaluate("document.activeElement.textContent") != "Allow once":
                press("Tab")
            press("Enter")
            page.locator(".asked", has_text="Allowed once").wait_for()
            t.ok("and-it-is-answered-by-keys", True)
            press("i")
            page.keyboard.type("more")
            press("Enter")
            page.locator(".prompt-text", has_text="more").wait_for()
            press("Escape")
            press("g")
            press("n")
            page.get_by_role("heading", name="Now").wait_for()
            # What ends goes to another list, and takes its place in the order of keys along.
            wait_for(lambda: all(one["status"] == "idle" for one in house.json("sessions")), LONG)
            page.locator("[data-hosted]").first.wait_for()
            while page.evaluate("document.activeElement.dataset.hosted === undefined"):
                press("j")
            press("Enter")
            page.locator(".transcript").wait_for()
            t.ok("there-and-back-by-keys", True)
    finally:
        house.down()


@area("page-reader")
def reader(t):
    """Every view, in both themes, as a screen reader finds it."""
    house = House(t).up()
    try:
        talks = agent(house, "talks")
        with open(house.dir + "/shop.py", "w") as f:
            f.write("x\n")
        house.good("send", talks, "WORK please")
        house.good("send", "--no-wait", agent(house, "asks"), "EDIT it")
        runs = house.good("run", "-t", "-d", "--", "sh", "-c", "echo ready; sleep 600").split()[0]
        house.waiting()
        with open(t.opt.original) as f:
            axe = f.read()
        with chromium() as browser:
            for dark in (False, True):
                page = logged_in(t, house, browser, "--rights", "full", dark=dark)
                for view, there in (("/now", ".request.open"), ("/session/" + talks, ".turn-end"), ("/session/%s/changes" % talks, ".change"), ("/approvals", ".request.open"), ("/process/" + runs, "iframe.screen"), ("/now", "dialog[open] [name=folder]"), ("", ".login")):
                    if view:
                        go(page, view)
                    else:
                        page = opened(t, context(browser, dark=dark), house.url())
                    if "dialog" in there:
                        page.get_by_role("button", name="New session").click()
                    page.locator(there).first.wait_for()
                    # Through the debugger, which the policy of the page does not hold up.
                    found = page.context.new_cdp_session(page).send("Runtime.evaluate", {"expression": axe + "\n;axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify(r.violations.filter(v => ['serious', 'critical'].includes(v.impact)).map(v => [v.id, v.nodes.slice(0, 3).map(n => n.html.slice(0, 120))])))",
                                                                             "awaitPromise": True, "returnByValue": True})
                    name = "-new" if "dialog" in there else view.replace(talks, "one").replace(runs, "one").replace("/", "-") or "-login"
                    t.eq("axe%s-%s" % (name, "dark" if dark else "light"), found["result"].get("value"), "[]")
    finally:
        house.down()


@area("page-code")
def code(t):
    """A phone that is let in by six digits, after a person said yes."""
    house = House(t).up()
    try:
        with chromium() as browser:
            term = Terminal(house, "pair", "--name", "pocket")
            digits, _ = offered(term)
            phone = opened(t, context(browser, PHONE, touch=True), house.url())
            phone.get_by_label("six digits").fill(digits)
            phone.get_by_role("button", name="Enter").tap()
            phone.get_by_text("Say yes in the terminal").wait_for()
            t.ok("a-person-is-asked-first", phone.get_by_role("heading", name="Now").count() == 0)
            term.press(b"y")
            phone.get_by_role("heading", name="Now").wait_for()
            t.eq("and-then-it-is-in", term.wait(), 0)
            go(phone, "/approvals")
            phone.locator("main").get_by_text("pocket").first.wait_for()
            t.ok("it-sees-what-it-may-do", "answer once" in phone.locator("main").inner_text())
            phone.get_by_role("button", name="Log out").tap()
            phone.get_by_role("button", name="Really?").tap()
            phone.locator(".login").wait_for()
            t.ok("and-puts-itself-out", wait_for(lambda: house.json("devices") == [], 10, 0.2), house.json("devices"))
    finally:
        house.down()


@area("page-changes")
def changes(t):
    """What it changed, and a comment on a line of it that the agent gets."""
    house = House(t).up()
    try:
        repo = house.dir + "/shop"
        os.mkdir(repo)
        with open(repo + "/shop.py", "w") as f:
            f.write("def total(prices):\n    sum = 0\n    for price in prices:\n        sum = sum + price\n    return sum\n")
        for args in (["init", "-q", "-b", "main"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-q", "-m", "begin"]):
            subprocess.run(["git", "-C", repo, *args], check=True)
        with chromium() as browser:
            page = logged_in(t, house, browser)
            id = agent(house, "fix", repo)
            house.good("send", id, "WORK please")
            go(page, "/session/%s" % id)
            page.get_by_role("link", name="Changes").click()
            file = page.locator("[data-file='shop.py']")
            file.locator(".added", has_text="return sum(prices)").wait_for()
            t.ok("what-git-knows-is-shown", file.locator(".removed").count() == 4)
            page.get_by_role("button", name="Side by side").click()
            t.ok("side-by-side", file.locator(".pair").count() > 0)
            page.get_by_role("button", name="Unified").click()
            page.get_by_role("button", name="Turn 1").click()
            page.locator(".change", has_text="shop.py").first.wait_for()
            t.ok("turn-by-turn", page.get_by_role("heading", name=re.compile("Turn 1")).count() == 1)
            page.get_by_role("button", name="All", exact=True).click()
            row = file.locator(".row.added", has_text="return sum(prices)")
            row.hover()
            row.locator(".note-line").click()
            page.get_by_label("comment", exact=True).fill("And what of None?")
            page.get_by_role("button", name="Keep").click()
            page.get_by_label("about all of it").fill("Nearly.")
            page.get_by_role("button", name="Send 1 comment").click()
            page.locator(".answer", has_text="And what of None?").wait_for()
            said = page.locator(".answer").last.inner_text()
            t.ok("the-agent-gets-the-comment-with-its-line", all(part in said for part in ("Nearly.", "shop.py", "line 3", "return sum(prices)", "And what of None?")), said)
            t.eq("nothing-went-wrong-on-the-page", page.complaints, [])
    finally:
        house.down()


@area("page-terminal")
def terminal(t):
    """A program on a terminal, typed into by who may and looked at by who may not, in a frame of its own."""
    house = House(t).up()
    try:
        id = house.good("run", "-t", "-d", "--", "sh", "-c", "printf '\\033[1mready\\033[0m\\n'; while read line; do echo \"heard $line\"; done").split()[0]
        with chromium() as browser:
            page = logged_in(t, house, browser, "--rights", "full")
            go(page, "/process/" + id)
            screen = page.frame_locator("iframe.screen")
            screen.locator(".xterm-rows", has_text="ready").wait_for()
            t.ok("it-is-drawn", True)
            screen.locator("textarea").focus()
            page.keyboard.type("words")
            page.keyboard.press("Enter")
            screen.locator(".xterm-rows", has_text="heard words").wait_for()
            t.ok("it-is-typed-into", True)
            os.kill(house.record()["pid"], 9)
            page.locator(".lost").wait_for()
            page.locator(".lost").wait_for(state="detached")
            screen.locator("textarea").focus()
            page.keyboard.type("again")
            page.keyboard.press("Enter")
            screen.locator(".xterm-rows", has_text="heard again").wait_for()
            shown = screen.locator(".xterm-rows").inner_text()
            t.eq("after-a-kill-it-goes-on-with-nothing-twice", [shown.count("heard words"), shown.count("heard again")], [1, 1])
            t.eq("its-frame-connects-to-nothing", page.frames[1].evaluate("fetch('/').then(() => 'fetched', () => 'refused')"), "refused")
            looks = logged_in(t, house, browser, "--rights", "watch")
            go(looks, "/process/" + id)
            looks.frame_locator("iframe.screen").locator(".xterm-rows", has_text="heard again").wait_for()
            looks.frame_locator("iframe.screen").locator("textarea").focus()
            looks.keyboard.type("nothing")
            looks.keyboard.press("Enter")
            looks.get_by_text("may look, not type").wait_for()
            t.ok("who-may-only-look-types-nothing", "nothing" not in screen.locator(".xterm-rows").inner_text())
    finally:
        house.down()


@area("page-terminal-answers")
def terminal_answers(t):
    """Whoever looks at a terminal on the page types nothing: a widget answers what programs ask their terminal, and nobody wants that here."""
    house = House(t).up()
    try:
        term = Terminal(house, "run", "-t", "--name", "shell", "--", "sh", "-c", "PS1='prompt> ' TERM=xterm exec sh")
        fcntl.ioctl(term.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        term.until(b"prompt> ")
        term.type(b"vim -u DEFAULTS -c 'set ttymouse=sgr mouse=a' f.txt\r")
        term.until(b"\x1b[6n")
        term.until(b"~")
        term.type(b":q!\r")
        term.until(b"\x1b[?1049l")
        # What else a terminal answers: attributes, its size, modes, colours, settings; and that it has the focus, told to who begins to ask.
        asks = "[c [>c [6n [?6n [5n [18t [?2026$p ]11;?\\007 ]4;1;?\\007 P$qm\\033\\\\ [?1004h [?1004l".split()
        term.type(("printf '%s'; echo ask''ed\r" % "".join("\\033" + ask for ask in asks)).encode())
        term.until(b"asked")
        term.type(b"\x1d")
        term.wait()

        def told():
            one = next(row for row in house.json("ps") if row["name"] == "shell")
            return one["id"], one["stdin_applied"], house.good("logs", "shell", "--screen").splitlines()[-1].strip()

        id, before, screen = told()
        with chromium() as browser:
            page = logged_in(t, house, browser, "--rights", "full")
            for _ in range(2):
                go(page, "/process/" + id)
                page.frame_locator("iframe.screen").locator(".xterm-rows", has_text="asked").wait_for()
                time.sleep(1)
                go(page, "/now")
                page.locator("[data-hosted]").first.wait_for()
            t.eq("who-comes-and-goes-types-nothing", told(), (id, before, screen))
            go(page, "/process/" + id)
            shown = page.frame_locator("iframe.screen")
            shown.locator(".xterm-rows", has_text="asked").wait_for()
            shown.locator("textarea").focus()
            keys = "echo 'l'ive; printf '\\033[6n\\033[c'; echo don''e"
            page.keyboard.type(keys)
            page.keyboard.press("Enter")
            shown.locator(".xterm-rows", has_text="done").wait_for()
            time.sleep(1)
            t.eq("nothing-but-the-keys-arrives", told()[1] - before, len(keys) + 1)
            page.keyboard.press("Control+L")
            page.keyboard.type("cat -v")
            page.keyboard.press("Enter")
            page.keyboard.press("Shift+F3")
            page.keyboard.press("Enter")
            shown.locator(".xterm-rows", has_text="^[[1;2R").wait_for()
            t.ok("a-key-that-looks-like-an-answer-does", True)
            t.eq("nothing-went-wrong-on-the-page", page.complaints, [])
    finally:
        house.down()


# What a page wants of another one in the same browser: what it keeps, its connection, its script, its window, itself in a frame.
WANTS = {
    "what-it-keeps": "async url => (await indexedDB.databases()).some(one => one.name === 'ostler')",
    "a-cookie": "async url => { const answer = await fetch(url, {credentials: 'include'}).then(r => r.status, () => 0); return document.cookie !== '' || answer === 200 }",
    "its-connection": "url => new Promise(done => { const ws = new WebSocket(url.replace('http', 'ws') + 'rpc'); ws.onopen = () => done(true); ws.onerror = () => done(false) })",
    "its-script": "url => new Promise(done => { const script = document.createElement('script'); script.type = 'module'; script.src = url + 'app.js'; script.onload = () => done(true); script.onerror = () => done(false); document.head.append(script) })",
    "itself-in-a-frame": "url => new Promise(done => { const frame = document.createElement('iframe'); frame.onload = () => { try { done(frame.contentDocument.body.textContent.length >= 0) } catch { done(false) } }; frame.src = url + 'terminal'; document.body.append(frame) })",
    "its-window": "async url => { const other = window.open(url); await new Promise(later => setTimeout(later, 1000)); try { return Boolean(other.document.getElementById('page')) } catch { return false } finally { other?.close() } }",
}
# Those that ask the browser for what it gives only to the same origin, and that the page's own policy keeps from itself.
OF_ITS_OWN = ("its-script", "its-window")


@area("page-other-port")
def other_port(t):
    """A page that a hosted program serves on another port of this host, in the same browser: it gets nothing of ours, and each try gets what it wants
    where it may."""
    house = House(t).up()
    try:
        # The same files, so that what it may not have of ours it has of its own.
        folder = house.dir + "/site"
        shutil.copytree(os.path.join(ROOT, "web/dist"), folder)
        with open(folder + "/other.html", "w") as f:
            f.write("<!doctype html><title>other</title><body>other")
        id = house.good("run", "-d", "--", sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", folder).split()[0]
        serving = lambda: re.search(r"http://127.0.0.1:(\d+)/", house.good("logs", id))
        wait_for(serving, LONG, 0.1)
        port = int(serving().group(1))
        with chromium() as browser:
            page = logged_in(t, house, browser)
            other = page.context.new_page()
            for host in ("127.0.0.1", "localhost"):
                own = "http://%s:%d/" % (host, port)
                other.goto(own + "other.html")
                for name, want in WANTS.items():
                    t.eq("%s-has-not-%s" % (host, name), other.evaluate(want, house.url()), False)
                for name in OF_ITS_OWN:
                    t.eq("control-%s-has-%s-of-its-own" % (host, name), other.evaluate(WANTS[name], own), True)
            for name in WANTS.keys() - set(OF_ITS_OWN):
                t.eq("control-it-has-%s-itself" % name, page.evaluate(WANTS[name], house.url()), True)
            t.ok("all-of-it-from-a-hosted-program", any(one["id"] == id and one.get("state", "running") == "running" for one in house.json("ps")), house.json("ps"))
    finally:
        house.down()
