import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { query, type Params } from "../api";
import { asOf, useView } from "../moment";
import type { Brief, BriefAnswer, Story, StoryAnswer } from "../api/types";

/** A brief is made for reading: it is asked for again this often at most, in milliseconds. */
const PAUSE = 4000;

export interface ShownBrief {
  key: string;
  brief: BriefAnswer;
  story: Story | null;
}

interface ReadBrief {
  shown: ShownBrief | null;
  /** Whether what is shown answers an earlier question. */
  stale: boolean;
  error: Error | null;
  /** Whether there is something new that is not shown yet. */
  isOutdated: boolean;
  update(): void;
}

function textOf(brief: Brief, story: Story | null): string {
  return JSON.stringify([brief, story]);
}

/** The brief and the story of a period. New text does not replace what somebody is reading: they are told, and ask for it. */
export function useBrief(params: Params): ReadBrief {
  const key = query(params) + (asOf.value ?? "");
  const brief = useView<BriefAnswer>("/api/brief", params, PAUSE);
  const story = useView<StoryAnswer>("/api/story", params, PAUSE);
  const [shown, show] = useState<ShownBrief | null>(null);
  const newest = useRef<ShownBrief | null>(null);
  const isThere = !brief.stale && brief.data !== null;
  if (isThere && brief.data) newest.current = { key, brief: brief.data, story: story.stale ? null : (story.data?.story ?? null) };
  const next = newest.current?.key === key ? newest.current : null;
  const isNewQuestion = next !== null && (shown?.key !== key || (shown.story === null && next.story !== null));
  const isOutdated = useMemo(
    () => next !== null && shown?.key === key && next.story !== null && textOf(next.brief.brief, next.story) !== textOf(shown.brief.brief, shown.story),
    [next?.brief, next?.story, shown],
  );
  useEffect(() => {
    // Nobody reads a hidden page: it is up to date when they come back.
    if (next !== null && (isNewQuestion || (isOutdated && document.hidden))) show(next);
  });
  return {
    shown: isNewQuestion ? next : shown,
    stale: next === null,
    error: brief.error ?? story.error,
    isOutdated: isOutdated && !isNewQuestion,
    update: () => show(newest.current),
  };
}
