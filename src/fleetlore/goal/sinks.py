"""Where else a driver's events go, once they are on its own log."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from fleetlore.events.envelope import Event
from fleetlore.log.recorder import BlockingRecorder

MAX_QUEUED_EVENTS = 1000
PATIENCE = 5.0
"""Seconds that the end of a goal waits for sinks."""


class DriverEventSink(Protocol):
    """Takes the sixteen `driver.*` events, in order, after they were stored. What it raises is told, and stops nothing."""

    async def publish(self, event: Event) -> None:
        """Hand one event on."""


class NullSink:
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


class SinkForwarder:
    """Hands events on to sinks, beside whatever else goes on: one that is slow, or fails, holds up neither the goal nor the others."""

    def __init__(self, sinks: Sequence[DriverEventSink]) -> None:
        self._queues = [_SinkQueue(sink) for sink in sinks]

    @property
    def last_failure(self) -> str | None:
        """Why a sink did not take what it was handed, the last time that it did not."""
        return next((way.last_failure for way in self._queues if way.last_failure is not None), None)

    def enqueue_events(self, events: Sequence[Event]) -> None:
        """Have the driver's events among these handed on."""
        for way in self._queues:
            way.enqueue_events([event for event in events if event.kind.startswith("driver.")])

    async def close(self) -> None:
        """Wait until all was handed on, but not for ever."""
        out = [way.task for way in self._queues if way.task is not None]
        if out:
            _, late = await asyncio.wait(out, timeout=PATIENCE)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


class _SinkQueue:
    """To one sink."""

    def __init__(self, sink: DriverEventSink) -> None:
        self._sink, self._queued = sink, deque[Event]()
        self.task: asyncio.Task[None] | None = None
        self.last_failure: str | None = None

    def enqueue_events(self, events: Sequence[Event]) -> None:
        room = MAX_QUEUED_EVENTS - len(self._queued)
        if len(events) > room:
            self.last_failure = f"it is too slow: {len(events) - room} events were not handed on"
        self._queued.extend(events[:room])
        if self._queued and (self.task is None or self.task.done()):
            self.task = asyncio.create_task(self._publish_queued())

    async def _publish_queued(self) -> None:
        while self._queued:
            try:
                await self._sink.publish(self._queued.popleft())
            except Exception as error:  # noqa: BLE001 - a sink may be anybody's, and stops nothing
                self.last_failure = str(error) or type(error).__name__
