/** The list of events: pages of a hundred, new ones on top, and those that wait while somebody reads further down. */

import { batch, effect, signal, untracked } from "@preact/signals";

import { get, type Params } from "../api";
import { asOf, now } from "../clock";
import { joinedAt, letGo, onEvents } from "../live";
import type { EventsAnswer, FoundEvent, SearchAnswer } from "../api/types";
import { isWanted, sinceTime, type Filter } from "./events-filter";

/** The scope of a conversation that has not begun: it has no events, and the server is not asked for any. */
export const NO_RUN = "run:-";
const PAGE = 100;
export const MOST_FOUND = 200;
const MOST_WAITING = 500;
/** So many rows are held while new ones come in on top: those below are asked for again by whoever scrolls down to them. */
export const MOST_ROWS = 1000;
const SEARCH_PAUSE = 3000;
const RETRY = 3000;

export class EventsModel {
  readonly rows = signal<readonly FoundEvent[]>([]);
  /** What came while the reader was further down. */
  readonly waiting = signal<readonly FoundEvent[]>([]);
  readonly error = signal<Error | null>(null);
  readonly loading = signal(true);
  /** Whether there are older ones. */
  readonly more = signal(false);
  readonly indexing = signal(false);
  /** The newest that came by itself, to be greeted. */
  readonly arrived = signal<ReadonlySet<string>>(new Set());
  /** Whether new ones may push the list down: set by the page, when it is at the top. */
  isAtTop = true;
  #filter: Filter;
  #known = new Set<string>();
  #next: string | null = null;
  #asking: AbortController | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #lastSearch = 0;
  /** Where the stream had begun when the list was last asked for. */
  #joined: string | null = null;
  /** What came since then, newest first: the answer may be older than that. */
  #meanwhile: readonly FoundEvent[] = [];
  #letGo = letGo.peek();
  /** Whether events went by that are not in the list, while the reader was further down. */
  #hasGap = false;

  constructor(filter: Filter) {
    this.#filter = filter;
  }

