// What a person has in front of them, and since when. An answer counts only for a request that was seen to its end, and only once it has
// stood for long enough to be answered instead of what was there before: the rule that terminals have. Pure.

/** Shorter than this nobody reacts to what is on a screen: a tap so early was meant for what was there before. */
export const STANDS_FOR_MS = 300;
/** Pixels that do not matter: a fraction of a line. */
const SLACK = 4;

/** What of a request is visible: its height, the part of it from `top` to `bottom`, and where on the screen its answers are. */
export type Sight = { hash: string; height: number; top: number; bottom: number; place: number };

export type Attention = { sight: Sight | null; seen: number; since: number };

export const NOTHING_SEEN: Attention = { sight: null, seen: 0, since: 0 };

export function seen(before: Attention, sight: Sight, now: number): Attention {
  const old = before.sight;
  const same = old !== null && old.hash === sight.hash && Math.abs(old.height - sight.height) <= SLACK;
  let reached = same ? before.seen : 0;
  if (sight.bottom > sight.top && sight.top <= reached + SLACK) reached = Math.max(reached, sight.bottom);
  const moved = !same || Math.abs(old.place - sight.place) > SLACK;
  return { sight, seen: reached, since: moved ? now : before.since };
}

export type NotNow = "unread" | "too soon";

/** Why an answer that is given now does not count; nothing if it does. */
export function notNow(attention: Attention, now: number): NotNow | null {
  if (!attention.sight || attention.seen + SLACK < attention.sight.height) return "unread";
  return now - attention.since < STANDS_FOR_MS ? "too soon" : null;
}
