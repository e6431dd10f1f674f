"""What happened in a period: the brief and the story, at the head of the log or as of a position."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, tzinfo
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from fleetlore.errors import Invalid
from fleetlore.operations.context import OperationContext
from fleetlore.operations.reading import AsOfRequest, Head, Scope, Text, Time, choose_scope, parse_time_zone
from fleetlore.operations.sources import ViewSnapshot
from fleetlore.projections.chronology import event_order
from fleetlore.projections.outcomes import OutcomeQuery, select_scope
from fleetlore.projections.thread_events import Selection, select_thread
from fleetlore.story.brief import Brief, BriefLine, bounds_of_day, name_period
from fleetlore.story.event_story import write_events
from fleetlore.story.paragraphs import StreamedStory
from fleetlore.story.phrases import fill_phrase, load_phrases
from fleetlore.story.reading import (
    PeriodEvents,
    ReadPeriod,
    find_first_of_newest,
    find_newest_event,
    make_period_brief,
    make_period_story,
    read_book,
    write_full_story,
)
from fleetlore.story.story import Story
from fleetlore.story.threads import is_news
from fleetlore.story.titles import shorten_text
from fleetlore.story.voices import Voice
from fleetlore.views.fleet import FleetState, describe_activity, sort_by_standing, view_session
from fleetlore.views.names import all_short_names, is_generated_name
from fleetlore.views.outcomes.facts import Source
from fleetlore.views.time_ranges import TimeIndex

MOST_DAYS_BACK = 30
"""How many days with sessions or tasks are looked at for the newest one as of a position."""
MOST_ASKED = 150
"""Characters of what an agent waits for."""
MOST_FULL_EVENTS = 2000
"""Events that `detail=full` describes: the last of the period."""


class PeriodRequest(AsOfRequest, kw_only=True):
    """A period; without one, the newest day with sessions."""

    scope: Scope = "town"
    agent: Annotated[str, Meta(max_length=500, description="The same as scope=agent:X; not together with scope.")] | None = None
    day: Annotated[date, Meta(description="One day of the time zone, such as 2026-11-15.")] | None = None
    since: Annotated[Time, Meta(description="From then on; not together with day.")] | None = None
    until: Annotated[Time, Meta(description="Before then; only together with since.")] | None = None
    all: Annotated[bool, Meta(description="Everything; not together with day or since.")] = False
    tz: Text = "UTC"


class Days(Struct, kw_only=True):
    """Where to go from a period."""

    shown: date | None
    """The day that is shown; `null` for a longer or shorter period."""
    previous: date | None
    """The newest day before the period with sessions."""
    next: date | None
    """The first day after the period with sessions."""


# --- the brief


class ReadBrief(PeriodRequest, kw_only=True):
    """The brief of a period."""

    format: Annotated[Literal["json", "text", "markdown", "html", "chat"], Meta(description="JSON, or the same as text.")] = "json"


class PeriodBrief(Head, kw_only=True):
    """The brief of a period: every line with its sessions, tasks and source events."""

    brief: Brief
    days: Days


def read_brief(context: OperationContext, request: ReadBrief) -> PeriodBrief:
    """The brief, and the days before and after it."""
    position = context.source.resolve_position(request.as_of)
    wanted, zone = _read_request(context, request)
    with context.source.snapshot(position, ("calendar", "fleet", "names")) as snapshot:
        head, at, waiting = snapshot.head_fields(), snapshot.now, _list_waiting(snapshot, wanted)
    times = context.source.list_active_times(wanted._replace(since=None, until=None, upto=None))
    if position is None:
        period = context.source.read_period(wanted, zone, whole=request.all)
    else:
        times = [time for time in times if time <= at]
        period = _read_past(context, wanted, zone, at, times, lambda period: False, whole=request.all)
    brief = _add_waiting(make_period_brief(period, zone), waiting, at)
    return PeriodBrief(**head, brief=brief, days=_find_days(times, brief.since, brief.until, zone))


def make_brief(context: OperationContext, request: ReadBrief) -> Brief:
    """The brief alone, without the days around it, which take longer to find."""
    if request.as_of is not None:
        return read_brief(context, request).brief
    wanted, zone = _read_request(context, request)
    brief = make_period_brief(context.source.read_period(wanted, zone, whole=request.all), zone)
    if not _includes(brief, context.now()):
        return brief
    with context.source.snapshot(None, ("fleet", "names")) as snapshot:
        return _add_waiting(brief, _list_waiting(snapshot, wanted), snapshot.now)


def _list_waiting(snapshot: ViewSnapshot, wanted: OutcomeQuery) -> list[BriefLine]:
    """A line for each agent and mission that waits for a person; none if the brief is about chosen sessions."""
    if wanted.runs is not None:
        return []
    fleet: FleetState = snapshot.states["fleet"]
    phrases, name_of = load_phrases("brief")["needs_you"], snapshot.naming.agent
    lines: list[BriefLine] = []
    for standing, agent in sort_by_standing(fleet, now=snapshot.now):
        if standing == "needs you":
            doing = shorten_text(describe_activity(agent, view_session(fleet, agent, snapshot.now)), MOST_ASKED)
            text = fill_phrase(phrases["agent"], {"name": name_of(agent.name), "doing": doing})
            evidence = [Source(event=agent.last_id, source="")] if agent.last_id else []
            lines.append(BriefLine(text=text, sessions=[agent.session] if agent.session else [], evidence=evidence))
    for mission, ask in sorted(fleet.asking.items()):
        lines.append(BriefLine(text=fill_phrase(phrases["mission"], {"mission": mission, "asked": shorten_text(ask.text, MOST_ASKED)})))
    return lines


def _add_waiting(brief: Brief, waiting: Sequence[BriefLine], now: datetime) -> Brief:
    """The brief with what else waits now, such as a goal or an agent of a town; a brief of earlier days stays as it is."""
    if not _includes(brief, now):
        return brief
    listed = {session for line in brief.needs_you for session in line.sessions}
    return replace(brief, needs_you=[*brief.needs_you, *(line for line in waiting if listed.isdisjoint(line.sessions))])


def _includes(brief: Brief, now: datetime) -> bool:
    return (brief.since is None or brief.since <= now) and (brief.until is None or now < brief.until)


# --- the story


class ReadStory(PeriodRequest, kw_only=True):
    """The story of a period."""

    detail: Annotated[
        Literal["headline", "story", "full"], Meta(description="headline: only what came of each session. full: every event.")
    ] = "story"
    limit: Annotated[int, Meta(ge=1, le=5000, description="At most so many paragraphs, the newest.")] = 1500
    format: Annotated[Literal["json", "text", "markdown", "html"], Meta(description="JSON, or the same as text.")] = "json"


class PeriodStory(Head, kw_only=True):
    """The story of a period: a paragraph per session, every sentence with its source events."""

    story: Story


def read_story(context: OperationContext, request: ReadStory) -> PeriodStory:
    """The story: sessions, tasks and what else happened. `full` describes the newest events."""
    position = context.source.resolve_position(request.as_of)
    wanted, zone = _read_request(context, request)
    scope = choose_scope(context, request.scope, request.agent)
    with context.source.snapshot(position, ("calendar", "names", "threads")) as snapshot:
        head, now = snapshot.head_fields(), snapshot.now
        naming = snapshot.naming
        selection, index = select_thread(scope, snapshot.states["threads"]), copy.deepcopy(snapshot.states["calendar"])

    def open_events(period: ReadPeriod) -> PeriodEvents:
        return PeriodEvents(context.log, index, selection, period.since, period.until, upto=position)

    if position is None:
        is_open = wanted.since is None and wanted.until is None and not request.all
        newest = find_newest_event(context.log, index, selection, now) if is_open else None
        period = context.source.read_period(wanted, zone, newest, whole=request.all)
    else:
        times = [at for at in context.source.list_active_times(wanted._replace(since=None, until=None, upto=None)) if at <= now]
        period = _read_past(
            context, wanted, zone, now, times, lambda period: any(map(is_news, open_events(period).read())), whole=request.all
        )
    if request.detail == "full":
        found = sorted(deque(open_events(period).read(), MOST_FULL_EVENTS), key=event_order)
        paragraphs = list(write_events(found, zone=zone, name_of=naming.agent))
        story = replace(make_period_story(period, zone), paragraphs=paragraphs)
    else:
        book = read_book(open_events(period), period, index, zone)
        story = make_period_story(period, zone, book=book, detail=request.detail, name_of=naming.agent)
    return PeriodStory(**head, story=replace(story, paragraphs=story.paragraphs[-request.limit :]))


def select_story(
    context: OperationContext, request: ReadStory, *, last: int | None = None, voice: Voice | None = None
) -> Story | StreamedStory:
    """The same at the head of the log, for programs that print it: in full detail every event, as a stream.

    `last`: the period of the newest so many events. Views are read only as far as they are needed.
    """
    wanted, zone = _read_request(context, request)
    scope = choose_scope(context, request.scope, request.agent)
    index, selection = read_time_index(context), select_events(context, scope)
    first = None if last is None else find_first_of_newest(context.log, index, selection, last)
    if first is not None:
        wanted = wanted._replace(since=first[0][0][0])
    is_open = wanted.since is None and wanted.until is None and not request.all and last is None
    newest = find_newest_event(context.log, index, selection, context.now()) if is_open else None
    period = context.source.read_period(wanted, zone, newest, whole=not is_open)
    events = PeriodEvents(context.log, index, selection, period.since, period.until, first=first)
    name_of = AgentNamer(context)
    if request.detail == "full":
        title = name_period(period.since, period.until, zone, whole="Everything")
        return write_full_story(events, title, period, zone, voice=voice, name_of=name_of)
    book = read_book(events, period, index, zone)
    return make_period_story(period, zone, book=book, detail=request.detail, voice=voice, name_of=name_of)


def read_time_index(context: OperationContext) -> TimeIndex:
    """The time index of the log."""
    with context.source.open_view("calendar") as (calendar, _):
        index: TimeIndex = copy.deepcopy(calendar)
        return index


def select_events(context: OperationContext, scope: str, *, live: bool = False) -> Selection:
    """The events of a scope: for a task its whole thread, as on the Threads page. A live thread goes on."""
    if not scope.startswith("task:"):
        return scope
    with context.source.open_view("threads") as (threads, _):
        return select_thread(scope, threads, live=live)


class AgentNamer:
    """Gives the short name of an agent. Names are read from the log only when an agent has a generated name."""

    def __init__(self, context: OperationContext) -> None:
        self._context = context
        self._names: dict[str, str] | None = None

    def __call__(self, agent: str) -> str:
        """The name to show."""
        if self._names is None:
            if not is_generated_name(agent):
                return agent
            with self._context.source.open_view("names") as (names, _):
                self._names = all_short_names(names)
        return self._names.get(agent, agent)


# --- periods


def _read_past(
    context: OperationContext,
    wanted: OutcomeQuery,
    zone: tzinfo,
    at: datetime,
    times: Sequence[datetime],
    has_more: Callable[[ReadPeriod], bool],
    *,
    whole: bool,
) -> ReadPeriod:
    """The records as of a position. Without a period: of the newest day then, with a session, a task or something else (`has_more`).

    `at` is the time of the position, `times` are those of sessions and tasks up to then.
    """
    if whole or wanted.since is not None or wanted.until is not None:
        return context.source.read_period(wanted, zone, whole=whole)
    newest: datetime | None = at
    first: ReadPeriod | None = None
    for _ in range(MOST_DAYS_BACK):
        if newest is None:
            break
        try:
            since, until = bounds_of_day(newest.astimezone(zone).date(), zone)
        except OverflowError:  # stored with a time at the end of the calendar
            break
        period = context.source.read_period(wanted._replace(since=since, until=until), zone)
        first = first or period
        if period.sessions or period.tasks or has_more(period):
            return period
        newest = max((time for time in times if time < since), default=None)
    return first or context.source.read_period(wanted, zone)


def _read_request(context: OperationContext, request: PeriodRequest) -> tuple[OutcomeQuery, tzinfo]:
    """Which records are asked for, and in which time zone."""
    zone, since, until = parse_time_zone(request.tz), request.since, request.until
    if (request.day is not None and since is not None) or (until is not None and since is None):
        raise Invalid("say day, or since, or since and until")
    if request.all and (request.day is not None or since is not None):
        raise Invalid("say all, or a period, not both")
    if request.day is not None:
        try:
            since, until = bounds_of_day(request.day, zone)
        except OverflowError as error:
            raise Invalid(f"day: out of reach of the calendar: {request.day}") from error
    for name, moment in (("since", since), ("until", until)):
        if moment is not None and not _is_in(moment, zone):
            raise Invalid(f"{name}: out of reach of the calendar: {moment.isoformat()}")
    scope = choose_scope(context, request.scope, request.agent)
    position = context.source.resolve_position(request.as_of)
    return select_scope(context.log, scope, OutcomeQuery(since, until, upto=position)), zone


def _find_days(times: list[datetime], since: datetime | None, until: datetime | None, zone: tzinfo) -> Days:
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
