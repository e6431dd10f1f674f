"""`AppContext`: the log, views, feed, limits and threads that all routes share.

Opened by `open_context.py`; handlers find it in `app.state.context`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import msgspec
from starlette.requests import Request

from fleetlore import clock
from fleetlore.ingest.span_buffer import SpanBuffer
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.seal import OperatorKey
from fleetlore.server.chat_sessions import ChatSessions
from fleetlore.server.live.feed import Feed
from fleetlore.server.metrics import ServerMetrics
from fleetlore.server.problems import Problem
from fleetlore.server.security.authorization import Keyring
from fleetlore.server.security.limits import ConcurrencyLimit, RequestLimits
from fleetlore.server.security.sign_in import OneTimeLinks
from fleetlore.server.view_cache import ViewCache
from fleetlore.settings import Settings

if TYPE_CHECKING:
    from msgspec import Struct

    from fleetlore.log.base import Position
    from fleetlore.server.endpoints.request_body import RequestBody

THREADS = 16
"""Threads for reading, and as many for storing, so that neither waits for the other."""
MAX_COSTLY_ANSWERS, MAX_LARGE_BODIES = 2, 4
"""How many costly answers and large request bodies are processed at the same time."""
FRESH_SECONDS = 5
"""Seconds for which a shared answer is reused. It expires because some states, such as a silent agent, change without an event."""
CLIENT_CLOSED_REQUEST = 499
"""nginx's status for a client that disconnected. Nobody receives it; it shows up in the metrics."""
_P = ParamSpec("_P")
_T = TypeVar("_T")


class AppContext:
    """Everything needed to serve one log. Created by `open_context`; bound to one event loop."""

    def __init__(
        self,
        *,
        log: BlockingRecorder,
        settings: Settings,
        view_cache: ViewCache,
        feed: Feed,
        keys: Keyring,
        limits: RequestLimits,
        span_buffer: SpanBuffer,
        operator: OperatorKey | None = None,
        now: clock.Clock = clock.now,
    ) -> None:
        self.log, self.settings, self.clock = log, settings, now
        self.view_cache, self.feed, self.span_buffer = view_cache, feed, span_buffer
        self.keys, self.limits, self.links = keys, limits, OneTimeLinks()
        self.operator = operator
        """Signs commands on a sealed log; `None` if the log is not sealed or the passphrase was not given."""
        view_cache.live_views.on_other_log = feed.forget_past
        self.metrics = ServerMetrics(self.feed, self.view_cache, self.limits)
        self.chats = ChatSessions(self)
        self.log_check: asyncio.Future[str | None] | None = None
        """The readiness check that is running, shared by concurrent `/readyz` requests; its result is an error or `None`."""
        self.write_checked_at = -inf
        """When `/readyz` last wrote to the log."""
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="fleetlore-read")
        self._storing_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="fleetlore-store")
        self._costly_slots = ConcurrencyLimit(MAX_COSTLY_ANSWERS, queued=64, timeout=10.0)
        self._large_body_slots = ConcurrencyLimit(MAX_LARGE_BODIES, queued=256, timeout=60.0)

    @property
    def url(self) -> str:
        """The URL of the log, with its password if it has one."""
        return self.settings.log.value

    @property
    def town(self) -> str:
        """The town (partition of the log) that is served."""
        return self.settings.town.value

    async def run(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run blocking work in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *args, **kwargs))

    async def run_costly(self, request: Request, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run slow work in a thread, a few at a time. Raises `Problem` if the client disconnected while it waited."""
        async with self._costly_slots.hold_slot():
            if await request.is_disconnected():
                raise Problem(CLIENT_CLOSED_REQUEST, "the client disconnected")
            return await self.run(work, *args, **kwargs)

    async def run_storing(self, body: RequestBody, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run the work that stores a request body in a thread; large bodies a few at a time."""
        store = partial(work, *args, **kwargs)
        if not body.is_large:
            return await asyncio.get_running_loop().run_in_executor(self._storing_threads, store)
        async with self._large_body_slots.hold_slot():
            with self.view_cache.live_views.yield_to_others():
                return await asyncio.get_running_loop().run_in_executor(self._storing_threads, store)

    def share_answer(self, name: str, query: Struct, position: Position | None, make: Callable[[], bytes], *, is_shared: bool) -> bytes:
        """Return the encoded answer to a query, from the cache if possible.

        An answer as of a `position` never changes. An answer as of now (`position` is `None`) is reused for `FRESH_SECONDS`
        if `is_shared`.
        """
        is_newest = position is None and is_shared and self.view_cache.live_views.caught_up
        cached_at = (self.log.head() or "") if is_newest else position
        time_slot = int(self.clock().timestamp() // FRESH_SECONDS) if is_newest else None
        return self.view_cache.cached_answer((name, time_slot, msgspec.json.encode(query)), cached_at, make, is_newest=is_newest)

    def start(self) -> None:
        """Start the views, the feed and the search index. Call it on the running event loop."""
        self.view_cache.start()
        self.feed.start()
        self.view_cache.search_index.start()

    def stop_streaming(self) -> None:
        """Disconnect all stream clients; they reconnect to the next server."""
        self.feed.close()

    def close(self) -> None:
        """Stop all threads and wait for them. The log stays open."""
        self.feed.close()
        self.view_cache.stop()
        self.feed.join(5.0)
        self.view_cache.search_index.close()
        self.view_cache.close()
        self._storing_threads.shutdown(wait=True, cancel_futures=True)
        self._threads.shutdown(wait=True, cancel_futures=True)
        self.span_buffer.close()
