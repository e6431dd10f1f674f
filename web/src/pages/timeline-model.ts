/** The timeline's state: which stretch of time is shown, the newest answer about it, and when to ask for another. */

import { batch, computed, effect, signal } from "@preact/signals";

import { get } from "../api";
import { MINUTE, HOUR, DAY, asked, covers, endingAt, everything, instant, lengthOf, moment, newestWork, within, zoomed, type Bounds, type Span } from "../charts/span";
import { asOf, now } from "../clock";
import { joinedAt, onEvents } from "../live";
import { meta } from "../meta";
import { params, setParams } from "../router";
import type { Head, LoreEvent, Meta, TimelineAnswer } from "../api/types";
import { calm } from "../theme";
import { COLUMN } from "./timeline-condense";
import { sceneOf, type Scene } from "./timeline-scene";

/** What is asked for beyond each edge, as a share of the window. */
const SPARE = 0.25;
const DEBOUNCE = 120;
const LIVE_PAUSE = 700;
const RETRY = 3000;
const ADDRESS_PAUSE = 350;
const GLIDE = 190;
const MOST_WIDTH = 2000;
/** The share of the window that is left free to the right of now. */
const AIR = 0.025;

export class TimelineModel {
  readonly span = signal<Span | null>(null);
  readonly follow = signal(true);
  readonly scene = signal<Scene | null>(null);
  /** The scene as it is drawn: crowded marks are columns there. */
  readonly drawn = signal<Scene | null>(null);
  readonly error = signal<Error | null>(null);
  readonly only = computed(() => params.value.get("agent"));
  #width = 1000;
  #stale = false;
  #asking: AbortController | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #addressTimer: ReturnType<typeof setTimeout> | undefined;
  #lastAsked = 0;
  #took = 0;
  #written = "";
  #gliding = 0;
  #first = 0;
  #last = 0;
  /** What is shown as long as the log is being read and nobody chose another stretch. */
  #firstLook: Span | null = null;
  /** The first look, until its answer is there. */
  #wide: Span | null = null;
  #tick = { now: 0, at: 0 };
  /** The time of the position that is looked at, where the address names one. */
  #placed: number | null = null;
  #ends: (() => void)[] = [];

