import { signal, type Signal } from "@preact/signals";

import { get } from "../api";
import { asOf } from "../clock";
import { letGo, onEvents } from "../live";
import type { TranscriptAnswer, TranscriptRow } from "../api/types";

/** The first rows are few, so that they are there at once. */
const FIRST = 80;
const MORE = 400;
/** Calls without a result are looked for again among so many last rows. */
const OPEN_CALLS = 300;
const LIVE_PAUSE = 300;

export interface Turn {
  number: number;
  usd: number;
  tokens: number;
  calls: number;
  from: number;
  to: number;
}

export interface Item {
  row: TranscriptRow;
  /** Rows of the sub-agent that this row launched. */
  steps: number;
  isOpen: boolean;
  isNested: boolean;
  turn: Turn | null;
}

/** Rows of a transcript as they are shown: those of a sub-agent under the row that launched it, if that is open. */
export function arrange(rows: readonly TranscriptRow[], opened: ReadonlySet<string>): Item[] {
  const launched = new Set(rows.flatMap((row) => (row.kind === "launch" && row.child ? [row.child] : [])));
  const nested = new Map<string, TranscriptRow[]>();
  const own: TranscriptRow[] = [];
  for (const row of rows) {
    const agent = row.agent;
    if (!agent || !launched.has(agent)) own.push(row);
    else if (nested.has(agent)) nested.get(agent)?.push(row);
    else nested.set(agent, [row]);
  }
  const turns = countTurns(rows);
  const items: Item[] = [];
  const add = (row: TranscriptRow, isNested: boolean): void => {
    const steps = row.kind === "launch" && row.child ? nested.get(row.child) ?? [] : [];
    const isOpen = steps.length > 0 && opened.has(row.child ?? "");
    items.push({ row, steps: steps.length, isOpen, isNested, turn: turns.get(row.id) ?? null });
    if (isOpen) for (const step of steps) if (step !== row) add(step, true);
  };
  for (const row of own) add(row, false);
  return items;
}

function countTurns(rows: readonly TranscriptRow[]): Map<string, Turn> {
  const turns = new Map<string, Turn>();
  let turn: Turn | null = null;
  for (const row of rows) {
    const at = Date.parse(row.at ?? "");
    if (row.kind === "prompt" && !row.agent) {
      turn = { number: turns.size + 1, usd: 0, tokens: 0, calls: 0, from: at, to: at };
      turns.set(row.id, turn);
    }
    if (!turn) continue;
    turn.usd += row.usd ?? 0;
    turn.tokens += row.tokens ?? 0;
    if (row.tool) turn.calls += 1;
    const end = at + (row.seconds ?? 0) * 1000;
    if (end > turn.to) turn.to = end;
  }
  return turns;
}

/** The position after which rows are asked for again: before the first of the last calls that had no result. */
function askAfter(rows: readonly TranscriptRow[], last: string | null): string | null {
  const from = Math.max(0, rows.length - OPEN_CALLS);
  for (let index = from; index < rows.length; index += 1) {
    const row = rows[index] as TranscriptRow;
    if (row.tool && !row.result) {
      const before = rows.slice(0, index).reduce((most, one) => ((one.position ?? "") < (row.position ?? "") && (one.position ?? "") > most ? one.position ?? "" : most), "");
      return before || null;
    }
  }
  return last;
}

/** New rows added to known ones; a row with the same id is replaced. */
function merge(known: readonly TranscriptRow[], added: readonly TranscriptRow[]): TranscriptRow[] {
  const places = new Map(known.slice(-OPEN_CALLS * 2).map((row, index) => [row.id, Math.max(0, known.length - OPEN_CALLS * 2) + index]));
  const merged = [...known];
  for (const row of added) {
    const place = places.get(row.id);
    if (place === undefined) merged.push(row);
    else merged[place] = row;
  }
  return merged;
}

interface Loaded {
  rows: TranscriptRow[];
  isComplete: boolean;
  error: Error | null;
  agent: string;
}

/** Reads a transcript page by page, and what comes later while the present is shown. */
export class Transcript {
  readonly state: Signal<Loaded> = signal({ rows: [], isComplete: false, error: null, agent: "" });
  #abort = new AbortController();
  #last: string | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isAsking = false;
  #again = false;
  #stopListening: () => void = () => undefined;

  constructor(readonly session: string) {}

  start(): () => void {
    void this.#read(null, FIRST);
    if (asOf.peek() === null) {
      this.#stopListening = onEvents((events) => events.some((event) => event.run === this.session) && this.#stir());
    }
    let missed = letGo.peek();
    const stopMissed = letGo.subscribe((many) => {
      if (many !== missed) this.#stir();
      missed = many;
    });
    return () => {
      this.#abort.abort();
      clearTimeout(this.#timer);
      this.#stopListening();
      stopMissed();
    };
  }

  #stir(): void {
    if (this.#isAsking) this.#again = true;
    else if (this.#timer === undefined) {
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        void this.#read(askAfter(this.state.peek().rows, this.#last), MORE);
      }, LIVE_PAUSE);
    }
  }

  async #read(from: string | null, size: number): Promise<void> {
    if (this.#isAsking) {
      this.#again = true;
      return;
    }
    this.#isAsking = true;
    try {
      let [after, limit] = [from, size];
      for (;;) {
        const page = await get<TranscriptAnswer>(`/api/sessions/${encodeURIComponent(this.session)}/transcript`, { after, limit, as_of: asOf.peek() }, this.#abort.signal);
        const { rows } = this.state.peek();
        this.#last = page.last ?? this.#last;
        this.state.value = { rows: merge(rows, page.rows), isComplete: page.next === null, error: null, agent: page.agent };
        if (page.next === null) break;
        [after, limit] = [page.next, MORE];
      }
    } catch (error) {
      if (!this.#abort.signal.aborted) this.state.value = { ...this.state.peek(), error: error as Error };
    }
    this.#isAsking = false;
    if (this.#again && !this.#abort.signal.aborted) {
      this.#again = false;
      this.#stir();
    }
  }
}
