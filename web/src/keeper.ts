// How the page keeps the pieces of a session's story: a window of them, oldest first, and what is shown of it. Pure: pieces in, items
// out. It folds no records, which the instance has done; it only puts a piece where its block, tool or request stands.
import type { Methods } from "./api.ts";

export type Placed = NonNullable<Methods["session.read"]["result"]["pieces"]>[number];
export type Piece = NonNullable<Placed["pieces"]>[number];
export type Page = Pick<Methods["session.read"]["result"], "pieces" | "first" | "last" | "more">;
export type Block = NonNullable<Piece["blocks"]>[number];
export type Diff = NonNullable<Piece["diffs"]>[number];
export type Usage = NonNullable<Piece["usage"]>;
export type Step = NonNullable<Piece["steps"]>[number];
export type Offer = { name: string; about?: string; chosen?: boolean };
export type Offers = { commands?: Offer[]; modes?: Offer[]; models?: Offer[] };

export type PromptItem = { kind: "prompt"; key: string; time: string; number: number; blocks: Block[]; door: string };
export type WordsItem = { kind: "words"; key: string; voice: "answer" | "thought"; text: string; whole: boolean; cut: boolean };
export type ToolItem = {
  kind: "tool"; key: string; id: string; name: string; title: string; does: string; input: unknown; diffs: Diff[];
  output: string; ended: boolean; failed: boolean; cut: boolean; children: ToolItem[];
};
export type AskItem = { kind: "ask"; key: string; approval: string; title: string; state: "waits" | "answered" | "gone"; verdict: string; text: string; by: string };
export type PlanItem = { kind: "plan"; key: string; steps: Step[] };
export type NoteItem = { kind: "note"; key: string; tone: "plain" | "warn" | "bad"; text: string };
export type EndItem = { kind: "end"; key: string; time: string; number: number; reason: string; text: string; stopped: boolean; usage: Usage };
export type Item = PromptItem | WordsItem | ToolItem | AskItem | PlanItem | NoteItem | EndItem;

export interface Kept {
  /** What was told, oldest first: the numbers are of records. */
  readonly told: readonly Placed[];
  readonly items: readonly Item[];
  /** The first record of the window, and the last that was told. */
  readonly first: number;
  readonly last: number;
  /** There are older ones. */
  readonly more: boolean;
  /** Prompts whose turn has not come, by their number. */
  readonly queue: ReadonlyMap<number, PromptItem>;
  readonly offers: Offers;
  readonly usage: Usage;
  /** A turn runs, as far as the pieces tell. */
  readonly running: boolean;
}

export const NOTHING: Kept = { told: [], items: [], first: 1, last: 0, more: false, queue: new Map(), offers: {}, usage: {}, running: false };

/** What a turn that runs does: it works, or something that it asked waits for somebody. */
export function doing(kept: Kept): "working" | "waiting" | null {
  if (!kept.running) return null;
  let waits = false;
  for (const item of kept.items) {
    if (item.kind === "prompt") waits = false;
    else if (item.kind === "ask" && item.state === "waits") waits = true;
  }
  return waits ? "waiting" : "working";
}

/** The newest page, and nothing before it. */
export function begin(page: Page): Kept {
  return kept(page.pieces ?? [], { first: page.first ?? 1, last: page.last, more: page.more });
}

/** An older page comes before what is there. */
export function earlier(before: Kept, page: Page): Kept {
  const older = (page.pieces ?? []).filter((placed) => placed.record < before.first);
  return kept([...older, ...before.told], { first: Math.min(before.first, page.first ?? before.first), last: before.last, more: page.more });
}

/** A newer page comes behind what is there. */
export function later(before: Kept, page: Page): Kept {
  const newer = (page.pieces ?? []).filter((placed) => placed.record > before.last);
  return kept([...before.told, ...newer], { first: before.first, last: Math.max(before.last, newer.at(-1)?.record ?? 0), more: before.more });
}

