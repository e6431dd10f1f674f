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
from fleetlore.server import health, openapi, pages, problems, views_routes
from fleetlore.server.context import House
from fleetlore.server.endpoints import chat as doors_chat
from fleetlore.server.endpoints import events as doors_events
from fleetlore.server.endpoints import goals as doors_goals
from fleetlore.server.endpoints import graphs as doors_graphs
from fleetlore.server.endpoints import hooks as doors_hooks
from fleetlore.server.endpoints import otlp as doors_otlp
from fleetlore.server.endpoints import stage as doors_stage
from fleetlore.server.endpoints import town as doors_town
from fleetlore.server.live import chat, sockets, stream
from fleetlore.server.mcp import http as mcp_http
from fleetlore.server.metrics import Meters
from fleetlore.server.security.guard import Guard
from fleetlore.server.security.limits import STREAMS, Limited


def routes() -> list[BaseRoute]:
    """Everything that can be asked for."""
    return [
        *views_routes.ROUTES,
        *stream.ROUTES,
        *sockets.ROUTES,
        *chat.ROUTES,
        *doors_events.ROUTES,
        *doors_hooks.ROUTES,
        *doors_otlp.ROUTES,
        *doors_stage.ROUTES,
        *doors_goals.ROUTES,
        *doors_town.ROUTES,
        *doors_chat.ROUTES,
        *doors_graphs.ROUTES,
        *mcp_http.ROUTES,
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
            await house.talk.close()
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
