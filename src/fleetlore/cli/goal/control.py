"""`lore goal pause`, `cancel`, `say`, `raise`: control requests, stored in the log for the process that runs the goal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleetlore.cli import terminal
from fleetlore.cli.goal import find
from fleetlore.errors import Invalid
from fleetlore.goal import commands

if TYPE_CHECKING:
    from argparse import Namespace

    from fleetlore.cli.goal.find import GoalLog
    from fleetlore.views.goal_state import GoalState

_AXES = ("turns", "wall_time", "tokens", "usd", "consecutive_denies", "consecutive_errors", "consecutive_413")


def control_goals(args: Namespace) -> int:
    """Check all requests before the first is stored."""
    value = _control_value(args)
    with find.open_goals(args) as place:
        ids = [find.find_goal_id(place.log, id) for id in getattr(args, "ids", None) or [args.id]]
        key = place.key(f"to {args.verb} a goal")  # read goals with the key, so that forged events of an agent do not count
        goals = [find.fold_goal(place, id, key) for id in ids]
        for goal in goals:
            try:
                commands.check_action(goal, args.verb, value)
            except Invalid as error:
                raise Invalid(f"{commands.short_goal_id(goal)}: {error}") from error
        by, reason = find.current_user(), getattr(args, "reason", None)
        place.put(
            [
                commands.make_control_event(goal.id, args.verb, by=by, value=value, reason=reason, agent=goal.agent or None)
                for goal in goals
            ],
            key,
        )
        for goal in goals:
            terminal.out(f"{commands.short_goal_id(goal)}  {_describe_effect(args.verb, goal, place, value)}")
    return 0


def _control_value(args: Namespace) -> Any:
    if args.verb == "say":
        return " ".join(args.text)
    if args.verb != "raise":
        return None
    wanted = {axis: limit_texts for axis in _AXES if (limit_texts := getattr(args, axis)) is not None}
    if not wanted:
        raise Invalid(
            "nothing to raise: give --turns, --wall-time, --tokens, --usd, --consecutive-denies, --consecutive-errors or --consecutive-413"
        )
    return wanted


def _describe_effect(verb: str, goal: GoalState, place: GoalLog, value: Any) -> str:
    """The effect of a request, as text."""
    driver, short = place.driver_of(goal.id), commands.short_goal_id(goal)
    not_running = f"; it is not running: resume it with lore goal resume {short}"
    match verb:
        case "pause":
            return "pauses after its current turn" if driver else "is paused; it was not running"
        case "cancel":
            return "is cancelled" if driver else f"is cancelled; it is not running, so it ends with the next lore goal resume {short}"
        case "say":
            return "gets the message with its next turn" + ("" if driver else not_running)
    limit_texts = ", ".join(f"{axis.replace('_', ' ')} up to {each}" for axis, each in value.items())
    return f"has a larger budget: {limit_texts}" + ("" if driver else not_running)
