import assert from "node:assert/strict";
import { test } from "node:test";

import { dollars, niceSteps, share } from "../src/charts/figures";
import { DAY, HOUR, MINUTE, SECOND, asked, everything, lengthOf, moment, newestWork, toTime, toX, within, zoomed } from "../src/charts/span";
import { lengthInWords, ticksOf } from "../src/charts/ticks";
import { counted } from "../src/ui/times";

process.env["TZ"] = "Europe/Berlin";
const at = (text: string): number => Date.parse(text);

test("a zoom keeps what is under the pointer where it is", () => {
  const span = { from: 0, to: HOUR };
  for (const [factor, x] of [[0.5, 300], [3, 10], [0.01, 999]] as const) {
    const anchor = toTime(span, 1000, x);
    assert.ok(Math.abs(toX(zoomed(span, factor, anchor), 1000, anchor) - x) < 1e-6);
  }
});

test("the newest work reaches back to the first long pause", () => {
  assert.deepEqual(newestWork([0, 10, 9 * HOUR, 8 * HOUR, 8.5 * HOUR], HOUR), { from: 8 * HOUR, to: 9 * HOUR });
  assert.deepEqual(newestWork([5], HOUR), { from: 5, to: 5 });
  assert.equal(newestWork([], HOUR), null);
});

test("a zoom ends at five seconds and at a year and a bit", () => {
  assert.equal(lengthOf(zoomed({ from: 0, to: MINUTE }, 1e-9, 0)), 5 * SECOND);
  assert.equal(lengthOf(zoomed({ from: 0, to: MINUTE }, 1e12, 0)), 400 * DAY);
});

test("a window does not reach beyond the last moment, and never loses what is known", () => {
  const bounds = { first: 0, last: HOUR };
  assert.deepEqual(within({ from: HOUR, to: 2 * HOUR }, bounds), { from: 0, to: HOUR });
  assert.ok(within({ from: -9 * DAY, to: -8 * DAY }, bounds).to > 0);
  assert.ok(everything(bounds).from < 0 && everything(bounds).to === HOUR);
});

test("what is asked for begins and ends on whole columns, so that they keep their places while the window moves", () => {
  for (const shift of [0, 137, 60_001]) {
    const span = { from: at("2026-11-16T05:00:00Z") + shift, to: at("2026-11-16T11:00:00Z") + shift };
    const { from, to, step } = asked(span, 200, 0.25);
    assert.equal(step, 2 * MINUTE);
    assert.ok(from % step === 0 && to % step === 0 && from < span.from && to > span.to);
  }
});

test("an axis of hours says where a new day begins", () => {
  const ticks = ticksOf({ from: at("2026-11-15T18:00:00Z"), to: at("2026-11-16T06:00:00Z") }, 1000);
  assert.deepEqual(ticks.map((tick) => tick.text), ["20:00", "22:00", "Mon 16 Nov", "02:00", "04:00", "06:00"]);
  assert.deepEqual(ticks.filter((tick) => tick.major).map((tick) => tick.text), ["Mon 16 Nov"]);
});

test("an axis goes from parts of a second to years, never crowded", () => {
  for (const length of [5 * SECOND, MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY, 400 * DAY]) {
    const from = at("2026-03-01T10:17:03.250Z");
    const ticks = ticksOf({ from, to: from + length }, 1200);
    assert.ok(ticks.length >= 3 && ticks.length <= 15, `${length}: ${ticks.length}`);
    assert.ok(ticks.every((tick, index) => index === 0 || tick.at > (ticks[index - 1]?.at ?? 0)));
  }
});

test("on the day on which clocks are put back, hours stay whole", () => {
  const ticks = ticksOf({ from: at("2026-10-24T22:00:00Z"), to: at("2026-10-25T22:59:00Z") }, 800);
  assert.ok(ticks.filter((tick) => !tick.major).every((tick) => tick.text.endsWith(":00")));
  assert.ok(ticks.some((tick) => tick.text === "12:00"));
});

test("the length of a stretch is said shortly", () => {
  assert.deepEqual([5 * SECOND, 15 * MINUTE, 1.5 * HOUR, DAY, 30 * DAY].map(lengthInWords), ["5 s", "15 min", "1.5 h", "24 h", "30 days"]);
});

test("dollars show what matters, and no price is not nothing", () => {
  const said = [null, 0, 0.00001, 0.0042, 0.051, 0.0999, 0.32, 12.4, 999.99, 999.999, 1204.4, -3].map(dollars);
  assert.deepEqual(said, ["–", "$0", "< $0.0001", "$0.0042", "$0.051", "$0.10", "$0.32", "$12.40", "$999.99", "$1,000", "$1,204", "−$3.00"]);
});

test("steps of an axis are round and reach above the highest", () => {
  assert.deepEqual(niceSteps(23), [0, 10, 20, 30]);
  assert.deepEqual(niceSteps(0.32), [0, 0.1, 0.2, 0.3, 0.4]);
  assert.deepEqual(niceSteps(0), [0]);
});

test("counts agree with their noun, and a share is never out of bounds", () => {
  assert.deepEqual([counted(1, "event"), counted(1204, "event")], ["1 event", "1,204 events"]);
  assert.deepEqual([share(3, 4), share(5, 0), share(null, 4), share(9, 4)], [0.75, 0, 0, 1]);
});

test("a position is no time, whatever Date.parse makes of it", () => {
  assert.deepEqual(["0000000000000060", "", null, "soon"].map(moment), [null, null, null, null]);
  assert.equal(moment("2026-11-16T05:00:00Z"), at("2026-11-16T05:00:00Z"));
});
