"""What happened when: lanes of agents in a window of time, as marks where there are few, else counted in buckets.

A wide window is drawn from the counts that the pace keeps, a narrow one from its own events: neither reads the rest of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from fleetlore.chronicle import arcbook
from fleetlore.chronicle.arcs import Arc, without_hidden
from fleetlore.chronicle.naming import Naming
from fleetlore.events.catalog import beat_of
from fleetlore.events.envelope import Event
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.time_index import read_ranges
from fleetlore.server.answers import arcs as arc_rows
from fleetlore.server.types.common import ArcSpan, LaneRow, Mark, Timeline
from fleetlore.server.view_cache import Look
from fleetlore.views import fleet as fleet_view
from fleetlore.views import names as names_view
from fleetlore.views import time_ranges as calendar_view
from fleetlore.views.activity import BEAT_FAMILIES, NO_AGENT, FleetActivity, find_beat_family
from fleetlore.views.agent_status_rules import AgentStanding
from fleetlore.views.event_text import EPOCH, event_line, event_rank, event_stamp
from fleetlore.views.time_ranges import PositionRange, TimeIndex

NEEDS = ("arcs", "fleet", "names", "pace")
"""The views that it is made of, beside the calendar."""
MOST_MARKS = 2000
MOST_READ = 60_000
"""Events of a window that are read; more are taken from the pace."""
MOST_LANES = 40
MOST_ARCS = 200
BUCKET_PIXELS = 6
SHORTEST_WINDOW = timedelta(seconds=1)
_LONG_AGO, _NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

Counts = dict[str, dict[int, list[int]]]
"""Lane → bucket → events by family."""


class Window(NamedTuple):
    """From when to when, and in how many buckets."""

    since: datetime
    until: datetime
    buckets: int

    @property
    def length(self) -> float:
        """In seconds."""
        return (self.until - self.since).total_seconds()

    @property
    def seconds(self) -> float:
        """How long a bucket is."""
        return self.length / self.buckets

    def bucket(self, at: datetime) -> int:
        """The number of the bucket of a moment."""
        return min(int((at - self.since).total_seconds() // self.seconds), self.buckets - 1)


class Known(NamedTuple):
    """What the views say of a window; nothing here goes on changing."""

    head: dict[str, object]
    window: Window | None
    first_at: datetime | None
    last_at: datetime | None
    spans: tuple[PositionRange, ...] | None
    """Where its events are; `None` if they are too many to be read."""
    paced: Counts
    standings: dict[str, AgentStanding]
    present: set[str]
    """Who is neither gone nor at rest since long: they have a lane even where they did nothing."""
    shown: dict[str, str]
    naming: Naming
    arcs: list[Arc]


def known(look: Look, since: datetime | None, until: datetime | None, width: int) -> Known:
    """What is needed of the views, as a copy: reading events takes longer than a look may."""
    calendar: TimeIndex = look.states["calendar"]
    fleet: fleet_view.FleetState = look.states["fleet"]
    stood = fleet_view.sort_by_standing(fleet, now=look.now)
    window = _window(calendar, since, until, width)
    pace: FleetActivity = look.states["pace"]
    spans, paced = None, Counts()
    if window is not None:
        if _estimate(pace, window) <= MOST_READ:
            spans = tuple(calendar_view.find_ranges(calendar, window.since, window.until))
        else:
            window, paced = _paced(pace, window)
    return Known(
        head=look.head(),
        window=window,
        first_at=calendar.first,
        last_at=calendar.newest,
        spans=spans,
        paced=paced,
        standings={agent.name: standing for standing, agent in stood},
        present={agent.name for standing, agent in stood if standing != "ended" and not fleet_view.is_inactive(agent, standing, look.now)},
        shown=names_view.all_display_names(look.states["names"]),
        naming=look.naming,
        arcs=list(without_hidden((*look.states["arcs"].closed, *arcbook.open_arcs(look.states["arcs"], look.now)))),
    )


def show(log: BlockingRecorder, views: Known, upto: str | None, wanted: Sequence[str] = ()) -> Timeline:
    """The timeline; of some agents only, if they are named."""
    window = views.window
    events, counts = (None, views.paced) if window is None or views.spans is None else _read(log, views.spans, window, upto)
    lanes, more = _lanes(counts, views, wanted)
    names = {lane.agent for lane in lanes}
    marks = [_mark(event) for event in events or () if (event.agent or NO_AGENT) in names]
    return Timeline(
        **views.head,  # type: ignore[arg-type]  # `Look.head` gives the fields of `Head`
        from_=None if window is None else window.since,
        to=None if window is None else window.until,
        first_at=views.first_at,
        last_at=views.last_at,
        exact=events is not None or window is None,
        bucket_seconds=0.0 if window is None else window.seconds,
        families=list(BEAT_FAMILIES),
        lanes=lanes,
        marks=marks,
        links=_links(marks),
        arcs=[] if window is None else _spans(views, window, names),
        more_lanes=more,
    )


def _window(calendar: TimeIndex, since: datetime | None, until: datetime | None, width: int) -> Window | None:
    if calendar.first is None or calendar.newest is None:
        return None
    until = until or max(_moved(calendar.newest, SHORTEST_WINDOW), _moved(since or calendar.first, SHORTEST_WINDOW))
    since = min(since or calendar.first, _moved(until, -SHORTEST_WINDOW))
    return Window(since, max(until, _moved(since, SHORTEST_WINDOW)), max(1, width // BUCKET_PIXELS))


def _moved(at: datetime, by: timedelta) -> datetime:
    """Some time later or earlier, as far as the calendar goes."""
    try:
        return at + by
    except OverflowError:
        return _NEVER if by > timedelta(0) else _LONG_AGO


# --- wide windows


def _seconds(at: datetime) -> float:
    return (at - EPOCH).total_seconds()


def _estimate(pace: FleetActivity, window: Window) -> int:
    """How many events there are at the most, by the slots that the window touches."""
    first, last = int(_seconds(window.since) // pace.seconds), int(_seconds(window.until) // pace.seconds)
    return sum(sum(counts) for lane in pace.lanes.values() for slot, counts in lane.slots.items() if first <= slot <= last)


def _paced(pace: FleetActivity, window: Window) -> tuple[Window, Counts]:
    """What the pace counts; and the window in which it does so, from the beginning of a bucket to the end of one: slots cannot be cut."""
    bucket = pace.seconds * max(1, round(window.seconds / pace.seconds))
    first = int(_seconds(window.since) // bucket)
    buckets = max(1, -int(-_seconds(window.until) // bucket) - first)
    counts: Counts = {}
    for name, lane in pace.lanes.items():
        for slot, families in lane.slots.items():
            number = slot * pace.seconds // bucket - first
            if 0 <= number < buckets:
                held = counts.setdefault(name, {}).setdefault(number, [0] * len(BEAT_FAMILIES))
                held[:] = [one + other for one, other in zip(held, families, strict=True)]
    since, until = (_moved(EPOCH, timedelta(seconds=number * bucket)) for number in (first, first + buckets))
    return Window(since, until, buckets), counts


# --- narrow windows


def _read(log: BlockingRecorder, spans: Sequence[PositionRange], window: Window, upto: str | None) -> tuple[list[Event] | None, Counts]:
    """The events of a window in the order of time, unless they are many, and their counts."""
    counts: Counts = {}
    events: list[Event] = []
    for event in read_ranges(log, spans, window.since, window.until, upto=upto):
        buckets = counts.setdefault(event.agent or NO_AGENT, {})
        families = buckets.setdefault(window.bucket(event_stamp(event)[0]), [0] * len(BEAT_FAMILIES))
        families[find_beat_family(beat_of(event))] += 1
        if len(events) <= MOST_MARKS:
            events.append(event)
    return (None if len(events) > MOST_MARKS else sorted(events, key=event_rank)), counts


def _mark(event: Event) -> Mark:
    beat = beat_of(event)
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


def _links(marks: Sequence[Mark]) -> list[tuple[str, str]]:
    ids = {mark.id for mark in marks}
    return [(mark.cause, mark.id) for mark in marks if mark.cause in ids and mark.cause is not None]


# --- lanes and arcs


def _lanes(counts: Counts, views: Known, wanted: Sequence[str]) -> tuple[list[LaneRow], int]:
    """The busiest lanes of the window, who is still there among them, in the order of appearance; and how many more there are."""
    totals = dict.fromkeys((*views.present, *wanted), 0)
    totals |= {name: sum(map(sum, buckets.values())) for name, buckets in counts.items()}
    totals = {name: total for name, total in totals.items() if not wanted or name in wanted}
    busiest = set(sorted(totals, key=lambda name: (-totals[name], name))[:MOST_LANES])
    order = {name: place for place, name in enumerate(views.shown)}
    names = sorted(busiest, key=lambda name: (name == NO_AGENT, order.get(name, len(order)), name))
    rows = [
        LaneRow(
            agent=name,
            shown=views.shown.get(name, name) if name != NO_AGENT else "the town",
            standing=views.standings.get(name, "idle"),
            total=totals[name],
            buckets=sorted(counts.get(name, {}).items()),
        )
        for name in names
    ]
    return rows, len(totals) - len(rows)


def _spans(views: Known, window: Window, names: set[str]) -> list[ArcSpan]:
    """The arcs that are under way in the window and touch one of its lanes, the newest first."""
    mine = [arc for arc in views.arcs if arc.first_at < window.until and arc.last_at >= window.since and not names.isdisjoint(arc.agents)]
    mine.sort(key=lambda arc: (arc.last_at, arc.first_at, arc.kind), reverse=True)
    mine = mine[:MOST_ARCS]
    told = arc_rows.rows(mine, views.naming)
    return [
        ArcSpan(**{name: getattr(row, name) for name in row.__struct_fields__}, lanes=[agent for agent in arc.agents if agent in names])
        for arc, row in zip(mine, told, strict=True)
    ]
