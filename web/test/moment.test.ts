import "./browser";

import assert from "node:assert/strict";
import { mock, test, type TestContext } from "node:test";

import { source } from "../src/moment";

interface Asked {
  addresses: string[];
  fail: boolean;
}

/** A server that counts what it is asked, and a clock that stands still until it is moved. */
function server(t: TestContext): Asked {
  const asked: Asked = { addresses: [], fail: false };
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  t.after(() => mock.timers.reset());
  globalThis.fetch = async (address) => {
    asked.addresses.push(String(address));
    if (asked.fail) throw new TypeError("unreachable");
    return Response.json({ n: asked.addresses.length });
  };
  return asked;
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 8; turn += 1) await new Promise(setImmediate);
}

test("those who want the same answer share one question", async (t) => {
  const asked = server(t);
  const [one, two] = [source("/a", { x: 1, as_of: null }), source("/a", { x: 1 })];
  const ends = [one.hold(), two.hold()];
  await settle();
  assert.equal(one, two);
  assert.deepEqual(asked.addresses, ["/a?x=1"]);
  ends.forEach((end) => end());
});

test("events stir an answer at most twice a second, and not at all when nobody looks", async (t) => {
  const asked = server(t);
  const view = source<{ n: number }>("/b");
  const end = view.hold();
  await settle();
  for (let n = 0; n < 20; n += 1) view.stir();
  mock.timers.tick(499);
  await settle();
  assert.equal(asked.addresses.length, 1);
  mock.timers.tick(1);
  await settle();
  assert.equal(asked.addresses.length, 2);
  assert.equal(view.state.value.data?.n, 2);
  end();
  view.stir();
  mock.timers.tick(60_000);
  await settle();
  assert.equal(asked.addresses.length, 2);
});

test("the past does not change: it is asked for once", async (t) => {
  const asked = server(t);
  const view = source("/c", { as_of: "2026-11-16T00:00:00Z" }, false);
  view.hold()();
  const end = view.hold();
  await settle();
  view.stir();
  mock.timers.tick(60_000);
  await settle();
  assert.ok(asked.addresses.length <= 2);
  end();
  view.hold()();
  await settle();
  assert.ok(asked.addresses.length <= 2);
});

test("when the server is gone the last answer stays, and it is asked for again", async (t) => {
  const asked = server(t);
  const view = source<{ n: number }>("/d");
  const end = view.hold();
  await settle();
  asked.fail = true;
  view.refresh();
  await settle();
  assert.equal(view.state.value.data?.n, 1);
  assert.ok(view.state.value.error);
  asked.fail = false;
  mock.timers.tick(20_000);
  await settle();
  assert.deepEqual(view.state.value, { data: { n: 3 }, error: null, loading: false });
  end();
});

test("answers that take long are asked for seldom: a third of the time at most, whoever else is looked at", async (t) => {
  const asked = server(t);
  const quick = globalThis.fetch;
  globalThis.fetch = (address, options) => {
    mock.timers.setTime(Date.now() + 400);
    return quick(address, options);
  };
  const views = [source("/slow"), source("/slower")];
  const ends = views.map((view) => view.hold());
  await settle();
  const before = asked.addresses.length;
  views.forEach((view) => view.stir());
  mock.timers.tick(2000);
  await settle();
  assert.equal(asked.addresses.length, before);
  mock.timers.tick(2000);
  await settle();
  assert.equal(asked.addresses.length, before + 2);
  ends.forEach((end) => end());
});

test("who only watches is content with less, until somebody looks", async (t) => {
  const asked = server(t);
  const view = source("/watched");
  const end = view.hold(2000);
  await settle();
  view.stir();
  mock.timers.tick(1990);
  await settle();
  assert.equal(asked.addresses.length, 1);
  const look = view.hold();
  view.stir();
  mock.timers.tick(1);
  await settle();
  assert.equal(asked.addresses.length, 2);
  look();
  end();
});
