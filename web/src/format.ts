// Figures and times in plain words. Pure.

export function money(dollars: number | null | undefined): string {
  if (dollars === null || dollars === undefined) return "";
  return dollars < 0.01 && dollars > 0 ? "< $0.01" : `$${dollars.toFixed(2)}`;
}

export function count(number: number | null | undefined): string {
  if (number === null || number === undefined) return "";
  if (number < 1000) return String(number);
  return number < 1_000_000 ? `${(number / 1000).toFixed(number < 10_000 ? 1 : 0)}k` : `${(number / 1_000_000).toFixed(1)}M`;
}

export function bytes(number: number): string {
  return number < 1024 ? `${number} B` : number < 1024 * 1024 ? `${Math.round(number / 1024)} kB` : `${(number / 1024 / 1024).toFixed(1)} MB`;
}

export function duration(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

export function ago(time: string | null | undefined, now: number): string {
  if (!time) return "";
  const ms = now - Date.parse(time);
  return ms < 5000 ? "just now" : `${duration(ms)} ago`;
}

export function clock(time: string): string {
  return new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

/** The last two names of a path: enough to know a folder by. */
export function shortPath(path: string | null | undefined): string {
  const names = (path ?? "").split("/").filter(Boolean);
  return names.length <= 2 ? (path ?? "") : `…/${names.slice(-2).join("/")}`;
}

/** An agent as people know it: of one that is a program, the program's name. */
export function agentName(what: string): string {
  const program = what.split(" ")[0] ?? what;
  return program.startsWith("/") ? lastName(program) : what;
}

export function lastName(path: string | null | undefined): string {
  return (path ?? "").split("/").filter(Boolean).at(-1) ?? "/";
}

/** Signs that are not seen, or move those beside them: controls but for tabs and new lines, what turns letters round, fillers. */
const UNSEEN = /(?![\t\n\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0]/gu;

/** A text of which nothing is left out: what would not be seen is written. */
export function writtenOut(text: string): string {
  return text.replace(UNSEEN, (sign) => {
    const code = sign.codePointAt(0) ?? 0;
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? "\u2421" : `\u27e8U+${code.toString(16).toUpperCase()}\u27e9`;
  });
}
