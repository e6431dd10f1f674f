import { effect, signal, untracked, type Signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";

import { get, query, token, type Params } from "./api";
import { asOf } from "./clock";
import { connection, onEvents } from "./live";
import { meta } from "./meta";
import { setParams, type Step } from "./router";

export { asOf } from "./clock";

/** Goes to a moment of the past; `null` goes back to live. */
export function setAsOf(moment: string | null, how: Step = "replace"): void {
  setParams({ as_of: moment }, how);
}

export interface View<T> {
  data: T | null;
  error: Error | null;
  loading: boolean;
}

/** `stale`: what is shown answers an earlier question, until the answer to this one is there. */
export type Seen<T> = View<T> & { stale: boolean };

/** One answer of the server, kept fresh for as long as somebody looks at it. */
interface Source<T> {
  state: Signal<View<T>>;
  /** Somebody looks, and wants no more than one answer in `pause` milliseconds; gives what ends it. */
  hold(pause?: number): () => void;
  /** Something happened: ask again soon, but no more often than is wanted, and less often where asking and drawing take long. */
  stir(): void;
  refresh(): void;
}

const EVENTS_PAUSE = 500;
const HIDDEN_PAUSE = 3000;
/** All views together are asked for and drawn in a third of the time at most. */
const REST = 3;
/** What falls silent does so without an event: live answers are asked for again now and then. */
const IDLE_PAUSE = 20_000;
/** What seems to have taken longer was asleep, or hidden. */
const MOST_TAKEN = 3000;
const MOST_KEPT = 24;

class LiveSource<T> implements Source<T> {
  readonly state = signal<View<T>>({ data: null, error: null, loading: true });
  #pauses: number[] = [];
  #asking: AbortController | null = null;
  #again = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #began = 0;
  #took = 0;

  constructor(
    readonly path: string,
    readonly params: Params,
    readonly live: boolean,
  ) {}

  get used(): boolean {
    return this.#pauses.length > 0;
  }

  /** How long the last answer took, from the question until it was drawn, in milliseconds. */
  get took(): number {
    return this.#took;
  }

  hold(pause = EVENTS_PAUSE): () => void {
    this.#pauses.push(pause);
    if (this.#pauses.length === 1 && (this.live || this.state.peek().data === null)) this.refresh();
    return () => {
      this.#pauses.splice(this.#pauses.indexOf(pause), 1);
      if (!this.used) this.#letGo();
    };
  }

  stir(): void {
    if (!this.live || !this.used) return;
    const wait = this.#began + Math.max(document.hidden ? HIDDEN_PAUSE : Math.min(...this.#pauses), REST * allTook()) - Date.now();
    this.#schedule(Math.max(0, wait));
  }

  refresh(): void {
    if (this.#asking) this.#again = true;
    else void this.#ask();
  }

  async #ask(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const asking = (this.#asking = new AbortController());
    const asked = (this.#began = Date.now());
    // A reader who has an answer keeps it: to say that another is on its way would draw everything twice.
    if (this.state.peek().data === null) this.state.value = { ...this.state.peek(), loading: true };
    underWay.value += 1;
    try {
      const data = await get<T>(this.path, this.params, asking.signal);
      this.state.value = { data, error: null, loading: false };
    } catch (error) {
      if (!asking.signal.aborted) this.state.value = { data: this.state.peek().data, error: error as Error, loading: false };
    } finally {
      underWay.value -= 1;
    }
    if (asking.signal.aborted) return;
    this.#asking = null;
    this.#took = Math.min(MOST_TAKEN, Date.now() - this.#began);
    // The second frame begins when the first, with this answer in it, is drawn.
    if (!document.hidden) requestAnimationFrame(() => requestAnimationFrame(() => (this.#took = Math.min(MOST_TAKEN, Date.now() - asked))));
    this.#next();
  }

  #next(): void {
    if (!this.used) return;
    if (this.#again) {
      this.#again = false;
      this.stir();
    } else if (this.live) {
      this.#schedule(IDLE_PAUSE);
    }
  }

  #schedule(wait: number): void {
    if (this.#asking) {
      this.#again = true;
      return;
    }
    if (this.#timer !== undefined && wait >= IDLE_PAUSE) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.refresh(), wait);
  }

  #letGo(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#asking?.abort();
    this.#asking = null;
    this.#again = false;
  }
}

/** How many answers are on their way. */
export const underWay = signal(0);

const sources = new Map<string, LiveSource<unknown>>();

function allTook(): number {
  let sum = 0;
  for (const one of sources.values()) if (one.live && one.used) sum += one.took;
  return sum;
}

/** The source of an answer; requests for the same address share it. */
export function source<T>(path: string, params: Params = {}, live = true): Source<T> {
  const key = path + query(params);
  let found = sources.get(key) as LiveSource<T> | undefined;
  if (found) sources.delete(key);
  else found = new LiveSource<T>(path, params, live);
  sources.set(key, found as LiveSource<unknown>);
  for (const [old, one] of sources) {
    if (sources.size <= MOST_KEPT) break;
    if (!one.used && one !== found) sources.delete(old);
  }
  return found;
}

onEvents(() => sources.forEach((one) => one.stir()));
function refreshUsed(): void {
  sources.forEach((one) => one.used && one.refresh());
}
effect(() => {
  if (connection.value === "live") untracked(refreshUsed);
});
effect(() => {
  if (token.value !== null) untracked(refreshUsed);
});

// While the server reads the log, no events arrive: answers are asked for again as it gets on, and once more at the end.
let wasReading = false;
effect(() => {
  const known = meta.value;
  if (known === null) return;
  if (!known.caught_up || wasReading) untracked(() => sources.forEach((one) => (known.caught_up ? one.used && one.refresh() : one.stir())));
  wasReading = !known.caught_up;
});

/** An answer of the server at the moment that is looked at, kept fresh while that is now. Keeps the last answer while it loads. */
export function useView<T>(path: string, params: Params = {}, pause?: number): Seen<T> {
  const moment = asOf.value;
  const asked = { ...params, as_of: moment };
  const found = useMemo(() => source<T>(path, asked, moment === null), [path + query(asked)]);
  const kept = useMemo(() => ({ path, data: null as T | null }), [path]);
  useEffect(() => found.hold(pause), [found]);
  const state = found.state.value;
  if (state.data !== null) kept.data = state.data;
  return { ...state, data: state.data ?? kept.data, stale: state.data === null };
}
