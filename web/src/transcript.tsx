// The story of a session, item by item. Only a window of it is in the document; the ends are read when they are scrolled to.
import { Component } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Conversation } from "./conversation.ts";
import { Change } from "./diff.tsx";
import { bytes, clock, count, money } from "./format.ts";
import { doing, holding, recordOf } from "./keeper.ts";
import type { AskItem, EndItem, Item, PlanItem, PromptItem, ToolItem, WordsItem } from "./keeper.ts";
import { plainControls } from "./markdown.ts";
import { Empty, Markdown, Value } from "./parts.tsx";
import { Given, RequestCard, Settled } from "./request.tsx";
import { requests } from "./store.ts";

/** So near to an end of what is there, more is read. */
const NEAR = 900;
/** Who is so near to the newest line follows it. */
const FOLLOWS = 48;
/** Letters of an output that are drawn before anybody asks for all. */
const OUTPUT_SHOWN = 4000;

export function Transcript({ talk, find }: { talk: Conversation; find: string }) {
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const stood = useRef(0);
  const anchor = useRef<{ key: string; offset: number } | null>(null);
  const kept = talk.kept.value;
  const [away, setAway] = useState(false);

  // What was asked for stands in the middle of the screen, however much is drawn around it, until somebody goes on.
  const sought = talk.sought.value;
  const target = useMemo(() => (sought === null ? undefined : kept.items.filter((item) => recordOf(item) <= sought).at(-1)?.key), [kept.items, sought]);
  const seeking = useRef<string | undefined>(undefined);
  const center = () => {
    const item = seeking.current === undefined ? null : box.current?.querySelector<HTMLElement>(`[data-key="${CSS.escape(seeking.current)}"]`);
    item?.scrollIntoView({ block: "center" });
    return Boolean(item);
  };
  const goesOn = () => { seeking.current = undefined; };
  useLayoutEffect(() => {
    seeking.current = target;
    center();
  }, [target]);

  // What stood at the top of the window stands there again after a change, and who is at the end stays there.
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || center()) return;
    if (follows.current && !talk.behind.value) element.scrollTop = element.scrollHeight;
    else if (anchor.current) {
      const item = element.querySelector<HTMLElement>(`[data-key="${CSS.escape(anchor.current.key)}"]`);
      if (item) element.scrollTop += item.getBoundingClientRect().top - element.getBoundingClientRect().top - anchor.current.offset;
    }
  }, [kept, talk.loaded.value]);

  // What grows after it was drawn, as a request does, pushes nobody away from the end.
  useLayoutEffect(() => {
    const element = box.current, inner = element?.firstElementChild;
    if (!element || !inner) return;
    const grown = new ResizeObserver(() => { if (!center() && follows.current && !talk.behind.value) element.scrollTop = element.scrollHeight; });
    grown.observe(inner);
    grown.observe(element);
    return () => grown.disconnect();
  }, [talk]);

  const scrolled = () => {
    const element = box.current;
    if (!element) return;
    const below = element.scrollHeight - element.scrollTop - element.clientHeight;
    // Only who goes up leaves the end: the event comes after what has grown meanwhile.
    const up = element.scrollTop < stood.current;
    stood.current = element.scrollTop;
    follows.current = (below < FOLLOWS || (follows.current && !up)) && !talk.behind.value;
    setAway(below > element.clientHeight || talk.behind.value);
    // Who follows the end needs no other place, and looking for one costs more than drawing.
    const top = element.getBoundingClientRect().top;
    const first = follows.current ? undefined : [...element.querySelectorAll<HTMLElement>("[data-key]")].find((item) => item.getBoundingClientRect().bottom > top);
    anchor.current = first ? { key: first.dataset["key"] ?? "", offset: first.getBoundingClientRect().top - top } : null;
    if (element.scrollTop < NEAR) void talk.older();
    if (below < NEAR && talk.behind.value) void talk.newer();
  };

  const toEnd = async () => {
    goesOn();
    follows.current = true;
    await talk.latest();
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  };

  const does = doing(kept);
  const text = find.trim().toLowerCase();
  const shown = useMemo(() => (text ? holding(kept.items, text) : kept.items), [kept.items, text]);
  return (
    <div class="transcript-frame">
      <div class="transcript" ref={box} onScroll={scrolled} onWheel={goesOn} onTouchMove={goesOn} onPointerDown={goesOn} onKeyDown={goesOn} tabIndex={0} role="log" aria-label="transcript" aria-live="off">
        <div class="transcript-inner">
          {kept.more && !text ? <p class="quiet center">Older messages are read as you scroll</p> : null}
          {shown.map((item) => <Shown key={item.key} item={item} found={item.key === target} />)}
          {talk.loaded.value && !kept.items.length ? <Empty title="Nothing was said yet">Write below what the agent is to do.</Empty> : null}
          {text && !shown.length ? <Empty title="Nothing here says that">What is found elsewhere is listed above.</Empty> : null}
          {does && !text ? <p class={does} role="status"><span class="dot" aria-hidden="true" />{does === "waiting" ? "waiting for you" : "working"}</p> : null}
        </div>
      </div>
      {away ? <button type="button" class="to-end" onClick={() => void toEnd()}>Newest ↓</button> : null}
    </div>
  );
}

