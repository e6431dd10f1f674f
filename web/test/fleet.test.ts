import assert from "node:assert/strict";
import { test } from "node:test";

import { matches, ordered } from "../src/pages/now-order";
import type { AgentCard, Standing } from "../src/api/types";

const NOW = Date.parse("2026-11-16T12:00:00Z");

function agent(shown: string, standing: Standing, since: string, more: Partial<AgentCard> = {}): AgentCard {
  return { name: shown, shown, standing, since: `2026-11-16T${since}Z`, last_seen: `2026-11-16T${since}Z`, doing: "", task: null, mission: null, goal: null, ...more } as AgentCard;
}

const names = (...agents: AgentCard[]): string[] => ordered(agents, NOW).map(({ shown }) => shown);

test("who needs a person comes first, who waits longest before all; then the silent", () => {
  const shown = names(agent("a", "working", "11:00:00"), agent("b", "silent", "11:00:00"), agent("c", "needs you", "11:59:00"), agent("d", "needs you", "11:10:00"));
  assert.deepEqual(shown, ["d", "c", "b", "a"]);
});

test("a short rest moves no card; a long one does", () => {
  assert.deepEqual(names(agent("b", "working", "11:00:00"), agent("a", "idle", "11:59:00")), ["a", "b"]);
  assert.deepEqual(names(agent("b", "working", "11:00:00"), agent("a", "idle", "11:30:00")), ["b", "a"]);
});

test("names are in the order in which people count", () => {
  assert.deepEqual(names(agent("worker 10", "working", "11:00:00"), agent("worker 9", "working", "11:00:00")), ["worker 9", "worker 10"]);
});

test("every word must be somewhere: in the name, the work or the task", () => {
  const ada = agent("Ada", "working", "11:00:00", { doing: "Fix the login", task: "t7" });
  assert.deepEqual(["", "login ada", "T7", "bob"].map((text) => matches(ada, text)), [true, true, true, false]);
});
