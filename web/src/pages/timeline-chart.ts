/** The canvases of the timeline, kept drawn: brings together the model, the painter and the hands. No markup here. */

import { effect, signal } from "@preact/signals";

import { Frame, Sheet } from "../charts/canvas";
import { palette } from "../charts/palette";
import { lengthOf, moved, toX, type Span } from "../charts/span";
import { ticksOf } from "../charts/ticks";
import { asOf } from "../clock";
import { columnsNeeded, condensed } from "./timeline-condense";
import { handle } from "./timeline-input";
import type { TimelineModel } from "./timeline-model";
import { paintAxis, paintLanes } from "./timeline-paint";
import { AXIS, hitAt, lift, middle, planOf, sameHit, type Hit, type Plan } from "./timeline-plan";
import { chainOf, type Scene, type SceneMark } from "./timeline-scene";

export interface Pointed {
  readonly hit: Hit;
  readonly x: number;
  readonly y: number;
}

/** Slower than this, a following window moves with the clock's seconds and needs no frames of its own. */
const FEWEST_PIXELS = 2;

export class TimelineChart {
  /** What is under the pointer, or looked at by keys, and where on the lanes' canvas. */
  readonly pointed = signal<Pointed | null>(null);
  readonly plan = signal<Plan>(planOf(1000, 400, 1));
  readonly #lanes: Sheet;
  readonly #axis: Sheet;
  readonly #frame = new Frame(() => this.#draw());
  readonly #ends: (() => void)[];
  #condensed: { scene: Scene | null; step: number | null } = { scene: null, step: null };

  constructor(
    readonly model: TimelineModel,
    readonly scroller: HTMLElement,
    lanes: HTMLCanvasElement,
    axisCanvas: HTMLCanvasElement,
    readonly onOpen: (hit: Hit) => void,
  ) {
    this.#lanes = new Sheet(lanes);
    this.#axis = new Sheet(axisCanvas);
    const observer = new ResizeObserver(() => this.#measure());
    observer.observe(scroller);
    this.#ends = [
      () => observer.disconnect(),
      effect(() => this.#handle()),
      handle(lanes, {
        span: () => model.current(),
        show: (span) => model.show(span),
        glide: (span) => model.glide(span),
        hover: (x, y) => this.#point(x, y),
        leave: () => this.#leave(),
        click: (x, y) => this.#click(x, y),
        scroll: (by) => (scroller.scrollTop += by),
        step: (by) => this.#step(by),
        open: () => this.#open(),
        edge: (which) => this.#toEdge(which),
        zoom: (factor) => model.zoom(factor),
      }),
    ];
  }

  end(): void {
    this.#ends.forEach((one) => one());
    this.#frame.cancel();
  }

  #handle(): void {
    const { span, follow, scene } = this.model;
    void [span.value, follow.value, palette.value, asOf.value, this.pointed.value];
    if (scene.value) this.#measure();
    this.#frame.request();
  }

  #measure(): void {
    const wide = this.#lanes.canvas.parentElement?.clientWidth ?? 0;
    const room = this.scroller.clientHeight - AXIS;
    const next = planOf(wide, room, this.model.scene.peek()?.lanes.length ?? 1);
    const last = this.plan.peek();
    if (next.width !== last.width) this.model.setWidth(next.width);
    if (next.width !== last.width || next.lane !== last.lane || next.height !== last.height) this.plan.value = next;
    this.#frame.request();
  }

  /** What is drawn of the scene, made anew only where something of it changed. */
  #condense(span: Span, width: number): Scene | null {
    const scene = this.model.scene.peek();
    const step = scene && columnsNeeded(scene, span, width);
    if (scene !== this.#condensed.scene || step !== this.#condensed.step) {
      this.#condensed = { scene, step };
      this.model.drawn.value = scene && step ? condensed(scene, step) : scene;
    }
    return this.model.drawn.peek();
  }

  #draw(): void {
    const [span, plan] = [this.model.current(), this.plan.peek()];
    if (!span || plan.width === 0) return;
    const shared = { plan, span, ticks: ticksOf(span, plan.width), present: this.model.present(), palette: palette.peek() };
    this.#axis.resize(plan.width, AXIS);
    paintAxis(this.#axis, shared);
    const scene = this.#condense(span, plan.width);
    if (!scene) return;
    this.#lanes.resize(plan.width, plan.height);
    const hit = this.pointed.peek()?.hit ?? null;
    const found = hit?.what === "mark" ? chainOf(scene, hit.mark.id) : null;
    const chain = found && found.size > 1 ? found : null;
    paintLanes(this.#lanes, { ...shared, scene, hit, chain });
    if (this.#isMoving(span, plan)) this.#frame.request();
  }

  #isMoving(span: Span, plan: Plan): boolean {
    const pixelsASecond = (1000 / lengthOf(span)) * plan.width;
    return this.model.follow.peek() && asOf.peek() === null && pixelsASecond > FEWEST_PIXELS;
  }

  #point(x: number, y: number): void {
    const [scene, span] = [this.model.drawn.peek(), this.model.current()];
    const hit = scene && span ? hitAt(scene, this.plan.peek(), span, x, y) : null;
    this.#lanes.canvas.classList.toggle("pointing", hit !== null);
    if (sameHit(hit, this.pointed.peek()?.hit ?? null)) return;
    this.pointed.value = hit && { hit, x, y };
  }

  #leave(): void {
    this.pointed.value = null;
  }

  #click(x: number, y: number): void {
    this.#point(x, y);
    this.#open();
  }

  #open(): void {
    const hit = this.pointed.peek()?.hit;
    if (hit) this.onOpen(hit);
  }

  #toEdge(which: "first" | "last"): void {
    const [scene, span] = [this.model.scene.peek(), this.model.current()];
    if (which === "last") this.model.setFollow(true);
    else if (scene?.first && span) this.model.glide(moved(span, scene.first - span.from - lengthOf(span) * 0.02));
  }

  /** The mark before or after the one that is looked at, on any lane; the window follows. */
  #step(by: -1 | 1): void {
    const [scene, span, plan] = [this.model.scene.peek(), this.model.current(), this.plan.peek()];
    if (!scene || !span) return;
    const marks = [...scene.marks.values()];
    const hit = this.pointed.peek()?.hit;
    const index = hit?.what === "mark" ? marks.findIndex((mark) => mark.id === hit.mark.id) + by : beginning(marks, span, by);
    const mark = marks[index];
    const lane = mark && scene.lanes[mark.lane];
    if (!mark || !lane) return;
    if (mark.at < span.from || mark.at > span.to) this.model.show(moved(span, mark.at - (span.from + span.to) / 2));
    const shown = this.model.current() ?? span;
    this.pointed.value = { hit: { what: "mark", mark, lane }, x: toX(shown, plan.width, mark.at), y: middle(plan, mark.lane) + lift(plan, mark.family) };
  }
}

function beginning(marks: readonly SceneMark[], span: Span, by: -1 | 1): number {
  return by > 0 ? marks.findIndex((mark) => mark.at >= span.from) : marks.findLastIndex((mark) => mark.at <= span.to);
}
