"""The time index: for every segment of the log, the times between which its events happened.

Events are not always stored in order of time. With the index, the position of a moment and the events between two
moments are found without reading the whole log.
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
"""Increased with every change of the state or its rules; checkpoints of other versions are dropped."""
HEEDS_BEATS = False
SEGMENT_EVENTS = 1000
"""Events per segment."""
LATE_AFTER = timedelta(days=1)
"""An event older by more than this than an earlier stored one was imported later; less is normal for live events."""

_MIN_TIME = datetime.min.replace(tzinfo=UTC)
_MAX_TIME = datetime.max.replace(tzinfo=UTC)


class LogSegment(Struct, array_like=True, gc=False):
    """A number of consecutive events."""

    last: str
    """Position of its last event."""
    low: datetime
    high: datetime
    """The oldest and the newest time in it."""
    newest: datetime
    """The newest time from the beginning of the log to the end of the segment."""


class TimeIndex(Struct, kw_only=True):
    """All segments of a log; the last may still grow. Serialises to JSON."""

    version: int = VERSION
    events: int = 0
    first: datetime | None = None
    """The earliest time in the log, wherever it is stored."""
    newest: datetime | None = None
    late: int = 0
    """Events that were imported after much newer ones."""
    stretches: list[LogSegment] = field(default_factory=list)


class TimeBlock(NamedTuple):
    """A segment, for reading the newest events first."""

    low: datetime
    high: datetime
    after: str | None
    through: str | None
    """Its last position; `None`: up to the end of the log."""


class PositionRange(NamedTuple):
    """A part of the log: after one position, up to another; `None`: from the beginning, or to the end."""

    after: str | None
    through: str | None


def initial() -> TimeIndex:
    """The state before the first event."""
    return TimeIndex()


def apply(index: TimeIndex, event: Event) -> TimeIndex:
    """Return the index after one more event; modifies the given one. Never raises."""
    at, position = event_stamp(event)[0], event.position or ""
    if index.newest is not None and index.newest - at > LATE_AFTER:
        index.late += 1
    index.first = at if index.first is None else min(index.first, at)
    index.newest = newest = at if index.newest is None else max(index.newest, at)
    if index.events % SEGMENT_EVENTS == 0:
        index.stretches.append(LogSegment(position, at, at, newest))
    else:
        segment = index.stretches[-1]
        segment.last, segment.newest = position, newest
        segment.low, segment.high = min(segment.low, at), max(segment.high, at)
    index.events += 1
    return index


def segment_end_before(time_index: TimeIndex, moment: datetime) -> str | None:
    """The end of the last segment up to which nothing newer than a moment is stored."""
    index = bisect_right(time_index.stretches, moment, key=lambda segment: segment.newest)
    return time_index.stretches[index - 1].last if index else None


def newest_blocks(index: TimeIndex) -> list[TimeBlock]:
    """The segments of a log with late events, newest first; empty if there are none, since log order is right then.

    The last segment may have grown by events of any time, so it comes first.
    """
    if not index.late:
        return []
    ends = [None, *(segment.last for segment in index.stretches)]
    blocks = [TimeBlock(segment.low, segment.high, after, segment.last) for segment, after in zip(index.stretches, ends, strict=False)]
    *older, last = blocks
    return [TimeBlock(_MIN_TIME, _MAX_TIME, last.after, None), *sorted(older, key=lambda block: block.high, reverse=True)]


def find_ranges(index: TimeIndex, since: datetime | None, until: datetime | None) -> Iterator[PositionRange]:
    """The parts of the log with events in the time range; adjacent segments are merged."""
    since, until = since or _MIN_TIME, until or _MAX_TIME
    after, last = None, None
    is_open = False
    for segment in index.stretches:
        is_wanted = segment.high >= since and segment.low < until
        if is_open and not is_wanted:
            yield PositionRange(after, last)
        if is_wanted and not is_open:
            after = last
        is_open, last = is_wanted, segment.last
    if is_open:
        yield PositionRange(after, last)
