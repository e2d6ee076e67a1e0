// A new session: folder, agent, words. What was used last is filled in.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Methods } from "./api.ts";
import { shortPath } from "./format.ts";
import { go } from "./route.ts";
import { call, type Hosted, hosted, may, words } from "./store.ts";

type Agent = NonNullable<Methods["instance.agents"]["result"]["agents"]>[number];

/** Not its worktree, which goes when it is finished. */
const home = ({ session }: Hosted) => session?.repository ?? (session?.worktree ? null : session?.workspace);

export function NewSession({ close }: { close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const sessions = (hosted.value ?? []).filter((one) => one.kind === "session").sort((one, two) => Date.parse(two.active) - Date.parse(one.active));
  // Who may not start commands begins where there is a session.
  const others = may("type") ? (hosted.value ?? []).filter((one) => one.kind !== "session") : [];
  const folders = [...new Set([...sessions.map(home), ...others.map((one) => one.workspace)].filter((folder): folder is string => Boolean(folder)))];
  const [agents, setAgents] = useState<Agent[] | null>(null);
  const [agent, setAgent] = useState(sessions[0]?.what ?? "");
  const [folder, setFolder] = useState(folders[0] ?? "");
  const [text, setText] = useState("");
  const [tree, setTree] = useState(false);
  const [trouble, setTrouble] = useState("");
  const [busy, setBusy] = useState(false);
  const [key] = useState(() => Math.random().toString(36).slice(2));

  useEffect(() => {
    dialog.current?.showModal();
    call("instance.agents", {}).then(
      ({ agents: all }) => {
        // Beside those that are installed there is always the one that repeats what it is told.
        const there = [...(all ?? []).filter((one) => one.program), { name: "echo", drive: "", login: "yes" as const }];
        setAgents(there);
        setAgent((before) => (there.some((one) => one.name === before) ? before : there.find((one) => one.login === "yes")?.name ?? there[0]?.name ?? ""));
      },
      (error: unknown) => setTrouble(words(error)),
    );
  }, []);

  const start = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setTrouble("");
    try {
      const session = await call("session.create", { agent, workspace: folder, worktree: tree, key: `page ${key}` });
      if (text.trim()) await call("session.prompt", { id: session.id, text, key: `page ${key}` });
      close();
      go(`/session/${session.id}`);
    } catch (error) {
      setTrouble(words(error));
      setBusy(false);
    }
  };

  const chosen = agents?.find((one) => one.name === agent);
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="new-title" onClose={close}>
      <form onSubmit={(event) => void start(event)}>
        <h2 id="new-title">New session</h2>
        <label>Folder
          <input name="folder" required list="folders" placeholder="/home/you/project" value={folder} onInput={(event) => setFolder(event.currentTarget.value)} />
          <datalist id="folders">{folders.map((one) => <option key={one} value={one}>{shortPath(one)}</option>)}</datalist>
        </label>
        <fieldset>
          <legend>Agent</legend>
          <div class="segments wrap">
            {agents === null ? <span class="quiet">Looking for agents…</span> : agents.map((one) => <button type="button" key={one.name} aria-pressed={agent === one.name} onClick={() => setAgent(one.name)}>{one.name}</button>)}
          </div>
          {chosen?.login === "no" ? <p class="warn">{chosen.name} is not logged in{chosen.login_by ? `: ${chosen.login_by}` : ""}</p> : null}
        </fieldset>
        <label>What to do
          <textarea name="prompt" rows={4} placeholder="Describe the work. It may also be said later." value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <label class="check"><input type="checkbox" checked={tree} onChange={(event) => setTree(event.currentTarget.checked)} /> In a worktree and on a branch of its own</label>
        {trouble ? <p class="trouble" role="alert">{trouble}</p> : null}
        <div class="dialog-foot">
          <button type="button" class="plain" onClick={() => dialog.current?.close()}>Cancel</button>
          <button type="submit" class="primary" disabled={busy || !agent || !folder}>Start</button>
        </div>
      </form>
    </dialog>
  );
}
