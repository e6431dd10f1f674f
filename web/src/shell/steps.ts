import { back, on, type Burst } from "./bursts";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const ROUND = [1, 2, 5, 10, 15, 30];
const STEPS = [
  ...ROUND.map((many) => many * SECOND),
  ...ROUND.map((many) => many * MINUTE),
  ...[1, 2, 3, 6, 12, 24, 168].map((many) => many * HOUR),
];
export const SPEEDS = [1, 5, 20, 60, 300, 1200, 3600, 14_400] as const;

/** A round step through a span of time: about a fortieth of it, a week at most. */
export function stepOf(span: number): number {
  return STEPS.find((step) => step >= span / 40) ?? 168 * HOUR;
}

/** The speed that shows a span of time in about a minute. */
export function speedFor(span: number): number {
  return SPEEDS.find((speed) => speed >= span / MINUTE) ?? 14_400;
}

/** Where steps from a moment lead; `null` is live, which is all that lies at or after the end. One step never ends in time in which nothing happened. */
export function stepFrom(moment: number | null, steps: number, all: readonly Burst[]): number | null {
  const [first, last] = [all[0]?.from ?? 0, all.at(-1)?.to ?? 0];
  const [from, size] = [moment ?? last, stepOf(last - first)];
  const next = steps === -1 ? back(all, from, size) : steps === 1 ? on(all, from, size) : from + steps * size;
  return next >= last ? null : Math.max(first, next);
}
