"""Requests that people can make of a goal, such as pause, cancel or raise: builds and validates them.

Used by the CLI and the server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from fleetlore import clock
from fleetlore.documents import durations
from fleetlore.errors import Invalid
from fleetlore.events.budget_axes import BudgetRow, find_axis, get_amount, list_axes
from fleetlore.events.envelope import Event
from fleetlore.views.goal_state import GoalState
from fleetlore.views.goals import parse_limits

ACTIONS = ("pause", "resume", "cancel", "say", "raise", "decide")
"""Actions that our driver understands. Other programs may define more for their own goals."""
BUDGET_AXES = tuple(row.name for row in list_axes("goal"))
"""Budgets that can be raised."""
MAX_MESSAGE_BYTES = 16 * 1024
MAX_TEXT_CHARS = 300


def make_control_event(
    goal_id: str | None,
    action: str,
    *,
    by: str,
    value: Any = None,
    of: str | None = None,
    reason: str | None = None,
    agent: str | None = None,
    now: clock.Clock = clock.now,
    new_id: Callable[[], str] = clock.uuid7,
) -> Event:
    """The `control.requested` event for an action. In a sealed log, the caller still has to sign it."""
    fields = {"action": action, "value": value, "of": of, "reason": reason}
    return Event(
        id=new_id(),
        at=now(),
        kind="control.requested",
        actor=by,
        agent=agent,
        goal=goal_id,
        cause=of,
        text=_describe_action(action, value, reason)[:MAX_TEXT_CHARS] or None,
        data={name: each for name, each in fields.items() if each is not None},
    )


def check_action(goal: GoalState, action: str, value: Any = None, *, of: str | None = None) -> None:
    """Raise `Invalid`, with the reason, if the action makes no sense in the goal's current state."""
    if action not in ACTIONS:
        near = get_close_matches(action, ACTIONS, n=1)
        raise Invalid(f"unknown action {action!r}; " + (f"did you mean {near[0]}?" if near else f"known: {', '.join(ACTIONS)}"))
    if goal.goal is None:
        raise Invalid(f"no goal {goal.id} is on this log; see `lore goal list`")
    if goal.plan is None:
        raise Invalid(f"{goal.id} is driven by another program and only shown here; control it there")
    _CHECKS[action](goal, value, of)


def _check_pause(goal: GoalState, value: Any, of: str | None) -> None:
    _require_open(goal, "there is nothing to pause")
    if goal.is_paused:
        raise Invalid(f"it is already paused; resume it with `lore goal resume {short_goal_id(goal)}`")


def _check_resume(goal: GoalState, value: Any, of: str | None) -> None:
    if goal.outcome == "done":
        raise Invalid("it is done and all criteria are met; write a new goal for further work")
    if goal.outcome is None and not goal.is_paused:
        raise Invalid("it is neither paused nor ended, so there is nothing to resume")


def _check_cancel(goal: GoalState, value: Any, of: str | None) -> None:
    _require_open(goal, "there is nothing to cancel")
    if goal.cancel is not None:
        raise Invalid("it is already cancelled, and ends when its driver reads the request")


def _check_say(goal: GoalState, value: Any, of: str | None) -> None:
    if goal.outcome == "done":
        raise Invalid("it is done, so the agent would not get the message; write a new goal for further work")
    if not isinstance(value, str) or not value.strip():
        raise Invalid("the message is empty; give a text")
    if len(value.encode(errors="replace")) > MAX_MESSAGE_BYTES:
        raise Invalid(
            f"a message has at most {MAX_MESSAGE_BYTES // 1024} KiB; put the rest into a file of the workspace, and name the file"
        )


def _check_raise(goal: GoalState, value: Any, of: str | None) -> None:
    if goal.outcome == "done":
        raise Invalid("it is done and needs no larger budget")
    if not isinstance(value, Mapping) or not value:
        raise Invalid(f"no budget was named; give one of {', '.join(BUDGET_AXES)}")
    for name, limit in value.items():
        row = find_axis(str(name))
        if row is None:
            near = get_close_matches(str(name).removeprefix("max_"), BUDGET_AXES, n=1)
            raise Invalid(f"unknown budget {name!r}; " + (f"did you mean {near[0]}?" if near else f"known: {', '.join(BUDGET_AXES)}"))
        _check_limit(goal, row, limit)


def _check_limit(goal: GoalState, row: BudgetRow, written: Any) -> None:
    current = get_amount(goal.limits, row)
    new_limit = next((limit for _, limit in parse_limits({row.name: written})), None)
    if new_limit is None:
        hint = ", or like 6h" if row.unit == "seconds" else ""
        raise Invalid(f"{row.name}: not a limit: {written!r}; give a number above the current limit{hint}")
    if current is None or (current == 0 and row.is_unlimited_at_zero):
        raise Invalid(f"{row.name}: there is no limit to raise")
    if new_limit <= current:
        raise Invalid(f"{row.name}: the limit is {format_limit(row, current)} already; a budget can only be raised")


def _check_decide(goal: GoalState, value: Any, of: str | None) -> None:
    _require_open(goal, "there is no open question")
    if of is None or of not in goal.questions:
        raise Invalid("this question is not open: it was answered or has timed out; `lore decide` lists open ones")


_CHECKS: Mapping[str, Callable[[GoalState, Any, str | None], None]] = {
    "pause": _check_pause,
    "resume": _check_resume,
    "cancel": _check_cancel,
    "say": _check_say,
    "raise": _check_raise,
    "decide": _check_decide,
}


def _require_open(goal: GoalState, what: str) -> None:
    if goal.outcome is not None:
        raise Invalid(f"it has ended ({goal.outcome.replace('_', ' ')}); {what}")


def short_goal_id(goal: GoalState) -> str:
    """The first eight characters of the id, as shown to people."""
    return goal.id[:8]


def format_limit(row: BudgetRow, value: float) -> str:
    """A limit in the notation that people write."""
    if row.unit == "seconds":
        return durations.format_duration(int(value) * 1_000_000_000)
    return f"${value:,.2f}" if row.unit == "usd" else f"{value:,.0f}"


def _describe_action(action: str, value: Any, reason: str | None) -> str:
    """The event's text: details besides the action."""
    match action, value:
        case "say", str():
            return " ".join(value.split())
        case "raise", Mapping():
            return ", ".join(f"{str(axis).removeprefix('max_').replace('_', ' ')} to {limit}" for axis, limit in value.items())
        case "decide", str():
            return f"{value}: {reason}" if reason else value
    return reason or ""
