"""The page at work: the box and what waits, what an agent offers, root commands, what needs somebody, and the real claude."""
import base64
import os
import re
import subprocess
import time

import clis
from approvals_kit import LONG, Terminal
from lib import area, wait_for
from page import agent
from page_kit import PHONE, House, chromium, go, logged_in
from sessions_kit import Wire

# A picture of one dot.
DOT = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
GIVE = """([how, data, name]) => { const bytes = Uint8Array.from(atob(data), one => one.charCodeAt(0)); const transfer = new DataTransfer(); transfer.items.add(new File([bytes], name, {type: 'image/png'}));
    const box = document.querySelector(how === 'paste' ? '#prompt' : '.composer');
    box.dispatchEvent(how === 'paste' ? new ClipboardEvent('paste', {clipboardData: transfer, bubbles: true, cancelable: true}) : new DragEvent('drop', {dataTransfer: transfer, bubbles: true, cancelable: true})) }"""


@area("page-box")
def box(t):
    """Pictures, completions, what waits, model and mode, and the whole as a document."""
    house = House(t).up()
    try:
        for name in ("shop.py", "shipping.py", ".secret"):
            with open(house.dir + "/" + name, "w") as f:
                f.write("x\n")
        os.mkdir(house.dir + "/stock")
        id = agent(house, "box")
        house.good("send", id, "hello")
        with chromium() as browser:
            page = logged_in(t, house, browser, "--rights", "full")
            page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=house.url().rstrip("/"))
            go(page, "/session/" + id)
            page.locator(".turn-end").wait_for()
            prompt = page.get_by_label("prompt", exact=True)
            for how in ("paste", "drop"):
                page.evaluate(GIVE, [how, base64.b64encode(DOT).decode(), how + ".png"])
                page.locator(".chip", has_text=how + ".png").wait_for()
            page.get_by_label("remove drop.png").click()
            page.evaluate(GIVE, ["drop", base64.b64encode(DOT).decode(), "again.png"])
            page.locator(".chip", has_text="again.png").wait_for()
            prompt.fill("look at these")
            prompt.press("Enter")
            page.locator(".answer", has_text="heard: look at these, with 2 pictures").wait_for()
            t.ok("pictures-pasted-and-dropped-reach-the-agent", page.locator(".prompt-said .chip", has_text="image/png").count() == 2)
            prompt.press_sequentially("/re")
            options = page.locator(".offers [role=option]")
            options.first.wait_for()
            t.eq("a-slash-offers-the-agents-commands", [text.split(" ")[0] for text in options.all_inner_texts()], ["/review", "/rename"])
            prompt.press("ArrowDown")
            prompt.press("Tab")
            t.eq("and-one-is-taken-by-keys", prompt.input_value(), "/rename ")
            prompt.fill("")
            prompt.press_sequentially("see @sh")
            options.filter(has_text="shop.py").wait_for()
            t.eq("an-at-offers-files", sorted(text.strip() for text in options.all_inner_texts()), ["@shipping.py", "@shop.py"])
            options.filter(has_text="shop.py").click()
            t.eq("and-one-is-taken-by-a-click", prompt.input_value(), "see @shop.py ")
            prompt.fill("")
            page.get_by_label("more", exact=True).click()
            page.get_by_label("Model").select_option("large")
            page.locator(".menu-body label").filter(has_text=re.compile("^Mode(?!l)")).locator("select").select_option("draft")
            t.ok("model-and-mode-are-what-the-agent-offers", wait_for(lambda: [house.json("sessions")[0].get(name) for name in ("model", "raw_mode")] == ["large", "draft"], LONG, 0.1), house.json("sessions"))
            page.get_by_role("button", name="Copy as a document").click()
            page.get_by_role("button", name="Copied").wait_for()
            copied = page.evaluate("navigator.clipboard.readText()")
            t.ok("it-is-copied-as-a-document", copied.startswith("# box\n") and "> look at these" in copied and "heard: look at these" in copied, copied)
            page.keyboard.press("Escape")
            prompt.fill("CHOSEN")
            prompt.press("Enter")
            page.locator(".answer", has_text="chosen: ").wait_for()
            said = page.locator(".answer").last.inner_text()
            t.ok("and-the-agent-is-told", "large" in said and "draft" in said, said)
            t.eq("nothing-went-wrong-on-the-page", page.complaints, [])
            queue(t, house, page)
    finally:
        house.down()


