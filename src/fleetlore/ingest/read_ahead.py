"""Reads a log ahead in a thread, at most 1,000 events. Used by the shipper."""

from __future__ import annotations

from contextlib import closing
from queue import Empty, Full, Queue
from threading import Thread
from typing import TYPE_CHECKING, TypeAlias

from fleetlore.events.envelope import Event

if TYPE_CHECKING:
    from fleetlore.log.recorder import BlockingRecorder

MAX_EVENTS_AHEAD = 1000
_PUT_TIMEOUT = 0.2

_QueueItem: TypeAlias = Event | BaseException | None
"""An event, the error that ended the reading, or `None` when the log was closed."""


class LogReadAhead:
    """Reads the events of a log after a position, and follows new ones until the log is closed."""

    def __init__(self, log: BlockingRecorder, *, after: str | None) -> None:
        self._queue: Queue[_QueueItem] = Queue(MAX_EVENTS_AHEAD)
        self._closed = False
        Thread(target=self._fill_queue, args=(log, after), name="fleetlore-outbox", daemon=True).start()

    def take_events(self, most: int, *, timeout: float) -> list[Event]:
        """Return up to `most` events as soon as there is at least one; an empty list after the timeout."""
        events: list[Event] = []
        try:
            while len(events) < most:
                item = self._queue.get(timeout=timeout) if not events else self._queue.get_nowait()
                if not isinstance(item, Event):
                    return self._end_reading(item, events)
                events.append(item)
        except Empty:
            pass
        return events

    def _end_reading(self, item: BaseException | None, events: list[Event]) -> list[Event]:
        if events:
            self._queue.put(item)  # the thread has ended, so there is room; the next call finds it
        elif item is not None:
            raise item
        return events

    def close(self) -> None:
        """Stop reading. The thread ends when the log is closed as well."""
        self._closed = True

    def _fill_queue(self, log: BlockingRecorder, after: str | None) -> None:
        try:
            with closing(log.follow(after=after)) as events:
                for event in events:
                    if not self._put_item(event):
                        return
            self._put_item(None)
        except BaseException as error:  # noqa: BLE001  # raised in `take_events` instead
            self._put_item(error)

    def _put_item(self, item: _QueueItem) -> bool:
        while not self._closed:
            try:
                self._queue.put(item, timeout=_PUT_TIMEOUT)
            except Full:
                continue
            return True
        return False
