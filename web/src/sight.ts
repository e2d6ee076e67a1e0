// What is on the screen of Now and Approvals, and what somebody who sees that need not be told of.
import { signal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Hosted, Request } from "./store.ts";

/** The ids of requests and rows that are on the screen. */
export const inSight = signal<ReadonlySet<string>>(new Set());

/** Half of it is, or what is fills half of the screen. */
const enough = ({ intersectionRatio, intersectionRect, rootBounds }: IntersectionObserverEntry) => intersectionRatio >= 0.5 || (rootBounds !== null && intersectionRect.height >= rootBounds.height / 2);
const STEPS = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1];

const ids = new WeakMap<Element, string>();
const seen = (changes: Iterable<readonly [string, boolean]>) => {
  const next = new Set(inSight.value);
  for (const [id, there] of changes) there ? next.add(id) : next.delete(id);
  inSight.value = next;
};
let observer: IntersectionObserver | undefined;

/** Notes while this element is on the screen. */
export function useSight<E extends Element>(id: string): RefObject<E | null> {
  const element = useRef<E>(null);
  useEffect(() => {
    const one = element.current;
    if (!one) return;
    observer ??= new IntersectionObserver((entries) => seen(entries.map((entry) => [ids.get(entry.target) ?? "", enough(entry)])), { threshold: STEPS });
    ids.set(one, id);
    observer.observe(one);
    return () => { observer?.unobserve(one); seen([[id, false]]); };
  }, [id]);
  return element;
}

/** A session whose requests are all on the screen is looked at, and so is what has a row there and asks nothing. */
export function lookedAt(hosted: readonly Hosted[], pending: readonly Request[], sight: ReadonlySet<string>): { sessions: string[]; processes: string[]; approvals: string[] } {
  const asked = (one: Hosted) => one.session?.approvals ?? [];
  const ofSessions = new Set(hosted.flatMap(asked));
  const there = hosted.filter((one) => (asked(one).length ? asked(one).every((id) => sight.has(id)) : sight.has(one.id)));
  return {
    sessions: there.filter((one) => one.kind === "session").map((one) => one.id),
    processes: there.filter((one) => one.kind !== "session").map((one) => one.id),
    approvals: pending.map((one) => one.id).filter((id) => sight.has(id) && !ofSessions.has(id)),
  };
}
