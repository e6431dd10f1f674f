"""Where else a driver's events go, once they are on its own log."""

from __future__ import annotations

import asyncio
from typing import Protocol

from fleetlore.events.envelope import Event
from fleetlore.log.recorder import BlockingRecorder


class DriverEventSink(Protocol):
    """Takes the sixteen `driver.*` events, in order, after they were stored. What it raises is told, and stops nothing."""

    async def publish(self, event: Event) -> None:
        """Hand one event on."""


class NoSink:
    """Hands nothing on."""

    async def publish(self, event: Event) -> None:
        """Do nothing."""


class LogSink:
    """Hands events on to another log; on `nats://` they are published on the subjects of the nexo dialect."""

    def __init__(self, log: BlockingRecorder) -> None:
        self._log = log

    async def publish(self, event: Event) -> None:
        """Store it there, under the same id: once, however often it is handed on."""
        await asyncio.to_thread(self._log.append, [event])
