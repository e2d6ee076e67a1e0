// Which view is open: what stands behind the `#` of the address.
import { computed, signal } from "@preact/signals";

export type Route = { view: "now" } | { view: "approvals" } | { view: "session"; id: string; tab: "talk" | "changes" } | { view: "process"; id: string };

const hash = signal(location.hash);
window.addEventListener("hashchange", () => { hash.value = location.hash; });

export const route = computed<Route>(() => {
  const [, view, id, tab] = hash.value.split("/");
  if (view === "session" && id) return { view, id: decodeURIComponent(id), tab: tab === "changes" ? "changes" : "talk" };
  if (view === "process" && id) return { view, id: decodeURIComponent(id) };
  return view === "approvals" ? { view } : { view: "now" };
});

export function go(to: string): void {
  location.hash = to;
}
