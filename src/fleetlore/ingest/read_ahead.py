"""A log read ahead of whoever takes from it, in a thread, and never by more than a thousand events."""

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
"""An event, the error that ended the reading, or `None` for its quiet end."""


class LogReadAhead:
    """What stands in a log behind a position, and what comes. It only reads; it ends when the log is closed."""

    def __init__(self, log: BlockingRecorder, *, after: str | None) -> None:
        self._queue: Queue[_QueueItem] = Queue(MAX_EVENTS_AHEAD)
        self._closed = False
        Thread(target=self._fill_queue, args=(log, after), name="fleetlore-outbox", daemon=True).start()

    def take_events(self, most: int, *, timeout: float) -> list[Event]:
        """At most so many events, without waiting for more once there is one; none if none came in time."""
        events: list[Event] = []
        try:
            while len(events) < most:
                thing = self._queue.get(timeout=timeout) if not events else self._queue.get_nowait()
                if not isinstance(thing, Event):
                    return self._end_reading(thing, events)
                events.append(thing)
        except Empty:
            pass
        return events

    def _end_reading(self, thing: BaseException | None, events: list[Event]) -> list[Event]:
        if events:
            self._queue.put(thing)  # nobody fills it any more: there is room, and it is found again next time
        elif thing is not None:
            raise thing
        return events

    def close(self) -> None:
        """Read no further. The thread is gone once the log is closed too."""
        self._closed = True

    def _fill_queue(self, log: BlockingRecorder, after: str | None) -> None:
        try:
            with closing(log.follow(after=after)) as events:
                for event in events:
                    if not self._put_item(event):
                        return
            self._put_item(None)
        except BaseException as error:  # noqa: BLE001 - it belongs to the one who takes, not to this thread
            self._put_item(error)

    def _put_item(self, thing: _QueueItem) -> bool:
        while not self._closed:
            try:
                self._queue.put(thing, timeout=_PUT_TIMEOUT)
            except Full:
                continue
            return True
        return False
