// What needs me first, then what runs, then what ended: sessions, terminal programs and commands in one list.
import { computed, useSignal } from "@preact/signals";
import { useState } from "preact/hooks";
import { agentName, ago, count, duration, lastName, money } from "./format.ts";
import { plainControls } from "./markdown.ts";
import { Empty, State, type Tone, Value } from "./parts.tsx";
import { RequestCard } from "./request.tsx";
import { call, type Hosted, hosted, link, may, now, pending, type Request, requests } from "./store.ts";
import { useSight } from "./sight.ts";
import { NewSession } from "./start.tsx";
import { told, turnOn } from "./told.ts";

/** How long an answered request stays where it was, so that whoever looks sees by whom. */
const STAYS_MS = 8_000;

export const starting = { open: null as null | (() => void) };

export function nameOf(one: Hosted): string {
  return one.name ?? one.session?.title ?? (one.kind === "session" ? `${agentName(one.what)} in ${lastName(one.workspace)}` : one.what);
}

const CLAIMS: Record<string, string> = { auth: "needs you: login", permission: "needs you: permission", question: "needs you: question" };
/** Those that people meet; the others are told by their number. */
const SIGNALS: Record<number, string> = { 1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 15: "SIGTERM" };

/** The limit that it waits for. */
const spent = (one: Hosted) => (one.section === "needs_you" && one.state !== "failed" ? one.session?.limits?.find((each) => each.state === "reached") : undefined);

const TONES: Record<Hosted["state"], Tone> = { needs_you: "needs", working: "works", ready: "ready", failed: "failed", ended: "over" };

/** The words that `ostler sessions`, `ostler ps` and the terminal's list use. */
export function tone(one: Hosted): { tone: Tone; word: string } {
  if (spent(one)) return { tone: "needs", word: "limit reached" };
  if (one.session?.logged_out) return { tone: "needs", word: "logged out" };
  if (one.session?.rebooted) return { tone: "needs", word: "rebooted" };
  return { tone: TONES[one.state], word: one.session?.status ?? processWord(one) };
}

function processWord(one: Hosted): string {
  const { exit, claim } = one.process ?? {};
  if (exit) return exit.code !== null && exit.code !== undefined ? `exited ${exit.code}` : exit.signal ? SIGNALS[exit.signal] ?? `signal ${exit.signal}` : "exit unknown";
  if (!claim) return "running";
  return claim.state === "needs_you" ? CLAIMS[claim.kind ?? ""] ?? "needs you" : claim.state;
}

type Kind = "all" | "session" | "terminal" | "command";
const KINDS: [Kind, string][] = [["all", "All"], ["session", "Sessions"], ["terminal", "Terminals"], ["command", "Commands"]];

export function Now() {
  const filter = useSignal("");
  const kind = useSignal<Kind>("all");
  const [making, setMaking] = useState(false);
  starting.open = may("prompt") ? () => setMaking(true) : null;
  const all = (hosted.value ?? []).filter((one) => !one.part_of);
  const text = filter.value.trim().toLowerCase();
  const matches = (one: Hosted) => (kind.value === "all" || one.kind === kind.value) && [nameOf(one), one.what, one.workspace, one.branch, one.id].some((each) => (each ?? "").toLowerCase().includes(text));
  const shown = all.filter(matches);
  waited = new Set(requests.value.filter((one) => one.state === "pending" || waited.has(one.id)).map((one) => one.id));
  const asked = requests.value.filter((one) => one.state === "pending" || fresh(one)).filter((one) => !text || `${one.title} ${one.workspace ?? ""}`.toLowerCase().includes(text));
  const needs = shown.filter((one) => needing(one, asked));
  const runs = shown.filter((one) => one.section === "running").sort(byTime);
  const over = shown.filter((one) => one.section === "ended").sort(byTime);
  const many = new Set(all.map((one) => one.workspace)).size;
  return (
    <div class="view now">
      <header class="view-head">
        <h1>Now</h1>
        <span class="quiet grow">{hosted.value === null ? "" : `${all.filter((one) => !one.ended).length} open${many > 1 ? ` in ${many} folders` : ""}`}</span>
        {may("prompt") ? <button type="button" class="primary" data-new onClick={() => setMaking(true)}>New session</button> : null}
      </header>
      {making ? <NewSession close={() => setMaking(false)} /> : null}
      {hosted.value === null ? <Empty title={link.value === "open" ? "Looking…" : "Not connected"} /> : (
        <>
          {asked.length || needs.length ? (
            <section aria-label="needs you">
              <h2>Needs you <span class="count">{asked.filter((one) => one.state === "pending").length + needs.length}</span></h2>
              <div class="requests">{asked.map((one) => <RequestCard key={one.id} request={one} />)}</div>
              <ul class="rows">{needs.map((one) => <Row key={one.id} one={one} />)}</ul>
            </section>
          ) : null}
          {all.length ? <div class="filter">
            <input type="search" id="filter" aria-label="filter" placeholder="Filter by name, folder, branch" value={filter.value} onInput={(event) => { filter.value = event.currentTarget.value; }} />
            <div class="segments" role="group" aria-label="kind">
              {KINDS.map(([word, name]) => <button type="button" key={word} aria-pressed={kind.value === word} onClick={() => { kind.value = word; }}>{name}</button>)}
            </div>
          </div> : null}
          <section aria-label="open">
            <h2>Open <span class="count">{runs.length}</span></h2>
            {runs.length ? <ul class="rows">{runs.map((one) => <Row key={one.id} one={one} />)}</ul> : text ? <Empty title="Nothing matches" /> : asked.length || needs.length ? <p class="quiet">Nothing else.</p> : <Empty title="Nothing is open">Start an agent here, or in a terminal with <code>ostler new claude .</code></Empty>}
          </section>
          {over.length ? (
            <section aria-label="ended">
              <h2>Ended <span class="count">{over.length}</span></h2>
              <ul class="rows faint">{over.map((one) => <Row key={one.id} one={one} />)}</ul>
            </section>
          ) : null}
          {told.value === "off" && matchMedia("(pointer: coarse)").matches ? <p class="quiet offer-told">This phone can say so when something needs you. <button type="button" class="small" onClick={() => void turnOn()}>Turn on</button></p> : null}
        </>
      )}
    </div>
  );
}

