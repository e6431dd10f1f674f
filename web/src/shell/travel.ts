import { computed, effect, signal } from "@preact/signals";

import { lastAt, meta } from "../meta";
import { asOf, setAsOf, underWay } from "../moment";
import { bursts, busyTime, skipped, within } from "./bursts";
import { speedFor, stepFrom } from "./steps";

export interface Bounds {
  first: number;
  last: number;
}

/** From the first event to the newest, in milliseconds; `null` while there is nothing to travel through. */
export const bounds = computed<Bounds | null>(() => {
  const first = Date.parse(meta.value?.first_at ?? "");
  const last = Date.parse(lastAt.value ?? "");
  return last > first ? { first, last } : null;
});

/** When something happened between them: what steps and play go through. */
const busy = computed(() => (bounds.value ? within(bursts.value, bounds.value.first, bounds.value.last) : []));

/** The moment that is looked at, in milliseconds; `null` is live. */
export const moment = computed(() => {
  // `Date.parse` would make a year of a position.
  const parsed = /^\d{4}-\d\d/.test(asOf.value ?? "") ? Date.parse(asOf.value ?? "") : Number.NaN;
  return Number.isNaN(parsed) ? null : parsed;
});

export const playing = signal(false);
const chosenSpeed = signal<number | null>(null);
export const speed = computed(() => chosenSpeed.value ?? (bounds.value ? speedFor(busyTime(busy.value)) : 1));

export function setSpeed(times: number): void {
  chosenSpeed.value = times;
}

/** Goes to a moment; going from live into the past and back makes an entry in the browser's history. */
export function travel(to: number | null): void {
  const inPast = asOf.peek() !== null;
  setAsOf(to === null ? null : new Date(Math.floor(to)).toISOString(), inPast === (to !== null) ? "replace" : "push");
}

export function stepMoment(steps: number): void {
  if (!bounds.peek() || (steps > 0 && asOf.peek() === null)) return;
  playing.value = false;
  travel(stepFrom(moment.peek(), steps, busy.peek()));
}

export function returnToLive(): void {
  playing.value = false;
  travel(null);
}

/** Plays from the moment that is shown, from the beginning if that is now. */
export function togglePlay(): void {
  const at = bounds.peek();
  if (!at) return;
  if (!playing.peek() && asOf.peek() === null) travel(at.first);
  playing.value = !playing.peek();
}

const FRAME = 400;
/** Nobody waits longer than this, in milliseconds, for something to happen. */
const PATIENCE = 8000;

/** Plays on from a moment; a slow server is waited for: the next moment is then simply further on. */
function play(from: number): () => void {
  let [at, then] = [from, Date.now()];
  const timer = setInterval(() => {
    const end = bounds.peek()?.last;
    if (end === undefined || underWay.peek() > 0) return;
    const passed = (Date.now() - then) * speed.peek();
    [at, then] = [skipped(busy.peek(), at + passed, PATIENCE * speed.peek()), Date.now()];
    if (at >= end) returnToLive();
    else travel(at);
  }, FRAME);
  return () => clearInterval(timer);
}

effect(() => {
  if (!playing.value) return undefined;
  void speed.value;
  return play(moment.peek() ?? bounds.peek()?.first ?? 0);
});

effect(() => {
  if (asOf.value === null && playing.peek()) playing.value = false;
});
