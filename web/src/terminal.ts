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

// Only what the person does goes to the program. The widget also answers what a program asks its terminal: for the past that is
// drawn here nobody waits any more, and now whoever is attached from a terminal answers. Which it was only its core says.
const { coreService } = (terminal as unknown as { _core: { coreService: { onUserInput(heard: () => void): void } } })._core;
let byPerson = false;
coreService.onUserInput(() => { byPerson = true; });
terminal.onData((keys) => {
  if (byPerson) tell({ kind: "keys", keys });
  byPerson = false;
});
// The widget says this also when a program, perhaps long gone, begins to ask for it.
for (const [event, keys] of [["focus", "\x1b[I"], ["blur", "\x1b[O"]] as const)
  terminal.textarea?.addEventListener(event, () => { if (terminal.modes.sendFocusMode && !terminal.options.disableStdin) tell({ kind: "keys", keys }); });

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
