import { useEffect, useState } from "preact/hooks";

import { get } from "../api";
import { meta } from "../meta";
import type { TimelineAnswer } from "../shapes";

const COLUMNS = 160;
const PAUSE = 60_000;

/** How busy each part of the time was, from 0 to 1; the root, so that a quiet hour can still be seen beside a busy one. */
export function heights(answer: TimelineAnswer, columns = COLUMNS): number[] {
  const from = Date.parse(answer.from ?? "");
  const span = Date.parse(answer.to ?? "") - from;
  const sums = new Array<number>(columns).fill(0);
  if (!(span > 0)) return sums;
  const width = (answer.bucket_seconds * 1000 * columns) / span;
  for (const lane of answer.lanes) {
    for (const [index, counts] of lane.buckets) {
      const column = Math.min(columns - 1, Math.floor((index + 0.5) * width));
      sums[column] = (sums[column] ?? 0) + counts.reduce((a, b) => a + b, 0);
    }
  }
  const most = Math.max(1, ...sums);
  return sums.map((sum) => Math.sqrt(sum / most));
}

function path(of: number[]): string {
  return of.map((height, index) => (height > 0 ? `M${index} 20v${-(1 + height * 18).toFixed(1)}h.72V20z` : "")).join("");
}

/** The shape of all that happened, behind the slider. */
export function Shape({ share }: { share: number }) {
  const [drawn, draw] = useState("");
  const some = (meta.value?.events ?? 0) > 0;
  useEffect(() => {
    if (!some) return undefined;
    const ask = (): void => {
      if (!document.hidden) void get<TimelineAnswer>("/api/timeline", { width: COLUMNS }).then((answer) => draw(path(heights(answer))), () => undefined);
    };
    ask();
    const timer = setInterval(ask, PAUSE);
    return () => clearInterval(timer);
  }, [some]);
  return (
    <svg class="shape" viewBox={`0 0 ${COLUMNS} 20`} preserveAspectRatio="none" aria-hidden="true">
      <defs><clipPath id="past"><rect x="0" y="0" width={COLUMNS * share} height="20" /></clipPath></defs>
      <path class="shape-all" d={drawn} />
      <path class="shape-past" d={drawn} clip-path="url(#past)" />
    </svg>
  );
}
