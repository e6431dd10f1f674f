"""Goals as a fold: what was spent, what people said, what waits, where to go on; and that nothing breaks it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleetlore.events.budget_axes import list_axes
from fleetlore.events.driver_types import BudgetUsage
from fleetlore.events.envelope import Event
from fleetlore.goal.next_step import find_exhausted_axis
from fleetlore.testing import START, FrozenClock, GivenView, given
from fleetlore.views import goals
from fleetlore.views.goal_state import (
    GoalState,
    add_others,
    elapsed_seconds,
    first_paragraph,
    format_amount,
    goal_status,
    usd_or_zero,
    used_tokens,
    used_usd,
)
from fleetlore.views.goals import EVENT_HANDLERS, GoalsState, goal_usage, parse_limits
from tests.strategies import json_objects, json_values
from tests.views.goal_facts import FAILURE, GOAL, SAMPLES, begun, completed, control, decided, ended, fact, judged, over, started, turn

HOUR = timedelta(hours=1)


def goal_of(*recorded: Event) -> GoalState:
    return given(goals, *recorded).state.goals[GOAL]


def seen(recorded: GivenView[GoalsState]) -> GoalState:
    return recorded.state.goals[GOAL]


# --- what it knows


def test_a_goal_is_known_by_how_it_was_begun() -> None:
    goal = goal_of(started(max_usd=2.5, task="t7"))
    assert (goal.description, goal.agent, goal.at) == ("Mend the parser", "ada", START)
    limits = goal.limits
    assert (limits.turns, limits.seconds, limits.tokens, limits.usd) == (3, 3600.0, 1000, 2.5)
    assert (limits.denies, limits.errors, limits.overflows) == (2, 2, 2)
    assert [(each.label, each.met) for each in goal.criteria] == [("shell:make test", None)]


@pytest.mark.parametrize(
    ("description", "short"),
    [("Mend it", "Mend it"), ("\nMend it,\nand test it.\n\nThat is your task t7.\n\nSay so.", "Mend it,\nand test it."), ("", "")],
)
def test_what_a_goal_is_in_short_is_its_first_paragraph(description: str, short: str) -> None:
    assert first_paragraph(description) == short


def test_a_goal_is_begun_once() -> None:
    goal = goal_of(started(), *turn(), started(budget={"max_turns": 99}))
    assert (goal.limits.turns, goal.spent.turns) == (3, 1)


def test_criteria_are_ticked_as_they_are_checked() -> None:
    recorded = given(goals, started(), judged(met=False))
    [criterion] = seen(recorded).criteria
    assert (criterion.met, criterion.message, criterion.evidence) == (False, "exit 1 != 0", "2 failed")
    recorded.when(completed())
    assert [failure.message for failure in seen(recorded).failures] == ["exit 1 != 0"]
    recorded.when(judged(met=True))
    assert (seen(recorded).criteria[0].met, seen(recorded).criteria[0].evidence, seen(recorded).failures) == (True, "", [])


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([], "working"),
        ([begun()], "working"),
        ([begun(), ended()], "checking"),
        ([begun(), fact("goal.permission_asked", tool="Bash")], "asking"),
        ([*turn(outcome="sleep"), fact("goal.waiting", why="asleep", until="2026-01-01T10:00:00Z")], "waiting"),
        ([*turn(), control("pause")], "paused"),
        ([begun(), control("pause")], "working"),
        ([*turn(outcome="done"), over()], "done"),
        ([over("budget_exhausted", axis="turns")], "spent"),
        ([over("escalate", reason="log in again")], "needs you"),
        ([over("cancelled")], "cancelled"),
        ([fact("driver.goal_completed", outcome="odd")], "needs you"),
    ],
)
def test_where_it_stands_in_a_word(events: list[Event], state: str) -> None:
    assert goal_status(goal_of(started(), *events), START + timedelta(minutes=1)) == state


# --- budgets


def test_what_a_turn_took_is_counted_once_however_it_was_reported() -> None:
    recorded = given(goals, started(), begun(), fact("model.replied", input=30, output=10, cache_read=5, cache_write=5, usd=0.1))
    assert (used_tokens(seen(recorded)), used_usd(seen(recorded)), seen(recorded).spent.tokens) == (50, 0.1, 0)
    recorded.when(ended(tokens=80, usd=0.3), completed())
    assert (used_tokens(seen(recorded)), used_usd(seen(recorded)), seen(recorded).spent.turns) == (80, 0.3, 1)


def test_what_a_judge_or_a_memory_takes_counts_against_the_goal() -> None:
    goal = goal_of(started(), begun(), ended(), fact("model.replied", input=7, usd=0.2), completed())
    assert (goal.spent.tokens, goal.spent.usd) == (107, 0.2)


@pytest.mark.parametrize(
    ("events", "axis"),
    [
        ([*turn(1), *turn(2)], None),
        ([*turn(1), *turn(2), *turn(3)], "turns"),
        ([*turn(1, tokens=1000)], "tokens"),
        ([begun(), fact("model.replied", input=1000)], "tokens"),
        ([decided("deny"), decided("deny")], "consecutive_denies"),
        ([decided("deny"), decided("observe"), decided("deny")], "consecutive_denies"),
        ([decided("deny"), decided("allow"), decided("deny")], None),
        ([*turn(1, counts=False, complaint="network")] * 2, "consecutive_errors"),
        ([*turn(1, counts=False, complaint="network"), *turn(1), *turn(2, counts=False, complaint="network")], None),
        ([*turn(1, counts=False, complaint="overflow")] * 2, "consecutive413"),
        ([*turn(1, counts=False, complaint="rate_limit")] * 5, None),
        ([*turn(1, "continue", counts=False, complaint="crashed")] * 9, None),
        ([*turn(1, counts=False, complaint="network"), *turn(1, "continue", counts=False, complaint="crashed")] * 2, "consecutive_errors"),
        ([fact("goal.spent", below="b", tokens=1000)], "tokens"),
        ([fact("goal.spent", below="b", turns=3)], "turns"),
    ],
)
def test_the_first_budget_that_is_used_up(events: list[Event], axis: str | None) -> None:
    assert find_exhausted_axis(goal_of(started(), *events), START) == axis


def test_dollars_are_a_budget_where_somebody_set_one() -> None:
    assert find_exhausted_axis(goal_of(started(max_usd=0.5), *turn()), START) == "usd"
    assert find_exhausted_axis(goal_of(started(), *turn()), START) is None


def test_nought_errors_or_overflows_are_no_limit() -> None:
    events = [*turn(1, counts=False, complaint="network"), *turn(1, counts=False, complaint="overflow")] * 4
    assert find_exhausted_axis(goal_of(started(budget={"max_consecutive_errors": 0, "max_consecutive_413": 0}), *events), START) is None


def test_a_raise_only_grows_what_may_be_spent() -> None:
    recorded = given(goals, started(max_usd=2.0), control("raise", value={"turns": 2, "tokens": 5000, "wall_time": "30m", "max_usd": 1}))
    limits = seen(recorded).limits
    assert (limits.turns, limits.tokens, limits.seconds, limits.usd) == (3, 5000, 3600.0, 2.0)
    recorded.when(control("raise", value={"max_turns": 8, "wall_time": "2h", "usd": 3, "consecutive_errors": 9}))
    limits = seen(recorded).limits
    assert (limits.turns, limits.tokens, limits.seconds, limits.usd, limits.errors) == (8, 5000, 7200.0, 3.0, 9)


def test_a_turn_that_ends_by_a_budget_that_was_raised_meanwhile_does_not_end_the_goal() -> None:
    more = control("raise", value={"tokens": 5000})
    assert goal_of(started(), *turn(1, "budget_exhausted")).settled == "budget_exhausted"
    assert goal_of(started(), begun(), more, ended(), completed(outcome="budget_exhausted")).settled == "continue"
    assert goal_of(started(), *turn(1, "budget_exhausted"), more).settled is None
    assert goal_of(started(), *turn(1, "budget_exhausted"), control("raise", value={"tokens": 5})).settled == "budget_exhausted"


def test_what_has_no_limit_is_not_given_one_by_a_raise() -> None:
    """Nought is no limit for errors and overflows: a raise to five would be a limit where there was none."""
    goal = goal_of(
        started(budget={"max_consecutive_errors": 0, "max_consecutive_413": 0}), control("raise", value={"consecutive_errors": 5})
    )
    assert (goal.limits.errors, goal.limits.overflows) == (0, 0)


@pytest.mark.parametrize(
    "value", [None, "more", 7, [], {"turns": True}, {"turns": "9"}, {"turns": -1}, {"turns": 0}, {"wall_time": "soon"}, {"moon": 3}]
)
def test_a_raise_that_makes_no_sense_changes_nothing(value: Any) -> None:
    assert parse_limits(value) == []
    assert goal_of(started(), control("raise", value=value)).limits == goal_of(started()).limits


# --- time


def test_time_counts_while_somebody_drives_the_goal() -> None:
    clock = FrozenClock()
    recorded = given(goals, started(), clock=clock)
    clock.moment = START + timedelta(minutes=10)
    recorded.when(begun())
    assert seen(recorded).spent.seconds == 600.0
    assert elapsed_seconds(seen(recorded), START + timedelta(minutes=15)) == 900.0


def test_time_between_two_drivers_counts_for_nothing() -> None:
    """A driver that died in the evening is followed in the morning: the night is not the goal's."""
    clock = FrozenClock()
    recorded = given(goals, started(), begun(), clock=clock)
    clock.moment = START + 9 * HOUR
    recorded.when(control("say", value="is anybody there?"), fact("work.lease_taken", epoch=2))
    assert seen(recorded).spent.seconds == 1.0
    assert elapsed_seconds(seen(recorded), START + 9 * HOUR + timedelta(seconds=61)) == pytest.approx(61.0)


