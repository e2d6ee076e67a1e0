// A change of a file: unified, or side by side where there is room.
import { useMemo } from "preact/hooks";
import type { Diff } from "./keeper.ts";
import { difference, type Line, patch } from "./lines.ts";
import { writtenOut } from "./format.ts";

/** Lines that are drawn of one change; the rest is a click away. */
export const DRAWN_MAX = 400;

type Row = Line | { mark: "@"; text: string };

export function rowsOf(diff: Diff): Row[] {
  return difference(diff.old, diff.new, diff.line ?? 1);
}

export { patch };

const SIGN = { "+": "added", "-": "removed", " ": "same", "@": "hunk" } as const;

export function Rows({ rows, side, numbers = true, onLine, noted }: { rows: Row[]; side?: boolean; numbers?: boolean; onLine?: ((line: Line) => void) | undefined; noted?: ((line: Line) => preact.ComponentChildren) | undefined }) {
  const drawn = rows.slice(0, DRAWN_MAX);
  const left = rows.length - drawn.length;
  return (
    <div class={`diff ${side ? "side" : "unified"}`} role="group" aria-label="changes" tabIndex={0}>
      {side ? <Side rows={drawn} onLine={onLine} noted={noted} /> : drawn.map((row, at) => <Unified key={at} row={row} numbers={numbers} onLine={onLine} noted={noted} />)}
      {left > 0 ? <div class="diff-more">{left} more lines are not drawn here</div> : null}
    </div>
  );
}

function number(row: Row, which: "old" | "new"): string {
  return row.mark === "@" ? "" : String(row[which] ?? "");
}

function Unified({ row, numbers, onLine, noted }: { row: Row; numbers: boolean; onLine?: ((line: Line) => void) | undefined; noted?: ((line: Line) => preact.ComponentChildren) | undefined }) {
  if (row.mark === "@") return <div class="row hunk"><code>{row.text}</code></div>;
  return (
    <>
      <div class={`row ${SIGN[row.mark]}`}>
        {numbers ? <><span class="no">{number(row, "old")}</span><span class="no">{number(row, "new")}</span></> : null}
        {onLine ? <button type="button" class="note-line" aria-label={`comment on line ${row.new ?? row.old}`} onClick={() => onLine(row)}>+</button> : null}
        <span class="sign" aria-hidden="true">{row.mark}</span>
        <code>{row.mark === " " ? null : <span class="hidden">{SIGN[row.mark]} </span>}{writtenOut(row.text) || " "}</code>
      </div>
      {noted?.(row)}
    </>
  );
}

/** Lines that go beside lines that come. */
function Side({ rows, onLine, noted }: { rows: Row[]; onLine?: ((line: Line) => void) | undefined; noted?: ((line: Line) => preact.ComponentChildren) | undefined }) {
  const pairs = useMemo(() => {
    const pairs: [Row | null, Row | null][] = [];
    let gone: Row[] = [];
    const flush = () => { gone.forEach((row) => pairs.push([row, null])); gone = []; };
    for (const row of rows) {
      if (row.mark === "-") gone.push(row);
      else if (row.mark === "+" && gone.length) pairs.push([gone.shift() ?? null, row]);
      else { flush(); pairs.push(row.mark === "+" ? [null, row] : [row, row]); }
    }
    flush();
    return pairs;
  }, [rows]);
  const half = (row: Row | null, which: "old" | "new") => (
    <div class={`half ${row ? (row.mark === " " ? "same" : SIGN[row.mark]) : "none"}`}>
      <span class="no">{row ? number(row, which) : ""}</span>
      {row && row.mark !== "@" && which === "new" && onLine ? <button type="button" class="note-line" aria-label={`comment on line ${row.new}`} onClick={() => onLine(row)}>+</button> : null}
      <code>{row ? writtenOut(row.text) || " " : " "}</code>
    </div>
  );
  return (
    <>
      {pairs.map(([one, two], at) => one?.mark === "@"
        ? <div key={at} class="row hunk"><code>{one.text}</code></div>
        : <><div key={at} class="pair">{half(one, "old")}{half(two, "new")}</div>{two && two.mark !== "@" ? noted?.(two) : one ? noted?.(one) : null}</>)}
    </>
  );
}

export function Change({ diff }: { diff: Diff }) {
  const rows = useMemo(() => rowsOf(diff), [diff]);
  return (
    <figure class="change">
      <figcaption><bdi>{writtenOut(diff.path)}</bdi></figcaption>
      <Rows rows={rows} numbers={diff.line !== null && diff.line !== undefined} />
    </figure>
  );
}
