"""The live feed: one thread follows the log and encodes each event once; all clients read the same ring.

    feed = Feed(log)             # an open BlockingRecorder; nothing happens yet
    feed.start()                 # on the running loop, once
    subscription = await feed.subscribe(EventFilter("task:t7"), after=position)
    while (batch := await subscription.next()) is not None:
        ...                      # send batch.chunks (SSE) or each entry's json; an empty batch is a heartbeat
    subscription.close()         # always
    feed.close()                 # ends every subscription; call it before the server waits for connections

A client is just a number in the ring, so a slow one costs the others nothing: it is dropped when the ring has passed
it or when it has taken nothing for `stall_timeout` seconds, and resumes from the log by its last position. While the log
cannot be read, `trouble` has the reason, and reading is retried.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from threading import Condition, Event, Thread
from typing import TypeVar

from fleetlore.errors import Closed, LogError
from fleetlore.log.base import TOWN, Position
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.server.live.ring import EncodedEvent, EventFilter, Ring, iterate_entries
from fleetlore.server.live.subscription import Subscription

HEARTBEAT_SECONDS = 15.0
STALL_SECONDS = 20.0
"""How long a client may take nothing of what was sent."""
READERS = 4
"""Threads that read older events for clients that start before the ring."""
MOST_WAITING = 1000
"""Entries that the follower may be ahead of the loop."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
OPENING_SECONDS = 5.0
"""How long the first clients wait until the end of the log is known."""

_logger = logging.getLogger("fleetlore.server")
_Answer = TypeVar("_Answer")


class Feed:
    """The live feed. Everything but the follower's thread runs on the loop that started it."""

    def __init__(
        self,
        log: BlockingRecorder,
        *,
        ring: Ring | None = None,
        heartbeat: float = HEARTBEAT_SECONDS,
        stall_timeout: float = STALL_SECONDS,
        opening: float = OPENING_SECONDS,
    ) -> None:
        self.log = log
        self.ring = ring or Ring()
        self.trouble: str | None = None
        self.beat = 0
        """Number of heartbeats so far."""
        self.delivered = 0
        self.dropped_clients = 0
        """Clients dropped for being too slow."""
        self._heartbeat, self._stall_timeout, self._opening = heartbeat, stall_timeout, opening
        self._subscriptions: set[Subscription] = set()
        self._waiting: list[asyncio.Future[None]] = []
        self._follower = Follower(self)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="fleetlore-past")
        self._opened = asyncio.Event()
        self._closed = False
        self._timers: list[asyncio.TimerHandle] = []

    @property
    def clients(self) -> int:
        """Number of clients."""
        return len(self._subscriptions)

    def start(self) -> None:
        """Start following the log at its end."""
        self.loop = asyncio.get_running_loop()
        self._follower.start(self.loop)
        self._call_later(self._heartbeat, self._send_heartbeat)
        self._call_later(self._stall_timeout / 4, self._drop_stalled)

    def close(self) -> None:
        """End every subscription and stop the follower; does not wait. The log stays open."""
        self._closed = True
        self._follower.stop()
        self._readers.shutdown(wait=False)
        for timer in self._timers:
            timer.cancel()
        for subscription in tuple(self._subscriptions):
            subscription.end()
        self.wake_clients()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the follower has ended; from a thread, after `close`."""
        self._follower.join(timeout)

    async def subscribe(self, wanted: EventFilter, *, after: Position | None) -> Subscription:
        """Subscribe after a position, or from now on. Raises `Invalid` if it is not a position of this log."""
        await self._wait_for_head()
        if after is not None and not self.ring.holds_position(after):
            subscription = await self._subscribe_at(wanted, after)
        else:
            subscription = Subscription(self, wanted, after)
        self._check_open()
        self._subscriptions.add(subscription)
        return subscription

    async def _wait_for_head(self) -> None:
        """Wait until the end of the log is known."""
        if not self._opened.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._opening):
                    await self._opened.wait()
                return
            raise LogError(f"the log cannot be followed just now ({self.trouble}); try again in a moment")

    async def _subscribe_at(self, wanted: EventFilter, after: Position) -> Subscription:
        """Subscribe at a position outside of the ring: in the past, not reached by the follower yet, or nonexistent."""
        newest = self.ring.newest
        head, is_last = await self.run(self._read_head, after)
        if is_last and head is not None and len(head) == len(after):
            return Subscription(self, wanted, head) if after == head else Subscription(self, wanted, None)
        return Subscription(self, wanted, after, reached=(head or newest) if is_last else None)

    def _read_head(self, after: Position) -> tuple[Position | None, bool]:
        """The log's head, and whether nothing follows a position.

        In this order, so that nothing in between is skipped.
        """
        head = self.log.head()
        return head, next(self.log.read(after=after, limit=1), None) is None

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the feed was closed; the server is about to end")

    # --- for subscriptions

    async def run(self, work: Callable[..., _Answer], *args: object) -> _Answer:
        """Run blocking work in a reader thread."""
        self._check_open()
        return await self.loop.run_in_executor(self._readers, work, *args)

    def run_later(self, work: Callable[[], object]) -> None:
        """Run blocking work in a reader thread without waiting."""
        with suppress(RuntimeError):  # the feed was closed
            self._readers.submit(work)

    def wait_for_news(self) -> asyncio.Future[None]:
        """A future that is done when there is something new: one call wakes all clients."""
        waiter = self.loop.create_future()
        self._waiting.append(waiter)
        return waiter

    def remove_subscription(self, subscription: Subscription) -> None:
        """Remove a subscription that has ended."""
        self._subscriptions.discard(subscription)

    # --- on the loop

    def open(self, base: Position | None) -> None:
        """The follower knows the end of the log and starts there."""
        self.ring.base = base or ""
        self._opened.set()

    def add_entries(self, entries: Sequence[EncodedEvent]) -> None:
        """Add new entries to the ring and wake all clients."""
        self.ring.add(entries)
        self.wake_clients()

    def forget_past(self) -> None:
        """The log was replaced by a backup: clients must read older events from it. Thread-safe."""
        with suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(self.ring.clear)

    def wake_clients(self) -> None:
        """Wake all waiting clients."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _send_heartbeat(self) -> None:
        self.beat += 1
        self.wake_clients()
        self._call_later(self._heartbeat, self._send_heartbeat)

    def _drop_stalled(self) -> None:
        """Drop clients that take nothing."""
        oldest = self.loop.time() - self._stall_timeout
        for subscription in tuple(self._subscriptions):
            if subscription.is_stalled(oldest):
                subscription.drop()
        self._call_later(self._stall_timeout / 4, self._drop_stalled)

    def _call_later(self, seconds: float, work: Callable[[], None]) -> None:
        self._timers = [timer for timer in self._timers if timer.when() > self.loop.time()]
        if not self._closed:
            self._timers.append(self.loop.call_later(seconds, work))


