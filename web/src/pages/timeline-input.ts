/** Hands on the timeline: drag pans, wheel and pinch zoom at the pointer, keys do the same, a touch or click opens. */

import { lengthOf, moved, toTime, zoomed, type Span } from "../charts/span";

interface Hands {
  /** The window as it is now. */
  span(): Span | null;
  show(span: Span): void;
  glide(span: Span): void;
  hover(x: number, y: number): void;
  leave(): void;
  click(x: number, y: number): void;
  /** Up or down, in pixels. */
  scroll(by: number): void;
  /** To the mark before or after the one that is looked at. */
  step(by: -1 | 1): void;
  open(): void;
  edge(which: "first" | "last"): void;
  /** By keys and buttons; a window that follows keeps its right edge. */
  zoom(factor: number): void;
}

const STILL = 4;
const WHEEL = 0.0016;
const LINE = 16;

/** Listens on the canvas; gives what ends it. */
export function handle(canvas: HTMLCanvasElement, hands: Hands): () => void {
  const ends = new AbortController();
  const { signal } = ends;
  const pointers = new Pointers(canvas, hands);
  canvas.addEventListener("pointerdown", (event) => pointers.down(event), { signal });
  canvas.addEventListener("pointermove", (event) => pointers.move(event), { signal });
  canvas.addEventListener("pointerup", (event) => pointers.up(event), { signal });
  canvas.addEventListener("pointercancel", (event) => pointers.drop(event), { signal });
  canvas.addEventListener("pointerleave", () => pointers.isDragging || hands.leave(), { signal });
  canvas.addEventListener("wheel", (event) => wheel(event, canvas, hands), { signal, passive: false });
  canvas.addEventListener("keydown", (event) => key(event, hands), { signal });
  canvas.addEventListener("blur", () => hands.leave(), { signal });
  return () => ends.abort();
}

class Pointers {
  readonly #at = new Map<number, { x: number; y: number }>();
  #travelled = 0;

  constructor(
    readonly canvas: HTMLCanvasElement,
    readonly hands: Hands,
  ) {}

  get isDragging(): boolean {
    return this.#at.size > 0;
  }

  down(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.#at.set(event.pointerId, place(event, this.canvas));
    if (this.#at.size === 1) this.#travelled = 0;
  }

  move(event: PointerEvent): void {
    const here = place(event, this.canvas);
    const before = this.#at.get(event.pointerId);
    if (!before) return this.hands.hover(here.x, here.y);
    this.#travelled += Math.abs(here.x - before.x) + Math.abs(here.y - before.y);
    if (this.#travelled < STILL) return;
    const span = this.hands.span();
    if (span && this.#at.size === 1) this.#pan(span, before, here, event.pointerType);
    if (span && this.#at.size === 2) this.#pinch(span, event.pointerId, before, here);
    // A drag moves what is under the pointer, up and down too: measured again after the scroll.
    this.#at.set(event.pointerId, place(event, this.canvas));
  }

  up(event: PointerEvent): void {
    const here = place(event, this.canvas);
    if (this.#at.delete(event.pointerId) && this.#travelled < STILL) this.hands.click(here.x, here.y);
    this.canvas.classList.toggle("dragging", this.isDragging);
  }

  drop(event: PointerEvent): void {
    this.#at.delete(event.pointerId);
    this.canvas.classList.toggle("dragging", this.isDragging);
  }

  #pan(span: Span, before: Point, here: Point, type: string): void {
    this.canvas.classList.add("dragging");
    this.hands.leave();
    this.hands.show(moved(span, ((before.x - here.x) / this.canvas.clientWidth) * lengthOf(span)));
    // A finger scrolls by itself (touch-action: pan-y); a mouse is helped.
    if (type === "mouse") this.hands.scroll(before.y - here.y);
  }

  #pinch(span: Span, id: number, before: Point, here: Point): void {
    const [, other] = [...this.#at].find(([one]) => one !== id) ?? [];
    if (!other) return;
    const wide = this.canvas.clientWidth;
    const [was, is] = [Math.max(12, Math.abs(before.x - other.x)), Math.max(12, Math.abs(here.x - other.x))];
    this.hands.show(zoomed(span, was / is, toTime(span, wide, (here.x + other.x) / 2)));
  }
}

type Point = { readonly x: number; readonly y: number };

function place(event: MouseEvent, canvas: HTMLCanvasElement): Point {
  const box = canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

function wheel(event: WheelEvent, canvas: HTMLCanvasElement, hands: Hands): void {
  const span = hands.span();
  if (!span) return;
  event.preventDefault();
  const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE : 1;
  const [across, down] = [event.deltaX * unit, event.deltaY * unit];
  const wide = canvas.clientWidth;
  if (event.altKey) return hands.scroll(down);
  if (event.shiftKey || Math.abs(across) > Math.abs(down)) return hands.show(moved(span, (((across || down) / wide) * lengthOf(span))));
  // A pinch on a touchpad comes as a wheel with ctrl, in small steps.
  const factor = Math.exp(Math.max(-160, Math.min(160, down)) * WHEEL * (event.ctrlKey ? 6 : 1));
  hands.show(zoomed(span, factor, toTime(span, wide, place(event, canvas).x)));
}

function key(event: KeyboardEvent, hands: Hands): void {
  const span = hands.span();
  if (!span || event.ctrlKey || event.metaKey || event.altKey) return;
  const act = actions(span, hands, event.shiftKey)[event.key];
  if (!act) return;
  event.preventDefault();
  event.stopPropagation();
  act();
}

function actions(span: Span, hands: Hands, isShifted: boolean): Record<string, () => void> {
  const step = lengthOf(span) * 0.2;
  const sideways = (by: -1 | 1) => (isShifted ? () => hands.step(by) : () => hands.glide(moved(span, by * step)));
  const zoomIn = (): void => hands.zoom(0.6);
  const zoomOut = (): void => hands.zoom(1 / 0.6);
  return {
    "+": zoomIn,
    "=": zoomIn,
    "-": zoomOut,
    "−": zoomOut,
    ArrowLeft: sideways(-1),
    ArrowRight: sideways(1),
    ArrowUp: () => hands.scroll(-60),
    ArrowDown: () => hands.scroll(60),
    Home: () => hands.edge("first"),
    End: () => hands.edge("last"),
    Enter: () => hands.open(),
  };
}