/** What was told just now. A record that is there already is not told twice. */
export function hear(before: Kept, news: readonly Placed[]): Kept {
  const fresh: Placed[] = [];
  let last = before.last;
  for (const placed of news) {
    if (placed.record <= last) continue;
    fresh.push(placed);
    last = placed.record;
  }
  if (!fresh.length) return before;
  const fold = new Fold(before);
  for (const placed of fresh) fold.take(placed);
  return { ...fold.result(), told: [...before.told, ...fresh], first: before.first, last, more: before.more };
}

/** At most so many records: the oldest or the newest go. */
export function trim(before: Kept, max: number, end: "oldest" | "newest"): Kept {
  if (before.told.length <= max) return before;
  if (end === "oldest") {
    const told = before.told.slice(-max);
    return kept(told, { first: told[0]?.record ?? before.first, last: before.last, more: true });
  }
  const told = before.told.slice(0, max);
  return kept(told, { first: before.first, last: told.at(-1)?.record ?? before.last, more: before.more });
}

function kept(told: readonly Placed[], bounds: { first: number; last: number; more: boolean }): Kept {
  const fold = new Fold(NOTHING);
  for (const placed of told) fold.take(placed);
  return { ...fold.result(), told, ...bounds };
}

/** All that an item says. */
export function textOf(item: Item): string {
  switch (item.kind) {
    case "prompt": return item.blocks.map((block) => block.text ?? "").join("\n");
    case "words": return item.text;
    case "tool": return [item.title, item.name, JSON.stringify(item.input), item.output, ...item.diffs.map((diff) => diff.path), ...item.children.map(textOf)].join("\n");
    case "ask": return `${item.title} ${item.text}`;
    case "plan": return item.steps.map((step) => step.text).join("\n");
    case "note": return item.text;
    case "end": return item.text;
  }
}

/** Words that are found where the window is not: the record at which their item begins, and what stands around them. */
export type Hit = { record: number; around: string };
/** Records of the next page that are looked at too: a word that goes on there is found. */
const OVERLAP = 200;
/** Letters on each side of a hit. */
const AROUND = 60;

export const recordOf = (item: Item): number => Number.parseInt(item.key, 10);
export const holding = (items: readonly Item[], words: string): readonly Item[] => items.filter((item) => textOf(item).toLowerCase().includes(words));

/** Items of a page that hold these words in small letters, newest first. `newer` is what comes after the page. */
export function hits(page: readonly Placed[], newer: readonly Placed[], words: string): Hit[] {
  const last = page.at(-1)?.record ?? 0;
  const fold = new Fold(NOTHING);
  for (const placed of [...page, ...newer.slice(0, OVERLAP)]) fold.take(placed);
  return holding(fold.result().items, words).filter((item) => recordOf(item) <= last).map((item) => {
    const text = textOf(item), at = text.toLowerCase().indexOf(words);
    return { record: recordOf(item), around: text.slice(Math.max(0, at - AROUND), at + words.length + AROUND).replace(/\s+/g, " ").trim() };
  }).reverse();
}

/** Puts pieces where they belong, in copies of what was there. */
class Fold {
  private readonly items: Item[];
  private readonly queue: Map<number, PromptItem>;
  private offers: Offers;
  private usage: Usage;
  private running: boolean;
  private readonly tools = new Map<string, number[]>();
  private readonly asks = new Map<string, number>();
  private readonly open: { answer?: number | undefined; thought?: number | undefined } = {};
  private plan: number | undefined;

  constructor(before: Kept) {
    this.items = [...before.items];
    this.queue = new Map(before.queue);
    this.offers = before.offers;
    this.usage = before.usage;
    this.running = before.running;
    this.items.forEach((item, at) => this.note(item, at));
  }

  result(): Pick<Kept, "items" | "queue" | "offers" | "usage" | "running"> {
    return { items: this.items, queue: this.queue, offers: this.offers, usage: this.usage, running: this.running };
  }

