// The inbox, standing rules, the record of who decided where, and devices with what they may do.
import { useEffect, useState } from "preact/hooks";
import type { Methods } from "./api.ts";
import { secure } from "./device.ts";
import { ago } from "./format.ts";
import { Insecure } from "./login.tsx";
import { Empty, Value } from "./parts.tsx";
import { RequestCard, Settled } from "./request.tsx";
import { installed, installing, told, turnOff, turnOn, why } from "./told.ts";
import { call, listen, locked, logOut, may, me, now, pending, requests, words } from "./store.ts";

type Rule = NonNullable<Methods["rule.list"]["result"]["rules"]>[number];
type Device = NonNullable<Methods["device.list"]["result"]["devices"]>[number];
type Entry = NonNullable<Methods["audit.read"]["result"]["entries"]>[number];

const RIGHTS: Record<string, string> = {
  view: "look", prompt: "write prompts", answer_once: "answer once", answer_lastingly: "answer for longer", answer_privileged: "say yes to root commands", loosen: "let agents do more",
  write: "change files", type: "type into terminals", admit: "let in devices",
};
const rightsOf = (rights: readonly string[] | null | undefined) => (rights ?? []).map((right) => RIGHTS[right] ?? right).join(", ");

/** Something that is asked for again when the feed says that anything changed. */
function useRead<T>(read: () => Promise<T>): { value: T | null; trouble: string; again: () => void } {
  const [value, setValue] = useState<T | null>(null);
  const [trouble, setTrouble] = useState("");
  const again = () => { read().then((found) => { setValue(found); setTrouble(""); }, (error: unknown) => setTrouble(words(error))); };
  useEffect(() => {
    let soon: ReturnType<typeof setTimeout> | undefined;
    const later = () => { clearTimeout(soon); soon = setTimeout(again, 200); };
    const unlisten = listen((told) => { if (told.method === "feed.changes") later(); }, later);
    again();
    return () => { clearTimeout(soon); unlisten(); };
  }, []);
  return { value, trouble, again };
}

export function Approvals() {
  const settled = requests.value.filter((one) => one.state !== "pending").sort((one, two) => Date.parse(two.decided ?? two.asked) - Date.parse(one.decided ?? one.asked)).slice(0, 30);
  return (
    <div class="view approvals">
      <header class="view-head"><h1>Approvals</h1></header>
      {locked.value ? <p class="warn">Nobody can answer until somebody at the machine has run <code>ostler approvals --unlock</code>.</p> : null}
      <section aria-label="inbox">
        <h2>Inbox <span class="count">{pending.value.length}</span></h2>
        {pending.value.length ? <div class="requests">{pending.value.map((one) => <RequestCard key={one.id} request={one} />)}</div> : <Empty title="Nothing waits for you">What agents and commands ask for appears here, and on Now.</Empty>}
      </section>
      <Rules />
      <section aria-label="answered lately">
        <h2>Answered lately <span class="count">{settled.length}</span></h2>
        {settled.length ? <ul class="rows">{settled.map((one) => (
          <li key={one.id}><div class="row-link"><span class="row-main"><span class="row-name"><Value>{one.title}</Value></span><span class="quiet">{ago(one.decided ?? one.asked, now.value)}</span></span><Settled request={one} />
            <span class="row-facts"><span class="mono">{one.id}</span>{one.workspace ? <span><Value>{one.workspace}</Value></span> : null}{one.detail ? <span><Value>{one.detail}</Value></span> : null}</span></div></li>
        ))}</ul> : <p class="quiet">Nothing yet.</p>}
      </section>
      <Devices />
      <Told />
      <Log />
    </div>
  );
}

function Rules() {
  const { value, trouble, again } = useRead(() => call("rule.list", {}));
  const [failed, setFailed] = useState("");
  const rules = value?.rules ?? [];
  const revoke = (rule: Rule) => call("rule.revoke", { name: rule.name }).then(again, (error: unknown) => setFailed(words(error)));
  return (
    <section aria-label="rules">
      <h2>Standing rules <span class="count">{rules.length}</span></h2>
      {trouble || failed ? <p class="trouble" role="alert">{trouble || failed}</p> : null}
      {rules.length ? <ul class="rows">{rules.map((rule) => (
        <li key={rule.name}>
          <div class="row-link"><span class="row-main"><span class="row-name"><Value>{rule.title}</Value></span><span class={`state ${rule.effect === "allow" ? "works" : "failed"}`}>{rule.effect === "allow" ? "allows" : "denies"}</span></span>
            <span class="row-facts"><span><Value>{rule.scope}</Value></span><span>by <bdi>{rule.made_by}</bdi>, {ago(rule.made, now.value)}</span>{rule.expires ? <span>until {new Date(rule.expires).toLocaleDateString()}</span> : null}{rule.suspended ? <span class="needs">waits for `ostler rules affirm`</span> : null}<span class="mono">{rule.name}</span></span></div>
          {may("answer_lastingly") ? <button type="button" class="no" aria-label={`revoke the rule ${rule.title}`} onClick={() => void revoke(rule)}>Revoke</button> : null}
        </li>
      ))}</ul> : <p class="quiet">None. An answer for longer than once becomes a rule, and is listed here until it ends.</p>}
    </section>
  );
}

