import assert from "node:assert/strict";
import { test } from "node:test";

import { burstsOf, within } from "../src/shell/bursts";
import { speedFor, stepFrom, stepOf } from "../src/shell/steps";
import type { Lane, TimelineAnswer } from "../src/shapes";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const AN_HOUR = within([], 0, HOUR);
/** Two hours of work, a year apart. */
const TWO = [{ from: 0, to: HOUR }, { from: 365 * DAY, to: 365 * DAY + HOUR }];

test("a step back from the beginning of a burst leads to the end of the one before, not into the empty year between them", () => {
  for (const after of [1000, 5 * 60_000]) assert.equal(stepFrom(365 * DAY + after, -1, TWO), HOUR);
  assert.equal(stepFrom(365 * DAY + 6 * 60_000, -1, TWO), 365 * DAY + 60_000);
  assert.equal(stepFrom(200 * DAY, -1, TWO), HOUR - 5 * 60_000);
});

test("a step on from the end of a burst leads into the next", () => {
  assert.equal(stepFrom(HOUR, 1, TWO), 365 * DAY + 5 * 60_000);
  assert.equal(stepFrom(200 * DAY, 1, TWO), 365 * DAY + 5 * 60_000);
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

test("buckets with events that are near each other are one burst", () => {
  const lane = (...busy: number[]): Lane => ({ agent: "", shown: "", standing: null, total: 0, buckets: busy.map((index) => [index, [1, 0, 0, 0, 0]]) });
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
