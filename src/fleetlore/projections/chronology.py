"""A log read in the order in which things happened, whatever the order in which they were stored.

Most events are stored in the order of their time. Those that are not, an import of last week's files for one, are put aside
in a first reading, and merged in where they belong in the second. However many they are, memory holds a bounded number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from heapq import merge
from itertools import compress
from operator import attrgetter
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

import apsw
from msgspec.structs import force_setattr

from fleetlore.events import codec
from fleetlore.events.envelope import Event
from fleetlore.log.base import StoredRecord
from fleetlore.log.reading import decode_all_stored, decode_stored, decode_without_positions
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.thread_events import Selection
from fleetlore.views.event_text import EventRank, event_rank

MOST_IN_MEMORY = 20_000
BATCH_EVENTS = 100
"""So many events are decoded before they are looked at: one thing at a time is faster."""
EventOrder = tuple[EventRank, str]
_get_at, _get_origin = attrgetter("at"), attrgetter("origin")
_OLDEST_RANK: EventRank = ((datetime.min.replace(tzinfo=UTC), "", 0), "")


class OutOfOrder(Exception):
    """An event is older than one that was stored before it: it takes two readings to tell them in order."""


class Chronology(AbstractContextManager["Chronology"]):
    """The events of a scope or of a task's thread between two moments, to be read once by `look_through` and then in order by `in_order`.

    Where nobody has to know beforehand what comes, `while_in_order` may do with one reading.
    """

    def __init__(self, log: BlockingRecorder, scope: Selection, *, since: datetime | None = None, until: datetime | None = None) -> None:
        self._log, self._scope, self._since, self._until = log, scope, since, until
        self._late = _LateEvents()
        self._end: str | None = None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._late.close()

    def scan_events(self, see: Callable[[Event], None]) -> Self:
        """The first reading: passes every event to `see` in the order of the log, and sets aside those that are late."""

        def see_each(batch: Sequence[Event]) -> None:
            for event in batch:
                see(event)

        return self.scan_batches(see_each)

    def scan_batches(self, see: Callable[[Sequence[Event]], None]) -> Self:
        """The same, a batch of events per call."""
        newest = _OLDEST_RANK
        for rows, batch in self._read_batches(decode_all_stored):
            see(batch)
            newest = _newest_rank_by_time(batch, newest) or self._collect_late_events(rows, batch, newest)
            self._end = rows[-1].position
        return self

    def read_in_order_once(self) -> Iterator[Sequence[Event]]:
        """The one reading of a log that is in order, some events at a time; `OutOfOrder` comes in place of those of which one is late.

        The events need not say their positions.
        """
        newest = _OLDEST_RANK
        for _, batch in self._read_batches(decode_without_positions):
            newest = _newest_rank_by_time(batch, newest) or _newest_rank_in_order(batch, newest)
            yield batch

    def _collect_late_events(self, rows: Sequence[StoredRecord], batch: Sequence[Event], newest: EventRank) -> EventRank:
        """Keep those that are older than one before them; answers the newest rank."""
        for row, event in zip(rows, batch, strict=True):
            rank = event_rank(event)
            if rank < newest:  # of one moment, the log's order holds
                self._late.add((rank, row.position), decode_stored(row))
            else:
                newest = rank
        return newest

    def iterate_in_order(self) -> Iterator[Event]:
        """The second reading: every event that was seen in the first, by time."""
        if self._end is None:
            return iter(())
        if not self._late.count:
            return self._reread_events()
        on_time = ((order, event) for event in self._reread_events() if (order := event_order(event)) not in self._late)
        return (event for _, event in merge(on_time, self._late.iterate_in_order(), key=lambda pair: pair[0]))

    def _reread_events(self) -> Iterator[Event]:
        end = self._end or ""
        for rows, batch in self._read_batches(decode_all_stored):
            if rows[-1].position > end:
                yield from (event for event in batch if (event.position or "") <= end)
                return
            yield from batch

    def _read_batches(self, read: Callable[[list[StoredRecord]], list[Event]]) -> Iterator[tuple[list[StoredRecord], list[Event]]]:
        until = self._until
        for rows, batch in self._batches(read):
            if until is not None:
                is_wanted = [event.at is None or event.at < until for event in batch]
                rows, batch = list(compress(rows, is_wanted)), list(compress(batch, is_wanted))
            if rows:
                yield rows, batch

    def _batches(self, read: Callable[[list[StoredRecord]], list[Event]]) -> Iterator[tuple[list[StoredRecord], list[Event]]]:
        if not isinstance(self._scope, str):
            yield from self._scope.pages(self._log, since=self._since)
            return
        for page in self._log.pages(self._scope, since=self._since):
            for start in range(0, len(page), BATCH_EVENTS):
                rows = page[start : start + BATCH_EVENTS]
                yield rows, read(rows)


def _newest_rank_by_time(batch: Sequence[Event], newest: EventRank) -> EventRank | None:
    """The newest rank where each event is as new as those before it by its time alone; nothing where that takes a closer look."""
    if any(map(_get_origin, batch)):
        return None
    times = list(map(_get_at, batch))
    try:
        is_in_order = times[0] > newest[0][0] and sorted(times) == times
    except TypeError:  # one has no time, or no time zone
        return None
    return ((times[-1], "", 0), "") if is_in_order else None


def _newest_rank_in_order(batch: Sequence[Event], newest: EventRank) -> EventRank:
    """The newest rank where each event is as new as those before it, by all that orders events."""
    for rank in map(event_rank, batch):
        if rank < newest:
            raise OutOfOrder
        newest = rank
    return newest


def event_order(event: Event) -> EventOrder:
    """What orders events in a telling: when, then where in which source, then which line, then where in the log."""
    return event_rank(event), event.position or ""


class _LateEvents:
    """Events put aside, to be had again in order; beyond some thousands they are kept in a temporary file."""

    def __init__(self) -> None:
        self.count = 0
        self._orders: set[str] = set()
        self._events: list[tuple[EventOrder, Event]] = []
        self._folder: TemporaryDirectory[str] | None = None
        self._file: apsw.Connection | None = None

    def __contains__(self, order: EventOrder) -> bool:
        if self._file is None:
            return order[1] in self._orders
        return bool(self._file.execute("SELECT 1 FROM late WHERE position = ?", (order[1],)).fetchall())

    def add(self, order: EventOrder, event: Event) -> None:
        self.count += 1
        self._orders.add(order[1])
        self._events.append((order, event))
        if len(self._events) >= MOST_IN_MEMORY:
            self._spill_to_file()

    def iterate_in_order(self) -> Iterator[tuple[EventOrder, Event]]:
        if self._file is None:
            return iter(sorted(self._events, key=lambda pair: pair[0]))
        self._spill_to_file()
        return self._read_spilled()

    def _read_spilled(self) -> Iterator[tuple[EventOrder, Event]]:
        assert self._file is not None
        for at, source, n, tie, position, raw in self._file.execute(
            "SELECT at, source, n, tie, position, raw FROM late ORDER BY at, source, n, tie, position"
        ):
            event = codec.decode_event(raw)
            yield (((datetime.fromisoformat(at), source, n), tie), position), _set_position(event, position)

    def _spill_to_file(self) -> None:
        if self._file is None:
            self._folder = TemporaryDirectory(prefix="fleetlore-")
            self._file = apsw.Connection(f"{self._folder.name}/late.db")
            self._file.execute("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF")
            self._file.execute(
                "CREATE TABLE late (at TEXT, source TEXT, n INTEGER, tie TEXT, position TEXT PRIMARY KEY, raw BLOB) WITHOUT ROWID"
            )
        rows = [
            (at.isoformat(timespec="microseconds"), source, n, tie, position, codec.encode_event(event))
            for (((at, source, n), tie), position), event in self._events
        ]
        with self._file:
            self._file.executemany("INSERT INTO late VALUES (?, ?, ?, ?, ?, ?)", rows)
        self._events = []
        self._orders.clear()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        if self._folder is not None:
            self._folder.cleanup()


def _set_position(event: Event, position: str) -> Event:
    force_setattr(event, "position", position)  # nobody else holds this event yet
    return event
