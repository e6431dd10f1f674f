"""What people want of a goal: that it pauses, goes on, ends, hears something, may spend more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fleetlore.events import goals
from fleetlore.events.envelope import Event
from fleetlore.views.goal_payloads import duration_seconds, parse_payload
from fleetlore.views.goal_state import MAX_MESSAGES, GoalState, OperatorMessage, is_goal_paused


def apply_control(goal: GoalState, event: Event) -> None:
    """Let a goal know what somebody wants of it."""
    told = parse_payload(event, goals.ControlRequested)
    steer = _CONTROL_HANDLERS.get(told.action) if told else None
    if told is not None and steer is not None:
        steer(goal, event, told)


def _on_pause(goal: GoalState, event: Event, told: goals.ControlRequested) -> None:
    goal.is_paused = goal.outcome is None


def _on_resume(goal: GoalState, event: Event, told: goals.ControlRequested) -> None:
    """Let it go on; one that ended otherwise than well is taken up again, its rows of errors forgiven. Crashes are counted anew."""
    if is_goal_paused(goal) and goal.clock_from is not None and event.at is not None:
        goal.clock_from = max(goal.clock_from, event.at)
    goal.is_paused, goal.crashes = False, 0
    if goal.outcome is None or goal.outcome == "done":
        return
    goal.outcome, goal.ended_at, goal.why, goal.cancel, goal.settled = None, None, "", None, None
    goal.spent.errors = goal.spent.denies = goal.spent.overflows = goal.same = goal.waits = 0
    if goal.roll_back_to is not None:  # a person has had the workspace since: what is there is kept
        goal.roll_back_to, goal.is_interrupted = None, True


def _on_cancel(goal: GoalState, event: Event, told: goals.ControlRequested) -> None:
    if goal.outcome is None:
        goal.cancel = told.reason or event.text or "called off"


def _on_message(goal: GoalState, event: Event, told: goals.ControlRequested) -> None:
    text = told.value if isinstance(told.value, str) else event.text
    if text:
        message = OperatorMessage(id=event.id or "", by=event.actor or "somebody", text=text, at=event.at)
        goal.messages = [*goal.messages, message][-MAX_MESSAGES:]


def _on_budget_raise(goal: GoalState, event: Event, told: goals.ControlRequested) -> None:
    """Limits only grow; where there is none, none is made. Nought errors or overflows mean no limit.

    A turn that ends by a limit that was raised meanwhile does not end the goal.
    """
    for axis, value in parse_limits(told.value).items():
        held = getattr(goal.limits, axis)
        if held is not None and value > held and not (held == 0 and axis in ("errors", "overflows")):
            setattr(goal.limits, axis, value)
            goal.settled = None if goal.settled == "budget_exhausted" else goal.settled
            if goal.attempt is not None:
                goal.attempt.is_raised = True


def parse_limits(value: Any) -> dict[str, Any]:
    """The limits that a raise names, in our units; what cannot be read is left out."""
    found: dict[str, Any] = {}
    for name, told in value.items() if isinstance(value, Mapping) else ():
        axis = _LIMIT_BY_NAME.get(name)
        if axis == "seconds":
            told = duration_seconds(told) if isinstance(told, str) else told
        if axis is None or isinstance(told, bool) or not isinstance(told, int | float) or not 0 < told < 1e15:
            continue
        found[axis] = float(told) if axis in ("seconds", "usd") else int(told)
    return found


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
"""How a budget is called → our field for it."""

_CONTROL_HANDLERS: Mapping[str, Callable[[GoalState, Event, goals.ControlRequested], None]] = {
    "pause": _on_pause,
    "resume": _on_resume,
    "cancel": _on_cancel,
    "say": _on_message,
    "raise": _on_budget_raise,
}
