"""The page at /pair in a real browser as narrow as a phone: what it shows, how long that is good, and a browser that was given the link of
`cdev pair`, once, and then accepts and refuses who waits."""
import os
import re

from approvals_kit import LONG, House, Terminal
from cdev_kit import Port
from lib import area, wait_for
from page_kit import chromium, context, opened

NARROW = (360, 740)


def shown_by(term):
    term.until(b"q to stop", LONG)
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", term.seen.decode(errors="replace"))
    return re.search(r"http://\S+/pair#[A-Za-z0-9_-]{43}", text).group(0)


def fits(page):
    """Nothing is cut off or wider than the screen."""
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth && [...document.querySelectorAll('main *')].every(e => e.getBoundingClientRect().right <= innerWidth + 1)")


@area("cdev-pair-page")
def pair_page(t):
    house = House(t).up()
    try:
        address = next(d["address"] for d in house.record()["doors"] if d["name"] == "cdev")
        port = Port(int(address.rsplit(":", 1)[1]))
        with chromium() as browser:
            plain = opened(t, context(browser, NARROW, touch=True), "http://127.0.0.1:%d/pair" % port.port)
            plain.locator("#may-not").wait_for()
            code = plain.locator(".code").inner_text().replace(" ", "")
            t.ok("a-square-and-six-digits", plain.locator(".square svg").count() == 1 and re.fullmatch(r"\d{6}", code), code)
            t.ok("it-fits-360-pixels", fits(plain))
            left = lambda: [int(n) for n in plain.locator("#left").inner_text().split(":")]
            first = left()
            t.ok("the-time-runs", wait_for(lambda: left() < first, LONG, 0.2) and first[0] <= 10, (first, left()))
            t.ok("who-has-no-link-decides-nothing", plain.locator("button").count() == 0)

            term = Terminal(house, "as", "cdev", "pair")
            link = shown_by(term)
            page = opened(t, context(browser, NARROW, dark=True, touch=True), link)
            page.locator("#may").wait_for()
            t.ok("the-link-is-gone-from-the-address", "#" not in page.url, page.url)
            late = opened(t, context(browser, NARROW), link)
            late.locator("#may-not").wait_for()
            t.ok("a-link-works-once", late.locator("#told").inner_text() != "" and late.locator("button").count() == 0, late.locator("body").inner_text())

            asked = {name: (token, port.exchange(token, User_Agent=name)) for name, token in ((n, port.token()) for n in ("Phone", "Stranger"))}
            rows = page.locator("#list li")
            t.ok("who-waits-is-shown", wait_for(lambda: rows.count() == 2, LONG, 0.2), page.locator("body").inner_text())
            sizes = page.evaluate("[...document.querySelectorAll('button')].map(b => { const r = b.getBoundingClientRect(); return [r.width, r.height] })")
            t.ok("buttons-are-large-enough-for-a-thumb", all(width >= 44 and height >= 40 for width, height in sizes), sizes)
            t.ok("and-still-fit", fits(page))
            if os.environ.get("CDEV_SHOTS"):
                page.screenshot(path=os.environ["CDEV_SHOTS"] + "/pair-dark.png", full_page=True)
                plain.screenshot(path=os.environ["CDEV_SHOTS"] + "/pair-light.png", full_page=True)
            status = lambda name: port.exchange(asked[name][0], User_Agent=name).status
            t.eq("both-wait", (status("Phone"), status("Stranger")), (202, 202))
            page.get_by_role("button", name="Accept Phone").tap()
            t.ok("accept-lets-in", wait_for(lambda: status("Phone") == 200, LONG, 0.2))
            page.get_by_role("button", name="Refuse Stranger").tap()
            t.ok("refuse-does-not", wait_for(lambda: status("Stranger") in (401, 403), LONG, 0.2))
            t.ok("nobody-waits-then", wait_for(lambda: rows.count() == 0 and page.locator("#nobody").is_visible(), LONG, 0.2))
            page.reload()
            page.locator("#may").wait_for()
            t.ok("it-is-the-same-device-after-a-reload", page.locator("#nobody").is_visible())
            t.eq("nobody-is-complained-to-by-its-own-policy", page.complaints, [])
            Terminal(house, "devices", "revoke", "--all").wait()
            page.locator("#may-not").wait_for()
            t.ok("one-that-was-put-out-decides-nothing", page.locator("#may").is_hidden())
        term.type(b"q")
        term.wait()
    finally:
        house.down()
