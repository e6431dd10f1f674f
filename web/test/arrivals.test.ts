import assert from "node:assert/strict";
import { test } from "node:test";

import { arrivals } from "../src/shell/arrivals";
import type { AgentCard, FleetAnswer, Standing } from "../src/api/types";

function fleet(standings: Record<string, [Standing, string]>, caught_up = true): FleetAnswer {
  const agents = Object.entries(standings).map(([name, [standing, since]]) => ({ name, standing, since }) as AgentCard);
  return { agents, caught_up, asking: [], counts: {}, at_rest: 0, now: "", as_of: null, at: null, live: true };
}

const names = (before: FleetAnswer | null, after: FleetAnswer): string[] => arrivals(before, after).map((agent) => agent.name);

test("whoever comes to need a person is news, once", () => {
  const before = fleet({ ada: ["working", "1"], bob: ["needs you", "1"] });
  const after = fleet({ ada: ["needs you", "2"], bob: ["needs you", "1"] });
  assert.deepEqual(names(before, after), ["ada"]);
  assert.deepEqual(names(after, after), []);
});

test("whoever asks again is news again", () => {
  assert.deepEqual(names(fleet({ ada: ["needs you", "1"] }), fleet({ ada: ["needs you", "2"] })), ["ada"]);
});

test("nobody is news in the first answer, nor while the log is being read", () => {
  const needs = fleet({ ada: ["needs you", "1"] });
  assert.deepEqual(names(null, needs), []);
  assert.deepEqual(names(fleet({}, false), needs), []);
});
