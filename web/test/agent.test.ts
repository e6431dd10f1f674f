import "./browser";

import assert from "node:assert/strict";
import { test } from "node:test";

import { reported } from "../src/pages/agent-dashboard";
import { COLUMN, placesOf, STEPS } from "../src/pages/agent-layout";
import { conversationOf, took, way, workOf } from "../src/pages/agent-model";
import { groupsOf, rowsOf, shown } from "../src/pages/agent-screen";
import type { LoreEvent } from "../src/api/types";
import type { GraphEdge, GraphShape } from "../src/api/types";

let nth = 0;
const event = (kind: string, more: Partial<LoreEvent> = {}): LoreEvent => ({ id: `e${(nth += 1)}`, at: "2026-11-16T05:00:00Z", kind, actor: "ada", run: "s1", ...more });
const step = (state: string, node: string, turn: number, more: Record<string, unknown> = {}): LoreEvent => event(`node.${state}`, { data: { node, turn, ...more } });
const edge = (source: string, target: string, type: GraphEdge["type"] = "data", after = false): GraphEdge => ({ source, target, type, carries: "x", condition: "", after });
const graph = (names: string[], edges: GraphEdge[]): GraphShape => ({ name: "g", description: "", nodes: names.map((name) => ({ name, implementation: `${name}_v1` })), edges });
const told = (events: LoreEvent[]): string[] => conversationOf(events).map((one) => (one.is === "card" ? `card ${one.card.name} ${one.card.state}` : `${one.is} ${one.text}${one.answer ? ` → ${one.answer}` : ""}`));

test("a conversation is read out of the log: words, presses, and what went wrong and where", () => {
  assert.deepEqual(told([
    event("session.started", { data: { graph: "seven", source: "startup" } }),
    event("prompt.submitted", { text: "Hello", data: { prompt: "Hello" } }),
    event("agent.spoke", { text: "Hi.", agent: "guide" }),
    event("session.turn_ended", { data: { reason: "done" } }),
    event("ui.action", { text: "[pressed Add [1]]", data: { action: "add" } }),
    event("agent.spoke", { text: "count = 1", data: { local: true } }),
    event("node.failed", { data: { node: "thinker", error: "no mind" } }),
    event("session.turn_ended", { text: "No mind answered.", data: { reason: "error" } }),
  ]), ["user Hello", "agent Hi.", "press Add [1] → count = 1", "failed No mind answered."]);
  const failure = conversationOf([event("node.failed", { data: { node: "thinker" } }), event("session.turn_ended", { text: "thinker: no answer", data: { reason: "interrupted" } })])[0];
  assert.deepEqual(failure?.is === "failed" && [failure.who, failure.text], ["thinker", "no answer"]);
});

test("it begins anew where it was cleared, and says when it goes on by another graph", () => {
  const started = (graph: string, source: string): LoreEvent => event("session.started", { data: { graph, source } });
  assert.deepEqual(told([started("seven", "startup"), event("prompt.submitted", { text: "One" }), started("seven", "clear"), event("prompt.submitted", { text: "Two" }), started("reflex", "switch")]),
    ["note Cleared", "user Two", "note Goes on by reflex"]);
});

test("a process is one card from its beginning to its end, and tools that only set the screen are none", () => {
  const call = (kind: string, data: Record<string, unknown>, more: Partial<LoreEvent> = {}): LoreEvent => event(kind, { data, ...more });
  const begun = call("process.started", { command: ["python", "-"] });
  assert.deepEqual(told([
    call("tool.called", { tool: "query_db", call_id: "c1" }),
    call("tool.called", { tool: "emit_actions", call_id: "c2" }),
    call("tool.returned", { tool: "query_db", call_id: "c1", duration_ms: 3 }),
    begun,
    call("process.finished", { exit_code: 1 }, { cause: begun.id }),
    call("process.finished", { call_id: "of somebody else" }),
  ]), ["card query_db done", "card python - failed"]);
});

