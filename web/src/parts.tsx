// Small things that every view uses.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { markup, plainControls } from "./markdown.ts";

export function Markdown({ text }: { text: string }) {
  const html = useMemo(() => markup(text), [text]);
  return html === null ? <pre class="plain">{plainControls(text)}</pre> : <div class="markdown" dangerouslySetInnerHTML={{ __html: html }} />;
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children ? <p>{children}</p> : null}
    </div>
  );
}

export type Tone = "needs" | "works" | "ready" | "over" | "failed";

const TONES: Record<Tone, string> = { needs: "needs you", works: "working", ready: "ready", over: "ended", failed: "failed" };

export function State({ tone, word }: { tone: Tone; word?: string }) {
  return <span class={`state ${tone}`}><span class="dot" aria-hidden="true" />{word ?? TONES[tone]}</span>;
}

/** Somebody's value: shown as it is, whatever letters are in it. */
export function Value({ children }: { children: string }) {
  return <bdi class="value">{plainControls(children)}</bdi>;
}
