import "./browser";

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { stayConnected } from "../src/live";
import { EventsModel, MOST_ROWS } from "../src/pages/events-model";

const MANY = 6000;
const place = (n: number): string => String(n).padStart(6, "0");
const event = (n: number) => ({ id: `e${n}`, at: "2026-11-16T05:00:00Z", kind: "fleet.commit", actor: "ada", position: place(n) });
const newest = (head: number) => Array.from({ length: Math.min(100, head) }, (_, index) => event(head - index));
const settle = async (): Promise<void> => {
  for (let n = 0; n < 20; n += 1) await new Promise(setImmediate);
};

/** A log whose stream says all that came since in one breath. */
let head = 10;
let asked = 0;
const streams: ReadableStreamDefaultController<Uint8Array>[] = [];

function answer(address: string): Response {
  if (address.startsWith("/api/events")) {
    asked += 1;
    const before = new URLSearchParams(address.split("?")[1]).get("before");
    const from = before === null ? head : Number(before) - 1;
    return Response.json({ events: newest(from), next: place(from - 99) });
  }
  const body = new ReadableStream<Uint8Array>({ start: (controller) => void streams.push(controller) });
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
}

function say(from: number, to: number): void {
  const told = Array.from({ length: to - from }, (_, index) => `id: ${place(from + 1 + index)}\ndata: ${JSON.stringify(event(from + 1 + index))}\n\n`);
  head = to;
  streams.at(-1)?.enqueue(new TextEncoder().encode(told.join("")));
}

test("a list that missed events because too many came at once begins anew, and has no gap", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => mock.timers.reset());
  globalThis.fetch = (address) => Promise.resolve(answer(String(address)));
  void stayConnected();
  const model = new EventsModel({ scope: "", kinds: [], q: "", since: "" });
  t.after(model.start());
  await settle();
  const before = asked;

  say(10, 20);
  await settle();
  assert.equal(asked, before, "a few that came one by one are taken from the stream");
  assert.deepEqual(model.rows.value.map(({ id }) => id), newest(20).map(({ id }) => id));

  say(20, 20 + MANY);
  await settle();
  assert.equal(asked, before + 1);
  assert.deepEqual(model.rows.value.map(({ id }) => id), newest(20 + MANY).map(({ id }) => id), "and older ones can be asked for from there");

  model.isAtTop = false;
  say(20 + MANY, 20 + 2 * MANY);
  await settle();
  assert.equal(asked, before + 1, "nothing is taken from under who reads further down");
  assert.equal(model.rows.value[0]?.id, `e${20 + MANY}`);
  model.isAtTop = true;
  model.takeWaiting();
  await settle();
  assert.equal(asked, before + 2);
  assert.deepEqual(model.rows.value.map(({ id }) => id), newest(20 + 2 * MANY).map(({ id }) => id));
});

test("a list that stays open holds its newest rows, and asks for those below when somebody scrolls down to them", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => mock.timers.reset());
  globalThis.fetch = (address) => Promise.resolve(answer(String(address)));
  const model = new EventsModel({ scope: "", kinds: [], q: "", since: "" });
  t.after(model.start());
  await settle();
  for (let n = 0; n < 10; n += 1) {
    say(head, head + 500);
    await settle();
    assert.ok(model.rows.value.length <= 2 * MOST_ROWS);
  }
  const shown = model.rows.value.length;
  assert.deepEqual(model.rows.value.map(({ id }) => id), Array.from({ length: shown }, (_, index) => `e${head - index}`));
  assert.ok(model.more.value);
  model.older();
  await settle();
  assert.deepEqual(model.rows.value.map(({ id }) => id), Array.from({ length: shown + 100 }, (_, index) => `e${head - index}`), "with no gap, and none twice");
});
