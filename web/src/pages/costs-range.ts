/** Which days of costs are asked for. Pure. */

import { instant } from "../charts/span";

export type Range = "today" | "7d" | "30d" | "all";

const DAYS: Readonly<Record<Range, number | null>> = { today: 0, "7d": 6, "30d": 29, all: null };

/** The first moment of the first day, on clocks here; null for all of them. */
export function sinceOf(range: Range, today: number): string | null {
  const before = DAYS[range];
  if (before === null) return null;
  const day = new Date(today);
  return instant(new Date(day.getFullYear(), day.getMonth(), day.getDate() - before).getTime());
}

/** The shortest range of at least a week that has costs, by the newest day that has some. */
export function rangeOf(newest: number | null, today: number): Range {
  if (newest === null) return "7d";
  return (["7d", "30d"] as const).find((range) => newest >= Date.parse(sinceOf(range, today) ?? "")) ?? "all";
}

/** One bar says little: today is shown among the days before it. */
export function daysOf(range: Range): Range {
  return range === "today" ? "7d" : range;
}

/** Models without a price and their tokens, most first, whatever the answer looks like. */
export function unpricedOf(said: unknown): [string, number][] {
  if (typeof said !== "object" || said === null) return [];
  const found = Object.entries(said).filter((entry): entry is [string, number] => typeof entry[1] === "number" && entry[1] > 0);
  return found.sort((a, b) => b[1] - a[1]);
}
