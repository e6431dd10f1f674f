"""Reads a log in the order of time, although imports may have stored events later than newer ones.

Most events are stored in the order of their time. The others, for example an import of last week's files, are set aside by a first pass
and merged in by the second. Memory is bounded however many there are.
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
"""Events decoded per batch; batches are faster than single events."""
EventOrder = tuple[EventRank, str]
_get_at, _get_origin = attrgetter("at"), attrgetter("origin")
_OLDEST_RANK: EventRank = ((datetime.min.replace(tzinfo=UTC), "", 0), "")


class OutOfOrder(Exception):
    """An event is older than one stored before it, so that two passes are needed."""


class Chronology(AbstractContextManager["Chronology"]):
    """The events of a scope or of a task's thread between two times: `scan_events` is the first pass, `iterate_in_order` the second.

    Without a need for the first pass, `read_in_order_once` reads a log that is in order in one pass.
    """

    def __init__(self, log: BlockingRecorder, scope: Selection, *, since: datetime | None = None, until: datetime | None = None) -> None:
        self._log, self._scope, self._since, self._until = log, scope, since, until
        self._late = _LateEvents()
        self._end: str | None = None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._late.close()

    def scan_events(self, on_event: Callable[[Event], None]) -> Self:
        """The first pass: call `on_event` with every event in the order of the log, and set late ones aside."""

        def call_with_each(batch: Sequence[Event]) -> None:
            for event in batch:
                on_event(event)

        return self.scan_batches(call_with_each)

    def scan_batches(self, on_batch: Callable[[Sequence[Event]], None]) -> Self:
        """Like `scan_events`, with a batch of events per call."""
        newest = _OLDEST_RANK
        for rows, batch in self._read_batches(decode_all_stored):
            on_batch(batch)
            newest = _newest_rank_by_time(batch, newest) or self._collect_late_events(rows, batch, newest)
            self._end = rows[-1].position
        return self

    def read_in_order_once(self) -> Iterator[Sequence[Event]]:
        """Read in one pass, in batches; raises `OutOfOrder` in place of a batch with a late event.

        The events may lack their positions.
        """
        newest = _OLDEST_RANK
        for _, batch in self._read_batches(decode_without_positions):
            newest = _newest_rank_by_time(batch, newest) or _newest_rank_in_order(batch, newest)
            yield batch

    def _collect_late_events(self, rows: Sequence[StoredRecord], batch: Sequence[Event], newest: EventRank) -> EventRank:
        """Set aside events that are older than one before them; returns the newest rank."""
        for row, event in zip(rows, batch, strict=True):
            rank = event_rank(event)
            if rank < newest:  # at the same time, the order of the log counts
                self._late.add((rank, row.position), decode_stored(row))
            else:
                newest = rank
        return newest

    def iterate_in_order(self) -> Iterator[Event]:
        """The second pass: every event of the first pass, by time."""
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
        for rows, batch in self._select_batches(read):
            if until is not None:
                is_wanted = [event.at is None or event.at < until for event in batch]
                rows, batch = list(compress(rows, is_wanted)), list(compress(batch, is_wanted))
            if rows:
                yield rows, batch

    def _select_batches(self, read: Callable[[list[StoredRecord]], list[Event]]) -> Iterator[tuple[list[StoredRecord], list[Event]]]:
        if not isinstance(self._scope, str):
            yield from self._scope.read_pages(self._log, since=self._since)
            return
        for page in self._log.read_pages(self._scope, since=self._since):
            for start in range(0, len(page), BATCH_EVENTS):
                rows = page[start : start + BATCH_EVENTS]
                yield rows, read(rows)


def _newest_rank_by_time(batch: Sequence[Event], newest: EventRank) -> EventRank | None:
    """The newest rank if the times alone show that the events are in order; `None` if that needs the full ranks."""
    if any(map(_get_origin, batch)):
        return None
    times = list(map(_get_at, batch))
    try:
        is_in_order = times[0] > newest[0][0] and sorted(times) == times
    except TypeError:  # one has no time, or no time zone
        return None
    return ((times[-1], "", 0), "") if is_in_order else None


def _newest_rank_in_order(batch: Sequence[Event], newest: EventRank) -> EventRank:
    """The newest rank if the events are in order by their full ranks."""
    for rank in map(event_rank, batch):
        if rank < newest:
            raise OutOfOrder
        newest = rank
    return newest


def event_order(event: Event) -> EventOrder:
    """The order of events: by time, source, line in the source, then position in the log."""
    return event_rank(event), event.position or ""


class _LateEvents:
    """Events that were set aside, sorted; beyond a few thousand they are kept in a temporary file."""

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
    force_setattr(event, "position", position)  # safe: there is no other reference to this event yet
    return event
