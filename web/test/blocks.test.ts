import assert from "node:assert/strict";
import { test } from "node:test";
import { marked } from "marked";
import { blocks } from "../src/blocks.ts";

const TEXTS = [
  "one\n\ntwo\nstill two\n\nthree", "# head\n\n- a\n\n- b\n\n  more of b\n\nafter", "1. a\n\n2. b\n\nend", "```js\na\n\nb\n```\n\nend", "````\n```\n\nx\n````\n\ny", "> q\n\n> r\n\np", "| a | b |\n|---|---|\n| 1 | 2 |\n\nend",
  "a\n\n    code\n\nb", "", "\n\n", "~~~\nopen\n\nfor ever", "a  \n\n\n\nb", "text\n***\n\nnext\n---\n\nlast",
];

test("the parts of a text are drawn as the whole is", () => {
  const plain = (html: string) => html.replaceAll(/\s+/g, " ").trim();
  for (const text of TEXTS) assert.equal(plain(blocks(text).map((block) => marked.parse(block) as string).join("")), plain(marked.parse(text) as string), text);
});

test("what stands before a new paragraph stays as it is while the text grows", () => {
  const whole = "first\n\n- a\n- b\n\nsecond **bold** word\n\n```\ncode\n\nmore\n```\n\nlast";
  for (let length = 1; length < whole.length; length++) {
    const now = blocks(whole.slice(0, length)).slice(0, -1), later = blocks(whole);
    now.forEach((block, at) => assert.equal(block, later[at], `at ${length}`));
  }
});

test("names of links belong to all of it", () => {
  assert.equal(blocks("see [x]\n\nand\n\n[x]: https://a.example").length, 1);
  assert.equal(blocks("one\n\ntwo").length, 2);
});
