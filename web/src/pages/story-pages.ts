import type { Chapter, Sentence, StoryAnswer } from "../shapes";

const MOST_CARRIED = 400;

/** What stays the same about a sentence while it grows: where its proof begins. */
export function keyOf(sentence: Sentence): string {
  return sentence.evidence[0] ?? `${sentence.at} ${sentence.thread ?? ""}`;
}

/** Chapters that the newest answer no longer reaches back to, so that nothing vanishes above the reader's eyes. */
export function carried(before: readonly Chapter[], next: readonly Chapter[]): Chapter[] {
  const begins = next[0]?.sentences[0]?.at;
  if (begins === undefined) return [...before];
  const there = new Set(next.flatMap((chapter) => chapter.sentences.map(keyOf)));
  const gone = (sentence: Sentence): boolean => sentence.at < begins && !there.has(keyOf(sentence));
  let room = MOST_CARRIED;
  const kept: Chapter[] = [];
  for (const chapter of [...before].reverse()) {
    const sentences = chapter.sentences.filter(gone).slice(-room || undefined);
    if (sentences.length === 0 || room <= 0) continue;
    room -= sentences.length;
    kept.unshift({ ...chapter, sentences, arcs: chapter.arcs.filter((arc) => arc.last_at < begins) });
  }
  return kept;
}

/** Sentences one after the other on the same thread: a paragraph. */
export function paragraphs(sentences: readonly Sentence[]): Sentence[][] {
  const found: Sentence[][] = [];
  for (const sentence of sentences) {
    const last = found.at(-1);
    if (last && last[0]?.thread === sentence.thread && last.length < 8) last.push(sentence);
    else found.push([sentence]);
  }
  return found;
}

/** The next chapters, but those that say the same as before are the very same, so that they need not be drawn again. */
export function reused(before: readonly Chapter[], next: readonly Chapter[]): Chapter[] {
  const old = new Map(before.map((chapter) => [chapter.first_at, chapter]));
  return next.map((chapter) => {
    const same = old.get(chapter.first_at);
    return same && JSON.stringify(same) === JSON.stringify(chapter) ? same : chapter;
  });
}

/** The keys of what an answer says that the one before did not: new sentences, and those that say more now. */
export function fresh(before: StoryAnswer | null, next: StoryAnswer): Set<string> {
  const told = (story: StoryAnswer): Sentence[] => story.chapters.flatMap((chapter) => chapter.sentences);
  if (!before) return new Set();
  const old = new Map(told(before).map((sentence) => [keyOf(sentence), sentence.text]));
  const newest = told(before).at(-1)?.at ?? "";
  const isNew = (sentence: Sentence): boolean => (old.has(keyOf(sentence)) ? old.get(keyOf(sentence)) !== sentence.text : sentence.at >= newest);
  return new Set(told(next).filter(isNew).map(keyOf));
}
