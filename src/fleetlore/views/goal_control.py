"""Applies a person's control requests to a goal: pause, resume, cancel, message, raise a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fleetlore.events import goals
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
    goal.spent.errors = goal.spent.denies = goal.spent.overflows = goal.same = goal.waits = 0
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
    for axis, value in parse_limits(request.value).items():
        current = getattr(goal.limits, axis)
        if current is not None and value > current and not (current == 0 and axis in ("errors", "overflows")):
            setattr(goal.limits, axis, value)
            goal.settled = None if goal.settled == "budget_exhausted" else goal.settled
            if goal.attempt is not None:
                goal.attempt.is_raised = True


def parse_limits(value: Any) -> dict[str, Any]:
    """Parse the limits that a raise names; invalid ones are left out."""
    limits: dict[str, Any] = {}
    for name, limit in value.items() if isinstance(value, Mapping) else ():
        axis = _LIMIT_BY_NAME.get(name)
        if axis == "seconds":
            limit = duration_seconds(limit) if isinstance(limit, str) else limit
        if axis is None or isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit < 1e15:
            continue
        limits[axis] = float(limit) if axis in ("seconds", "usd") else int(limit)
    return limits


_LIMIT_BY_AXIS = {
    "turns": "turns",
    "wall_time": "seconds",
    "tokens": "tokens",
    "usd": "usd",
    "consecutive_denies": "denies",
    "consecutive_errors": "errors",
    "consecutive_413": "overflows",
}
_LIMIT_BY_NAME = _LIMIT_BY_AXIS | {f"max_{name}": axis for name, axis in _LIMIT_BY_AXIS.items()}
"""Name of a budget → field of `GoalLimits`."""

_CONTROL_HANDLERS: Mapping[str, Callable[[GoalState, Event, goals.ControlRequested], None]] = {
    "pause": _on_pause,
    "resume": _on_resume,
    "cancel": _on_cancel,
    "say": _on_message,
    "raise": _on_budget_raise,
}
