// What a session changed, in all and by turn, and comments on lines that go to the agent together.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Methods } from "./api.ts";
import { Change, patch, Rows } from "./diff.tsx";
import { clock } from "./format.ts";
import type { Line } from "./lines.ts";
import { Empty, Value } from "./parts.tsx";
import { go } from "./route.ts";
import { call, listen, may, words } from "./store.ts";

type Changes = Methods["session.changes"]["result"];
type Turn = NonNullable<Changes["turns"]>[number];
type GitFile = NonNullable<NonNullable<Changes["diff"]>["files"]>[number];
type Comment = NonNullable<Methods["session.review"]["params"]["comments"]>[number];
type Path = Comment["path"];

/** What was written and not sent stays with its session for as long as the page is open. */
const drafts = new Map<string, Comment[]>();

function pathText(path: Path): string {
  return typeof path === "string" ? path : atob(path.base64);
}

export function ChangesView({ id }: { id: string }) {
  const [changes, setChanges] = useState<Changes | null>(null);
  const [trouble, setTrouble] = useState("");
  const [turn, setTurn] = useState<number | null>(null);
  const [side, setSide] = useState(() => innerWidth > 1100);
  const [comments, setComments] = useState<Comment[]>(drafts.get(id) ?? []);
  useEffect(() => { drafts.set(id, comments); }, [id, comments]);
  useEffect(() => {
    let over = false, soon: ReturnType<typeof setTimeout> | undefined;
    const read = () => call("session.changes", { id, git: true }).then((found) => { if (!over) { setChanges(found); setTrouble(""); } }, (error: unknown) => { if (!over) setTrouble(words(error)); });
    const later = () => { clearTimeout(soon); soon = setTimeout(() => void read(), 500); };
    const unlisten = listen((told) => { if (told.method === "feed.changes") later(); }, later);
    void read();
    return () => { over = true; clearTimeout(soon); unlisten(); };
  }, [id]);

  if (!changes) return <div class="changes"><Empty title={trouble || "Looking…"} /></div>;
  const turns = changes.turns ?? [];
  const files = changes.diff?.files ?? [];
  const shown = turn === null ? null : turns.find((one) => one.turn === turn);
  return (
    <div class="changes" tabIndex={0} role="region" aria-label="what it changed">
      <div class="changes-head">
        <div class="segments wrap" role="group" aria-label="which turns">
          <button type="button" aria-pressed={turn === null} onClick={() => setTurn(null)}>All</button>
          {turns.map((one) => <button type="button" key={one.turn} aria-pressed={turn === one.turn} onClick={() => setTurn(one.turn)}>Turn {one.turn}</button>)}
        </div>
        <div class="segments" role="group" aria-label="how">
          <button type="button" aria-pressed={!side} onClick={() => setSide(false)}>Unified</button>
          <button type="button" aria-pressed={side} onClick={() => setSide(true)}>Side by side</button>
        </div>
      </div>
      {changes.cut ? <p class="warn">There is more than is shown here.</p> : null}
      {shown ? <TurnFiles turn={shown} /> : files.length
        ? files.map((file) => <GitChange key={pathText(file.path)} file={file} side={side} comments={comments} change={setComments} />)
        : turns.length ? turns.map((one) => <TurnFiles key={one.turn} turn={one} />)
          : <Empty title="Nothing was changed yet">Edits of the agent and commits appear here as they are made.</Empty>}
      {may("prompt") && comments.length ? <Send id={id} comments={comments} sent={() => setComments([])} /> : null}
    </div>
  );
}

function TurnFiles({ turn }: { turn: Turn }) {
  return (
    <section aria-label={`turn ${turn.turn}`}>
      <h2>Turn {turn.turn} · {clock(turn.began)}</h2>
      {(turn.files ?? []).flatMap((file, at) => (file.edits ?? []).length
        ? (file.edits ?? []).map((edit, each) => <Change key={`${at}.${each}`} diff={{ path: pathText(file.path), ...edit }} />)
        : [<p class="quiet" key={at}><Value>{pathText(file.path)}</Value>, by {file.tool}{file.unfinished ? ", not finished" : ""}</p>])}
      {(turn.commits ?? []).map((commit) => <p class="quiet" key={commit.commit}>commit <code>{commit.commit.slice(0, 8)}</code> <Value>{commit.subject}</Value></p>)}
    </section>
  );
}

