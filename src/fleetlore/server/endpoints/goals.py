"""`POST /api/goals/{id}/control` and `/decide`: what a person asks of a goal, and answers it. Whoever drives it finds that on the log.

On a sealed log the operator key of the house signs it. Who has not given the passphrase to `lore up` steers nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.routing import Route

from fleetlore.errors import Conflict, Invalid
from fleetlore.events.envelope import Event
from fleetlore.goal import commands
from fleetlore.goal.gate import questions
from fleetlore.log.base import Expect
from fleetlore.server.endpoints.request_body import Body, read_as, read_body
from fleetlore.server.endpoints.response import Answer, door, positions
from fleetlore.server.endpoints.store import store
from fleetlore.server.problems import Problem
from fleetlore.views.goals import parse_limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleetlore.server.context import House
    from fleetlore.views.goal_state import GoalState

PERSON = "control room"
LONGEST_REASON = 2000
_TRIES = 20

Reason = Annotated[str, Meta(max_length=LONGEST_REASON)]
Limit = Annotated[str, Meta(max_length=100)] | int | float
_T = TypeVar("_T")


class Steering(Struct, kw_only=True, forbid_unknown_fields=True):
    """What is asked of a goal."""

    action: Literal["pause", "resume", "cancel", "say", "raise"]
    value: Annotated[str, Meta(max_length=commands.MAX_MESSAGE_BYTES)] | dict[str, Limit] | None = None
    """For `say` the message, for `raise` the new limits, as in `{"turns": 60, "wall_time": "6h"}`."""
    reason: Reason | None = None


class Decided(Struct, kw_only=True, forbid_unknown_fields=True):
    """The answer to a question of an agent."""

    of: Annotated[str, Meta(min_length=1, max_length=200)]
    """The question's id."""
    choice: Literal["allow", "deny"]
    message: Reason | None = None
    """Why; the agent is told."""


@door("goals")
async def control(request: Request, house: House) -> Answer:
    """Store one `control.requested`. It steers, so it needs more than the right to write."""
    await house.keys.need(request, "admin")
    body = await read_body(request, house.limits)
    return positions(await house.store(body, _control, house, request.path_params["id"], body))


@door("goals")
async def decide(request: Request, house: House) -> Answer:
    """The same for an answer to what an agent asks."""
    await house.keys.need(request, "admin")
    body = await read_body(request, house.limits)
    return positions(await house.store(body, _decide, house, request.path_params["id"], body))


# --- asking


def _control(house: House, id: str, body: Body) -> list[str]:
    said = _fitting(read_as(body.unpack(house.limits.body), Steering, 'send {"action": "pause"}, and a "value" where it needs one'))
    reason = (said.reason or "").strip() or None
    _check(house, id, lambda goal: commands.check_action(goal, said.action, said.value))
    event = commands.make_control_event(id, said.action, by=PERSON, value=said.value, reason=reason, now=house.clock)
    return store(house.log, [house.log.admit(_signed(house, event))])


def _fitting(said: Steering) -> Steering:
    """What is asked, if it comes with what it needs and nothing else."""
    match said.action, said.value:
        case "say", str() if said.value.strip():
            return said
        case "raise", dict() if 0 < len(said.value) == len(parse_limits(said.value)):
            return said
        case "pause" | "resume" | "cancel", None:
            return said
    raise Problem(422, f"value: {_NEEDS.get(said.action, 'is not needed for this; leave it out')}")


_NEEDS = {
    "say": "is what the agent is told, in words",
    "raise": f'is what to raise, and to what, each once, as in {{"turns": 60, "wall_time": "6h"}}; '
    f"known are {', '.join(commands.BUDGET_AXES)}",
}


# --- answering


def _decide(house: House, id: str, body: Body) -> list[str]:
    said = read_as(body.unpack(house.limits.body), Decided, 'send {"of": the question, "choice": "allow"}, or "deny", and a "message"')
    _check(house, id, lambda goal: commands.check_action(goal, "decide", of=said.of))
    for _ in range(_TRIES):
        try:
            return _answer(house, id, said)
        except Conflict:  # the goal went on meanwhile, perhaps past this question
            continue
    # Who floods the goal's scope must not keep a person from answering; an answer that comes too late is not heard.
    return _answer(house, id, said, is_last=True)


def _answer(house: House, id: str, said: Decided, *, is_last: bool = False) -> list[str]:
    """Store the answer, if the question still waits and nothing happened to the goal since that was seen."""
    log, scope = house.log, f"goal:{id}"
    head = log.head(scope)
    question = next(filter(None, map(questions.parse_question, log.get([said.of]))), None)
    standing = "over" if question is None else questions.find_question_status(log, question, house.clock(), _obeys(house))
    if question is None or standing != "waiting":
        raise Problem(409, f"{_GONE[standing]}; `GET /api/goals` shows what waits")
    value = {"choice": said.choice, "message": (said.message or "").strip()}
    event = commands.make_control_event(id, "decide", by=PERSON, value=value, of=said.of, reason=value["message"] or None, now=house.clock)
    words = f"{said.choice} {question.tool}" + (f": {value['message']}" if value["message"] else "")
    event = _signed(house, replace(event, text=words[: commands.MAX_TEXT_CHARS]))
    return log.append([event], expect=None if is_last else Expect(scope, head))


def _obeys(house: House) -> questions.IsTrusted:
    return (lambda event: True) if house.operator is None else house.operator.has_signed


_GONE = {
    "answered": "it was answered already",
    "expired": "nobody answered in time, so it was denied",
    "over": "it was asked in a turn that is over",
}


# --- both


def _check(house: House, id: str, check: Callable[[GoalState], None]) -> None:
    """Refuse what makes no sense as the goal stands."""
    with house.desk.looking(None, ["goals"]) as look:
        goal = look.states["goals"].goals.get(id)
        if goal is None or goal.goal is None:
            raise _unknown(is_read=look.caught_up)
        if house.operator is not None and id not in look.states["goals"].signed:
            raise Problem(409, "this goal is not signed, and the log is sealed: nobody obeys it; begin it anew with `lore goal run`")
        try:
            check(goal)
        except Invalid as error:
            raise Problem(409, str(error)) from error


def _unknown(*, is_read: bool) -> Problem:
    if is_read:
        return Problem(404, "there is no such goal on this log; `GET /api/goals` lists those there are, with their whole ids")
    return Problem(503, "the log is still being read, and this goal has not come up; try again soon", headers={"retry-after": "1"})


def _signed(house: House, event: Event) -> Event:
    return event if house.operator is None else house.operator.sign_event(event, admit=house.log.admit)


ROUTES = [
    Route("/api/goals/{id}/control", control, methods=["POST"]),
    Route("/api/goals/{id}/decide", decide, methods=["POST"]),
]
