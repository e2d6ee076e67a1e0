// A request as a person reads it before deciding: all of it, and the answers it takes. Nothing of the content is left out, because a yes
// is about all of it.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Attention, NOTHING_SEEN, notNow, seen } from "./attention.ts";
import { Change } from "./diff.tsx";
import { agentName, ago, lastName } from "./format.ts";
import { Value } from "./parts.tsx";
import { useSight } from "./sight.ts";
import { call, decide, locked, may, now, type Request, words } from "./store.ts";

type Question = { id: string; header?: string; question: string; options?: { label: string; description?: string }[]; several?: boolean };
type Content = {
  agent?: string; tool?: string; title?: string; input?: unknown; questions?: Question[]; can?: { session?: boolean; always?: boolean; message?: boolean }; grants?: string[];
  stages?: { argv: string[]; program?: string }[]; env?: Record<string, string>; forward_agent?: boolean;
};

function contentOf(request: Request): Content {
  try { return JSON.parse(request.content) as Content; } catch { return {}; }
}

/** What is known to be drawn; a member beyond it is drawn as it is. */
const DRAWN = new Set(["agent", "tool", "title", "input", "questions", "can", "grants", "stages", "env", "forward_agent", "privileged"]);

export function quoted(argv: string[]): string {
  return argv.map((word) => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
}

/** A value as indented lines: each text behind a bar, so that none can pose as a line of ours. */
export function Given({ value, name }: { value: unknown; name?: string }) {
  if (value === null || value === undefined || value === "") return null;
  if (typeof value === "object") {
    const entries = Object.entries(value).filter(([, member]) => !nothing(member));
    if (!entries.length) return null;
    return <div class="given-group">{name ? <div class="given-name"><Value>{name}</Value></div> : null}{entries.map(([key, member]) => <Given key={key} name={Array.isArray(value) ? String(Number(key) + 1) : key} value={member} />)}</div>;
  }
  const text = String(value);
  return <div class="given">{name ? <span class="given-name"><Value>{name}</Value></span> : null}<pre class="given-text"><Value>{text}</Value></pre></div>;
}

function nothing(value: unknown): boolean {
  return value === null || value === undefined || value === "" || (typeof value === "object" && Object.values(value).every(nothing));
}

function Body({ request, content }: { request: Request; content: Content }) {
  const diffs = request.diffs ?? [];
  const rest = Object.fromEntries(Object.entries(content).filter(([name]) => !DRAWN.has(name)));
  const known = Object.keys(content).length > 0;
  return (
    <>
      {content.stages?.map((stage, at) => (
        <div class="command" key={at}>
          <pre class="given-text strong"><Value>{`${at ? "| " : ""}${quoted(stage.argv)}`}</Value></pre>
          <div class="fact">runs <Value>{stage.program ?? "(command not found)"}</Value></div>
        </div>
      ))}
      {request.warnings?.map((warning) => <p class="warn" key={warning}><Value>{warning}</Value></p>)}
      {nothing(content.env) ? null : <Given name="with" value={content.env} />}
      {content.forward_agent ? <p class="warn">It can use your SSH agent, and so everything your keys open.</p> : null}
      {diffs.map((diff, at) => <Change key={at} diff={diff} />)}
      {content.questions?.length || nothing(diffs.length ? request.rest : content.input) ? null : <div class={diffs.length || said(content.input) === null ? undefined : "alone"}><Given value={diffs.length ? request.rest : content.input} /></div>}
      {nothing(rest) ? null : <Given value={rest} />}
      {known || !request.content ? null : <pre class="given-text"><Value>{request.content}</Value></pre>}
      {content.grants?.map((grant) => <p class="warn" key={grant}>Allowing it for longer also allows: <Value>{grant}</Value></p>)}
    </>
  );
}

/** The only thing that a tool is given, where there is only one: it stands below, and need not stand twice. */
function said(input: unknown): string | null {
  const values = typeof input === "object" && input !== null ? Object.values(input) : [];
  return values.length === 1 && typeof values[0] === "string" ? values[0] : null;
}

const HEADS = { command: "Run this?", tool_use: "Allow this?", question: "The agent asks" } as const;

export function RequestCard({ request, place = true }: { request: Request; place?: boolean }) {
  const content = useMemo(() => contentOf(request), [request.content]);
  const asker = request.asker;
  const open = request.state === "pending";
  const title = content.title || request.title;
  const sight = useSight<HTMLElement>(request.id);
  return (
    <article ref={sight} class={`request ${open ? "open" : "settled"}`} data-request={request.id} aria-label={`request: ${title}`}>
      <header class="request-head">
        <span class="request-kind">{request.privileged ? "Run this as root?" : HEADS[request.kind]}</span>
        <span class="quiet">{ago(request.asked, now.value)}</span>
      </header>
      <Readable request={request} content={content} title={title}>
        {place ? (
          <dl class="facts">
            {request.reason ? <><dt>reason</dt><dd>“<Value>{request.reason}</Value>”</dd></> : null}
            <dt>from</dt><dd>{asker.verified_session ? <a href={`#/session/${asker.verified_session}`}><Value>{asker.session_name ?? asker.verified_session}</Value></a> : <><Value>{asker.client || "a program"}</Value>{asker.pid ? `, pid ${asker.pid}` : ""}</>}</dd>
            {request.workspace ? <><dt>folder</dt><dd title={request.workspace}><Value>{request.workspace}</Value></dd></> : null}
            <dt>request</dt><dd class="mono">{request.id}, sha256 {request.hash.slice(0, 12)}</dd>
          </dl>
        ) : null}
      </Readable>
    </article>
  );
}

/** The text of a request, and its answers once it was seen. */
function Readable({ request, content, title, children }: { request: Request; content: Content; title: string; children: preact.ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const bar = useRef<HTMLDivElement>(null);
  const attention = useRef<Attention>(NOTHING_SEEN);
  const [blocked, setBlocked] = useState<string | null>("unread");
  const [trouble, setTrouble] = useState("");
  const [busy, setBusy] = useState(false);
  const open = request.state === "pending";

  useEffect(() => { if (open && may("answer_once")) void call("approval.shown", { id: request.id, surface: "page" }).catch(() => {}); }, [request.id, open]);

  useLayoutEffect(() => {
    if (!open) return;
    let frame = 0;
    const watch = () => {
      const text = box.current, answers = bar.current;
      if (text && answers && !document.hidden) {
        const outer = text.getBoundingClientRect(), cover = answers.getBoundingClientRect();
        // What is scrolled out of the box, of what it stands in, or of the window, is not seen.
        const around = text.closest(".transcript, .main")?.getBoundingClientRect();
        const from = Math.max(outer.top, around?.top ?? 0, 0);
        const to = Math.min(outer.bottom, around?.bottom ?? Infinity, visualViewport?.height ?? innerHeight);
        const top = text.scrollTop + from - outer.top, bottom = text.scrollTop + to - outer.top;
        attention.current = seen(attention.current, { hash: request.hash, height: text.scrollHeight, top, bottom, place: cover.top }, performance.now());
        setBlocked(notNow(attention.current, performance.now()));
      }
      frame = requestAnimationFrame(watch);
    };
    frame = requestAnimationFrame(watch);
    return () => cancelAnimationFrame(frame);
  }, [request.id, request.hash, open]);

  const answer = async (answer: Parameters<typeof decide>[1]) => {
    const not = notNow(attention.current, performance.now());
    if (not) { setTrouble(not === "unread" ? "Read it to its end first: there is more below." : "This just appeared; press again."); return; }
    setBusy(true);
    setTrouble("");
    try { await decide(request, answer); } catch (error) { setTrouble(words(error)); } finally { setBusy(false); }
  };

  return (
    <>
      <div class="request-text" ref={box} tabIndex={0} role="region" aria-label="the whole request">
        {content.questions?.length || content.stages || said(content.input) === title ? null : <p class="request-title"><Value>{title}</Value></p>}
        {content.tool && !content.questions?.length ? <p class="quiet"><Value>{agentName(content.agent ?? "")}</Value> wants to use <b><Value>{content.tool}</Value></b>{request.workspace ? <> in <Value>{lastName(request.workspace)}</Value></> : null}</p> : null}
        <Body request={request} content={content} />
        {open && content.questions?.length ? <Questions questions={content.questions} request={request} busy={busy} answer={answer} /> : content.questions?.map((one) => <p key={one.id}><Value>{one.question}</Value></p>)}
        {children}
      </div>
      <div class="answers" ref={bar}>
        {open ? <Answers request={request} content={content} busy={busy} blocked={blocked} answer={answer} /> : <Settled request={request} />}
        {trouble ? <p class="trouble" role="alert">{trouble}</p> : null}
      </div>
    </>
  );
}

const SETTLED: Record<string, string> = { accepted: "Allowed", applied: "Allowed", failed: "Allowed, but it failed", denied: "Denied", expired: "Nobody answered in time", withdrawn: "No longer asked", unknown: "Allowed before a restart; nobody knows what followed" };

export function Settled({ request }: { request: Request }) {
  const word = request.kind === "question" && (request.state === "accepted" || request.state === "applied") ? "Answered" : SETTLED[request.state] ?? request.state;
  return <p class={`settled-word ${request.state === "denied" ? "no" : ""}`} role="status">{word}{request.decided_by_name ? <> by <bdi>{request.decided_by_name}</bdi></> : null}</p>;
}

function Answers({ request, content, busy, blocked, answer }: { request: Request; content: Content; busy: boolean; blocked: string | null; answer: (answer: Parameters<typeof decide>[1]) => void }) {
  const [saying, setSaying] = useState(false);
  const [reason, setReason] = useState("");
  if (locked.value) return <p class="quiet">Nobody can answer until somebody at the machine has run <code>ostler approvals --unlock</code>.</p>;
  if (!may("answer_once")) return <p class="quiet">This device may look, not answer.</p>;
  const lasting = may("answer_lastingly") && !request.privileged;
  const question = Boolean(content.questions?.length);
  if (saying) {
    return (
      <form class="say" onSubmit={(event) => { event.preventDefault(); answer({ verdict: "deny", message: reason }); }}>
        <input aria-label="what to do instead" placeholder="What should it do instead?" value={reason} onInput={(event) => setReason(event.currentTarget.value)} ref={(input) => input?.focus()} />
        <button type="submit" class="no" disabled={busy}>Deny</button>
        <button type="button" class="plain" onClick={() => setSaying(false)}>Back</button>
      </form>
    );
  }
  return (
    <div class="answer-row" role="group" aria-label="answers">
      {question ? null : request.privileged && !may("answer_privileged")
        ? <span class="quiet grow">This device may not say yes to what runs as root. In a terminal of the machine: <code>ostler approve {request.id}</code></span>
        : <button type="button" class="yes" data-answer="once" disabled={busy} aria-disabled={blocked !== null} onClick={() => answer({ verdict: "once" })}>{request.privileged ? "Run once, as root" : "Allow once"}</button>}
      {!question && lasting && (content.can?.session || content.stages) ? <button type="button" disabled={busy} aria-disabled={blocked !== null} onClick={() => answer({ verdict: "session" })}>For this session</button> : null}
      {!question && lasting && (content.can?.always || content.stages) ? <button type="button" disabled={busy} aria-disabled={blocked !== null} onClick={() => answer({ verdict: "always" })}>Always</button> : null}
      <button type="button" class="no" data-answer="deny" disabled={busy} aria-disabled={blocked !== null} onClick={() => answer({ verdict: "deny" })}>{question ? "No answer" : "Deny"}</button>
      {content.can?.message && !question ? <button type="button" class="plain" onClick={() => setSaying(true)}>Deny and say why</button> : null}
      {request.privileged && may("answer_privileged") ? <span class="quiet">From here sudo runs without asking for a password; where it wants one, it fails.</span> : null}
      {blocked === "unread" ? <span class="quiet unread" role="status">There is more to read above: scroll to its end</span> : null}
    </div>
  );
}

function Questions({ questions, request, busy, answer }: { questions: Question[]; request: Request; busy: boolean; answer: (answer: Parameters<typeof decide>[1]) => void }) {
  const [chosen, setChosen] = useState<Record<string, string[]>>({});
  const [typed, setTyped] = useState<Record<string, string>>({});
  const given = Object.fromEntries(questions.map((one) => [one.id, typed[one.id]?.trim() ? [typed[one.id]?.trim() ?? ""] : chosen[one.id] ?? []]));
  const whole = questions.every((one) => given[one.id]?.length);
  const pick = (one: Question, label: string) => setChosen((before) => {
    const old = before[one.id] ?? [];
    return { ...before, [one.id]: one.several ? (old.includes(label) ? old.filter((each) => each !== label) : [...old, label]) : [label] };
  });
  return (
    <form class="questions" onSubmit={(event) => { event.preventDefault(); if (whole) answer({ verdict: "answers", answers: given }); }}>
      {questions.map((one) => (
        <fieldset key={one.id}>
          <legend><Value>{one.question}</Value>{one.several ? <span class="quiet"> (choose any)</span> : null}</legend>
          {one.options?.map((option) => (
            <label class="choice" key={option.label}>
              <input type={one.several ? "checkbox" : "radio"} name={`${request.id}.${one.id}`} checked={chosen[one.id]?.includes(option.label) ?? false} onChange={() => pick(one, option.label)} />
              <span><Value>{option.label}</Value>{option.description ? <span class="quiet"> <Value>{option.description}</Value></span> : null}</span>
            </label>
          ))}
          <input aria-label={`your own answer to: ${one.question}`} placeholder="Your own answer" value={typed[one.id] ?? ""} onInput={(event) => { const text = event.currentTarget.value; setTyped((before) => ({ ...before, [one.id]: text })); }} />
        </fieldset>
      ))}
      <button type="submit" class="yes" disabled={busy || !whole || !may("answer_once")}>Answer</button>
    </form>
  );
}
