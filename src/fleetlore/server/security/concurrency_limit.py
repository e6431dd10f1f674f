"""Limits expensive work: some at once, some queued, and a 503 response for the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fleetlore.server.problems import Problem

_SOON = {"retry-after": "2"}


class ConcurrencyLimit:
    """`async with turns.taken():` For one event loop."""

    def __init__(self, at_once: int, *, line: int, patience: float) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._most, self._patience = line, patience
        self.waiting = 0

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Hold a slot while the block runs; raises a `Problem` if none is free in time."""
        await self._wait_for_slot()
        try:
            yield
        finally:
            self._free.release()

    async def _wait_for_slot(self) -> None:
        if self.waiting >= self._most:
            raise _busy_problem()
        self.waiting += 1
        try:
            async with asyncio.timeout(self._patience):
                await self._free.acquire()
        except TimeoutError:
            raise _busy_problem() from None
        finally:
            self.waiting -= 1


def _busy_problem() -> Problem:
    return Problem(503, "too much of this kind is being worked on; try again in a moment, or ask for less at once", headers=_SOON)
