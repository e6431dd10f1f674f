"""Maps moments to log positions and reads the events between two moments without reading the whole log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.log.base import Position, position_after
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.runner import LogView, ProgressCallback, Runner, make_view
from fleetlore.projections.store import ProjectionStore
from fleetlore.views import time_ranges
from fleetlore.views.event_text import event_stamp
from fleetlore.views.time_ranges import PositionRange, TimeIndex

TIME_INDEX_VIEW: LogView[TimeIndex] = make_view(time_ranges, "calendar")


def position_at(
    log: BlockingRecorder, moment: datetime, *, store: ProjectionStore | None = None, progress: ProgressCallback | None = None
) -> Position | None:
    """The last position at which nothing newer than `moment` was stored; `None` if the first event is newer.

    What counts is the newest time up to each position, so late events do not move the clock back.
    """
    if moment.tzinfo is None:
        raise Invalid("a moment needs a time zone, as datetime.now(UTC) has")
    index = Runner(log, TIME_INDEX_VIEW, store).catch_up(progress).state
    return position_at_from(log, time_ranges.segment_end_before(index, moment), moment)


def position_at_from(log: BlockingRecorder, position: Position | None, moment: datetime) -> Position | None:
    """Like `position_at`, starting at a position up to which nothing newer is stored, from the time index."""
    for event in log.read(after=position):  # the newest event up to here is not after the moment
        if event_stamp(event)[0] > moment:
            break
        position = event.position
    return position


def read_ranges(
    log: BlockingRecorder, ranges: Iterable[PositionRange], since: datetime | None, until: datetime | None, *, upto: Position | None = None
) -> Iterator[Event]:
    """Yield events in the time range, in log order, from position ranges given by the time index.

    `upto`: only events up to that position.
    """
    for range_ in ranges:
        end = range_.through if upto is None else min(upto, range_.through or upto)
        if end == "":  # before the first event
            continue
        for event in log.read(after=range_.after, before=None if end is None else position_after(end)):
            at = event_stamp(event)[0]
            if (since is None or at >= since) and (until is None or at < until):
                yield event
