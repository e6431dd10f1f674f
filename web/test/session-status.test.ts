import assert from "node:assert/strict";
import { test } from "node:test";

import "./browser";
import { setClock } from "../src/clock";
import { factsOf, statusOf, wordOf, worstOf } from "../src/pages/session-status";
import type { AgentCard, Outcome } from "../src/api/types";

const NOW = "2026-11-16T12:00:00Z";
setClock(NOW);

function session(more: Record<string, unknown> = {}): Outcome {
  return { status: "finished", waiting_for: null, ended: NOW, checks: {}, claims: [], flags: [], troubles: [], delivered: { commits: [], pushed: false, unpushed: 0, pull_requests: [] }, ...more } as unknown as Outcome;
}

const words = (outcome: Outcome): string[] => factsOf(outcome).map(([, word]) => word);

test("the worst fact stands beside the state: a failed check before a claim, and that before what is not pushed", () => {
  const claims = [{ verdict: "contradicted" }, { verdict: "unproven" }];
  const bad = session({ checks: { tests: { result: "fail" } }, claims, delivered: { commits: [{}], pushed: false, unpushed: 0, pull_requests: [] } });
  assert.deepEqual(words(bad), ["tests failed", "1 claim contradicted", "not pushed", "1 claim unproven"]);
  assert.deepEqual(worstOf(bad), ["bad", "tests failed"]);
  assert.equal(worstOf(session({ claims: [{ verdict: "unproven" }] })), null);
});

test("work that is pushed, or in a pull request, is not called unpushed; later commits are", () => {
  const delivered = (more: object): string[] => words(session({ delivered: { commits: [{}, {}], pushed: true, unpushed: 0, pull_requests: [], ...more } }));
  assert.deepEqual([delivered({}), delivered({ pushed: false, pull_requests: [{}] }), delivered({ unpushed: 1 })], [[], [], ["1 commit not pushed"]]);
});

test("a session that is not over has no verdict yet", () => {
  assert.equal(worstOf(session({ status: "running", checks: { tests: { result: "fail" } } })), null);
});

test("an agent is called as its session is; one that does more than its session keeps its own state", () => {
  const word = (standing: string, status: string | null, more: object = {}): string => wordOf({ standing, status, waiting_for: null, last_seen: NOW, session: "s" } as unknown as AgentCard, session({ status, ...more }));
  assert.deepEqual([word("idle", "finished"), word("ended", "finished"), word("silent", "interrupted"), word("working", "finished"), word("working", null)], ["finished", "finished", "stopped early", "working", "working"]);
  const loop = { flags: [{ flag: "loop", executed: true }] };
  assert.equal(word("working", "running", loop), "looping");
  assert.equal(statusOf(session({ status: "running", ...loop })).word, "looping");
});
