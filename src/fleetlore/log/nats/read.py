"""Reading a town's stream by pages: forwards with one request a page, backwards by counting what lies ahead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from fleetlore.log.base import Position, Query, Stored, matches_kind
from fleetlore.log.nats.marks import Marks
from fleetlore.log.nats.stream import NatsStream, Row
from fleetlore.log.nats.subjects import events_of, filters_of, kind_of
from fleetlore.log.sequence import to_position, to_sequence

MOST_FILTERS = 6
"""With more than these, kinds are chosen here, not on the server."""
SCAN = 1000
STEP = 8
LITTLE = 50
END = 1 << 62


class _At(Struct, frozen=True, gc=False):
    at: datetime


_times = msgspec.json.Decoder(_At)


class Reader:
    """Answers queries. Its methods are coroutines for the client's loop."""

    def __init__(self, stream: NatsStream, marks: Marks) -> None:
        self._stream, self._marks = stream, marks
        self._town = events_of(stream.town)

    async def head(self, scope: str) -> Position | None:
        """The newest position in a scope."""
        newest = await self._newest_of(filters_of(self._stream.town, scope))
        return to_position(newest) if newest > self._marks.horizon else None

    async def _newest_of(self, filters: Sequence[str]) -> int:
        rows = await asyncio.gather(*map(self._stream.last, filters))
        return max((row.seq for row in rows if row is not None), default=0)

    async def read(self, query: Query) -> list[Stored]:
        """The records asked for."""
        low = max(0 if query.after is None else to_sequence(query.after), self._marks.horizon) + 1
        high = END if query.before is None else to_sequence(query.before) - 1
        if query.limit <= 0 or high < low:
            return []
        filters = filters_of(self._stream.town, query.scope, query.kinds)
        kinds: Sequence[str] = ()
        if len(filters) > MOST_FILTERS:
            filters, kinds = filters_of(self._stream.town, query.scope), query.kinds
        if len(filters) > 1 or query.newest_first:
            # What is stored while the filters are asked one by one must not be seen by some of them only.
            newest = await self._newest_of(filters if len(filters) == 1 else [self._town])
            high = min(high, newest)
        wanted = _wanted(kinds, query.since, self._marks.shows)
        scans = bool(kinds) or query.since is not None
        read = self._backwards if query.newest_first else self._forwards
        rows = await read(filters, low, high, query.limit, SCAN if scans else min(query.limit, SCAN), wanted)
        return [Stored(to_position(row.seq), row.raw) for row in rows]

    async def _forwards(
        self, filters: Sequence[str], low: int, high: int, limit: int, count: int, wanted: Callable[[Row], bool]
    ) -> list[Row]:
        found: list[Row] = []
        while low <= high and len(found) < limit:
            rows, end = await self._span(filters, low, count)
            found += [row for row in rows if row.seq <= high and wanted(row)]
            low = end + 1
        return found[:limit]

    async def _span(self, filters: Sequence[str], low: int, count: int) -> tuple[list[Row], int]:
        """What fits any filter, without doubles, from `low` up to a sequence number to which all filters were read."""
        pages = await asyncio.gather(*(self._stream.rows(subject, low, count) for subject in filters))
        end = min((page.rows[-1].seq for page in pages if page.more), default=END)
        if len(pages) == 1:
            return pages[0].rows, end
        merged = {row.seq: row for page in pages for row in page.rows if row.seq <= end}
        return [merged[seq] for seq in sorted(merged)], end

    async def _backwards(
        self, filters: Sequence[str], low: int, high: int, limit: int, count: int, wanted: Callable[[Row], bool]
    ) -> list[Row]:
        found: list[Row] = []
        while low <= high and len(found) < limit:
            parts = await asyncio.gather(*(self._newest(subject, low, high, count) for subject in filters))
            # Each filter was read down to its own start; only what lies above all of them is complete.
            start = max(part_start for _, part_start in parts)
            merged = {row.seq: row for rows, _ in parts for row in rows if row.seq >= start}
            found += [row for _, row in sorted(merged.items(), reverse=True) if wanted(row)]
            high = start - 1
        return found[:limit]

    async def _newest(self, subject: str, low: int, high: int, need: int) -> tuple[list[Row], int]:
        """At least the newest `need` that fit within bounds, or all, and the sequence number from which on they are complete."""
        start, count = await self._start_of(subject, low, high, need)
        rows: list[Row] = []
        at, more = start, True
        while more and at <= high:
            page, more = await self._stream.rows(subject, at, max(1, min(SCAN, count)))
            rows += [row for row in page if row.seq <= high]
            at = page[-1].seq + 1 if page else high + 1
        return rows, start

    async def _start_of(self, subject: str, low: int, high: int, need: int) -> tuple[int, int]:
        """From where on `need` messages or some more lie up to `high`, and how many. A guess while others write: the caller looks."""
        above, total = await asyncio.gather(self._count(subject, high + 1), self._count(subject, low))
        enough = 2 * need + LITTLE
        if total - above <= enough:
            return low, total - above
        width, upper = need, high + 1
        while True:
            start = max(low, high - width + 1)
            count = await self._count(subject, start) - above
            if count >= need or start == low:
                break
            upper, width = start, width * STEP
        while count > enough and upper - start > 1:
            middle = (start + upper) // 2
            inside = await self._count(subject, middle) - above
            if inside >= need:
                start, count = middle, inside
            else:
                upper = middle
        return start, count

    async def _count(self, subject: str, start: int) -> int:
        """How many messages fit from a sequence number on."""
        rows, _ = await self._stream.rows(subject, start, 1)
        return 1 + rows[0].pending if rows else 0

    async def count(self) -> tuple[int, int | None]:
        """How many events the town has, and the first one's sequence number."""
        rows, _ = await self._stream.rows(self._town, self._marks.horizon + 1, 1)
        return (1 + rows[0].pending, rows[0].seq) if rows else (0, None)


def _wanted(kinds: Sequence[str], since: datetime | None, shows: Callable[[Row], bool]) -> Callable[[Row], bool]:
    def wanted(row: Row) -> bool:
        if kinds and not matches_kind(kind_of(row.subject), kinds):
            return False
        return (since is None or _happened_since(row.raw, since)) and shows(row)

    return wanted


def _happened_since(raw: bytes, since: datetime) -> bool:
    try:
        return _times.decode(raw).at >= since
    except (msgspec.DecodeError, TypeError, RecursionError):
        return True  # it cannot be read; whoever reads it is told so
