"""The responses of `/api/brief` and `/api/story`: the brief and the story of one period."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from datetime import UTC, date, datetime, tzinfo
from typing import Any

from msgspec.structs import replace

from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.log.base import TOWN, Position
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.chronology import event_order
from fleetlore.projections.outcomes import OutcomeQuery, select_scope
from fleetlore.projections.thread_events import Selection, read_selection, select
from fleetlore.server.queries import BriefQuery, PeriodQuery, StoryQuery, parse_time_zone
from fleetlore.server.types.common import Days, PeriodBrief, PeriodStory
from fleetlore.server.view_cache import ViewCache
from fleetlore.story import brief_formats, story_formats
from fleetlore.story.brief import bounds_of_day
from fleetlore.story.event_story import tell_events
from fleetlore.story.reading import EventSource, PeriodEvents, ReadPeriod, brief_of, find_newest_event, newest_time_of, read_book, story_of
from fleetlore.story.story import Story
from fleetlore.views.event_text import event_stamp

MOST_FULL_EVENTS = 2000
"""Events that `detail=full` describes: the last of the period."""
MEDIA_TYPES = {"markdown": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8"}
"""Of formats that are not `text/plain`."""


def make_brief(view_cache: ViewCache, query: BriefQuery, position: Position | None) -> PeriodBrief:
    """The brief, and the days before and after it."""
    wanted, zone = read_query(view_cache, query, position)
    brief = brief_of(view_cache.read_period(wanted, zone), zone)
    times = view_cache.list_active_times(wanted._replace(since=None, until=None))
    return PeriodBrief(**_read_head(view_cache, position), brief=brief, days=find_days(times, brief.since, brief.until, zone))


def make_story(view_cache: ViewCache, query: StoryQuery, position: Position | None) -> PeriodStory:
    """The story: sessions, tasks and what else happened. `full` describes the newest events."""
    wanted, zone = read_query(view_cache, query, position)
    scope = view_cache.resolve_scope(query.scope if query.agent is None else f"agent:{query.agent}")
    with view_cache.snapshot(position, ("calendar", "names", "threads")) as snapshot:
        head, naming, now = snapshot.head_fields(), snapshot.naming, snapshot.now
        selection, index = select(scope, snapshot.states["threads"]), copy.deepcopy(snapshot.states["calendar"])
    past = None if position is None else _PastEvents(view_cache.log, selection, position)
    newest = None
    if wanted.since is None and wanted.until is None:
        newest = find_newest_event(view_cache.log, index, selection, now) if past is None else past.find_newest(now)
    period = view_cache.read_period(wanted, zone, newest)
    events: EventSource = PeriodEvents(view_cache.log, index, selection, period.since, period.until)
    if past is not None:
        events = past.within(period)
    if query.detail == "full":
        found = sorted(deque(events.read(), MOST_FULL_EVENTS), key=event_order)
        paragraphs = list(tell_events(found, zone=zone, name_of=naming.agent))
        story = replace(story_of(period, zone), paragraphs=paragraphs)
    else:
        story = story_of(period, zone, book=read_book(events, period, index, zone), detail=query.detail, name_of=naming.agent)
    return PeriodStory(**head, story=_limit(story, query.limit))


def _limit(story: Story, most: int) -> Story:
    return replace(story, paragraphs=story.paragraphs[-most:])


class _PastEvents:
    """The events of a scope up to a position, read whole: questions about the past are rare."""

    def __init__(self, log: BlockingRecorder, scope: Selection, position: Position, period: ReadPeriod | None = None) -> None:
        self._log, self._scope, self._position, self._period = log, scope, position, period

    def within(self, period: ReadPeriod) -> _PastEvents:
        return _PastEvents(self._log, self._scope, self._position, period)

    def read(self) -> Iterator[Event]:
        for event in read_selection(self._log, self._scope):
            at = event_stamp(event)[0]
            since, until = (None, None) if self._period is None else (self._period.since, self._period.until)
            is_within = (since is None or at >= since) and (until is None or at < until)
            if is_within and (event.position or "") <= self._position:
                yield event

    def find_newest(self, now: datetime) -> datetime | None:
        return newest_time_of(self.read(), now)


def write_brief(answer: PeriodBrief, format: str) -> str:
    """The brief in another format than JSON."""
    return brief_formats.FORMATS[format](answer.brief)


def write_story(answer: PeriodStory, format: str) -> str:
    """The story in another format than JSON."""
    return story_formats.FORMATS[format](answer.story)


def read_query(view_cache: ViewCache, query: PeriodQuery, position: Position | None) -> tuple[OutcomeQuery, tzinfo]:
    """Which records are asked for, and in which time zone."""
    zone, since, until = parse_time_zone(query.tz), query.since, query.until
    if (query.day is not None and since is not None) or (until is not None and since is None):
        raise Invalid("say day, or since, or since and until")
    if query.agent is not None and query.scope != TOWN:
        raise Invalid("say agent or scope, not both")
    if query.day is not None:
        try:
            since, until = bounds_of_day(query.day, zone)
        except OverflowError as error:
            raise Invalid(f"day: out of reach of the calendar: {query.day}") from error
    for name, moment in (("since", since), ("until", until)):
        if moment is not None and not _is_in(moment, zone):
            raise Invalid(f"{name}: out of reach of the calendar: {moment.isoformat()}")
    scope = view_cache.resolve_scope(query.scope if query.agent is None else f"agent:{query.agent}")
    return select_scope(view_cache.log, scope, OutcomeQuery(since, until, upto=position)), zone


def find_days(times: list[datetime], since: datetime | None, until: datetime | None, zone: tzinfo) -> Days:
    """The days with sessions next to a period; the day itself if the period is one."""
    earlier = max((at for at in times if since is not None and at < since), default=None)
    later = min((at for at in times if until is not None and at >= until), default=None)
    return Days(shown=_find_day(since, until, zone), previous=_date_in(earlier, zone), next=_date_in(later, zone))


def _find_day(since: datetime | None, until: datetime | None, zone: tzinfo) -> date | None:
    day = _date_in(since, zone)
    if day is None or until is None:
        return None
    try:
        return day if bounds_of_day(day, zone) == (since, until) else None
    except OverflowError:
        return None


def _is_in(moment: datetime, zone: tzinfo) -> bool:
    """Whether the time zone has a date for a moment: at the ends of the calendar it may not."""
    try:
        moment.astimezone(UTC)
        moment.astimezone(zone)
    except OverflowError:
        return False
    return True


def _date_in(at: datetime | None, zone: tzinfo) -> date | None:
    try:
        return None if at is None else at.astimezone(zone).date()
    except OverflowError:  # at the ends of the calendar
        return at.date() if at is not None else None


def _read_head(view_cache: ViewCache, position: Position | None) -> dict[str, Any]:
    with view_cache.snapshot(position, ("calendar",)) as snapshot:
        return snapshot.head_fields()
