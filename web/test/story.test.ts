import assert from "node:assert/strict";
import { test } from "node:test";

import { carried, fresh, joined, latest, paragraphs, reused } from "../src/pages/story-pages";
import type { Arc, Chapter, Sentence, StoryAnswer } from "../src/shapes";

function sentence(n: number, text = `sentence ${n}`, thread = "task:a"): Sentence {
  return { text, thread, title: null, evidence: [`id${n}`], at: `2026-11-16T00:00:${String(n).padStart(2, "0")}Z`, beat: null, agent: null, shown: null };
}

function chapter(title: string, ...sentences: Sentence[]): Chapter {
  return { title, first_at: sentences[0]?.at ?? "", last_at: sentences.at(-1)?.at ?? "", sentences, arcs: [] };
}

function story(...chapters: Chapter[]): StoryAnswer {
  return { opening: "", chapters, open: [], closing: "", more: null, as_of: null, at: null, live: true, caught_up: true };
}

const texts = (chapters: Chapter[]): string[] => chapters.flatMap((one) => one.sentences.map(({ text }) => text));

test("what slides out of the live answer stays above the reader, once", () => {
  const before = [chapter("A", sentence(1), sentence(2)), chapter("B", sentence(3), sentence(4))];
  const next = [chapter("B", sentence(4)), chapter("C", sentence(5))];
  const whole = joined(carried(before, next));
  assert.deepEqual(texts(whole), ["sentence 1", "sentence 2", "sentence 3", "sentence 4", "sentence 5"]);
  assert.deepEqual(whole.map(({ title }) => title), ["A", "B", "C"]);
});

test("new sentences and those that say more now are new; those that were told are not", () => {
  const before = story(chapter("A", sentence(1), sentence(2)));
  const after = story(chapter("A", sentence(1), sentence(2, "two, and more"), sentence(3)));
  assert.deepEqual([...fresh(before, after)], ["id2", "id3"]);
  assert.equal(fresh(null, after).size, 0);
});

test("a chapter that says the same is the very same", () => {
  const before = [chapter("A", sentence(1)), chapter("B", sentence(2))];
  const next = reused(before, [chapter("A", sentence(1)), chapter("B", sentence(2), sentence(3))]);
  assert.equal(next[0], before[0]);
  assert.notEqual(next[1], before[1]);
  assert.equal(next[1]?.sentences[0], before[1]?.sentences[0]);
});

test("a chapter is told a thread at a time, in the order in which the threads began", () => {
  const { paragraphs: told } = paragraphs(chapter("A", sentence(3, "b3", "task:b"), sentence(1), sentence(4)));
  assert.deepEqual(told.map(({ sentences }) => sentences.map(({ text }) => text)), [["sentence 1", "sentence 4"], ["b3"]]);
});

test("an arc stands beside the paragraph that tells its end, else above with the title", () => {
  const arc = (thread: string, ...evidence: string[]): Arc => ({ thread, evidence }) as Arc;
  const one = { ...chapter("A", sentence(1), sentence(2, "b", "task:b")), arcs: [arc("task:b", "id1", "id2"), arc("task:a", "gone"), arc("task:c", "gone")] };
  const { paragraphs: told, others } = paragraphs(one);
  assert.deepEqual(told.map(({ arcs }) => arcs.map(({ thread }) => thread)), [["task:a"], ["task:b"]]);
  assert.deepEqual(others.map(({ thread }) => thread), ["task:c"]);
});

test("what was written last is found wherever it stands", () => {
  const chapters = [chapter("A", sentence(1), sentence(9)), chapter("B", sentence(3, "b", "task:b"), sentence(5))];
  assert.deepEqual(latest(chapters, 2).map(({ text }) => text), ["sentence 5", "sentence 9"]);
});
