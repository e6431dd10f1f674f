"""About the server itself: `/api/meta`, `/healthz`, `/readyz` and `/metrics`."""

from __future__ import annotations

import asyncio
from datetime import datetime
from time import monotonic

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fleetlore import __version__, settings
from fleetlore.errors import LogError
from fleetlore.server import queries
from fleetlore.server.context import AppContext
from fleetlore.server.metrics import CONTENT_TYPE
from fleetlore.server.problems import Problem
from fleetlore.views.fleet import SILENT_AFTER

LOG_TIMEOUT_SECONDS = 2.0
"""How long the log may take to return its head position."""
WRITE_CHECK_SECONDS = 10.0
WRITE_CHECK_CURSOR = "readyz"


class Meta(Struct, kw_only=True):
    """About this server and its log."""

    town: str
    log: str
    version: str
    head: str | None
    events: int
    first_at: datetime | None
    last_at: datetime | None
    caught_up: bool
    done: int
    total: int
    token_needed_to_read: bool
    scopes_of_token: list[str]
    sealed: bool
    silent_after_seconds: float


class Ready(Struct, kw_only=True):
    """Whether the server is ready."""

    ready: bool
    caught_up: bool
    done: int
    total: int
    detail: str


async def get_meta(request: Request) -> Response:
    """The log, the version, the caller's rights, and how far the views have read."""
    context: AppContext = request.app.state.context
    await context.keys.require_scope(request, "read")
    queries.parse_query(request, queries.Query)
    scopes: list[str] = list(await context.keys.list_scopes(request))
    meta = await context.run(_build_meta, context, scopes, await context.keys.is_sealed())
    return Response(msgspec.json.encode(meta), media_type="application/json")


def _build_meta(context: AppContext, scopes: list[str], sealed: bool) -> Meta:
    live_views = context.view_cache.live_views
    with context.view_cache.snapshot(None, ()) as snapshot:
        first_at, last_at = snapshot.states["calendar"].first, snapshot.at
    return Meta(
        town=context.town,
        log=settings.mask_url(context.url),
        version=__version__,
        head=context.log.head(),
        events=live_views.folded_count if live_views.caught_up else live_views.total,
        first_at=first_at,
        last_at=last_at,
        caught_up=live_views.caught_up,
        done=live_views.folded_count,
        total=max(live_views.total, live_views.folded_count),
        token_needed_to_read=True,
        scopes_of_token=scopes,
        sealed=sealed,
        silent_after_seconds=SILENT_AFTER.total_seconds(),
    )


async def healthz(request: Request) -> Response:
    """Liveness: the event loop answers."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> Response:
    """Readiness: the log can be read, written and followed. Views that still catch up do not make the server unready."""
    context: AppContext = request.app.state.context
    live_views = context.view_cache.live_views
    error = context.feed.trouble or live_views.last_failure or await _find_log_error(context)
    if error and not await _can_read(context, request):
        error = "the log cannot be read or written; send the request with a token to see why"
    ready = Ready(
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
        await context.keys.require_scope(request, "read")
    except (Problem, LogError):
        return False
    return True


def _check_log(context: AppContext) -> str | None:
    """Why the log cannot be read or written. Every `WRITE_CHECK_SECONDS` a cursor is written, which readers do not see."""
    try:
        head = context.log.head()
        if head is not None and monotonic() - context.write_checked_at >= WRITE_CHECK_SECONDS:
            context.view_cache.coordination.commit_cursor(WRITE_CHECK_CURSOR, head)
            context.write_checked_at = monotonic()
    except LogError as error:
        return str(error)
    return None


async def get_metrics(request: Request) -> Response:
    """Metrics in Prometheus' text format."""
    context: AppContext = request.app.state.context
    await context.keys.require_scope(request, "read")
    return Response(await context.run(context.metrics.render), media_type=CONTENT_TYPE)


ROUTES = [
    Route("/api/meta", get_meta, methods=["GET"]),
    Route("/healthz", healthz, methods=["GET"]),
    Route("/readyz", readyz, methods=["GET"]),
    Route("/metrics", get_metrics, methods=["GET"]),
]
