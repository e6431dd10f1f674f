"""Finds the JSON object in a model's text, whatever surrounds it."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fleetlore.errors import UnusableAnswer
from fleetlore.models.parse_json import MAX_DEPTH, find_object, strip_reasoning

OBJECT = {"text": "He said \"no\" {twice}, then: '}'", "scores": {"ada": 7.5}, "list": [1, {"deep": None}]}
WRITTEN = json.dumps(OBJECT)

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, min_size=1, max_size=3)
NOISE = st.text(alphabet=st.characters(exclude_characters="{<", exclude_categories=["Cs"]), max_size=40)
SHARDS = st.sampled_from(
    [
        "{",
        "}",
        "[",
        "]",
        '"',
        "\\",
        ",",
        ":",
        "<think>",
        "</think>",
        "```",
        "```json\n",
        '{"a": 1}',
        '{"a": ',
        "\\u",
        "\ud800",
        "NaN",
        "1e999",
    ]
)


@pytest.mark.parametrize(
    "text",
    [
        WRITTEN,
        f"Sure! Here it is:\n```json\n{WRITTEN}\n```\nI hope that this helps.",
        f'<think>Perhaps {{"text": "a draft"}}?</think>{WRITTEN}',
        f'<think>It began somewhere</think> {{"text": "first"}} and better: {WRITTEN}',
        f'Reasoning whose tag was in the prompt {{"text": "a draft"}}</think>\n{WRITTEN}',
        f"{WRITTEN}\n<think>Was that right? {{}}",
        f"A brace {{ in prose, and a quote \" too. {WRITTEN} I used {{}} above.",
        f"{{not json}} {WRITTEN} {{nor this: 'one'}}",
        f"[{WRITTEN}]",
        WRITTEN.replace("}]", "},\n ]").replace("7.5}", "7.5 , }"),
        json.dumps(OBJECT, indent=2).replace('"text"', '\t"text"'),
    ],
)  # fmt: skip
def test_the_last_object_is_found_whatever_stands_around_it(text: str) -> None:
    assert find_object(text).data == OBJECT


def test_tags_in_an_objects_strings_are_what_was_said() -> None:
    said = {"text": "I <think> so</think>, and </reasoning> that is all"}
    assert find_object(json.dumps(said)).data == said


def test_a_line_break_in_a_string_is_forgiven() -> None:
    assert find_object('{"text": "one\ntwo"}').data == {"text": "one\ntwo"}


def test_commas_in_strings_stay() -> None:
    assert find_object('{"text": "a,}", "b": [1,],}').data == {"text": "a,}", "b": [1]}


def test_an_empty_object_counts_where_there_is_no_other() -> None:
    assert find_object("{}").data == {}


def test_half_a_character_becomes_a_sign_that_can_be_stored() -> None:
    found = find_object('{"\\ud83d": "a\\ud83d", "whole": "\\ud83d\\ude00"}').data
    assert json.dumps(found, ensure_ascii=False).encode()
    assert found["whole"] == "😀"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("  \n", "it is empty"),
        ("no braces", "no JSON object"),
        ("{'single': 1}", "no whole JSON object"),
        ('{"a": NaN}', "no whole JSON object"),
        ('{"a": 1e999}', "no whole JSON object"),
        ('{"a": "never closed', "no whole JSON object"),
        ('<think>{"a": 1}', "nothing but reasoning"),
        ("[1, 2]", "no JSON object"),
        ('{"a": ' + "1" * 5000 + "}", "no whole JSON object"),
        ('{"a":' * (MAX_DEPTH + 5) + "1" + "}" * (MAX_DEPTH + 5), "deep"),
        ('{"a":' * 50_000, "no whole"),
        ("{" * 250_000, "no whole"),
        ('{"a":[1,' * 30_000, "no whole"),
        ('{"' * 120_000, "no whole"),
    ],
)
def test_what_holds_no_object_says_why_in_good_time(text: str, reason: str) -> None:
    with pytest.raises(UnusableAnswer, match=reason):
        find_object(text)


@given(st.lists(SHARDS | st.text(max_size=8), max_size=30).map("".join) | st.text())
@example('{"a": {"b": 1}} {"a"')
def test_no_text_raises_anything_else(text: str) -> None:
    with suppress(UnusableAnswer):
        found = find_object(text)
        assert found.text in text
        assert json.dumps(found.data, ensure_ascii=False, allow_nan=False).encode()


@given(OBJECTS, NOISE, NOISE)
def test_a_valid_object_is_found_in_any_noise(value: dict[str, Any], before: str, after: str) -> None:
    assert find_object(f"{before}{json.dumps(value)}{after}").data == value


@settings(max_examples=settings().max_examples // 2)
@given(OBJECTS, OBJECTS, NOISE)
def test_of_two_objects_the_later_one_counts(first: dict[str, Any], second: dict[str, Any], between: str) -> None:
    assert find_object(f"{json.dumps(first)}{between}{json.dumps(second)}").data == second


@settings(max_examples=settings().max_examples // 2)
@given(OBJECTS, NOISE, st.sampled_from(["think", "Thinking", "reasoning"]))
def test_what_stands_in_reasoning_tags_is_never_the_answer(value: dict[str, Any], thought: str, tag: str) -> None:
    draft = json.dumps({"draft": True})
    assert find_object(f"<{tag}>{thought}{draft}</{tag}>{json.dumps(value)}").data == value
    with pytest.raises(UnusableAnswer):
        find_object(f"<{tag}>{thought}{draft}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Good evening.", "Good evening."),
        ("<think>He lies.</think>\n\nGood evening.", "Good evening."),
        ("He lies.</think>Good evening.", "Good evening."),
        ("Good <thinking>a <think>b</think> c</thinking>evening.", "Good evening."),
        ("Good evening. <think>He lies", "Good evening."),
        ("<think>He lies", ""),
        ("I thinketh: a < b and c > d.", "I thinketh: a < b and c > d."),
    ],
)
def test_prose_is_reported_without_thoughts(text: str, said: str) -> None:
    assert strip_reasoning(text) == said


@given(st.lists(st.sampled_from(["<think>", "</think>", "<reasoning>", "a", " b"]), max_size=12).map("".join))
def test_no_tag_is_left_in_prose(text: str) -> None:
    assert "think>" not in strip_reasoning(text)
