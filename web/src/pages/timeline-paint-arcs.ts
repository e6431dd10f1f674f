/** Draws the arcs: bars above the marks of the lanes that they concern, open ones fading out towards now. */

import type { Palette } from "../charts/palette";
import { toX } from "../charts/span";
import { plain } from "../ui/hostile";
import type { Picture } from "./timeline-paint";
import { HAIRLINE, RAIL, SHORTEST_ARC, railTop } from "./timeline-plan";
import { arcWords, type SceneArc } from "./timeline-scene";

const BAR = RAIL - 3;
const LEAST_LABEL = 44;
const ROUND = 3;
const MOST_WIDTHS = 2000;
/** Of more, only the one that is pointed at shows which lanes it ties together. */
const FEW_ARCS = 24;

export function paintArcs(context: CanvasRenderingContext2D, picture: Picture): void {
  context.font = `500 10.5px ${picture.palette.font}`;
  context.textBaseline = "middle";
  context.textAlign = "left";
  const isCalm = picture.scene.arcs.length <= FEW_ARCS;
  const seen = picture.scene.arcs.map((arc) => ({ arc, ...edges(picture, arc) })).filter(({ left, right }) => right >= 0 && left <= picture.plan.width);
  paintHairlines(context, picture, seen);
  for (const { arc, left, right } of seen) {
    const isHit = picture.hit?.what === "arc" && picture.hit.arc.arc.first === arc.arc.first && picture.hit.arc.arc.kind === arc.arc.kind;
    if (isCalm || isHit) tie(context, picture, arc, left, isHit);
    for (const { lane, row } of arc.places) {
      if (row < picture.plan.rails) bar(context, picture, arc, left, right, railTop(picture.plan, lane, row), isHit);
    }
  }
}

type Seen = { readonly arc: SceneArc; readonly left: number; readonly right: number };

/** What has no rail left, in one stroke a mood, so that a hundred of them are no thicker than one. */
function paintHairlines(context: CanvasRenderingContext2D, { plan, palette }: Picture, seen: readonly Seen[]): void {
  const paths = { bright: new Path2D(), plain: new Path2D(), dark: new Path2D() };
  for (const { arc, left, right } of seen) {
    for (const { lane, row } of arc.places) if (row >= plan.rails) paths[arc.mood].rect(left, railTop(plan, lane, row), right - left, HAIRLINE);
  }
  context.globalAlpha = 0.55;
  for (const mood of ["bright", "plain", "dark"] as const) {
    context.fillStyle = palette.moods[mood];
    context.fill(paths[mood]);
  }
  context.globalAlpha = 1;
}

function edges({ plan, span, present }: Picture, arc: SceneArc): { left: number; right: number } {
  const left = toX(span, plan.width, arc.from);
  const end = arc.arc.state === "open" ? Math.max(arc.to, present) : arc.to;
  return { left, right: Math.max(left + SHORTEST_ARC, toX(span, plan.width, end)) };
}

/** Lanes that share an arc are tied together where it begins. */
function tie(context: CanvasRenderingContext2D, { plan, palette }: Picture, arc: SceneArc, x: number, isHit: boolean): void {
  if (arc.places.length < 2 || x < 0 || x > plan.width) return;
  const tops = arc.places.map(({ lane, row }) => railTop(plan, lane, row));
  context.strokeStyle = palette.moods[arc.mood];
  context.globalAlpha = isHit ? 0.9 : 0.35;
  context.lineWidth = 1;
  context.setLineDash([2, 3]);
  context.beginPath();
  context.moveTo(Math.round(x) + 0.5, Math.min(...tops) + BAR);
  context.lineTo(Math.round(x) + 0.5, Math.max(...tops));
  context.stroke();
  context.setLineDash([]);
  context.globalAlpha = 1;
}

function bar(context: CanvasRenderingContext2D, picture: Picture, arc: SceneArc, left: number, right: number, top: number, isHit: boolean): void {
  const colour = picture.palette.moods[arc.mood];
  const [from, to] = [Math.max(left, -8), Math.min(right, picture.plan.width + 8)];
  context.globalAlpha = isHit ? 0.42 : 0.2;
  context.fillStyle = arc.arc.state === "open" ? fading(context, colour, left, right) : colour;
  context.beginPath();
  context.roundRect(from, top, to - from, BAR, ROUND);
  context.fill();
  context.globalAlpha = 1;
  context.fillStyle = colour;
  context.fillRect(left, top + 1, 2, BAR - 2);
  label(context, picture.palette, arc, Math.max(left, 0) + 7, Math.min(right, picture.plan.width), top);
}

function fading(context: CanvasRenderingContext2D, colour: string, from: number, to: number): CanvasGradient {
  const gradient = context.createLinearGradient(from, 0, Math.max(to, from + 1), 0);
  gradient.addColorStop(0, colour);
  gradient.addColorStop(0.7, colour);
  gradient.addColorStop(1, "transparent");
  return gradient;
}

function label(context: CanvasRenderingContext2D, palette: Palette, { arc }: SceneArc, left: number, right: number, top: number): void {
  const room = right - left - 4;
  if (room < LEAST_LABEL) return;
  const down = top + BAR / 2 + 0.5;
  const words = fitted(context, arcWords(arc.kind), room);
  context.fillStyle = palette.ink;
  context.fillText(words, left, down);
  const taken = widthOf(context, words) + 7;
  if (room - taken < LEAST_LABEL) return;
  context.fillStyle = palette.faint;
  context.fillText(fitted(context, plain(arc.title, 80), room - taken), left + taken, down);
}

/** As much of a text as there is room for. */
function fitted(context: CanvasRenderingContext2D, text: string, room: number): string {
  const wide = widthOf(context, text);
  return wide <= room ? text : `${text.slice(0, Math.max(1, Math.floor((text.length * room) / wide) - 2)).trimEnd()}…`;
}

const widths = new Map<string, number>();

/** Measured once: the font of arcs is always the same. */
function widthOf(context: CanvasRenderingContext2D, text: string): number {
  let wide = widths.get(text);
  if (wide === undefined) {
    if (widths.size > MOST_WIDTHS) widths.clear();
    widths.set(text, (wide = context.measureText(text).width));
  }
  return wide;
}
