"""One client's position in the feed: first older events from the log, if it starts there, then the ring."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from fleetlore.errors import Closed
from fleetlore.log.base import TOWN, Position
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.server.live.ring import BATCH_BYTES, Batch, EncodedEvent, EventFilter, iterate_entries

if TYPE_CHECKING:
    import asyncio

    from fleetlore.server.live.feed import Feed

PAST_BYTES = 8 * BATCH_BYTES
"""Bytes read of older events at once.

A page of long events has 100 MB, and thousands of clients may read older events.
"""
SIGN_OF_LIFE = Batch(())
_NOTHING = Batch(())


class Subscription:
    """Created by `Feed.subscribe`. `cut` aborts the connection of a client that no longer reads."""

    def __init__(self, feed: Feed, wanted: EventFilter, after: Position | None, *, reached: Position | None = None) -> None:
        self.head: Position | None = feed.ring.newest or None
        self.is_new = after is None
        """Whether it starts with new events."""
        self.was_dropped = False
        self.cut: Callable[[], object] = self.end
        self._feed, self._ring, self._wanted = feed, feed.ring, wanted
        self._place = feed.ring.end
        self._after = after
        """Until its position is in the ring: the position to continue after."""
        self._reached = reached
        """Where an empty page of older events leads; `None` if there is something to read."""
        self._past: _Past | None = None
        self._ready: deque[Batch] = deque()
        self._beat = feed.beat
        self._sent_at: float | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._over = False

    async def next(self) -> Batch | None:
        """Wait for the next batch; `None` at the end. Calling it again confirms that the last one was sent."""
        self._sent_at = None
        while not self._over:
            batch = self._next_from_ring() if self._after is None else await self._next_from_log(self._after)
            if batch is None:
                await self._wait_for_news()
            elif batch.entries or batch is SIGN_OF_LIFE:
                self._sent_at = self._feed.loop.time()
                self._feed.delivered += len(batch.entries)
                return batch
        return None

    def close(self) -> None:
        """End the subscription and remove it from the feed."""
        self.end()
        self._feed.remove_subscription(self)
        self._leave_past()

    def end(self) -> None:
        """Let `next` return `None`."""
        self._over = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def is_stalled(self, since: float) -> bool:
        """Whether a batch given out before this time has not been sent yet."""
        return self._sent_at is not None and self._sent_at < since

    def drop(self) -> None:
        """Disconnect a client that is too slow; it reconnects with its last position and reads the log."""
        if not self.was_dropped:
            self.was_dropped = True
            self._feed.dropped_clients += 1
            self.end()
            self.cut()

    async def _wait_for_news(self) -> None:
        if not self._over:
            self._waiter = self._feed.wait_for_news()
            await self._waiter

    def _next_from_ring(self) -> Batch | None:
        """The next batch from the ring, possibly without matching entries; `None` if there is nothing new."""
        ring, place = self._ring, self._place
        if place == ring.end:
            return self._next_heartbeat()
        if place < ring.first:
            self.drop()
            return None
        batch, self._place = ring.make_batch(self._wanted, place)
        return batch

    def _next_heartbeat(self) -> Batch | None:
        if self._beat == self._feed.beat:
            return None
        self._beat = self._feed.beat
        return SIGN_OF_LIFE

    async def _next_from_log(self, after: Position) -> Batch | None:
        """Read older events page by page until the ring has what follows."""
        if self._ready:
            return self._ready.popleft()
        newest = self._ring.newest
        if self._ring.holds_position(after):
            self._place, self._after = self._ring.find_place(after), None
            self._leave_past()
        elif len(after) == len(newest) and after > newest:
            return self._next_heartbeat()  # the follower is not there yet
        else:
            await self._read_past(after)
        return _NOTHING

    async def _read_past(self, after: Position) -> None:
        if self._past is None:
            self._past = _Past(self._feed.log, after)
        try:
            entries = await self._feed.run(self._past.next)
        except Closed:
            self.end()
            return
        if entries:
            self._after, self._reached = entries[-1].position, None
            self._ready += map(Batch, _split_entries(self._wanted.select_entries(entries)))
        elif self._reached is not None:
            self._after, self._reached = self._reached, None
            self._leave_past()

    def _leave_past(self) -> None:
        if self._past is not None:
            self._feed.run_later(self._past.close)
            self._past = None


class _Past:
    """A follower of its own until the ring is reached: it reports gaps, which `read` does not."""

    def __init__(self, log: BlockingRecorder, after: Position) -> None:
        self._log, self._pages = log, log.follow_pages(TOWN, after=after)
        self._after = after
        self._in_use = Lock()

    def next(self) -> list[EncodedEvent]:
        """The next entries; empty if there are none now."""
        with self._in_use:
            for page in self._pages:
                entries = list(iterate_entries(page, self._after))
                first = _first_entries(entries)
                if entries:
                    self._after = first[-1].position
                if len(first) < len(entries):
                    self._pages.close()
                    self._pages = self._log.follow_pages(TOWN, after=self._after)
                return first
            raise Closed("the log was closed; open it again with connect()")

    def close(self) -> None:
        """Close the log follower; waits for a `next` in another thread."""
        with self._in_use:
            self._pages.close()


def _first_entries(entries: list[EncodedEvent]) -> list[EncodedEvent]:
    """As many entries from the start as a slow client may hold."""
    size = 0
    for n, entry in enumerate(entries, 1):
        size += len(entry.chunk)
        if size >= PAST_BYTES:
            return entries[:n]
    return entries


def _split_entries(entries: Sequence[EncodedEvent]) -> Iterator[list[EncodedEvent]]:
    """Split entries into groups that are sent at once."""
    group: list[EncodedEvent] = []
    size = 0
    for entry in entries:
        if group and size + len(entry.chunk) > BATCH_BYTES:
            yield group
            group, size = [], 0
        group.append(entry)
        size += len(entry.chunk)
    if group:
        yield group
