"""Errors over HTTP: every one is `application/problem+json` (RFC 9457) and says what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from fleetlore import errors

MEDIA_TYPE = "application/problem+json"

_STATUS: tuple[tuple[type[errors.FleetloreError], int], ...] = (
    (errors.TooLarge, 413),
    (errors.UnknownName, 404),
    (errors.Invalid, 422),
    (errors.Conflict, 409),
    (errors.Forgotten, 410),
    (errors.NoRoom, 507),
    (errors.LogError, 503),
)
"""The first that fits; what is not in it is our own fault."""


class Problem(Exception):  # the name that RFC 9457 gives it
    """An answer that says no. `extra` goes into the body beside title, status and detail."""

    def __init__(self, status: int, detail: str, *, headers: Mapping[str, str] | None = None, **extra: Any) -> None:
        self.status, self.detail, self.headers, self.extra = status, detail, dict(headers or {}), extra
        super().__init__(detail)

    def response(self) -> Response:
        """The answer."""
        body = {"type": "about:blank", "title": _title(self.status), "status": self.status, "detail": self.detail} | self.extra
        return Response(msgspec.json.encode(body), self.status, self.headers, MEDIA_TYPE)


def problem_of(error: errors.FleetloreError) -> Problem:
    """What an error of ours is over HTTP."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    extra: dict[str, Any] = {"path": error.path} if isinstance(error, (errors.InvalidEvent, errors.DialectError)) else {}
    if isinstance(error, errors.UnknownName):
        extra["suggestions"] = error.suggestions
    elif isinstance(error, errors.AmbiguousName):
        extra["candidates"] = error.candidates
    headers = {"retry-after": "1"} if status == 503 else {}
    return Problem(status, str(error), headers=headers, **extra)


async def on_problem(request: Request, error: Exception) -> Response:
    """A `Problem` that was raised."""
    assert isinstance(error, Problem)
    return error.response()


async def on_fleetlore_error(request: Request, error: Exception) -> Response:
    """An error of ours that was raised."""
    assert isinstance(error, errors.FleetloreError)
    return problem_of(error).response()


async def on_http_exception(request: Request, error: Exception) -> Response:
    """What the framework refuses by itself: a path or a method that is not there."""
    assert isinstance(error, HTTPException)
    detail = {
        404: f"there is nothing at {request.url.path}; /openapi.json lists what there is",
        405: f"{request.method} is not for {request.url.path}; the Allow header says what is",
    }.get(error.status_code, error.detail)
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    if error.status_code == 405:
        headers["allow"] = _allowed(request)
    return Problem(error.status_code, detail, headers=headers).response()


def _allowed(request: Request) -> str:
    """The methods of all routes to this path; the framework names only those of the first."""
    here = [route for route in request.app.routes if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE]
    return ", ".join(sorted({method for route in here for method in route.methods or ()}))


async def on_fault(request: Request, error: Exception) -> Response:
    """Anything else: our own fault, told without its inner parts."""
    return Problem(500, "something went wrong in here; the server's own output says what").response()


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
