"""One goal on a screen: what it does, what it asks, what waits for it, and no more criteria than fit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from fleetlore import clock
from fleetlore.cli.goal.screen import format_panel
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.views.goal_state import GoalState
from tests.cli.goals import ONE, Past, log_at
from tests.cli.running import Lore

URL = "sqlite:goals.db"


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
