// Small things that every view uses.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { blocks } from "./blocks.ts";
import { writtenOut } from "./format.ts";
import { markup, PARSED_MAX, plainControls } from "./markdown.ts";

export function Markdown({ text }: { text: string }) {
  const parts = useMemo(() => (text.length > PARSED_MAX ? null : blocks(text)), [text]);
  return parts === null ? <pre class="plain">{plainControls(text)}</pre> : <div class="markdown">{parts.map((part, at) => <MarkdownPart key={at} text={part} />)}</div>;
}

function MarkdownPart({ text }: { text: string }) {
  const html = useMemo(() => markup(text), [text]);
  return <div dangerouslySetInnerHTML={{ __html: html }} />;
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

export function State({ tone, word }: { tone: Tone; word: string }) {
  return <span class={`state ${tone}`}><span class="dot" aria-hidden="true" />{word}</span>;
}

/** Somebody's value: all of it, whatever letters are in it. A yes may be about it. */
export function Value({ children }: { children: string }) {
  return <bdi class="value">{writtenOut(children)}</bdi>;
}