def test_time_does_not_count_while_it_is_paused() -> None:
    clock = FrozenClock()
    recorded = given(goals, started(), *turn(), control("pause"), clock=clock)
    before = elapsed_seconds(seen(recorded), clock.moment)
    clock.moment = START + 9 * HOUR
    assert elapsed_seconds(seen(recorded), clock.moment) == before
    recorded.when(fact("goal.waiting", why="paused"), control("resume"))
    clock.advance(60)
    recorded.when(begun(2))
    assert seen(recorded).spent.seconds == pytest.approx(before + 60, abs=3)


def test_a_clock_that_was_set_back_takes_no_time_away() -> None:
    recorded = given(goals, started(), begun())
    spent = seen(recorded).spent.seconds
    goals.apply(recorded.state, replace(ended(), at=START - HOUR, id=GOAL))
    assert seen(recorded).spent.seconds == spent
    assert elapsed_seconds(seen(recorded), START - HOUR) == spent


# --- people


def test_what_is_said_waits_for_the_next_turn_and_comes_once() -> None:
    recorded = given(goals, started(), begun(), control("say", value="Mind the tests."))
    assert seen(recorded).attempt is not None
    assert [message.text for message in seen(recorded).messages] == ["Mind the tests."]
    recorded.when(ended(), completed(), begun(2))
    attempt = seen(recorded).attempt
    assert attempt is not None
    assert [(message.by, message.text) for message in attempt.messages] == [("eve", "Mind the tests.")]
    recorded.when(ended(2), completed(2), begun(3))
    assert seen(recorded).attempt is not None
    assert (seen(recorded).attempt.messages, seen(recorded).messages) == ([], [])  # type: ignore[union-attr] # asserted just before


