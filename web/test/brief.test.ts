import assert from "node:assert/strict";
import { test } from "node:test";

import { addDays, daysAsked, dayTitle, isDay, periodQuery, periodTitle, splitWho } from "../src/pages/brief-period";

const NONE = { day: "", last: "", from: "", to: "" };
const TODAY = "2026-11-18";

test("the address asks for a day, the last days, a range, or the newest day", () => {
  assert.equal(daysAsked(NONE, TODAY), null);
  assert.deepEqual(daysAsked({ ...NONE, day: "2026-11-16" }, TODAY), ["2026-11-16", "2026-11-16"]);
  assert.deepEqual(daysAsked({ ...NONE, last: "7" }, TODAY), ["2026-11-12", TODAY]);
  assert.deepEqual(daysAsked({ ...NONE, from: "2026-11-16", to: "2026-11-09" }, TODAY), ["2026-11-09", "2026-11-16"]);
  assert.deepEqual(daysAsked({ ...NONE, from: "2026-11-16" }, TODAY), ["2026-11-16", TODAY]);
  for (const wrong of [{ day: "yesterday" }, { day: "2026-13-01" }, { last: "-3" }, { last: "9999" }, { to: TODAY }]) assert.equal(daysAsked({ ...NONE, ...wrong }, TODAY), null);
});

test("a day is asked for as such, a range from midnight to midnight", () => {
  assert.deepEqual(periodQuery(null), {});
  assert.deepEqual(periodQuery(["2026-11-16", "2026-11-16"]), { day: "2026-11-16" });
  const { since, until } = periodQuery(["2026-11-09", "2026-11-15"]);
  assert.equal(Date.parse(until ?? "") - Date.parse(since ?? ""), 7 * 86_400_000);
});

test("periods have names", () => {
  assert.equal(periodTitle(["2026-11-16", "2026-11-16"]), "Monday, 16 November 2026");
  assert.match(periodTitle(["2026-11-09", "2026-11-15"]), /^9 Nov – 15 Nov 2026$/);
  assert.equal(dayTitle("2026-11-17", TODAY), "yesterday");
  assert.equal(addDays("2026-02-28", 1), "2026-03-01");
  assert.equal(isDay("2026-1-1"), false);
});

test("who and the cost at the end of a line are told apart from what was done", () => {
  assert.deepEqual(splitWho("Accept tabs; tests passed (mira, $3.10)"), ["Accept tabs; tests passed", "mira, $3.10"]);
  assert.deepEqual(splitWho("Fix f(x)"), ["Fix f(x)", ""]);
  assert.deepEqual(splitWho("(all)"), ["(all)", ""]);
});
