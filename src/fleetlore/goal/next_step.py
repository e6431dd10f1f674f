"""What comes next for a goal: from what the log says of it to one step. No I/O, no clock: a table that can be tested."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias, get_args

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
from fleetlore.views.goal_state import GoalState, exhausted_budget

# --- When to stop trying what fails again and again, and when to try it once more; pure.


def is_breaker_open(*, failures: int, most: int, turn: int, opened: int | None, rest: int) -> bool:
    """Whether it is not to be tried at this turn.

    It opens after `most` failures in a row. `opened` is the turn of the newest of them: after `rest` turns more, one try is let
    through; should that fail too, its turn is the newest, and the rest begins again. `None`: it opens now.
    """
    if failures < most:
        return False
    return opened is None or turn - opened < max(1, rest)


# --- Whether an agent's context is to be made smaller before its next turn; pure.

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
    """What calls for it, or `None`.

    `context` is what the context holds now, not what all turns used together. `session_since` is when it was begun or last made smaller.
    `failures` are those in a row, and `breaker_opened_turn` the turn of the newest.
    """
    if plan.context_window == 0 or _is_too_soon(plan, turn, last_compacted_turn):
        return None
    if is_breaker_open(failures=failures, most=plan.max_failures, turn=turn, opened=breaker_opened_turn, rest=plan.min_turns_between):
        return None
    return _find_pressure_trigger(plan, context) or _find_age_trigger(plan, now - session_since)


def age_minutes(session_since: datetime, now: datetime) -> int:
    """How old a context is, in whole minutes; nought where the clock was set back."""
    return max(0, (now - session_since) // _MINUTE)


def context_pressure(plan: Compaction, context: int | None) -> float:
    """How full the window is, from nought on; nought where nobody knows."""
    return context / plan.context_window if context is not None and plan.context_window else 0.0


def _is_too_soon(plan: Compaction, turn: int, last: int | None) -> bool:
    return last is not None and turn - last < plan.min_turns_between


def _find_pressure_trigger(plan: Compaction, context: int | None) -> TokenPressure | None:
    full = context_pressure(plan, context)
    if context is None or full < plan.at:
        return None
    return TokenPressure(pct=full, tokens_used=context, context_window=plan.context_window)


def _find_age_trigger(plan: Compaction, age: timedelta) -> Age | None:
    minutes = age // _MINUTE
    if plan.max_age_minutes == 0 or minutes < plan.max_age_minutes:
        return None
    return Age(age_minutes=minutes, max_age_minutes=plan.max_age_minutes)


# ---

MOST_CRASHES = 10
"""After so many crashes in a row the goal is not continued by itself, and a person is needed. `lore goal resume` starts the count again."""


class GoalOver(NamedTuple):
    """The goal has ended."""


class TurnInterrupted(NamedTuple):
    """A turn was begun, and nobody runs it any more: what it left is ended, and it is told as cut short."""


class SettleTurn(NamedTuple):
    """The agent's part of a turn is over: check the criteria, or see what went wrong."""


class ExtractMemories(NamedTuple):
    """See whether the turn holds something worth keeping."""


class RunDream(NamedTuple):
    """Put memories in order, if that is due."""


class RequestCompaction(NamedTuple):
    """Have the agent's context made smaller."""

    trigger: CompactTrigger


class RunTurn(NamedTuple):
    """Have the agent take a turn."""

    turn: int


class WaitUntil(NamedTuple):
    """Do nothing until a moment, or until somebody steers; `None`: only the latter."""

    until: datetime | None
    why: str


class FinishGoal(NamedTuple):
    """End the goal."""

    outcome: AttemptOutcome


GoalStep: TypeAlias = (
    GoalOver | TurnInterrupted | SettleTurn | ExtractMemories | RunDream | RequestCompaction | RunTurn | WaitUntil | FinishGoal
)


