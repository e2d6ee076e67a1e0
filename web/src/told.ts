// Being told while no page is in view: whether this browser can be, whether it is, and what is missing where it cannot.
import { effect, signal } from "@preact/signals";
import { secure } from "./device.ts";
import { go, route } from "./route.ts";
import { inSight, lookedAt } from "./sight.ts";
import { call, hosted, link, pending, words } from "./store.ts";

/** `absent`: this browser cannot; `why` says what is missing. */
export type Told = "unknown" | "absent" | "off" | "on" | "refused";
export const told = signal<Told>("unknown");
export const why = signal("");
/** What the browser shows when the page may be installed: it asks for it once. */
export const installing = signal<{ prompt(): Promise<unknown> } | null>(null);
export const installed = () => matchMedia("(display-mode: standalone)").matches;

/** The one address of a script that the page starts beside itself. */
function workerAddress(): string {
  const policies = (globalThis as { trustedTypes?: { createPolicy(name: string, rules: { createScriptURL(text: string): string }): { createScriptURL(text: string): unknown } } }).trustedTypes;
  const address = "/worker.js";
  return (policies?.createPolicy("ostler-worker", { createScriptURL: () => address }).createScriptURL(address) as string | undefined) ?? address;
}

let registration: ServiceWorkerRegistration | null = null;

/** Looks at what this browser can, once; and says what is in view from now on. */
export function begin(): void {
  addEventListener("beforeinstallprompt", (event) => { event.preventDefault(); installing.value = event as unknown as { prompt(): Promise<unknown> }; });
  addEventListener("appinstalled", () => { installing.value = null; });
  void found();
  looks();
}

async function found(): Promise<void> {
  if (!secure || !("serviceWorker" in navigator)) {
    told.value = "absent";
    why.value = "This connection is not encrypted: browsers tell nobody and install nothing there. A tunnel (web.url) or a certificate (web.certificate) gives both.";
    return;
  }
  try {
    registration = await navigator.serviceWorker.register(workerAddress());
    navigator.serviceWorker.addEventListener("message", (event) => { const to = (event.data as { go?: string }).go; if (to?.startsWith("#/")) go(to.slice(1)); });
    if (!("pushManager" in registration) || !("Notification" in globalThis)) {
      told.value = "absent";
      why.value = /iPhone|iPad/.test(navigator.userAgent) ? "On iPhones only an installed page is told: Share, then Add to Home Screen." : "This browser has no push service.";
      return;
    }
    const subscription = await registration.pushManager.getSubscription();
    told.value = Notification.permission === "denied" ? "refused" : subscription ? "on" : "off";
    if (subscription) effect(() => { if (link.value === "open") void agree(subscription.endpoint); });
  } catch (error) {
    told.value = "absent";
    why.value = words(error);
  }
}

/** A browser that was paired anew is told again without being asked. */
async function agree(endpoint: string): Promise<void> {
  try {
    const { subscribed } = await call("notice.list", { after: Number.MAX_SAFE_INTEGER });
    if (!subscribed && told.value === "on") await call("notice.subscribe", { endpoint });
  } catch (error) {
    why.value = words(error);
  }
}

/** Asks the browser, then the instance. */
export async function turnOn(): Promise<void> {
  try {
    why.value = "";
    if (await Notification.requestPermission() !== "granted") { told.value = "refused"; return; }
    const { key } = await call("notice.key", {});
    const ready = await navigator.serviceWorker.ready;
    const subscription = await ready.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
    await call("notice.subscribe", { endpoint: subscription.endpoint });
    told.value = "on";
  } catch (error) {
    why.value = words(error);
  }
}

export async function turnOff(): Promise<void> {
  try {
    await (await registration?.pushManager.getSubscription())?.unsubscribe();
    await call("notice.unsubscribe", {});
    told.value = "off";
  } catch (error) {
    why.value = words(error);
  }
}

/** Who has touched nothing for so long may be away: a page that is left open looks at nothing. */
const AWAY_MS = 120_000;

/** Whoever has something in front of them need not be told of it: says what that is, and when it is nothing. */
function looks(): void {
  const here = signal(!document.hidden);
  let away: ReturnType<typeof setTimeout> | undefined;
  const touched = () => {
    clearTimeout(away);
    here.value = !document.hidden;
    if (here.value) away = setTimeout(() => { here.value = false; }, AWAY_MS);
  };
  for (const sign of ["visibilitychange", "pointermove", "pointerdown", "keydown", "wheel", "touchmove", "focus"]) addEventListener(sign, touched, { passive: true, capture: true });
  touched();
  let said = "";
  effect(() => {
    if (link.value !== "open") { said = ""; return; }
    const at = route.value;
    const looking = !here.value ? {} : at.view === "session" ? { sessions: [at.id] } : at.view === "process" ? { processes: [at.id] } : lookedAt(hosted.value ?? [], pending.value, inSight.value);
    const text = JSON.stringify(looking);
    if (text === said) return;
    said = text;
    void call("notice.looking", looking).catch(() => { said = ""; });
  });
}
