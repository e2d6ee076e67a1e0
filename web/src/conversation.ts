// The session that is open: a window of its story, read backwards in pages and followed by position. A lost connection or a killed
// instance changes nothing of it: it goes on after the last record that was heard.
import { signal } from "@preact/signals";
import type { Methods } from "./api.ts";
import { begin, earlier, hear, type Hit, hits, type Kept, later, NOTHING, type Page, type Placed, trim } from "./keeper.ts";
import { Refused, type Told } from "./rpc.ts";
import { call, listen, words } from "./store.ts";

export type SessionInfo = Methods["session.get"]["result"];

/** Records of one page. */
const PAGE = 1000;
/** Told records that are held: as much as can be scrolled without reading again, and a bound on memory. */
const HELD_MAX = 1500;
/** So many more before the oldest go: what stays is put together anew each time. */
const SLACK = 500;
/** Records and letters of a copied document: weeks of work, and as much as other programs take from a clipboard. */
const COPIED_MAX = 50_000;
const COPIED_LETTERS = 8 << 20;
/** Where words are found: more than anybody goes through, in records of months. */
const FOUND_MAX = 100;
const SEARCHED_MAX = 500_000;

export class Conversation {
  readonly kept = signal<Kept>(NOTHING);
  readonly info = signal<SessionInfo | null>(null);
  readonly trouble = signal("");
  readonly loaded = signal(false);
  /** The window does not reach to the newest record: what comes is not shown until somebody goes there. */
  readonly behind = signal(false);
  /** The record that somebody asked for, until they go on. */
  readonly sought = signal<number | null>(null);
  private watch: number | null = null;
  private news: Placed[] = [];
  private scheduled = false;
  private reading = false;
  private closed = false;
  private readonly unlisten: () => void;

  constructor(readonly id: string) {
    this.unlisten = listen((told) => this.heard(told), () => { this.watch = null; void this.follow(); });
    void this.follow();
  }

  close(): void {
    this.closed = true;
    this.unlisten();
    if (this.watch !== null) void call("session.unwatch", { watch: this.watch }).catch(() => {});
  }

  /** Reads the newest page if there is none, and goes on from the last record. */
  private async follow(): Promise<void> {
    try {
      if (!this.loaded.value) {
        const page = await call("session.read", { id: this.id, limit: PAGE, pieces: true });
        this.kept.value = begin(page);
        this.loaded.value = true;
      }
      if (this.closed || this.watch !== null) return;
      const watching = await call("session.watch", { id: this.id, from: this.kept.value.last + 1, pieces: true });
      this.watch = watching.watch;
      this.info.value = watching.session;
      this.trouble.value = "";
      if (this.closed) this.close();
      // A first page that is only the middle of a long answer is not enough to fill a screen.
      if (this.kept.value.items.length < 20) await this.older();
    } catch (error) {
      // What to type in a terminal helps nobody here.
      this.trouble.value = error instanceof Refused && error.kind === "not_found" ? "There is no such session" : words(error);
    }
  }

  private heard(told: Told): void {
    if (told.method === "session.pieces" && told.params.watch === this.watch) {
      this.news.push(told.params as Placed);
      this.soon();
    } else if (told.method === "feed.changes") this.refresh();
    else if (told.method === "session.lost" && told.params.watch === this.watch) this.trouble.value = told.params.message;
  }

  private refreshing = false;
  private refresh(): void {
    if (this.refreshing) return;
    this.refreshing = true;
    setTimeout(() => {
      this.refreshing = false;
      if (!this.closed) call("session.get", { id: this.id }).then((info) => { this.info.value = info; }, () => {});
    }, 150);
  }

  /** Once for each frame, however much comes. */
  private soon(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    const take = () => {
      this.scheduled = false;
      const news = this.news.splice(0);
      if (this.closed || !news.length) return;
      if (this.behind.value) return;
      const heard = hear(this.kept.value, news);
      this.kept.value = heard.told.length > 2 * HELD_MAX + SLACK ? trim(heard, 2 * HELD_MAX, "oldest") : heard;
    };
    if (document.hidden) setTimeout(take, 200);
    else requestAnimationFrame(take);
  }

