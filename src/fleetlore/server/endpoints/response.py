"""What all doors have around them: the answer, what is counted, and the trace that a request belongs to."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from secrets import token_hex
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fleetlore.errors import FleetloreError
from fleetlore.server.problems import Problem, problem_of

if TYPE_CHECKING:
    from fleetlore.server.context import House


# --- W3C Trace Context: a request may say which trace it belongs to, and the answer says it, too.

_traceparent = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII | re.DOTALL).fullmatch


class Trace(NamedTuple):
    """Where a request comes from."""

    id: str
    parent: str
    flags: str

    @property
    def traceparent(self) -> str:
        """As events keep it."""
        return f"00-{self.id}-{self.parent}-{self.flags}"

    def answer(self) -> dict[str, str]:
        """The header that goes with the answer: the same trace, and a place of ours in it."""
        return {"traceresponse": f"00-{self.id}-{token_hex(8)}-{self.flags}"}


def trace_of(request: Request) -> Trace | None:
    """The trace that a request names; `None` where it names none, or not as the standard has it: then it is to be ignored."""
    given = request.headers.getlist("traceparent")
    found = _traceparent(given[0].strip(" \t")) if len(given) == 1 else None
    if found is None:
        return None
    version, id, parent, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not id.strip("0") or not parent.strip("0"):
        return None
    return Trace(id, parent, flags)


# ---

JSON = "application/json"


class Answer(NamedTuple):
    """What a door says, and what came in by it."""

    response: Response
    events: int = 0
    refused: int = 0


Handle: TypeAlias = "Callable[[Request, House], Awaitable[Answer]]"
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
Refuse: TypeAlias = Callable[[Request, Problem], Response]
"""How a door says no, where it has a way of its own."""


def door(name: str, *, refuse: Refuse | None = None) -> Callable[[Handle], Endpoint]:
    """Make a route of what a door does: its answers and its refusals are counted, and every one says its trace."""

    def frame(handle: Handle) -> Endpoint:
        @wraps(handle)
        async def enter(request: Request) -> Response:
            house: House = request.app.state.house
            trace = trace_of(request)
            headers = {} if trace is None else trace.answer()
            try:
                answer = await handle(request, house)
            except (Problem, FleetloreError) as error:
                problem = error if isinstance(error, Problem) else problem_of(error)
                problem.headers |= headers
                house.meters.taken(name, refused=problem.extra.get("errors_in_all", 1))
                if refuse is None:
                    raise problem from error
                return refuse(request, problem)
            house.meters.taken(name, events=answer.events, refused=answer.refused)
            answer.response.headers.update(headers)
            return answer.response

        return enter

    return frame


def positions(stored: Sequence[str]) -> Answer:
    """The usual answer."""
    return Answer(Response(msgspec.json.encode({"positions": stored}), media_type=JSON), events=len(stored))


def last_word(request: Request) -> str:
    """Which of several doors it is that do the same: `gitea` of `/hooks/gitea`."""
    path: str = request.scope["path"]
    return path.rpartition("/")[2]
