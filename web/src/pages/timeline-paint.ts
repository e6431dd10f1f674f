/** Draws the timeline. Like things are drawn in one stroke, so that a hundred thousand events cost no more than their columns. */

import type { Sheet } from "../charts/canvas";
import type { Palette } from "../charts/palette";
import { toX, type Span } from "../charts/span";
import type { Tick } from "../charts/ticks";
import type { Family } from "../api/types";
import { AXIS, columnHeight, floorOf, lift, middle, type Hit, type Plan } from "./timeline-plan";
import { paintArcs } from "./timeline-paint-arcs";
import { MARKS, SIZE } from "./timeline-shapes";
import type { Scene, SceneMark } from "./timeline-scene";

export interface Picture {
  readonly scene: Scene;
  readonly plan: Plan;
  readonly span: Span;
  readonly ticks: readonly Tick[];
  readonly present: number;
  readonly palette: Palette;
  readonly hit: Hit | null;
  /** The mark under the pointer, what led to it and what it led to; null where it stands alone. */
  readonly chain: ReadonlySet<string> | null;
}

/** So many lines are drawn at once; of more only those between lanes, and of too many of these none but the chain that is pointed at. */
const FEW_LINKS = 120;
const DIM = 0.28;
/** What must not be hidden is drawn last. */
const UPWARDS: readonly Family[] = ["quiet", "work", "talk", "done", "trouble"];

export function paintLanes(sheet: Sheet, picture: Picture): void {
  sheet.clear();
  paintGround(sheet, picture);
  paintArcs(sheet.context, picture);
  if (picture.scene.exact) {
    paintLinks(sheet.context, picture);
    paintMarks(sheet.context, picture);
  } else {
    paintColumns(sheet.context, picture);
  }
  paintPresent(sheet.context, picture, 0, sheet.height);
}

export function paintAxis(sheet: Sheet, { ticks, span, plan, palette, present }: Omit<Picture, "scene" | "hit" | "chain">): void {
  sheet.clear();
  const { context } = sheet;
  context.textBaseline = "alphabetic";
  context.textAlign = "left";
  let free = -Infinity;
  for (const tick of ticks) {
    const x = Math.round(toX(span, plan.width, tick.at)) + 0.5;
    context.fillStyle = tick.major ? palette.lineStrong : palette.line;
    context.fillRect(x - 0.5, AXIS - (tick.major ? 12 : 6), 1, 12);
    context.font = `${tick.major ? "600 " : ""}11px ${palette.font}`;
    context.fillStyle = tick.major ? palette.ink : palette.faint;
    if (x + 5 < free) continue;
    context.fillText(tick.text, x + 5, AXIS - 9);
    free = x + 12 + context.measureText(tick.text).width;
  }
  const x = toX(span, plan.width, present);
  if (x < 0 || x > plan.width + 2) return;
  context.fillStyle = palette.accent;
  context.beginPath();
  context.moveTo(x - 4.5, AXIS - 7);
  context.lineTo(x + 4.5, AXIS - 7);
  context.lineTo(x, AXIS);
  context.fill();
}

function paintGround({ context, height }: Sheet, { ticks, plan, span, scene, palette, present }: Picture): void {
  for (let lane = 0; lane < scene.lanes.length; lane += 1) {
    context.fillStyle = palette.line;
    context.fillRect(0, plan.lane * (lane + 1) - 1, plan.width, 1);
    if (scene.exact) context.fillRect(0, Math.round(middle(plan, lane)), plan.width, 1);
  }
  for (const tick of ticks) {
    context.fillStyle = tick.major ? palette.lineStrong : palette.line;
    context.globalAlpha = tick.major ? 0.9 : 0.55;
    context.fillRect(Math.round(toX(span, plan.width, tick.at)), 0, 1, height);
  }
  context.globalAlpha = 1;
  const x = toX(span, plan.width, present);
  if (x >= plan.width) return;
  context.fillStyle = palette.beyond;
  context.fillRect(Math.max(0, x), 0, plan.width, height);
}

function paintPresent(context: CanvasRenderingContext2D, { span, plan, palette, present }: Picture, top: number, bottom: number): void {
  const x = toX(span, plan.width, present);
  if (x < 0 || x > plan.width) return;
  context.fillStyle = palette.accent;
  context.fillRect(Math.round(x) - 0.5, top, 1, bottom - top);
}

