import assert from "node:assert/strict";
import { test } from "node:test";

import { speedFor, stepFrom, stepOf } from "../src/shell/steps";

const HOUR = 3_600_000;

test("steps are round and grow with the span", () => {
  assert.equal(stepOf(20_000), 1000);
  assert.equal(stepOf(HOUR), 2 * 60_000);
  assert.equal(stepOf(30 * 24 * HOUR), 24 * HOUR);
});

test("a step back from live leads into the past, and never before the first event", () => {
  assert.equal(stepFrom(null, -1, 0, HOUR), HOUR - 2 * 60_000);
  assert.equal(stepFrom(1000, -1, 0, HOUR), 0);
});

test("a step on to the end or beyond is live", () => {
  assert.equal(stepFrom(HOUR - 1000, 1, 0, HOUR), null);
});

test("play shows any span within some minutes", () => {
  assert.equal(speedFor(60_000), 1);
  assert.equal(speedFor(5 * HOUR), 300);
  assert.equal(speedFor(365 * 24 * HOUR), 14_400);
});