def next_step(goal: GoalState, now: datetime, *, above: Sequence[GoalState] = ()) -> GoalStep:
    """The step that a goal needs now. `above` are the goals that it is part of: what they may spend bounds it, too."""
    plan = goal.plan
    if goal.outcome is not None or plan is None:
        return GoalOver()
    if goal.attempt is not None:
        return TurnInterrupted() if goal.attempt.ending is None else SettleTurn()
    end = _find_outcome(goal, plan, now, above)
    if end is not None and _should_end_at_once(end):
        return FinishGoal(end)
    if _should_extract_memories(goal, plan):
        return ExtractMemories()
    if end is not None:
        return RunDream() if _should_dream(goal, plan) else FinishGoal(end)
    if goal.is_paused:
        return WaitUntil(None, "paused")
    if goal.wake is not None and now < goal.wake:
        return WaitUntil(goal.wake, goal.waiting_for)
    if goal.compacting.is_due:
        return RunTurn(goal.turn)
    trigger = _find_trigger(goal, plan, now)
    return RunTurn(next_turn_number(goal)) if trigger is None else RequestCompaction(trigger)


def next_turn_number(goal: GoalState) -> int:
    """The number of the next turn: one that did not count is taken again."""
    return goal.spent.turns - goal.below.turns + 1


def _find_outcome(goal: GoalState, plan: Plan, now: datetime, above: Sequence[GoalState]) -> AttemptOutcome | None:
    if goal.settled == "done":
        return Done()
    if goal.cancel is not None:
        return Cancelled()
    if goal.settled == "escalate":
        return Escalate(reason=goal.settled_why)
    if goal.settled == "budget_exhausted" and (axis := parse_budget_axis(goal.settled_why)):
        return BudgetSpent(axis=axis)
    if goal.is_paused:
        return None
    if (axis := find_exhausted_axis(goal, now, above=above)) is not None:
        return BudgetSpent(axis=axis)
    if 0 < plan.stuck_after < goal.same:
        return Escalate(reason=f"stuck: workspace, criteria and words have not changed over {plan.stuck_after} turns")
    if goal.crashes >= MOST_CRASHES:
        return escalate_crashes(goal)
    return None


def crashes_in_check(goal: GoalState) -> bool:
    """Whether checking the open turn ended the driver, too, after it had already crashed as often as it may."""
    return goal.cancel is None and goal.crashes > MOST_CRASHES


def escalate_crashes(goal: GoalState) -> Escalate:
    """The outcome of a goal whose driver crashes again and again."""
    return Escalate(
        reason=f"the driver crashed {goal.crashes} times in a row during turn {goal.turn}; check whether the agent or a criterion"
        " uses up the machine's memory, then run `lore goal resume` to try again"
    )


def find_exhausted_axis(goal: GoalState, now: datetime, *, above: Sequence[GoalState] = ()) -> BudgetAxis | None:
    """The budget that is used up, the goal's own or that of one above it."""
    return next((axis for each in (goal, *above) if (axis := exhausted_budget(each, now))), None)


def parse_budget_axis(name: str) -> BudgetAxis | None:
    """The budget of that name."""
    return next((axis for axis in get_args(BudgetAxis) if axis == name), None)


def _should_end_at_once(end: AttemptOutcome) -> bool:
    """Whether nothing may be spent on memories any more, or somebody waits for the end."""
    return isinstance(end, Cancelled) or (isinstance(end, BudgetSpent) and end.axis in ("tokens", "usd", "wall_time"))


def _should_extract_memories(goal: GoalState, plan: Plan) -> bool:
    return plan.memory is not None and bool(goal.turns) and goal.turns[-1].counts and goal.remembering.seen_turn < goal.turn


def _should_dream(goal: GoalState, plan: Plan) -> bool:
    return plan.memory is not None and plan.memory.dream and goal.turn > 0 and goal.remembering.dreamt_turn < goal.turn


def _find_trigger(goal: GoalState, plan: Plan, now: datetime) -> CompactTrigger | None:
    if goal.session is None or goal.session_at is None or goal.settled == "sleep":
        return None
    return find_compact_trigger(
        plan.compaction,
        context=goal.context,
        session_since=goal.session_at,
        now=now,
        turn=goal.turn,
        last_compacted_turn=goal.compacting.last_turn or None,
        failures=goal.compacting.failures,
        breaker_opened_turn=goal.compacting.opened_turn,
    )


def backoff_delay(waits: int, *, first: float, longest: float) -> timedelta:
    """How long to wait before the next try, longer each time."""
    return timedelta(seconds=min(longest, first * 2.0 ** min(max(0, waits), 60)))
