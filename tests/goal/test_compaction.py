"""When a context is compacted: by its current size and age, not too often, and not again and again after failures."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fleetlore.events.driver_types import Age, TokenPressure
from fleetlore.events.goal_plan import Compaction
from fleetlore.goal.next_step import age_minutes, context_pressure, find_compact_trigger
from fleetlore.testing import START

PLAN = Compaction(context_window=1000, at=0.8, max_age_minutes=120, min_turns_between=5, max_failures=3)
FULL = TokenPressure(pct=0.8, tokens_used=800, context_window=1000)
OLD = Age(age_minutes=120, max_age_minutes=120)


def why(plan: Compaction = PLAN, *, age: float = 0, **state: Any) -> object:
    given: dict[str, Any] = {"context": 0, "session_since": START, "now": START + timedelta(minutes=age), "turn": 9}
    return find_compact_trigger(plan, **given | state)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"context": 799}, None),
        ({"context": 800}, FULL),
        ({"context": None}, None),
        ({"context": 2500}, TokenPressure(pct=2.5, tokens_used=2500, context_window=1000)),
        ({"context": 800, "turn": 1}, FULL),
        ({"age": 119.99}, None),
        ({"age": 120}, OLD),
        ({"age": 120, "context": None}, OLD),
        ({"age": 120, "context": 800}, FULL),
        ({"age": -500}, None),
        ({"plan": Compaction(context_window=0), "context": 10**9, "age": 10**6}, None),
        ({"plan": Compaction(max_age_minutes=0), "age": 10**6}, None),
    ],
)
def test_a_full_or_an_old_context_calls_for_it(state: dict[str, Any], expected: object) -> None:
    assert why(**state) == expected


@pytest.mark.parametrize(("last", "expected"), [(None, FULL), (5, None), (8, None), (9, None), (4, FULL), (1, FULL)])
def test_some_turns_lie_between_two(last: int | None, expected: object) -> None:
    assert why(context=800, last_compacted_turn=last) == expected


def test_a_plan_may_let_it_happen_every_turn() -> None:
    assert why(Compaction(context_window=1000, min_turns_between=0), context=800, last_compacted_turn=9) == FULL


@pytest.mark.parametrize(
    ("failures", "opened", "expected"),
    [(2, 8, FULL), (3, None, None), (3, 8, None), (3, 5, None), (3, 4, FULL), (7, 8, None), (7, 4, FULL)],
)
def test_the_breaker_opens_after_failures_in_a_row_and_lets_one_try_through_later(
    failures: int, opened: int | None, expected: object
) -> None:
    assert why(context=800, failures=failures, breaker_opened_turn=opened) == expected


def test_a_context_that_stays_full_in_spite_of_everything_is_tried_ever_more_rarely() -> None:
    """Turn by turn, with a summary that never comes."""
    tried: list[int] = []
    for turn in range(1, 30):
        if why(context=999, turn=turn, failures=len(tried), breaker_opened_turn=tried[-1] if tried else None):
            tried.append(turn)
    assert tried == [1, 2, 3, 8, 13, 18, 23, 28]


def test_what_is_recorded_of_it_is_never_negative() -> None:
    assert age_minutes(START, START - timedelta(hours=1)) == 0
    assert age_minutes(START, START + timedelta(minutes=7, seconds=59)) == 7
    assert (context_pressure(PLAN, None), context_pressure(PLAN, 250), context_pressure(Compaction(context_window=0), 250)) == (
        0.0,
        0.25,
        0.0,
    )
