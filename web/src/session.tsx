// One session: its story as it is told, what it asks, what it is told, and what it changed.
import { useEffect, useMemo, useState } from "preact/hooks";
import { ChangesView } from "./changes.tsx";
import { Composer } from "./composer.tsx";
import { Conversation } from "./conversation.ts";
import { agentName, count, lastName, money } from "./format.ts";
import { asDocument } from "./document.ts";
import { type Hit, holding } from "./keeper.ts";
import { plainControls } from "./markdown.ts";
import { Empty, State, Value } from "./parts.tsx";
import { tone } from "./now.tsx";
import { call, hosted, link, may, words } from "./store.ts";
import { Transcript } from "./transcript.tsx";

export function Session({ id, tab }: { id: string; tab: "talk" | "changes" }) {
  const talk = useMemo(() => new Conversation(id), [id]);
  useEffect(() => () => talk.close(), [talk]);
  const [finding, setFinding] = useState(false);
  const [find, setFind] = useState("");
  const info = talk.info.value;
  const one = hosted.value?.find((each) => each.id === info?.id);
  if (!info) return <div class="view"><Empty title={talk.trouble.value || (link.value === "open" ? "Reading…" : "Not connected")}>{talk.trouble.value ? <a href="#/now">Back to Now</a> : null}</Empty></div>;
  const state = one ? tone(one) : null;
  return (
    <div class="view session">
      <header class="session-head">
        <a class="back" href="#/now" aria-label="back to Now">‹</a>
        <div class="session-title">
          <h1><Value>{info.name ?? info.title ?? `${agentName(info.agent)} in ${lastName(info.workspace)}`}</Value></h1>
          <div class="row-facts">
            <span>{[agentName(info.agent), info.reported_model ?? info.model].filter((name, at) => name && (!at || name !== info.agent)).join(" · ")}</span>
            <span title={info.worktree ?? info.workspace}>{lastName(info.worktree ?? info.workspace)}{one?.branch ? <span class="branch"> ⎇ {one.branch}</span> : null}</span>
            <Figures talk={talk} />
          </div>
        </div>
        <div class="segments tabs" role="group" aria-label="parts of this session">
          <a href={`#/session/${id}`} aria-current={tab === "talk" ? "page" : undefined}>Talk</a>
          <a href={`#/session/${id}/changes`} aria-current={tab === "changes" ? "page" : undefined}>Changes</a>
        </div>
        {state ? <State tone={state.tone} word={state.word} /> : null}
        <Menu talk={talk} find={() => setFinding(!finding)} />
      </header>
      {finding ? (
        <div class="find" role="search">
          <input type="search" id="find" aria-label="search this session" placeholder="Search this session" value={find} ref={(input) => { if (input && document.activeElement !== input && !find) input.focus(); }} onInput={(event) => setFind(event.currentTarget.value)} onKeyDown={(event) => { if (event.key === "Escape") { setFind(""); setFinding(false); } }} />
          <Elsewhere talk={talk} find={find} go={(record) => { setFind(""); setFinding(false); void talk.goTo(record); }} />
        </div>
      ) : null}
      {talk.trouble.value ? <p class="trouble" role="alert">{talk.trouble.value}</p> : null}
      {tab === "changes" ? <ChangesView id={id} /> : <><Transcript talk={talk} find={find} /><Composer talk={talk} /></>}
    </div>
  );
}

function Figures({ talk }: { talk: Conversation }) {
  const usage = talk.info.value?.usage;
  const live = talk.kept.value.usage;
  const used = live.context_used ?? usage?.context_used;
  const size = live.context_size ?? usage?.context_size;
  return (
    <>
      {usage?.input_tokens || usage?.output_tokens ? <span title="tokens in and out">{count(usage.input_tokens ?? 0)} in · {count(usage.output_tokens ?? 0)} out</span> : null}
      {usage?.cost_usd !== null && usage?.cost_usd !== undefined ? <span>{money(usage.cost_usd)}</span> : null}
      {used ? <span title="context used">{size ? `${Math.round((100 * used) / size)} % of context` : `${count(used)} context`}</span> : null}
    </>
  );
}

