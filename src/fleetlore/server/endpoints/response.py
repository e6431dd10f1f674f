"""Shared by all writing endpoints: the result type, the decorator that counts events and errors, and W3C trace context."""

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
from fleetlore.server.problems import Problem, to_problem

if TYPE_CHECKING:
    from fleetlore.server.context import AppContext


# --- W3C Trace Context: a request may have a trace id, which is copied to the stored events and the response.

_match_traceparent = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII | re.DOTALL).fullmatch


class TraceContext(NamedTuple):
    """The trace of a request."""

    id: str
    parent: str
    flags: str

    @property
    def traceparent(self) -> str:
        """The header value, as events store it."""
        return f"00-{self.id}-{self.parent}-{self.flags}"

    def response_headers(self) -> dict[str, str]:
        """The `traceresponse` header: the same trace with a new span id."""
        return {"traceresponse": f"00-{self.id}-{token_hex(8)}-{self.flags}"}


def parse_traceparent(request: Request) -> TraceContext | None:
    """The trace of a request; `None` if the header is missing, repeated or malformed; the standard says to ignore it then."""
    values = request.headers.getlist("traceparent")
    match = _match_traceparent(values[0].strip(" \t")) if len(values) == 1 else None
    if match is None:
        return None
    version, id, parent, flags, more = match.groups()
    if version == "ff" or (version == "00" and more) or not id.strip("0") or not parent.strip("0"):
        return None
    return TraceContext(id, parent, flags)


# --- results

JSON = "application/json"


class EndpointResult(NamedTuple):
    """A response, and how many events of the request were stored and how many were rejected."""

    response: Response
    events: int = 0
    refused: int = 0


EndpointHandler: TypeAlias = "Callable[[Request, AppContext], Awaitable[EndpointResult]]"
RouteEndpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
MakeRefusal: TypeAlias = Callable[[Request, Problem], Response]
"""Builds the error response for endpoints that do not use the default problem format."""


def counted_endpoint(name: str, *, refuse: MakeRefusal | None = None) -> Callable[[EndpointHandler], RouteEndpoint]:
    """Decorator that turns a handler into a route endpoint: counts stored and refused events under `name`, and adds trace headers."""

    def decorate(handle: EndpointHandler) -> RouteEndpoint:
        @wraps(handle)
        async def endpoint(request: Request) -> Response:
            context: AppContext = request.app.state.context
            trace = parse_traceparent(request)
            headers = {} if trace is None else trace.response_headers()
            try:
                result = await handle(request, context)
            except (Problem, FleetloreError) as error:
                problem = error if isinstance(error, Problem) else to_problem(error)
                problem.headers |= headers
                context.metrics.count_events(name, refused=problem.extra.get("errors_in_all", 1))
                if refuse is None:
                    raise problem from error
                return refuse(request, problem)
            context.metrics.count_events(name, events=result.events, refused=result.refused)
            result.response.headers.update(headers)
            return result.response

        return endpoint

    return decorate


def positions_result(stored: Sequence[str]) -> EndpointResult:
    """The result for stored events: a JSON response with their positions."""
    return EndpointResult(Response(msgspec.json.encode({"positions": stored}), media_type=JSON), events=len(stored))


def last_path_segment(request: Request) -> str:
    """The last segment of the path: `gitea` for `/hooks/gitea`. Tells apart routes that share a handler."""
    path: str = request.scope["path"]
    return path.rpartition("/")[2]
