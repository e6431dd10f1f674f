"""The table of all API views: path, query type, response type and the function that makes the response.

`views_routes.py` makes routes of it, `openapi.py` their documentation. The functions call `answers/`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Struct

from fleetlore.errors import Invalid
from fleetlore.log.base import Position
from fleetlore.server import queries
from fleetlore.server.answers import arcs, fleet, goals, stage, threads, timeline, town
from fleetlore.server.queries import AsOfQuery
from fleetlore.server.types import common
from fleetlore.server.types import goals as types_goals
from fleetlore.server.types import stage as types_stage
from fleetlore.server.types import town as types_town
from fleetlore.server.view_cache import ViewCache
from fleetlore.views.patterns.kinds import all_kinds, describe_unknown


class ApiView(NamedTuple):
    """One view of the API."""

    path: str
    summary: str
    query: type[AsOfQuery]
    response: type[Struct]
    make: Callable[[ViewCache, Any, Position | None], Struct]
    """Blocks. The position is `None` for the head."""


def _make_fleet(view_cache: ViewCache, query: AsOfQuery, position: Position | None) -> common.Fleet:
    with view_cache.snapshot(position, fleet.NEEDS) as snapshot:
        return fleet.build_fleet(snapshot)


def _make_threads(view_cache: ViewCache, query: queries.ThreadsQuery, position: Position | None) -> common.Threads:
    with view_cache.snapshot(position, threads.NEEDS) as snapshot:
        return threads.build_threads(snapshot, state=query.state, limit=query.limit)


def _make_arcs(view_cache: ViewCache, query: queries.ArcsQuery, position: Position | None) -> common.ArcsPage:
    for kind in query.kind:
        if kind not in all_kinds():
            raise Invalid(f"kind: {describe_unknown(kind)}")
    sessions = arcs.read_session_patterns(view_cache, position)
    with view_cache.snapshot(position, arcs.NEEDS) as snapshot:
        return arcs.build_arcs(snapshot, sessions, state=query.state, kinds=query.kind, limit=query.limit, hidden=query.hidden == "true")


def _make_timeline(view_cache: ViewCache, query: queries.TimelineQuery, position: Position | None) -> common.TimelinePage:
    if query.from_ is not None and query.to is not None and query.to <= query.from_:
        raise Invalid("to: is not after from; a window ends after it begins")
    # "" is the lane of events without an agent.
    agents = [agent and view_cache.resolve_scope(f"agent:{agent}").partition(":")[2] for agent in query.agent]
    sessions = arcs.read_session_patterns(view_cache, position, query.from_, query.to)
    with view_cache.snapshot(position, timeline.NEEDS) as snapshot:
        views = timeline.copy_views(snapshot, sessions, query.from_, query.to, query.width)
    return timeline.build_timeline(view_cache.log, views, position, agents)


def _make_stage(view_cache: ViewCache, query: queries.StageQuery, position: Position | None) -> types_stage.Stage:
    with view_cache.snapshot(position, stage.NEEDS) as snapshot:
        known = stage.copy_stage(snapshot, query.run, minds=query.minds == "true")
    return stage.complete_stage(view_cache.log, known)


def _make_goals(view_cache: ViewCache, query: queries.GoalsQuery, position: Position | None) -> types_goals.Goals:
    with view_cache.snapshot(position, goals.NEEDS) as snapshot:
        known = goals.copy_goals(snapshot, view_cache, query.goal, query.state)
    return goals.complete_goals(view_cache, known)


def _make_town(view_cache: ViewCache, query: queries.TownQuery, position: Position | None) -> types_town.TownPage:
    with view_cache.snapshot(position, town.NEEDS) as snapshot:
        return town.build_town(snapshot, mission=query.mission, task=query.task, agent=query.agent, more=query.more)


VIEWS: tuple[ApiView, ...] = (
    ApiView("/api/fleet", "Every agent, those that need a person first", AsOfQuery, common.Fleet, _make_fleet),
    ApiView("/api/threads", "The lines of story, the one that moved last first", queries.ThreadsQuery, common.Threads, _make_threads),
    ApiView("/api/arcs", "Patterns such as struggles and retries, with their events", queries.ArcsQuery, common.ArcsPage, _make_arcs),
    ApiView("/api/timeline", "What happened when, by agent", queries.TimelineQuery, common.TimelinePage, _make_timeline),
    ApiView("/api/stage", "A cast at play: the scene, what was said, the verdict", queries.StageQuery, types_stage.Stage, _make_stage),
    ApiView("/api/goals", "Goals, those that need a person first, and all of one", queries.GoalsQuery, types_goals.Goals, _make_goals),
    ApiView("/api/town", "The town: agents, board, missions, and what waits for whom", queries.TownQuery, types_town.TownPage, _make_town),
)
