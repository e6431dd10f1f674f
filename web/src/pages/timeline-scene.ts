/** An answer of the server made ready for drawing: times as numbers, lanes by their place, arcs packed into rows. Pure. */

import { SECOND, moment, type Span } from "../charts/span";
import type { Arc, Family, Lane, TimelineAnswer } from "../api/types";

export interface SceneMark {
  readonly id: string;
  readonly at: number;
  readonly lane: number;
  readonly family: Family;
  readonly beat: string | null;
  readonly kind: string;
  readonly text: string;
  readonly cause: string | null;
}

/** What happened on a lane in one step of time, a number for each family. */
export interface Column {
  readonly at: number;
  readonly counts: readonly number[];
  readonly sum: number;
}

export interface SceneArc {
  readonly arc: Arc;
  readonly from: number;
  readonly to: number;
  readonly mood: Mood;
  /** Each lane that it concerns, and its row there. */
  readonly places: readonly { readonly lane: number; readonly row: number }[];
}

type Mood = "bright" | "dark" | "plain";

export interface SceneLane extends Omit<Lane, "buckets"> {
  readonly columns: readonly Column[];
  /** Those of this lane, in the order of time. */
  readonly marks: readonly SceneMark[];
}

export interface Scene extends Span {
  /** The step that was asked for; the server may answer with another. */
  readonly wanted: number;
  /** The one agent that was asked for. */
  readonly agent: string | null;
  readonly exact: boolean;
  readonly step: number;
  readonly families: readonly Family[];
  readonly lanes: readonly SceneLane[];
  readonly marks: ReadonlyMap<string, SceneMark>;
  readonly links: readonly (readonly [SceneMark, SceneMark])[];
  readonly arcs: readonly SceneArc[];
  /** The highest column, rounded up so that it seldom changes. */
  readonly most: number;
  readonly moreLanes: number;
  readonly first: number | null;
  readonly last: number | null;
  readonly at: number | null;
}

const MOODS: Readonly<Record<string, Mood>> = {
  solo_sprint: "bright",
  rescue: "bright",
  comeback: "bright",
  milestone: "bright",
  fleet_convergence: "bright",
  abandon_then_retry: "dark",
  budget_death: "dark",
  cascade: "dark",
  collision: "dark",
  stall: "dark",
};

export function sceneOf(answer: TimelineAnswer, asked: Pick<Scene, "wanted" | "agent">): Scene {
  const places = new Map(answer.lanes.map((lane, index) => [lane.agent, index]));
  const marks = marksOf(answer, places);
  const byId = new Map(marks.map((mark) => [mark.id, mark]));
  const byLane = groupByLane(marks, answer.lanes.length);
  const from = moment(answer.from) ?? 0;
  const step = Math.max(1, answer.bucket_seconds * SECOND);
  const lanes = answer.lanes.map((lane, index) => ({
    ...lane,
    columns: answer.exact ? [] : columnsOf(lane, from, step),
    marks: byLane[index] ?? [],
  }));
  return {
    ...asked,
    from,
    to: moment(answer.to) ?? from + 1,
    exact: answer.exact,
    step,
    families: answer.families,
    lanes,
    marks: byId,
    links: linksOf(answer, byId),
    arcs: packed(answer, places),
    most: roundedUp(Math.max(1, ...lanes.flatMap((lane) => lane.columns.map((column) => column.sum)))),
    moreLanes: answer.more_lanes,
    first: moment(answer.first_at),
    last: moment(answer.last_at),
    at: moment(answer.at),
  };
}

/** A mark, what led to it, and what it led to, as far as the scene shows it. */
export function chainOf(scene: Scene, id: string): ReadonlySet<string> {
  const found = new Set([id]);
  for (let mark = scene.marks.get(id); mark?.cause && !found.has(mark.cause); mark = scene.marks.get(mark.cause)) found.add(mark.cause);
  const after = new Map<string, string[]>();
  for (const [from, to] of scene.links) after.set(from.id, [...(after.get(from.id) ?? []), to.id]);
  const open = [id];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const child of after.get(next) ?? []) {
      if (!found.has(child)) open.push(child);
      found.add(child);
    }
  }
  return found;
}

