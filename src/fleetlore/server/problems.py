"""Errors over HTTP: `application/problem+json` (RFC 9457), with a detail that says what to do next."""

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
from fleetlore.operations.request import Impossible

MEDIA_TYPE = "application/problem+json"

_STATUS: tuple[tuple[type[errors.FleetloreError], int], ...] = (
    (errors.TooLarge, 413),
    (errors.NotFound, 404),
    (Impossible, 409),
    (errors.Invalid, 422),
    (errors.Conflict, 409),
    (errors.Forgotten, 410),
    (errors.StorageFull, 507),
    (errors.LogError, 503),
    (errors.ConfigError, 503),
)
"""Error classes and their status; the first match counts. Other errors are a 500."""


class Problem(Exception):  # the name that RFC 9457 gives it
    """An error response. `extra` goes into the body beside title, status and detail."""

    def __init__(self, status: int, detail: str, *, headers: Mapping[str, str] | None = None, **extra: Any) -> None:
        self.status, self.detail, self.headers, self.extra = status, detail, dict(headers or {}), extra
        super().__init__(detail)

    def to_response(self) -> Response:
        """The problem as a response."""
        body = {"type": "about:blank", "title": _status_title(self.status), "status": self.status, "detail": self.detail} | self.extra
        return Response(msgspec.json.encode(body), self.status, self.headers, MEDIA_TYPE)


def to_problem(error: errors.FleetloreError) -> Problem:
    """The HTTP form of a Fleetlore error."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    extra: dict[str, Any] = {"path": error.path} if isinstance(error, (errors.InvalidEvent, errors.DialectError)) else {}
    if isinstance(error, errors.UnknownName):
        extra["suggestions"] = error.suggestions
    elif isinstance(error, errors.AmbiguousName):
        extra["candidates"] = error.candidates
    headers = {"retry-after": "1"} if status == 503 else {}
    return Problem(status, str(error), headers=headers, **extra)


async def on_problem(request: Request, error: Exception) -> Response:
    """Handle a `Problem`."""
    assert isinstance(error, Problem)
    return error.to_response()


async def on_fleetlore_error(request: Request, error: Exception) -> Response:
    """Handle an error of Fleetlore."""
    assert isinstance(error, errors.FleetloreError)
    return to_problem(error).to_response()


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Starlette's own errors: an unknown path or method."""
    assert isinstance(error, HTTPException)
    detail = {
        404: f"there is nothing at {request.url.path}; /openapi.json lists all paths",
        405: f"{request.url.path} does not accept {request.method}; the Allow header lists the methods that it accepts",
    }.get(error.status_code, error.detail)
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    if error.status_code == 405:
        headers["allow"] = _allowed_methods(request)
    return Problem(error.status_code, detail, headers=headers).to_response()


def _allowed_methods(request: Request) -> str:
    """The methods of all routes with this path; Starlette names only those of the first."""
    matching = [route for route in request.app.routes if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE]
    return ", ".join(sorted({method for route in matching for method in route.methods or ()}))


async def on_unexpected_error(request: Request, error: Exception) -> Response:
    """A bug: the response does not show internals."""
    return Problem(500, "internal error; the server's output has the details").to_response()


def _status_title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
