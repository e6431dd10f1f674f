"""What comes next in a log, together with the passing of time: for pages that must also change when nothing happens."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder


def follow_batches(log: BlockingRecorder, *, after: str | None, tick: float = 1.0) -> Iterator[list[Event]]:
    """The events behind a position as they come, several at once where they come fast; an empty list whenever a tick passes without any."""
    arrived: SimpleQueue[Event | BaseException] = SimpleQueue()
    Thread(target=_queue_events, args=(log, after, arrived), name="fleetlore-watch", daemon=True).start()
    while True:
        batch: list[Event] = []
        try:
            batch.append(_take_event(arrived.get(timeout=tick)))
            while not arrived.empty():
                batch.append(_take_event(arrived.get()))
        except Empty:
            pass
        yield batch


def _queue_events(log: BlockingRecorder, after: str | None, arrived: SimpleQueue[Event | BaseException]) -> None:
    try:
        for event in log.follow(after=after):
            arrived.put(event)
    except BaseException as error:  # noqa: BLE001 - it belongs to the one who watches, not to this thread
        arrived.put(error)


def _take_event(thing: Event | BaseException) -> Event:
    if isinstance(thing, BaseException):
        raise thing
    return thing
