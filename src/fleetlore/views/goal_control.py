"""Applies a person's control requests to a goal: pause, resume, cancel, message, raise a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fleetlore.events import goals
from fleetlore.events.budget_axes import BudgetRow, find_axis, get_amount, list_axes, set_amount
from fleetlore.events.envelope import Event
from fleetlore.views.goal_payloads import duration_seconds, parse_payload
from fleetlore.views.goal_state import MAX_MESSAGES, GoalState, OperatorMessage, is_goal_paused


def apply_control(goal: GoalState, event: Event) -> None:
    """Apply a control request; an unknown action is ignored."""
    request = parse_payload(event, goals.ControlRequested)
    handler = _CONTROL_HANDLERS.get(request.action) if request else None
    if request is not None and handler is not None:
        handler(goal, event, request)


def _on_pause(goal: GoalState, event: Event, request: goals.ControlRequested) -> None:
    goal.is_paused = goal.outcome is None


def _on_resume(goal: GoalState, event: Event, request: goals.ControlRequested) -> None:
    """Resume. A goal that ended without success starts again, with its counts of errors and crashes reset."""
    if is_goal_paused(goal) and goal.clock_from is not None and event.at is not None:
        goal.clock_from = max(goal.clock_from, event.at)
    goal.is_paused, goal.crashes = False, 0
    if goal.outcome is None or goal.outcome == "done":
        return
    goal.outcome, goal.ended_at, goal.why, goal.cancel, goal.settled = None, None, "", None, None
    goal.same = goal.waits = 0
    for row in list_axes("goal"):
        if row.is_in_a_row:
            set_amount(goal.spent, row, 0)
    if goal.roll_back_to is not None:  # a person may have changed the workspace since: keep it
        goal.roll_back_to, goal.is_interrupted = None, True


def _on_cancel(goal: GoalState, event: Event, request: goals.ControlRequested) -> None:
    if goal.outcome is None:
        goal.cancel = request.reason or event.text or "called off"


def _on_message(goal: GoalState, event: Event, request: goals.ControlRequested) -> None:
    text = request.value if isinstance(request.value, str) else event.text
    if text:
        message = OperatorMessage(id=event.id or "", by=event.actor or "somebody", text=text, at=event.at)
        goal.messages = [*goal.messages, message][-MAX_MESSAGES:]


def _on_budget_raise(goal: GoalState, event: Event, request: goals.ControlRequested) -> None:
    """Limits only grow, and none is added. 0 errors or overflows mean no limit.

    A turn that ends by a limit that was raised meanwhile does not end the goal.
    """
    for row, value in parse_limits(request.value):
        current = get_amount(goal.limits, row)
        if current is not None and value > current and not (current == 0 and row.is_unlimited_at_zero):
            set_amount(goal.limits, row, value)
            goal.settled = None if goal.settled == "budget_exhausted" else goal.settled
            if goal.attempt is not None:
                goal.attempt.is_raised = True


def parse_limits(value: Any) -> list[tuple[BudgetRow, float]]:
    """Parse the limits that a raise names, each axis once; invalid ones are left out."""
    limits: dict[str, tuple[BudgetRow, float]] = {}
    for name, limit in value.items() if isinstance(value, Mapping) else ():
        row = find_axis(name) if isinstance(name, str) else None
        if row is not None and row.unit == "seconds":
            limit = duration_seconds(limit) if isinstance(limit, str) else limit
        if row is None or isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit < 1e15:
            continue
        limits[row.name] = (row, float(limit) if row.unit in ("seconds", "usd") else int(limit))
    return list(limits.values())


_CONTROL_HANDLERS: Mapping[str, Callable[[GoalState, Event, goals.ControlRequested], None]] = {
    "pause": _on_pause,
    "resume": _on_resume,
    "cancel": _on_cancel,
    "say": _on_message,
    "raise": _on_budget_raise,
}
