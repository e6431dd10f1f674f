"""What people may request of a goal, and what is rejected."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from fleetlore.errors import Invalid
from fleetlore.events import catalog
from fleetlore.events.driver_types import BudgetGuards, Goal
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Plan
from fleetlore.goal import commands
from fleetlore.views import goals
from fleetlore.views.goal_state import GoalLimits, GoalState, PendingPermission

ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
_BUDGET = BudgetGuards(max_turns=40, max_wall_time="4h", max_tokens=2_000_000, max_consecutive_denies=3)


def begun(**fields: Any) -> GoalState:
    goal = Goal(id=ID, description="x", acceptance=(), budget=_BUDGET)
    return GoalState(id=ID, goal=goal, plan=Plan(harness="command", agent="ada"), **fields)


def make_command(action: str, value: Any = None, **more: Any) -> Event:
    return commands.make_control_event(ID, action, by="grace", value=value, now=lambda: NOW, **more)


# --- the command as an event


@pytest.mark.parametrize(
    ("action", "value", "text"),
    [
        ("pause", None, None),
        ("say", "The API\nmoved", "The API moved"),
        ("raise", {"turns": 60, "wall_time": "6h"}, "turns to 60, wall time to 6h"),
    ],
)
def test_a_request_is_a_fact_that_the_log_takes(action: str, value: Any, text: str | None) -> None:
    event = make_command(action, value)
    assert (event.kind, event.actor, event.goal, event.at, event.text) == ("control.requested", "grace", ID, NOW, text)
    assert event.data == {"action": action} | ({} if value is None else {"value": value})
    catalog.check_payload(event.kind, event.data)


def test_an_answer_names_the_question_and_a_request_its_reason() -> None:
    answer = make_command("decide", {"choice": "deny", "message": "no"}, of="q1", reason="not on a Friday")
    assert (answer.cause, answer.data["of"], answer.data["reason"]) == ("q1", "q1", "not on a Friday")


def test_what_is_checked_is_what_the_fold_obeys() -> None:
    goal = begun()
    for action, value in [("raise", {"turns": 60, "usd": 5.0, "max_wall_time": "6h"}), ("say", "hello"), ("pause", None)]:
        if action != "raise":
            commands.check_action(goal, action, value)
        goals.apply_to_goal(goal, make_command(action, value))
    assert (goal.limits.turns, goal.limits.seconds, goal.is_paused) == (60, 6 * 3600.0, True)
    assert [message.text for message in goal.messages] == ["hello"]
    commands.check_action(goal, "resume")
    goals.apply_to_goal(goal, make_command("resume"))
    commands.check_action(goal, "cancel")
    goals.apply_to_goal(goal, make_command("cancel", reason="another way was found"))
    assert (goal.is_paused, goal.cancel) == (False, "another way was found")


# --- what makes no sense


@pytest.mark.parametrize(
    ("goal", "action", "value", "reason"),
    [
        (begun(), "paus", None, "did you mean pause"),
        (begun(), "juggle", None, "known: pause, resume"),
        (GoalState(id=ID), "pause", None, "no goal"),
        (GoalState(id=ID, goal=begun().goal), "pause", None, "driven by another program"),
        (begun(outcome="done"), "pause", None, r"it has ended \(done\)"),
        (begun(is_paused=True), "pause", None, "already paused"),
        (begun(), "resume", None, "neither paused nor ended"),
        (begun(outcome="done"), "resume", None, "it is done"),
        (begun(outcome="budget_exhausted"), "cancel", None, r"ended \(budget exhausted\)"),
        (begun(cancel="why"), "cancel", None, "already cancelled"),
        (begun(), "say", "  ", "is empty"),
        (begun(), "say", {"a": 1}, "is empty"),
        (begun(), "say", "x" * 20_000, "at most 16 KiB"),
        (begun(outcome="done"), "say", "x", "would not get the message"),
        (begun(), "raise", None, "no budget was named"),
        (begun(), "raise", {"turn": 50}, "did you mean turns"),
        (begun(), "raise", {"turns": 40}, "the limit is 40 already"),
        (begun(), "raise", {"turns": 60, "tokens": 5}, "tokens: the limit is 2,000,000 already"),
        (begun(), "raise", {"wall_time": "2h"}, "wall_time: the limit is 4h already"),
        (begun(), "raise", {"wall_time": "soon"}, "or like 6h"),
        (begun(), "raise", {"turns": True}, "not a limit"),
        (begun(), "raise", {"turns": float("nan")}, "not a limit"),
        (begun(), "raise", {"usd": 5}, "there is no limit"),
        (begun(limits=GoalLimits(errors=0)), "raise", {"consecutive_errors": 9}, "there is no limit"),
        (begun(outcome="done"), "raise", {"turns": 60}, "needs no larger budget"),
        (begun(), "decide", "allow", "this question is not open"),
        (begun(questions={"q": PendingPermission(id="q", turn=1, tool="Bash")}, outcome="escalate"), "decide", "allow", "it has ended"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(goal: GoalState, action: str, value: Any, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        commands.check_action(goal, action, value)


def test_a_question_that_waits_can_be_answered() -> None:
    commands.check_action(begun(questions={"q": PendingPermission(id="q", turn=1, tool="Bash")}), "decide", "allow", of="q")


@pytest.mark.parametrize("outcome", ["budget_exhausted", "escalate", "cancelled"])
def test_a_goal_that_ended_otherwise_than_well_can_be_taken_up_and_given_more(outcome: str) -> None:
    goal = begun(outcome=outcome)
    for action, value in (("resume", None), ("raise", {"turns": 60}), ("say", "try the other way")):
        commands.check_action(goal, action, value)
