import assert from "node:assert/strict";
import { test } from "node:test";

import { leadOf } from "../src/ui/lead";
import { unmarked } from "../src/ui/markdown";

test("on a card Markdown is read as words", () => {
  assert.equal(unmarked("## Beads Created\n> **Impact** on `init()`, see [the plan](docs/plan.md)"), "Beads Created\nImpact on init(), see the plan");
  assert.equal(unmarked("All done. The entire **spotter-4te** epic *really* is."), "All done. The entire spotter-4te epic really is.");
});

test("what only looks like Markdown stays as it was said", () => {
  for (const text of ["2**3**4", "#7 is fixed", "__init__.py", "a * b * c", "ls *.py *.ts", "x[0](1, 2)", "PR #316 merged", "**cut off"]) assert.equal(unmarked(text), text);
});

test("a long name is cut where its telling end begins", () => {
  const cut = (name: string): string[] => [leadOf(name), name.slice(leadOf(name).length)];
  assert.deepEqual(cut("gastown/polecats/nux"), ["gastown/polecats/", "nux"]);
  assert.deepEqual(cut("spotter@master: /handgemacht:create-beads"), ["spotter@master: ", "/handgemacht:create-beads"]);
  assert.deepEqual(cut("monorepo@fix/team-optimization"), ["monorepo@fix/", "team-optimization"]);
  for (const name of ["ada", "ada/", "", "rust: "]) assert.equal(leadOf(name), "");
});
