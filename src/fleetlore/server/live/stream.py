"""`GET /api/stream`: the feed as server-sent events.

Written to the ASGI server directly: one message per batch, with the same bytes for all clients with the same filter.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import msgspec
from msgspec import field
from msgspec.structs import replace
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from fleetlore.errors import LogError
from fleetlore.log.base import TOWN, Position
from fleetlore.log.recorder import make_query
from fleetlore.operations.reading import Kinds, PositionText, Text
from fleetlore.server import queries
from fleetlore.server.live.ring import EventFilter
from fleetlore.server.live.subscription import SIGN_OF_LIFE, Subscription
from fleetlore.server.problems import Problem

HEADERS = {"content-type": "text/event-stream", "cache-control": "no-cache", "x-accel-buffering": "no"}
WELCOME = b"retry: 1000\n: welcome\n\n"
STILL_HERE = b": still here\n\n"
_ENDS = ("http.disconnect", "websocket.disconnect")
_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class FeedQuery(queries.Query, kw_only=True):
    """The feed."""

    scope: Text = "town"
    kind: Kinds = field(default_factory=list)
    after: PositionText | None = None


class Stream:
    """The route: every event from now on, or after a position."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until either side ends it."""
        request = Request(scope, receive)
        async with open_subscription(request) as subscription:
            if request.method == "HEAD":
                await Response(headers=HEADERS)(scope, receive, send)
                return
            subscription.cut = make_abort(receive)
            async with end_on_disconnect(receive, subscription):
                await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
                await send(_body_message(WELCOME + _start_frame(subscription)))
                with suppress(*LET_GO):
                    await _send_batches(request, subscription, send)
                await send(_body_message(b"", more=False))


LET_GO = (LogError, Problem)
"""What ends a running stream: older events cannot be read, or the token was revoked. The client reconnects."""


async def _send_batches(request: Request, subscription: Subscription, send: Send) -> None:
    while (batch := await subscription.next()) is not None:
        if batch is SIGN_OF_LIFE:
            await may_read(request)
        await send({"type": "http.response.body", "body": batch.chunks or STILL_HERE, "more_body": True})


@asynccontextmanager
async def open_subscription(connection: HTTPConnection) -> AsyncIterator[Subscription]:
    """Subscribe to what the client asks for; raises a `Problem` or `Invalid` if that is impossible."""
    await may_read(connection)
    wanted, after = asked_for(connection)
    context = connection.app.state.context
    if wanted.scope != TOWN:
        # A scope without events is accepted: its first one may still come.
        wanted = replace(wanted, scope=await context.run(context.view_cache.resolve_scope, wanted.scope, may_be_new=True))
    with context.limits.count_stream(connection.scope):
        subscription = await context.feed.subscribe(wanted, after=after)
        try:
            yield subscription
        finally:
            subscription.close()


async def may_read(connection: HTTPConnection) -> None:
    """Check read access; also at every heartbeat, since the token may have been revoked."""
    await connection.app.state.context.keys.require_scope(connection, "read")


def asked_for(connection: HTTPConnection) -> tuple[EventFilter, Position | None]:
    """The filter and position that a client asks for; `Last-Event-ID` wins over `after`."""
    if "transfer-encoding" in connection.headers or connection.headers.get("content-length", "0") != "0":
        raise Problem(400, "this takes no body; ask for it with a plain GET")
    query = queries.parse_query(connection, FeedQuery)
    after = connection.headers.get("last-event-id") or query.after
    checked = make_query(query.scope, after, None, query.kind, None, False)
    return EventFilter(checked.scope, checked.kinds), after


def make_abort(receive: Receive) -> Callable[[], object]:
    """A function that aborts the connection.

    Closing it would wait until a client that does not read has read everything.
    """
    transport = getattr(getattr(receive, "__self__", None), "transport", None)  # uvicorn's transport; ASGI has no way to abort
    abort: Callable[[], object] | None = getattr(transport, "abort", None)
    if abort is not None:
        return abort
    task = asyncio.current_task()
    assert task is not None
    return task.cancel


@asynccontextmanager
async def end_on_disconnect(receive: Receive, subscription: Subscription) -> AsyncIterator[None]:
    """End the subscription when its client disconnects."""

    async def watch() -> None:
        while (await receive())["type"] not in _ENDS:
            pass
        subscription.end()

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()


def _start_frame(subscription: Subscription) -> bytes:
    """The start position, for a client that named none."""
    if not subscription.is_new:
        return b""
    return b"event: hello\ndata: %b\n\n" % msgspec.json.encode({"head": subscription.head})


def _body_message(content: bytes, *, more: bool = True) -> dict[str, object]:
    return {"type": "http.response.body", "body": content, "more_body": more}


ROUTES = [Route("/api/stream", Stream(), methods=["GET"])]
