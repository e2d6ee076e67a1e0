import assert from "node:assert/strict";
import { test } from "node:test";
import { asDocument } from "../src/document.ts";
import { begin, hits, NOTHING, type Placed } from "../src/keeper.ts";
import { lookedAt } from "../src/sight.ts";
import type { Hosted, Request } from "../src/store.ts";

const session = (id: string, ...approvals: string[]) => ({ id, kind: "session", session: { approvals } }) as unknown as Hosted;
const program = (id: string) => ({ id, kind: "terminal" }) as unknown as Hosted;
const request = (id: string) => ({ id }) as Request;

test("a session is looked at when everything that it asks is on the screen", () => {
  const hosted = [session("s1", "a1", "a2"), session("s2"), program("p1")], pending = ["a1", "a2", "a3"].map(request);
  assert.deepEqual(lookedAt(hosted, pending, new Set(["a1", "s1", "s2"])), { sessions: ["s2"], processes: [], approvals: [] });
  assert.deepEqual(lookedAt(hosted, pending, new Set(["a1", "a2", "a3", "p1"])), { sessions: ["s1"], processes: ["p1"], approvals: ["a3"] });
  assert.deepEqual(lookedAt(hosted, pending, new Set()), { sessions: [], processes: [], approvals: [] });
});

const said = (record: number, text: string) => ({ record, time: "", pieces: [{ kind: "words", voice: "answer", text }] }) as Placed;

test("words are found where they begin, also if they go on in the next page", () => {
  const older = [said(1, "one two "), said(2, "Thr")], newer = [said(3, "ee four"), said(4, " five")];
  assert.deepEqual(hits(older, newer, "three"), [{ record: 1, around: "one two Three four five" }]);
  assert.deepEqual(hits(older, [], "three"), []);
  assert.deepEqual(hits(newer, [], "two"), []);
});

test("a document that is not whole says so, and how to get all of it", () => {
  const kept = begin({ pieces: [said(7, "words")], first: 7, last: 7, more: true });
  assert.match(asDocument("fix", "s12", kept), /^# fix\n\n\*Older messages are left out here; all of them: `ostler export s12`\*\n\nwords\n$/);
  assert.equal(asDocument("fix", "s12", { ...kept, more: false }), "# fix\n\nwords\n");
  assert.equal(asDocument("fix", "s12", NOTHING), "# fix\n");
});
