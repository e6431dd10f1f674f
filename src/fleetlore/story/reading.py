"""Read the brief of a period from a log. Everything else in this package is a pure function of records."""

from __future__ import annotations

from datetime import datetime, tzinfo

from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.outcomes import ALL, Wanted, find_newest_time, read_period
from fleetlore.projections.runner import ProgressCallback
from fleetlore.projections.store import ProjectionStore
from fleetlore.story.brief import Brief, bounds_of_day, make_brief
from fleetlore.views.costs import Costs


def read_brief(
    log: BlockingRecorder,
    *,
    now: datetime,
    zone: tzinfo,
    costs: Costs,
    wanted: Wanted = ALL,
    store: ProjectionStore | None = None,
    newest_day: bool = False,
    progress: ProgressCallback | None = None,
) -> Brief:
    """The brief of `wanted.since` until `wanted.until`, or of the newest day with a session or a task."""
    if newest_day:
        newest = find_newest_time(log, now=now, costs=costs, wanted=wanted, store=store, progress=progress) or now
        since, until = bounds_of_day(newest.astimezone(zone).date(), zone)
        wanted = wanted._replace(since=since, until=until)
    found = read_period(log, now=now, costs=costs, wanted=wanted, store=store, progress=progress)
    return make_brief(found.sessions, found.tasks, since=wanted.since, until=wanted.until, zone=zone)