const sameLine = (comment: Comment, path: Path, line: Line) =>
  JSON.stringify(comment.path) === JSON.stringify(path) && comment.line === (line.new ?? line.old) && Boolean(comment.removed) === (line.mark === "-");

function GitChange({ file, side, comments, change }: { file: GitFile; side: boolean; comments: Comment[]; change: (next: Comment[]) => void }) {
  const rows = useMemo(() => patch(file.patch ?? ""), [file.patch]);
  const [writing, setWriting] = useState<Line | null>(null);
  const own = (line: Line) => comments.filter((comment) => sameLine(comment, file.path, line));
  const keep = (line: Line, text: string) => {
    const rest = comments.filter((comment) => !sameLine(comment, file.path, line));
    change(text.trim() ? [...rest, { path: file.path, line: line.new ?? line.old ?? 1, ...(line.mark === "-" ? { removed: true } : {}), quote: line.text, text: text.trim() }] : rest);
    setWriting(null);
  };
  const noted = (line: Line) => {
    const open = writing !== null && writing.mark === line.mark && writing.old === line.old && writing.new === line.new;
    const said = own(line)[0];
    if (!open && !said) return null;
    return open
      ? <CommentBox text={said?.text ?? ""} keep={(text) => keep(line, text)} cancel={() => setWriting(null)} />
      : <button type="button" class="comment" onClick={() => setWriting(line)}><Value>{said?.text ?? ""}</Value></button>;
  };
  return (
    <figure class="change" data-file={pathText(file.path)}>
      <figcaption><span class="file-status">{file.status}</span> <Value>{pathText(file.path)}</Value> <span class="quiet">{file.added ? `+${file.added} ` : ""}{file.removed ? `−${file.removed}` : ""}</span></figcaption>
      {file.binary ? <p class="quiet pad">not text</p> : file.cut || !file.patch ? <p class="quiet pad">too much to show</p>
        : <Rows rows={rows} side={side} onLine={may("prompt") ? setWriting : undefined} noted={noted} />}
    </figure>
  );
}

function CommentBox({ text, keep, cancel }: { text: string; keep: (text: string) => void; cancel: () => void }) {
  const [value, setValue] = useState(text);
  return (
    <form class="comment-box" onSubmit={(event) => { event.preventDefault(); keep(value); }}>
      <textarea rows={2} aria-label="comment" placeholder="What about this line?" value={value} ref={(area) => { if (area && !value) area.focus(); }} onInput={(event) => setValue(event.currentTarget.value)} onKeyDown={(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) keep(value); if (event.key === "Escape") cancel(); }} />
      <div class="answer-row"><button type="submit" class="primary">Keep</button><button type="button" class="plain" onClick={cancel}>Cancel</button>{text ? <button type="button" class="plain" onClick={() => keep("")}>Remove</button> : null}</div>
    </form>
  );
}

function Send({ id, comments, sent }: { id: string; comments: Comment[]; sent: () => void }) {
  const [text, setText] = useState("");
  const [trouble, setTrouble] = useState("");
  const [busy, setBusy] = useState(false);
  const [key] = useState(() => Math.random().toString(36).slice(2));
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await call("session.review", { id, comments, ...(text.trim() ? { text } : {}), key: `page ${key}` });
      sent();
      go(`/session/${id}`);
    } catch (error) {
      setTrouble(words(error));
      setBusy(false);
    }
  };
  return (
    <form class="review" onSubmit={(event) => void send(event)}>
      <input aria-label="about all of it" placeholder="About all of it (may be left out)" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <button type="submit" class="primary" disabled={busy}>Send {comments.length === 1 ? "1 comment" : `${comments.length} comments`}</button>
      {trouble ? <p class="trouble" role="alert">{trouble}</p> : null}
    </form>
  );
}
