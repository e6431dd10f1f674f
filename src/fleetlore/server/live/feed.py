"""The live feed: one thread follows the log, encodes each event once, and everybody who watches reads the same ring.

    feed = Feed(log)             # an open BlockingRecorder; nothing happens yet
    feed.start()                 # on the running loop, once
    subscription = await feed.subscribe(Wanted("task:t7"), after=position)
    while (batch := await subscription.next()) is not None:
        ...                      # send batch.chunks (SSE) or each entry's json; an empty batch is a sign of life
    subscription.close()         # always
    feed.close()                 # ends every subscription: before the server waits for its connections to end

A client is no more than a number in the ring, so one that is slow costs the others nothing: it is let go when the ring has
passed it, or when it has taken nothing for `patience` seconds, and resumes from the log by its last position.
While the log cannot be read, `trouble` says why, and it is tried again until it can.
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
from fleetlore.server.live.ring import Entry, Ring, Wanted, entries_of
from fleetlore.server.live.subscription import Subscription

HEARTBEAT_SECONDS = 15.0
PATIENCE_SECONDS = 20.0
"""How long a client may take nothing of what was sent to it."""
READERS = 4
"""Threads that read the past for those who begin behind the ring."""
MOST_WAITING = 1000
"""Entries that the follower may be ahead of the loop."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
OPENING_SECONDS = 5.0
"""How long the first clients wait for the end of the log to be found."""

_logger = logging.getLogger("fleetlore.server")
_Answer = TypeVar("_Answer")


