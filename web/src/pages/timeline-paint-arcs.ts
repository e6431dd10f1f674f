/** Draws the arcs: bars above the marks of the lanes that they concern, open ones fading out towards now. */

import type { Palette } from "../charts/palette";
import { toX } from "../charts/span";
import { plain } from "../ui/hostile";
import type { Picture } from "./timeline-paint";
import { RAIL, SHORTEST_ARC, railTop } from "./timeline-plan";
import { kindInWords, type SceneArc } from "./timeline-scene";

const BAR = RAIL - 3;
const LEAST_LABEL = 44;
const ROUND = 3;

export function paintArcs(context: CanvasRenderingContext2D, picture: Picture): void {
  context.font = `500 10.5px ${picture.palette.font}`;
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (const arc of picture.scene.arcs) {
    const { left, right } = edges(picture, arc);
    if (right < 0 || left > picture.plan.width) continue;
    const isHit = picture.hit?.what === "arc" && picture.hit.arc.arc.first === arc.arc.first && picture.hit.arc.arc.kind === arc.arc.kind;
    tie(context, picture, arc, left, isHit);
    for (const { lane, row } of arc.places) {
      const top = railTop(picture.plan, lane, row);
      bar(context, picture, arc, left, right, top, isHit);
      // Those that share the last rail would write over each other.
      if (row < picture.plan.rails) label(context, picture.palette, arc, Math.max(left, 0) + 7, Math.min(right, picture.plan.width), top);
    }
  }
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
  context.fillStyle = arc.arc.state === "open" ? fading(context, colour, from, to) : colour;
  context.beginPath();
  context.roundRect(from, top, to - from, BAR, ROUND);
  context.fill();
  context.globalAlpha = 1;
  context.fillStyle = colour;
  context.fillRect(left, top + 1, 2, BAR - 2);
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
  const words = fitted(context, kindInWords(arc.kind), room);
  context.fillStyle = palette.ink;
  context.fillText(words, left, down);
  const taken = context.measureText(words).width + 7;
  if (room - taken < LEAST_LABEL) return;
  context.fillStyle = palette.faint;
  context.fillText(fitted(context, plain(arc.title, 80), room - taken), left + taken, down);
}

/** As much of a text as there is room for. */
function fitted(context: CanvasRenderingContext2D, text: string, room: number): string {
  const wide = context.measureText(text).width;
  return wide <= room ? text : `${text.slice(0, Math.max(1, Math.floor((text.length * room) / wide) - 2)).trimEnd()}…`;
}
