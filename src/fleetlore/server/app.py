"""Builds the ASGI application: all routes, error handlers and middleware. Served by `serve.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from time import perf_counter

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleetlore.errors import FleetloreError
from fleetlore.server import health, openapi, operation_routes, pages, problems
from fleetlore.server.context import AppContext
from fleetlore.server.endpoints import chat as chat_endpoints
from fleetlore.server.endpoints import events as events_endpoints
from fleetlore.server.endpoints import hooks as hooks_endpoints
from fleetlore.server.endpoints import otlp as otlp_endpoints
from fleetlore.server.live import chat, sockets, stream
from fleetlore.server.mcp import http as mcp_http
from fleetlore.server.metrics import ServerMetrics
from fleetlore.server.security import sign_in
from fleetlore.server.security.guard import Guard
from fleetlore.server.security.limits import STREAMS, Limited


def build_routes() -> list[BaseRoute]:
    """All routes; the pages come last because they match any name."""
    return [
        *stream.ROUTES,
        *sockets.ROUTES,
        *chat.ROUTES,
        *events_endpoints.ROUTES,
        *hooks_endpoints.ROUTES,
        *otlp_endpoints.ROUTES,
        *operation_routes.build_routes(),
        *chat_endpoints.ROUTES,
        *mcp_http.ROUTES,
        *sign_in.ROUTES,
        *health.ROUTES,
        *openapi.ROUTES,
        *pages.build_routes(),
    ]


def make_app(context: AppContext, *, allow_hosts: Iterable[str] = ()) -> ASGIApp:
    """The ASGI application of one context; its lifespan starts and closes the context.

    `Guard` is outermost, so that it also covers responses to unexpected errors.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        context.start()
        settling = asyncio.create_task(otlp_endpoints.settle_spans(context))
        try:
            yield
        finally:
            settling.cancel()
            await context.chats.close()
            context.close()

    app = Starlette(
        routes=build_routes(),
        exception_handlers={
            problems.Problem: problems.on_problem,
            FleetloreError: problems.on_fleetlore_error,
            HTTPException: problems.on_http_exception,
            Exception: problems.on_unexpected_error,
        },
        lifespan=lifespan,
    )
    app.state.context = context
    return Guard(Limited(MetricsMiddleware(app, context.metrics), limits=context.limits), allow_hosts=tuple(allow_hosts))


class MetricsMiddleware:
    """Middleware that measures the time to the complete response, by route. Streams never end, so they are left out."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["path"] in STREAMS:
            await self._app(scope, receive, send)
            return
        status, start = 500, perf_counter()

        async def send_and_note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note_status)
        finally:
            self._metrics.observe_request(_route_path(scope), _known_method(scope), status, perf_counter() - start)


def _route_path(scope: Scope) -> str:
    # Not the requested path: otherwise a client could create any number of time series.
    route = scope.get("route")
    return getattr(route, "path", None) or "none"


def _known_method(scope: Scope) -> str:
    method = scope["method"]
    return method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "other"
