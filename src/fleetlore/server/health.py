"""`/healthz`, `/readyz` and `/metrics`."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fleetlore.errors import LogError
from fleetlore.server.context import AppContext
from fleetlore.server.metrics import CONTENT_TYPE
from fleetlore.server.problems import Problem
from fleetlore.server.types import common

LOG_TIMEOUT_SECONDS = 2.0
"""How long the log may take to return its head position."""


async def healthz(request: Request) -> Response:
    """Liveness: the event loop answers."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> Response:
    """Readiness: the log can be read and followed. Views that still catch up do not make the server unready."""
    context: AppContext = request.app.state.context
    live_views = context.view_cache.live_views
    error = context.feed.trouble or live_views.last_failure or await _find_log_error(context)
    if error and not await _can_read(context, request):
        error = "the log cannot be read just now; who may read is told why"
    ready = common.Ready(
        ready=error is None,
        caught_up=live_views.caught_up,
        done=live_views.folded_count,
        total=max(live_views.total, live_views.folded_count),
        detail=error or "",
    )
    return Response(msgspec.json.encode(ready), 200 if ready.ready else 503, media_type="application/json")


async def _find_log_error(context: AppContext) -> str | None:
    """Why the log cannot be read, or `None`. One check serves all concurrent requests: a lost log may take long to fail."""
    check = context.log_check
    if check is None or check.done():
        check = context.log_check = asyncio.ensure_future(context.run(_check_log, context))
    await asyncio.wait((check,), timeout=LOG_TIMEOUT_SECONDS)
    return check.result() if check.done() else f"the log has not answered within {LOG_TIMEOUT_SECONDS:g} s"


async def _can_read(context: AppContext, request: Request) -> bool:
    try:
        await context.keys.need(request, "read")
    except (Problem, LogError):
        return False
    return True


def _check_log(context: AppContext) -> str | None:
    try:
        context.log.head()
    except LogError as error:
        return str(error)
    return None


async def get_metrics(request: Request) -> Response:
    """Metrics in Prometheus' text format."""
    context: AppContext = request.app.state.context
    await context.keys.need(request, "read")
    return Response(await context.run(context.metrics.render), media_type=CONTENT_TYPE)


ROUTES = [
    Route("/healthz", healthz, methods=["GET"]),
    Route("/readyz", readyz, methods=["GET"]),
    Route("/metrics", get_metrics, methods=["GET"]),
]