/** How often words are in the window, and where else they are, found by reading backwards. */
function Elsewhere({ talk, find, go }: { talk: Conversation; find: string; go: (record: number) => void }) {
  const [found, setFound] = useState<Hit[]>([]);
  const [looks, setLooks] = useState(false);
  const [trouble, setTrouble] = useState("");
  const text = find.trim().toLowerCase();
  useEffect(() => {
    setFound([]);
    setTrouble("");
    setLooks(text.length > 1);
    if (text.length < 2) return;
    let over = false;
    const look = async () => {
      for await (const more of talk.elsewhere(text)) {
        if (over) return;
        if (more.length) setFound((before) => [...before, ...more]);
      }
    };
    const later = setTimeout(() => { look().catch((error: unknown) => setTrouble(words(error))).finally(() => { if (!over) setLooks(false); }); }, 250);
    return () => { over = true; clearTimeout(later); };
  }, [talk, text]);
  const here = useMemo(() => (text ? holding(talk.kept.value.items, text).length : 0), [talk.kept.value.items, text]);
  if (text.length < 2) return null;
  return (
    <>
      <span class="quiet" role="status">{here} here, {found.length} elsewhere{looks ? ", looking further back…" : ""}</span>
      {trouble ? <span class="trouble" role="alert">{trouble}</span> : null}
      {found.length ? <ul class="found-list" aria-label="found elsewhere">{found.map((hit) => <li key={hit.record}><button type="button" data-hit={hit.record} onClick={() => go(hit.record)}><Value>{plainControls(hit.around)}</Value></button></li>)}</ul> : null}
    </>
  );
}

const AUTONOMY = [["ask", "asks before it acts"], ["edits", "edits files by itself"], ["plan", "plans only"], ["all", "does everything by itself"]] as const;

function Menu({ talk, find }: { talk: Conversation; find: () => void }) {
  const info = talk.info.value;
  const [trouble, setTrouble] = useState("");
  const [copying, setCopying] = useState<"" | "reads" | "done">("");
  const offers = talk.kept.value.offers;
  if (!info) return null;
  const change = (what: { model?: string; autonomy?: "ask" | "edits" | "plan" | "all"; raw_mode?: string }) => {
    call("session.change", { id: talk.id, ...what }).then((changed) => { talk.info.value = changed; setTrouble(""); }, (error: unknown) => setTrouble(words(error)));
  };
  const copy = async () => {
    setCopying("reads");
    const text = talk.whole().then((whole) => new Blob([asDocument(info.name ?? info.title ?? info.id, info.id, whole)], { type: "text/plain" }));
    try {
      // Handed over before it is read: a browser lets a page write only at once after a click.
      await navigator.clipboard.write([new ClipboardItem({ "text/plain": text })]);
      setCopying("done");
      setTimeout(() => setCopying(""), 2000);
    } catch (error) {
      setTrouble(words(error));
      setCopying("");
    }
  };
  return (
    <details class="menu" onKeyDown={(event) => { if (event.key === "Escape") event.currentTarget.removeAttribute("open"); }}>
      <summary aria-label="more">⋯</summary>
      <div class="menu-body">
        <button type="button" onClick={(event) => { event.currentTarget.closest("details")?.removeAttribute("open"); find(); }}>Search</button>
        {navigator.clipboard ? <button type="button" disabled={copying === "reads"} onClick={() => void copy()}>{copying === "done" ? "Copied" : copying ? "Reading all of it…" : "Copy as a document"}</button> : null}
        {may("prompt") && info.status !== "closed" ? (
          <>
            {offers.models?.length ? (
              <label>Model
                <select value={info.model ?? offers.models.find((one) => one.chosen)?.name ?? ""} onChange={(event) => change({ model: event.currentTarget.value })}>
                  <option value="">the agent's own</option>
                  {offers.models.map((one) => <option key={one.name} value={one.name}>{one.name}</option>)}
                </select>
              </label>
            ) : null}
            {may("loosen") && offers.modes?.length ? (
              <label>Mode
                <select value={info.raw_mode ?? offers.modes.find((one) => one.chosen)?.name ?? ""} onChange={(event) => change({ raw_mode: event.currentTarget.value })}>
                  <option value="">by autonomy</option>
                  {offers.modes.map((one) => <option key={one.name} value={one.name}>{one.name}</option>)}
                </select>
              </label>
            ) : null}
            {may("loosen") ? (
              <label>Autonomy
                <select value={info.autonomy} onChange={(event) => change({ autonomy: event.currentTarget.value as "ask" })}>{AUTONOMY.map(([word, about]) => <option key={word} value={word}>{about}</option>)}</select>
              </label>
            ) : null}
            <CloseButton id={talk.id} failed={setTrouble} />
          </>
        ) : null}
        {trouble ? <p class="trouble" role="alert">{trouble}</p> : null}
      </div>
    </details>
  );
}

function CloseButton({ id, failed }: { id: string; failed: (text: string) => void }) {
  const [sure, setSure] = useState(false);
  return <button type="button" class={sure ? "no" : ""} onClick={() => { if (!sure) setSure(true); else call("session.close", { id }).then(() => setSure(false), (error: unknown) => failed(words(error))); }}>{sure ? "Really close it?" : "Close the session"}</button>;
}
