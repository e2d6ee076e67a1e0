// The page by keyboard alone. Keys work where nobody types.
import { useEffect, useRef } from "preact/hooks";
import { signal } from "@preact/signals";
import { starting } from "./now.tsx";
import { go } from "./route.ts";

export const helping = signal(false);

const KEYS: [string, string][] = [
  ["?", "these keys"], ["g n", "Now"], ["g a", "Approvals"], ["j, k", "next, previous in the list"], ["Enter", "open it"], ["c", "new session"], ["/", "filter or search"],
  ["r", "to the next request"], ["i", "write a prompt"], ["Esc", "leave a field, close this"],
];

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

function step(selector: string, by: number): void {
  const all = [...document.querySelectorAll<HTMLElement>(selector)];
  const at = all.indexOf(document.activeElement as HTMLElement);
  all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))]?.focus();
}

export function useKeys(): void {
  const prefix = useRef(0);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape") {
        if (helping.value) helping.value = false;
        else if (typing(event.target)) (event.target as HTMLElement).blur();
        return;
      }
      if (typing(event.target) || document.querySelector("dialog[open]:not(.help)")) return;
      const after = Date.now() - prefix.current < 1000;
      prefix.current = 0;
      const handled = (): boolean => {
        if (after && event.key === "n") { go("/now"); return true; }
        if (after && event.key === "a") { go("/approvals"); return true; }
        switch (event.key) {
          case "?": helping.value = !helping.value; return true;
          case "g": prefix.current = Date.now(); return true;
          case "j": step("[data-hosted]", 1); return true;
          case "k": step("[data-hosted]", -1); return true;
          case "r": step(".request.open .request-text", 1); return true;
          case "c": starting.open?.(); return true;
          case "i": document.getElementById("prompt")?.focus(); return true;
          case "/": {
            const field = document.getElementById("find") ?? document.getElementById("filter");
            if (field) field.focus();
            else document.querySelector<HTMLElement>("[data-find]")?.click();
            return true;
          }
          default: return false;
        }
      };
      if (handled()) event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => { if (helping.value) dialog.current?.showModal(); else dialog.current?.close(); }, [helping.value]);
  return (
    <dialog ref={dialog} class="dialog help" aria-labelledby="help-title" onClose={() => { helping.value = false; }}>
      <h2 id="help-title">Keys</h2>
      <dl class="keys">{KEYS.map(([key, about]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{about}</dd></div>)}</dl>
      <div class="dialog-foot"><button type="button" class="primary" onClick={() => { helping.value = false; }}>Close</button></div>
    </dialog>
  );
}
