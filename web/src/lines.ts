// Two texts line by line: what stays, what goes, what comes. Pure.

export type Line = { mark: " " | "+" | "-"; text: string; old: number | null; new: number | null };

/** Lines of both texts that are compared one by one: nobody reads more, and comparing takes longer than anybody waits. */
const COMPARED_MAX = 3000;

function split(text: string | null | undefined): string[] {
  if (!text) return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

export function difference(oldText: string | null | undefined, newText: string | null | undefined, begins = 1): Line[] {
  const a = split(oldText), b = split(newText);
  let head = 0, tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const marks: Line["mark"][] = [
    ...Array<Line["mark"]>(head).fill(" "),
    ...middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...Array<Line["mark"]>(tail).fill(" "),
  ];
  let i = 0, j = 0;
  return marks.map((mark) => {
    const line: Line = { mark, text: (mark === "+" ? b[j] : a[i]) ?? "", old: mark === "+" ? null : begins + i, new: mark === "-" ? null : begins + j };
    if (mark !== "+") i++;
    if (mark !== "-") j++;
    return line;
  });
}

function middle(a: string[], b: string[]): Line["mark"][] {
  const all = (mark: Line["mark"], count: number) => Array<Line["mark"]>(count).fill(mark);
  if (!a.length || !b.length || a.length + b.length > COMPARED_MAX) return [...all("-", a.length), ...all("+", b.length)];
  // Longest common subsequence, from the end, so that the way from the beginning can be read off.
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width);
  const at = (i: number, j: number) => longest[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--) longest[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  const marks: Line["mark"][] = [];
  let i = 0, j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) { marks.push(" "); i++; j++; }
    else if (at(i + 1, j) >= at(i, j + 1)) { marks.push("-"); i++; }
    else { marks.push("+"); j++; }
  }
  return [...marks, ...all("-", a.length - i), ...all("+", b.length - j)];
}

/** The lines of a patch in git's own form, with the heads of its hunks. */
export function patch(text: string): (Line | { mark: "@"; text: string })[] {
  const lines: (Line | { mark: "@"; text: string })[] = [];
  let i = 0, j = 0, inside = false;
  for (const line of split(text)) {
    const head = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
    if (head) {
      [i, j, inside] = [Number(head[1]), Number(head[2]), true];
      lines.push({ mark: "@", text: line });
    } else if (inside && (line[0] === "+" || line[0] === "-" || line[0] === " ")) {
      const mark = line[0];
      lines.push({ mark, text: line.slice(1), old: mark === "+" ? null : i, new: mark === "-" ? null : j });
      if (mark !== "+") i++;
      if (mark !== "-") j++;
    }
  }
  return lines;
}
