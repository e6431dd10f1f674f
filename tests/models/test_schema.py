"""Validation against JSON schemas, its messages, and fake objects that fit a schema."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.models.fake_from_schema import SeededRandom, make_fake_value
from fleetlore.models.json_schema import first_error

LINE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["agent.spoke", "clue.found"]},
        "text": {"type": "string", "minLength": 1, "maxLength": 300},
        "mood": {"type": ["string", "null"], "pattern": "^[a-z]+$"},
        "scores": {"type": "object", "additionalProperties": {"type": "number", "minimum": 0, "maximum": 10}},
        "turn": {"type": "integer", "exclusiveMinimum": 0},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 2},
        "winner": {"anyOf": [{"const": "ada"}, {"type": "null"}]},
    },
    "required": ["kind", "text"],
    "additionalProperties": False,
    "$defs": {"tag": {"type": "string", "maxLength": 8}},
}
GOOD: dict[str, Any] = {
    "kind": "clue.found",
    "text": "A glove.",
    "mood": "calm",
    "scores": {"ada": 7},
    "turn": 1,
    "tags": ["wet"],
    "winner": None,
}


def test_what_fits_is_not_complained_of() -> None:
    assert first_error(GOOD, LINE) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": "judge.verdict"}, '$.kind: wants one of agent.spoke, clue.found; got "judge.verdict"'),
        ({"text": ""}, "$.text: wants at least 1 characters; got 0"),
        ({"text": "x" * 301}, "$.text: wants at most 300 characters; got 301"),
        ({"text": 5}, "$.text: wants string; got 5"),
        ({"mood": "Calm!"}, '$.mood: wants what fits /^[a-z]+$/; got "Calm!"'),
        ({"scores": {"ada": 11}}, "$.scores.ada: wants at most 10; got 11"),
        ({"scores": {"ada": -1}}, "$.scores.ada: wants at least 0; got -1"),
        ({"scores": {"ada": True}}, "$.scores.ada: wants number; got True"),
        ({"turn": 0}, "$.turn: wants more than 0; got 0"),
        ({"turn": 1.5}, "$.turn: wants integer; got 1.5"),
        ({"tags": ["a", "b", "c"]}, "$.tags: wants at most 2 items; got 3"),
        ({"tags": ["far too long"]}, "$.tags[0]: wants at most 8 characters; got 12"),
        ({"winner": "bob"}, "$.winner: fits none of the forms wanted"),
        ({"secret": 1}, "$.secret: is not wanted; kind, text, mood, scores, turn, tags, winner is known"),
    ],
)
def test_the_first_thing_that_is_wrong_is_named_with_its_place(change: dict[str, Any], reason: str) -> None:
    assert first_error(GOOD | change, LINE) == reason


def test_what_is_missing_is_named() -> None:
    assert first_error({"kind": "agent.spoke"}, LINE) == "$.text: is missing"


def test_one_and_true_are_not_the_same() -> None:
    assert first_error(True, {"enum": [1]}) is not None
    assert first_error(1.0, {"type": "integer"}) is None


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    tree: dict[str, Any] = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    assert first_error({"next": {"next": {}}}, tree) is None
    assert first_error({"next": {"next": 5}}, tree) == "$.next.next: wants object; got 5"
    assert first_error(1, {"$ref": "#"}) is None
    assert first_error(1, {"allOf": [{"$ref": "#"}]}) == "$: is nested too deep"


def _objects_of(fields: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return fields.map(lambda known: {"type": "object", "properties": known, "required": list(known)[:2], "additionalProperties": False})


LEAVES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "maxLength": 5},
        {"type": "string", "minLength": 200},
        {"type": "integer", "minimum": 3, "maximum": 4},
        {"type": "integer", "exclusiveMaximum": 0},
        {"type": "number", "minimum": 0, "maximum": 10},
        {"type": "number", "exclusiveMinimum": -1, "exclusiveMaximum": 1},
        {"type": "boolean"},
        {"type": ["string", "null"]},
        {"enum": ["ada", "bob", None]},
        {"const": {"a": 1}},
        {"anyOf": [{"type": "null"}, {"type": "string"}]},
    ]
)
SCHEMAS = _objects_of(
    st.dictionaries(
        st.sampled_from(["text", "thought", "mood", "winner", "scores"]),
        st.recursive(
            LEAVES,
            lambda inner: (
                st.builds(lambda item, least: {"type": "array", "items": item, "minItems": least}, inner, st.integers(0, 3))
                | _objects_of(st.dictionaries(st.text(max_size=4), inner, max_size=3))
            ),
            max_leaves=6,
        ),
        max_size=4,
    )
)


@given(SCHEMAS, st.integers())
def test_an_object_that_is_made_to_fit_fits(schema: dict[str, Any], seed: int) -> None:
    made = make_fake_value(schema, SeededRandom(seed))
    assert first_error(made, schema) is None
    assert made == make_fake_value(schema, SeededRandom(seed))