const byTime = (one: Hosted, two: Hosted) => Date.parse(two.active) - Date.parse(one.active);
/** Requests that were seen here while they waited. */
let waited = new Set<string>();
const fresh = (one: Request) => waited.has(one.id) && one.decided !== null && one.decided !== undefined && now.value - Date.parse(one.decided) < STAYS_MS;
/** It needs somebody, and no request above it says so. */
const needing = (one: Hosted, asked: Request[]) => one.section === "needs_you" && !covered(one, asked);
/** How many of all need somebody. */
export const waiting = computed(() => pending.value.length + (hosted.value ?? []).filter((one) => !one.part_of && needing(one, pending.value)).length);
/** Its requests stand above it. */
const covered = (one: Hosted, asked: Request[]) => one.state === "needs_you" && (one.session?.approvals ?? []).length > 0 && (one.session?.approvals ?? []).every((id) => asked.some((each) => each.id === id));

function Row({ one }: { one: Hosted }) {
  const { tone: how, word } = tone(one);
  const session = one.session;
  const limit = spent(one);
  const until = limit?.resets ? `${limit.name} is used up until ${new Date(limit.resets).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}` : "";
  const line = until || (session?.why && one.state === "failed" ? session.why : one.process?.claim?.message ?? one.process?.claim?.title) || one.lines?.at(-1) || "";
  const time = one.ended ? ago(one.ended, now.value) : duration(now.value - Date.parse(one.began));
  const sight = useSight<HTMLAnchorElement>(one.id);
  return (
    <li>
      <a class="row-link" ref={sight} href={one.kind === "session" ? `#/session/${one.id}` : `#/process/${one.id}`} data-hosted={one.id}>
        <span class="row-main">
          <span class="row-name"><Value>{nameOf(one)}</Value></span>
          <State tone={how} word={word} />
        </span>
        <span class="row-line"><Value>{plainControls(line)}</Value></span>
        <span class="row-facts">
          <span>{one.kind === "session" ? agentName(one.what) : one.kind === "terminal" ? "terminal" : "command"}{session?.reported_model && session.reported_model !== session.agent ? ` · ${session.reported_model}` : ""}</span>
          <span title={one.workspace ?? ""}>{lastName(one.workspace)}{one.branch ? <span class="branch"> ⎇ {one.branch}</span> : null}</span>
          {one.cost_usd !== null && one.cost_usd !== undefined ? <span>{money(one.cost_usd)}</span> : null}
          {session?.queued ? <span>{count(session.queued)} queued</span> : null}
          <span>{time}</span>
        </span>
      </a>
      {session?.rebooted && may("prompt") ? <button type="button" onClick={() => void call("session.continue", { id: one.id })}>Go on</button> : null}
    </li>
  );
}
