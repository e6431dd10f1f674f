"""Where in the log which time lies: for every stretch of it the times between which its events happened.

Events are not always stored in the order of their time. A moment's place, and the events between two moments, are found with this
without reading the rest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from msgspec import Struct, field

from fleetlore.events.envelope import Event
from fleetlore.views.event_text import event_stamp

VERSION = 2
"""Raised with every change of the state's shape or rules: a checkpoint of another version is thrown away."""
HEEDS_BEATS = False
STRIDE = 1000
"""Events of one stretch."""
LATE = timedelta(days=1)
"""An event that is older by more than this than one stored before it was imported later; less is the usual disorder of live events."""

_MIN_TIME = datetime.min.replace(tzinfo=UTC)
_MAX_TIME = datetime.max.replace(tzinfo=UTC)


class LogSegment(Struct, array_like=True, gc=False):
    """So many events in a row."""

    last: str
    """The position of its last event."""
    low: datetime
    high: datetime
    """Between these they happened."""
    newest: datetime
    """The newest time from the log's beginning up to its end."""


class TimeIndex(Struct, kw_only=True):
    """All stretches of a log, the last of which may still grow. Encodes to JSON and back."""

    version: int = VERSION
    events: int = 0
    first: datetime | None = None
    """When the earliest event happened, wherever it is stored."""
    newest: datetime | None = None
    late: int = 0
    """Events that were imported after much newer ones."""
    stretches: list[LogSegment] = field(default_factory=list)


class Block(NamedTuple):
    """A stretch, as those need it who read the newest events first."""

    low: datetime
    high: datetime
    after: str | None
    through: str | None
    """Its last position; `None`: it goes on to the log's end."""


class PositionRange(NamedTuple):
    """A part of the log: behind one position, and up to another; `None`: from its beginning, or to its end."""

    after: str | None
    through: str | None


def initial() -> TimeIndex:
    """No time yet."""
    return TimeIndex()


def apply(calendar: TimeIndex, event: Event) -> TimeIndex:
    """The calendar after one more event. Never raises. Consumes the calendar: go on with the one that is returned."""
    at, position = event_stamp(event)[0], event.position or ""
    if calendar.newest is not None and calendar.newest - at > LATE:
        calendar.late += 1
    calendar.first = at if calendar.first is None else min(calendar.first, at)
    calendar.newest = newest = at if calendar.newest is None else max(calendar.newest, at)
    if calendar.events % STRIDE == 0:
        calendar.stretches.append(LogSegment(position, at, at, newest))
    else:
        stretch = calendar.stretches[-1]
        stretch.last, stretch.newest = position, newest
        stretch.low, stretch.high = min(stretch.low, at), max(stretch.high, at)
    calendar.events += 1
    return calendar


def segment_end_before(calendar: TimeIndex, moment: datetime) -> str | None:
    """The end of the last stretch up to which nothing newer than a moment is known."""
    index = bisect_right(calendar.stretches, moment, key=lambda stretch: stretch.newest)
    return calendar.stretches[index - 1].last if index else None


def newest_blocks(calendar: TimeIndex) -> list[Block]:
    """The stretches of a log that holds late events, the newest first. None if it holds none: then the log's own order does.

    The last stretch may have grown meanwhile by events of any time, so it comes first.
    """
    if not calendar.late:
        return []
    ends = [None, *(stretch.last for stretch in calendar.stretches)]
    blocks = [Block(each.low, each.high, after, each.last) for each, after in zip(calendar.stretches, ends, strict=False)]
    *older, last = blocks
    return [Block(_MIN_TIME, _MAX_TIME, last.after, None), *sorted(older, key=lambda block: block.high, reverse=True)]


def find_ranges(calendar: TimeIndex, since: datetime | None, until: datetime | None) -> Iterator[PositionRange]:
    """The parts of the log in which something happened from one moment on, and before another; neighbours are one part."""
    since, until = since or _MIN_TIME, until or _MAX_TIME
    after, last = None, None
    is_open = False
    for stretch in calendar.stretches:
        is_wanted = stretch.high >= since and stretch.low < until
        if is_open and not is_wanted:
            yield PositionRange(after, last)
        if is_wanted and not is_open:
            after = last
        is_open, last = is_wanted, stretch.last
    if is_open:
        yield PositionRange(after, last)
