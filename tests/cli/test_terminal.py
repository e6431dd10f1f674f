"""Agents' words are hostile: nothing of them may act on a terminal or break a line."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.cli.terminal import display_width, escape_json, pad_columns, sanitise_text, truncate_columns
from tests.cli.running import Lore

NASTY = (
    "\x1b[2J\x1b]0;owned\x07\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\ \x9b31m red \r\n## forged line\u2028next "
    "\u202eltr\u202c \u2066iso\u2069 \ufeff \x00\x7f\x85 \x1bc end"
)
HOSTILE_CATEGORIES = ("Cc", "Cs", "Zl", "Zp")
BIDI = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def is_harmless(text: str) -> bool:
    return not any(unicodedata.category(character) in HOSTILE_CATEGORIES or character in BIDI for character in text)


@given(st.text())
def test_any_text_becomes_one_harmless_line(text: str) -> None:
    clean = sanitise_text(text)
    assert is_harmless(clean)
    assert len(f"{clean}|".splitlines()) == 1
    assert sanitise_text(clean) == clean


@given(st.lists(st.sampled_from([*"\x1b\x9b\x9d[]0;m\x07\\ac", "\u202e", "\n"])).map("".join))
def test_no_sequence_is_left_when_another_is_taken_out_of_its_midst(text: str) -> None:
    assert is_harmless(sanitise_text(text))


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Cn", "Co"])))
def test_ordinary_text_of_any_script_stays_as_it_is(text: str) -> None:
    assert sanitise_text(text) == text


def test_colours_vanish_and_line_ends_become_blanks() -> None:
    assert sanitise_text("\x1b[1;31mfailed\x1b[0m\n\tin parser.py") == "failed in parser.py"
    assert sanitise_text("👩‍🚀 می‌خواهم") == "👩‍🚀 می‌خواهم"


@given(st.recursive(st.text(), lambda inner: st.dictionaries(st.text(), inner, max_size=3)))
def test_json_for_a_terminal_is_harmless_and_means_the_same(value: object) -> None:
    text = escape_json(json.dumps(value, ensure_ascii=False))
    assert is_harmless(text)
    assert json.loads(text) == value


@given(st.text(), st.integers(0, 40))
def test_a_cut_text_fits(text: str, width: int) -> None:
    short = truncate_columns(sanitise_text(text), width)
    assert display_width(short) <= width
    assert display_width(pad_columns(short, width)) == width


def test_wide_characters_take_two_columns() -> None:
    assert display_width("日本") == 4
    assert truncate_columns("日本語です", 5) == "日本…"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_hostile_events_do_nothing_to_a_real_terminal(lore: Lore, options: list[str]) -> None:
    event = {"kind": "fleet.error", "actor": "ada", "agent": "evil\u202etxt", "task": "t\u2066", "text": NASTY, "data": {"x\x9b": NASTY}}
    lore("emit", "-", stdin=json.dumps(event).encode(), code=0)
    shown = lore.on_terminal("events", *options, columns=300).out
    assert "end" in shown
    without_our_colours = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert is_harmless(without_our_colours.replace("\n", ""))
    assert "owned" not in shown or options
    assert without_our_colours.count("\n") == (1 if options else 2)  # the day, the event


def test_hostile_words_of_an_error_message_do_nothing_either(lore: Lore) -> None:
    result = lore("emit", "\x1b[2Jfleet", code=2)
    assert is_harmless(result.err.rstrip("\n"))
    result = lore("emit", "fleet.idle", "--\x1b[2J", code=2)
    assert is_harmless(result.err.replace("\n", ""))


def test_no_color_means_no_colour(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    lore("emit", "fleet.error", "--agent", "ada", "--text", "boom")
    assert "\x1b[" in lore.on_terminal("events").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in lore.on_terminal("events").out


def test_a_line_is_cut_to_the_width_of_the_terminal(lore: Lore) -> None:
    lore("emit", "fleet.error", "--agent", "日本語" * 20, "--task", "t" * 150, "--text", "wide 日本語 " * 40)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", lore.on_terminal("events", columns=72).out)
    assert all(display_width(line) <= 72 for line in shown.splitlines())
