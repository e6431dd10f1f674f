"""Read the records of a period from a log, for the brief and the story. Everything else in this package is pure."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import NamedTuple

from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.outcomes import ALL, Wanted, find_newest_time, read_period
from fleetlore.projections.runner import ProgressCallback
from fleetlore.projections.store import ProjectionStore
from fleetlore.story.brief import Brief, bounds_of_day, make_brief
from fleetlore.story.story import Story, make_story
from fleetlore.views.costs import Costs
from fleetlore.views.outcomes.record import Outcome
from fleetlore.views.task_outcomes import TaskOutcome


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
    costs: Costs,
    wanted: Wanted = ALL,
    store: ProjectionStore | None = None,
    newest_day: bool = False,
    progress: ProgressCallback | None = None,
) -> ReadPeriod:
    """The records of `wanted.since` until `wanted.until`, or of the newest day with a session or a task."""
    if newest_day:
        newest = find_newest_time(log, now=now, costs=costs, wanted=wanted, store=store, progress=progress) or now
        try:
            since, until = bounds_of_day(newest.astimezone(zone).date(), zone)
        except OverflowError:  # stored with a time at the end of the calendar
            since, until = bounds_of_day(now.astimezone(zone).date(), zone)
        wanted = wanted._replace(since=since, until=until)
    found = read_period(log, now=now, costs=costs, wanted=wanted, store=store, progress=progress)
    return ReadPeriod(found.sessions, found.tasks, wanted.since, wanted.until)


def brief_of(found: ReadPeriod, zone: tzinfo) -> Brief:
    """The brief of a period."""
    return make_brief(found.sessions, found.tasks, since=found.since, until=found.until, zone=zone)


def story_of(found: ReadPeriod, zone: tzinfo) -> Story:
    """The story of a period."""
    return make_story(found.sessions, found.tasks, since=found.since, until=found.until, zone=zone)
