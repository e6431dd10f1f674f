"""One goal on a screen: what it does, what it asks, what waits for it, and no more criteria than fit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from fleetlore import clock
from fleetlore.cli.goal.screen import PlainGoalView, format_event_lines, format_panel
from fleetlore.events.envelope import Event
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.views.goal_state import GoalState
from tests.cli.goals import ONE, TWO, Past, log_at
from tests.cli.running import Lore

URL = "sqlite:goals.db"
NOON = datetime(2026, 11, 15, 12).astimezone()


@pytest.fixture
def log(lore: Lore) -> Iterator[BlockingRecorder]:
    with log_at(URL) as log:
        yield log


def shown(goal: GoalState, *, brief: bool = False) -> list[str]:
    return ["".join(text for text, _ in line) for line in format_panel(goal, clock.now(), columns=80, brief=brief)]


def test_a_goal_of_many_takes_one_line(log: BlockingRecorder) -> None:
    past = Past(log)
    past.begin()
    [line] = shown(past.state, brief=True)
    assert "Make the tests pass" in line
    assert shown(past.state)[:2] == ["", line]


def test_what_an_agent_asks_and_what_waits_for_it_are_shown_while_its_turn_goes_on(lore: Lore, log: BlockingRecorder) -> None:
    past = Past(log)
    past.begin()
    past.add(past.record.attempt_started(past.state, 1))
    past.add(past.record.make_event("goal.permission_asked", {"tool": "WebFetch", "turn": 1}))
    lore("--log", URL, "goal", "say", ONE, "Mind the tabs", code=0)
    past.add(*(event for event in log.read(f"goal:{ONE}", kinds=("control.requested",))))
    lines = shown(past.state)
    assert any("may it use WebFetch?" in line for line in lines)
    assert "  messages 1 for its next turn" in lines


def test_more_criteria_than_fit_are_counted(log: BlockingRecorder) -> None:
    past = Past(log)
    past.begin()
    many = replace(past.state, criteria=past.state.criteria * 6)
    assert shown(many)[-1] == "  … 4 more criteria"
    assert "more criteria" not in "\n".join(shown(past.state))


def printed(kind: str, goal: GoalState | None = None, *, id: str = ONE, **data: Any) -> list[str]:
    event = Event(kind=kind, goal=id, at=NOON, data=data)
    return ["".join(text for text, _ in line) for line in format_event_lines(event, goal)]


def test_what_is_missing_is_not_printed_as_none() -> None:
    lines = [
        *printed("goal.waiting"),
        *printed("driver.decision", decision={"choice": {"kind": "deny"}, "tool": "Bash"}),
        *printed("driver.replay_decision"),
        *printed("driver.attempt_started"),
        *printed("driver.attempt_completed"),
        *printed("driver.acceptance", verdict={"failures": [{}]}),
        *printed("driver.goal_completed"),
        *printed("control.requested"),
    ]
    assert len(lines) == 8
    assert "None" not in "\n".join(lines)


def test_no_value_of_an_event_can_clear_the_screen() -> None:
    lines = [
        *printed("driver.goal_started", id="\x1b[2J"),
        *printed("driver.attempt_started", turn_index="\x1b[2J"),
        *printed("driver.attempt_completed", result={"turn_index": "\x1b[2J"}),
        *printed("driver.extract_memories_completed", memories_saved="\x1b[2J"),
    ]
    assert len(lines) == 4
    assert "\x1b" not in "\n".join(lines)


def test_lists_that_are_none_are_passed_over() -> None:
    odd: dict[str, Any] = {"verdict": {"failures": 3, "met": True}, "fleetlore.touched": "tests"}
    assert printed("driver.acceptance", **odd) == ["  ✓ all criteria are met"]
    assert printed("driver.acceptance", GoalState(id=ONE), verdict={"met": True}) == ["  ✓ no criteria; the agent says it is done"]


def test_a_goal_that_waits_for_another_day_says_which() -> None:
    today, later = NOON + timedelta(minutes=1), NOON + timedelta(days=3)
    assert printed("goal.waiting", GoalState(id=ONE, wake=today)) == [f"  waits until {today.astimezone():%H:%M}  "]
    assert printed("goal.waiting", GoalState(id=ONE, wake=later)) == [f"  waits until {later.astimezone():%Y-%m-%d %H:%M}  "]


def test_long_names_are_cut_so_that_lines_align(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainGoalView(names={ONE: "a-name-that-is-much-too-long", TWO: "short"})
    for goal in (ONE, TWO):
        view.print_event(Event(kind="driver.attempt_started", goal=goal, data={"turn_index": 1}))
    assert capsys.readouterr().out.splitlines() == ["a-name-that-is-…  turn 1 starts", "short             turn 1 starts"]
