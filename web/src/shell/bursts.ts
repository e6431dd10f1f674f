/** When something happened at all: a log of a year may be three busy weeks, and nobody wants to step or play through the rest. Pure but for the signal. */

import { signal } from "@preact/signals";

import type { TimelineAnswer } from "../api/types";

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
    const [begin, end] = [first + index * step, Math.min(last, first + (index + 1) * step)].map(Math.round) as [number, number];
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

/** Step back: within the burst in which it begins, else to the end of the one before. */
export function back(all: readonly Burst[], from: number, size: number): number {
  const here = all.find((one) => one.from < from && from <= one.to);
  if (here && from - size >= here.from) return from - size;
  return all.findLast((one) => one.to < from)?.to ?? all[0]?.from ?? from;
}

/** Step forward: within the burst in which it begins, to its end at most; else into the next. */
export function on(all: readonly Burst[], from: number, size: number): number {
  const next = all.find((one) => from < one.to);
  return next ? Math.min(next.to, Math.max(from, next.from) + size) : from;
}

/** The moment itself, but the beginning of the next burst where that is further away than anybody would wait. */
export function skipped(all: readonly Burst[], at: number, patience: number): number {
  const next = all.find((one) => at < one.to);
  return next && next.from - at > patience ? next.from : at;
}
