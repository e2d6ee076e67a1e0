import assert from "node:assert/strict";
import { test } from "node:test";
import { writtenOut } from "../src/format.ts";

test("nothing of a value is left out, and what would not be seen is written", () => {
  assert.equal(writtenOut("echo hi \u001b]; rm -rf ~ ;\u0007 done"), "echo hi \u241b]; rm -rf ~ ;\u2407 done");
  assert.equal(writtenOut("a\u001b[8mhidden\u001b[0m"), "a\u241b[8mhidden\u241b[0m");
  assert.equal(writtenOut("x\u202ey\u2066z\u200b\u00ad\ufeff\u0085\u2028\u{e0041}\u3164\ud800"), "x⟨U+202E⟩y⟨U+2066⟩z⟨U+200B⟩⟨U+AD⟩⟨U+FEFF⟩⟨U+85⟩⟨U+2028⟩⟨U+E0041⟩⟨U+3164⟩⟨U+D800⟩");
  assert.equal(writtenOut("a\tb\nc, \u00e9\u05d0\u6f22 \u2764\ufe0f \u{1f468}\u200d\u{1f4bb}"), "a\tb\nc, \u00e9\u05d0\u6f22 \u2764\ufe0f \u{1f468}\u200d\u{1f4bb}");
});