def test_what_was_said_in_a_turn_that_did_not_count_is_said_again_before_what_came_later() -> None:
    recorded = given(goals, started(), control("say", value="first"), begun(), control("say", value="second"))
    recorded.when(ended(how="failed"), completed(outcome="continue", counts=False, complaint="network"))
    assert [message.text for message in seen(recorded).messages] == ["first", "second"]


def test_a_summary_turn_keeps_what_was_said_for_the_turn_after() -> None:
    compact = next(event for event in SAMPLES if event.kind == "driver.compact_requested")
    recorded = given(goals, started(), *turn(), control("say", value="hello"), compact, begun())
    attempt = seen(recorded).attempt
    assert attempt is not None
    assert (attempt.is_summary, attempt.messages, len(seen(recorded).messages)) == (True, [], 1)
    recorded.when(ended(words="Half done."), completed(outcome="continue", counts=False, words="Half done."))
    recorded.when(fact("driver.compact_completed", goal_id=GOAL, turn_index=1, after_tokens=5))
    recorded.when(fact("driver.compact_summary_stored", goal_id=GOAL, turn_index=1, before_tokens=9, after_tokens=5))
    assert (seen(recorded).summary, seen(recorded).session, seen(recorded).compacting.failures) == ("Half done.", None, 0)
    assert (seen(recorded).spent.turns, len(seen(recorded).messages)) == (1, 1)