/** An item that has not changed is not drawn again. */
class Shown extends Component<{ item: Item; found: boolean }> {
  override shouldComponentUpdate(next: { item: Item; found: boolean }): boolean {
    return next.item !== this.props.item || next.found !== this.props.found;
  }

  render() {
    const { item, found } = this.props;
    return <div class={`item is-${item.kind}${found ? " found" : ""}`} data-key={item.key}>{drawn(item)}</div>;
  }
}

function drawn(item: Item) {
  switch (item.kind) {
    case "prompt": return <Prompt item={item} />;
    case "words": return <Words item={item} />;
    case "tool": return <Tool item={item} />;
    case "ask": return <Ask item={item} />;
    case "plan": return <Plan item={item} />;
    case "note": return <p class={`note ${item.tone}`}><Value>{item.text}</Value></p>;
    case "end": return <End item={item} />;
  }
}

function Prompt({ item }: { item: PromptItem }) {
  return (
    <div class="prompt-said">
      <div class="prompt-head">You{item.door && item.door !== "native" ? ` · through ${item.door}` : ""} · {clock(item.time)}</div>
      {item.blocks.map((block, at) => block.kind === "text"
        ? <pre class="prompt-text" key={at}>{plainControls(block.text ?? "")}</pre>
        : <span class="chip" key={at}>{block.kind === "file" ? `file ${block.text}` : `picture, ${block.mime}, ${bytes(block.bytes ?? 0)}`}</span>)}
    </div>
  );
}

function Words({ item }: { item: WordsItem }) {
  // What is folded is not drawn: most of it nobody opens.
  const [open, setOpen] = useState(false);
  if (item.voice === "answer") return <div class="answer"><Markdown text={item.text} />{item.cut ? <Cut /> : null}</div>;
  return (
    <details class="thought" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{item.whole ? "Thought" : "Thinking…"} <span class="quiet">{firstWords(item.text)}</span></summary>
      {open ? <Markdown text={item.text} /> : null}
    </details>
  );
}

/** As much of a thought as one line takes. */
function firstWords(text: string): string {
  const line = text.trim().split("\n")[0] ?? "";
  return line.length > 90 ? `${line.slice(0, 90).replace(/\s+\S*$/, "")}…` : line;
}

function Cut() {
  return <p class="quiet">Too long to be shown here; <code>ostler export</code> has all of it.</p>;
}

const VERBS: Record<string, string> = { read: "Read", edit: "Edit", delete: "Delete", move: "Move", search: "Search", execute: "Run", think: "Sub-agent", fetch: "Fetch", other: "Tool" };

/** A title that begins with the word that stands before it. */
const without = (title: string, verb: string) => (verb && title.startsWith(`${verb} `) ? title.slice(verb.length + 1) : title);

