import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { FAMILIES, familyOf } from "../src/ui/beats";

const PACE = readFileSync("../src/fleetlore/views/activity.py", "utf8");

test("a card and the timeline draw a beat alike: the server counts it in the same family", () => {
  const [, families = ""] = /^BEAT_FAMILIES = \((.*)\)$/m.exec(PACE) ?? [];
  assert.deepEqual(families.replaceAll('"', "").split(", "), FAMILIES);
  const [, table = ""] = /^_FAMILY_BY_BEAT = \{(.*?)^\}/ms.exec(PACE) ?? [];
  const rows = [...table.matchAll(/"(\w+)": (\d)/g)];
  assert.ok(rows.length > 10);
  for (const [, beat, family] of rows) assert.equal(familyOf(beat), FAMILIES[Number(family)], `${beat}`);
  assert.match(PACE, /_FAMILY_BY_BEAT\.get\(beat or "", 0\)/);
  assert.equal(familyOf(null), FAMILIES[0]);
});