test("the graph shows the newest turn: who was called on, who failed, and which ways were gone", () => {
  const work = workOf([
    step("started", "input", 1), step("finished", "input", 1, { edges: ["output"] }),
    step("started", "input", 2), step("finished", "input", 2, { edges: ["thinker"], duration_ms: 4 }),
    step("started", "memorizer", 1), // still at work on the turn before
    step("started", "thinker", 2), step("failed", "thinker", 2, { duration_ms: 7 }),
    step("started", "output", 2), event("node.started", { data: { turn: 2 } }), event("model.called"),
  ]);
  assert.equal(work.turn, 2);
  assert.deepEqual([...work.nodes], [["input", { state: "done", ms: 4 }], ["thinker", { state: "failed", ms: 7 }], ["output", { state: "active", ms: null }]]);
  assert.deepEqual([...work.ways], [way("input", "thinker")]);
});

test("nodes stand from left to right as data goes, and who only whispers stands below", () => {
  const places = placesOf(graph(["user", "input", "thinker", "output", "ui", "sensor"], [
    edge("user", "input"), edge("input", "thinker"), edge("input", "output"), edge("thinker", "output"), edge("thinker", "ui"), edge("sensor", "thinker", "context"),
  ]));
  const columns = Object.fromEntries([...places].map(([name, { x }]) => [name, x / COLUMN]));
  assert.deepEqual(columns, { user: 0, input: 1, thinker: 2, output: 3, ui: 3, sensor: 2 });
  assert.equal(places.get("sensor")?.y, 2 * STEPS.close);
  assert.ok((places.get("input")?.y ?? 0) > (places.get("user")?.y ?? 0));
  assert.equal(new Set([...places.values()].map(({ x, y }) => `${x} ${y}`)).size, 6);
});

test("what comes after the reply stands at the end, and what it comes back to stays where the turn has it", () => {
  const places = placesOf(graph(["director", "input", "memorizer"], [edge("input", "director"), edge("director", "memorizer", "data", true), edge("memorizer", "director", "data", true)]));
  assert.deepEqual([...places].map(([name, { x }]) => [name, x / COLUMN]), [["director", 1], ["input", 0], ["memorizer", 2]]);
});

test("a ring among the edges ends nobody's day", () => {
  assert.equal(placesOf(graph(["a", "b"], [edge("a", "b"), edge("b", "a"), edge("a", "a")])).size, 2);
});

test("controls of one machine stand together, others by their kind", () => {
  const groups = groupsOf([
    { type: "label", id: "light", machine_id: "light" }, { type: "button", action: "light.go", machine_id: "light" },
    { type: "label", id: "n" }, { type: "button", action: "a" }, { type: "button", action: "b" }, { type: "gauge" },
  ]);
  assert.deepEqual(groups.map(({ machine, type, controls }) => [machine, type, controls.length]), [["light", "label", 2], [null, "label", 1], [null, "button", 2], [null, "other", 1]]);
});

test("a table is read whether its rows are lists or name their values", () => {
  assert.deepEqual(rowsOf({ type: "table", columns: ["a", "b"], data: [[1, null], { b: 2, a: "x" }, 7] }), { columns: ["a", "b"], rows: [[1, null], ["x", 2], [7]] });
  assert.deepEqual(rowsOf({ type: "table", data: [{ a: 1 }, { b: 2 }] }), { columns: ["a", "b"], rows: [[1, undefined], [undefined, 2]] });
  assert.deepEqual(rowsOf({ type: "table", columns: "no", data: "no" }), { columns: [], rows: [] });
  assert.deepEqual([null, 0, false, { a: 1 }].map(shown), ["", "0", "false", '{"a":1}']);
});

test("what is told of a control is what can be seen of it, and what it does", () => {
  assert.deepEqual(reported({ type: "button", label: "Add", action: "add", payload: { op: "inc" } }), { type: "button", label: "Add", action: "add" });
  assert.deepEqual(reported({ type: "table", columns: ["a"], data: [[1], [2]] }), { type: "table", columns: ["a"], rows: 2 });
  assert.deepEqual(reported({ type: "label", id: "n", text: "n", value: 0, machine_id: "m" }), { type: "label", id: "n", text: "n", value: 0, machine_id: "m" });
});

test("lengths of steps are short to read", () => {
  assert.deepEqual([0.04, 3.21, 12.6, 999, 3210].map(took), ["<0.1 ms", "3.2 ms", "13 ms", "999 ms", "3.2 s"]);
});