def test_a_goal_that_ended_badly_is_taken_up_again_and_its_rows_of_errors_are_forgiven() -> None:
    events = [*turn(1, counts=False, complaint="network")] * 2
    recorded = given(goals, started(), *events, decided("deny"), over("budget_exhausted", axis="consecutive_errors"))
    assert (seen(recorded).outcome, seen(recorded).why) == ("budget_exhausted", "consecutive_errors")
    recorded.when(control("resume"))
    goal = seen(recorded)
    assert (goal.outcome, goal.why, goal.ended_at, goal.settled) == (None, "", None, None)
    assert (goal.spent.errors, goal.spent.denies, goal.spent.tokens, find_exhausted_axis(goal, START)) == (0, 0, 200, None)


TAKEN = fact("work.lease_taken", lease=f"goal:{GOAL}", epoch=1)
CRASH = [begun(), TAKEN, ended(how="stopped", complaint="crashed"), completed(outcome="continue", counts=False, complaint="crashed")]
CRASH_IN_CHECK = [begun(), ended(), TAKEN]


@pytest.mark.parametrize(
    ("events", "crashes"),
    [
        ([TAKEN], 0),
        ([TAKEN, *turn(), TAKEN], 0),
        ([TAKEN, begun(), TAKEN], 1),
        ([TAKEN, *CRASH, *CRASH], 2),
        ([TAKEN, *CRASH_IN_CHECK, TAKEN], 2),
        ([TAKEN, *CRASH_IN_CHECK, completed()], 0),
        ([TAKEN, *CRASH, *turn()], 0),
        ([TAKEN, *CRASH, *turn(1, "continue", counts=False, complaint="network")], 0),
        ([TAKEN, *CRASH, control("resume")], 0),
        ([TAKEN, *CRASH, over("escalate", reason="x"), control("resume")], 0),
        ([TAKEN, *CRASH, begun(), control("resume"), TAKEN], 1),
    ],
)
def test_crashes_in_a_row_are_counted_until_a_driver_survives_a_turn_or_a_person_resumes(events: list[Event], crashes: int) -> None:
    assert goal_of(started(), *events).crashes == crashes


def test_a_log_of_an_earlier_version_does_not_count_crashes_as_errors() -> None:
    """Version 0.1 ended such a goal by its error budget; the log keeps that, and the goal can be resumed."""
    recorded = given(goals, started(), *CRASH * 5, over("budget_exhausted", axis="consecutive_errors"))
    assert (seen(recorded).outcome, seen(recorded).spent.errors, seen(recorded).spent.turns) == ("budget_exhausted", 0, 0)
    recorded.when(control("resume"))
    assert (seen(recorded).outcome, seen(recorded).crashes, find_exhausted_axis(seen(recorded), START)) == (None, 0, None)


def test_what_was_checked_after_a_crash_is_reported_with_the_repeated_turn() -> None:
    verdict = {"met": False, "failures": [FAILURE], "evaluated_at": "2026-01-01T09:00:00Z", "elapsed_ms": 5}
    crashed = completed(outcome="continue", counts=False, complaint="crashed", acceptance=verdict)
    goal = goal_of(started(), begun(), ended(how="stopped", complaint="crashed"), judged(met=False), crashed)
    assert [each.message for each in goal.failures] == ["exit 1 != 0"]
    assert goal.is_interrupted


def test_a_goal_that_was_reached_is_not_taken_up_again() -> None:
    assert goal_of(started(), over(), control("resume")).outcome == "done"


def test_who_is_over_is_neither_paused_nor_called_off() -> None:
    goal = goal_of(started(), over(), control("pause"), control("cancel"))
    assert (goal.is_paused, goal.cancel) == (False, None)


def test_why_it_is_called_off_is_kept_until_it_is_resumed() -> None:
    recorded = given(goals, started(), control("cancel", reason="not needed"))
    assert seen(recorded).cancel == "not needed"
    recorded.when(over("cancelled"), control("resume"))
    assert seen(recorded).cancel is None


