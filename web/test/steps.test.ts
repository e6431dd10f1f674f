import assert from "node:assert/strict";
import { test } from "node:test";

import { burstsOf, skipped, within } from "../src/shell/bursts";
import { speedFor, stepFrom, stepOf } from "../src/shell/steps";
import type { Lane, TimelineAnswer } from "../src/api/types";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const AN_HOUR = within([], 0, HOUR);
/** Two hours of work, a year apart. */
const TWO = [{ from: 0, to: HOUR }, { from: 365 * DAY, to: 365 * DAY + HOUR }];

test("a step back out of a burst leads to the end of the one before, not into the empty year between them", () => {
  for (const at of [365 * DAY + 1000, 200 * DAY]) assert.equal(stepFrom(at, -1, TWO), HOUR);
  assert.equal(stepFrom(365 * DAY, -1, TWO), HOUR);
  assert.equal(stepFrom(HOUR, -1, TWO), 0);
});

test("a step on leads to the end of a burst, and from there into the next", () => {
  assert.equal(stepFrom(1000, 1, TWO), HOUR);
  for (const at of [HOUR, 200 * DAY]) assert.equal(stepFrom(at, 1, [...TWO, { from: 700 * DAY, to: 701 * DAY }]), 365 * DAY + HOUR);
});

test("within a burst steps are as long as they are round", () => {
  assert.equal(stepFrom(30 * 60_000, -1, AN_HOUR), 28 * 60_000);
  assert.equal(stepFrom(30 * 60_000, 1, AN_HOUR), 32 * 60_000);
});

test("whoever steps long enough comes from live to the first event and back, and every step is a step", () => {
  for (const [by, end] of [[-1, 0], [1, null]] as const) {
    let at: number | null = by < 0 ? null : 0;
    for (let n = 0; n < 60 && at !== end; n += 1) {
      const next: number | null = stepFrom(at, by, TWO);
      assert.notEqual(next, at);
      at = next;
    }
    assert.equal(at, end);
  }
});

test("play waits for what comes soon, and leaves out a year in which nothing happens", () => {
  assert.equal(skipped(TWO, 30_000, 8000), 30_000);
  assert.equal(skipped(TWO, 2 * HOUR, 8000), 365 * DAY);
  assert.equal(skipped(TWO, 365 * DAY - 5000, 8000), 365 * DAY - 5000);
  assert.equal(skipped(TWO, 400 * DAY, 8000), 400 * DAY);
});

test("buckets with events that are near each other are one burst", () => {
  const lane = (...busy: number[]): Lane => ({ agent: "", shown: "", standing: "idle", total: 0, buckets: busy.map((index) => [index, [1, 0, 0, 0, 0]]) });
  const answer = { from: new Date(0).toISOString(), to: new Date(100_000).toISOString(), bucket_seconds: 1, lanes: [lane(0, 3), lane(1, 60), lane(99)] };
  assert.deepEqual(burstsOf(answer as unknown as TimelineAnswer), [{ from: 0, to: 4000 }, { from: 60_000, to: 61_000 }, { from: 99_000, to: 100_000 }]);
});

test("what came after the last answer belongs to the newest burst", () => {
  assert.deepEqual(within(TWO, 1000, 366 * DAY), [{ from: 1000, to: HOUR }, { from: 365 * DAY, to: 366 * DAY }]);
});

test("steps are round and grow with the span", () => {
  assert.equal(stepOf(20_000), 1000);
  assert.equal(stepOf(HOUR), 2 * 60_000);
  assert.equal(stepOf(30 * 24 * HOUR), 24 * HOUR);
});

test("a step back from live leads into the past, and never before the first event", () => {
  assert.equal(stepFrom(null, -1, AN_HOUR), HOUR - 2 * 60_000);
  assert.equal(stepFrom(1000, -1, AN_HOUR), 0);
});

test("a step on to the end or beyond is live", () => {
  assert.equal(stepFrom(HOUR - 1000, 1, AN_HOUR), null);
});

test("play shows any span within some minutes", () => {
  assert.equal(speedFor(60_000), 1);
  assert.equal(speedFor(5 * HOUR), 300);
  assert.equal(speedFor(365 * 24 * HOUR), 14_400);
});
