"""Read what a period needs from a log, for the brief and the story. Everything else in this package is pure.

Records come from the keyed projection, events by the time index: the time to read depends on the period, not in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta, tzinfo
from itertools import chain, islice, takewhile
from typing import NamedTuple

from fleetlore.events.envelope import Event
from fleetlore.log.base import TOWN, Position
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.chronology import Chronology, EventOrder, event_order
from fleetlore.projections.newest_events import read_newest
from fleetlore.projections.outcomes import ALL, OutcomeQuery, find_newest_time, read_period
from fleetlore.projections.runner import ProgressCallback
from fleetlore.projections.store import ProjectionStore
from fleetlore.projections.thread_events import Selection, read_selection
from fleetlore.projections.time_index import read_ranges
from fleetlore.story.brief import Brief, bounds_of_day, make_brief
from fleetlore.story.event_story import write_events
from fleetlore.story.paragraphs import Detail, StreamedStory
from fleetlore.story.phrases import count_things
from fleetlore.story.story import Story, make_story
from fleetlore.story.threads import ThreadBook, is_news
from fleetlore.story.voices import Voice
from fleetlore.views.event_text import event_stamp
from fleetlore.views.outcomes.record import Outcome
from fleetlore.views.outcomes.rules import OutcomeRules
from fleetlore.views.task_outcomes import TaskOutcome
from fleetlore.views.time_ranges import PositionRange, TimeIndex, find_ranges, newest_blocks

MOST_IN_MEMORY = 5000
"""A period with more events is read twice, in order to sort it with little memory."""
NEWEST_SEEN = 300
"""Newest events among which the newest day is looked for."""


class ReadPeriod(NamedTuple):
    """Records of a period."""

    sessions: list[Outcome]
    tasks: list[TaskOutcome]
    since: datetime | None
    until: datetime | None


def read_records(
    log: BlockingRecorder,
    *,
    now: datetime,
    zone: tzinfo,
    rules: OutcomeRules,
    wanted: OutcomeQuery = ALL,
    store: ProjectionStore | None = None,
    newest_day: bool = False,
    newest_event: datetime | None = None,
    progress: ProgressCallback | None = None,
) -> ReadPeriod:
    """The records of `wanted.since` until `wanted.until`, or of the newest day with a session or a task.

    `newest_event` is the time of another event that makes a day worth reading.
    """
    if newest_day:
        newest = find_newest_time(log, now=now, rules=rules, wanted=wanted, store=store, progress=progress)
        newest = max((at for at in (newest, newest_event) if at is not None), default=now)
        try:
            since, until = bounds_of_day(newest.astimezone(zone).date(), zone)
        except OverflowError:  # stored with a time at the end of the calendar
            since, until = bounds_of_day(now.astimezone(zone).date(), zone)
        wanted = wanted._replace(since=since, until=until)
    found = read_period(log, now=now, rules=rules, wanted=wanted, store=store, progress=progress)
    return ReadPeriod(found.sessions, found.tasks, wanted.since, wanted.until)


def make_period_brief(found: ReadPeriod, zone: tzinfo) -> Brief:
    """The brief of a period."""
    return make_brief(found.sessions, found.tasks, since=found.since, until=found.until, zone=zone)


def make_period_story(
    found: ReadPeriod,
    zone: tzinfo,
    *,
    book: ThreadBook | None = None,
    detail: Detail = "story",
    voice: Voice | None = None,
    name_of: Callable[[str], str] = str,
) -> Story:
    """The story of a period, with what happened outside of sessions if `book` has it."""
    return make_story(
        found.sessions,
        found.tasks,
        since=found.since,
        until=found.until,
        zone=zone,
        book=book,
        detail=detail,
        voice=voice,
        name_of=name_of,
    )


# --- events


class PeriodEvents:
    """The events of a scope in a period, read when they are needed. `index` is the log's time index."""

    def __init__(
        self,
        log: BlockingRecorder,
        index: TimeIndex,
        scope: Selection = TOWN,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        first: EventOrder | None = None,
        upto: Position | None = None,
    ) -> None:
        """`first`: without events before this one, in the order of time. `upto`: only what was stored up to this position."""
        self._log, self._index, self._scope, self._since, self._until, self._first = log, index, scope, since, until, first
        self._upto = upto

    def read(self) -> Iterator[Event]:
        """The events in the order of the log."""
        ranges = find_ranges(self._index, self._since, self._until)
        if self._scope == TOWN:
            found: Iterable[Event] = read_ranges(self._log, ranges, self._since, self._until)
        else:
            found = chain.from_iterable(map(self._read_range, ranges))
        return (event for event in found if self._holds(event))

    def _read_range(self, part: PositionRange) -> Iterator[Event]:
        """The events of the scope in a part of the log."""
        events = read_selection(self._log, self._scope, after=part.after, since=self._since)
        return takewhile(lambda event: part.through is None or (event.position or "") <= part.through, events)

    def _holds(self, event: Event) -> bool:
        at = event_stamp(event)[0]
        is_known = self._upto is None or (event.position or "") <= self._upto
        return is_known and (self._until is None or at < self._until) and (self._first is None or event_order(event) >= self._first)

    def read_in_order(self) -> Iterator[Event]:
        """The events in the order of time, whatever the order in which they were stored."""
        events = self.read()
        some = list(islice(events, MOST_IN_MEMORY + 1))
        if len(some) <= MOST_IN_MEMORY:
            yield from sorted(some, key=event_order)
            return
        del some, events
        with Chronology(self._log, self._scope, since=self._since, until=self._until) as chronology:
            chronology.scan_events(lambda event: None)
            yield from (event for event in chronology.iterate_in_order() if self._holds(event))


def find_first_of_newest(log: BlockingRecorder, index: TimeIndex, scope: Selection, count: int) -> EventOrder | None:
    """The place in time of the first of the newest `count` events; `None` if there are none."""
    found = read_newest(log, newest_blocks(index), scope, limit=count)
    return min(map(event_order, found), default=None)


def find_newest_event(log: BlockingRecorder, index: TimeIndex, scope: Selection, now: datetime) -> datetime | None:
    """The time of the newest event outside of sessions that is more than a sign of life; one in the future does not count."""
    found = read_newest(log, newest_blocks(index), scope, limit=NEWEST_SEEN)
    times = (event_stamp(event)[0] for event in found if is_news(event))
    return max((at for at in times if at <= now + timedelta(days=1)), default=None)


def read_book(events: PeriodEvents, found: ReadPeriod, index: TimeIndex, zone: tzinfo) -> ThreadBook:
    """What happened outside of the sessions of a period, by thread."""
    since, until = found.since or index.first, found.until or index.newest
    book = ThreadBook((one.session for one in found.sessions), zone, since, until)
    for event in events.read():
        book.add(event)
    return book


def write_full_story(
    events: PeriodEvents, title: str, found: ReadPeriod, zone: tzinfo, *, voice: Voice | None = None, name_of: Callable[[str], str] = str
) -> StreamedStory:
    """The story in full detail: every event of the period exactly once."""
    paragraphs = write_events(events.read_in_order(), zone=zone, voice=voice, name_of=name_of)
    first = next(paragraphs, None)
    sessions = count_things(len(found.sessions), "session")
    bill = make_period_brief(found, zone).bill.text if sessions or found.tasks else "" if first is not None else "No events in this period."
    return StreamedStory(title, found.since, found.until, chain(() if first is None else (first,), paragraphs), bill)