def queue(t, house, page):
    """What waits is edited in its place, by one browser and before the other's eyes, and taken back."""
    id = house.echo()
    go(page, "/session/" + id)
    page.get_by_text("Nothing was said yet").wait_for()
    prompt = page.get_by_label("prompt", exact=True)
    for text in ("SLOW:12 busy", "first draft", "second", "third"):
        prompt.fill(text)
        prompt.press("Enter")
        if text.startswith("SLOW"):
            page.locator(".working").wait_for()
        else:
            page.locator(".queue li", has_text=text).wait_for()
    page.locator("[data-edit]").first.click()
    page.get_by_label("words of a waiting prompt").fill("first, better")
    page.get_by_role("button", name="Change").click()
    page.locator(".queue li", has_text="first, better").wait_for()
    t.ok("a-waiting-prompt-is-edited-in-its-place", [text.split("\n")[0] for text in page.locator(".queue li").all_inner_texts()][0].startswith("first, better"), page.locator(".queue li").all_inner_texts())
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    edge = max(box["x"] + box["width"] for box in (button.bounding_box() for button in page.locator("[data-back]").all()))
    t.ok("also-on-a-phone-it-is-in-reach", edge <= PHONE[0], edge)
    page.locator("[data-back]").nth(1).click()
    page.locator(".queue li", has_text="second").wait_for(state="detached")
    t.eq("another-is-taken-back-into-the-box", prompt.input_value(), "second")
    prompt.fill("")
    page.locator(".answer", has_text="third").wait_for()
    page.locator(".working").wait_for(state="detached")
    said = [text.strip() for text in page.locator(".prompt-text").all_inner_texts()]
    t.eq("and-each-runs-once-as-it-stood", said, ["SLOW:12 busy", "first, better", "third"])


@area("page-root")
def root(t):
    """What runs as root: with its warnings, yes from a device that may, and a word from one that may not."""
    house = House(t).up()
    try:
        script = house.dir + "/deploy.sh"
        with open(script, "w") as f:
            f.write("#!/bin/sh\necho deployed\n")
        os.chmod(script, 0o755)
        with chromium() as browser:
            asker = house.ask(["id", "-u"], privileged=True)
            looks = logged_in(t, house, browser, "--rights", "answer", size=PHONE, touch=True)
            card = looks.locator(".request.open")
            card.wait_for()
            t.ok("who-may-not-is-told-so", card.get_by_text("may not say yes to what runs as root").is_visible() and card.locator("[data-answer=once]").count() == 0, card.inner_text())
            may = logged_in(t, house, browser, "--rights", "full")
            card = may.locator(".request.open")
            card.wait_for()
            shown = card.inner_text()
            t.ok("it-is-said-to-be-root-and-without-a-password", "as root" in shown and "without asking for a password" in shown and "id -u" in shown, shown)
            time.sleep(0.4)
            card.locator("[data-answer=once]").click()
            may.locator(".request.settled", has_text="Allowed").wait_for()
            answer = asker.answer()
            t.ok("who-may-says-yes-and-it-runs", answer.get("status") in ("ok", "success", "completed", "executed") or answer.get("exit_code") == 0 or "exit" in str(answer), answer)
            decided = next(row["record"] for row in house.audit("decided"))
            t.ok("on-record-as-that-device-with-its-signature", decided["by"].get("signed") and "chrome" in str(decided["by"]), decided)
            waits = [row for row in house.json("approvals", "--list", "--all")]
            t.ok("and-it-ran-once", len(waits) == 1 and waits[0]["state"] == "applied", waits)
            # What it would run goes away, or is another one, before anybody has answered.
            house.ask([script], privileged=True)
            may.locator(".request.open", has_text="deploy.sh").wait_for()
            os.rename(script, script + ".old")
            may.reload()
            may.locator(".warn", has_text="deploy.sh no longer exists").wait_for()
            t.ok("what-is-to-be-known-of-its-files-is-said", True)
            t.eq("nothing-went-wrong-on-the-page", may.complaints + looks.complaints, [])
    finally:
        house.down()


