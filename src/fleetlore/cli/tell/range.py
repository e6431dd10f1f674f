"""Which events a telling tells, found in one reading of the log: a day, since when, the newest few, the newest day, or all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from fleetlore.chronicle.naming import Naming, naming_of
from fleetlore.chronicle.narrate import day_name, shown_time
from fleetlore.chronicle.overview import Overview
from fleetlore.chronicle.teller import Before
from fleetlore.chronicle.timeline import Timeline
from fleetlore.cli import fold, times
from fleetlore.errors import Invalid
from fleetlore.projections.chronology import EventOrder, event_order
from fleetlore.projections.newest_events import read_newest
from fleetlore.projections.thread_events import Selection
from fleetlore.views import names
from fleetlore.views.event_text import event_stamp
from fleetlore.views.time_ranges import TimeBlock

if TYPE_CHECKING:
    from argparse import Namespace

    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder

_DAYS = {"today": 0, "yesterday": 1}
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Span(NamedTuple):
    """What was asked for."""

    since: datetime | None = None
    until: datetime | None = None
    last: int | None = None
    is_newest_day: bool = False


def zone_of(name: str) -> tzinfo:
    """The time zone of that name."""
    try:
        return UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (KeyError, ValueError, OSError, RecursionError) as error:
        raise Invalid(f"--tz: no such time zone: {name!r}; say UTC, or a name such as Europe/Berlin") from error


def span_of(args: Namespace, zone: tzinfo, now: datetime, *, whole: bool = False) -> Span:
    """What the arguments ask for; without any, everything if `whole`, else the newest day."""
    if args.last is not None and args.last < 1:
        raise Invalid("--last: a number from 1 on is needed")
    if args.day is not None:
        return Span(*bounds(_day(args.day, zone, now), zone))
    if args.since is not None:
        return Span(since=times.parse_time(args.since, now=now))
    return Span(last=args.last, is_newest_day=args.last is None and not (args.all or whole))


def _day(text: str, zone: tzinfo, now: datetime) -> date:
    try:
        if text in _DAYS:
            return now.astimezone(zone).date() - timedelta(days=_DAYS[text])
        return date.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise Invalid(f"--day: not a day: {text!r}; say 2026-11-15, today or yesterday") from error


def bounds(day: date, zone: tzinfo) -> tuple[datetime, datetime]:
    """When a day begins, and when the next one does."""
    try:
        first, then = (datetime.combine(each, time(), zone).astimezone(UTC) for each in (day, day + timedelta(days=1)))
    except OverflowError as error:
        raise Invalid(f"--day: out of reach of the calendar: {day}; say a day such as 2026-11-15") from error
    return first, then


class Survey:
    """The first reading: the numbers of what is told, and of what lies before it."""

    def __init__(self, span: Span, zone: tzinfo, *, log: BlockingRecorder, scope: Selection, picture: bool) -> None:
        self._span, self._zone, self._picture = span, zone, picture
        self._start, self._end = span.since or _LONG_AGO, _LONG_AGO
        self._blocks = fold.newest_blocks(log) if span.last is not None else []
        self._after = _last_before(log, self._blocks, scope, span.last) if span.last is not None else None
        self._before, self._before_since = 0, datetime.max.replace(tzinfo=UTC)
        self.overview, self.timeline = Overview(), Timeline()
        self._names = names.initial()

    @property
    def naming(self) -> Naming:
        """What everybody is called, by all that was seen."""
        return naming_of(self._names)

    def see_all(self, events: Sequence[Event]) -> None:
        """Several more."""
        if self._picture or self._after or self._span.is_newest_day or self._start != _LONG_AGO:
            for event in events:
                self.see(event)
            return
        for event in events:
            self._names = names.apply(self._names, event)
        self.overview.see_all(events)

    def see(self, event: Event) -> None:
        """One more event."""
        self._names = names.apply(self._names, event)
        if self._span.is_newest_day:
            self._see_day(shown_time(event))
        if self.is_told(event):
            self.overview.see(event)
            if self._picture:
                self.timeline.see(event)
        else:
            self._before += 1
            self._before_since = min(self._before_since, event_stamp(event)[0])

    def is_told(self, event: Event) -> bool:
        """Whether an event belongs to what is told."""
        if self._after:
            order = event_order(event)
            return order > self._after if self._blocks else order[1] > self._after[1]
        return event_stamp(event)[0] >= self._start or self._start == _LONG_AGO

    def _see_day(self, at: datetime) -> None:
        """Where an event is of a newer day than all before it, the day begins anew."""
        if at < self._end:
            return
        if self.overview.first_at is not None:
            self._before += self.overview.events
            self._before_since = min(self._before_since, self.overview.first_at)
        self._start, self._end = bounds(at.astimezone(self._zone).date(), self._zone)
        self.overview, self.timeline = Overview(), Timeline()

    @property
    def where(self) -> Callable[[Event], bool] | None:
        """Which events are told; `None` for all."""
        return self.is_told if self._before else None

    def before(self) -> Before | None:
        """What lies before, once all is read; with a line that says so where nobody asked for a part."""
        if not self._before:
            return None
        events, since = self._before, self._before_since
        day = day_name(min(since, datetime(9999, 12, 29, tzinfo=UTC)).astimezone(self._zone).date()) if since.year > 1 else "the beginning"
        what = f"{events:,} {'event' if events == 1 else 'events'} since {day}"
        them = "it" if events == 1 else "them"
        return Before(events, since, f"Before this day: {what}; `lore tell --all` tells {them}." if self._span.is_newest_day else "")


def _last_before(log: BlockingRecorder, blocks: Sequence[TimeBlock], scope: Selection, last: int) -> EventOrder | None:
    """The place of the event in front of the newest few; nothing if there are no more than these."""
    count, order = 0, None
    for event in read_newest(log, blocks, scope, limit=last + 1):
        count, order = count + 1, event_order(event)
    return order if count > last else None
