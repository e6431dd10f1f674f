"""The web application: every route, and what stands before them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from time import perf_counter

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleetlore.errors import FleetloreError
from fleetlore.server import health, openapi, pages, problems, stream, views_routes
from fleetlore.server.guard import Guard
from fleetlore.server.house import House
from fleetlore.server.limits import STREAMS, Limited


def routes() -> list[BaseRoute]:
    """Everything that can be asked for."""
    return [
        *views_routes.ROUTES,
        *stream.ROUTES,
        *_later(),
        *health.ROUTES,
        *openapi.ROUTES,
        *pages.routes(),
    ]


def make_app(house: House, *, allow_hosts: Iterable[str] = ()) -> Starlette:
    """The application of one house; it begins and ends with it."""

    @asynccontextmanager
    async def living(app: Starlette) -> AsyncIterator[None]:
        house.start()
        try:
            yield
        finally:
            house.close()

    app = Starlette(
        routes=routes(),
        middleware=[
            Middleware(Guard, allow_hosts=tuple(allow_hosts)),
            Middleware(Limited, limits=house.limits),
            Middleware(Metered),
        ],
        exception_handlers={
            problems.Problem: problems.on_problem,
            FleetloreError: problems.on_fleetlore_error,
            HTTPException: problems.on_http_exception,
            Exception: problems.on_fault,
        },
        lifespan=living,
    )
    app.state.house = house
    return app


class Metered:
    """The middleware that times answers by route; streams, which have no end, are left out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

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
            house: House = scope["app"].state.house
            house.meters.answered(_route_of(scope), _method_of(scope), status, perf_counter() - start)


def _route_of(scope: Scope) -> str:
    """The route, never the path itself: whoever asks for many paths makes no new counts."""
    route = scope.get("route")
    return getattr(route, "path", None) or "none"


def _method_of(scope: Scope) -> str:
    method = scope["method"]
    return method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "other"


def _later() -> list[BaseRoute]:
    from importlib import import_module

    found: list[BaseRoute] = []
    for name in ("sockets", "doors_events", "doors_hooks", "doors_otlp"):
        try:
            found += import_module(f"fleetlore.server.{name}").ROUTES
        except ModuleNotFoundError:
            continue
    return found
