// Words for the agent: the box, what waits for its turn, pictures, and what the agent and the folder offer to complete.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Methods } from "./api.ts";
import type { Conversation } from "./conversation.ts";
import { bytes } from "./format.ts";
import type { PromptItem } from "./keeper.ts";
import { call, may, words as wording } from "./store.ts";

type Block = NonNullable<Methods["session.prompt"]["params"]["blocks"]>[number];
type Picture = { name: string; mime: string; data: string; size: number };

/** All pictures of a prompt: the longest request has 12 MiB. */
const PICTURES_MAX = 8 * 1024 * 1024;
const OFFERED_MAX = 8;

/** What was typed and not sent stays with its session for as long as the page is open. */
const drafts = new Map<string, string>();

export function Composer({ talk }: { talk: Conversation }) {
  const [text, setText] = useState(drafts.get(talk.id) ?? "");
  const [pictures, setPictures] = useState<Picture[]>([]);
  const [trouble, setTrouble] = useState("");
  const [sending, setSending] = useState(false);
  const [picked, setPicked] = useState(0);
  const area = useRef<HTMLTextAreaElement>(null);
  const key = useRef(Math.random().toString(36).slice(2));
  const info = talk.info.value;
  const kept = talk.kept.value;
  const running = info ? info.status === "running" || info.status === "waiting" : kept.running;
  const queue = [...kept.queue.values()];
  const offers = useOffers(talk, text, area.current?.selectionStart ?? text.length);

  const write = (value: string) => { setText(value); drafts.set(talk.id, value); setPicked(0); };
  const take = (offer: { insert: string; from: number; to: number }) => {
    write(text.slice(0, offer.from) + offer.insert + text.slice(offer.to));
    area.current?.focus();
  };

  useEffect(() => {
    const element = area.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, innerHeight * 0.4)}px`;
  }, [text]);

  const send = async () => {
    if (sending || (!text.trim() && !pictures.length)) return;
    setSending(true);
    setTrouble("");
    try {
      const blocks: Block[] = [...(text.trim() ? [{ type: "text" as const, text }] : []), ...pictures.map(({ mime, data }) => ({ type: "image" as const, mime, data }))];
      await call("session.prompt", { id: talk.id, ...(pictures.length ? { blocks } : { text }), key: `page ${key.current}` });
      key.current = Math.random().toString(36).slice(2);
      write("");
      setPictures([]);
    } catch (error) {
      setTrouble(wording(error));
    } finally {
      setSending(false);
      area.current?.focus();
    }
  };

  const stop = async (clear: boolean) => {
    try { await call("session.interrupt", { id: talk.id, clear_queue: clear }); } catch (error) { setTrouble(wording(error)); }
  };

  const add = async (files: Iterable<File>) => {
    for (const file of files) {
      if (!file.type.startsWith("image/")) continue;
      const total = pictures.reduce((sum, one) => sum + one.size, file.size);
      if (total > PICTURES_MAX) { setTrouble(`Pictures of more than ${bytes(PICTURES_MAX)} do not fit into one prompt.`); continue; }
      const data = await base64(file);
      setPictures((before) => [...before, { name: file.name, mime: file.type, data, size: file.size }]);
    }
  };

  if (info?.status === "closed") return <p class="composer closed quiet">This session is closed.</p>;
  if (!may("prompt")) return <p class="composer closed quiet">This device may look, not write.</p>;
  return (
    <div class="composer" onDragOver={(event) => event.preventDefault()} onDrop={(event) => { event.preventDefault(); void add(event.dataTransfer?.files ?? []); }}>
      {queue.length ? (
        <ol class="queue" aria-label="waiting for their turn">
          {queue.map((prompt) => <Queued key={prompt.number} id={talk.id} prompt={prompt} back={(words) => { write([text, words].filter(Boolean).join("\n\n")); area.current?.focus(); }} failed={setTrouble} />)}
        </ol>
      ) : null}
      {offers.length ? (
        <ul class="offers" role="listbox" id="offers" aria-label="completions">
          {offers.map((offer, at) => <li key={offer.insert} role="option" aria-selected={at === picked} class={at === picked ? "picked" : ""} onMouseDown={(event) => { event.preventDefault(); take(offer); }}><b>{offer.insert.trim()}</b> <span class="quiet">{offer.about}</span></li>)}
        </ul>
      ) : null}
      {pictures.length ? <div class="pictures">{pictures.map((one, at) => <span class="chip" key={at}>{one.name || "picture"} · {bytes(one.size)} <button type="button" class="plain" aria-label={`remove ${one.name}`} onClick={() => setPictures((before) => before.filter((_, each) => each !== at))}>×</button></span>)}</div> : null}
      {trouble ? <p class="trouble" role="alert">{trouble}</p> : null}
      <form onSubmit={(event) => { event.preventDefault(); void send(); }}>
        <textarea
          id="prompt" ref={area} rows={1} value={text} aria-label="prompt" aria-controls={offers.length ? "offers" : undefined} placeholder={running ? "Say more; it waits" : "What should the agent do?"}
          onInput={(event) => write(event.currentTarget.value)}
          onPaste={(event) => { const files = [...(event.clipboardData?.files ?? [])]; if (files.length) { event.preventDefault(); void add(files); } }}
          onKeyDown={(event) => {
            const offer = offers[picked];
            if (offer && (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey && !event.ctrlKey))) { event.preventDefault(); take(offer); }
            else if (offers.length && (event.key === "ArrowDown" || event.key === "ArrowUp")) { event.preventDefault(); setPicked((picked + (event.key === "ArrowDown" ? 1 : offers.length - 1)) % offers.length); }
            else if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !matchMedia("(pointer: coarse)").matches) { event.preventDefault(); void send(); }
          }}
        />
        {running ? <button type="button" data-stop onClick={() => void stop(false)} title="Stop this turn">Stop</button> : null}
        <button type="submit" class="primary" disabled={sending || (!text.trim() && !pictures.length)}>{running ? "Queue" : "Send"}</button>
      </form>
      {queue.length ? <button type="button" class="plain small" data-take-back onClick={() => { write([text, ...queue.map((prompt) => prompt.blocks.map((block) => block.text ?? "").join("\n"))].filter(Boolean).join("\n\n")); void stop(true); }}>Stop, and take back what waits</button> : null}
    </div>
  );
}

const LATE = "Its turn has come: it is the agent's now.";

/** A prompt that waits: it can be given other words, in its place, or taken back into the box. */
function Queued({ id, prompt, back, failed }: { id: string; prompt: PromptItem; back: (words: string) => void; failed: (text: string) => void }) {
  const words = prompt.blocks.filter((block) => block.kind === "text").map((block) => block.text ?? "").join("\n");
  const others = prompt.blocks.filter((block) => block.kind !== "text").length;
  const [text, setText] = useState<string | null>(null);
  const edit = (to: string | null) => {
    call("session.edit", { id, number: prompt.number, ...(to === null ? {} : { text: to }) }).then(({ waited }) => {
      setText(null);
      failed(waited ? "" : LATE);
      if (waited && to === null) back(words);
    }, (error: unknown) => failed(wording(error)));
  };
  if (text !== null) {
    return (
      <li>
        <form class="queue-edit" onSubmit={(event) => { event.preventDefault(); if (text.trim() || others) edit(text); }}>
          <textarea aria-label="words of a waiting prompt" rows={2} value={text} ref={(area) => { if (area && document.activeElement !== area) area.focus(); }} onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => { if (event.key === "Escape") { event.stopPropagation(); setText(null); } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !matchMedia("(pointer: coarse)").matches) { event.preventDefault(); if (text.trim() || others) edit(text); } }} />
          <button type="submit" class="primary" disabled={!text.trim() && !others}>Change</button>
          <button type="button" class="plain" onClick={() => setText(null)}>Leave it</button>
        </form>
      </li>
    );
  }
  return (
    <li>
      <span class="queue-text">{[words, others ? `${others} picture${others > 1 ? "s" : ""} or files` : ""].filter(Boolean).join(" · ")}</span>
      <button type="button" class="plain small" data-edit={prompt.number} onClick={() => setText(words)}>Edit</button>
      <button type="button" class="plain small" data-back={prompt.number} onClick={() => edit(null)}>Take back</button>
    </li>
  );
}

function base64(file: File): Promise<string> {
  return new Promise((read, failed) => {
    const reader = new FileReader();
    reader.onload = () => read(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
}

type Offered = { insert: string; about: string; from: number; to: number };

/** `/` at the beginning: the agent's commands. `@` anywhere: names of the folder. */
function useOffers(talk: Conversation, text: string, caret: number): Offered[] {
  const commands = talk.kept.value.offers.commands ?? [];
  const [files, setFiles] = useState<{ folder: string; names: string[] }>({ folder: "", names: [] });
  const slash = /^\/([\w:.-]*)$/.exec(text.slice(0, caret));
  const at = /(?:^|\s)@([^\s@]*)$/.exec(text.slice(0, caret));
  const path = at?.[1];
  const folder = path === undefined ? null : path.slice(0, path.lastIndexOf("/") + 1);
  useEffect(() => {
    if (folder === null) return;
    const named = (name: unknown) => (typeof name === "string" ? name : null);
    call("workspace.list", { session: talk.id, path: folder.replace(/\/$/, ""), limit: 1000 }).then(
      ({ entries }) => setFiles({ folder, names: (entries ?? []).flatMap((entry) => { const name = named(entry.name); return name ? [entry.stat?.kind === "folder" ? `${name}/` : name] : []; }) }),
      () => setFiles({ folder, names: [] }),
    );
  }, [folder, talk.id]);
  return useMemo(() => {
    if (slash) return commands.filter((one) => one.name.toLowerCase().startsWith((slash[1] ?? "").toLowerCase())).slice(0, OFFERED_MAX).map((one) => ({ insert: `/${one.name} `, about: one.about ?? "", from: 0, to: caret }));
    if (path === undefined || folder === null || files.folder !== folder) return [];
    const last = path.slice(folder.length).toLowerCase();
    return files.names.filter((name) => name.toLowerCase().includes(last) && (last.startsWith(".") || !name.startsWith("."))).slice(0, OFFERED_MAX).map((name) => ({ insert: `@${folder}${name}${name.endsWith("/") ? "" : " "}`, about: "", from: caret - path.length - 1, to: caret }));
  }, [text, caret, commands, files]);
}
