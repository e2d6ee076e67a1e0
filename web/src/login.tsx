// The way in: by the link of `ostler web`, or by the code of `ostler pair`.
import { useState } from "preact/hooks";
import { secure } from "./device.ts";
import { enterByCode, link, why, words } from "./store.ts";

export function Login() {
  const [code, setCode] = useState("");
  const [trouble, setTrouble] = useState("");
  const enter = (event: Event) => {
    event.preventDefault();
    setTrouble("");
    enterByCode(code.replace(/\D/g, "")).catch((error: unknown) => setTrouble(words(error)));
  };
  return (
    <main class="login">
      <div class="login-card">
        <h1>ostler</h1>
        {link.value === "starting" ? <p role="status">Connecting…</p> : link.value === "waiting" ? (
          <p role="status">Say yes in the terminal where you ran <code>ostler pair</code> or <code>ostler web</code>. This page goes on by itself.</p>
        ) : (
          <>
            {why.value ? <p class="trouble" role="alert">{why.value}</p> : null}
            <p>This browser is no device of this ostler yet. In a terminal of the machine:</p>
            <pre class="shell">ostler web</pre>
            <p>and open the link that it prints. On a phone, scan what <code>ostler pair</code> shows, or type its code:</p>
            <form onSubmit={enter} class="code">
              <input inputMode="numeric" autoComplete="one-time-code" pattern="[0-9 ]{6,7}" aria-label="six digits" placeholder="000 000" value={code} onInput={(event) => setCode(event.currentTarget.value)} />
              <button type="submit" class="primary" disabled={code.replace(/\D/g, "").length !== 6}>Enter</button>
            </form>
            {trouble ? <p class="trouble" role="alert">{trouble}</p> : null}
            {secure ? null : <Insecure />}
          </>
        )}
      </div>
    </main>
  );
}

/** What is missing where the network reads along, and how to get it. */
export function Insecure() {
  return <p class="warn">This connection is not encrypted, so this browser can keep no key: it may answer once at a time, and cannot be installed. <code>web.url</code> with a tunnel, or <code>web.certificate</code>, gives both.</p>;
}
