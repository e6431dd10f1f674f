"""`POST /api/goals/{id}/control` and `/decide`: control a goal, and answer its approval requests.

They are stored as `control.requested` events; the goal's driver reads them from the log. On a sealed log the operator key signs them:
`lore up` needs the passphrase for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.routing import Route

from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.goal import commands
from fleetlore.goal.gate import questions
from fleetlore.kernel.journal import BlockingJournal, Decision, NoState
from fleetlore.log.base import Expect
from fleetlore.server.endpoints.request_body import RequestBody, decode_json, read_body
from fleetlore.server.endpoints.response import EndpointResult, counted_endpoint, positions_result
from fleetlore.server.endpoints.store import store_records
from fleetlore.server.problems import Problem
from fleetlore.views.goals import parse_limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleetlore.server.context import AppContext
    from fleetlore.views.goal_state import GoalState

PERSON = "control room"
MAX_REASON_CHARS = 2000

Reason = Annotated[str, Meta(max_length=MAX_REASON_CHARS)]
Limit = Annotated[str, Meta(max_length=100)] | int | float
_T = TypeVar("_T")


class GoalControl(Struct, kw_only=True, forbid_unknown_fields=True):
    """A control command for a goal."""

    action: Literal["pause", "resume", "cancel", "say", "raise"]
    value: Annotated[str, Meta(max_length=commands.MAX_MESSAGE_BYTES)] | dict[str, Limit] | None = None
    """For `say` the message, for `raise` the new limits, as in `{"turns": 60, "wall_time": "6h"}`."""
    reason: Reason | None = None


class ApprovalAnswer(Struct, kw_only=True, forbid_unknown_fields=True):
    """A person's answer to an approval request of an agent."""

    of: Annotated[str, Meta(min_length=1, max_length=200)]
    """The id of the question."""
    choice: Literal["allow", "deny"]
    message: Reason | None = None
    """The reason; the agent sees it."""


@counted_endpoint("goals")
async def post_control(request: Request, context: AppContext) -> EndpointResult:
    """Store one `control.requested`. Needs the scope `admin`, because it controls agents."""
    await context.keys.need(request, "admin")
    body = await read_body(request, context.limits)
    return positions_result(await context.run_storing(body, _store_control, context, request.path_params["id"], body))


@counted_endpoint("goals")
async def post_decision(request: Request, context: AppContext) -> EndpointResult:
    """Store the answer to an approval request. Needs the scope `admin`."""
    await context.keys.need(request, "admin")
    body = await read_body(request, context.limits)
    return positions_result(await context.run_storing(body, _store_decision, context, request.path_params["id"], body))


# --- control


def _store_control(context: AppContext, id: str, body: RequestBody) -> list[str]:
    request = _check_value(
        decode_json(body.decompress(context.limits.body), GoalControl, 'send {"action": "pause"}, and a "value" where it needs one')
    )
    reason = (request.reason or "").strip() or None
    _check_goal(context, id, lambda goal: commands.check_action(goal, request.action, request.value))
    event = commands.make_control_event(id, request.action, by=PERSON, value=request.value, reason=reason, now=context.clock)
    return store_records(context.log, [context.log.admit(_sign(context, event))])


def _check_value(request: GoalControl) -> GoalControl:
    """The request, if its value fits its action; else a `Problem` 422."""
    match request.action, request.value:
        case "say", str() if request.value.strip():
            return request
        case "raise", dict() if 0 < len(request.value) == len(parse_limits(request.value)):
            return request
        case "pause" | "resume" | "cancel", None:
            return request
    raise Problem(422, f"value: {_VALUE_HELP.get(request.action, 'is not needed for this; leave it out')}")


_VALUE_HELP = {
    "say": "is what the agent is told, in words",
    "raise": f'is what to raise, and to what, each once, as in {{"turns": 60, "wall_time": "6h"}}; '
    f"known are {', '.join(commands.BUDGET_AXES)}",
}


# --- approval


def _store_decision(context: AppContext, id: str, body: RequestBody) -> list[str]:
    request = decode_json(
        body.decompress(context.limits.body), ApprovalAnswer, 'send {"of": the question, "choice": "allow"}, or "deny", and a "message"'
    )
    _check_goal(context, id, lambda goal: commands.check_action(goal, "decide", of=request.of))
    log, scope = context.log, f"goal:{id}"

    def answer(_: None) -> Decision[None]:
        head = log.head(scope)  # before looking, so that an event in between causes a conflict
        question = next(filter(None, map(questions.parse_question, log.get([request.of]))), None)
        status = "over" if question is None else questions.find_question_status(log, question, context.clock(), _signature_check(context))
        if question is None or status != "waiting":
            raise Problem(409, f"{_CLOSED_REASONS[status]}; `GET /api/goals` shows what waits")
        return Decision([_make_answer_event(context, id, question, request)], guard=Expect(scope, head))

    # A busy goal must not keep a person from answering. The driver ignores an answer that comes too late.
    stored = BlockingJournal(log, NoState(), scopes=(), key=context.operator).decide(answer, unguarded=True)
    return [event.position or "" for event in stored.events]


def _make_answer_event(context: AppContext, id: str, question: questions.PermissionQuestion, request: ApprovalAnswer) -> Event:
    value = {"choice": request.choice, "message": (request.message or "").strip()}
    event = commands.make_control_event(
        id, "decide", by=PERSON, value=value, of=request.of, reason=value["message"] or None, now=context.clock
    )
    text = f"{request.choice} {question.tool}" + (f": {value['message']}" if value["message"] else "")
    return replace(event, text=text[: commands.MAX_TEXT_CHARS])


def _signature_check(context: AppContext) -> questions.IsTrusted:
    return (lambda event: True) if context.operator is None else context.operator.has_signed


_CLOSED_REASONS = {
    "answered": "it was answered already",
    "expired": "nobody answered in time, so it was denied",
    "over": "it was asked in a turn that is over",
}


# --- shared


def _check_goal(context: AppContext, id: str, check: Callable[[GoalState], None]) -> None:
    """Run `check` on the goal's state; a `Problem` if it is unknown, unsigned, or the check fails."""
    with context.view_cache.snapshot(None, ["goals"]) as snapshot:
        goal = snapshot.states["goals"].goals.get(id)
        if goal is None or goal.goal is None:
            raise _unknown_goal(caught_up=snapshot.caught_up)
        if context.operator is not None and id not in snapshot.states["goals"].signed:
            raise Problem(409, "this goal is not signed, and the log is sealed: nobody obeys it; begin it anew with `lore goal run`")
        try:
            check(goal)
        except Invalid as error:
            raise Problem(409, str(error)) from error


def _unknown_goal(*, caught_up: bool) -> Problem:
    if caught_up:
        return Problem(404, "there is no such goal on this log; `GET /api/goals` lists those there are, with their whole ids")
    return Problem(503, "the log is still being read, and this goal has not come up; try again soon", headers={"retry-after": "1"})


def _sign(context: AppContext, event: Event) -> Event:
    return event if context.operator is None else context.operator.sign_event(event, admit=context.log.admit)


ROUTES = [
    Route("/api/goals/{id}/control", post_control, methods=["POST"]),
    Route("/api/goals/{id}/decide", post_decision, methods=["POST"]),
]
