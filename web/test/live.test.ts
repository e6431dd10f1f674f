import "./browser";

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { connection, head, lostSince, onEvents, pause, stayConnected } from "../src/live";
import type { LoreEvent } from "../src/api/types";

/** A stream that says something and then breaks off. */
function said(text: string): Response {
  return new Response(text, { headers: { "content-type": "text/event-stream" } });
}

test("it comes back by itself from the place where it stopped, and hands on every event once", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => mock.timers.reset());
  const asked: (string | null)[] = [];
  const heard: string[] = [];
  const answers = [
    () => said('event: hello\ndata: {"head":"4"}\n\nid: 5\ndata: {"id":"e5","position":"5"}\n\n'),
    () => { throw new TypeError("unreachable"); },
    () => said('id: 6\ndata: {"id":"e6","position":"6"}\n\n'),
  ];
  let over = false;
  globalThis.fetch = (_address, options) => {
    asked.push(new Headers(options?.headers).get("Last-Event-ID"));
    const answer = answers.shift();
    if (answer) return Promise.resolve().then(answer);
    over = true;
    return new Promise<Response>(() => undefined);
  };
  onEvents((events: LoreEvent[]) => heard.push(...events.map((event) => event.id)));
  void stayConnected();
  while (!over) {
    mock.timers.tick(1000);
    await new Promise(setImmediate);
  }
  assert.deepEqual(asked, [null, "5", "5", "6"]);
  assert.deepEqual(heard, ["e5", "e6"]);
  assert.equal(head.value, "6");
  assert.equal(connection.value, "lost");
  assert.ok(lostSince.value);
});

test("each try waits longer than the one before, up to five seconds", () => {
  const waits = [0, 1, 2, 3, 9].map((tries) => pause(tries, 500, 0.5));
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 5000]);
});
