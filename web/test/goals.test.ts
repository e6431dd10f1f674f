import assert from "node:assert/strict";
import { test } from "node:test";

import { budgetsOf, codes, failuresOf, figure, isOwn, limitOf, linesOf, needsYou, outcomeOf, partOf, tightest, toneOf, verdictOf, whyOf } from "../src/pages/goals-model";
import type { BudgetUse, GoalBurn, GoalFigures, GoalRow, GoalTurn } from "../src/api/types";

const figures = (given: Partial<GoalFigures> = {}): GoalFigures => ({ turns: 0, seconds: 0, tokens: 0, usd: null, denies: 0, errors: 0, overflows: 0, ...given });
const LIMITS = figures({ turns: 10, seconds: 3600, tokens: 1000, usd: null });
const use = (axis: string, used: number, limit: number | null, given: Partial<BudgetUse> = {}): BudgetUse => ({ axis, label: axis, unit: "count", used, limit, is_in_a_row: false, ...given });
const row = (given: Partial<GoalRow> = {}): GoalRow => ({
  goal: "g", state: "working", description: "", agent: "ada", shown: "ada", harness: "command", turn: 1, at: null, seen_at: null, ended_at: null, outcome: null, why: "",
  spent: figures(), limits: LIMITS, budgets: [], ticking: false, adrift: false, met: 0, criteria: 0, asking: 0, parent: null, task: null, signed: null, position: null, ...given,
});
const turn = (given: Partial<GoalTurn> = {}): GoalTurn => ({
  number: 1, id: "t", outcome: "needs_retry", counts: true, complaint: null, words: "", at: null, ended_at: null, seconds: 0, tokens: 0, usd: 0, failing: null, diff: "", ...given,
});
const burn = (turns: number, tokens: number): GoalBurn => ({ turn: turns, at: null, turns, seconds: 0, tokens, usd: 0.5 });

test("what is left begins with all of it, and never falls below nothing", () => {
  const lines = linesOf([burn(1, 250), burn(2, 5000)], LIMITS);
  assert.deepEqual(lines.map(({ axis }) => axis), ["turns", "seconds", "tokens"]);
  assert.deepEqual(lines.find(({ axis }) => axis === "tokens")?.left, [1, 0.75, 0]);
  assert.deepEqual(lines.find(({ axis }) => axis === "turns")?.left, [1, 0.9, 0.8]);
});

test("the tightest budget is that of which the largest part is used, and what has no limit is none", () => {
  assert.deepEqual(tightest(row({ budgets: [use("turns", 2, 10), use("tokens", 900, 1000), use("usd", 400, null)] })), { label: "tokens", used: 0.9 });
  assert.equal(partOf(use("usd", 3, null)), null);
  assert.equal(tightest(row({ budgets: [use("turns", 2, null)] })), null);
});

test("a goal that a worker started for a task is not listed among one's own, unless it needs somebody", () => {
  assert.deepEqual([row(), row({ task: "t7" }), row({ task: "t7", state: "asking" })].map(isOwn), [true, false, true]);
});

test("a budget is shown where it has a limit or was used, also one that this page does not know", () => {
  const row_ = row({ budgets: [use("turns", 0, 10), use("usd", 0, null), use("tool_calls", 3, 9), use("errors", 1, 5, { is_in_a_row: true })] });
  assert.deepEqual(budgetsOf(row_).map(({ axis }) => axis), ["turns", "tool_calls"]);
  assert.deepEqual(budgetsOf(row({ budgets: [use("usd", 0.2, null)] })).map(({ axis }) => axis), ["usd"]);
  assert.deepEqual(failuresOf(row_).map(({ axis }) => axis), ["errors"]);
});

test("a figure is written as people write it", () => {
  assert.deepEqual([figure("turns", 1200), figure("seconds", 3700), figure("tokens", 122_500), figure("usd", 1.5)], ["1,200", "1 h 1 m", "122.5K", "$1.50"]);
});

test("a limit may be written in many ways, and what is none is not sent", () => {
  assert.deepEqual(["60", " 1,500 ", "2.5M", "300k"].map((text) => limitOf("tokens", text)), [60, 1500, 2_500_000, 300_000]);
  assert.deepEqual(["$10", "2.5"].map((text) => limitOf("usd", text)), [10, 2.5]);
  assert.deepEqual(["6h", "1h 30m", "90m"].map((text) => limitOf("seconds", text)), ["6h", "1h 30m", "90m"]);
  assert.deepEqual(["", "many", "-3", "0", "1e999"].map((text) => limitOf("count", text)), [null, null, null, null, null]);
  assert.deepEqual(["6", "soon", ""].map((text) => limitOf("seconds", text)), [null, null, null]);
});

test("a turn is told by what came in its way, else by what it came to", () => {
  assert.deepEqual([turn(), turn({ outcome: "done" }), turn({ outcome: "continue", complaint: "rate_limit" }), turn({ outcome: "continue", complaint: "interrupted" }), turn({ outcome: "odd_one" })].map(outcomeOf),
    ["not yet", "done", "rate limit", "cut short", "odd one"]);
  assert.deepEqual([turn(), turn({ outcome: "done" }), turn({ complaint: "auth" }), turn({ outcome: "sleep" })].map(toneOf), ["work", "done", "trouble", "quiet"]);
  assert.deepEqual([turn(), turn({ failing: 0 }), turn({ failing: 2 })].map((one) => verdictOf(one, 3)), ["", "all criteria met", "2 of 3 not met"]);
});

test("a budget that ran out is named in words", () => {
  assert.equal(whyOf(row({ outcome: "budget_exhausted", why: "wall_time" })), "Out of time");
  assert.equal(whyOf(row({ outcome: "escalate", why: "no key" })), "no key");
  assert.ok(needsYou("spent") && needsYou("asking") && !needsYou("working"));
});

test("what stands between backticks is code", () => {
  assert.deepEqual(codes("go on with `lore goal resume 1`."), ["go on with ", "lore goal resume 1", "."]);
});
