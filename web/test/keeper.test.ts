import assert from "node:assert/strict";
import { test } from "node:test";
import { begin, doing, earlier, hear, type Kept, NOTHING, type Placed, trim } from "../src/keeper.ts";
import recorded from "./recorded.json";

const told = recorded as unknown as Placed[];
const last = told.at(-1)?.record ?? 0;

/** What is shown, without the keys: a block that began before the window has another. */
const shown = (kept: Kept) => JSON.stringify(kept.items, (name, value: unknown) => (name === "key" ? undefined : value));
const whole = hear(NOTHING, told);

test("a recorded session is kept with every item in its place", () => {
  const kinds = whole.items.map((item) => item.kind);
  for (const kind of ["prompt", "words", "tool", "ask", "plan", "end"]) assert.ok(kinds.includes(kind as never), kind);
  assert.equal(kinds.filter((kind) => kind === "prompt").length, kinds.filter((kind) => kind === "end").length);
  assert.equal(whole.queue.size, 0);
  assert.equal(whole.running, false);
  assert.ok(whole.items.every((item) => item.kind !== "words" || item.whole), "every block became whole");
});

test("one by one or all at once is the same", () => {
  let kept = NOTHING;
  for (const placed of told) kept = hear(kept, [placed]);
  assert.equal(shown(kept), shown(whole));
});

test("what is heard twice is kept once, wherever the connection broke", () => {
  for (let at = 0; at <= told.length; at++) {
    const kept = hear(hear(NOTHING, told.slice(0, at)), told.slice(Math.max(0, at - 5)));
    assert.equal(shown(kept), shown(whole), `broken at ${at}`);
  }
});

test("read backwards in pages it is the same, wherever a page ends", () => {
  for (let at = 1; at < told.length; at++) {
    const first = told[at]?.record ?? 0;
    const newest = begin({ pieces: told.slice(at), first, last, more: true });
    const kept = earlier(newest, { pieces: told.slice(0, at), first: 1, last, more: false });
    assert.equal(shown(kept), shown(whole), `a page begins at ${at}`);
    assert.equal(kept.more, false);
  }
});

test("a window stays as long as it may be, and knows where it ends", () => {
  const held = trim(whole, 5, "newest");
  assert.equal(held.told.length, 5);
  assert.equal(held.last, told[4]?.record);
  const end = trim(whole, 5, "oldest");
  assert.deepEqual([end.told.length, end.last, end.more], [5, last, true]);
});

const at = (record: number, ...pieces: unknown[]): Placed => ({ record, time: "2026-01-01T00:00:00Z", pieces }) as Placed;

test("words stand where they began, and their block takes their place", () => {
  const kept = hear(NOTHING, [
    at(1, { kind: "words", voice: "answer", text: "he" }), at(2, { kind: "words", voice: "thought", text: "hm" }), at(3, { kind: "words", voice: "answer", text: "ll" }),
    at(4, { kind: "whole", voice: "answer", text: "hello" }), at(5, { kind: "words", voice: "answer", text: "next" }),
  ]);
  assert.deepEqual(kept.items.map((item) => item.kind === "words" && [item.voice, item.text, item.whole]), [["answer", "hello", true], ["thought", "hm", false], ["answer", "next", false]]);
});

test("an answer that was cut off keeps its words", () => {
  const kept = hear(NOTHING, [at(1, { kind: "words", voice: "answer", text: "half a" }), at(2, { kind: "cut_off", voice: "answer", text: "a" }), at(3, { kind: "ended", reason: "interrupted" })]);
  assert.deepEqual(kept.items.map((item) => item.kind), ["words", "end"]);
  assert.equal(kept.items[0]?.kind === "words" && kept.items[0].text, "half a");
});

test("tools of a sub-agent stand within its call, and their results find them", () => {
  const kept = hear(NOTHING, [
    at(1, { kind: "tool", id: "a", name: "Task", title: "look", does: "think" }), at(2, { kind: "tool", id: "b", parent: "a", name: "Read", title: "x", does: "read" }),
    at(3, { kind: "tool", id: "c", parent: "b", name: "Deep", title: "y" }), at(4, { kind: "tool_ended", id: "c", text: "out" }), at(5, { kind: "tool_ended", id: "b", text: "in", is_error: true }),
  ]);
  const task = kept.items[0];
  assert.ok(task?.kind === "tool" && kept.items.length === 1);
  assert.deepEqual([task.children[0]?.output, task.children[0]?.failed, task.children[0]?.children[0]?.output], ["in", true, "out"]);
});

test("who answered first has answered", () => {
  const kept = hear(NOTHING, [at(1, { kind: "waits", approval: "a1", title: "t" }), at(2, { kind: "answered", approval: "a1", verdict: "once", by: "phone" }), at(3, { kind: "taken_back", approval: "a1" })]);
  assert.deepEqual(kept.items.map((item) => item.kind === "ask" && [item.state, item.by]), [["answered", "phone"]]);
});

test("a prompt waits in the queue until its turn begins", () => {
  const waits = hear(NOTHING, [at(1, { kind: "accepted", number: 1, blocks: [{ kind: "text", text: "hi" }] })]);
  assert.deepEqual([waits.queue.size, waits.items.length], [1, 0]);
  const runs = hear(waits, [at(2, { kind: "begun", number: 1 })]);
  assert.deepEqual([runs.queue.size, runs.items.length, runs.running], [0, 1, true]);
  assert.equal(runs.items[0]?.kind === "prompt" && runs.items[0].blocks[0]?.text, "hi");
});

test("a turn works, and while something that it asked is open it waits for somebody", () => {
  const prompt = (record: number) => at(record, { kind: "begun", number: record, blocks: [] });
  const ask = (record: number) => at(record, { kind: "waits", approval: `a${record}`, title: "may I?" });
  const answer = (record: number, of: number) => at(record, { kind: "answered", approval: `a${of}`, verdict: "once", by: "ann at /dev/pts/1" });
  const steps: [Placed, string | null][] = [[prompt(1), "working"], [ask(2), "waiting"], [ask(3), "waiting"], [answer(4, 3), "waiting"], [answer(5, 2), "working"]];
  let kept = NOTHING;
  assert.equal(doing(kept), null);
  for (const [placed, word] of steps) {
    kept = hear(kept, [placed]);
    assert.equal(doing(kept), word, `after ${placed.record}`);
  }
  const next = hear(kept, [ask(6), prompt(7)]);
  assert.equal(doing(next), "working", "what an older turn asked is over");
});
