// A program on a terminal of its own, as it is, typed into where the device may. It goes on by position after a lost connection, and
// keys that were not acknowledged are sent again, once.
import { useEffect, useRef, useState } from "preact/hooks";
import type { FromFrame, ToFrame } from "./terminal.ts";
import { call, link, listen, may, words } from "./store.ts";

/** Enough for every screen that is full of colours, and some to scroll back. */
const TAIL = 256 * 1024;

function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

function toBase64(text: string): { data: string; length: number } {
  const bytes = new TextEncoder().encode(text);
  return { data: btoa(String.fromCharCode(...bytes)), length: bytes.length };
}

class Attachment {
  private watch: number | null = null;
  private next: number | null = null;
  private size: { rows: number; cols: number } | null = null;
  private readonly sender = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  private sent = 0;
  private keys = "";
  private sending = false;
  private over = false;
  private readonly unlisten: () => void;

  constructor(private readonly id: string, private readonly frame: () => Window | null, private readonly trouble: (text: string) => void) {
    addEventListener("message", this.heard);
    this.unlisten = listen((told) => {
      if (told.method === "process.frame" && told.params.watch === this.watch) {
        this.next = told.params.seq + 1;
        this.tell({ kind: "bytes", bytes: fromBase64(told.params.data) });
      } else if (told.method === "process.exit" && told.params.watch === this.watch) this.trouble("It has ended.");
    }, () => { this.watch = null; void this.attach(); });
  }

  close(): void {
    this.over = true;
    removeEventListener("message", this.heard);
    this.unlisten();
    if (this.watch !== null) void call("process.detach", { watch: this.watch }).catch(() => {});
  }

  private tell(told: ToFrame): void {
    this.frame()?.postMessage(told, location.origin);
  }

  private readonly heard = (event: MessageEvent<FromFrame>) => {
    if (event.origin !== location.origin || event.source !== this.frame()) return;
    const told = event.data;
    if (told.kind === "keys") {
      this.keys += told.keys;
      void this.send();
      return;
    }
    this.size = { rows: told.rows, cols: told.cols };
    if (told.kind === "ready") void this.attach();
    else if (may("type") && this.watch !== null) void call("process.resize", { id: this.id, ...this.size }).catch(() => {});
  };

  private async attach(): Promise<void> {
    if (this.over || !this.size || link.value === "lost") return;
    const types = may("type");
    try {
      const attached = await call("process.attach", { id: this.id, ...(this.next === null ? { tail: TAIL } : { from: this.next }), viewer: { types, ...(types ? { size: this.size } : {}) } });
      this.watch = attached.watch;
      this.tell({ kind: "begin", types: types && attached.process.state === "running", size: attached.size ?? attached.process.size ?? null });
      this.tell({ kind: "focus" });
      this.trouble("");
      void this.send();
    } catch (error) {
      this.trouble(words(error));
    }
  }

  private async send(): Promise<void> {
    if (this.sending) return;
    this.sending = true;
    try {
      while (this.keys && !this.over) {
        const keys = this.keys;
        const { data, length } = toBase64(keys);
        await call("process.stdin", { id: this.id, data, sender: { id: this.sender, offset: this.sent } });
        this.sent += length;
        this.keys = this.keys.slice(keys.length);
      }
    } catch (error) {
      this.trouble(words(error));
    } finally {
      this.sending = false;
    }
  }
}

export function Screen({ id }: { id: string }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [trouble, setTrouble] = useState("");
  useEffect(() => {
    const attachment = new Attachment(id, () => frame.current?.contentWindow ?? null, setTrouble);
    // Only now, so that its first word is heard.
    if (frame.current) frame.current.src = "/terminal";
    return () => attachment.close();
  }, [id]);
  return (
    <>
      {trouble ? <p class="quiet" role="status">{trouble}</p> : null}
      <iframe class="screen" ref={frame} title="terminal" />
      {may("type") ? null : <p class="quiet">This device may look, not type.</p>}
    </>
  );
}
