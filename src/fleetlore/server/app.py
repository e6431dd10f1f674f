"""The web application: every route, and what stands before them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from time import perf_counter

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleetlore.errors import FleetloreError
from fleetlore.server import (
    doors_events,
    doors_goals,
    doors_hooks,
    doors_otlp,
    doors_stage,
    health,
    openapi,
    pages,
    problems,
    sockets,
    stream,
    views_routes,
)
from fleetlore.server.guard import Guard
from fleetlore.server.house import House
from fleetlore.server.limits import STREAMS, Limited
from fleetlore.server.meters import Meters


def routes() -> list[BaseRoute]:
    """Everything that can be asked for."""
    return [
        *views_routes.ROUTES,
        *stream.ROUTES,
        *sockets.ROUTES,
        *doors_events.ROUTES,
        *doors_hooks.ROUTES,
        *doors_otlp.ROUTES,
        *doors_stage.ROUTES,
        *doors_goals.ROUTES,
        *health.ROUTES,
        *openapi.ROUTES,
        *pages.routes(),
    ]


def make_app(house: House, *, allow_hosts: Iterable[str] = ()) -> ASGIApp:
    """The application of one house; it begins and ends with it. The guard stands before everything, our own faults included."""

    @asynccontextmanager
    async def living(app: Starlette) -> AsyncIterator[None]:
        house.start()
        try:
            yield
        finally:
            house.close()

    app = Starlette(
        routes=routes(),
        exception_handlers={
            problems.Problem: problems.on_problem,
            FleetloreError: problems.on_fleetlore_error,
            HTTPException: problems.on_http_exception,
            Exception: problems.on_fault,
        },
        lifespan=living,
    )
    app.state.house = house
    return Guard(Limited(Metered(app, house.meters), limits=house.limits), allow_hosts=tuple(allow_hosts))


class Metered:
    """The middleware that times answers by route; streams, which have no end, are left out."""

    def __init__(self, app: ASGIApp, meters: Meters) -> None:
        self._app, self._meters = app, meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["path"] in STREAMS:
            await self._app(scope, receive, send)
            return
        status, start = 500, perf_counter()

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            self._meters.answered(_route_of(scope), _method_of(scope), status, perf_counter() - start)


def _route_of(scope: Scope) -> str:
    """The route, never the path itself: whoever asks for many paths makes no new counts."""
    route = scope.get("route")
    return getattr(route, "path", None) or "none"


def _method_of(scope: Scope) -> str:
    method = scope["method"]
    return method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "other"
