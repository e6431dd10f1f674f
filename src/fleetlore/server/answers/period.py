"""The responses of `/api/brief` and `/api/story`: the brief and the story of one period."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, tzinfo

from msgspec.structs import replace

from fleetlore.errors import Invalid
from fleetlore.log.base import TOWN, Position
from fleetlore.projections.chronology import event_order
from fleetlore.projections.outcomes import OutcomeQuery, select_scope
from fleetlore.projections.thread_events import select
from fleetlore.server.queries import BriefQuery, PeriodQuery, StoryQuery, parse_time_zone
from fleetlore.server.types.common import Days, PeriodBrief, PeriodStory
from fleetlore.server.view_cache import ViewCache
from fleetlore.story import brief_formats, story_formats
from fleetlore.story.brief import bounds_of_day
from fleetlore.story.event_story import tell_events
from fleetlore.story.reading import PeriodEvents, ReadPeriod, brief_of, find_newest_event, read_book, story_of
from fleetlore.story.threads import is_news

MOST_DAYS_BACK = 30
"""How many days with sessions or tasks are looked at for the newest one as of a position."""
MOST_FULL_EVENTS = 2000
"""Events that `detail=full` describes: the last of the period."""
MEDIA_TYPES = {"markdown": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8"}
"""Of formats that are not `text/plain`."""


def make_brief(view_cache: ViewCache, query: BriefQuery, position: Position | None) -> PeriodBrief:
    """The brief, and the days before and after it."""
    wanted, zone = read_query(view_cache, query, position)
    with view_cache.snapshot(position, ("calendar",)) as snapshot:
        head, at = snapshot.head_fields(), snapshot.now
    times = view_cache.list_active_times(wanted._replace(since=None, until=None, upto=None))
    if position is None:
        period = view_cache.read_period(wanted, zone)
    else:
        times = [time for time in times if time <= at]
        period = _read_past(view_cache, wanted, zone, at, times, lambda period: False)
    brief = brief_of(period, zone)
    return PeriodBrief(**head, brief=brief, days=find_days(times, brief.since, brief.until, zone))


def make_story(view_cache: ViewCache, query: StoryQuery, position: Position | None) -> PeriodStory:
    """The story: sessions, tasks and what else happened. `full` describes the newest events."""
    wanted, zone = read_query(view_cache, query, position)
    scope = view_cache.resolve_scope(query.scope if query.agent is None else f"agent:{query.agent}")
    with view_cache.snapshot(position, ("calendar", "names", "threads")) as snapshot:
        head, naming, now = snapshot.head_fields(), snapshot.naming, snapshot.now
        selection, index = select(scope, snapshot.states["threads"]), copy.deepcopy(snapshot.states["calendar"])

    def open_events(period: ReadPeriod) -> PeriodEvents:
        return PeriodEvents(view_cache.log, index, selection, period.since, period.until, upto=position)

    if position is None:
        is_open = wanted.since is None and wanted.until is None
        newest = find_newest_event(view_cache.log, index, selection, now) if is_open else None
        period = view_cache.read_period(wanted, zone, newest)
    else:
        times = [at for at in view_cache.list_active_times(wanted._replace(since=None, until=None, upto=None)) if at <= now]
        period = _read_past(view_cache, wanted, zone, now, times, lambda period: any(map(is_news, open_events(period).read())))
    if query.detail == "full":
        found = sorted(deque(open_events(period).read(), MOST_FULL_EVENTS), key=event_order)
        paragraphs = list(tell_events(found, zone=zone, name_of=naming.agent))
        story = replace(story_of(period, zone), paragraphs=paragraphs)
    else:
        book = read_book(open_events(period), period, index, zone)
        story = story_of(period, zone, book=book, detail=query.detail, name_of=naming.agent)
    return PeriodStory(**head, story=replace(story, paragraphs=story.paragraphs[-query.limit :]))


def _read_past(
    view_cache: ViewCache,
    wanted: OutcomeQuery,
    zone: tzinfo,
    at: datetime,
    times: Sequence[datetime],
    has_more: Callable[[ReadPeriod], bool],
) -> ReadPeriod:
    """The records as of a position. Without a period: of the newest day then, with a session, a task or something else (`has_more`).

    `at` is the time of the position, `times` are those of sessions and tasks up to then.
    """
    if wanted.since is not None or wanted.until is not None:
        return view_cache.read_period(wanted, zone)
    newest: datetime | None = at
    first: ReadPeriod | None = None
    for _ in range(MOST_DAYS_BACK):
        if newest is None:
            break
        try:
            since, until = bounds_of_day(newest.astimezone(zone).date(), zone)
        except OverflowError:  # stored with a time at the end of the calendar
            break
        period = view_cache.read_period(wanted._replace(since=since, until=until), zone)
        first = first or period
        if period.sessions or period.tasks or has_more(period):
            return period
        newest = max((time for time in times if time < since), default=None)
    return first or view_cache.read_period(wanted, zone)


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
