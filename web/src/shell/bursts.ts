/** When something happened at all: a log of a year may be three busy weeks, and nobody wants to step or play through the rest. Pure but for the signal. */

import { signal } from "@preact/signals";

import type { TimelineAnswer } from "../shapes";

export interface Burst {
  readonly from: number;
  readonly to: number;
}

/** As far as is known; empty until the first answer. */
export const bursts = signal<readonly Burst[]>([]);

/** So many empty buckets end a burst. */
const GAP = 3;

/** The stretches in which there were events, in the order of time. */
export function burstsOf({ from, to, bucket_seconds: seconds, lanes }: TimelineAnswer): Burst[] {
  const [first, last, step] = [Date.parse(from ?? ""), Date.parse(to ?? ""), seconds * 1000];
  if (!(last > first) || !(step > 0)) return [];
  const found: { from: number; to: number }[] = [];
  const busy = [...new Set(lanes.flatMap((lane) => lane.buckets.map(([index]) => index)))].sort((a, b) => a - b);
  for (const index of busy) {
    const [begin, end] = [first + index * step, Math.min(last, first + (index + 1) * step)];
    const open = found.at(-1);
    if (open && begin - open.to < (GAP - 0.5) * step) open.to = end;
    else found.push({ from: begin, to: end });
  }
  return found;
}

/** The same between two moments; all the time between them where nothing is known. */
export function within(all: readonly Burst[], first: number, last: number): Burst[] {
  const inside = all.filter((one) => one.to > first && one.from < last).map((one) => ({ from: Math.max(first, one.from), to: Math.min(last, one.to) }));
  const newest = inside.at(-1);
  return newest ? [...inside.slice(0, -1), { from: newest.from, to: last }] : [{ from: first, to: last }];
}

export function busyTime(all: readonly Burst[]): number {
  return all.reduce((sum, one) => sum + one.to - one.from, 0);
}

/** The end of the burst before the one in which a moment is; `null` where there is none, or the moment is in none. */
export function endBefore(all: readonly Burst[], at: number): number | null {
  const here = all.findIndex((one) => one.from < at && at <= one.to);
  return all[here - 1]?.to ?? null;
}

/** So much busy time on from a moment, or back; never beyond the first or the last. */
export function walked(all: readonly Burst[], from: number, by: number): number {
  const before = busyTime(all.filter((one) => one.from < from).map((one) => ({ from: one.from, to: Math.min(one.to, from) })));
  let rest = before + by;
  // What lies right at the edge is known at the end of the burst before, and on the way on not before the next has begun.
  for (const one of all) {
    const length = one.to - one.from;
    if (rest < length || (rest === length && by < 0)) return one.from + Math.max(0, rest);
    rest -= length;
  }
  return all.at(-1)?.to ?? from;
}