class Follower:
    """The thread that reads the log. Entries that are ready while the loop is busy are handed over together."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._ready: list[EncodedEvent] = []
        self._changed = Condition()
        self._stopping = Event()
        self._is_open = False
        self._after: Position | None = None
        self._thread = Thread(target=self._run_until_stopped, name="fleetlore-feed", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the thread."""
        self._loop = loop
        self._thread.start()

    def stop(self) -> None:
        """Stop at the next opportunity."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()

    def join(self, timeout: float | None) -> None:
        """Wait for the thread to end."""
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run_until_stopped(self) -> None:
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            try:
                self._follow_log()
                break
            except Closed:
                break
            except Exception as error:  # noqa: BLE001  # any error: a feed that stops silently would be worse
                pause = FIRST_PAUSE if self._feed.trouble is None else min(2 * pause, LONGEST_PAUSE)
                self._report_trouble(error)
                self._stopping.wait(pause)
        self._call_on_loop(self._feed.close)  # the log was closed: nothing more will come

    def _report_trouble(self, error: Exception) -> None:
        if self._feed.trouble is None:
            trace = None if isinstance(error, LogError) else error
            _logger.warning("the log cannot be followed just now (%s); trying again until it can", error, exc_info=trace)
        self._feed.trouble = str(error) or repr(error)

    def _follow_log(self) -> None:
        if not self._is_open:
            self._after = self._feed.log.head()
            self._is_open = True
            self._call_on_loop(self._feed.open, self._after)
        with closing(self._feed.log.follow_pages(TOWN, after=self._after)) as pages:
            for page in pages:
                self._feed.trouble = None
                if self._stopping.is_set():
                    return
                if entries := list(iterate_entries(page, self._after)):
                    self._after = entries[-1].position
                    self._deliver_entries(entries)

    def _deliver_entries(self, entries: list[EncodedEvent]) -> None:
        with self._changed:
            self._ready += entries
            if len(self._ready) == len(entries):
                self._call_on_loop(self._deliver_ready)
            self._changed.wait_for(lambda: len(self._ready) < MOST_WAITING or self._stopping.is_set())

    def _deliver_ready(self) -> None:
        """Runs on the loop: hand over all ready entries."""
        with self._changed:
            entries, self._ready = self._ready, []
            self._changed.notify_all()
        self._feed.add_entries(entries)

    def _call_on_loop(self, work: Callable[..., object], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(work, *args)
        except RuntimeError:  # the loop has ended, and all clients with it
            self._stopping.set()
