import "./browser";

import assert from "node:assert/strict";
import { test } from "node:test";

/** As much of a socket as a page sees of one: what was sent, and a way to answer. */
class Socket {
  static readonly OPEN = 1;
  static readonly all: Socket[] = [];
  readyState = 1;
  sent: Record<string, unknown>[] = [];
  onmessage: (message: { data: string }) => void = () => undefined;
  onclose: () => void = () => undefined;
  constructor(readonly address: URL, readonly words: string[]) {
    Socket.all.push(this);
  }
  send(text: string): void {
    this.sent.push(JSON.parse(text) as Record<string, unknown>);
  }
  close(): void {}
  tell(...messages: Record<string, unknown>[]): void {
    for (const message of messages) this.onmessage({ data: JSON.stringify(message) });
  }
}

Object.assign(globalThis, { WebSocket: Socket });
Object.assign(globalThis.location, { href: "http://room/agent" });

import type { LoreEvent } from "../src/api/types";

const { Line } = await import("../src/pages/agent-line");

const SCREEN = { type: "screen", session: "s1", graph: "seven", turn: 0, busy: false, controls: [], state: {}, n: 1 };
const event = (kind: string, text: string, data: Record<string, unknown> = {}): LoreEvent => ({ id: text, at: "", kind, actor: "a", run: "s1", text, data });

function opened(session: string | null = "s1", screen: Record<string, unknown> = SCREEN) {
  const line = new Line(session);
  line.open();
  const socket = Socket.all.at(-1) as Socket;
  socket.tell(screen);
  return { line, socket };
}

test("a new conversation opens its line with the first word, and then knows its name", () => {
  const line = new Line(null);
  let named = "";
  line.onSession = (session) => (named = session);
  line.say("Hello");
  const socket = Socket.all.at(-1) as Socket;
  assert.equal(String(socket.address), "ws://room/ws/chat");
  assert.deepEqual(socket.sent, []);
  socket.tell(SCREEN);
  assert.deepEqual([named, line.session, socket.sent[0]?.["text"], line.busy.value], ["s1", "s1", "Hello", true]);
});

test("a reply is shown once, whether the log or the socket has it first", () => {
  for (const logFirst of [false, true]) {
    const { line, socket } = opened();
    line.say("Hello");
    const log = (): void => line.stored([event("prompt.submitted", "Hello", { prompt: "Hello" }), event("agent.spoke", "Hi you.")]);
    socket.tell({ type: "delta", content: "Hi " });
    assert.equal(line.saying.value, "Hi ");
    if (logFirst) log();
    socket.tell({ type: "delta", content: "you." }, { type: "done" });
    if (!logFirst) log();
    assert.deepEqual([line.saying.value, line.busy.value, line.pending.value], ["", false, []]);
  }
});

test("what went wrong is shown once, by the log, and by the line where the log does not tell", () => {
  for (const logFirst of [false, true]) {
    const { line, socket } = opened();
    line.say("fail");
    const ended = event("session.turn_ended", "thinker: no", { reason: "error" });
    if (logFirst) line.stored([ended]);
    socket.tell({ type: "error", message: "thinker: no" }, { type: "done" });
    if (!logFirst) line.stored([ended]);
    assert.deepEqual([line.trouble.value, line.busy.value], [null, false]);
  }
  const { line, socket } = opened();
  socket.tell({ type: "error", message: "too much at once" });
  assert.equal(line.trouble.value, "too much at once");
});

test("who comes in the middle of a reply does not show its end alone", () => {
  const { line, socket } = opened("s1", { ...SCREEN, busy: true });
  socket.tell({ type: "delta", content: "…and so on." });
  assert.deepEqual([line.saying.value, line.busy.value], ["", true]);
  socket.tell({ type: "done" }, { type: "delta", content: "A new one" });
  assert.equal(line.saying.value, "A new one");
});

test("two turns that wait are two turns", () => {
  const { line, socket } = opened();
  line.say("one");
  line.press("two");
  socket.tell({ type: "done" });
  assert.equal(line.busy.value, true);
  socket.tell({ type: "done" });
  assert.equal(line.busy.value, false);
});

test("what was said as the line broke is marked, and can be said again", () => {
  const { line, socket } = opened();
  line.say("Hello");
  socket.onclose();
  assert.deepEqual([line.link.value, line.busy.value, line.pending.value], ["lost", false, [{ text: "Hello", lost: true }]]);
  line.sayAgain(line.pending.value[0] as { text: string; lost: boolean });
  const next = Socket.all.at(-1) as Socket;
  assert.notEqual(next, socket);
  next.tell(SCREEN);
  assert.deepEqual([next.sent.map((message) => message["text"]), line.pending.value], [["Hello"], [{ text: "Hello", lost: false }]]);
  line.close();
});

test("what is shown is told with every word, of the screen that was drawn, and by itself only when it changed", () => {
  const { line, socket } = opened();
  line.look = () => [{ type: "button", label: "Add", action: "add" }];
  line.drawn = 1;
  line.report();
  line.report();
  line.press("add");
  assert.deepEqual(socket.sent.map(({ type, seen, dashboard }) => [type, seen, (dashboard as unknown[]).length]), [["report", 1, 1], ["action", 1, 1]]);
});
