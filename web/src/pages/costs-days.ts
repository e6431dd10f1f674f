/** Rows of `by=day,model` made into bars: one a day (or a week, of many), each a stack of models. Pure. */

import type { CostRow } from "../api/types";

export type Measure = "usd" | "tokens";

export interface Bar {
  /** The first day of it. */
  readonly day: string;
  readonly days: 1 | 7;
  readonly sum: number;
  /** In the order of `Bars.models`. */
  readonly parts: readonly number[];
}

export interface Bars {
  readonly bars: readonly Bar[];
  /** By what they came to, most first; what is beyond the palette is put together. */
  readonly models: readonly string[];
  readonly most: number;
  /** On how many days there was anything. */
  readonly days: number;
}

export const OTHERS = "others";
export const MOST_MODELS = 7;
const MOST_DAYS = 100;
const A_DAY = 86_400_000;

/** Up to the day `last`, and at least so many days: one bar alone says little. */
export function barsOf(rows: readonly CostRow[], measure: Measure, last: string, least = 7): Bars {
  const dated = rows.filter((row) => typeof row["day"] === "string" && dayNumber(row["day"]) !== null);
  const models = biggest(dated, measure);
  const days = dated.map((row) => dayNumber(String(row["day"])) ?? 0);
  const end = Math.max(dayNumber(last) ?? 0, ...days);
  const begin = days.length > 0 ? Math.min(...days) : end;
  const shown = Math.min(begin, end - least + 1);
  const wide = end - shown >= MOST_DAYS ? 7 : 1;
  const first = wide === 7 ? monday(shown) : shown;
  const stacks = Array.from({ length: Math.floor((end - first) / wide) + 1 }, () => models.map(() => 0));
  dated.forEach((row, index) => {
    const stack = stacks[Math.floor(((days[index] ?? first) - first) / wide)];
    const place = placeOf(models, modelOf(row));
    if (stack) stack[place] = (stack[place] ?? 0) + amount(row, measure);
  });
  const bars = stacks.map((parts, index) => bar(first + index * wide, wide, parts));
  return { bars, models, most: Math.max(0, ...bars.map((one) => one.sum)), days: new Set(days.filter((_, index) => isUsed(dated[index] as CostRow))).size };
}

function isUsed(row: CostRow): boolean {
  return row.tokens > 0 || (row.usd ?? 0) > 0;
}

/** The last day on which anything was counted. */
export function newestDay(rows: readonly CostRow[]): string | null {
  const days = rows.filter(isUsed).map((row) => String(row["day"]));
  return days.sort().findLast((day) => dayNumber(day) !== null) ?? null;
}

export function modelOf(row: CostRow): string {
  return typeof row["model"] === "string" && row["model"] ? row["model"] : "unknown";
}

function amount(row: CostRow, measure: Measure): number {
  const value = measure === "usd" ? row.usd : row.tokens;
  return typeof value === "number" && Number.isFinite(value) ? Math.max(0, value) : 0;
}

/** The day of a place in time, on clocks here: `2026-11-15`. */
export function localDay(at: number): string {
  const day = new Date(at);
  return [day.getFullYear(), day.getMonth() + 1, day.getDate()].map((part) => String(part).padStart(2, "0")).join("-");
}

/** A day as a moment of it that is the same day on clocks here. */
export function noon(day: string): number {
  const [year = 1970, month = 1, date = 1] = day.split("-").map(Number);
  return new Date(year, month - 1, date, 12).getTime();
}

function bar(first: number, days: 1 | 7, parts: number[]): Bar {
  return { day: new Date(first * A_DAY).toISOString().slice(0, 10), days, parts, sum: parts.reduce((sum, part) => sum + part, 0) };
}

function biggest(rows: readonly CostRow[], measure: Measure): string[] {
  const sums = new Map<string, number>();
  for (const row of rows) sums.set(modelOf(row), (sums.get(modelOf(row)) ?? 0) + amount(row, measure));
  const order = [...sums].filter(([, sum]) => sum > 0).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([model]) => model);
  return order.length > MOST_MODELS ? [...order.slice(0, MOST_MODELS - 1), OTHERS] : order;
}

function placeOf(models: readonly string[], model: string): number {
  const place = models.indexOf(model);
  return place < 0 ? models.length - 1 : place;
}

function dayNumber(day: string): number | null {
  const at = /^\d{4}-\d{2}-\d{2}$/.test(day) ? Date.parse(`${day}T00:00:00Z`) : Number.NaN;
  return Number.isNaN(at) ? null : at / A_DAY;
}

/** The Monday of its week. 1970 began on a Thursday. */
function monday(day: number): number {
  return day - ((((day + 3) % 7) + 7) % 7);
}
