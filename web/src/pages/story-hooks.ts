import { useMemo, useRef, useState } from "preact/hooks";

import { get } from "../api";
import { asOf } from "../moment";
import type { Chapter, StoryAnswer } from "../shapes";
import { carried, fresh, joined, reused } from "./story-pages";

export const LIMIT = 1500;
const NEW_FOR = 20_000;
/** Of very much that is new, marking all would mark nothing. */
const MOST_NEW = 12;

export interface Earlier {
  chapters: Chapter[];
  more: string | null;
  loading: boolean;
  load(): Promise<void>;
}

interface Loaded {
  key: string;
  chapters: Chapter[];
  more: string | null;
}

/** What came before the answer that is live: loaded on request, and kept while the live part moves on. */
export function useEarlier(key: string, asked: Record<string, string>, story: StoryAnswer | null): Earlier {
  const [loaded, set] = useState<Loaded | null>(null);
  const [loading, setLoading] = useState(false);
  const mine = loaded?.key === key ? loaded : null;
  const more = mine ? mine.more : (story?.more ?? null);
  const load = async (): Promise<void> => {
    setLoading(true);
    const answer = await get<StoryAnswer>("/api/story", { ...asked, as_of: asOf.peek(), before: more, limit: LIMIT }).catch(() => null);
    setLoading(false);
    if (answer) set({ key, more: answer.more, chapters: [...answer.chapters, ...(mine?.chapters ?? [])] });
  };
  return { chapters: mine?.chapters ?? [], more, loading, load };
}

interface Told {
  key: string;
  story: StoryAnswer | null;
  chapters: Chapter[];
  /** When each new sentence came. */
  news: Map<string, number>;
}

function tell(last: Told, story: StoryAnswer): Told {
  const now = Date.now();
  const chapters = reused(last.chapters, joined(last.story ? carried(last.chapters, story.chapters) : story.chapters));
  const news = new Map([...last.news].filter(([, came]) => now - came < NEW_FOR));
  if (story.live && last.story?.live) for (const key of fresh(last.story, story)) news.set(key, now);
  return { key: last.key, story, chapters, news: new Map([...news].slice(-MOST_NEW)) };
}

/** The chapters that are told, those that slid out of the live answer among them, and which sentences are new. */
export function useTold(key: string, story: StoryAnswer | null, stale: boolean): Told {
  const kept = useRef<Told>({ key, story: null, chapters: [], news: new Map() });
  return useMemo(() => {
    if (stale) return kept.current;
    if (kept.current.key !== key) kept.current = { key, story: null, chapters: [], news: new Map() };
    if (story && story !== kept.current.story) kept.current = tell(kept.current, story);
    return kept.current;
  }, [key, story, stale]);
}
