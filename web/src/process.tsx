// A command or a terminal program: how it is doing, and what it said last.
import { useEffect, useState } from "preact/hooks";
import { ago, duration } from "./format.ts";
import { plainControls } from "./markdown.ts";
import { Empty, State, Value } from "./parts.tsx";
import { nameOf, tone } from "./now.tsx";
import { Screen } from "./screen.tsx";
import { call, type Hosted, listen, now, soon, words } from "./store.ts";

/** The most lines that the instance tells at once. */
const LINES = 64;
const LOOK_AGAIN_MS = 1_000;

/** What failed needs nobody once somebody has looked at it; attaching says so. */
const seen = new Set<string>();
function see(one: Hosted): void {
  if (!one.ended || one.section !== "needs_you" || seen.has(one.id)) return;
  seen.add(one.id);
  call("process.attach", { id: one.id, tail: 0, viewer: {} }).then(({ watch }) => call("process.detach", { watch })).then(soon, () => {});
}

export function Process({ id }: { id: string }) {
  const [one, setOne] = useState<Hosted | null>(null);
  const [trouble, setTrouble] = useState("");
  useEffect(() => {
    let over = false;
    const look = () => call("hosted.list", { all: true, id, lines: LINES }).then(({ hosted }) => {
      if (over) return;
      setOne(hosted?.[0] ?? null);
      if (hosted?.[0]) see(hosted[0]);
      setTrouble(hosted?.length ? "" : "There is nothing of this name any more.");
    }, (error: unknown) => { if (!over) setTrouble(words(error)); });
    const again = setInterval(() => { if (!document.hidden) void look(); }, LOOK_AGAIN_MS);
    const unlisten = listen(() => {}, () => void look());
    void look();
    return () => { over = true; clearInterval(again); unlisten(); };
  }, [id]);
  if (!one) return <div class="view"><Empty title={trouble || "Looking…"}>{trouble ? <a href="#/now">Back to Now</a> : null}</Empty></div>;
  const { tone: how, word } = tone(one);
  return (
    <div class="view process">
      <header class="session-head flat">
        <a class="back" href="#/now" aria-label="back to Now">‹</a>
        <div class="session-title">
          <h1><Value>{nameOf(one)}</Value></h1>
          <div class="row-facts"><span>{one.kind}</span><span><Value>{one.workspace ?? ""}</Value></span><span>{one.ended ? `ended ${ago(one.ended, now.value)}` : duration(now.value - Date.parse(one.began))}</span>{one.process?.pid ? <span>pid {one.process.pid}</span> : null}</div>
        </div>
        <State tone={how} word={word} />
      </header>
      <pre class="given-text"><Value>{one.what}</Value></pre>
      {one.process?.claim?.message ? <p class="warn"><Value>{one.process.claim.message}</Value></p> : null}
      {one.kind === "terminal" && !one.ended ? <Screen id={id} /> : <Said one={one} />}
    </div>
  );
}

function Said({ one }: { one: Hosted }) {
  return (
    <>
      <h2>What it said last</h2>
      {one.lines?.length ? <pre class="output tall" tabIndex={0}>{plainControls(one.lines.join("\n"))}</pre> : <Empty title="It has said nothing" />}
    </>
  );
}