def test_a_question_is_open_until_it_is_decided() -> None:
    recorded = given(goals, started(), begun(), fact("goal.permission_asked", tool="Bash", input={"command": "make"}, turn=1, _id="q-1"))
    assert [(each.tool, each.turn) for each in seen(recorded).questions.values()] == [("Bash", 1)]
    recorded.when(decided("deny", cause="q-1"))
    goal = seen(recorded)
    assert (goal.questions, goal.denied, goal.spent.denies) == ({}, 1, 1)
    assert [(each.tool, each.choice, each.why) for each in goal.decisions] == [("Bash", "deny", "by rule")]


# --- where to go on


def test_a_session_that_is_lost_is_let_go_and_the_workspace_put_back() -> None:
    replay = next(event for event in SAMPLES if event.kind == "driver.replay_decision")
    recorded = given(goals, started(), fact("goal.session_bound", session="s1"), *turn(1, counts=False, complaint="session_lost"), replay)
    assert (seen(recorded).session, seen(recorded).roll_back_to) == (None, "abc")
    recorded.when(begun())
    assert seen(recorded).roll_back_to is None


def test_nobody_sleeps_longer_than_a_week() -> None:
    goal = goal_of(started(), *turn(outcome="sleep"), fact("goal.waiting", why="asleep", until="2027-01-01T00:00:00Z"))
    assert goal.wake is not None
    assert goal.wake - START < timedelta(days=7, minutes=1)


def test_turns_that_change_nothing_are_counted() -> None:
    same: dict[str, Any] = {"extras": {"fleetlore.mark": "abc"}}
    events = [*turn(1, **same), *turn(2, **same), *turn(3, counts=False, complaint="network"), *turn(3, **same)]
    assert goal_of(started(), *events).same == 3
    assert goal_of(started(), *events, *turn(4, extras={"fleetlore.mark": "other"})).same == 1


def test_what_goals_below_spend_counts_and_is_told_apart() -> None:
    goal = goal_of(started(), *turn(), fact("goal.spent", below="b", turns=1, tokens=50, usd=0.25))
    assert (goal.spent.turns, goal.spent.tokens, goal.spent.usd) == (2, 150, 0.75)
    assert (goal.below.turns, goal.below.tokens, goal.below.usd) == (1, 50, 0.25)


def test_goals_below_can_give_nothing_back() -> None:
    goal = goal_of(started(), *turn(), fact("goal.spent", below="b", turns=-9, tokens=-50, usd=-0.25))
    assert (goal.spent.turns, goal.spent.tokens, goal.spent.usd) == (1, 100, 0.5)


# --- goals of others, and many of them


def test_of_a_goal_that_somebody_else_drives_its_own_account_is_shown() -> None:
    usage = {"turns": 4, "wall_time": "90s", "tokens": 777, "consecutive_denies": 1, "consecutive_errors": 2, "consecutive_413": 0}
    goal = goal_of(started(is_ours=False), begun(), completed(usage_after=usage))
    assert (goal.plan, goal.agent) == (None, "ada")
    assert (goal.spent.turns, goal.spent.seconds, goal.spent.tokens, goal.spent.errors) == (4, 90.0, 777, 2)
    assert [(each.number, each.outcome) for each in goal.turns] == [(1, "needs_retry")]


def test_what_is_recorded_of_a_goal_without_its_beginning_is_shown_too() -> None:
    goal = goal_of(*turn(5), over("escalate", reason="stuck"))
    assert (goal.goal, goal.turn, goal.outcome, goal.why) == (None, 5, "escalate", "stuck")


def test_usage_is_reported_as_the_nexo_format_wants_it() -> None:
    goal = goal_of(started(), *turn(1, counts=False, complaint="network"))
    usage = goal_usage(goal, START + timedelta(seconds=90))
    assert usage == BudgetUsage(turns=0, wall_time="1m 30s", tokens=100, consecutive_denies=0, consecutive_errors=1)


def test_the_oldest_that_are_over_are_let_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goals, "GOALS_KEPT", 2)
    recorded = given(goals, started(), started(goal="b"), fact("driver.goal_completed", goal="b"), started(goal="c"))
    assert (list(recorded.state.goals), recorded.state.let_go) == ([GOAL, "c"], 1)
    recorded.when(started(goal="d"))
    assert (list(recorded.state.goals), recorded.state.let_go) == (["c", "d"], 2)