function Tool({ item }: { item: ToolItem }) {
  const [whole, setWhole] = useState(false);
  const [chosen, setOpen] = useState<boolean | null>(null);
  const open = chosen ?? (item.diffs.length > 0 && item.diffs.length < 4);
  const output = whole ? item.output : item.output.slice(0, OUTPUT_SHOWN);
  // What some agents say of a change beside the change itself.
  const repeats = item.diffs.length > 0 && item.output.trim() === item.diffs.map((diff) => `changed ${diff.path}`).join("\n");
  const state = !item.ended ? "running" : item.failed ? "failed" : "done";
  return (
    <details class={`tool ${state}`} open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class="tool-verb">{VERBS[item.does] ?? "Tool"}</span>
        <span class="tool-title"><Value>{without(item.title, VERBS[item.does] ?? "")}</Value></span>
        <span class={`tool-state ${state}`}>{state === "done" ? <span class="hidden">done</span> : state === "failed" ? "failed" : "running"}</span>
      </summary>
      {open ? <div class="tool-body">
        {item.diffs.map((diff, at) => <Change key={at} diff={diff} />)}
        {item.diffs.length ? null : <Given value={item.input} />}
        {item.children.length ? <div class="children">{item.children.map((child) => <Tool key={child.key} item={child} />)}</div> : null}
        {item.output && !repeats ? <pre class="output" tabIndex={0}>{plainControls(output)}</pre> : null}
        {!whole && item.output.length > OUTPUT_SHOWN ? <button type="button" class="plain" onClick={() => setWhole(true)}>Show all {bytes(item.output.length)}</button> : null}
        {item.cut ? <Cut /> : null}
      </div> : null}
    </details>
  );
}

const VERDICTS: Record<string, string> = { once: "Allowed once", session: "Allowed for this session", always: "Allowed always", deny: "Denied", changed: "Allowed with changes", answers: "Answered" };

function Ask({ item }: { item: AskItem }) {
  const request = requests.value.find((one) => one.id === item.approval);
  if (item.state === "waits" && request) return <RequestCard request={request} place={false} />;
  const word = item.state === "gone" ? "No longer asked" : VERDICTS[item.verdict] ?? "Waiting for an answer";
  return (
    <div class={`asked ${item.verdict === "deny" ? "no" : ""}`}>
      {item.title ? <span class="asked-title"><Value>{item.title}</Value></span> : null}
      {item.state === "waits" && !request ? <span>Waiting for an answer</span> : <span class="settled-word">{word}{item.by ? <> by <bdi>{item.by}</bdi></> : request ? <Settled request={request} /> : null}{item.text ? <>: <Value>{item.text}</Value></> : null}</span>}
    </div>
  );
}

function Plan({ item }: { item: PlanItem }) {
  const done = item.steps.filter((step) => step.status === "done").length;
  return (
    <div class="plan">
      <div class="plan-head">Plan <span class="quiet">{done} of {item.steps.length}</span></div>
      <ol>{item.steps.map((step, at) => <li key={at} class={step.status}><span class="hidden">{step.status}: </span><Value>{step.text}</Value></li>)}</ol>
    </div>
  );
}

const ENDS: Record<string, string> = { completed: "Done", interrupted: "Stopped", failed: "Failed", refused: "The model refused", max_tokens: "Cut at the model's limit", max_steps: "Too many steps" };

function End({ item }: { item: EndItem }) {
  const { usage } = item;
  const figures = [
    usage.input_tokens ? `${count(usage.input_tokens)} in` : "", usage.output_tokens ? `${count(usage.output_tokens)} out` : "", usage.cached_tokens ? `${count(usage.cached_tokens)} cached` : "", money(usage.cost_usd),
  ].filter(Boolean);
  const bad = item.reason === "failed" || item.reason === "refused";
  return (
    <p class={`turn-end ${bad ? "bad" : ""}`}>
      <span>{ENDS[item.reason] ?? item.reason}</span>
      {item.text && item.reason !== "completed" ? <span><Value>{item.text}</Value></span> : null}
      {figures.length ? <span class="quiet">{figures.join(" · ")}</span> : null}
      <span class="quiet">{clock(item.time)}</span>
    </p>
  );
}
