import type { Family } from "../api/types";
import { FAMILIES, SAID, familyOf } from "./beats";

/** The shape of a family on a 10 × 10 field, relative to its corner: colour alone must never carry the meaning. */
const SHAPES: Record<Family, string> = {
  work: "m3.4 1.5h3.2v7h-3.2z",
  done: "m5 1.2a3.8 3.8 0 1 1-.01 0z",
  trouble: "m5 .8l4.4 8h-8.8z",
  talk: "m5 .6l4.4 4.4l-4.4 4.4l-4.4-4.4z",
  quiet: "m5 3.6a1.4 1.4 0 1 1-.01 0z",
};

/** A family's shape with its corner at (x, y), as path data. */
export function shapeAt(family: Family, x: number, y: number): string {
  return `M${x} ${y}${SHAPES[family]}`;
}

/** A beat as a small mark: its family gives the shape and the colour. */
export function BeatMark({ beat, family = familyOf(beat), size = 10 }: { beat?: string | null; family?: Family; size?: number }) {
  const said = beat ?? SAID[family];
  return (
    <svg class="beat" width={size} height={size} viewBox="0 0 10 10" role="img" aria-label={said}>
      <title>{said}</title>
      <path class={`mark ${family}`} d={shapeAt(family, 0, 0)} />
    </svg>
  );
}

/** What each mark means. */
export function BeatLegend() {
  return <>{FAMILIES.map((family) => <span key={family}><BeatMark family={family} /> {SAID[family]}</span>)}</>;
}