def test_what_belongs_to_no_goal_or_says_nothing_of_one_is_passed_over() -> None:
    recorded = given(goals, Event(kind="tool.called", agent="ada"), Event(kind="fleet.commit", goal=GOAL))
    assert recorded.state == goals.initial()


# --- nothing breaks it


def test_every_received_kind_has_a_sample() -> None:
    assert {event.kind for event in SAMPLES} == set(EVENT_HANDLERS)


def folded(recorded: list[Event], state: GoalsState | None = None) -> GoalsState:
    state = state or goals.initial()
    for event in recorded:
        state = goals.apply(state, event)
    return state


def through_json(state: GoalsState) -> GoalsState:
    return msgspec.json.decode(msgspec.json.encode(state), type=GoalsState)


@st.composite
def odd(draw: st.DrawFn) -> Event:
    """An event of a known kind: valid, with something in it replaced, or with anything in it at all."""
    event = draw(st.sampled_from(SAMPLES))
    how = draw(st.sampled_from(["as it should be", "replaced", "anything"]))
    data = event.data
    if how == "replaced" and data:
        name = draw(st.sampled_from(sorted(data)))
        data = data | {name: _replaced(draw, data[name])}
    elif how == "anything":
        data = draw(json_objects())
    at = draw(st.none() | st.datetimes(timezones=st.just(UTC)) | st.just(START))
    return replace(event, data=data, at=at, id=draw(st.none() | st.uuids().map(str)), text=draw(st.none() | st.text(max_size=5)))


def _replaced(draw: st.DrawFn, value: Any) -> Any:
    """The same with one thing in it, however deep, replaced."""
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        name = draw(st.sampled_from(sorted(value)))
        return value | {name: _replaced(draw, value[name])}
    if isinstance(value, list) and value and draw(st.integers(0, 5)):
        return [_replaced(draw, value[0]), *value[1:]]
    return draw(json_values())


@pytest.mark.parametrize(
    "recorded",
    [
        [fact("goal.waiting", why="asleep", until="9999-12-31T23:59:59Z", _at=datetime.max.replace(tzinfo=UTC))],
        [fact("goal.waiting", why="asleep", until="0001-01-01T00:00:00+23:00", _at=START)],
        [fact("goal.spent", below="b", usd=1e308)] * 3,
        [begun(), ended(usd=1e308), completed()] * 3,
        [fact("goal.spent", below="b", tokens=10**40), begun(), ended(tokens=10**40, context=10**40)],
    ],
)
def test_no_number_is_too_large_and_no_time_too_late(recorded: list[Event]) -> None:
    state = folded([started(), *recorded])
    assert through_json(state) == state


@settings(max_examples=60, deadline=None)
@for_all(st.lists(odd(), max_size=8), st.integers(0, 8))
def test_any_stored_facts_fold_without_raising_and_alike_from_a_checkpoint(recorded: list[Event], middle: int) -> None:
    whole = [started(), *recorded]
    state = folded(whole)
    checkpoint = through_json(folded(whole[:middle]))
    assert through_json(state) == state
    assert folded(whole[middle:], checkpoint) == folded(whole)
    for goal in state.goals.values():
        moment = datetime(2026, 1, 1, 12, tzinfo=UTC)
        assert goal_status(goal, moment)
        assert goal_usage(goal, moment).turns >= 0
        find_exhausted_axis(goal, moment)


def test_an_axis_without_dollars_is_counted_above_what_dollars_can_be() -> None:
    assert add_others({"bytes": 1.0}, {"bytes": 2e9}) == {"bytes": 2e9 + 1}
    assert add_others({"bytes": 1.0}, {"bytes": 1e300, "odd": True}) == {"bytes": 1.0, "odd": 0}


def test_what_is_true_is_no_dollar() -> None:
    assert [usd_or_zero(value) for value in (True, 1, 1e9)] == [0.0, 1.0, 0.0]


def test_a_duration_is_rounded_to_milliseconds() -> None:
    [row] = [row for row in list_axes("goal") if row.unit == "seconds"]
    assert format_amount(row, 1.001) == "1s 1ms"
