"""The timeline: lanes of agents in a window of time, with marks for few events and counts per bucket for many.

A wide window uses the counts of the activity view, a narrow one reads its own events. Neither reads the rest of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct, field

from fleetlore.errors import Invalid
from fleetlore.events.catalog import find_beat
from fleetlore.events.envelope import Event
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.operations.arcs import ArcRow, build_arc_rows, read_session_patterns
from fleetlore.operations.context import OperationContext
from fleetlore.operations.reading import AsOfRequest, Head, Text, Time
from fleetlore.operations.sources import ViewSnapshot, resolve_scope
from fleetlore.projections.time_index import read_ranges
from fleetlore.views import fleet as fleet_view
from fleetlore.views import names as names_view
from fleetlore.views import time_ranges as calendar_view
from fleetlore.views.activity import BEAT_FAMILIES, NO_AGENT, FleetActivity, find_beat_family
from fleetlore.views.agent_status_rules import AgentStanding
from fleetlore.views.event_text import EPOCH, event_line, event_rank, event_stamp
from fleetlore.views.patterns import fold as pattern_fold
from fleetlore.views.patterns.kinds import own_kinds, shown_kinds
from fleetlore.views.patterns.model import Finding
from fleetlore.views.thread_names import Naming
from fleetlore.views.time_ranges import PositionRange, TimeIndex

MAX_MARKS = 2000
MAX_EVENTS_READ = 60_000
"""Windows with more events use the counts of the activity view."""
MAX_LANES = 40
MAX_ARCS = 200
BUCKET_PIXELS = 6
MIN_WINDOW = timedelta(seconds=1)
_LONG_AGO, _NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

Counts = dict[str, dict[int, list[int]]]
"""Lane → bucket → events by family."""


class ReadTimeline(AsOfRequest, kw_only=True):
    """A window of time."""

    from_: Time | None = field(name="from", default=None)
    to: Time | None = None
    width: Annotated[int, Meta(ge=60, le=2000)] = 1200
    agent: list[Text] = field(default_factory=list)


class LaneRow(Struct, kw_only=True):
    """One agent on the timeline."""

    agent: str
    shown: str
    standing: AgentStanding
    total: int
    buckets: list[tuple[int, list[int]]]
    """Bucket number, and its events by family."""


class Mark(Struct, kw_only=True):
    """One event on the timeline."""

    id: str
    at: datetime
    agent: str
    beat: str | None
    family: str
    kind: str
    text: str
    cause: str | None
    position: str | None


class ArcSpan(ArcRow, kw_only=True):
    """An arc on the timeline."""

    lanes: list[str]


class TimelinePage(Head, kw_only=True):
    """Events by agent and time in one window."""

    from_: datetime | None = field(name="from")
    to: datetime | None
    first_at: datetime | None
    last_at: datetime | None
    exact: bool
    bucket_seconds: float
    families: list[str]
    lanes: list[LaneRow]
    marks: list[Mark]
    links: list[tuple[str, str]]
    arcs: list[ArcSpan]
    more_lanes: int


def read_timeline(context: OperationContext, request: ReadTimeline) -> TimelinePage:
    """Events by agent and time in one window; of these agents only if any are given."""
    source = context.source
    if request.from_ is not None and request.to is not None and request.to <= request.from_:
        raise Invalid("to: is not after from; a window ends after it begins")
    position = source.resolve_position(request.as_of)
    # "" is the lane of events without an agent.
    agents = [agent and resolve_scope(source, f"agent:{agent}").partition(":")[2] for agent in request.agent]
    # Records of sessions are read only for kinds that are shown; packages cannot add such kinds.
    finds_sessions = not shown_kinds().isdisjoint(own_kinds())
    sessions = read_session_patterns(source, position, request.from_, request.to) if finds_sessions else []
    with source.snapshot(position, ("arcs", "fleet", "names", "pace")) as snapshot:
        views = copy_views(snapshot, sessions, request.from_, request.to, request.width)
    return build_timeline(context.log, views, position, agents)


class TimeWindow(NamedTuple):
    """A range of time, divided into buckets."""

    since: datetime
    until: datetime
    buckets: int

    @property
    def length_seconds(self) -> float:
        """The length of the window."""
        return (self.until - self.since).total_seconds()

    @property
    def bucket_seconds(self) -> float:
        """The length of a bucket."""
        return self.length_seconds / self.buckets

    def bucket_number(self, at: datetime) -> int:
        """The bucket of a time, from 0."""
        return min(int((at - self.since).total_seconds() // self.bucket_seconds), self.buckets - 1)


class TimelineViews(NamedTuple):
    """What the views say about a window, copied."""

    head: dict[str, object]
    window: TimeWindow | None
    first_at: datetime | None
    last_at: datetime | None
    spans: tuple[PositionRange, ...] | None
    """Position ranges with its events; `None` if they are too many to read."""
    activity_counts: Counts
    """Used instead of the events if they are too many."""
    standings: dict[str, AgentStanding]
    present: set[str]
    """Agents that are neither ended nor inactive: they have a lane even without events."""
    display_names: dict[str, str]
    naming: Naming
    arcs: list[Finding]


def copy_views(
    snapshot: ViewSnapshot, sessions: Sequence[Finding], since: datetime | None, until: datetime | None, width: int
) -> TimelineViews:
    """What the timeline needs from the views, copied: reading events takes longer than a snapshot may be held."""
    calendar: TimeIndex = snapshot.states["calendar"]
    fleet: fleet_view.FleetState = snapshot.states["fleet"]
    by_standing = fleet_view.sort_by_standing(fleet, now=snapshot.now)
    window = _choose_window(calendar, since, until, width)
    activity: FleetActivity = snapshot.states["pace"]
    spans, activity_counts, shown = None, Counts(), shown_kinds()
    if window is not None:
        if _estimate_events(activity, window) <= MAX_EVENTS_READ:
            spans = tuple(calendar_view.find_ranges(calendar, window.since, window.until))
        else:
            window, activity_counts = _count_from_activity(activity, window)
    return TimelineViews(
        head=snapshot.head_fields(),
        window=window,
        first_at=calendar.first,
        last_at=calendar.newest,
        spans=spans,
        activity_counts=activity_counts,
        standings={agent.name: standing for standing, agent in by_standing},
        present={
            agent.name
            for standing, agent in by_standing
            if standing != "ended" and not fleet_view.is_inactive(agent, standing, snapshot.now)
        },
        display_names=names_view.all_display_names(snapshot.states["names"]),
        naming=snapshot.naming,
        arcs=[
            finding
            for finding in (*(pattern_fold.find_patterns(snapshot.states["arcs"], snapshot.now) if shown else ()), *sessions)
            if finding.kind in shown
        ],
    )


def build_timeline(log: BlockingRecorder, views: TimelineViews, upto: str | None, agents: Sequence[str] = ()) -> TimelinePage:
    """The timeline, of these agents only if any are given."""
    window = views.window
    events, counts = (
        (None, views.activity_counts) if window is None or views.spans is None else _read_window(log, views.spans, window, upto)
    )
    lanes, more = _lane_rows(counts, views, agents)
    names = {lane.agent for lane in lanes}
    marks = [_event_mark(event) for event in events or () if (event.agent or NO_AGENT) in names]
    return TimelinePage(
        **views.head,  # type: ignore[arg-type]  # `head_fields` gives the fields of `Head`
        from_=None if window is None else window.since,
        to=None if window is None else window.until,
        first_at=views.first_at,
        last_at=views.last_at,
        exact=events is not None or window is None,
        bucket_seconds=0.0 if window is None else window.bucket_seconds,
        families=list(BEAT_FAMILIES),
        lanes=lanes,
        marks=marks,
        links=_cause_links(marks),
        arcs=[] if window is None else _arc_spans(views, window, names),
        more_lanes=more,
    )


def _choose_window(calendar: TimeIndex, since: datetime | None, until: datetime | None, width: int) -> TimeWindow | None:
    if calendar.first is None or calendar.newest is None:
        return None
    until = until or max(_shift_time(calendar.newest, MIN_WINDOW), _shift_time(since or calendar.first, MIN_WINDOW))
    since = min(since or calendar.first, _shift_time(until, -MIN_WINDOW))
    return TimeWindow(since, max(until, _shift_time(since, MIN_WINDOW)), max(1, width // BUCKET_PIXELS))


def _shift_time(at: datetime, by: timedelta) -> datetime:
    """`at + by`, clamped to the range of `datetime`."""
    try:
        return at + by
    except OverflowError:
        return _NEVER if by > timedelta(0) else _LONG_AGO


# --- wide windows


def _epoch_seconds(at: datetime) -> float:
    return (at - EPOCH).total_seconds()


def _estimate_events(activity: FleetActivity, window: TimeWindow) -> int:
    """An upper bound for the events in the window, by the slots that it touches."""
    first, last = int(_epoch_seconds(window.since) // activity.seconds), int(_epoch_seconds(window.until) // activity.seconds)
    return sum(sum(counts) for lane in activity.lanes.values() for slot, counts in lane.slots.items() if first <= slot <= last)


def _count_from_activity(activity: FleetActivity, window: TimeWindow) -> tuple[TimeWindow, Counts]:
    """Counts from the activity view, and the window widened to whole buckets, because slots cannot be divided."""
    bucket = activity.seconds * max(1, round(window.bucket_seconds / activity.seconds))
    first = int(_epoch_seconds(window.since) // bucket)
    buckets = max(1, -int(-_epoch_seconds(window.until) // bucket) - first)
    counts: Counts = {}
    for name, lane in activity.lanes.items():
        for slot, families in lane.slots.items():
            number = slot * activity.seconds // bucket - first
            if 0 <= number < buckets:
                held = counts.setdefault(name, {}).setdefault(number, [0] * len(BEAT_FAMILIES))
                held[:] = [one + other for one, other in zip(held, families, strict=True)]
    since, until = (_shift_time(EPOCH, timedelta(seconds=number * bucket)) for number in (first, first + buckets))
    return TimeWindow(since, until, buckets), counts


# --- narrow windows


def _read_window(
    log: BlockingRecorder, spans: Sequence[PositionRange], window: TimeWindow, upto: str | None
) -> tuple[list[Event] | None, Counts]:
    """The events of a window in order of time (`None` if there are too many for marks), and their counts."""
    counts: Counts = {}
    events: list[Event] = []
    for event in read_ranges(log, spans, window.since, window.until, upto=upto):
        buckets = counts.setdefault(event.agent or NO_AGENT, {})
        families = buckets.setdefault(window.bucket_number(event_stamp(event)[0]), [0] * len(BEAT_FAMILIES))
        families[find_beat_family(find_beat(event))] += 1
        if len(events) <= MAX_MARKS:
            events.append(event)
    return (None if len(events) > MAX_MARKS else sorted(events, key=event_rank)), counts


def _event_mark(event: Event) -> Mark:
    beat = find_beat(event)
    return Mark(
        id=event.id or "",
        at=event_stamp(event)[0],
        agent=event.agent or NO_AGENT,
        beat=beat,
        family=BEAT_FAMILIES[find_beat_family(beat)],
        kind=event.kind,
        text=event_line(event) or event.kind,
        cause=event.cause,
        position=event.position,
    )


def _cause_links(marks: Sequence[Mark]) -> list[tuple[str, str]]:
    ids = {mark.id for mark in marks}
    return [(mark.cause, mark.id) for mark in marks if mark.cause in ids and mark.cause is not None]


# --- lanes and arcs


def _lane_rows(counts: Counts, views: TimelineViews, agents: Sequence[str]) -> tuple[list[LaneRow], int]:
    """The busiest lanes, in order of first appearance, and the number of further lanes."""
    totals = dict.fromkeys((*views.present, *agents), 0)
    totals |= {name: sum(map(sum, buckets.values())) for name, buckets in counts.items()}
    totals = {name: total for name, total in totals.items() if not agents or name in agents}
    busiest = set(sorted(totals, key=lambda name: (-totals[name], name))[:MAX_LANES])
    order = {name: place for place, name in enumerate(views.display_names)}
    names = sorted(busiest, key=lambda name: (name == NO_AGENT, order.get(name, len(order)), name))
    rows = [
        LaneRow(
            agent=name,
            shown=views.display_names.get(name, name) if name != NO_AGENT else "the town",
            standing=views.standings.get(name, "idle"),
            total=totals[name],
            buckets=sorted(counts.get(name, {}).items()),
        )
        for name in names
    ]
    return rows, len(totals) - len(rows)


def _arc_spans(views: TimelineViews, window: TimeWindow, names: set[str]) -> list[ArcSpan]:
    """The newest arcs that overlap the window and have an agent among its lanes."""
    arcs = [arc for arc in views.arcs if arc.first_at < window.until and arc.last_at >= window.since and not names.isdisjoint(arc.agents)]
    arcs.sort(key=lambda arc: (arc.last_at, arc.first_at, arc.kind), reverse=True)
    arcs = arcs[:MAX_ARCS]
    rows = build_arc_rows(arcs, views.naming)
    return [
        ArcSpan(**{name: getattr(row, name) for name in row.__struct_fields__}, lanes=[agent for agent in arc.agents if agent in names])
        for arc, row in zip(arcs, rows, strict=True)
    ]
