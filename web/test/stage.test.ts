import assert from "node:assert/strict";
import { test } from "node:test";

import { initials, keyOf, rankOf, sceneOf, scriptOf, voicesOf } from "../src/pages/stage-model";
import type { StageLine, StagePlay, StagePlayer, StageThought, StageVerdict } from "../src/api/types";

const line = (position: number, speaker: string, text: string, more: Partial<StageLine> = {}): StageLine =>
  ({ id: `e${position}`, at: "2026-11-16T05:00:00Z", turn: 1, speaker, kind: "agent.spoke", text, mood: null, label: null, position: String(position), ...more });
const thought = (position: number, owner: string, text: string): StageThought =>
  ({ id: `e${position}`, at: "2026-11-16T05:00:00Z", turn: 1, owner, kind: "agent.thought", text, mood: null, position: String(position) });
const verdict = (position: number, scores: Record<string, number> = {}): StageVerdict =>
  ({ id: `e${position}`, at: "2026-11-16T05:00:00Z", turn: 2, judge: "Jo", text: "So be it.", winner: null, scores, accused: null, correct: null, reveal: {}, position: String(position) });
const player = (name: string, role = "worker"): StagePlayer => ({ name, role, team: null, lines: 0, last_said: null, mood: null, thinking: false, persona: null });
const play = (given: Partial<StagePlay>): StagePlay => ({
  run: "r", title: "Duel", scenario: "duel", seed: "", goal: "", at: "", turn: 1, scene: null, cast: [], lines: [], said: 0, thoughts: [], verdicts: [], finished: null,
  spent: { turns: 1, calls: 0, tokens: 0, usd: 0, seconds: 0 }, budget: { turns: null, calls: null, tokens: null, usd: null, seconds: null }, budgets: [], ...given,
});
const OVER = { id: "f", at: "", reason: "verdict", winner: null, text: "" };

test("everything stands in the order of the log, turn by turn, and a thought stands with its line", () => {
  const shown = scriptOf(play({
    lines: [line(2, "Ada", "It was a twig."), line(4, "Bob", "I have the map.")],
    thoughts: [thought(3, "Bob", "They know."), thought(4, "Bob", "I have no map.")],
    verdicts: [verdict(5)],
  }));
  assert.deepEqual(shown.map(({ turn, entries }) => [turn, entries.map(keyOf)]), [[1, ["line:e2", "thought:e3", "line:e4"]], [2, ["verdict:e5"]]]);
  const last = shown[0]?.entries[2];
  assert.equal(last?.is === "line" && last.thought?.text, "I have no map.");
});

test("who goes on speaking is not named again, until something comes between", () => {
  const shown = scriptOf(play({ lines: [line(1, "Ada", "a"), line(2, "Ada", "b"), line(3, "", "It rains.", { kind: "world.observed" }), line(4, "Ada", "c"), line(5, "Ada", "d", { turn: 2 })] }));
  assert.deepEqual(shown.flatMap(({ entries }) => entries).map((entry) => entry.is === "line" && entry.goesOn), [false, true, false, false, false]);
});

test("a line that names no turn belongs to the one before it", () => {
  const shown = scriptOf(play({ lines: [line(1, "Ada", "a", { turn: 3 }), line(2, "v", "Fire!", { turn: 0, kind: "user.injected" })] }));
  assert.deepEqual(shown.map(({ turn, entries }) => [turn, entries.map((entry) => entry.is)]), [[3, ["line", "visitor"]]]);
});

test("the newest scene is in the light, that of a play which is over its first, and the opening is not told twice", () => {
  const opening = line(1, "", "A lawn.", { kind: "world.observed", turn: 0 });
  const rain = line(3, "", "It rains.", { kind: "world.observed" });
  const lines = [opening, line(2, "Ada", "a"), rain];
  const keys = (one: StagePlay): string[] => scriptOf(one).flatMap(({ entries }) => entries.map(keyOf));
  assert.equal(sceneOf(play({ lines, scene: rain }))?.text, "It rains.");
  assert.deepEqual(keys(play({ lines, scene: rain })), ["scene:e1", "line:e2", "scene:e3"]);
  assert.equal(sceneOf(play({ lines, scene: rain, finished: OVER }))?.text, "A lawn.");
  assert.deepEqual(keys(play({ lines, scene: rain, finished: OVER })), ["line:e2", "scene:e3"]);
});

test("each player has a colour of its own, and judges speak in ink", () => {
  const voices = voicesOf([player("Ada"), player("Jo", "judge"), player("Bob")]);
  assert.deepEqual([...voices], [["Ada", 1], ["Bob", 2]]);
});

test("a mark has the first letters of a name, whatever it is", () => {
  assert.deepEqual(["Ada", "Dr Okafor", "émile zola", "", "!!", "李 小"].map(initials), ["A", "DO", "ÉZ", "?", "?", "李小"]);
});

test("the best score comes first, and none is longer than its bar", () => {
  assert.deepEqual(rankOf(verdict(1, { a: 5, b: 9, c: -1 })).map(({ name, share }) => [name, share]), [["b", 0.9], ["a", 0.5], ["c", 0]]);
  assert.deepEqual(rankOf(verdict(1, { a: 200 })).map(({ share }) => share), [1]);
});