  /** Begins; gives what ends it. */
  start(): () => void {
    const ends = [
      effect(() => {
        void asOf.value;
        this.restart(this.#filter);
      }),
      effect(() => {
        const joined = joinedAt.value;
        untracked(() => this.#catchUp(joined));
      }),
      effect(() => {
        const many = letGo.value;
        untracked(() => this.#miss(many));
      }),
      onEvents((events) => this.#handle(events)),
    ];
    return () => {
      ends.forEach((end) => end());
      this.#asking?.abort();
      clearTimeout(this.#timer);
    };
  }

  /** Begins anew with another filter; what is shown stays until the answer is there. */
  restart(filter: Filter): void {
    this.#filter = filter;
    void this.#ask("anew");
  }

  older(): void {
    if (this.more.peek() && !this.loading.peek()) void this.#ask("older");
  }

  /** Puts those that wait on top. */
  takeWaiting(): void {
    const waiting = this.waiting.peek();
    if (this.#hasGap || waiting.length >= MOST_WAITING) return this.restart(this.#filter);
    batch(() => {
      this.waiting.value = [];
      this.#putOnTop(waiting);
    });
  }

  async #ask(what: "anew" | "older"): Promise<void> {
    clearTimeout(this.#timer);
    this.#asking?.abort();
    const asking = (this.#asking = new AbortController());
    if (what === "anew") {
      this.#joined = joinedAt.peek();
      this.#meanwhile = [];
      this.#hasGap = false;
    }
    this.loading.value = true;
    try {
      const answer = await this.#answer(what, asking.signal);
      batch(() => this.#take(what, answer));
    } catch (error) {
      if (asking.signal.aborted) return;
      this.error.value = error as Error;
      this.#timer = setTimeout(() => void this.#ask(what), RETRY);
    }
    this.loading.value = false;
  }

  async #answer(what: "anew" | "older", signal: AbortSignal): Promise<EventsAnswer & { indexing?: boolean }> {
    if (this.#filter.scope === NO_RUN) return { events: [], next: null };
    return this.#filter.q ? this.#search(signal) : this.#read(what, signal);
  }

  #take(what: "anew" | "older", answer: EventsAnswer & { indexing?: boolean }): void {
    if (what === "anew") {
      this.#known = new Set();
      this.waiting.value = [];
      this.arrived.value = new Set();
    }
    const newest = answer.events[0]?.position ?? "";
    const later = what === "anew" ? this.#meanwhile.filter((event) => (event.position ?? "") > newest) : [];
    const fresh = [...later, ...answer.events].filter((event) => !this.#known.has(event.id));
    for (const event of fresh) this.#known.add(event.id);
    this.rows.value = what === "anew" ? fresh : [...this.rows.peek(), ...fresh];
    this.#next = answer.next;
    this.more.value = answer.next !== null;
    this.indexing.value = answer.indexing === true;
    this.error.value = null;
  }

  async #read(what: "anew" | "older", abort: AbortSignal): Promise<EventsAnswer> {
    const before = what === "older" ? this.#next : null;
    return get<EventsAnswer>("/api/events", { ...this.#params(), before, order: "newest", limit: PAGE }, abort);
  }

  async #search(abort: AbortSignal): Promise<EventsAnswer & { indexing: boolean }> {
    this.#lastSearch = Date.now();
    const { since: _since, ...params } = this.#params();
    const answer = await get<SearchAnswer>("/api/search", { ...params, q: this.#filter.q, limit: MOST_FOUND }, abort);
    const recent = answer.events.filter((event) => isWanted(event, this.#filter, now.peek()));
    return { events: recent, next: null, indexing: answer.indexing };
  }

  #params(): Params {
    return { scope: this.#filter.scope, kind: this.#filter.kinds, since: sinceTime(this.#filter.since, now.peek()), as_of: asOf.peek() };
  }

  /** What came after our first answer and before the stream began is in neither. */
  #catchUp(joined: string | null): void {
    const newest = this.rows.peek()[0]?.position ?? "";
    if (joined !== null && joined !== this.#joined && asOf.peek() === null && newest < joined) this.restart(this.#filter);
  }

  /** Events went by unheard: the list begins anew, as soon as that does not take it from under the reader. */
  #miss(many: number): void {
    if (many === this.#letGo) return;
    this.#letGo = many;
    if (asOf.peek() !== null) return;
    if (this.isAtTop) this.restart(this.#filter);
    else this.#hasGap = true;
  }

  #handle(events: readonly FoundEvent[]): void {
    if (asOf.peek() !== null) return;
    if (this.#filter.q) return this.#searchAgain();
    if (this.#hasGap && this.isAtTop) return this.restart(this.#filter);
    const wanted = events.filter((event) => !this.#known.has(event.id) && isWanted(event, this.#filter, now.peek())).reverse();
    if (wanted.length === 0) return;
    if (this.loading.peek()) this.#meanwhile = [...wanted, ...this.#meanwhile];
    for (const event of wanted) this.#known.add(event.id);
    if (this.isAtTop && this.waiting.peek().length === 0) this.#putOnTop(wanted);
    else this.waiting.value = [...wanted, ...this.waiting.peek()].slice(0, MOST_WAITING);
  }

  #putOnTop(events: readonly FoundEvent[]): void {
    this.arrived.value = new Set(events.map((event) => event.id));
    this.rows.value = [...events, ...this.rows.peek()];
    // An answer that is on its way goes on from the end of the list as it is.
    if (this.rows.peek().length > 2 * MOST_ROWS && !this.loading.peek()) this.#shorten();
  }

  #shorten(): void {
    const rows = this.rows.peek().slice(0, MOST_ROWS);
    this.rows.value = rows;
    this.#known = new Set([...rows, ...this.waiting.peek()].map((event) => event.id));
    this.#next = rows.at(-1)?.position ?? this.#next;
    this.more.value = true;
  }

  /** What matches words only the server knows: asked again, now and then. */
  #searchAgain(): void {
    if (this.loading.peek() || !this.isAtTop) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#ask("anew"), Math.max(0, this.#lastSearch + SEARCH_PAUSE - Date.now()));
  }
}