class Feed:
    """What is shown live. All but the follower's own thread happens on the loop that started it."""

    def __init__(
        self,
        log: BlockingRecorder,
        *,
        ring: Ring | None = None,
        heartbeat: float = HEARTBEAT_SECONDS,
        patience: float = PATIENCE_SECONDS,
        opening: float = OPENING_SECONDS,
    ) -> None:
        self.log = log
        self.ring = ring or Ring()
        self.trouble: str | None = None
        self.beat = 0
        """Signs of life so far."""
        self.delivered = 0
        self.let_go = 0
        """Clients that were too slow."""
        self._heartbeat, self._patience, self._opening = heartbeat, patience, opening
        self._subscriptions: set[Subscription] = set()
        self._waiting: list[asyncio.Future[None]] = []
        self._follower = Follower(self)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="fleetlore-past")
        self._opened = asyncio.Event()
        self._closed = False
        self._timers: list[asyncio.TimerHandle] = []

    @property
    def clients(self) -> int:
        """How many are watching."""
        return len(self._subscriptions)

    def start(self) -> None:
        """Begin to follow the log, at its end."""
        self.loop = asyncio.get_running_loop()
        self._follower.start(self.loop)
        self._later(self._heartbeat, self._give_sign)
        self._later(self._patience / 4, self._look_after)

    def close(self) -> None:
        """End every subscription and let the follower end; does not wait. The log stays open."""
        self._closed = True
        self._follower.stop()
        self._readers.shutdown(wait=False)
        for timer in self._timers:
            timer.cancel()
        for subscription in tuple(self._subscriptions):
            subscription.end()
        self.wake()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the follower has ended; for threads, after `close`."""
        self._follower.join(timeout)

    async def subscribe(self, wanted: Wanted, *, after: Position | None) -> Subscription:
        """A client's place: behind `after`, or at what comes now. `Invalid` if that is no position of this log."""
        await self._open()
        if after is not None and not self.ring.holds(after):
            subscription = await self._behind(wanted, after)
        else:
            subscription = Subscription(self, wanted, after)
        self._check_open()
        self._subscriptions.add(subscription)
        return subscription

    async def _open(self) -> None:
        """Until it is known where the log ends."""
        if not self._opened.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._opening):
                    await self._opened.wait()
                return
            raise LogError(f"the log cannot be followed just now ({self.trouble}); try again in a moment")

    async def _behind(self, wanted: Wanted, after: Position) -> Subscription:
        """For a place outside the ring: the past, or one that the follower has yet to come to, or one that never was."""
        newest = self.ring.newest
        head, is_last = await self.run(self._look, after)
        if is_last and head is not None and len(head) == len(after):
            return Subscription(self, wanted, head) if after == head else Subscription(self, wanted, None)
        return Subscription(self, wanted, after, reached=(head or newest) if is_last else None)

    def _look(self, after: Position) -> tuple[Position | None, bool]:
        """The log's head, and whether nothing lies behind a position. In this order: what comes in between is not passed over."""
        head = self.log.head()
        return head, next(self.log.read(after=after, limit=1), None) is None

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the feed was closed; the server is about to end")

    # --- for subscriptions

    async def run(self, work: Callable[..., _Answer], *args: object) -> _Answer:
        """Do something that blocks in one of the readers' threads."""
        self._check_open()
        return await self.loop.run_in_executor(self._readers, work, *args)

    def run_later(self, work: Callable[[], object]) -> None:
        """The same, without waiting for it."""
        with suppress(RuntimeError):  # the feed was closed
            self._readers.submit(work)

    def wait(self) -> asyncio.Future[None]:
        """Done when there is something new: one call wakes everybody."""
        waiter = self.loop.create_future()
        self._waiting.append(waiter)
        return waiter

    def forget(self, subscription: Subscription) -> None:
        """Somebody has gone."""
        self._subscriptions.discard(subscription)

    # --- on the loop

    def open(self, base: Position | None) -> None:
        """The follower has found the end of the log, and goes on from there."""
        self.ring.base = base or ""
        self._opened.set()

    def take(self, entries: Sequence[Entry]) -> None:
        """Something new: into the ring, and everybody is woken."""
        self.ring.add(entries)
        self.wake()

    def forget_past(self) -> None:
        """A backup was put in the log's place: have everybody read there what came before. For any thread."""
        with suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(self.ring.clear)

    def wake(self) -> None:
        """Have everybody look again."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _give_sign(self) -> None:
        self.beat += 1
        self.wake()
        self._later(self._heartbeat, self._give_sign)

    def _look_after(self) -> None:
        """Let go of those who take nothing."""
        oldest = self.loop.time() - self._patience
        for subscription in tuple(self._subscriptions):
            if subscription.is_stalled(oldest):
                subscription.drop()
        self._later(self._patience / 4, self._look_after)

    def _later(self, seconds: float, work: Callable[[], None]) -> None:
        self._timers = [timer for timer in self._timers if timer.when() > self.loop.time()]
        if not self._closed:
            self._timers.append(self.loop.call_later(seconds, work))


class Follower:
    """The thread that reads the log. What it has ready while the loop is busy is handed over together."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._ready: list[Entry] = []
        self._changed = Condition()
        self._stopping = Event()
        self._is_open = False
        self._after: Position | None = None
        self._thread = Thread(target=self._run, name="fleetlore-feed", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin."""
        self._loop = loop
        self._thread.start()

    def stop(self) -> None:
        """End at the next opportunity."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()

    def join(self, timeout: float | None) -> None:
        """Wait for the end."""
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            try:
                self._follow()
                break
            except Closed:
                break
            except Exception as error:  # noqa: BLE001 - whatever it is, a feed that stands still helps nobody
                pause = FIRST_PAUSE if self._feed.trouble is None else min(2 * pause, LONGEST_PAUSE)
                self._say_troubled(error)
                self._stopping.wait(pause)
        self._tell(self._feed.close)  # the log was closed: nothing more will come

    def _say_troubled(self, error: Exception) -> None:
        if self._feed.trouble is None:
            trace = None if isinstance(error, LogError) else error
            _logger.warning("the log cannot be followed just now (%s); trying again until it can", error, exc_info=trace)
        self._feed.trouble = str(error) or repr(error)

    def _follow(self) -> None:
        if not self._is_open:
            self._after = self._feed.log.head()
            self._is_open = True
            self._tell(self._feed.open, self._after)
        with closing(self._feed.log.follow_pages(TOWN, after=self._after)) as pages:
            for page in pages:
                self._feed.trouble = None
                if self._stopping.is_set():
                    return
                if entries := list(entries_of(page, self._after)):
                    self._after = entries[-1].position
                    self._hand_over(entries)

    def _hand_over(self, entries: list[Entry]) -> None:
        with self._changed:
            self._ready += entries
            if len(self._ready) == len(entries):
                self._tell(self._bring)
            self._changed.wait_for(lambda: len(self._ready) < MOST_WAITING or self._stopping.is_set())

    def _bring(self) -> None:
        """On the loop: all that is ready."""
        with self._changed:
            entries, self._ready = self._ready, []
            self._changed.notify_all()
        self._feed.take(entries)

    def _tell(self, work: Callable[..., object], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(work, *args)
        except RuntimeError:  # the loop has ended, and with it everybody who watched
            self._stopping.set()
