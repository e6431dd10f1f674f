import { computed, signal } from "@preact/signals";

import { params } from "./router";

/** The moment that is looked at, as a time (or, in a given link, a position); `null` means live. */
export const asOf = computed(() => params.value.get("as_of"));

const tick = signal(Date.now());
const ahead = signal(0);
setInterval(() => (tick.value = Date.now()), 1000);

/** Sets our clock by the server's: another machine's may be wrong, and ages must not be. */
export function setClock(serverNow: string): void {
  const difference = Date.parse(serverNow) - Date.now();
  if (Number.isFinite(difference) && Math.abs(difference - ahead.peek()) > 1500) ahead.value = difference;
}

/** Now, in milliseconds, ticking every second; while the past is looked at, the moment that is shown. */
export const now = computed(() => {
  // `Date.parse` would make a year of a position.
  const moment = /^\d{4}-\d\d/.test(asOf.value ?? "") ? Date.parse(asOf.value ?? "") : Number.NaN;
  return Number.isNaN(moment) ? tick.value + ahead.value : moment;
});
