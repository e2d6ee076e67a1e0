"""A browser on the page: Debian's Chromium driven by Playwright, in a home whose ostler lets it in by a link or a code."""
import contextlib
import os
import re
import tempfile

from approvals_kit import LONG, Terminal
from devices_kit import Guests, port_of
from kit import Fail

DESK, TABLET, PHONE = (1280, 800), (768, 1024), (360, 740)
ARGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--no-first-run"]
# In milliseconds: what a page on a loaded machine may take.
PATIENCE = LONG * 1000


@contextlib.contextmanager
def chromium():
    from playwright.sync_api import sync_playwright
    # What a browser keeps beside its profile goes with it.
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        own = {"HOME": home, "XDG_CACHE_HOME": home, "XDG_CONFIG_HOME": home, "XDG_RUNTIME_DIR": home}
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=ARGS, env=dict(os.environ, **own))
        try:
            yield browser
        finally:
            browser.close()


class House(Guests):
    """A home with a page."""

    def url(self):
        return "http://127.0.0.1:%d/" % port_of(self)

    def link(self, *more):
        """The terminal of the person, and the link that it shows."""
        term = Terminal(self, "web", *more)
        term.until(b"q to stop", LONG)
        text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", term.seen.decode(errors="replace"))
        found = re.search(r"http://\S+/#[A-Za-z0-9_-]{43}", text)
        if not found:
            raise Fail("no link: %r" % text)
        return term, found.group(0)

    def echo(self, *words):
        id = self.json("new", "echo", self.dir)["id"]
        for text in words:
            self.good("send", id, text)
        return id


def context(browser, size=DESK, dark=False, touch=False):
    made = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if dark else "light", has_touch=touch, is_mobile=touch, reduced_motion="reduce")
    made.set_default_timeout(PATIENCE)
    return made


def opened(t, context, url):
    """A page, and what it complains about: nothing, if the policy and the script are right."""
    page = context.new_page()
    page.complaints = []
    page.on("console", lambda message: message.type in ("error", "warning") and page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.goto(url)
    return page


def logged_in(t, house, browser, *more, size=DESK, dark=False, touch=False):
    """A browser that came in by a link."""
    term, link = house.link(*more)
    page = opened(t, context(browser, size, dark, touch), link)
    page.get_by_role("heading", name="Now").wait_for()
    if term.wait() != 0:
        raise Fail("ostler web: %r" % term.seen[-300:])
    return page


def go(page, to):
    page.evaluate("to => { location.hash = to }", to)
