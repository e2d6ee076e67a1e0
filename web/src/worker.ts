// The page's worker: shows what somebody is told of while no page is in view, and answers from there where the instance lets it. A push
// carries nothing: what it is about is asked of the instance, as the device that this browser is. It keeps nothing and serves nothing.
/// <reference lib="webworker" />
import type { Methods } from "./api.ts";
import { arrive, remembered, signed } from "./device.ts";
import { Connection } from "./rpc.ts";

declare const self: ServiceWorkerGlobalScope;

type Notice = NonNullable<Methods["notice.list"]["result"]["notices"]>[number];
type Shown = { link: string; answer?: { approval: string; hash: string } };

/** One at a time: a newer one takes its place. */
const TAG = "ostler";
/** An instance that does not answer so soon is not waited for: the browser wants something shown. */
const WITHIN_MS = 8_000;
const TITLES = { needs: "ostler needs you", failed: "Something failed", ended: "Done" } as const;

self.addEventListener("install", () => void self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("push", (event) => event.waitUntil(told()));
self.addEventListener("notificationclick", (event) => event.waitUntil(clicked(event)));
// The browser made a new address for us.
self.addEventListener("pushsubscriptionchange", ((event: ExtendableEvent) => event.waitUntil(moved())) as EventListener);

/** With the instance, as this device, for as long as that takes. */
async function asked<T>(ask: (door: Connection) => Promise<T>): Promise<T> {
  if (!await remembered()) throw new Error("this browser is no device");
  const door = await Connection.open();
  try {
    await arrive(door);
    return await ask(door);
  } finally {
    door.close();
  }
}

async function told(): Promise<void> {
  const late = new Promise<null>((answer) => setTimeout(() => answer(null), WITHIN_MS));
  const notice = await Promise.race([newest().catch(() => null), late]);
  const icon = "/TAG/icon-192.png";
  if (!notice) return self.registration.showNotification("ostler", { body: "Something needs you, failed or is done.", tag: TAG, icon, data: { link: "/" } satisfies Shown });
  const data: Shown = { link: notice.link ? new URL(notice.link).hash || "/" : "/", ...(notice.answer ? { answer: notice.answer } : {}) };
  const actions = notice.answer ? [{ action: "once", title: "Allow once" }, { action: "deny", title: "Deny" }] : [{ action: "open", title: "Open" }];
  await self.registration.showNotification(TITLES[notice.kind], { body: notice.text, tag: TAG, icon, data, requireInteraction: notice.kind === "needs", ...{ actions, renotify: true } });
}

async function newest(): Promise<Notice | null> {
  const { notices } = await asked((door) => door.call("notice.list", {}));
  return notices?.at(-1) ?? null;
}

async function clicked(event: NotificationEvent): Promise<void> {
  const { link, answer } = event.notification.data as Shown;
  event.notification.close();
  if (answer && (event.action === "once" || event.action === "deny")) {
    const { action } = event;
    try {
      await asked(async (door) => door.call("approval.decide", await signed({ id: answer.approval, hash: answer.hash, verdict: action })));
    } catch (error) {
      // What did not count is said, with the way to the place.
      await self.registration.showNotification("Not answered", { body: error instanceof Error ? error.message : String(error), tag: TAG, icon: "/TAG/icon-192.png", data: { link } satisfies Shown });
    }
    return;
  }
  const windows = await self.clients.matchAll({ type: "window" });
  const open = windows.find((one) => new URL(one.url).pathname === "/");
  if (!open) return void await self.clients.openWindow(`/${link.startsWith("#") ? link : ""}`);
  open.postMessage({ go: link });
  await open.focus();
}

async function moved(): Promise<void> {
  await asked(async (door) => {
    const { key } = await door.call("notice.key", {});
    const subscription = await self.registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
    await door.call("notice.subscribe", { endpoint: subscription.endpoint });
  });
}
