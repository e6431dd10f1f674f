import { effect, signal } from "@preact/signals";

import { headers, locked, refusal, token } from "./api";
import type { LoreEvent } from "./api/types";
import { SseParser, type Message } from "./sse";

export type Connection = "live" | "connecting" | "lost";

export const connection = signal<Connection>("connecting");
/** When the connection was lost, in milliseconds; `null` while it stands. */
export const lostSince = signal<number | null>(null);
/** The newest position that we know of. */
export const head = signal<string | null>(null);
/** The head of the log when the stream began with nothing to go on from: an answer that is older than this may lack what came in between. */
export const joinedAt = signal<string | null>(null);

/** How often events were let go unheard, as they came faster than the page could take them: who keeps a list of them must ask anew. */
export const letGo = signal(0);

type Listener = (events: LoreEvent[]) => void;

const listeners = new Set<Listener>();
const MOST_WAITING = 5000;
/** The server says something every 15 s; after so much silence the line is dead, whatever the socket says. */
const QUIET = 40_000;
const HIDDEN_PAUSE = 250;
const LONGEST_WAIT = 5000;

let waiting: LoreEvent[] = [];
let handing = false;
let isTooMuch = false;

/** Calls back with the events that came, once a frame at most. Gives what ends it. */
export function onEvents(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function hand(): void {
  handing = false;
  const events = waiting;
  waiting = [];
  for (const listener of listeners) listener(events);
  if (isTooMuch) letGo.value += 1;
  isTooMuch = false;
}

function take(event: LoreEvent): void {
  waiting.push(event);
  if (waiting.length > MOST_WAITING) {
    waiting = waiting.slice(-MOST_WAITING / 2);
    isTooMuch = true;
  }
  if (handing) return;
  handing = true;
  // A hidden page gets no frames, but it must still notice who needs a person.
  if (document.hidden) setTimeout(hand, HIDDEN_PAUSE);
  else requestAnimationFrame(hand);
}

function handleMessage(message: Message): void {
  const said = JSON.parse(message.data) as LoreEvent & { head?: string | null };
  if (message.event === "hello") {
    head.value = joinedAt.value = said.head ?? head.value;
    return;
  }
  if (message.event !== "message") return;
  head.value = message.id ?? said.position ?? head.value;
  take(said);
}

/** How long to wait before the nth try in a row: longer each time, and never in step with other pages. */
export function pause(tries: number, first = 500, chance = Math.random()): number {
  return Math.min(LONGEST_WAIT, first * 2 ** tries) * (0.75 + chance / 2);
}

let wake = (): void => undefined;

function rest(milliseconds: number): Promise<void> {
  return new Promise((done) => {
    const timer = setTimeout(done, milliseconds);
    wake = () => {
      clearTimeout(timer);
      done();
    };
  });
}

async function listen(): Promise<number | null> {
  const abort = new AbortController();
  let watchdog = setTimeout(() => abort.abort(), QUIET);
  try {
    const answer = await fetch("/api/stream", {
      headers: { ...headers(), Accept: "text/event-stream", ...(head.value ? { "Last-Event-ID": head.value } : {}) },
      signal: abort.signal,
      cache: "no-store",
    });
    if (!answer.ok || !answer.body) throw await refusal(answer);
    connection.value = "live";
    lostSince.value = null;
    const parser = new SseParser();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return parser.retry;
      clearTimeout(watchdog);
      watchdog = setTimeout(() => abort.abort(), QUIET);
      parser.push(value).forEach(handleMessage);
    }
  } finally {
    clearTimeout(watchdog);
  }
}

function lose(): void {
  connection.value = "lost";
  lostSince.value ??= Date.now();
}

/** Listens forever: comes back by itself after every break, from the place where it stopped. */
export async function stayConnected(): Promise<never> {
  addEventListener("online", () => wake());
  document.addEventListener("visibilitychange", () => document.hidden || wake());
  effect(() => {
    if (token.value !== null) wake();
  });
  for (let tries = 0; ; tries += 1) {
    const began = Date.now();
    const retry = await listen().catch(() => null);
    lose();
    // A server that lets us go as a slow reader is there: come back soon, and count from nought.
    if (retry !== null || Date.now() - began > QUIET) tries = 0;
    await rest(locked.value ? LONGEST_WAIT : pause(tries, 500));
  }
}
