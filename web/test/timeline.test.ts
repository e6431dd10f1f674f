import assert from "node:assert/strict";
import { test } from "node:test";

import { columnHeight, floorOf, hitAt, middle, planOf, railTop, RAIL, sameHit } from "../src/pages/timeline-plan";
import { columnsNeeded, condensed } from "../src/pages/timeline-condense";
import { chainOf, moodOf, sceneOf } from "../src/pages/timeline-scene";
import type { TimelineAnswer } from "../src/api/types";

const at = (minute: number): string => new Date(Date.UTC(2026, 10, 16, 5, minute)).toISOString();

function mark(id: string, minute: number, agent: string, cause: string | null = null) {
  return { id, at: at(minute), agent, beat: "progress", family: "work" as const, kind: "fleet.commit", text: id, cause, position: id };
}

function arc(kind: string, from: number, to: number, lanes: string[], state: "open" | "closed" = "closed") {
  return { kind, thread: "task:t1", title: "t1", agents: lanes, lanes, state, first: `${kind}${from}`, last: "z", evidence: [], count: 2, first_at: at(from), last_at: at(to), note: "", text: "" };
}

function answer(more: Partial<TimelineAnswer> = {}): TimelineAnswer {
  const lanes = ["ada", "bram"].map((agent) => ({ agent, shown: agent, standing: "working" as const, total: 2, buckets: [] }));
  const marks = [mark("b", 20, "bram", "a"), mark("a", 10, "ada"), mark("c", 30, "ada", "b"), mark("d", 40, "bram"), mark("x", 5, "nobody shown")];
  return {
    as_of: "1", at: at(55), live: true, caught_up: true, from: at(0), to: at(60), first_at: at(0), last_at: at(55), exact: true, bucket_seconds: 60,
    families: ["work", "done", "trouble", "talk", "quiet"], lanes, marks, links: [["a", "b"], ["b", "c"], ["gone", "d"]], arcs: [], more_lanes: 0, ...more,
  };
}

const scene = (more: Partial<TimelineAnswer> = {}) => sceneOf(answer(more), { wanted: 60_000, agent: null });

test("marks are on their lanes in the order of time, and those of lanes that are not shown are left out", () => {
  assert.deepEqual(scene().lanes.map((lane) => lane.marks.map((one) => one.id)), [["a", "c"], ["b", "d"]]);
});

test("a chain is all that led to a mark and all that came of it", () => {
  assert.deepEqual([...chainOf(scene(), "b")].sort(), ["a", "b", "c"]);
  assert.deepEqual([...chainOf(scene(), "d")], ["d"]);
});

test("causes that go in a circle come to an end", () => {
  const circle = scene({ marks: [mark("a", 1, "ada", "b"), mark("b", 2, "ada", "a")], links: [["a", "b"], ["b", "a"]] });
  assert.deepEqual([...chainOf(circle, "a")].sort(), ["a", "b"]);
});

test("arcs that overlap on a lane lie in different rows, others share one", () => {
  const { arcs } = scene({ arcs: [arc("stall", 0, 30, ["ada"]), arc("rescue", 20, 40, ["ada", "bram"]), arc("comeback", 45, 50, ["ada"])] });
  const rows = Object.fromEntries(arcs.map((one) => [one.arc.kind, one.places.map(({ lane, row }) => `${lane}:${row}`)]));
  assert.deepEqual(rows, { stall: ["0:0"], rescue: ["0:1", "1:0"], comeback: ["0:0"] });
});

test("an open arc lasts until the newest time that is known, and an open struggle is a dark one", () => {
  const [open] = scene({ arcs: [arc("struggle_and_recovery", 10, 12, ["ada"], "open")] }).arcs;
  assert.equal(open?.to, Date.parse(at(55)));
  assert.deepEqual([open?.mood, moodOf({ kind: "struggle_and_recovery", state: "closed" }), moodOf({ kind: "new_kind", state: "open" })], ["dark", "bright", "plain"]);
});

test("few lanes fill the room, many keep a height that can be read", () => {
  assert.equal(planOf(1000, 600, 40).height, 48 * 40);
  assert.equal(planOf(1000, 600, 2).lane, 64);
  const plan = planOf(1000, 600, 8);
  assert.ok(railTop(plan, 0, 99) >= 0 && middle(plan, 0) < plan.lane);
});

test("what is under the pointer is found: marks, then arcs, then nothing", () => {
  const shown = scene({ arcs: [arc("rescue", 20, 40, ["bram"])] });
  const plan = planOf(600, 200, 2);
  const mine = hitAt(shown, plan, shown, 101, middle(plan, 0));
  assert.ok(mine?.what === "mark" && mine.mark.id === "a");
  const over = hitAt(shown, plan, shown, 300, railTop(plan, 1, 0) + RAIL / 2);
  assert.ok(over?.what === "arc" && over.arc.arc.kind === "rescue");
  assert.equal(hitAt(shown, plan, shown, 550, middle(plan, 0)), null);
  assert.equal(hitAt(shown, plan, shown, 100, 5000), null);
  assert.ok(sameHit(mine, mine) && sameHit(null, null) && !sameHit(mine, over) && !sameHit(mine, null));
});

test("columns are found too, and quiet lanes are seen beside busy ones", () => {
  const lanes = [{ agent: "ada", shown: "ada", standing: "idle" as const, total: 101, buckets: [[10, [100, 0, 0, 0, 0]], [11, [0, 0, 1, 0, 0]]] as [number, number[]][] }];
  const shown = scene({ exact: false, lanes, marks: [] });
  const plan = planOf(600, 100, 1);
  const hit = hitAt(shown, plan, shown, 105, floorOf(plan, 0) - 3);
  assert.ok(hit?.what === "column" && hit.column.sum === 100);
  assert.ok(shown.most >= 100 && shown.most < 130);
  assert.ok(columnHeight(plan, 1, shown.most) >= 2 && columnHeight(plan, 100, shown.most) <= plan.body);
});

test("marks that would hide each other become columns, and single ones again when one comes closer", () => {
  const marks = Array.from({ length: 120 }, (_, index) => mark(`m${index}`, index / 2, "ada"));
  const shown = scene({ marks, links: [] });
  assert.equal(columnsNeeded(shown, shown, 1000), null);
  assert.equal(columnsNeeded(shown, { from: shown.from, to: shown.from + 600_000 }, 300), null);
  const step = columnsNeeded(shown, shown, 300);
  assert.ok(step !== null && step >= 72_000);
  const columns = condensed(shown, step).lanes[0]?.columns ?? [];
  assert.equal(columns.reduce((sum, column) => sum + column.sum, 0), 120);
  assert.ok(columns.every((column) => column.at % step === 0) && columns.length < 60);
});
