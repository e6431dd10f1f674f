"""Old answers are kept by their beginning and their end."""

from __future__ import annotations

from datetime import UTC, datetime

from fleetlore.views.outcomes.facts import Answer, Source
from fleetlore.views.outcomes.session import _shorten_answer


def shorten(text: str) -> str:
    return _shorten_answer(Answer(1, 1, datetime(2026, 11, 16, tzinfo=UTC), Source("e", "s"), text)).text


def test_a_long_answer_is_cut_between_sentences() -> None:
    text = "".join(f"Sentence {number} has a few words. " for number in range(100)) + "Should I go on?"
    lines = shorten(text).splitlines()
    assert lines[0].endswith("words.")
    assert lines[1].startswith("Sentence ")
    assert lines[1].endswith("Should I go on?")


def test_an_answer_without_a_sentence_end_is_cut_at_a_word() -> None:
    start, end = shorten("word " * 1000).splitlines()
    assert start.endswith("word…")
    assert end.startswith("word ")
