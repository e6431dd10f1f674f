import assert from "node:assert/strict";
import { test } from "node:test";

import { SseParser } from "../src/sse";

test("a message cut anywhere is read as one", () => {
  const whole = 'retry: 1000\n\n: hello\nevent: hello\ndata: {"head":"7"}\n\nid: 8\ndata: {"kind":"a.b"}\n\n';
  for (let cut = 0; cut <= whole.length; cut += 1) {
    const parser = new SseParser();
    const found = [...parser.push(whole.slice(0, cut)), ...parser.push(whole.slice(cut))];
    assert.deepEqual(found, [
      { event: "hello", data: '{"head":"7"}', id: null },
      { event: "message", data: '{"kind":"a.b"}', id: "8" },
    ]);
    assert.equal(parser.retry, 1000);
  }
});

test("heartbeats and empty messages say nothing", () => {
  const parser = new SseParser();
  assert.deepEqual(parser.push(": still here\n\n\n\nid: 9\n\n"), []);
});

test("data of several lines is one text, and carriage returns are no part of it", () => {
  const parser = new SseParser();
  assert.deepEqual(parser.push("data: one\r\ndata:two\r\n\r\n"), [{ event: "message", data: "one\ntwo", id: null }]);
});

test("a message that has not ended is not told", () => {
  assert.deepEqual(new SseParser().push("id: 1\ndata: {}\n"), []);
});
