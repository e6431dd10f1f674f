/** Where things are on the canvas: the heights of lanes, and what is under the pointer. Pure. */

import { toX, type Span } from "../charts/span";
import type { Column, Scene, SceneArc, SceneLane, SceneMark } from "./timeline-scene";

export const AXIS = 34;
export const RAIL = 16;
const LOWEST_LANE = 48;
const HIGHEST_LANE = 64;
const LEAST_BODY = 29;
const MOST_BODY = 52;
const REACH = 9;
export const SHORTEST_ARC = 5;
export const HAIRLINE = 2;

export interface Plan {
  readonly width: number;
  readonly lane: number;
  /** The part of a lane that has its marks; above it are its arcs, in so many rails. */
  readonly body: number;
  readonly rails: number;
  /** Of the canvas: all lanes, and no less than the room that there is. */
  readonly height: number;
}

export type Hit =
  | { readonly what: "mark"; readonly mark: SceneMark; readonly lane: SceneLane }
  | { readonly what: "arc"; readonly arc: SceneArc }
  | { readonly what: "column"; readonly column: Column; readonly lane: SceneLane };

/** Few lanes fill the room that there is; many scroll. */
export function planOf(width: number, room: number, lanes: number): Plan {
  const lane = Math.floor(Math.min(HIGHEST_LANE, Math.max(LOWEST_LANE, room / Math.max(lanes, 1))));
  const body = Math.round(Math.min(MOST_BODY, Math.max(LEAST_BODY, lane * 0.48)));
  return { width, lane, body, rails: Math.max(1, Math.floor((lane - body - 2) / RAIL)), height: Math.max(lane * lanes, Math.floor(room)) };
}

/** The middle of a lane's marks. */
export function middle(plan: Plan, lane: number): number {
  return plan.lane * (lane + 1) - plan.body / 2 - 2;
}

export function floorOf(plan: Plan, lane: number): number {
  return plan.lane * (lane + 1) - 4;
}

/** The top of an arc's bar. Rows beyond the last rail have no bars: they are a thin line at the top of the lane. */
export function railTop(plan: Plan, lane: number, row: number): number {
  return row < plan.rails ? plan.lane * (lane + 1) - plan.body - RAIL * (row + 1) : plan.lane * lane;
}

/** How high a column of so many is: by the root, so that quiet lanes are seen beside busy ones. */
export function columnHeight(plan: Plan, sum: number, most: number): number {
  return Math.max(2, Math.sqrt(sum / most) * (plan.body - 5));
}

/** Families lie a little above each other, so that talk does not hide work. */
export function lift(plan: Plan, family: string): number {
  const step = plan.body / 5.2;
  return family === "quiet" ? step : family === "talk" ? -step : 0;
}

export function hitAt(scene: Scene, plan: Plan, span: Span, x: number, y: number): Hit | null {
  const lane = scene.lanes[Math.floor(y / plan.lane)];
  if (!lane) return null;
  return markAt(lane, plan, span, x, y) ?? arcAt(scene, plan, span, x, y) ?? columnAt(scene, lane, plan, span, x, y);
}

export function sameHit(a: Hit | null, b: Hit | null): boolean {
  if (a === null || b === null || a.what !== b.what) return a === b;
  if (a.what === "mark" && b.what === "mark") return a.mark.id === b.mark.id;
  if (a.what === "arc" && b.what === "arc") return a.arc === b.arc;
  return a.what === "column" && b.what === "column" && a.column === b.column && a.lane === b.lane;
}

function markAt(lane: SceneLane, plan: Plan, span: Span, x: number, y: number): Hit | null {
  let best: SceneMark | null = null;
  let nearest = REACH * REACH;
  for (const mark of lane.marks) {
    const across = toX(span, plan.width, mark.at) - x;
    if (across > REACH) break;
    const down = middle(plan, mark.lane) + lift(plan, mark.family) - y;
    const distance = across * across + down * down * 0.5;
    if (distance <= nearest) [best, nearest] = [mark, distance];
  }
  return best && { what: "mark", mark: best, lane };
}

function arcAt(scene: Scene, plan: Plan, span: Span, x: number, y: number): Hit | null {
  for (const arc of scene.arcs.toReversed()) {
    const left = toX(span, plan.width, arc.from) - 2;
    const right = Math.max(toX(span, plan.width, arc.to) + 2, left + SHORTEST_ARC + 4);
    if (x < left || x > right) continue;
    for (const { lane, row } of arc.places) {
      const top = railTop(plan, lane, row);
      if (y >= top && y < top + (row < plan.rails ? RAIL : HAIRLINE + 1)) return { what: "arc", arc };
    }
  }
  return null;
}

function columnAt(scene: Scene, lane: SceneLane, plan: Plan, span: Span, x: number, y: number): Hit | null {
  if (y % plan.lane < plan.lane - plan.body - 4) return null;
  for (const column of lane.columns) {
    const left = toX(span, plan.width, column.at);
    if (left > x) return null;
    if (x < Math.max(toX(span, plan.width, column.at + scene.step), left + 3)) return { what: "column", column, lane };
  }
  return null;
}
