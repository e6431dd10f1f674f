"""Decides the next step of a goal from its state in the log. Pure: no I/O and no clock, so it is tested as a table.

Called by `driver.py` in a loop; each step is run there.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from fleetlore.events.budget_axes import find_exhausted, list_axes
from fleetlore.events.driver_types import (
    Age,
    AttemptOutcome,
    BudgetAxis,
    BudgetSpent,
    Cancelled,
    CompactTrigger,
    Done,
    Escalate,
    TokenPressure,
)
from fleetlore.events.goal_plan import Compaction, Plan
from fleetlore.views.goal_state import BUDGET_QUESTION, GoalState, list_budgets

# --- Circuit breaker for compaction and memory extraction


def is_breaker_open(*, failures: int, max_failures: int, turn: int, opened_turn: int | None, cooldown_turns: int) -> bool:
    """Whether to skip the attempt at this turn.

    The breaker opens after `max_failures` failures in a row. `opened_turn` is the turn of the newest failure (`None`:
    it opens now). After `cooldown_turns` more turns one attempt is let through; if it fails as well, the cooldown
    starts again.
    """
    if failures < max_failures:
        return False
    return opened_turn is None or turn - opened_turn < max(1, cooldown_turns)


# --- Compaction: whether to shorten the agent's context before its next turn

_MINUTE = timedelta(minutes=1)


def find_compact_trigger(
    plan: Compaction,
    *,
    context: int | None,
    session_since: datetime,
    now: datetime,
    turn: int,
    last_compacted_turn: int | None = None,
    failures: int = 0,
    breaker_opened_turn: int | None = None,
) -> CompactTrigger | None:
    """Why the context should be compacted now, or `None`.

    `context` is the size of the context in tokens, not the sum over all turns. `session_since` is when the session
    started or was last compacted. `failures` counts failures in a row, and `breaker_opened_turn` is the turn of the
    newest.
    """
    if plan.context_window == 0:
        return None
    if last_compacted_turn is not None and turn - last_compacted_turn < plan.min_turns_between:
        return None
    if is_breaker_open(
        failures=failures,
        max_failures=plan.max_failures,
        turn=turn,
        opened_turn=breaker_opened_turn,
        cooldown_turns=plan.min_turns_between,
    ):
        return None
    return _find_pressure_trigger(plan, context) or _find_age_trigger(plan, now - session_since)


def age_minutes(session_since: datetime, now: datetime) -> int:
    """Age of a session in whole minutes; 0 if the clock was set back."""
    return max(0, (now - session_since) // _MINUTE)


def context_pressure(plan: Compaction, context: int | None) -> float:
    """Share of the context window in use (1.0 is full); 0 if unknown."""
    return context / plan.context_window if context is not None and plan.context_window else 0.0


def _find_pressure_trigger(plan: Compaction, context: int | None) -> TokenPressure | None:
    pressure = context_pressure(plan, context)
    if context is None or pressure < plan.at:
        return None
    return TokenPressure(pct=pressure, tokens_used=context, context_window=plan.context_window)


def _find_age_trigger(plan: Compaction, age: timedelta) -> Age | None:
    minutes = age // _MINUTE
    if plan.max_age_minutes == 0 or minutes < plan.max_age_minutes:
        return None
    return Age(age_minutes=minutes, max_age_minutes=plan.max_age_minutes)


# --- Steps

MAX_CRASHES = 10
"""After this many crashes in a row the goal stops until a person runs `lore goal resume`, which resets the count."""


class GoalOver(NamedTuple):
    """The goal has ended."""


class TurnInterrupted(NamedTuple):
    """A turn was started, but its driver is gone: kill its processes and record it as interrupted."""


class SettleTurn(NamedTuple):
    """The agent has ended its turn: check the criteria, or classify the failure."""


class ExtractMemories(NamedTuple):
    """Extract memories from the last turn, if it is due."""


class RunDream(NamedTuple):
    """Consolidate memories, if it is due."""


class RequestCompaction(NamedTuple):
    """Ask the agent for a summary, to continue in a new session."""

    trigger: CompactTrigger


class RunTurn(NamedTuple):
    """Run a turn of the agent."""

    turn: int


class WaitUntil(NamedTuple):
    """Wait until a time, or until a control request arrives; `None`: only the latter."""

    until: datetime | None
    why: str


class FinishGoal(NamedTuple):
    """End the goal."""

    outcome: AttemptOutcome


GoalStep: TypeAlias = (
    GoalOver | TurnInterrupted | SettleTurn | ExtractMemories | RunDream | RequestCompaction | RunTurn | WaitUntil | FinishGoal
)


def next_step(goal: GoalState, now: datetime, *, parents: Sequence[GoalState] = ()) -> GoalStep:
    """The next step of a goal. The budgets of `parents`, the goals that it is part of, limit it, too."""
    plan = goal.plan
    if goal.outcome is not None or plan is None:
        return GoalOver()
    if goal.attempt is not None:
        return TurnInterrupted() if goal.attempt.ending is None else SettleTurn()
    end = _find_outcome(goal, plan, now, parents)
    if end is not None and _should_end_at_once(end):
        return FinishGoal(end)
    if _should_extract_memories(goal, plan):
        return ExtractMemories()
    if end is not None:
        return RunDream() if _should_dream(goal, plan) else FinishGoal(end)
    if goal.is_paused:
        return WaitUntil(None, "paused")
    if plan.on_budget == "ask" and (axis := _find_spent_budget(goal, now, parents)) is not None:
        return WaitUntil(None, f"{BUDGET_QUESTION} {axis}")
    if goal.wake is not None and now < goal.wake:
        return WaitUntil(goal.wake, goal.waiting_for)
    if goal.compacting.is_due:
        return RunTurn(goal.turn)
    trigger = _find_trigger(goal, plan, now)
    return RunTurn(next_turn_number(goal)) if trigger is None else RequestCompaction(trigger)


def next_turn_number(goal: GoalState) -> int:
    """The number of the next turn. A turn that did not count is repeated under the same number."""
    return goal.spent.turns - goal.below.turns + 1


def _find_outcome(goal: GoalState, plan: Plan, now: datetime, parents: Sequence[GoalState]) -> AttemptOutcome | None:
    if goal.settled == "done":
        return Done()
    if goal.cancel is not None:
        return Cancelled()
    if goal.settled == "escalate":
        return Escalate(reason=goal.settled_why)
    if goal.settled == "budget_exhausted" and plan.on_budget == "end" and (axis := parse_budget_axis(goal.settled_why)):
        return BudgetSpent(axis=axis)
    if goal.is_paused:
        return None
    if (axis := find_exhausted_axis(goal, now, parents=parents)) is not None:
        return BudgetSpent(axis=axis) if plan.on_budget == "end" else None
    if 0 < plan.stuck_after < goal.same:
        return Escalate(reason=f"stuck: workspace, criteria and words have not changed over {plan.stuck_after} turns")
    if goal.crashes >= MAX_CRASHES:
        return escalate_crashes(goal)
    return None


def crashes_in_check(goal: GoalState) -> bool:
    """Whether checking the open turn crashed the driver again, after `MAX_CRASHES` crashes."""
    return goal.cancel is None and goal.crashes > MAX_CRASHES


def escalate_crashes(goal: GoalState) -> Escalate:
    """The outcome of a goal whose driver keeps crashing."""
    return Escalate(
        reason=f"the driver crashed {goal.crashes} times in a row during turn {goal.turn}; check whether the agent or a criterion"
        " uses up the machine's memory, then run `lore goal resume` to try again"
    )


def find_exhausted_axis(goal: GoalState, now: datetime, *, parents: Sequence[GoalState] = ()) -> BudgetAxis | None:
    """The budget that is spent, of the goal or of one of its parents, or `None`."""
    return next((use.axis for each in (goal, *parents) if (use := find_exhausted(list_budgets(each, now)))), None)


def _find_spent_budget(goal: GoalState, now: datetime, parents: Sequence[GoalState]) -> BudgetAxis | None:
    """The budget that a person must raise: spent, or too small for the next call. Raising it clears `settled`."""
    if goal.settled == "budget_exhausted" and (axis := parse_budget_axis(goal.settled_why)):
        return axis
    return find_exhausted_axis(goal, now, parents=parents)


def parse_budget_axis(name: str) -> BudgetAxis | None:
    """The budget with that name, or `None`."""
    return next((row.spent_as for row in list_axes("goal") if row.spent_as == name), None)


def _should_end_at_once(end: AttemptOutcome) -> bool:
    """A cancelled goal ends without delay, and a spent budget leaves nothing for memories."""
    if isinstance(end, BudgetSpent):
        return any(row.is_lasting_resource and row.spent_as == end.axis for row in list_axes("goal"))
    return isinstance(end, Cancelled)


def _should_extract_memories(goal: GoalState, plan: Plan) -> bool:
    return plan.memory is not None and bool(goal.turns) and goal.turns[-1].counts and goal.remembering.seen_turn < goal.turn


def _should_dream(goal: GoalState, plan: Plan) -> bool:
    return plan.memory is not None and plan.memory.dream and goal.turn > 0 and goal.remembering.dreamt_turn < goal.turn


def _find_trigger(goal: GoalState, plan: Plan, now: datetime) -> CompactTrigger | None:
    if goal.settled == "sleep":
        return None
    # A command has no session of ours. It is asked for a summary once it reports that its context is full; its age is its own matter.
    is_command = plan.harness == "command" and goal.session is None and goal.context is not None
    session_since = now if is_command else goal.session_at
    if session_since is None or (goal.session is None and not is_command):
        return None
    return find_compact_trigger(
        plan.compaction,
        context=goal.context,
        session_since=session_since,
        now=now,
        turn=goal.turn,
        last_compacted_turn=goal.compacting.last_turn or None,
        failures=goal.compacting.failures,
        breaker_opened_turn=goal.compacting.opened_turn,
    )


def backoff_delay(attempts: int, *, first_seconds: float, max_seconds: float) -> timedelta:
    """Exponential backoff: how long to wait before the next attempt."""
    return timedelta(seconds=min(max_seconds, first_seconds * 2.0 ** min(max(0, attempts), 60)))