  /** Older records, while there are any. */
  async older(): Promise<boolean> {
    const before = this.kept.value;
    if (this.reading || !before.more) return false;
    this.reading = true;
    try {
      const page = await call("session.read", { id: this.id, before: before.first, limit: PAGE, pieces: true });
      const joined = earlier(this.kept.value, page);
      const held = trim(joined, HELD_MAX, "newest");
      if (held !== joined) this.behind.value = true;
      this.kept.value = held;
      return true;
    } catch (error) {
      this.trouble.value = words(error);
      return false;
    } finally {
      this.reading = false;
    }
  }

  /** Newer records, where the window was moved away from the end. */
  async newer(): Promise<boolean> {
    const before = this.kept.value;
    if (this.reading || !this.behind.value) return false;
    this.reading = true;
    try {
      const page = await call("session.read", { id: this.id, before: before.last + 1 + PAGE, limit: PAGE, pieces: true });
      const end = Math.min(before.last + PAGE, page.last);
      this.kept.value = { ...trim(later(this.kept.value, page), HELD_MAX, "oldest"), last: end };
      if (end >= page.last) await this.live();
      return true;
    } catch (error) {
      this.trouble.value = words(error);
      return false;
    } finally {
      this.reading = false;
    }
  }

  /** The watch goes on from the end of the window. */
  private async live(): Promise<void> {
    this.behind.value = false;
    if (this.watch !== null) await call("session.unwatch", { watch: this.watch }).catch(() => {});
    this.watch = null;
    this.news = [];
    await this.follow();
  }

  /** All of it that fits into a document, from the newest backwards. */
  async whole(): Promise<Kept> {
    const pages: Page[] = [];
    let records = 0, letters = 0;
    for await (const page of this.backwards()) {
      pages.unshift(page);
      records += page.pieces?.length ?? 0;
      for (const placed of page.pieces ?? []) for (const piece of placed.pieces ?? []) letters += piece.text?.length ?? 0;
      if (records >= COPIED_MAX || letters >= COPIED_LETTERS) break;
    }
    const [oldest] = pages, newest = pages.at(-1);
    return oldest && newest ? begin({ ...oldest, last: newest.last, pieces: pages.flatMap((page) => page.pieces ?? []) }) : NOTHING;
  }

  /** Where else these words are, from the newest backwards, as they are found. */
  async *elsewhere(words: string): AsyncGenerator<Hit[]> {
    const { first, last, told } = this.kept.value;
    let newer: readonly Placed[] = this.behind.value ? [] : told;
    let found = 0, searched = 0;
    for await (const page of this.backwards(this.behind.value ? undefined : first)) {
      const pieces = page.pieces ?? [];
      const there = hits(pieces, newer, words).filter((hit) => hit.record < first || hit.record > last);
      newer = pieces;
      found += there.length;
      searched += pieces.length;
      yield there;
      if (found >= FOUND_MAX || searched >= SEARCHED_MAX) return;
    }
  }

  /** Page by page, as long as somebody wants more. */
  private async *backwards(before?: number): AsyncGenerator<Page> {
    for (let from = before; from === undefined || from > 1;) {
      const page: Page = await call("session.read", { id: this.id, limit: PAGE, pieces: true, ...(from === undefined ? {} : { before: from }) });
      if (this.closed) return;
      yield page;
      if (!page.more || !page.first) return;
      from = page.first;
    }
  }

  /** Moves the window to this record, which then stands in its middle. */
  async goTo(record: number): Promise<void> {
    try {
      const end = record + PAGE / 2;
      const page = await call("session.read", { id: this.id, before: end, limit: PAGE, pieces: true });
      const last = Math.min(end - 1, page.last);
      this.behind.value = true;
      this.sought.value = record;
      this.kept.value = { ...begin(page), last };
      if (last >= page.last) await this.live();
    } catch (error) {
      this.trouble.value = words(error);
    }
  }

  /** Back to the newest. */
  async latest(): Promise<void> {
    this.sought.value = null;
    if (!this.behind.value) return;
    this.loaded.value = false;
    await this.live();
  }
}
