"""Conditions match whole words, from lists that can be changed."""

from __future__ import annotations

from typing import Any

import pytest

from fleetlore.graph.conditions import InvalidCondition, parse_condition
from fleetlore.graph.files import load_graph
from fleetlore.graph.turn import Analysis, UserCommand
from fleetlore.graph.word_match import WordList
from tests.graph.talking import make_turn


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("look into the db, please", True),
        ("thanks for the feedback", False),
        ("How many are there?", True),
        ("how very many", False),
        ("ZÄHLER!", True),
        ("", False),
    ],
)
def test_a_word_is_found_whole(text: str, found: bool) -> None:
    assert WordList(("db", "how many", "zähler")).is_found_in(text) is found


def holds(said: dict[str, Any], made: Any = None, text: str = "one two three", **more: Any) -> bool:
    return parse_condition(said, {"data": ("table",)})(made, make_turn(text, **more))


def test_conditions_look_at_what_was_made_and_at_what_was_said() -> None:
    command = UserCommand(analysis=Analysis(intent="social", complexity="trivial"), text="hi")
    assert holds({"intent": "social", "complexity": ["trivial", "simple"]}, command)
    assert not holds({"intent": "social", "complexity": "complex"}, command)
    assert holds({"local": False}, command)
    assert holds({"ok": True}, {"ok": True})
    assert not holds({"ok": True}, {"ok": 1})
    assert not holds({"nothing": "x"}, command)
    assert holds({"longer": 2})
    assert not holds({"longer": 3})
    assert holds({"words": "data"}, text="a table of all")
    assert holds({"came": "text"})
    assert holds({"came": "action"}, action="press")
    assert holds({"not": {"longer": 9}})
    assert holds({"any": [{"longer": 9}, {"longer": 1}]})


@pytest.mark.parametrize("said", [{}, {"any": []}, {"any": "x"}, {"words": "none"}, {"longer": "x"}, {"came": "mail"}, {"not": {}}])
def test_a_condition_that_says_nothing_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(InvalidCondition):
        holds(said)


def test_feedback_is_no_question_about_data() -> None:
    plan = parse_condition(load_graph("seven").conditions["plan"], load_graph("seven").words)
    command = UserCommand(analysis=Analysis(intent="request"), text="")
    assert not plan(command, make_turn("thank you very much indeed for all of the feedback, my dear friend"))
    assert plan(command, make_turn("show me all of the parcels of yesterday out of the db"))