  /** What is found again by a later piece. */
  private note(item: Item, at: number): void {
    if (item.kind === "tool") this.noteTool(item, [at]);
    else if (item.kind === "ask") this.asks.set(item.approval, at);
    else if (item.kind === "words") this.open[item.voice] = item.whole ? undefined : at;
    else if (item.kind === "plan") this.plan = at;
    else if (item.kind === "prompt") this.close();
  }

  private noteTool(tool: ToolItem, path: number[]): void {
    this.tools.set(tool.id, path);
    tool.children.forEach((child, at) => this.noteTool(child, [...path, at]));
  }

  private close(): void {
    this.open.answer = this.open.thought = this.plan = undefined;
  }

  private add(item: Item): void {
    this.items.push(item);
    this.note(item, this.items.length - 1);
  }

  take(placed: Placed): void {
    (placed.pieces ?? []).forEach((piece, at) => this.piece(piece, `${placed.record}.${at}`, placed.time));
  }

  private piece(piece: Piece, key: string, time: string): void {
    const text = piece.text ?? "";
    const note = (tone: NoteItem["tone"], text: string) => this.add({ kind: "note", key, tone, text });
    switch (piece.kind) {
      case "accepted":
        this.queue.set(piece.number ?? 0, prompt(piece, key, time));
        break;
      case "dropped":
        this.queue.delete(piece.number ?? 0);
        note("plain", `prompt ${piece.number} will not run: ${text}`);
        break;
      case "begun": {
        const known = this.queue.get(piece.number ?? 0);
        this.queue.delete(piece.number ?? 0);
        this.add(piece.blocks?.length || !known ? prompt(piece, key, time) : { ...known, key, time });
        this.running = true;
        break;
      }
      case "words":
        this.words(piece.voice ?? "answer", text, key);
        break;
      case "whole":
        this.whole(piece.voice ?? "answer", text, piece.cut ?? false, key);
        break;
      case "cut_off":
        // The words are there already, unless they came before anybody listened.
        if (this.open.answer === undefined) this.words("answer", text, key);
        this.end("answer");
        break;
      case "tool":
        this.tool(piece, key);
        break;
      case "tool_output":
        this.update(piece.id, (tool) => ({ ...tool, output: tool.output + text }));
        break;
      case "tool_ended": {
        const ended = (tool: ToolItem): ToolItem => ({
          ...tool, output: text || tool.output, ended: true, failed: piece.is_error ?? false, cut: tool.cut || (piece.cut ?? false), diffs: piece.diffs?.length ? piece.diffs : tool.diffs,
        });
        if (!this.update(piece.id, ended)) this.add(ended({ ...bareTool(piece, key), title: piece.name ?? "a tool" }));
        break;
      }
      case "waits":
        this.add({ kind: "ask", key, approval: piece.approval ?? "", title: piece.title ?? "", state: "waits", verdict: "", text: "", by: "" });
        break;
      case "answered":
        this.answer(piece.approval ?? "", { state: "answered", verdict: piece.verdict ?? "", text, by: piece.by ?? "" }, key);
        break;
      case "taken_back":
        this.answer(piece.approval ?? "", { state: "gone", verdict: "", text: "", by: "" }, key);
        break;
      case "trouble":
        note(piece.is_error ? "bad" : "warn", text);
        break;
      case "process":
        if (text) note("warn", `the agent was started again: ${text}`);
        break;
      case "ended":
        this.end("answer");
        this.end("thought");
        this.add({ kind: "end", key, time, number: piece.number ?? 0, reason: piece.reason ?? "", text, stopped: piece.stopped ?? false, usage: piece.usage ?? {} });
        this.running = false;
        break;
      case "plan": {
        const item: PlanItem = { kind: "plan", key, steps: piece.steps ?? [] };
        const at = this.plan;
        const before = at === undefined ? undefined : this.items[at];
        if (at !== undefined && before) this.items[at] = { ...item, key: before.key };
        else this.add(item);
        break;
      }
      case "usage":
        this.usage = { ...this.usage, ...piece.usage };
        break;
      case "notice":
        note("plain", text);
        break;
      case "offers":
        this.offers = { ...this.offers, ...(piece.offers as Offers) };
        break;
      case "stopping":
        note("plain", "stopping");
        break;
      case "held":
        note("warn", "the machine was restarted; what waits goes on when you say so");
        break;
      case "closed":
        note("plain", "session closed");
        this.running = false;
        break;
      case "changed":
        break;
    }
  }

