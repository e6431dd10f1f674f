"""Operations on goals that change something. `approvals.py` has answers to what they ask.

They are stored as `control.requested` events; the process that runs the goal reads them from the log.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from fleetlore.errors import Invalid, NotFound
from fleetlore.goal import commands
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.seal import OperatorKey
from fleetlore.operations.context import OperationContext
from fleetlore.operations.request import InvalidRequest, Name, Request, as_list
from fleetlore.operations.responses import Stored
from fleetlore.operations.table import Argument
from fleetlore.projections.signed_views import SignedGoalsFold
from fleetlore.views import goals as goals_view
from fleetlore.views.goal_state import GoalState
from fleetlore.views.goals import parse_limits

MIN_ID_CHARS = 4
MAX_GOALS = 50
"""In one request."""
Reason = Annotated[str, Meta(max_length=2000, description="reason; it is recorded"), Argument(metavar="TEXT")]
Limit = Annotated[str, Meta(max_length=100)] | int | float


# --- control


class ControlGoals(Request, kw_only=True):
    """A control command for goals."""

    id: Annotated[
        Name | Annotated[list[Name], Meta(max_length=MAX_GOALS)],
        Meta(description="goal id, or a unique prefix"),
        Argument(metavar="ID"),
    ]
    action: Literal["pause", "resume", "cancel", "say", "raise"]
    value: (
        Annotated[
            Annotated[str, Meta(max_length=commands.MAX_MESSAGE_BYTES)] | dict[str, Limit],
            Meta(description='for `say` the message, for `raise` the new limits, as in {"turns": 60, "wall_time": "6h"}'),
        ]
        | None
    ) = None
    reason: Reason | None = None


def control_goals(context: OperationContext, request: ControlGoals) -> Stored:
    """Pause, resume or cancel goals, send their agents a message, or raise their budgets. All requests are checked before one is stored."""
    _check_value(request)
    action, value, reason = request.action, request.value, (request.reason or "").strip() or None
    ids = [find_goal_id(context.log, id) for id in as_list(request.id)]
    key = context.signing_key(f"to {action} a goal")  # read goals with the key, so that forged events of an agent do not count
    goals = [read_goal(context, id, key) for id in ids]
    for goal in goals:
        try:
            commands.check_action(goal, action, value)
        except Invalid as error:
            is_unreadable = isinstance(value, dict) and len(parse_limits(value)) != len(value)
            raise (InvalidRequest if is_unreadable else Invalid)(f"{commands.short_goal_id(goal)}: {error}") from error
    events = [
        commands.make_control_event(
            goal.id, action, by=context.actor, value=value, reason=reason, agent=goal.agent or None, now=context.now
        )
        for goal in goals
    ]
    stored = context.store(events, key)
    answer = "\n".join(f"{commands.short_goal_id(goal)}  {_describe_effect(context, request, goal)}" for goal in goals)
    return Stored.from_events(answer, stored)


def _check_value(request: ControlGoals) -> None:
    match request.action, request.value:
        case "pause" | "resume" | "cancel", None:
            return
        case "say", str() if request.value.strip():
            return
        case "raise", dict() if request.value:
            if len({name.removeprefix("max_") for name in request.value}) < len(request.value):
                raise InvalidRequest("value: a budget is given twice; give each once")
            return
        case "say", _:
            raise InvalidRequest("value: the message is empty; give a text")
        case "raise", _:
            known = ", ".join(commands.BUDGET_AXES)
            raise InvalidRequest(f'value: nothing to raise; give the new limits, as in {{"turns": 60, "wall_time": "6h"}}: {known}')
    raise InvalidRequest(f"value: is not needed to {request.action}; leave it out")


def _describe_effect(context: OperationContext, request: ControlGoals, goal: GoalState) -> str:
    """The effect of a request, as text."""
    driver, short = context.find_holder(f"goal:{goal.id}"), commands.short_goal_id(goal)
    not_running = f"; it is not running: resume it with lore goal resume {short}"
    match request.action:
        case "pause":
            return "pauses after its current turn" if driver else "is paused; it was not running"
        case "resume":
            return "resumes" if driver else f"may go on{not_running}"
        case "cancel":
            return "is cancelled" if driver else f"is cancelled; it is not running, so it ends with the next lore goal resume {short}"
        case "say":
            return "gets the message with its next turn" + ("" if driver else not_running)
    limits = request.value if isinstance(request.value, dict) else {}
    limit_texts = ", ".join(f"{axis.replace('_', ' ')} up to {limit}" for axis, limit in limits.items())
    return f"has a larger budget: {limit_texts}" + ("" if driver else not_running)


# --- finding goals


def list_goal_ids(log: BlockingRecorder) -> list[str]:
    """Ids of all started goals, oldest first."""
    started = log.read(kinds=("driver.goal_started",))
    return list(dict.fromkeys(event.goal for event in started if event.goal is not None))


def find_goal_id(log: BlockingRecorder, text: str) -> str:
    """The id of the goal with this prefix; `Invalid` if there is none or several."""
    known = list_goal_ids(log)
    found = [id for id in known if text and id.startswith(text.lower())]
    if text in known or text.lower() in known:
        return text if text in known else text.lower()
    if not known:
        raise NotFound("there are no goals on this log yet; start one with `lore goal run FILE`")
    if not found or len(text) < MIN_ID_CHARS:
        short = f"at least {MIN_ID_CHARS} characters of the id are needed" if found else f"no goal id starts with {text!r}"
        raise NotFound(f"{short}; `lore goal list --all` lists all ids")
    if len(found) > 1:
        raise Invalid(f"{len(found)} goal ids start with {text!r}: {', '.join(found[:5])}; give more characters")
    return found[0]


def read_goal(context: OperationContext, id: str, key: OperatorKey | None = None) -> GoalState:
    """Fold one goal from the log. On a sealed log unsigned events are ignored; signatures are verified only if the key is given."""
    seal = None if context.source.coordination is None else context.source.coordination.load_seal()
    return fold_goal(context.log, id, None if seal is None else SignedGoalsFold(seal, key).is_signed, is_verified=key is not None)


def fold_goal(log: BlockingRecorder, id: str, is_signed: Any, *, is_verified: bool = False) -> GoalState:
    """Fold one goal from its own scope; `is_signed` is `None` on a log that is not sealed."""
    goal = GoalState(id=id)
    for event in log.read(f"goal:{id}"):
        if is_signed is None or is_signed(event):
            goals_view.apply_to_goal(goal, event)
        elif event.kind == "control.requested":
            goal.unsigned += 1
    if is_verified and goal.goal is None:
        raise Invalid(
            f"goal {id} was not started with this log's passphrase, so it cannot be controlled; start it again with `lore goal run`"
        )
    return goal