export function moodOf(arc: Pick<Arc, "kind" | "state">): Mood {
  if (arc.kind === "struggle_and_recovery") return arc.state === "open" ? "dark" : "bright";
  return MOODS[arc.kind] ?? "plain";
}

function marksOf(answer: TimelineAnswer, places: ReadonlyMap<string, number>): SceneMark[] {
  const found: SceneMark[] = [];
  for (const mark of answer.exact ? answer.marks : []) {
    const [lane, at] = [places.get(mark.agent), moment(mark.at)];
    if (lane !== undefined && at !== null) found.push({ ...mark, lane, at });
  }
  return found.sort((a, b) => a.at - b.at);
}

function groupByLane(marks: readonly SceneMark[], lanes: number): SceneMark[][] {
  const found: SceneMark[][] = Array.from({ length: lanes }, () => []);
  for (const mark of marks) found[mark.lane]?.push(mark);
  return found;
}

function columnsOf(lane: Lane, from: number, step: number): Column[] {
  return lane.buckets.map(([index, counts]) => ({ at: from + index * step, counts, sum: counts.reduce((sum, count) => sum + count, 0) }));
}

function linksOf(answer: TimelineAnswer, marks: ReadonlyMap<string, SceneMark>): [SceneMark, SceneMark][] {
  const found: [SceneMark, SceneMark][] = [];
  for (const [from, to] of answer.links) {
    const [cause, effect] = [marks.get(from), marks.get(to)];
    if (cause && effect) found.push([cause, effect]);
  }
  return found;
}

/**
 * Arcs that overlap on a lane lie in rows above each other, the longest lowest; an open one lasts until the newest time that is known.
 * Those that begin before the window and end after it say least about it: they are highest.
 */
function packed(answer: TimelineAnswer, lanes: ReadonlyMap<string, number>): SceneArc[] {
  const [now, from, to] = [moment(answer.at) ?? 0, moment(answer.from) ?? 0, moment(answer.to) ?? 0];
  const timed = answer.arcs.map((arc) => {
    const begin = moment(arc.first_at) ?? 0;
    const end = Math.max(begin, moment(arc.last_at) ?? begin, arc.state === "open" ? now : 0);
    return { arc, from: begin, to: end, isBeyond: begin < from && end > to };
  });
  timed.sort((a, b) => Number(a.isBeyond) - Number(b.isBeyond) || b.to - b.from - (a.to - a.from) || a.from - b.from);
  const taken: Stretch[][][] = [];
  return timed.map((one) => ({ arc: one.arc, from: one.from, to: one.to, mood: moodOf(one.arc), places: placesOf(one, lanes, taken) }));
}

type Stretch = { readonly from: number; readonly to: number };

function placesOf({ arc, from, to }: Stretch & { arc: TimelineAnswer["arcs"][number] }, lanes: ReadonlyMap<string, number>, taken: Stretch[][][]): SceneArc["places"] {
  return [...new Set(arc.lanes)].flatMap((agent) => {
    const lane = lanes.get(agent);
    return lane === undefined ? [] : [{ lane, row: freeRow((taken[lane] ??= []), from, to) }];
  });
}

function freeRow(rows: Stretch[][], from: number, to: number): number {
  const found = rows.findIndex((row) => row.every((one) => one.to < from || one.from > to));
  const row = found < 0 ? rows.length : found;
  (rows[row] ??= []).push({ from, to });
  return row;
}

/** A quarter of a power of two: 5, 6, 7, 8, 10, 12, 14, 16, 20 … */
export function roundedUp(value: number): number {
  const step = 2 ** Math.max(0, Math.floor(Math.log2(value)) - 2);
  return Math.ceil(value / step) * step;
}

/** An arc's kind in words. */
export function arcWords(kind: string): string {
  return (kind[0] ?? "").toUpperCase() + kind.slice(1).replaceAll("_", " ");
}