  private words(voice: "answer" | "thought", text: string, key: string): void {
    const at = this.open[voice];
    const item = at === undefined ? undefined : this.items[at];
    if (at !== undefined && item?.kind === "words") this.items[at] = { ...item, text: item.text + text };
    else this.add({ kind: "words", key, voice, text, whole: false, cut: false });
  }

  private whole(voice: "answer" | "thought", text: string, cut: boolean, key: string): void {
    const at = this.open[voice];
    const item = at === undefined ? undefined : this.items[at];
    if (at !== undefined && item?.kind === "words") this.items[at] = { ...item, text, whole: true, cut };
    else this.add({ kind: "words", key, voice, text, whole: true, cut });
    this.open[voice] = undefined;
  }

  private end(voice: "answer" | "thought"): void {
    const at = this.open[voice];
    const item = at === undefined ? undefined : this.items[at];
    if (at !== undefined && item?.kind === "words") this.items[at] = { ...item, whole: true };
    this.open[voice] = undefined;
  }

  private tool(piece: Piece, key: string): void {
    const tool = bareTool(piece, key);
    // The same call again tells more of it.
    if (this.update(piece.id, (old) => ({ ...tool, key: old.key, output: old.output, ended: old.ended, failed: old.failed, children: old.children }))) return;
    const parent = piece.parent ?? "";
    const path = this.tools.get(parent);
    if (path && this.update(parent, (old) => ({ ...old, children: [...old.children, tool] }))) {
      this.tools.set(tool.id, [...path, (this.at(path)?.children.length ?? 1) - 1]);
    } else this.add(tool);
  }

  private at(path: number[]): ToolItem | undefined {
    const [first, ...rest] = path;
    const top = first === undefined ? undefined : this.items[first];
    let tool = top?.kind === "tool" ? top : undefined;
    for (const at of rest) tool = tool?.children[at];
    return tool;
  }

  private update(id: string | null | undefined, change: (tool: ToolItem) => ToolItem): boolean {
    const path = this.tools.get(id ?? "");
    const [first, ...rest] = path ?? [];
    const top = first === undefined ? undefined : this.items[first];
    if (first === undefined || top?.kind !== "tool") return false;
    this.items[first] = changed(top, rest, change);
    return true;
  }

  private answer(approval: string, how: Pick<AskItem, "state" | "verdict" | "text" | "by">, key: string): void {
    const at = this.asks.get(approval);
    const item = at === undefined ? undefined : this.items[at];
    if (at === undefined || item?.kind !== "ask") this.add({ kind: "ask", key, approval, title: "", ...how });
    // Who answered first has answered.
    else if (item.state === "waits") this.items[at] = { ...item, ...how };
  }
}

function changed(tool: ToolItem, path: number[], change: (tool: ToolItem) => ToolItem): ToolItem {
  const [first, ...rest] = path;
  if (first === undefined) return change(tool);
  return { ...tool, children: tool.children.map((child, at) => (at === first ? changed(child, rest, change) : child)) };
}

function prompt(piece: Piece, key: string, time: string): PromptItem {
  return { kind: "prompt", key, time, number: piece.number ?? 0, blocks: piece.blocks ?? [], door: piece.door ?? "" };
}

function bareTool(piece: Piece, key: string): ToolItem {
  return {
    kind: "tool", key, id: piece.id ?? key, name: piece.name ?? "", title: piece.title ?? piece.name ?? "", does: piece.does ?? "other", input: piece.input ?? null, diffs: piece.diffs ?? [],
    output: "", ended: false, failed: false, cut: piece.cut ?? false, children: [],
  };
}
