// What is shown of a session as a document in Markdown. Pure.
import type { Item, Kept } from "./keeper.ts";

export function asDocument(name: string, id: string, kept: Kept): string {
  const older = kept.more ? [`*Older messages are left out here; all of them: \`ostler export ${id}\`*`] : [];
  return [`# ${name}`, ...older, ...kept.items.map(paragraph).filter(Boolean)].join("\n\n") + "\n";
}

function fenced(text: string, kind = ""): string {
  const fence = "`".repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length + 1)));
  return `${fence}${kind}\n${text.replace(/\n$/, "")}\n${fence}`;
}

function paragraph(item: Item): string {
  switch (item.kind) {
    case "prompt": return item.blocks.map((block) => (block.kind === "text" ? (block.text ?? "") : `[${block.kind} ${block.text || block.mime || ""}]`)).join("\n").split("\n").map((line) => `> ${line}`).join("\n");
    case "words": return item.voice === "answer" ? item.text : "";
    case "tool": return [`**${item.name || "tool"}** ${item.title}`, item.output ? fenced(item.output) : ""].filter(Boolean).join("\n\n");
    case "ask": return item.state === "answered" ? `*${item.title || "request"}: ${item.verdict} by ${item.by}*` : "";
    case "plan": return item.steps.map((step) => `- [${step.status === "done" ? "x" : " "}] ${step.text}`).join("\n");
    case "note": return `*${item.text}*`;
    case "end": return item.reason === "completed" ? "" : `*the turn ended: ${item.reason}${item.text ? `: ${item.text}` : ""}*`;
  }
}
