import assert from "node:assert/strict";
import { test } from "node:test";

import { pieces, plain } from "../src/ui/hostile";

test("what turns a line around is shown by its number", () => {
  assert.deepEqual(pieces("a\u202egnp.exe"), [{ text: "a" }, { code: "202E" }, { text: "gnp.exe" }]);
});

test("invisible and control characters are shown, also beyond the first plane", () => {
  assert.deepEqual(pieces("\u0000\u200b\u{e0041}"), [{ code: "0000" }, { code: "200B" }, { code: "E0041" }]);
});

test("ordinary text of any script, with joined emoji, tabs and newlines, is left alone", () => {
  const text = "Grüße, שלום, مرحبا, 你好 👩‍💻\t<script>\n";
  assert.deepEqual(pieces(text), [{ text }]);
});

test("a title is cut where it is too long", () => {
  assert.equal(plain("abcdef", 4), "abc…");
  assert.equal(plain("a\u2066b"), "a[U+2066]b");
});
