/** Marks that would hide each other become columns: on a phone sooner than on a wide screen. Pure. */

import { columnAbove, lengthOf, type Span } from "../charts/span";
import { roundedUp, type Column, type Scene, type SceneMark } from "./timeline-scene";

/** So many pixels a mark needs, that of the quiet ones aside. */
const ROOM = 6;
/** The server, too, makes a column of so many pixels. */
export const COLUMN = 6;

/** The length of the columns that are needed; null where every mark has its room. */
export function columnsNeeded(scene: Scene, span: Span, width: number): number | null {
  const most = width / ROOM;
  const isCrowded = scene.exact && scene.lanes.some((lane) => lane.marks.length > most && countIn(lane.marks, span) > most);
  return isCrowded ? columnAbove((lengthOf(span) / width) * COLUMN) : null;
}

/** The same scene with columns of this length in place of marks. */
export function condensed(scene: Scene, step: number): Scene {
  const lanes = scene.lanes.map((lane) => ({ ...lane, columns: columnsOf(lane.marks, scene.families, step) }));
  const most = roundedUp(Math.max(1, ...lanes.flatMap((lane) => lane.columns.map((column) => column.sum))));
  return { ...scene, exact: false, step, lanes, most };
}

function countIn(marks: readonly SceneMark[], span: Span): number {
  return marks.reduce((sum, mark) => sum + Number(mark.family !== "quiet" && mark.at >= span.from && mark.at <= span.to), 0);
}

function columnsOf(marks: readonly SceneMark[], families: Scene["families"], step: number): Column[] {
  const found = new Map<number, number[]>();
  for (const mark of marks) {
    const at = Math.floor(mark.at / step) * step;
    let counts = found.get(at);
    if (!counts) found.set(at, (counts = families.map(() => 0)));
    const place = families.indexOf(mark.family);
    counts[place] = (counts[place] ?? 0) + 1;
  }
  return [...found].map(([at, counts]) => ({ at, counts, sum: counts.reduce((sum, count) => sum + count, 0) }));
}
