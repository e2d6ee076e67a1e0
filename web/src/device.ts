// Which device this browser is: a key that never leaves it where the context is secure, else tokens. Kept for this origin alone,
// in no cookie, so that a page on another port of the same host has nothing of it.
import type { Methods } from "./api.ts";
import type { Connection } from "./rpc.ts";

type Came = Methods["device.show"]["result"];
type Tokens = NonNullable<NonNullable<Methods["device.redeem"]["result"]["paired"]>["tokens"]>;
type Kept = { id: string; name: string; key?: CryptoKeyPair; tokens?: Tokens };

/** How long a signed answer counts: a clock may be off, a person does not wait. */
const COUNTS_FOR_MS = 60_000;
/** How often to ask whether the person at the machine has let us in. */
const ASK_AGAIN_MS = 1_000;

export const secure = globalThis.isSecureContext && globalThis.crypto?.subtle !== undefined;

function base64url(bytes: ArrayBuffer): string {
  return btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function store(): Promise<IDBObjectStore> {
  return new Promise((opened, failed) => {
    const request = indexedDB.open("ostler", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("device");
    request.onsuccess = () => opened(request.result.transaction("device", "readwrite").objectStore("device"));
    request.onerror = () => failed(request.error);
  });
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((good, bad) => {
    request.onsuccess = () => good(request.result);
    request.onerror = () => bad(request.error);
  });
}

let kept: Kept | undefined;

export async function remembered(): Promise<boolean> {
  kept ??= await done((await store()).get("self")) as Kept | undefined;
  return kept !== undefined;
}

async function keep(device: Kept): Promise<void> {
  kept = device;
  await done((await store()).put(device, "self"));
}

export async function forget(): Promise<void> {
  kept = undefined;
  await done((await store()).delete("self"));
}

async function sign(key: CryptoKeyPair, text: string): Promise<string> {
  return base64url(await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, key.privateKey, new TextEncoder().encode(text)));
}

/** Becomes a device by a link. `waits` is called when a person is asked first. */
export async function redeem(connection: Connection, link: string, name: string, waits: (offer: string) => void): Promise<boolean> {
  const key = secure ? await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, false, ["sign"]) : undefined;
  const point = key && base64url(await crypto.subtle.exportKey("raw", key.publicKey));
  for (;;) {
    const told = await connection.call("device.redeem", { link, name, ...(point ? { key: point } : {}) });
    if (told.paired) {
      const { id, name, tokens, limited } = told.paired;
      await keep({ id, name, ...(key ? { key } : {}), ...(tokens ? { tokens } : {}) });
      return limited;
    }
    waits(told.offer ?? "");
    await new Promise((later) => setTimeout(later, ASK_AGAIN_MS));
  }
}

/** Shows who we are. */
export async function arrive(connection: Connection): Promise<Came> {
  if (!kept) throw new Error("this browser is not paired");
  if (kept.key) {
    const { challenge, host } = await connection.call("device.challenge", {});
    const signature = await sign(kept.key, `ostler connect\n${challenge}\n${kept.id}\n${host}`);
    return connection.call("device.prove", { device: kept.id, signature });
  }
  // Another window may have used the refresh token meanwhile; used twice it puts the device out.
  kept = (await done((await store()).get("self")) as Kept | undefined) ?? kept;
  const tokens = kept.tokens;
  if (!tokens) throw new Error("this browser has neither a key nor a token");
  if (Date.parse(tokens.access_until) < Date.now() + COUNTS_FOR_MS) {
    await keep({ ...kept, tokens: await connection.call("device.refresh", { refresh: tokens.refresh }) });
  }
  return connection.call("device.show", { token: kept.tokens?.access ?? "" });
}

type Answer = Methods["approval.decide"]["params"];

/** An answer as it is sent: signed, where there is a key. */
export async function signed(answer: Answer): Promise<Answer> {
  if (!kept?.key) return answer;
  const text = JSON.stringify({ ...answer, until_ms: Date.now() + COUNTS_FOR_MS });
  return { ...answer, signed: { text, signature: await sign(kept.key, text) } };
}

/** What this browser calls itself, for the person who lets it in. */
export function ownName(agent = navigator.userAgent): string {
  const browser = /Edg\//.test(agent) ? "Edge" : /Firefox\//.test(agent) ? "Firefox" : /Chrom(e|ium)\//.test(agent) ? "Chrome" : /Safari\//.test(agent) ? "Safari" : "browser";
  const system = /Android/.test(agent) ? "android" : /iPhone|iPad/.test(agent) ? "ios" : /Mac OS/.test(agent) ? "mac" : /Windows/.test(agent) ? "windows" : "linux";
  return `${browser.toLowerCase()}-${system}-${Math.floor(Math.random() * 1000)}`;
}
