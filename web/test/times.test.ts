import assert from "node:assert/strict";
import { test } from "node:test";

import { ago, length, usd } from "../src/ui/times";

test("lengths are said in their one or two largest units", () => {
  assert.deepEqual([0, 9, 250, 12_000, 187_200, 86_460].map(length), ["0 s", "9 s", "4 m 10 s", "3 h 20 m", "2 d 4 h", "1 d"]);
});

test("ages are said in one unit", () => {
  assert.deepEqual([-50, 1500, 9000, 240_000, 10_800_000].map(ago), ["now", "now", "9 s", "4 m", "3 h"]);
});

test("money is short, and a little is not nothing", () => {
  assert.deepEqual([null, 0, 0.004, 12.3, 1234.5].map(usd), ["–", "$0.00", "<$0.01", "$12.30", "$1,235"]);
});
