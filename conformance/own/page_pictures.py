"""Pictures of every view at three sizes in both themes, and a short recording: a question arrives, a phone answers, the daemon is killed, the
stream goes on. They are in target/page; nothing on any of them is wider than its screen, and nothing is cut off."""
import base64
import os
import struct
import subprocess
import sys
import time

from approvals_kit import LONG
from lib import area, wait_for
from page import ROOT, agent
from page_kit import DESK, PHONE, TABLET, House, chromium, context, go, logged_in, opened

OUT = os.path.join(ROOT, "target/page")
SIZES = {"desk": DESK, "tablet": TABLET, "phone": PHONE}
# Elements whose words are cut off or that stand outside of the screen, but for what scrolls or is made to be cut.
OUTSIDE = """() => [...document.querySelectorAll('main *, .login *')].filter(one => { const box = one.getBoundingClientRect(); return box.width && box.right > innerWidth + 1 && !one.closest('pre, .diff, .segments, .change, .row-line, iframe, .file') })
    .slice(0, 3).map(one => one.outerHTML.slice(0, 120))"""


def staged(house):
    """A day's work: things that need somebody, things that run, things that ended."""
    repo = house.dir + "/shop"
    os.mkdir(repo)
    with open(repo + "/shop.py", "w") as f:
        f.write("def total(prices):\n    sum = 0\n    for price in prices:\n        sum = sum + price\n    return sum\n")
    for args in (["init", "-q", "-b", "simplify-totals"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-q", "-m", "begin"]):
        subprocess.run(["git", "-C", repo, *args], check=True)
    work = agent(house, "simplify totals", repo)
    house.good("send", work, "WORK Simplify `total`, and keep what it does for an empty list.")
    asks = agent(house, "release build", repo)
    house.good("send", "--no-wait", asks, "RUN rm -rf build && make -j4 release")
    house("send", agent(house, "translations", repo), "LOGIN")
    slow = house.json("new", "echo", repo, "--name", "read the changelog")["id"]
    house.good("send", "--no-wait", slow, "SLOW:3000 reading")
    terminal = house.good("run", "-t", "-d", "--name", "tests", "--", "sh", "-c", "printf '\\033[32m✓\\033[0m 128 tests passed\\n\\033[2mwatching for changes…\\033[0m\\n'; sleep 900").split()[0]
    house.good("run", "--name", "lint", "--", "true")
    house.waiting()
    return work, asks, terminal


@area("page-pictures")
def pictures(t):
    os.makedirs(OUT, exist_ok=True)
    for name in [name for name in os.listdir(OUT) if name.endswith(".png")]:
        os.remove(os.path.join(OUT, name))
    empty = House(t).up()
    house = House(t).up()
    try:
        with chromium() as browser:
            links = {}
            for dark in (False, True):
                links[dark] = (logged_in(t, empty, browser, dark=dark), None)
            work, asks, terminal = staged(house)
            for dark in (False, True):
                theme = "dark" if dark else "light"
                page = logged_in(t, house, browser, "--name", "browser-" + theme, "--rights", "full", dark=dark)
                bare = links[dark][0]
                out = opened(t, context(browser, dark=dark), house.url())
                out.locator(".login").wait_for()
                views = {"now": (page, "/now", ".request.open"), "session": (page, "/session/" + work, ".turn-end"), "asked": (page, "/session/" + asks, ".request.open"), "changes": (page, "/session/%s/changes" % work, ".row.added"),
                         "approvals": (page, "/approvals", ".request.open"), "terminal": (page, "/process/" + terminal, "iframe.screen"), "new": (page, "/now", ".request.open"), "keys": (page, "/approvals", ".request.open"),
                         "empty": (bare, "/now", ".empty"), "empty-approvals": (bare, "/approvals", ".empty"), "login": (out, None, ".login")}
                for view, (shown, to, there) in views.items():
                    if to:
                        go(shown, to)
                    shown.locator(there).first.wait_for()
                    if view == "new":
                        shown.get_by_role("button", name="New session").click()
                        shown.get_by_role("button", name="echo", exact=True).wait_for()
                    elif view == "keys":
                        shown.keyboard.press("?")
                        shown.get_by_role("dialog").wait_for()
                    elif view == "terminal":
                        shown.frame_locator("iframe.screen").locator(".xterm-rows", has_text="128").wait_for()
                    for size, (width, height) in SIZES.items():
                        shown.set_viewport_size({"width": width, "height": height})
                        # An answer counts once a request has stood for a moment, and looks like it.
                        shown.wait_for_timeout(400 if there == ".request.open" and view not in ("new", "keys") else 60)
                        shown.screenshot(path="%s/%s-%s-%s.png" % (OUT, view, size, theme), animations="disabled")
                        # One test for each view and size: the two themes have one layout.
                        if not dark:
                            wide = shown.evaluate("document.documentElement.scrollWidth")
                            t.ok("%s-%s-fits" % (view, size), wide <= width and shown.evaluate(OUTSIDE) == [], (wide, shown.evaluate(OUTSIDE)))
                    if view in ("new", "keys"):
                        shown.keyboard.press("Escape")
                page.context.close()
            made = [name for name in os.listdir(OUT) if name.endswith(".png")]
            t.eq("every-view-at-three-sizes-in-both-themes", len(made), 11 * 3 * 2)
    finally:
        house.down()
        empty.down()


# Puts both screens side by side, and gives what changed since the frame before as a WebP with its place.
DRAW = """async ([desk, phone]) => {
    const load = data => new Promise((good, bad) => { const image = new Image(); image.onload = () => good(image); image.onerror = bad; image.src = 'data:image/png;base64,' + data });
    const [one, two] = [await load(desk), await load(phone)];
    const [width, height] = [960, 520], canvas = window.film ??= Object.assign(document.createElement('canvas'), { width, height }), pen = canvas.getContext('2d', { willReadFrequently: true });
    pen.fillStyle = '#d9d9d3'; pen.fillRect(0, 0, width, height);
    pen.drawImage(one, 16, 16, 664, 488); pen.drawImage(two, 700, 16, 244, 488);
    const now = pen.getImageData(0, 0, width, height).data, before = window.before;
    window.before = now;
    let [left, top, right, bottom] = [width, height, -1, -1];
    for (let at = 0; at < now.length; at += 4) if (!before || now[at] !== before[at] || now[at + 1] !== before[at + 1] || now[at + 2] !== before[at + 2]) { const x = (at / 4) % width, y = (at / 4 - x) / width; if (x < left) left = x; if (x > right) right = x; if (y < top) top = y; if (y > bottom) bottom = y }
    if (right < 0) return null;
    left &= ~1; top &= ~1;
    const part = Object.assign(document.createElement('canvas'), { width: right - left + 1, height: bottom - top + 1 });
    part.getContext('2d').drawImage(canvas, -left, -top);
    const url = part.toDataURL('image/webp', 0.72);
    return [left, top, part.width, part.height, url.slice(url.indexOf(',') + 1)] }"""


def film(frames, width=960, height=520):
    """Frames of (x, y, width, height, webp, milliseconds) as one animated WebP that begins again."""
    chunk = lambda name, data: name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)
    u24 = lambda number: struct.pack("<I", number)[:3]
    parts = [chunk(b"VP8X", bytes([2, 0, 0, 0]) + u24(width - 1) + u24(height - 1)), chunk(b"ANIM", b"\xff\xff\xff\xff" + struct.pack("<H", 0))]
    for x, y, w, h, webp, ms in frames:
        data, at, picture = webp, 12, b""
        while at + 8 <= len(data):
            name, length = data[at:at + 4], struct.unpack("<I", data[at + 4:at + 8])[0]
            if name in (b"VP8 ", b"VP8L", b"ALPH"):
                picture += data[at:at + 8 + length + length % 2]
            at += 8 + length + length % 2
        # Drawn over what is there, and left there.
        parts.append(chunk(b"ANMF", u24(x // 2) + u24(y // 2) + u24(w - 1) + u24(h - 1) + u24(ms) + bytes([2]) + picture))
    body = b"WEBP" + b"".join(parts)
    return b"RIFF" + struct.pack("<I", len(body)) + body


@area("page-film")
def recording(t):
    """The question arrives, the phone answers, the daemon is killed, the stream goes on; made of what the two browsers show."""
    os.makedirs(OUT, exist_ok=True)
    house = House(t).up()
    try:
        with chromium() as browser:
            desk = logged_in(t, house, browser, "--name", "desk", "--rights", "full", size=(1000, 735))
            phone = logged_in(t, house, browser, "--name", "phone", "--rights", "full", size=(360, 720), touch=True)
            studio = browser.new_page()
            frames = []

            def shoot(ms=150, until=None, seconds=LONG):
                stop = time.monotonic() + seconds
                while True:
                    both = [base64.b64encode(page.screenshot(animations="disabled", caret="hide")).decode() for page in (desk, phone)]
                    drawn = studio.evaluate(DRAW, both)
                    if drawn:
                        frames.append([*drawn[:4], base64.b64decode(drawn[4]), ms])
                    elif frames:
                        frames[-1][5] += ms
                    if until is None or until() or time.monotonic() > stop:
                        return

            repo = house.dir + "/shop"
            os.mkdir(repo)
            id = agent(house, "release", repo)
            go(desk, "/session/" + id)
            desk.get_by_text("Nothing was said yet").wait_for()
            shoot(900)
            house.good("send", "--no-wait", id, "Publish version 2.1, and tell me what changed.")
            phone.locator(".request.open").wait_for()
            desk.locator(".request.open").wait_for()
            shoot(1600)
            time.sleep(0.4)
            phone.get_by_role("button", name="Allow once").tap()
            phone.locator(".request.settled").wait_for()
            shoot(1200)
            answered = len(frames)
            desk.locator(".answer").first.wait_for()
            shoot(200, lambda: "half" in desk.locator(".answer").first.inner_text())
            os.kill(house.record()["pid"], 9)
            desk.locator(".lost").wait_for()
            shoot(900)
            shoot(200, lambda: desk.locator(".turn-end").count() > 0)
            shoot(2500)
            data = film(frames)
            with open(OUT + "/recording.webp", "wb") as f:
                f.write(data)
            t.ok("the-question-arrives-and-the-phone-answers", answered >= 2, answered)
            t.ok("the-kill-is-seen-and-the-stream-goes-on", desk.locator(".turn-end").count() == 1 and all(desk.locator(".transcript").inner_text().count(word) == 1 for word in ("three changes", "half as long", "once, although", "changelog")), desk.locator(".transcript").inner_text())
            t.ok("a-recording-of-modest-size", 10_000 < len(data) < 600_000 and len(frames) > 8, (len(data), len(frames)))
            size = studio.evaluate("data => new Promise((good, bad) => { const image = new Image(); image.onload = () => good([image.naturalWidth, image.naturalHeight]); image.onerror = () => bad('no picture'); image.src = 'data:image/webp;base64,' + data })", base64.b64encode(data).decode())
            t.eq("which-a-browser-shows", size, [960, 520])
    finally:
        house.down()
