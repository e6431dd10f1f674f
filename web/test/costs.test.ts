import assert from "node:assert/strict";
import { test } from "node:test";

import { labelled } from "../src/charts/stacked";
import { MOST_MODELS, OTHERS, barsOf, newestDay } from "../src/pages/costs-days";
import { rangeOf, sinceOf, unpricedOf } from "../src/pages/costs-range";
import type { CostRow } from "../src/api/types";

process.env["TZ"] = "Europe/Berlin";

function row(day: string | null, model: string | null, usd: number | null, tokens = 10): CostRow {
  return { day, model, usd, tokens, input: tokens, output: 0, cache_read: 0, cache_write: 0 };
}

test("the newest day with costs is found in any order, and one without any does not count", () => {
  assert.equal(newestDay([row("2026-11-12", null, 1), row("2026-11-14", null, 0, 0), row("2026-11-13", null, null), row(null, null, 2)]), "2026-11-13");
  assert.equal(newestDay([row("2026-11-14", null, null, 0)]), null);
});

test("days on which nothing was spent have a bar of nothing, up to today", () => {
  const { bars, models } = barsOf([row("2026-11-10", "m", 2), row("2026-11-12", "m", 1), row("2026-11-12", "n", 3)], "usd", "2026-11-16");
  assert.deepEqual(bars.map((bar) => bar.sum), [2, 0, 4, 0, 0, 0, 0]);
  assert.deepEqual(models, ["m", "n"]);
  assert.deepEqual(bars[2]?.parts, [1, 3]);
});

test("one day is shown among the six before it, and an average counts the days that have any", () => {
  const { bars, days } = barsOf([row("2026-11-16", "m", 2)], "usd", "2026-11-16");
  assert.deepEqual([bars.length, bars[0]?.day, days], [7, "2026-11-10", 1]);
  assert.equal(barsOf([row("2026-01-01", "m", 2), row("2026-01-01", "n", 2), row("2026-11-16", "m", 1), row("2026-11-15", "m", 0, 0)], "usd", "2026-11-17").days, 2);
});

test("many days are added up by week, from Monday on", () => {
  const { bars } = barsOf([row("2026-01-01", "m", 2), row("2026-11-16", "m", 1)], "usd", "2026-11-16");
  assert.deepEqual([bars[0]?.day, bars[0]?.days, bars.at(-1)?.day], ["2025-12-29", 7, "2026-11-16"]);
  assert.equal(bars.reduce((sum, bar) => sum + bar.sum, 0), 3);
});

test("more models than colours are put together, and nothing is lost", () => {
  const rows = Array.from({ length: 12 }, (_, index) => row("2026-11-16", `m${index}`, 12 - index));
  const { bars, models } = barsOf(rows, "usd", "2026-11-16");
  assert.deepEqual([models.length, models.at(-1)], [MOST_MODELS, OTHERS]);
  assert.equal(bars.at(-1)?.sum, 78);
});

test("what has no day, no price or no sense breaks nothing", () => {
  const { bars, most } = barsOf([row(null, "m", 5), row("soon", "m", 5), row("2026-11-16", null, null)], "usd", "2026-11-16");
  assert.deepEqual([bars.length, most], [7, 0]);
  assert.deepEqual(barsOf([row("2026-11-16", null, null)], "tokens", "2026-11-16").models, ["unknown"]);
});

test("ranges begin at midnight here", () => {
  const today = Date.parse("2026-11-15T23:00:00Z");
  assert.equal(sinceOf("today", today), "2026-11-15T23:00:00.000Z");
  assert.equal(sinceOf("30d", today), "2026-10-17T22:00:00.000Z");
  assert.equal(sinceOf("all", today), null);
});

test("without a choice, the range reaches back to the newest costs", () => {
  const today = Date.parse("2026-11-15T23:00:00Z");
  assert.deepEqual([null, Date.parse("2026-11-10T12:00:00Z"), Date.parse("2026-11-01T12:00:00Z"), Date.parse("2026-02-13T12:00:00Z")].map((newest) => rangeOf(newest, today)), ["7d", "7d", "30d", "all"]);
});

test("tokens without a price are told by model, most first", () => {
  assert.deepEqual(unpricedOf({ a: 1, b: 5, c: 0, d: "x" }), [["b", 5], ["a", 1]]);
  assert.deepEqual([unpricedOf(null), unpricedOf(3)], [[], []]);
});

test("labels have room, and the last bar has one", () => {
  assert.deepEqual(labelled(7, 150), [0, 1, 2, 3, 4, 5, 6]);
  assert.deepEqual(labelled(10, 20), [1, 5, 9]);
});