function Devices() {
  const [failed, setFailed] = useState("");
  const { value, trouble, again } = useRead<{ devices?: Device[] }>(() => (may("admit") ? call("device.list", {}) : Promise.resolve({})));
  const revoke = (device: Device) => call("device.revoke", { device: device.id }).then(again, (error: unknown) => setFailed(words(error)));
  const others = (value?.devices ?? []).filter((one) => one.id !== me.value?.id);
  return (
    <section aria-label="devices">
      <h2>Devices</h2>
      {trouble || failed ? <p class="trouble" role="alert">{trouble || failed}</p> : null}
      {secure ? null : <Insecure />}
      <ul class="rows">
        <li><div class="row-link"><span class="row-main"><span class="row-name"><bdi>{me.value?.name}</bdi></span><span class="state works">this browser</span></span><span class="row-facts"><span>may {rightsOf(me.value?.rights)}</span></span></div>
          <LogOut /></li>
        {others.map((one) => (
          <li key={one.id}>
            <div class="row-link"><span class="row-main"><span class="row-name"><bdi>{one.name}</bdi></span><span class="quiet">{ago(one.seen, now.value)}</span></span>
              <span class="row-facts"><span>may {rightsOf(one.rights)}</span><span>from {one.address}</span><span>{one.key ? "signs with its key" : "shows tokens"}</span><span>let in by <bdi>{one.paired_by}</bdi></span>{one.suspended ? <span class="needs">waits for `ostler devices affirm`</span> : null}</span></div>
            <button type="button" class="no" aria-label={`revoke ${one.name}`} onClick={() => void revoke(one)}>Revoke</button>
          </li>
        ))}
      </ul>
      {may("admit") ? null : <p class="quiet">Other devices are listed by <code>ostler devices</code>; this one may not see them.</p>}
    </section>
  );
}

/** Whether this browser is told of what needs somebody, and whether it can be installed. */
function Told() {
  const state = told.value;
  return (
    <section aria-label="being told">
      <h2>Being told</h2>
      <ul class="rows">
        <li>
          <div class="row-link"><span class="row-main"><span class="row-name">This browser</span>{state === "on" ? <span class="state works">is told</span> : null}</span>
            <span class="row-facts"><span>{state === "on" ? "A signed ring without words; what it is about is fetched from your machine." : state === "off" ? "When something has needed you for a while and nobody looks, this browser can say so." : state === "refused" ? "This browser was told not to show notices: allow them in its settings for this site." : state === "absent" ? why.value : "Looking…"}</span></span>
            {state !== "absent" && why.value ? <p class="trouble" role="alert">{why.value}</p> : null}</div>
          {state === "off" ? <button type="button" data-tell onClick={() => void turnOn()}>Turn on</button> : state === "on" ? <button type="button" class="no" data-untell onClick={() => void turnOff()}>Turn off</button> : null}
        </li>
        {installed() ? null : (
          <li>
            <div class="row-link"><span class="row-main"><span class="row-name">As an app</span></span><span class="row-facts"><span>{installing.value ? "It gets a window and an icon of its own." : secure ? "The browser's menu has “Install” or “Add to Home Screen”." : "Browsers install a page only over an encrypted connection: web.url with a tunnel, or web.certificate."}</span></span></div>
            {installing.value ? <button type="button" onClick={() => { void installing.value?.prompt(); installing.value = null; }}>Install</button> : null}
          </li>
        )}
      </ul>
      <p class="quiet">Other ways, ntfy among them, are named in the settings of the machine: <code>ostler notify</code></p>
    </section>
  );
}

function LogOut() {
  const [sure, setSure] = useState(false);
  return <button type="button" class="no" onClick={() => (sure ? void logOut() : setSure(true))}>{sure ? "Really?" : "Log out"}</button>;
}

/** The newest entries are at the end of the log, whose length only a walk tells. */
const ENTRIES = 50;

function Log() {
  const [entries, setEntries] = useState<Entry[] | null>(null);
  const [holds, setHolds] = useState("");
  const [trouble, setTrouble] = useState("");
  const verify = async () => {
    try {
      const { entries: total, head, foreign } = await call("audit.verify", {});
      setHolds(`${total} entries hold; the last has the hash ${head.slice(0, 16)}${foreign?.length ? `. ${foreign.length} were written by somebody else and count for nothing` : ""}`);
      const page = await call("audit.read", { after: Math.max(0, total - ENTRIES), limit: ENTRIES });
      setEntries([...(page.entries ?? [])].reverse());
    } catch (error) { setTrouble(words(error)); }
  };
  return (
    <section aria-label="record">
      <h2>The record</h2>
      <div class="answer-row"><button type="button" data-verify onClick={() => void verify()}>Verify and show the newest</button>{holds ? <span class="quiet" role="status">{holds}</span> : null}</div>
      {trouble ? <p class="trouble" role="alert">{trouble}</p> : null}
      {entries?.length ? <ul class="rows log">{entries.map((entry) => <li key={entry.seq}><details class="row-link"><summary><span class="mono">{entry.seq}</span> <Value>{said(entry)}</Value> <span class="quiet">{ago(entry.time, now.value)}</span></summary><pre class="output">{pretty(entry.record)}</pre></details></li>)}</ul> : null}
    </section>
  );
}

function pretty(record: unknown): string {
  return typeof record === "string" ? record : JSON.stringify(record, null, 2);
}

/** What an entry is about, in a line: what happened, to what, by whom. */
function said(entry: Entry): string {
  const record = (typeof entry.record === "object" ? entry.record ?? {} : {}) as { what?: string; title?: string; name?: string; by?: { name?: string; tty?: string; door?: string; way?: string } };
  const by = record.by?.name ?? record.by?.tty ?? record.by?.door ?? record.by?.way;
  return [(record.what ?? "").replaceAll("_", " "), record.title ?? record.name, by ? `by ${by}` : "", entry.about].filter(Boolean).join(" · ");
}
