"""The house: what every route shares, opened once by whoever serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from fleetlore import clock
from fleetlore.config import Settings
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.server.desk import Desk
from fleetlore.server.feed import Feed
from fleetlore.server.finder import Finder
from fleetlore.server.keys import Keyring
from fleetlore.server.limits import Limits
from fleetlore.server.meters import Meters

THREADS = 16
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
        now: clock.Clock = clock.now,
    ) -> None:
        self.log, self.settings, self.clock = log, settings, now
        self.desk, self.feed, self.finder = desk, feed, finder
        self.keys, self.limits = keys, limits
        self.meters = Meters(self.feed, self.desk, self.limits)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="fleetlore-desk")

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
        self._threads.shutdown(wait=True, cancel_futures=True)
