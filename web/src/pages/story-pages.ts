import { grouped } from "../grouped";
import type { Arc, Chapter, Sentence, StoryAnswer } from "../shapes";

const MOST_CARRIED = 400;

/** What stays the same about a sentence while it grows: where its proof begins. */
export function keyOf(sentence: Sentence): string {
  return sentence.evidence[0] ?? `${sentence.at} ${sentence.thread ?? ""}`;
}

function keysOf(chapters: readonly Chapter[]): Set<string> {
  return new Set(chapters.flatMap((chapter) => chapter.sentences.map(keyOf)));
}

/** What of the chapters before lies ahead of the next ones' beginning and is not told by them; the newest of it, if it is very much. */
function lost(before: readonly Chapter[], next: readonly Chapter[], begins: string): Chapter[] {
  const there = keysOf(next);
  const gone = (sentence: Sentence): boolean => sentence.at < begins && !there.has(keyOf(sentence));
  let room = MOST_CARRIED;
  const kept: Chapter[] = [];
  for (const chapter of [...before].reverse()) {
    const sentences = room > 0 ? chapter.sentences.filter(gone).slice(-room) : [];
    room -= sentences.length;
    if (sentences.length > 0) kept.unshift({ ...chapter, sentences, arcs: chapter.arcs.filter((arc) => arc.last_at < begins) });
  }
  return kept;
}

/** One chapter of two where a place between answers has cut it: they have the same title and follow each other. */
export function joined(chapters: readonly Chapter[]): Chapter[] {
  const whole: Chapter[] = [];
  for (const chapter of chapters) {
    const last = whole.at(-1);
    if (last?.title !== chapter.title) whole.push(chapter);
    else whole[whole.length - 1] = { ...chapter, first_at: last.first_at, sentences: [...last.sentences, ...chapter.sentences], arcs: [...last.arcs, ...chapter.arcs] };
  }
  return whole;
}

/** The next chapters, behind what the live answer no longer reaches back to: nothing vanishes above the reader's eyes. */
export function carried(before: readonly Chapter[], next: readonly Chapter[]): Chapter[] {
  const begins = next[0]?.sentences[0]?.at;
  return begins === undefined ? [...next] : [...lost(before, next, begins), ...next];
}

export interface Paragraph {
  sentences: Sentence[];
  arcs: Arc[];
}

const LONG = 7;

/** Pieces of a thread's sentences that are no longer than a paragraph should be. */
function cut(sentences: readonly Sentence[]): Sentence[][] {
  const many = Math.ceil(sentences.length / LONG);
  const size = Math.ceil(sentences.length / many);
  return Array.from({ length: many }, (_, index) => sentences.slice(index * size, (index + 1) * size));
}

/** An arc stands beside the paragraph that tells its end, else beside the first of its thread. */
function beside(arc: Arc, paragraphs: readonly Paragraph[]): Paragraph | undefined {
  const proof = new Set(arc.evidence);
  return (
    paragraphs.findLast(({ sentences }) => sentences.some(({ evidence }) => evidence.some((id) => proof.has(id))))
    ?? paragraphs.find(({ sentences }) => sentences[0]?.thread === arc.thread)
  );
}

/** A chapter's paragraphs, a thread at a time, in the order in which the threads began; and the arcs that no paragraph tells of. */
export function paragraphs(chapter: Chapter): { paragraphs: Paragraph[]; others: Arc[] } {
  const threads = [...grouped(chapter.sentences, ({ thread }) => thread).values()];
  threads.sort((a, b) => (a[0]?.at ?? "").localeCompare(b[0]?.at ?? ""));
  const found = threads.flatMap(cut).map((sentences): Paragraph => ({ sentences, arcs: [] }));
  const others: Arc[] = [];
  for (const arc of chapter.arcs) (beside(arc, found)?.arcs ?? others).push(arc);
  return { paragraphs: found, others };
}

/** The newest sentences, newest last. */
export function latest(chapters: readonly Chapter[], many: number): Sentence[] {
  const told = chapters.slice(-3).flatMap((chapter) => chapter.sentences);
  return told.sort((a, b) => a.at.localeCompare(b.at)).slice(-many);
}

function arcKey(arc: Arc): string {
  return `${arc.kind} ${arc.first} ${arc.thread}`;
}

/** What `next` says; where it is the same as before it is the very same. */
function kept<T>(before: readonly T[], next: readonly T[], keyOf: (one: T) => string): T[] {
  const old = new Map(before.map((one) => [keyOf(one), one]));
  return next.map((one) => {
    const same = old.get(keyOf(one));
    return same !== undefined && JSON.stringify(same) === JSON.stringify(one) ? same : one;
  });
}

export function sameItems<T>(a: readonly T[], b: readonly T[]): boolean {
  return a.length === b.length && a.every((one, index) => one === b[index]);
}

/** The next chapters; chapters, sentences and arcs that are as before are the very same, so that they need not be drawn again. */
export function reused(before: readonly Chapter[], next: readonly Chapter[]): Chapter[] {
  const old = new Map(before.map((chapter) => [chapter.first_at, chapter]));
  return next.map((chapter) => {
    const last = old.get(chapter.first_at);
    if (!last || last === chapter) return chapter;
    const [sentences, arcs] = [kept(last.sentences, chapter.sentences, keyOf), kept(last.arcs, chapter.arcs, arcKey)];
    const isSame = last.title === chapter.title && last.last_at === chapter.last_at && sameItems(last.sentences, sentences) && sameItems(last.arcs, arcs);
    return isSame ? last : { ...chapter, sentences, arcs };
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
