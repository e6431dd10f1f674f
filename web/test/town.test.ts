import assert from "node:assert/strict";
import { test } from "node:test";

import { HIGH, WIDE, drawn, layersOf, type Knot } from "../src/pages/town-layout";
import { partsOf, sinceOf, standOf } from "../src/pages/town-model";
import type { TownItem, TownMission, TownTask } from "../src/api/types";

const knots = (given: Record<string, string[]>): Knot[] => Object.entries(given).map(([id, depends_on]) => ({ id, depends_on }));
const DIAMOND = knots({ gate: ["left", "right"], left: ["shape"], right: ["shape"], shape: [], alone: [], far: ["shape", "gate"] });

test("an item stands to the right of all that it waits for", () => {
  const layers = layersOf(DIAMOND);
  assert.deepEqual(Object.fromEntries(layers), { shape: 0, alone: 0, left: 1, right: 1, gate: 2, far: 3 });
  const { spots } = drawn(DIAMOND);
  const x = new Map(spots.map((spot) => [spot.id, spot.x]));
  for (const { id, depends_on } of DIAMOND) for (const one of depends_on) assert.ok((x.get(id) as number) >= (x.get(one) as number) + WIDE);
});

test("no two items lie upon each other, and all of them lie in the field", () => {
  const crowd = knots(Object.fromEntries(Array.from({ length: 120 }, (_, n) => [`i${n}`, n < 4 ? [] : [`i${(n * 7) % n}`, `i${(n * 3) % n}`]])));
  const { spots, width, height } = drawn(crowd);
  assert.equal(spots.length, 120);
  for (const one of spots) {
    assert.ok(one.x >= 0 && one.y >= 0 && one.x + WIDE <= width && one.y + HIGH <= height);
    for (const other of spots) assert.ok(one === other || one.x !== other.x || Math.abs(one.y - other.y) >= HIGH);
  }
});

test("there is one line for each dependency that is there, and none for what is not", () => {
  const { edges } = drawn(knots({ a: [], b: ["a", "a", "gone", "b"], c: ["a", "b"] }));
  assert.deepEqual(edges.map(({ from, to }) => `${from} ${to}`), ["a b", "a c", "b c"]);
  assert.ok(edges.every(({ path }) => /^M[\d. C-]+$/.test(path)));
});

test("the same items are drawn in the same way, whatever circles they have, and none at all is drawn, too", () => {
  assert.deepEqual(drawn(DIAMOND), drawn(DIAMOND));
  assert.equal(drawn(knots({ a: ["c"], b: ["a"], c: ["b"], d: ["d"] })).spots.length, 4);
  assert.deepEqual(drawn([]).spots, []);
});

test("a hostile name is only a name", () => {
  const { spots } = drawn(knots({ __proto__x: [], constructor: ["__proto__x"], "a\nb": ["constructor"] }));
  assert.deepEqual(spots.map(({ layer }) => layer), [0, 1, 2]);
});

const item = (given: Partial<TownItem>): TownItem => ({ state: "pending", is_stuck: false, ...given }) as TownItem;

test("an item that only a person can help stands out, unless it is done", () => {
  assert.equal(standOf(item({ state: "blocked", is_stuck: true })), "stuck");
  assert.equal(standOf(item({ state: "blocked" })), "review");
  assert.equal(standOf(item({ state: "done", is_stuck: true })), "done");
  assert.equal(standOf(item({})), "waits");
});

test("the parts of a mission's bar come to all of its items", () => {
  const by_state = { pending: 3, ready: 1, assigned: 0, running: 2, blocked: 2, done: 4 };
  const parts = partsOf({ by_state, stuck: 1, items: 12 } as TownMission);
  assert.deepEqual(parts.map(({ stand, many }) => `${many} ${stand}`), ["4 done", "2 running", "1 review", "1 stuck", "1 ready", "3 waits"]);
});

test("a task is as old as its last step", () => {
  assert.equal(sinceOf({ at: "1", started_at: "2", ended_at: null } as TownTask), "2");
  assert.equal(sinceOf({ at: "1", started_at: "2", ended_at: "3" } as TownTask), "3");
});
