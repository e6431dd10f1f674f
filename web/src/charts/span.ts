/** Stretches of time, in milliseconds since 1970: zooming, panning, and the steps that buckets and ticks are cut in. */

export interface Span {
  readonly from: number;
  readonly to: number;
}

export interface Bounds {
  /** The earliest moment worth showing. */
  readonly first: number;
  /** The latest one: now, or the moment that is looked back at. */
  readonly last: number;
}

export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

const SHORTEST = 5 * SECOND;
const LONGEST = 400 * DAY;

/** Steps people count time in. */
export const STEPS: readonly number[] = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 7, 14].map((n) => n * DAY),
];

/** Finer ones, for columns: each at most half as long again as the one before. */
const COLUMN_STEPS: readonly number[] = [
  ...[10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 400, 500, 750],
  ...[1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 40].map((n) => n * SECOND),
  ...[1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 40].map((n) => n * MINUTE),
  ...[1, 1.5, 2, 3, 4, 6, 8, 12, 16].map((n) => n * HOUR),
  ...[1, 1.5, 2, 3, 4, 5, 7].map((n) => n * DAY),
];

export function lengthOf(span: Span): number {
  return span.to - span.from;
}

/** The shortest column that is not below the length wanted. */
export function columnAbove(wanted: number): number {
  return COLUMN_STEPS.find((step) => step >= wanted) ?? 14 * DAY;
}

export function toX(span: Span, width: number, at: number): number {
  return ((at - span.from) / lengthOf(span)) * width;
}

export function toTime(span: Span, width: number, x: number): number {
  return span.from + (x / width) * lengthOf(span);
}

/** Longer (factor over 1) or shorter, with what is at `anchor` staying where it is. */
export function zoomed(span: Span, factor: number, anchor: number): Span {
  const length = Math.min(LONGEST, Math.max(SHORTEST, lengthOf(span) * factor));
  const share = (anchor - span.from) / lengthOf(span);
  const from = anchor - share * length;
  return { from, to: from + length };
}

export function moved(span: Span, by: number): Span {
  return { from: span.from + by, to: span.to + by };
}

/** So that it ends no later than `last`, and still touches what is known. */
export function within(span: Span, bounds: Bounds): Span {
  const length = lengthOf(span);
  let { from } = span;
  from = Math.max(from, bounds.first - length * 0.9);
  from = Math.min(from, bounds.last - length);
  return { from, to: from + length };
}

/** The stretch of this length that ends at `last`. */
export function endingAt(last: number, length: number): Span {
  return { from: last - length, to: last };
}

/** All that is known, with a little air on the left. */
export function everything(bounds: Bounds): Span {
  const length = Math.max(bounds.last - bounds.first, MINUTE);
  return { from: bounds.last - length * 1.03, to: bounds.last };
}

/** What to ask for, so that a small pan needs no new answer and columns keep their places: edges on whole steps. */
export function asked(span: Span, columns: number, spare: number): Span & { readonly step: number } {
  const step = columnAbove(lengthOf(span) / Math.max(columns, 1));
  const air = lengthOf(span) * spare;
  return { from: Math.floor((span.from - air) / step) * step, to: Math.ceil((span.to + air) / step) * step, step };
}

export function covers(outer: Span, inner: Span): boolean {
  return outer.from <= inner.from && outer.to >= inner.to;
}

export function instant(at: number): string {
  return new Date(at).toISOString();
}

/** A time as the address or an answer states it; null if it is none. A position is none, though `Date.parse` would make a year of it. */
export function moment(text: string | null | undefined): number | null {
  const at = /^\d{4}-\d\d/.test(text ?? "") ? Date.parse(text ?? "") : Number.NaN;
  return Number.isNaN(at) ? null : at;
}

/** From the newest of these times back to the first pause that is longer than `pause`; null for none. */
export function newestWork(times: readonly number[], pause: number): Span | null {
  const newestFirst = [...times].sort((a, b) => b - a);
  const [to] = newestFirst;
  if (to === undefined) return null;
  const end = newestFirst.findIndex((at, index) => at - (newestFirst[index + 1] ?? -Infinity) > pause);
  return { from: newestFirst[end] as number, to };
}