@area("page-approvals")
def approvals(t):
    """The inbox, an answer that becomes a rule, who decided where, the record verified, and devices put out from here."""
    house = House(t).up()
    try:
        with chromium() as browser:
            desk = logged_in(t, house, browser, "--name", "desk", "--rights", "full")
            guest = logged_in(t, house, browser, "--name", "guest", "--rights", "watch")
            id = house.echo("hello")
            go(desk, "/approvals")
            desk.get_by_text("Nothing waits for you").wait_for()
            house.good("send", "--no-wait", id, "ASK:paint_it")
            card = desk.get_by_role("region", name="inbox").locator(".request.open")
            card.wait_for()
            go(guest, "/approvals")
            guest.locator(".request.open").get_by_text("may look, not answer").wait_for()
            t.ok("who-may-only-look-has-no-answers", guest.locator("[data-answer]").count() == 0)
            time.sleep(0.4)
            card.get_by_role("button", name="Always").click()
            rules = desk.get_by_role("region", name="rules")
            rules.locator("li", has_text="paint it").wait_for()
            t.ok("an-answer-for-good-is-a-rule-with-who-made-it", "allows" in rules.inner_text() and "device desk" in rules.inner_text(), rules.inner_text())
            desk.get_by_role("region", name="answered lately").get_by_text("device desk").first.wait_for()
            house.good("send", id, "ASK:paint_it")
            t.ok("which-answers-the-next-time", wait_for(lambda: "rule" in desk.get_by_role("region", name="answered lately").inner_text(), LONG, 0.1), desk.get_by_role("region", name="answered lately").inner_text())
            rules.get_by_role("button", name="revoke the rule").click()
            rules.get_by_text("None.").wait_for()
            t.eq("until-it-is-revoked-here", house.json("rules"), [])
            desk.locator("[data-verify]").click()
            record = desk.get_by_role("region", name="record")
            record.get_by_text("entries hold").wait_for()
            t.ok("the-record-is-verified-and-read", record.locator("details").count() > 5 and "decided" in record.inner_text(), record.inner_text()[:400])
            desk.get_by_role("button", name="revoke guest").click()
            guest.locator(".login").wait_for()
            t.ok("a-device-is-put-out-from-here", [one["name"] for one in house.json("devices")] == ["desk"], house.json("devices"))
            t.eq("nothing-went-wrong-on-the-page", desk.complaints, [])
    finally:
        house.down()


@area("page-now")
def now(t):
    """What needs somebody stands first, whatever it is; what runs says how it is doing."""
    house = House(t).up()
    try:
        repo = house.dir + "/shop"
        subprocess.run(["git", "init", "-q", "-b", "fix-totals", repo], check=True)
        subprocess.run(["git", "-C", repo, "-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-q", "--allow-empty", "-m", "begin"], check=True)
        house("send", agent(house, "locked-out", repo), "LOGIN")
        limited = house.json("new", "echo", repo, "--name", "spent")["id"]
        house.good("send", limited, "LIMIT:100 words")
        house("send", house.json("new", "echo", repo, "--name", "broken")["id"], "FAIL:the_disk_is_full")
        house.good("run", "-d", "-t", "--name", "trusts", "--", "sh", "-c", "printf '\\033]7501;state=blocked:kind=permission:msg=%s\\007'; sleep 600" % base64.b64encode(b"Do you trust this folder?").decode())
        house.good("run", "-d", "-t", "--name", "wall", "--", "sh", "-c", "printf '\\033]7501;state=blocked:kind=auth\\007'; sleep 600")
        asks = house.json("new", "echo", repo, "--name", "asks")["id"]
        house.good("send", "--no-wait", asks, "ASK:change_a_file")
        works = house.json("new", "echo", repo, "--name", "works")["id"]
        house.good("send", "--no-wait", works, "SLOW:100 counting")
        house.good("send", agent(house, "dear", repo), "COST 1.25")
        house.good("run", "-d", "--name", "crashed", "--", "false")
        house.good("run", "--name", "over", "--", "true")
        with chromium() as browser:
            page = logged_in(t, house, browser, "--rights", "full")
            needs, runs = page.get_by_role("region", name="needs you"), page.get_by_role("region", name="open")
            needs.locator(".request.open").wait_for()
            row = lambda name: page.locator("[data-hosted]", has_text=name).first
            for name, word in {"locked-out": "logged out", "spent": "limit reached", "broken": "failed", "crashed": "exited 1", "trusts": "needs you: permission", "wall": "needs you: login"}.items():
                needs.locator("[data-hosted]", has_text=name).wait_for()
                t.ok("needs-you-%s" % name, word in row(name).inner_text(), row(name).inner_text())
            t.ok("with-what-it-says", "Please log in" in row("locked-out").inner_text() and "the disk is full" in row("broken").inner_text() and "until" in row("spent").inner_text() and "trust this folder" in row("trusts").inner_text(),
                 [row(name).inner_text() for name in ("locked-out", "broken", "spent", "trusts")])
            runs.locator("[data-hosted]", has_text="works").wait_for()
            wait_for(lambda: any(word in row("works").inner_text() for word in ("5", "6", "7")), LONG, 0.2)
            shown = row("works").inner_text()
            t.ok("what-runs-has-its-branch-folder-time-and-last-line", "fix-totals" in shown and "shop" in shown and " s" in shown and "running" in shown, shown)
            sections = {section: {one["name"] for one in Wire(house.record()["native"]).call("hosted.list", all=True)["result"]["hosted"] if one["section"] == section and not one.get("part_of")} for section in ("needs_you", "running", "ended")}
            t.eq("as-the-instance-says-for-the-terminal-too", sections, {"needs_you": {"locked-out", "spent", "broken", "crashed", "trusts", "wall", "asks"}, "running": {"works", "dear"}, "ended": {"over"}})
            row("crashed").click()
            page.get_by_text("What it said last").wait_for()
            page.locator('nav a[href="#/now"]').first.click()
            t.ok("what-was-looked-at-needs-nobody", wait_for(lambda: page.get_by_role("region", name="ended").locator("[data-hosted]", has_text="crashed").count() == 1, LONG, 0.2), page.inner_text("body"))
            counted = needs.locator(".count").inner_text()
            t.eq("and-as-many-are-counted", counted, "6")
            t.ok("what-an-agent-tells-of-its-cost-is-there", "$1.25" in row("dear").inner_text() and "$" not in row("works").inner_text(), row("dear").inner_text())
            t.ok("ended-ones-come-last", page.get_by_role("region", name="ended").locator("[data-hosted]", has_text="over").count() == 1)
            order = page.evaluate("[...document.querySelectorAll('.now section')].map(one => one.getAttribute('aria-label'))")
            t.eq("in-this-order", order, ["needs you", "open", "ended"])
            page.get_by_label("filter").fill("wall")
            t.ok("one-filter-over-all-of-them", wait_for(lambda: page.locator("[data-hosted]").count() == 1, LONG, 0.1), page.locator("[data-hosted]").all_inner_texts())
            page.get_by_label("filter").fill("")
            page.get_by_role("button", name="New session").click()
            page.get_by_role("button", name="Start").wait_for()
            wait_for(lambda: page.get_by_role("button", name="Start").is_enabled(), LONG, 0.05)
            page.get_by_label("What to do").fill("begun in two clicks")
            page.get_by_role("button", name="Start").click()
            page.locator(".prompt-text", has_text="begun in two clicks").wait_for()
            t.ok("two-clicks-and-words-begin-one-where-the-last-one-was", repo in page.locator(".session-head [title]").first.get_attribute("title"), page.locator(".session-head").inner_text())
            t.eq("nothing-went-wrong-on-the-page", page.complaints, [])
    finally:
        house.down()


