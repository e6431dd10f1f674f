import { useEffect, useState } from "preact/hooks";

import { get } from "../api";
import { meta } from "../meta";
import type { TimelineAnswer } from "../api/types";
import { bursts, burstsOf } from "./bursts";
import { bounds } from "./travel";

const PIXELS = 1000;
const MOST = 240;
const SHORTEST_PAUSE = 4000;
const LONGEST_PAUSE = 60_000;

/** How busy each part of the time was, from 0 to 1; the root, so that a quiet hour can still be seen beside a busy one. */
function heights(answer: TimelineAnswer): number[] {
  const span = Date.parse(answer.to ?? "") - Date.parse(answer.from ?? "");
  if (!(span > 0) || !(answer.bucket_seconds > 0)) return [];
  const buckets = span / (answer.bucket_seconds * 1000);
  const columns = Math.max(1, Math.min(MOST, Math.round(buckets)));
  const sums = new Array<number>(columns).fill(0);
  for (const { buckets: own } of answer.lanes) {
    for (const [index, counts] of own) {
      const column = Math.min(columns - 1, Math.floor(((index + 0.5) / buckets) * columns));
      sums[column] = (sums[column] ?? 0) + counts.reduce((a, b) => a + b, 0);
    }
  }
  const most = Math.max(1, ...sums);
  return sums.map((sum) => Math.sqrt(sum / most));
}

function path(of: number[]): string {
  const width = PIXELS / of.length;
  const bar = (width * 0.78).toFixed(2);
  return of.map((height, index) => (height > 0 ? `M${(index * width).toFixed(1)} 20v${-(1 + height * 18).toFixed(1)}h${bar}V20z` : "")).join("");
}

/** A short story changes its shape quickly, a long one hardly: about as often as one column fills. */
function pause(): number {
  const at = bounds.peek();
  return Math.min(LONGEST_PAUSE, Math.max(SHORTEST_PAUSE, at ? (at.last - at.first) / MOST : 0));
}

function useHeights(): number[] {
  const [drawn, draw] = useState<number[]>([]);
  const some = (meta.value?.events ?? 0) > 0;
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    const take = (answer: TimelineAnswer): void => {
      draw(heights(answer));
      bursts.value = burstsOf(answer);
    };
    const ask = async (): Promise<void> => {
      if (!document.hidden) await get<TimelineAnswer>("/api/timeline", { width: PIXELS }).then(take, () => undefined);
      timer = setTimeout(() => void ask(), pause());
    };
    if (some) void ask();
    return () => clearTimeout(timer);
  }, [some]);
  return drawn;
}

/** The shape of all that happened, behind the slider. */
export function Shape({ share }: { share: number }) {
  const drawn = path(useHeights());
  return (
    <svg class="shape" viewBox={`0 0 ${PIXELS} 20`} preserveAspectRatio="none" aria-hidden="true">
      <defs><clipPath id="past"><rect x="0" y="0" width={PIXELS * share} height="20" /></clipPath></defs>
      <path class="shape-all" d={drawn} />
      <path class="shape-past" d={drawn} clip-path="url(#past)" />
    </svg>
  );
}
