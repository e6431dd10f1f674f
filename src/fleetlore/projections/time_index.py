"""From moments to positions, and the events between two moments, without reading the rest of the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.log.base import Position
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.runner import LogView, ProgressCallback, Runner, view_of
from fleetlore.projections.store import ProjectionStore
from fleetlore.views import time_ranges
from fleetlore.views.event_text import event_stamp
from fleetlore.views.time_ranges import PositionRange, TimeIndex

TIME_INDEX_VIEW: LogView[TimeIndex] = view_of(time_ranges, "calendar")


def position_at(
    log: BlockingRecorder, moment: datetime, *, store: ProjectionStore | None = None, progress: ProgressCallback | None = None
) -> Position | None:
    """The last position at which nothing newer than a moment was known; `None` if the first event is newer already.

    A late event does not turn the clock back: what counts is the newest `at` up to each position.
    """
    if moment.tzinfo is None:
        raise Invalid("a moment needs a time zone, as datetime.now(UTC) has")
    known = Runner(log, TIME_INDEX_VIEW, store).catch_up(progress).state
    return position_at_from(log, time_ranges.segment_end_before(known, moment), moment)


def position_at_from(log: BlockingRecorder, position: Position | None, moment: datetime) -> Position | None:
    """The same, from a place on up to which nothing newer is known, as a calendar gives it."""
    for event in log.read(after=position):  # what was newest up to there is not after the moment, and cannot end this
        if event_stamp(event)[0] > moment:
            break
        position = event.position
    return position


def read_ranges(
    log: BlockingRecorder, spans: Iterable[PositionRange], since: datetime | None, until: datetime | None, *, upto: Position | None = None
) -> Iterator[Event]:
    """What happened from one moment on and before another, in the order of the log, from the parts of it that a calendar names.

    `upto`: as far as it is known at that position.
    """
    for span in spans:
        end = span.through if upto is None else min(upto, span.through or upto)
        for event in log.read(after=span.after):
            if end is not None and (event.position or "") > end:
                break
            at = event_stamp(event)[0]
            if (since is None or at >= since) and (until is None or at < until):
                yield event