function paintColumns(context: CanvasRenderingContext2D, picture: Picture): void {
  const { scene, plan, span, palette, hit } = picture;
  const paths = scene.families.map(() => new Path2D());
  const pixels = toX(span, plan.width, span.from + scene.step);
  const wide = Math.max(1, pixels - (pixels > 2.5 ? 1 : 0));
  scene.lanes.forEach((lane, index) => {
    const floor = floorOf(plan, index);
    for (const column of lane.columns) {
      const x = toX(span, plan.width, column.at);
      if (x + wide < 0 || x > plan.width) continue;
      const scale = columnHeight(plan, column.sum, scene.most) / column.sum;
      let bottom = floor;
      for (let family = 0; family < paths.length; family += 1) {
        const high = (column.counts[family] ?? 0) * scale;
        if (high > 0) paths[family]?.rect(x, bottom - high, wide, high);
        bottom -= high;
      }
    }
  });
  scene.families.forEach((family, index) => {
    context.fillStyle = palette.families[family];
    context.globalAlpha = family === "quiet" ? 0.55 : 0.92;
    context.fill(paths[index] as Path2D);
  });
  context.globalAlpha = 1;
  if (hit?.what !== "column") return;
  const lane = scene.lanes.indexOf(hit.lane);
  const x = toX(span, plan.width, hit.column.at);
  context.strokeStyle = palette.ink;
  context.lineWidth = 1;
  const high = columnHeight(plan, hit.column.sum, scene.most);
  context.strokeRect(Math.round(x) - 0.5, Math.round(floorOf(plan, lane) - high) - 1.5, Math.max(3, wide + 1), Math.round(high) + 2);
}

function paintLinks(context: CanvasRenderingContext2D, picture: Picture): void {
  const { scene, span, chain, palette } = picture;
  const inside = scene.links.filter(([from, to]) => to.at >= span.from && from.at <= span.to);
  const seen = inside.length <= FEW_LINKS ? inside : inside.filter(([from, to]) => from.lane !== to.lane);
  if (seen.length <= FEW_LINKS) {
    const path = new Path2D();
    for (const [from, to] of seen) if (!chain?.has(to.id)) addLink(path, picture, from, to);
    context.strokeStyle = palette.faint;
    context.lineWidth = 1;
    context.globalAlpha = chain ? 0.15 : 0.38;
    context.stroke(path);
  }
  context.globalAlpha = 1;
  if (!chain) return;
  const path = new Path2D();
  for (const [from, to] of scene.links) if (chain.has(from.id) && chain.has(to.id)) addLink(path, picture, from, to);
  context.strokeStyle = palette.accent;
  context.lineWidth = 1.6;
  context.stroke(path);
}

function addLink(path: Path2D, { plan, span }: Picture, from: SceneMark, to: SceneMark): void {
  const [x1, x2] = [toX(span, plan.width, from.at), toX(span, plan.width, to.at)];
  const [y1, y2] = [middle(plan, from.lane) + lift(plan, from.family), middle(plan, to.lane) + lift(plan, to.family)];
  path.moveTo(x1, y1);
  if (from.lane === to.lane) {
    const high = Math.min(plan.body * 0.5, 6 + (x2 - x1) * 0.12);
    path.bezierCurveTo(x1 + (x2 - x1) * 0.25, y1 - high, x1 + (x2 - x1) * 0.75, y2 - high, x2, y2);
  } else {
    const bend = Math.max(3, (x2 - x1) * 0.5);
    path.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
  }
}

function paintMarks(context: CanvasRenderingContext2D, picture: Picture): void {
  const { scene, chain, palette } = picture;
  const bright = new Map<Family, Path2D>();
  const dim = new Map<Family, Path2D>();
  for (const lane of scene.lanes) for (const mark of lane.marks) addMark(chain && !chain.has(mark.id) ? dim : bright, picture, mark);
  for (const [paths, alpha] of [[dim, DIM], [bright, 1]] as const) {
    for (const family of UPWARDS) {
      const path = paths.get(family);
      if (!path) continue;
      context.globalAlpha = alpha;
      context.lineWidth = 2;
      context.strokeStyle = palette.ground;
      if (family !== "quiet") context.stroke(path);
      context.fillStyle = palette.families[family];
      context.fill(path);
    }
  }
  context.globalAlpha = 1;
  ringHovered(context, picture);
}

function addMark(paths: Map<Family, Path2D>, { plan, span }: Picture, mark: SceneMark): void {
  const x = toX(span, plan.width, mark.at);
  if (x < -SIZE || x > plan.width + SIZE) return;
  let path = paths.get(mark.family);
  if (!path) paths.set(mark.family, (path = new Path2D()));
  MARKS[mark.family](path, x, middle(plan, mark.lane) + lift(plan, mark.family), plan.body > 40 ? 1.3 : 1);
}

function ringHovered(context: CanvasRenderingContext2D, { hit, plan, span, palette }: Picture): void {
  if (hit?.what !== "mark") return;
  const { mark } = hit;
  context.strokeStyle = palette.ink;
  context.lineWidth = 1.5;
  context.beginPath();
  context.arc(toX(span, plan.width, mark.at), middle(plan, mark.lane) + lift(plan, mark.family), SIZE + 3, 0, Math.PI * 2);
  context.stroke();
}
