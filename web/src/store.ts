// What the page knows of the instance: who we are, what is hosted, what waits for a person. Everything here comes from the instance
// and is asked for again when the feed says that something changed.
import { computed, signal } from "@preact/signals";
import type { Methods } from "./api.ts";
import { arrive, forget, ownName, redeem, remembered, signed } from "./device.ts";
import { Connection, Gone, Refused, type Told } from "./rpc.ts";

export type Hosted = NonNullable<Methods["hosted.list"]["result"]["hosted"]>[number];
export type Request = NonNullable<Methods["approval.list"]["result"]["approvals"]>[number];
export type Came = Methods["device.show"]["result"];
export type Right = NonNullable<Came["rights"]>[number];

/** What is over and still shown: as many as anybody looks back. */
const OVER_MAX = 40;
/** Several changes at once are asked for once. */
const GATHER_MS = 120;
/** Terminal programs say how they are doing without the feed. */
const LOOK_AGAIN_MS = 5_000;
const RETRY_MS = [250, 500, 1_000, 2_000, 4_000];

export type Link = "starting" | "login" | "waiting" | "open" | "lost";
export const link = signal<Link>("starting");
/** Why there is no way in, or what is being waited for. */
export const why = signal("");
export const me = signal<Came | null>(null);
export const limited = signal(false);
export const hosted = signal<Hosted[] | null>(null);
export const requests = signal<Request[]>([]);
export const locked = signal(false);
export const now = signal(Date.now());
export const pending = computed(() => requests.value.filter((one) => one.state === "pending"));
export const program = signal("");

export const may = (right: Right): boolean => me.value?.rights?.includes(right) ?? false;

let connection: Connection | null = null;
const listeners = new Set<(told: Told) => void>();
const openers = new Set<() => void>();

/** What the instance says without being asked, to whoever listens. */
export function listen(heard: (told: Told) => void, opened: () => void): () => void {
  listeners.add(heard);
  openers.add(opened);
  return () => {
    listeners.delete(heard);
    openers.delete(opened);
  };
}

export function call<M extends keyof Methods>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]> {
  return connection ? connection.call(method, params) : Promise.reject(new Gone("the connection is lost; it is being made again"));
}

export function words(error: unknown): string {
  if (error instanceof Refused) return error.hint ? `${error.message}. ${error.hint}` : error.message;
  return error instanceof Error ? error.message : String(error);
}

/** Takes the link out of the address, where nobody else shall find it. */
function linkInAddress(): string | null {
  const text = location.hash.slice(1);
  if (!/^[A-Za-z0-9_-]{43}$/.test(text)) return null;
  history.replaceState(null, "", "/#/now");
  return text;
}

export async function start(): Promise<void> {
  setInterval(() => { if (!document.hidden) now.value = Date.now(); }, 1_000);
  setInterval(() => { if (!document.hidden && link.value === "open") void look(); }, LOOK_AGAIN_MS);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) { now.value = Date.now(); if (link.value === "open") void look(); } });
  window.addEventListener("hashchange", () => { const given = linkInAddress(); if (given) void enter(given); });
  const given = linkInAddress();
  if (given) return enter(given);
  if (await remembered()) return stay();
  link.value = "login";
}

/** Comes in by a link, once. */
export async function enter(given: string): Promise<void> {
  leave();
  link.value = "starting";
  try {
    const door = await Connection.open();
    limited.value = await redeem(door, given, ownName(), () => { link.value = "waiting"; });
    door.close();
    await stay();
  } catch (error) {
    if (await remembered()) return stay();
    out(error instanceof Gone ? "The link was not tried: ostler does not answer." : `${words(error)}`);
  }
}

/** Comes in by a code of six digits. */
export async function enterByCode(code: string): Promise<void> {
  const door = await Connection.open();
  const { link: given } = await door.call("device.code", { code });
  door.close();
  return enter(given);
}

let epoch = 0;

/** Stays connected, whatever happens to the instance, until it says that we are nobody. */
async function stay(): Promise<void> {
  const own = ++epoch;
  for (let tries = 0; own === epoch; tries++) {
    try {
      const door = await Connection.open();
      const came = await arrive(door);
      if (own !== epoch) return door.close();
      tries = 0;
      await opened(door, came);
    } catch (error) {
      if (error instanceof Refused) {
        await forget();
        return out(words(error));
      }
    }
    if (own !== epoch) return;
    connection = null;
    link.value = "lost";
    await new Promise((later) => setTimeout(later, RETRY_MS[Math.min(tries, RETRY_MS.length - 1)]));
  }
}

/** The last change that the feed told of: a lost connection goes on after it. */
let position: string | null = null;

async function opened(door: Connection, came: Came): Promise<void> {
  const over = new Promise<void>((ended) => { door.ended = ended; });
  door.told = (told) => {
    if (told.method === "feed.changes") position = told.params.changes?.at(-1)?.position ?? position;
    if (told.method === "feed.changes" || told.method === "feed.gap") soon();
    for (const heard of listeners) heard(told);
  };
  connection = door;
  me.value = came;
  program.value = (await door.call("instance.hello", { version: 1, client: "page" })).program;
  const followed = await door.call("feed.follow", position === null ? {} : { after: position });
  if (position === null || followed.gap) position = followed.position;
  await look();
  link.value = "open";
  for (const again of openers) again();
  await over;
}

function leave(): void {
  epoch++;
  connection?.close();
  connection = null;
}

/** Nobody, and nothing of what was shown stays. */
function out(reason: string): void {
  leave();
  me.value = null;
  hosted.value = null;
  requests.value = [];
  why.value = reason;
  link.value = "login";
}

/** This device is put out, by itself. */
export async function logOut(): Promise<void> {
  const device = me.value?.id;
  if (device) await call("device.revoke", { device }).catch(() => {});
  await forget();
  out("This browser is no device of this ostler any more.");
}

let gathering = false;
export function soon(): void {
  if (gathering) return;
  gathering = true;
  setTimeout(() => { gathering = false; void look(); }, GATHER_MS);
}

async function look(): Promise<void> {
  try {
    const [all, asked] = await Promise.all([
      call("hosted.list", { all: true, over_max: OVER_MAX, lines: 2, branches: true }),
      call("approval.list", { all: true }),
    ]);
    hosted.value = all.hosted ?? [];
    requests.value = asked.approvals ?? [];
    locked.value = asked.locked ?? false;
    now.value = Date.now();
  } catch (error) {
    if (!(error instanceof Gone)) why.value = words(error);
  }
}

type Answer = Omit<Methods["approval.decide"]["params"], "id" | "hash" | "signed">;

/** Decides about exactly what was shown. */
export async function decide(request: Request, answer: Answer): Promise<Request> {
  const decided = await call("approval.decide", await signed({ id: request.id, hash: request.hash, ...answer }));
  requests.value = requests.value.map((one) => (one.id === decided.id ? decided : one));
  soon();
  return decided;
}
