"""Being told on the page: its worker, what a push shows, answers from a notice, what is in view, and what is missing where it cannot be."""
import time

from approvals_kit import LONG
from lib import area, wait_for
from notices_kit import Server
from page_kit import PHONE, House, chromium, context, go, logged_in, opened
from web import confirmed, settings

# Seconds that something has to stand: more than a loaded machine takes to look away.
AFTER = 3
# There is no push service without a network: the browser's own part of a subscription is played, everything else is real.
SUBSCRIBES = """endpoint => { window.asked_with = []; PushManager.prototype.subscribe = function (how) { window.asked_with.push(how.applicationServerKey, how.userVisibleOnly); return Promise.resolve({ endpoint }) };
    PushManager.prototype.getSubscription = function () { return Promise.resolve(null) } }"""
SHOWN = "navigator.serviceWorker.ready.then(one => one.getNotifications()).then(all => all.map(one => [one.title, one.body, one.actions.map(each => each.action), one.data.link]))"
CLICK = """action => self.registration.getNotifications().then(([notification]) => { self.dispatchEvent(new NotificationEvent('notificationclick', { notification, action })) })"""


class Worker:
    """The worker of a page, and pushes as a push service delivers them."""

    def __init__(self, page):
        self.page, self.tools, self.known = page, page.context.new_cdp_session(page), []
        self.tools.on("ServiceWorker.workerRegistrationUpdated", lambda event: self.known.extend(one["registrationId"] for one in event["registrations"] if not one["isDeleted"]))
        self.tools.send("ServiceWorker.enable")
        page.evaluate("navigator.serviceWorker.ready.then(() => true)")
        page.wait_for_timeout(100)

    def push(self):
        origin = self.page.evaluate("location.origin")
        self.tools.send("ServiceWorker.deliverPushMessage", {"origin": origin, "registrationId": self.known[-1], "data": ""})

    def shown(self, test, seconds=LONG):
        """What it shows, once that is so."""
        stop = time.monotonic() + seconds
        while True:
            found = self.page.evaluate(SHOWN)
            if test(found) or time.monotonic() > stop:
                return found
            self.page.wait_for_timeout(100)

    def click(self, action):
        self.page.context.service_workers[0].evaluate(CLICK, action)


def told_by(page):
    """Lets this page be told, as its person does."""
    go(page, "/approvals")
    page.locator("[data-tell]").click()
    page.get_by_role("region", name="being told").get_by_text("is told").wait_for()


