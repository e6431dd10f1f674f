"""Forwards a driver's events to other places after they are stored in its own log."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from fleetlore.events.envelope import Event
from fleetlore.log.recorder import BlockingRecorder

MAX_QUEUED_EVENTS = 1000
CLOSE_TIMEOUT_SECONDS = 5.0
"""How long the end of a goal waits for slow sinks."""


class DriverEventSink(Protocol):
    """Receives the sixteen kinds of `driver.*` events, in order, after they are stored.

    Its errors are reported and stop nothing.
    """

    async def publish(self, event: Event) -> None:
        """Forward one event."""


class NullSink:
    """Drops all events."""

    async def publish(self, event: Event) -> None:
        """Do nothing."""


class LogSink:
    """Copies events to another log; a `nats://` log publishes them on the subjects of the nexo dialect."""

    def __init__(self, log: BlockingRecorder) -> None:
        self._log = log

    async def publish(self, event: Event) -> None:
        """Store the event under the same id, so that repeating it stores it once."""
        await asyncio.to_thread(self._log.append, [event])


class SinkForwarder:
    """Forwards events to each sink in a background task, so that a slow or failing sink delays neither the goal nor the others."""

    def __init__(self, sinks: Sequence[DriverEventSink]) -> None:
        self._queues = [_SinkQueue(sink) for sink in sinks]

    @property
    def last_failure(self) -> str | None:
        """Why a sink last failed, or `None`."""
        return next((queue.last_failure for queue in self._queues if queue.last_failure is not None), None)

    def enqueue_events(self, events: Sequence[Event]) -> None:
        """Queue the `driver.*` events among these."""
        for queue in self._queues:
            queue.enqueue_events([event for event in events if event.kind.startswith("driver.")])

    async def close(self) -> None:
        """Wait until the queues are empty, at most `CLOSE_TIMEOUT_SECONDS`."""
        running = [queue.task for queue in self._queues if queue.task is not None]
        if running:
            _, late = await asyncio.wait(running, timeout=CLOSE_TIMEOUT_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


class _SinkQueue:
    """The queue of one sink."""

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
            except Exception as error:  # noqa: BLE001 - a sink may be third-party code
                self.last_failure = str(error) or type(error).__name__
