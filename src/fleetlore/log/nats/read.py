"""Reads a town's stream in pages: forwards page by page; backwards by finding a start from the counts of pending messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from fleetlore.log.base import LogQuery, Position, StoredRecord, matches_kind, to_position, to_sequence
from fleetlore.log.nats.marks import StreamMarks
from fleetlore.log.nats.stream import NatsMessage, NatsStream
from fleetlore.log.nats.subjects import events_subject, scope_filters, subject_kind

MAX_SERVER_FILTERS = 6
"""With more filters than this, kinds are filtered here instead of on the server."""
SCAN_BATCH = 1000
WIDEN_FACTOR = 8
MIN_BACKWARD_ROWS = 50
MAX_SEQUENCE = 1 << 62


class _EventTime(Struct, frozen=True, gc=False):
    at: datetime


_time_decoder = msgspec.json.Decoder(_EventTime)


class NatsReader:
    """Runs log queries against the stream. Its coroutines must run on the NATS client's event loop."""

    def __init__(self, stream: NatsStream, marks: StreamMarks) -> None:
        self._stream, self._marks = stream, marks
        self._events_subject = events_subject(stream.town)

    async def head(self, scope: str) -> Position | None:
        """Return the newest position in a scope."""
        await self._stream.check_if_due()
        newest = await self._find_newest(scope_filters(self._stream.town, scope))
        return to_position(newest) if newest > self._marks.horizon else None

    async def _find_newest(self, filters: Sequence[str]) -> int:
        rows = await asyncio.gather(*map(self._stream.read_last, filters))
        return max((row.seq for row in rows if row is not None), default=0)

    async def read(self, query: LogQuery) -> list[StoredRecord]:
        """Return the selected records."""
        await self._stream.check_if_due()
        low = max(0 if query.after is None else to_sequence(query.after), self._marks.horizon) + 1
        high = MAX_SEQUENCE if query.before is None else to_sequence(query.before) - 1
        if query.limit <= 0 or high < low:
            return []
        filters = scope_filters(self._stream.town, query.scope, query.kinds)
        kinds: Sequence[str] = ()
        if len(filters) > MAX_SERVER_FILTERS:
            filters, kinds = scope_filters(self._stream.town, query.scope), query.kinds
        if len(filters) > 1 or query.newest_first:
            # The filters are queried separately: an upper bound keeps events stored meanwhile out of all of them.
            newest = await self._find_newest(filters if len(filters) == 1 else [self._events_subject])
            high = min(high, newest)
        matches = _make_row_filter(kinds, query.since, self._marks.is_visible)
        is_filtered = bool(kinds) or query.since is not None
        read = self._read_backwards if query.newest_first else self._read_forwards
        rows = await read(filters, low, high, query.limit, SCAN_BATCH if is_filtered else min(query.limit, SCAN_BATCH), matches)
        return [StoredRecord(to_position(row.seq), row.raw) for row in rows]

    async def _read_forwards(
        self, filters: Sequence[str], low: int, high: int, limit: int, count: int, matches: Callable[[NatsMessage], bool]
    ) -> list[NatsMessage]:
        found: list[NatsMessage] = []
        while low <= high and len(found) < limit:
            rows, end = await self._read_merged(filters, low, count)
            found += [row for row in rows if row.seq <= high and matches(row)]
            low = end + 1
        return found[:limit]

    async def _read_merged(self, filters: Sequence[str], low: int, count: int) -> tuple[list[NatsMessage], int]:
        """Return messages from `low` on that match any filter, without duplicates, and the last sequence number covered."""
        pages = await asyncio.gather(*(self._stream.read_page(subject, low, count) for subject in filters))
        end = min((page.rows[-1].seq for page in pages if page.more), default=MAX_SEQUENCE)
        if len(pages) == 1:
            return pages[0].rows, end
        merged = {row.seq: row for page in pages for row in page.rows if row.seq <= end}
        return [merged[seq] for seq in sorted(merged)], end

    async def _read_backwards(
        self, filters: Sequence[str], low: int, high: int, limit: int, count: int, matches: Callable[[NatsMessage], bool]
    ) -> list[NatsMessage]:
        found: list[NatsMessage] = []
        while low <= high and len(found) < limit:
            parts = await asyncio.gather(*(self._read_newest(subject, low, high, count) for subject in filters))
            # Each filter was read down to its own start; the result is complete only above the highest start.
            start = max(part_start for _, part_start in parts)
            merged = {row.seq: row for rows, _ in parts for row in rows if row.seq >= start}
            found += [row for _, row in sorted(merged.items(), reverse=True) if matches(row)]
            high = start - 1
        return found[:limit]

    async def _read_newest(self, subject: str, low: int, high: int, need: int) -> tuple[list[NatsMessage], int]:
        """Return at least the newest `need` messages in the range (or all), and the sequence number from which they are complete."""
        start, count = await self._find_start(subject, low, high, need)
        rows: list[NatsMessage] = []
        at, more = start, True
        while more and at <= high:
            page, more = await self._stream.read_page(subject, at, max(1, min(SCAN_BATCH, count)))
            rows += [row for row in page if row.seq <= high]
            at = page[-1].seq + 1 if page else high + 1
        return rows, start

    async def _find_start(self, subject: str, low: int, high: int, need: int) -> tuple[int, int]:
        """Return a start from which there are about `need` messages up to `high`, and their count (an estimate if others write)."""
        above, total = await asyncio.gather(self._count_from(subject, high + 1), self._count_from(subject, low))
        acceptable = 2 * need + MIN_BACKWARD_ROWS
        if total - above <= acceptable:
            return low, total - above
        width, upper = need, high + 1
        while True:
            start = max(low, high - width + 1)
            count = await self._count_from(subject, start) - above
            if count >= need or start == low:
                break
            upper, width = start, width * WIDEN_FACTOR
        while count > acceptable and upper - start > 1:
            middle = (start + upper) // 2
            inside = await self._count_from(subject, middle) - above
            if inside >= need:
                start, count = middle, inside
            else:
                upper = middle
        return start, count

    async def _count_from(self, subject: str, start: int) -> int:
        """Return how many messages match from a sequence number on."""
        rows, _ = await self._stream.read_page(subject, start, 1)
        return 1 + rows[0].pending if rows else 0

    async def count_events(self) -> tuple[int, int | None]:
        """Return the number of events in the town and the first sequence number."""
        rows, _ = await self._stream.read_page(self._events_subject, self._marks.horizon + 1, 1)
        return (1 + rows[0].pending, rows[0].seq) if rows else (0, None)


def _make_row_filter(
    kinds: Sequence[str], since: datetime | None, is_visible: Callable[[NatsMessage], bool]
) -> Callable[[NatsMessage], bool]:
    def matches(row: NatsMessage) -> bool:
        if kinds and not matches_kind(subject_kind(row.subject), kinds):
            return False
        return (since is None or _happened_since(row.raw, since)) and is_visible(row)

    return matches


def _happened_since(raw: bytes, since: datetime) -> bool:
    try:
        return _time_decoder.decode(raw).at >= since
    except (msgspec.DecodeError, TypeError, RecursionError):
        return True  # unreadable: passed on, so that the reader sees a log.rejected event
