"""The house: what every route shares, opened once by whoever serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from starlette.requests import Request

from fleetlore import clock
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.seal import OperatorKey
from fleetlore.server.chat_sessions import Talk
from fleetlore.server.live.feed import Feed
from fleetlore.server.metrics import Meters
from fleetlore.server.problems import Problem
from fleetlore.server.search_index import Finder
from fleetlore.server.security.authorization import Keyring
from fleetlore.server.security.concurrency_limit import Turns
from fleetlore.server.security.limits import Limits
from fleetlore.server.view_cache import Desk
from fleetlore.settings import Settings

if TYPE_CHECKING:
    from fleetlore.graph.settings import GraphSettings
    from fleetlore.server.endpoints.request_body import Body

THREADS = 16
"""For reading, and as many for storing: neither waits for the other."""
LOOKS, BULKS = 2, 4
"""Costly answers, and large bodies, that are worked on at once."""
CLIENT_HAS_GONE = 499
"""Nobody hears it; it is counted."""
_P = ParamSpec("_P")
_T = TypeVar("_T")


class House:
    """One log, shown to any number of people and programs. Made by `rooms.open_house`; lives on one event loop."""

    def __init__(
        self,
        *,
        log: BlockingRecorder,
        settings: Settings,
        desk: Desk,
        feed: Feed,
        finder: Finder,
        keys: Keyring,
        limits: Limits,
        operator: OperatorKey | None = None,
        graph: Callable[[], GraphSettings] | None = None,
        now: clock.Clock = clock.now,
    ) -> None:
        self.log, self.settings, self.clock = log, settings, now
        self.desk, self.feed, self.finder = desk, feed, finder
        self.keys, self.limits = keys, limits
        self.operator = operator
        """Signs for pages that may steer; `None` on a log that is not sealed, or whose passphrase nobody has given."""
        desk.warm.on_other_log = feed.forget_past
        self.meters = Meters(self.feed, self.desk, self.limits)
        self.talk = Talk(self, graph)
        self.asking: asyncio.Future[str | None] | None = None
        """Whether the log answers, as long as that is not known."""
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="fleetlore-desk")
        self._storing = ThreadPoolExecutor(THREADS, thread_name_prefix="fleetlore-doors")
        self._looks = Turns(LOOKS, line=64, patience=10.0)
        self._bulks = Turns(BULKS, line=256, patience=60.0)

    @property
    def url(self) -> str:
        """The address of the log."""
        return self.settings.log.value

    @property
    def town(self) -> str:
        """Whose log it is."""
        return self.settings.town.value

    async def run(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Do blocking work in a thread while the loop goes on."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *args, **kwargs))

    async def look(self, request: Request, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """The same for what may take long, a few at once, so that all else goes on; not for a client that has gone meanwhile."""
        async with self._looks.taken():
            if await request.is_disconnected():
                raise Problem(CLIENT_HAS_GONE, "nobody waits for this any more")
            return await self.run(work, *args, **kwargs)

    async def store(self, body: Body, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Do what stores a body, in a thread; a few of those that are large at once."""
        storing = partial(work, *args, **kwargs)
        if not body.is_large:
            return await asyncio.get_running_loop().run_in_executor(self._storing, storing)
        async with self._bulks.taken():
            with self.desk.warm.yield_to_others():
                return await asyncio.get_running_loop().run_in_executor(self._storing, storing)

    def start(self) -> None:
        """Begin to fold and to follow, on the running loop."""
        self.desk.start()
        self.feed.start()
        self.finder.start()

    def stop_streaming(self) -> None:
        """Let everybody go who watches; they come back to whoever serves next."""
        self.feed.close()

    def close(self) -> None:
        """End all of it; the log stays open."""
        self.feed.close()
        self.desk.stop()
        self.feed.join(5.0)
        self.finder.close()
        self.desk.close()
        self._storing.shutdown(wait=True, cancel_futures=True)
        self._threads.shutdown(wait=True, cancel_futures=True)