  /** Begins; gives what ends it. */
  start(): () => void {
    this.#ends = [
      effect(() => this.#onClock(now.value)),
      effect(() => this.#begin(meta.value)),
      effect(() => this.#onAddress(params.value)),
      effect(() => void this.#onMoment(asOf.value)),
      effect(() => {
        void this.only.value;
        this.#want();
      }),
      effect(() => {
        // What came between our first answer and the stream is in neither.
        if (joinedAt.value !== null) this.#stale = true;
        this.#want();
      }),
      onEvents((events) => this.#onEvents(events)),
    ];
    return () => {
      this.#ends.forEach((end) => end());
      this.#asking?.abort();
      cancelAnimationFrame(this.#gliding);
      for (const timer of [this.#timer, this.#addressTimer]) clearTimeout(timer);
    };
  }

  /** Now to the millisecond, or the moment of the past that is shown. */
  present(): number {
    if (asOf.peek() === null) return this.#tick.now + Math.min(performance.now() - this.#tick.at, 2000);
    return moment(asOf.peek()) ?? this.#placed ?? now.peek();
  }

  bounds(length: number): Bounds {
    const last = this.present();
    return { first: this.#first || last - HOUR, last: last + length * AIR };
  }

  setWidth(width: number): void {
    this.#width = Math.max(120, width);
    this.#want();
  }

  /** Shows another stretch; one that reaches now follows from there on. */
  show(span: Span): void {
    cancelAnimationFrame(this.#gliding);
    this.#show(span);
  }

  /** Goes there in a few frames. */
  glide(target: Span): void {
    cancelAnimationFrame(this.#gliding);
    const [from, began] = [this.span.peek(), performance.now()];
    if (!from || calm.matches) return this.#show(target);
    const step = (): void => {
      const done = Math.min(1, (performance.now() - began) / GLIDE);
      const eased = 1 - (1 - done) ** 3;
      this.#show({ from: from.from + (target.from - from.from) * eased, to: from.to + (target.to - from.to) * eased });
      if (done < 1) this.#gliding = requestAnimationFrame(step);
    };
    step();
  }

  /** The stretch of this length that ends where the present one does, or now. */
  glideTo(length: number | "all"): void {
    const span = this.span.peek();
    if (!span) return;
    if (length === "all") return this.glide(everything({ first: this.#first, last: this.present() }));
    const last = this.follow.peek() ? this.present() + length * AIR : Math.min((span.from + span.to) / 2 + length / 2, this.bounds(length).last);
    this.glide(endingAt(last, length));
  }

  /** Longer or shorter around its middle; following, up to now. */
  zoom(factor: number): void {
    const span = this.current();
    if (span) this.glide(zoomed(span, factor, this.follow.peek() ? this.present() : (span.from + span.to) / 2));
  }

  setFollow(wanted: boolean): void {
    this.follow.value = wanted;
    const span = this.span.peek();
    if (wanted && span) this.glide(endingAt(this.present() + lengthOf(span) * AIR, lengthOf(span)));
    else this.#writeAddress();
  }

  /** Where the window is now: following, it moves with the clock. */
  current(): Span | null {
    const span = this.span.peek();
    return span && this.follow.peek() ? endingAt(this.present() + lengthOf(span) * AIR, lengthOf(span)) : span;
  }

  #show(span: Span): void {
    const length = lengthOf(span);
    const bounds = this.bounds(length);
    batch(() => {
      this.span.value = within(span, bounds);
      this.follow.value = span.to >= bounds.last - length * 0.004;
    });
    this.#writeAddress();
    this.#want();
  }

  #begin(known: Meta | null): void {
    const [first, last] = [moment(known?.first_at), moment(known?.last_at)];
    const isLost = asOf.peek() !== null && moment(asOf.peek()) === null && this.#placed === null;
    if (first === null || last === null || isLost) return;
    // While the log is being read, the first look goes on to what was read; a stretch that the reader chose stays.
    const shown = this.span.peek();
    if (shown !== null && (shown !== this.#firstLook || last <= this.#last)) return;
    if (shown !== null) this.#stale = true;
    this.#first = first;
    this.#last = last;
    const given = shown === null ? this.#fromAddress() : null;
    this.#show(given ?? firstLook({ first, last }, this.present()));
    this.#wide = given === null && known?.caught_up ? this.span.peek() : null;
    this.#firstLook = known?.caught_up ? null : this.span.peek();
  }

  /** A first look that is mostly empty becomes one at the newest work in it. */
  #narrow(scene: Scene): void {
    if (this.#wide === null || this.#wide !== this.span.peek()) return;
    const wide = this.#wide;
    this.#wide = null;
    const times = scene.lanes.flatMap((lane) => [...lane.marks, ...lane.columns].map((one) => one.at)).filter((at) => at >= wide.from && at <= wide.to);
    const work = newestWork(times, HOUR);
    if (!work || lengthOf(work) >= lengthOf(wide) / 4) return;
    this.#stale = true;
    const last = isLiving(this.#last, this.present()) ? this.present() : work.to;
    const length = (last - work.from) * (1 + SPARE) + 2 * MINUTE;
    this.#show(endingAt(last + length * AIR, length));
  }

  #fromAddress(): Span | null {
    const [from, to, last] = [moment(params.peek().get("from")), moment(params.peek().get("to")), Number(params.peek().get("last"))];
    if (from !== null && to !== null && to > from) return { from, to };
    return last > 0 ? endingAt(this.present() + last * 1000 * AIR, last * 1000) : null;
  }

  #writeAddress(): void {
    clearTimeout(this.#addressTimer);
    this.#addressTimer = setTimeout(() => {
      const span = this.span.peek();
      if (!span) return;
      const length = String(Math.round(lengthOf(span) / 1000));
      const said = this.follow.peek() ? { last: length, from: null, to: null } : { last: null, from: instant(span.from), to: instant(span.to) };
      this.#written = JSON.stringify([said.last, said.from, said.to]);
      setParams(said);
    }, ADDRESS_PAUSE);
  }

  #onAddress(given: URLSearchParams): void {
    const said = JSON.stringify([given.get("last"), given.get("from"), given.get("to")]);
    const span = this.#fromAddress();
    if (said !== this.#written && span && this.span.peek()) this.#show(span);
    this.#written = said;
  }

  #onClock(time: number): void {
    this.#tick = { now: time, at: performance.now() };
    const span = this.span.peek();
    if (!span || !this.follow.peek()) return;
    this.span.value = this.current();
    this.#want();
  }

  async #onMoment(given: string | null): Promise<void> {
    this.#placed = null;
    if (given !== null && moment(given) === null) this.#placed = await get<Head>("/api/fleet", { as_of: given }).then((head) => moment(head.at), () => null);
    if (given !== asOf.peek()) return;
    this.#stale = true;
    this.#begin(meta.peek());
    const span = this.span.peek();
    if (span) this.#show(this.follow.peek() ? (this.current() ?? span) : span);
  }

  #onEvents(events: readonly LoreEvent[]): void {
    if (asOf.peek() !== null) return;
    const scene = this.scene.peek();
    if (!scene || events.some((event) => Date.parse(event.at) >= scene.from)) this.#stale = true;
    if (this.#stale) this.#want();
  }

  #isEnough(span: Span): boolean {
    const scene = this.scene.peek();
    if (!scene || this.#stale || scene.agent !== this.only.peek()) return false;
    const needed = { from: Math.max(span.from, Math.min(this.#first, span.to)), to: Math.min(span.to, this.present()) };
    if (!covers(scene, needed)) return false;
    const wanted = this.#asked(span);
    return scene.exact || (scene.wanted === wanted.step && lengthOf(scene) < lengthOf(wanted) * 1.2);
  }

  #asked(span: Span): Span & { step: number } {
    return asked(span, Math.min(this.#width, MOST_WIDTH / (1 + 2 * SPARE) - 4 * COLUMN) / COLUMN, SPARE);
  }

  /** Asks soon, if what is there is not enough: once the hand rests, and not too often for what only lives on. */
  #want(): void {
    const span = this.span.peek();
    if (!span || this.#isEnough(span)) return;
    const living = this.#stale && this.follow.peek();
    const wait = living ? Math.max(0, this.#lastAsked + Math.max(LIVE_PAUSE, 3 * this.#took) - Date.now()) : DEBOUNCE;
    if (living && (this.#asking || this.#timer !== undefined)) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#ask(), wait);
  }

  async #ask(): Promise<void> {
    this.#timer = undefined;
    const span = this.span.peek();
    if (!span) return;
    this.#asking?.abort();
    const asking = (this.#asking = new AbortController());
    this.#stale = false;
    this.#lastAsked = Date.now();
    const { from, to, step } = this.#asked(span);
    const agent = this.only.peek();
    const question = { from: instant(from), to: instant(to), as_of: asOf.peek(), width: Math.round((to - from) / step) * COLUMN, agent };
    try {
      const answer = await get<TimelineAnswer>("/api/timeline", question, asking.signal);
      this.#took = Date.now() - this.#lastAsked;
      this.#first = moment(answer.first_at) ?? this.#first;
      batch(() => {
        this.scene.value = sceneOf(answer, { wanted: step, agent });
        this.error.value = null;
        this.#narrow(this.scene.value);
      });
    } catch (error) {
      if (asking.signal.aborted) return;
      this.error.value = error as Error;
      this.#timer = setTimeout(() => void this.#ask(), RETRY);
    }
    if (this.#asking === asking) this.#asking = null;
    if (this.#stale) this.#want();
  }
}

function isLiving(last: number, present: number): boolean {
  return present - last < 10 * MINUTE;
}

/** What is shown first: all of it if that is no more than a day, else the last day; from the end of what is known. */
function firstLook(known: Bounds, present: number): Span {
  const last = isLiving(known.last, present) ? present : known.last;
  const length = Math.min(DAY, Math.max(last - known.first, 5 * MINUTE)) * 1.05;
  return endingAt(last + length * AIR, length);
}
