import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";

import { address, curlToPost, curlToRead, quoted, visibleJson } from "../src/pages/events-curl";
import { fromAddress, gist, isInScope, isOfKinds, isWanted, pairs, scopesOf, sinceTime, toAddress } from "../src/pages/events-filter";

const EVENT = { id: "1", at: "2026-11-16T05:00:00Z", kind: "fleet.commit", agent: "ada", parent: "mira", task: "t7" };
const NASTY = ["it's", "$(touch x)", "`id`", "a\nb; rm -rf /", "\\'", "''", "", "-n", "~", "!!", "*", "a b", "\u202eevil", "\"$HOME\""];

const inAShell = (command: string): string => execFileSync("sh", ["-c", command], { encoding: "utf8" });

test("a shell gives back exactly what was quoted", () => {
  for (const text of NASTY) assert.equal(inAShell(`printf %s ${quoted(text)}`), text);
});

test("the command that posts an event hands the shell that event and nothing else", () => {
  for (const text of NASTY) {
    const command = curlToPost("http://127.0.0.1:7077", { ...EVENT, text, position: "0001" }).replace(/^curl /, "printf '%s\\0' ");
    const words = inAShell(`LORE_TOKEN=secret; ${command}`).split("\0").slice(0, -1);
    assert.deepEqual(JSON.parse(words.at(words.indexOf("--data-raw") + 1) ?? ""), { ...EVENT, text });
    assert.ok(words.includes("Authorization: Bearer secret"));
    assert.equal(words.length, 10);
  }
});

test("the command that reads a list keeps its filters in one word", () => {
  const command = curlToRead("http://127.0.0.1:7077", "/api/events", [["scope", "agent:it's & co"], ["kind", "fleet.*"]], false);
  const words = inAShell(command.replace(/^curl /, "printf '%s\\0' ")).split("\0");
  const url = new URL(words[1] ?? "");
  assert.deepEqual([...url.searchParams], [["scope", "agent:it's & co"], ["kind", "fleet.*"]]);
  assert.ok(!command.includes("Bearer") && curlToRead("", "/x", [], true).includes('"Authorization: Bearer $LORE_TOKEN"'));
});

test("JSON to be copied has nothing unseen in it, and says the same", () => {
  const value = { text: "a\u202eb\u200b\u009b31m\u001b[2J\u2028\u{e0041}", more: ["\ufeff"] };
  const json = visibleJson(value);
  assert.match(json, /^[\u0020-\u007e]*$/);
  assert.deepEqual(JSON.parse(json), value);
});

test("an address without parameters has no question mark", () => {
  assert.equal(address("http://h", "/api/events", []), "http://h/api/events");
});

test("filters come back from the address as they were put there", () => {
  const filter = { scope: "task:t 7", kinds: ["fleet.*", "tool.failed"], q: "a&b", since: "24h" };
  const search = new URLSearchParams(Object.entries(toAddress(filter)).filter((pair): pair is [string, string] => pair[1] !== null));
  assert.deepEqual(fromAddress(search.toString()), filter);
  assert.deepEqual(fromAddress("?kind=a.b&kind=a.b,c.*&kind="), { scope: "", kinds: ["a.b", "c.*"], q: "", since: "" });
});

test("an event is in every scope that it names", () => {
  for (const scope of ["", "town", "agent:ada", "agent:mira", "task:t7"]) assert.ok(isInScope(EVENT, scope), scope);
  for (const scope of ["agent:t7", "task:", "run:ada", "nonsense", "source:x"]) assert.ok(!isInScope(EVENT, scope), scope);
  assert.ok(isInScope({ ...EVENT, origin: { log: { id: "laptop" } } }, "source:laptop"));
  assert.deepEqual(scopesOf(EVENT), ["agent:ada", "agent:mira", "task:t7"]);
});

test("kinds are meant exactly or by their family", () => {
  assert.ok(isOfKinds("fleet.commit", []) && isOfKinds("fleet.commit", ["tool.*", "fleet.*"]) && isOfKinds("fleet.commit", ["fleet.commit"]));
  assert.ok(!isOfKinds("fleet.commit", ["fleet.com"]) && !isOfKinds("fleetx.commit", ["fleet.*"]));
});

test("since is a length before now or a time, and nonsense is forever", () => {
  const now = Date.parse("2026-11-16T06:00:00Z");
  assert.equal(sinceTime("24h", now), "2026-11-15T06:00:00.000Z");
  assert.equal(sinceTime("2026-11-15", now), "2026-11-15T00:00:00.000Z");
  assert.equal(sinceTime("yesterday-ish", now), "");
  assert.ok(isWanted(EVENT, { scope: "", kinds: [], q: "", since: "2h" }, now));
  assert.ok(!isWanted(EVENT, { scope: "", kinds: [], q: "", since: "30m" }, now));
  assert.deepEqual(pairs({ scope: "", kinds: ["a.*"], q: "", since: "1h" }, now), [["kind", "a.*"], ["since", "2026-11-16T05:00:00.000Z"]]);
});

test("an event without words says what is in it", () => {
  assert.equal(gist({ ...EVENT, old_state: "open", new_state: "done", data: { model: "m", deep: {}, none: null, n: 3 } }), "open → done · model m · n 3");
  assert.equal(gist({ ...EVENT, data: "odd" as never }), "");
});
