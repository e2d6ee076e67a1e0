import assert from "node:assert/strict";
import { test } from "node:test";
import { NOTHING_SEEN, notNow, seen, STANDS_FOR_MS } from "../src/attention.ts";
import { difference, patch } from "../src/lines.ts";

const drawn = (one: string | null, two: string | null) => difference(one, two).map((line) => line.mark + line.text).join("\n");

test("lines that stay, go and come", () => {
  assert.equal(drawn("a\nb\nc\n", "a\nx\nc\nd\n"), " a\n-b\n+x\n c\n+d");
  assert.equal(drawn(null, "new\n"), "+new");
  assert.equal(drawn("gone\n", null), "-gone");
  assert.deepEqual(difference("a\nb", "a\nc", 10).map((line) => [line.old, line.new]), [[10, 10], [11, null], [null, 11]]);
});

test("two long texts are told apart without waiting", () => {
  const long = (mark: string) => Array.from({ length: 20_000 }, (_, at) => `${mark}${at}`).join("\n");
  const begin = performance.now();
  assert.equal(difference(long("a"), long("b")).length, 40_000);
  assert.ok(performance.now() - begin < 2_000);
});

test("a patch has numbers, and its head is none of its lines", () => {
  const rows = patch("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -3,2 +3,2 @@ f\n one\n-two\n+zwei\n\\ No newline at end of file\n");
  assert.deepEqual(rows.map((row) => row.mark), ["@", " ", "-", "+"]);
  assert.deepEqual(rows.map((row) => row.mark !== "@" && row.new), [false, 3, null, 4]);
});

const sight = (top: number, bottom: number, place = 500, hash = "h") => ({ hash, height: 1000, top, bottom, place });

test("nothing counts before the end was seen without a gap", () => {
  let attention = seen(NOTHING_SEEN, sight(0, 400), 0);
  assert.equal(notNow(attention, 9_000), "unread");
  attention = seen(attention, sight(800, 1000), 0);
  assert.equal(notNow(attention, 9_000), "unread", "the middle was not seen");
  attention = seen(attention, sight(390, 790), 0);
  attention = seen(attention, sight(780, 1000), 0);
  assert.equal(notNow(attention, STANDS_FOR_MS), null);
});

test("what just came, or just moved, is not answered by accident", () => {
  const whole = (place: number, hash = "h") => ({ hash, height: 100, top: 0, bottom: 100, place });
  let attention = seen(NOTHING_SEEN, whole(300), 1000);
  assert.equal(notNow(attention, 1100), "too soon");
  assert.equal(notNow(attention, 1000 + STANDS_FOR_MS), null);
  attention = seen(attention, whole(340), 2000);
  assert.equal(notNow(attention, 2100), "too soon", "it moved");
  attention = seen(attention, whole(340, "other"), 3000);
  assert.equal(notNow(attention, 3100), "too soon", "it is another");
  assert.equal(notNow(seen(attention, whole(340, "other"), 4000), 4000), null, "it stood meanwhile");
});
