// A text in Markdown, cut where a paragraph of its own begins: what stands before such a place is not changed by what follows, so that
// of an answer that grows only the last part is drawn again. Pure.

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
/** Lines that may go on with what stands before a blank line, or be read with it: lists, quotes, tables, what is indented, markup. */
const GOES_ON = /^(\s|[-*+](\s|$)|\d+[.)](\s|$)|>|\||<)/;
/** Names that links anywhere in the text may use. */
const NAMED = /^ {0,3}\[[^\]]+\]:/m;

export function blocks(text: string): string[] {
  if (NAMED.test(text)) return [text];
  const found: string[] = [];
  let from = 0, at = 0, fence = "", blank = false;
  for (const line of text.split("\n")) {
    if (blank && !fence && line && !GOES_ON.test(line)) {
      found.push(text.slice(from, at));
      from = at;
    }
    const mark = FENCE.exec(line)?.[1] ?? "";
    if (!fence) fence = mark;
    else if (mark.startsWith(fence) && !line.trim().slice(mark.length).trim()) fence = "";
    blank = line.trim() === "";
    at += line.length + 1;
  }
  found.push(text.slice(from));
  return found.filter((block) => block.trim());
}
