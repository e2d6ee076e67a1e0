// The terminal widget, in a frame of its own: it makes style elements, which the policy of the page does not take. It has no
// connection; bytes come from the page around it, and keys go there.
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "./terminal.css";

/** What the page says, and what the frame says. */
export type ToFrame = { kind: "bytes"; bytes: Uint8Array } | { kind: "begin"; types: boolean; size: { rows: number; cols: number } | null } | { kind: "focus" };
export type FromFrame = { kind: "ready"; rows: number; cols: number } | { kind: "size"; rows: number; cols: number } | { kind: "keys"; keys: string };

/** Lines that can be scrolled back to. */
const SCROLLBACK = 5_000;

const terminal = new Terminal({
  fontSize: 13, scrollback: SCROLLBACK, cursorBlink: false, disableStdin: true, allowProposedApi: false, screenReaderMode: true,
  fontFamily: "ui-monospace, 'DejaVu Sans Mono', monospace", theme: { background: "#141516", foreground: "#e7e8e6", cursor: "#62c49f" },
  // A link in a terminal is words.
  linkHandler: { activate: () => {} },
});
const fit = new FitAddon();
let fits = true;
const tell = (told: FromFrame) => parent.postMessage(told, location.origin);

terminal.loadAddon(fit);
terminal.open(document.getElementById("terminal") as HTMLElement);
fit.fit();
terminal.onData((keys) => tell({ kind: "keys", keys }));
new ResizeObserver(() => {
  if (!fits) return;
  fit.fit();
  tell({ kind: "size", rows: terminal.rows, cols: terminal.cols });
}).observe(document.body);

addEventListener("message", (event: MessageEvent<ToFrame>) => {
  if (event.origin !== location.origin || event.source !== parent) return;
  const told = event.data;
  if (told.kind === "bytes") terminal.write(told.bytes);
  else if (told.kind === "focus") terminal.focus();
  else {
    terminal.options.disableStdin = !told.types;
    fits = told.types;
    if (told.size && !fits) terminal.resize(told.size.cols, told.size.rows);
  }
});
tell({ kind: "ready", rows: terminal.rows, cols: terminal.cols });
