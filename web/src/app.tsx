// The page: who we are to the instance decides whether there is a way in, the address which view is open.
import { render } from "preact";
import { useEffect } from "preact/hooks";
import "./style.css";
import { Approvals } from "./approvals.tsx";
import { Help, helping, useKeys } from "./keys.tsx";
import { Login } from "./login.tsx";
import { nameOf, Now, tone, waiting } from "./now.tsx";
import { Process } from "./process.tsx";
import { route } from "./route.ts";
import { Session } from "./session.tsx";
import { call, hosted, link, me, start } from "./store.ts";
import { begin } from "./told.ts";

function Nav() {
  const view = route.value.view;
  const alive = (hosted.value ?? []).filter((one) => one.kind === "session" && !one.ended && !one.part_of).sort((one, two) => Date.parse(two.active) - Date.parse(one.active)).slice(0, 12);
  const needed = waiting.value;
  return (
    <nav class="nav" aria-label="views">
      <a class="brand" href="#/now">ostler</a>
      <a href="#/now" aria-current={view === "now" ? "page" : undefined}><span>Now</span>{needed ? <span class="badge" aria-label={`${needed} need you`}>{needed}</span> : null}</a>
      <a href="#/approvals" aria-current={view === "approvals" ? "page" : undefined}><span>Approvals</span></a>
      <div class="nav-sessions">
        {alive.map((one) => <a key={one.id} href={`#/session/${one.id}`} aria-current={route.value.view === "session" && route.value.id === one.id ? "page" : undefined}><span class={`dot ${tone(one).tone}`} aria-hidden="true" /><span class="nav-name">{nameOf(one)}</span></a>)}
      </div>
      <div class="nav-foot">
        <button type="button" class="plain" onClick={() => { helping.value = true; }}>Keys <kbd>?</kbd></button>
        <span class="quiet nav-me">{me.value?.name}</span>
      </div>
    </nav>
  );
}

function View() {
  const at = route.value;
  switch (at.view) {
    case "approvals": return <Approvals />;
    case "process": return <Process key={at.id} id={at.id} />;
    case "session": return <Session key={at.id} id={at.id} tab={at.tab} />;
    case "now": return <Now />;
  }
}

function App() {
  useKeys();
  const needed = waiting.value;
  useEffect(() => { document.title = needed ? `(${needed}) ostler` : "ostler"; }, [needed]);
  if (link.value === "login" || link.value === "waiting" || (link.value === "starting" && !me.value)) return <Login />;
  return (
    <div class="shell-frame">
      <Nav />
      <main class="main">
        {link.value === "lost" ? <p class="lost" role="alert">The connection to ostler is lost. What you see is what was there; it goes on as soon as ostler answers.</p> : null}
        <View />
      </main>
      <Help />
    </div>
  );
}

/** What goes wrong here is told to the instance, whose log people read. */
function report(message: string, stack: string): void {
  call("device.trouble", { message, stack }).catch(() => {});
}
addEventListener("error", (event) => report(event.message, String((event.error as Error | undefined)?.stack ?? "")));
addEventListener("unhandledrejection", (event) => report(String(event.reason), String((event.reason as Error | undefined)?.stack ?? "")));

const page = document.getElementById("page");
if (page) {
  page.replaceChildren();
  render(<App />, page);
  void start();
  begin();
}
