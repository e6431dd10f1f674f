"""Promises about secrets, money and privacy that no other test states. Each test fails on the mutation named beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fleetlore import connect
from fleetlore.errors import ModelRefused
from fleetlore.events.driver_types import BudgetAxis, BudgetSpent
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Memory
from fleetlore.goal.memory.folder import MemoryFolder
from fleetlore.goal.next_step import FinishGoal, next_step
from fleetlore.goal.recorded_model import RecordedModel
from fleetlore.log.admission import Admission
from fleetlore.models.base import ModelRequest
from fleetlore.models.scripted import ScriptedModel
from fleetlore.story.paragraphs import Detail
from fleetlore.testing import START, given
from fleetlore.town import planning
from fleetlore.views import goals
from fleetlore.views.cost_sums import sum_total
from fleetlore.views.costs import Costs
from fleetlore.views.goal_state import GoalUsage
from tests.goal.scripted import done, goal, kinds, make_driver
from tests.story.rendering import render_story
from tests.views.goal_facts import GOAL, started, turn
from tests.views.town_facts import created, idle, recorded


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("tool.called", {"tool": "Bash", "input": {"secret": "correct horse"}}),
        ("billing.sent", {"secret": "correct horse"}),
        ("billing.sent", {"nested": [{"client": {"secret": "correct horse"}}]}),
        ("prompt.submitted", {"secret": "correct horse"}),
    ],
)
def test_a_value_under_the_key_secret_is_never_stored(kind: str, data: dict[str, Any]) -> None:
    """Mutation: admission treats every event like a stage play, where a player's `secret` is part of the play."""
    record = Admission().admit(Event(kind=kind, actor="ada", data=data))
    assert b"correct horse" not in record.raw
    assert b"[redacted]" in record.raw


@pytest.mark.parametrize("axis", ["tokens", "usd"])
async def test_no_model_is_called_after_the_budget_is_spent(tmp_path: Path, axis: str) -> None:
    """Mutation: the model for memories and dreams does not look at the dollar budget before it is asked."""
    thinker = ScriptedModel({"memory": {"memories": []}, "dream": {"merges": []}})
    with connect("memory:").blocking() as log:
        led = make_driver(log, [done(tokens=2000, usd=2.0)], met=[False], memory=MemoryFolder(str(tmp_path / "ada")), thinker=thinker)
        limits: dict[str, Any] = {"budget": {"max_tokens": 1000}} if axis == "tokens" else {"max_usd": 1.0}
        await led.driver.start(goal(memory=Memory(dream=True), **limits))
        state = await led.driver.run_goal()
        assert (state.outcome, state.why) == ("budget_exhausted", axis)
        assert "model.called" not in kinds(log)
        for purpose in ("memory", "dream", "judge"):
            with pytest.raises(ModelRefused, match=f"budget of {axis}"):
                await RecordedModel(led.driver.journal, thinker, purpose=purpose).reply(ModelRequest(prompt="What did you learn?"))
        assert "model.called" not in kinds(log)


@pytest.mark.parametrize(("axis", "spent"), [("tokens", GoalUsage(turns=1, tokens=10**9)), ("usd", GoalUsage(turns=1, usd=5.0))])
def test_a_goal_whose_budget_is_spent_ends_before_memories_and_dreams(axis: BudgetAxis, spent: GoalUsage) -> None:
    """Mutation: a spent dollar budget does not end a goal at once."""
    state = given(goals, started(memory={}, max_usd=5), *turn()).state.goals[GOAL]
    state.spent = spent
    assert next_step(state, START) == FinishGoal(BudgetSpent(axis=axis))


@pytest.mark.parametrize("detail", ["story", "full", "headline"])
@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("model.failed", {"error": "my hidden plan"}),
        ("tool.failed", {"tool": "Bash", "error": "my hidden plan"}),
        ("fleet.error", {"error": "my hidden plan"}),
        ("node.failed", {"node": "thinker", "error": "my hidden plan"}),
    ],
)
def test_the_error_text_of_a_private_event_is_not_in_a_story(kind: str, data: dict[str, Any], detail: Detail) -> None:
    """Mutation: the phrase for an error does not look at the event's visibility."""
    event = Event(
        kind=kind, id="0198c0de-0000-7000-8000-000000000001", at=START, actor="ada", agent="ada", text="my hidden plan", data=data
    )
    hidden = replace(event, visibility="private")
    for format in ("text", "json", "markdown", "html"):
        assert "hidden plan" not in render_story([hidden], format, detail)


def test_a_reviewer_is_given_no_ordinary_work() -> None:
    """Mutation: the planner does not leave out agents that only review."""
    reviewer = idle("rev", "reviewer")
    assert list(planning.propose_assignments(recorded(*reviewer, created("t1")).state)) == []
    with_builder = recorded(*reviewer, *idle("bob", "builder"), created("t1"), created("t2")).state
    assert [(move.task, move.agent) for move in planning.propose_assignments(with_builder)] == [("t1", "bob")]


def test_one_hour_cache_writes_are_part_of_cache_writes() -> None:
    """Mutation: the one-hour part is not counted where a source reports only that."""
    view = Costs()
    event = Event(
        kind="model.replied", at=START, agent="ada", data={"model": "claude-opus-4-8", "input": 0, "output": 0, "cache_write_1h": 1_000_000}
    )
    amount = sum_total(view.apply(view.initial(), event))
    assert (amount.cache_write, amount.cache_write_1h) == (1_000_000, 1_000_000)
    assert amount.usd == pytest.approx(10.0)
