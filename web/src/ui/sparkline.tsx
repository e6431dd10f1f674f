import type { Family } from "../api/types";
import { shapeAt } from "./beat";
import { FAMILIES, SAID, familyOf } from "./beats";
import { clockSeconds } from "./times";

const STEP = 10;
const HEIGHT = 18;
const LONG = 5 * 60_000;

interface Drawing {
  marks: Partial<Record<Family, string>>;
  gaps: string;
}

/** One path a family, so that hundreds of cards stay cheap. */
function draw(beats: [string, string][], first: number): Drawing {
  const marks: Partial<Record<Family, string>> = {};
  let gaps = "";
  let last = Number.NaN;
  beats.forEach(([at, beat], index) => {
    const x = (first + index) * STEP;
    const family = familyOf(beat);
    const time = Date.parse(at);
    marks[family] = (marks[family] ?? "") + shapeAt(family, x, 4);
    if (time - last > LONG) gaps += `M${x - 0.5} 2v${HEIGHT - 4}`;
    last = time;
  });
  return { marks, gaps };
}

/** The last beats, one mark each, newest at the right; a hairline where more than five minutes lie between two. */
export function Sparkline({ beats, most = 24 }: { beats: [string, string][]; most?: number }) {
  const shown = beats.slice(-most);
  const { marks, gaps } = draw(shown, most - shown.length);
  const newest = shown.at(-1);
  const label = newest ? `newest events; the last one: ${SAID[familyOf(newest[1])]}, ${clockSeconds(newest[0])}` : "no events yet";
  return (
    <svg class="sparkline" viewBox={`0 0 ${most * STEP} ${HEIGHT}`} preserveAspectRatio="xMaxYMid meet" role="img" aria-label={label}>
      {gaps && <path class="gap" d={gaps} />}
      {FAMILIES.map((family) => marks[family] && <path key={family} class={`mark ${family}`} d={marks[family]} />)}
    </svg>
  );
}