@area("page-told")
def told(t):
    """A browser that is told: without words through the push service, with them from the machine; not of what is in view."""
    server, house = Server(), House(t)
    settings(house, "[notify]\nafter = \"%ds\"\ndesktop = false\npush_private = true\ncontent = true\nanswer = true\n" % AFTER)
    house.up()
    try:
        confirmed(house, "notify.push_private", "notify.content", "notify.answer")
        with chromium() as browser:
            page = logged_in(t, house, browser, "--name", "pocket", "--rights", "answer", size=PHONE, touch=True)
            page.context.grant_permissions(["notifications"], origin=house.url().rstrip("/"))
            page.evaluate(SUBSCRIBES, server.url("push/pocket"))
            worker = Worker(page)
            tools = page.context.new_cdp_session(page)
            t.eq("it-can-be-installed", [one["errorId"] for one in tools.send("Page.getInstallabilityErrors")["installabilityErrors"] if one["errorId"] != "in-incognito"], [])
            manifest = tools.send("Page.getAppManifest")
            t.ok("its-manifest-is-right", not manifest["errors"] and '"icon-maskable.png"' in (manifest.get("data") or ""), manifest)
            told_by(page)
            key, visible = page.evaluate("window.asked_with")
            t.ok("it-subscribes-with-the-instances-key", len(key) == 87 and visible is True, (key, visible))
            t.ok("and-the-machine-knows", "pocket" in house.good("notify"), house("notify"))
            # Something else is in view.
            go(page, "/session/" + house.echo())
            page.get_by_text("Nothing was said yet").wait_for()
            id = house.json("new", "echo", house.dir, "--name", "fixer")["id"]
            house.good("send", "--no-wait", id, "ASK:paint_it_green")
            t.ok("a-ring-goes-out-without-a-word", wait_for(lambda: server.got("push/pocket"), LONG, 0.1) and server.got("push/pocket")[0]["body"] == "", server.requests)
            worker.push()
            shown = worker.shown(lambda all: all and "fixer" in all[0][1])
            t.ok("the-worker-fetches-what-it-is-about", len(shown) == 1 and shown[0][0] == "ostler needs you" and shown[0][1].startswith("fixer needs you: permission") and "paint it green" in shown[0][1] and shown[0][3] == "#/session/" + id, shown)
            t.eq("it-is-answered-from-there-where-all-of-it-is-shown", shown[0][2], ["once", "deny"])
            worker.click("once")
            t.ok("and-that-counts-once-as-that-device", wait_for(lambda: house.pending() == [], LONG, 0.1) and any("pocket" in str(row["record"]["by"]) and row["record"]["by"].get("signed") for row in house.audit("decided")), house.audit("decided"))
            wait_for(lambda: all(one["status"] == "idle" for one in house.json("sessions")), LONG, 0.1)
            # In view: nobody is told.
            go(page, "/session/" + id)
            page.locator(".turn-end").wait_for()
            count = len(server.got("push"))
            house.good("send", "--no-wait", id, "ASK:paint_it_red")
            page.locator(".request.open").wait_for()
            time.sleep(AFTER + 2)
            t.eq("what-is-in-view-rings-nobody", len(server.got("push")), count)
            for view in ("now", "approvals"):
                go(page, "/" + view)
                page.locator(".view.%s .request.open" % view).wait_for()
                time.sleep(AFTER + 2)
                t.eq("nor-does-what-is-on-the-screen-of-%s" % view, len(server.got("push")), count)
            # Below the end of the screen it is not.
            page.set_viewport_size({"width": PHONE[0], "height": 300})
            page.locator(".main").evaluate("one => { one.scrollTop = one.scrollHeight }")
            t.ok("what-is-left-open-does", wait_for(lambda: len(server.got("push")) == count + 1, LONG, 0.1), server.requests)
            page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
            worker.push()
            worker.shown(lambda all: all and "red" in all[0][1])
            house.good("interrupt", id)
            wait_for(lambda: house.pending() == [], LONG, 0.1)
            worker.click("once")
            late = worker.shown(lambda all: all and all[0][0] == "Not answered")
            t.ok("an-answer-that-comes-too-late-is-said-to-be", late and late[0][0] == "Not answered", late)
            away(t, house, server, page)
            t.eq("nothing-went-wrong-on-the-page", page.complaints, [])
            terms(t, house, browser, page)
    finally:
        house.down()
        server.close()


def away(t, house, server, page):
    """A page that is left open with nobody before it keeps nobody from being told."""
    go(page, "/now")
    page.clock.install()
    page.mouse.move(100, 100)
    id = house.json("new", "echo", house.dir, "--name", "unwatched")["id"]
    page.locator("[data-hosted]", has_text="unwatched").wait_for()
    count = len(server.got("push"))
    house.good("send", "--no-wait", id, "ASK:paint_it_blue")
    page.locator(".request.open", has_text="blue").wait_for()
    time.sleep(AFTER + 2)
    t.eq("control-who-is-there-is-not-told", len(server.got("push")), count)
    page.clock.fast_forward(125_000)
    t.ok("who-touched-nothing-for-two-minutes-is", wait_for(lambda: len(server.got("push")) == count + 1, LONG, 0.1), server.requests)
    house.good("interrupt", id)


def terms(t, house, browser, page):
    """A device that is none any more, a page that can be told nothing, and no policy that was loosened for it."""
    go(page, "/approvals")
    policy = page.evaluate("fetch('/').then(answer => answer.headers.get('content-security-policy'))")
    t.ok("the-policy-stays-strict", "unsafe" not in policy and "trusted-types dompurify ostler-worker" in policy and "require-trusted-types-for 'script'" in policy, policy)
    t.eq("no-other-script-is-started-beside-it", page.evaluate("navigator.serviceWorker.register('/other.js').then(() => 'started', error => error.name)"), "TypeError")
    page.get_by_role("button", name="Turn off").click()
    page.locator("[data-tell]").wait_for()
    t.ok("it-is-turned-off-again", "no device has subscribed" in house.good("notify"), house("notify"))
    plain = context(browser, PHONE, touch=True)
    plain.add_init_script("Object.defineProperty(window, 'isSecureContext', { value: false })")
    other = opened(t, plain, house.url())
    other.get_by_text("This connection is not encrypted").wait_for()
    t.ok("where-it-cannot-be-it-says-what-is-missing-and-what-helps", "cannot be installed" in other.inner_text("body") and "web.certificate" in other.inner_text("body"), other.inner_text("body"))
    plain.close()
