"""Phrases are templates: placeholders, and clauses that vanish with what they say."""

from __future__ import annotations

import pytest

from fleetlore.story.phrases import count_things, fill_phrase, join_words, load_phrases


@pytest.mark.parametrize(
    ("template", "values", "expected"),
    [
        ("{a} and {b}", {"a": 1, "b": "x"}, "1 and x"),
        ("{a}[ ({b})]", {"a": "x", "b": ""}, "x"),
        ("{a}[ ({b})]", {"a": "x", "b": "y"}, "x (y)"),
        ("{a}[ {b} {c}]", {"a": "x", "b": "y"}, "x"),
        ("[{a} asked|Asked]: x", {"a": "mira"}, "mira asked: x"),
        ("[{a} asked|Asked]: x", {}, "Asked: x"),
        ("[[{a}]]", {"a": "x"}, "[x]"),
        ("{missing}", {}, ""),
    ],
)
def test_a_clause_without_a_value_is_left_out(template: str, values: dict[str, object], expected: str) -> None:
    assert fill_phrase(template, values) == expected


def test_values_are_never_read_as_templates() -> None:
    assert fill_phrase("{a}", {"a": "{b}[ {c}]", "b": "no"}) == "{b}[ {c}]"


@pytest.mark.parametrize(("words", "expected"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")])
def test_words_are_joined(words: list[str], expected: str) -> None:
    assert join_words(words) == expected


@pytest.mark.parametrize(
    ("count", "thing", "expected"),
    [(0, "commit", ""), (1, "commit", "1 commit"), (2, "more branch", "2 more branches"), (1200, "query", "1,200 queries")],
)
def test_things_are_counted(count: int, thing: str, expected: str) -> None:
    assert count_things(count, thing) == expected


@pytest.mark.parametrize("name", ["brief", "story"])
def test_every_phrase_can_be_filled(name: str) -> None:
    for section in load_phrases(name).values():
        for template in section.values():
            assert "{" not in fill_phrase(template, {})
