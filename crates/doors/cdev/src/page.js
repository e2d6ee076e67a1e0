// The page at /pair: the time that is left, and who waits to come in. A browser that was given a link of `cdev pair` keeps a key
// that it cannot show to anybody, and signs each of its requests with it.
"use strict";

const POLL_MS = 2000;
const DATABASE = "cdev-pair", STORE = "device";
const waiting = document.getElementById("waiting");
const list = document.getElementById("list");
const told = document.getElementById("told");

const base64url = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

function store(mode, work) {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
    opening.onerror = () => reject(opening.error);
    opening.onsuccess = () => {
      const asked = work(opening.result.transaction(STORE, mode).objectStore(STORE));
      asked.onsuccess = () => resolve(asked.result);
      asked.onerror = () => reject(asked.error);
    };
  });
}

const kept = () => store("readonly", (all) => all.get("own")).catch(() => undefined);

async function post(path, body, headers = {}) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  return { status: answer.status, body: await answer.json() };
}

// Becomes a device, with the link that stands behind the # of the address.
async function redeem(link) {
  const keys = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, false, ["sign"]);
  const key = base64url(await crypto.subtle.exportKey("raw", keys.publicKey));
  const answer = await post("/api/auth/exchange", { pairing_token: link, key, device_name: "browser at /pair" });
  if (answer.status !== 200) throw new Error(answer.body.error || "the link was not accepted");
  await store("readwrite", (all) => all.put({ id: answer.body.device_id, sign: keys.privateKey }, "own"));
}

// Headers that show who asks; none where this browser is no device.
async function proof() {
  const own = await kept();
  if (!own) return {};
  const { body } = await post("/api/auth/pairing/challenge", {});
  const text = new TextEncoder().encode(`ostler connect\n${body.challenge}\n${own.id}\n${body.host}`);
  const signature = await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, own.sign, text);
  return { "X-Cdev-Device": own.id, "X-Cdev-Challenge": body.challenge, "X-Cdev-Signature": base64url(signature) };
}

function element(name, text, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

async function decide(id, verb) {
  const answer = await post(`/api/auth/pairing/${verb}`, { request_id: id }, await proof());
  told.textContent = answer.status === 200 ? (verb === "approve" ? "Let in." : "Refused.") : answer.body.error;
  await look();
}

function row(device) {
  const item = element("li", "");
  const who = element("div", "", "who");
  who.append(element("b", device.user_agent || "a device"), element("span", `from ${device.remote_addr}`, "note"));
  const buttons = element("div", "", "buttons");
  for (const [verb, word] of [["approve", "Accept"], ["reject", "Refuse"]]) {
    const button = element("button", word, verb);
    button.type = "button";
    button.setAttribute("aria-label", `${word} ${device.user_agent || "the device"} from ${device.remote_addr}`);
    button.addEventListener("click", () => {
      button.disabled = true;
      decide(device.request_id, verb).catch((error) => { told.textContent = error.message; });
    });
    buttons.append(button);
  }
  item.append(who, buttons);
  item.dataset.id = device.request_id;
  return item;
}

// Rows that are still right stay as they are: nobody presses a button that has just moved.
function show(devices) {
  const known = new Map([...list.children].map((item) => [item.dataset.id, item]));
  for (const [id, item] of known) if (!devices.some((device) => device.request_id === id)) item.remove();
  for (const device of devices) if (!known.has(device.request_id)) list.append(row(device));
  document.getElementById("nobody").hidden = devices.length > 0;
}

async function look() {
  const answer = await fetch("/api/auth/pairing/pending", { headers: await proof() });
  waiting.hidden = answer.status === 404;
  const may = answer.status === 200;
  document.getElementById("may").hidden = !may;
  document.getElementById("may-not").hidden = may;
  if (may) show((await answer.json()).pending);
}

function count() {
  const left = document.getElementById("left");
  if (!left) return;
  const until = Date.now() + Number(left.dataset.seconds) * 1000;
  const tick = () => {
    const seconds = Math.max(0, Math.round((until - Date.now()) / 1000));
    left.textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
    if (seconds === 0) location.reload();
  };
  tick();
  setInterval(tick, 1000);
}

async function begin() {
  count();
  const link = location.hash.slice(1);
  if (link) {
    history.replaceState(null, "", location.pathname);
    await redeem(link).catch((error) => { told.textContent = error.message; });
  }
  // Where nobody is asked about devices there is nothing to look at.
  while (waiting) {
    await look().catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

begin();