@area("page-claude")
def claude(t):
    """Once with the real claude, in front of the scripted model: asked on the page, answered on a phone, done on the disk."""
    if "claude" in clis.absent():
        return t.ok("claude-is-installed", False, "run ./test install")
    house = House(t)
    model = clis.Model()
    try:
        house.env.update(clis.environment(house.dir, model.url))
        house.up()
        repo = house.dir + "/repo"
        subprocess.run(["git", "init", "-q", repo], check=True)
        with chromium() as browser:
            desk = logged_in(t, house, browser, "--name", "desk", "--rights", "full")
            phone = logged_in(t, house, browser, "--name", "phone", size=PHONE, touch=True)
            desk.get_by_role("button", name="New session").click()
            desk.get_by_label("Folder").fill(repo)
            desk.get_by_role("button", name="claude", exact=True).click()
            desk.get_by_label("What to do").fill("RUN:echo x >> %s/done" % repo)
            desk.get_by_role("button", name="Start").click()
            card = phone.locator(".request.open")
            card.wait_for(timeout=120_000)
            t.ok("what-claude-asks-is-on-the-phone-whole", "echo x >> %s/done" % repo in card.inner_text(), card.inner_text())
            time.sleep(0.4)
            card.get_by_role("button", name="Allow once").tap()
            desk.locator(".turn-end", has_text="Done").wait_for(timeout=120_000)
            t.ok("allowed-there-and-done-here", os.path.exists(repo + "/done") and desk.locator(".asked", has_text="phone").count() == 1, desk.locator(".transcript").inner_text())
            t.ok("tokens-and-model-are-shown", wait_for(lambda: " in · " in desk.locator(".session-head").inner_text(), LONG, 0.1), desk.locator(".session-head").inner_text())
            t.eq("nothing-went-wrong-on-either", desk.complaints + phone.complaints, [])
    finally:
        house.down()
        model.close()
