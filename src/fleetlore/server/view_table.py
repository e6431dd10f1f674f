"""The table of all API views: path, query type, response type and the function that makes the response.

`views_routes.py` makes routes of it, `openapi.py` their documentation. The functions call `answers/`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast, get_args

from msgspec import Struct

from fleetlore.errors import Invalid, UnknownName
from fleetlore.log.base import Position
from fleetlore.projections.outcomes import OutcomeQuery, runs_in
from fleetlore.server import queries
from fleetlore.server.answers import arcs, costs, fleet, goals, period, stage, threads, timeline, town
from fleetlore.server.queries import AsOfQuery, parse_time_zone
from fleetlore.server.types import common
from fleetlore.server.types import goals as types_goals
from fleetlore.server.types import stage as types_stage
from fleetlore.server.types import town as types_town
from fleetlore.server.view_cache import ViewCache
from fleetlore.views.cost_sums import CostDimension
from fleetlore.views.patterns.kinds import all_kinds, describe_unknown


class ApiView(NamedTuple):
    """One view of the API."""

    path: str
    summary: str
    query: type[AsOfQuery]
    response: type[Struct]
    make: Callable[[ViewCache, Any, Position | None], Struct]
    """Blocks. The position is `None` for the head."""
    write: Callable[[Any, str], str] | None = None
    """Writes the response in the text format that `query.format` names, if there are any."""


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


def _make_costs(view_cache: ViewCache, query: queries.CostsQuery, position: Position | None) -> common.CostsPage:
    dimensions, zone = _parse_dimensions(query.by), parse_time_zone(query.tz)
    prices = view_cache.costs.prices.date
    with view_cache.snapshot(position, costs.NEEDS) as snapshot:
        return costs.build_costs(snapshot, dimensions=dimensions, since=query.since, until=query.until, zone=zone, prices=prices)


def _parse_dimensions(text: str) -> tuple[CostDimension, ...]:
    known = get_args(CostDimension)
    dimensions = tuple(text.split(","))
    if not set(dimensions) <= set(known) or len(set(dimensions)) != len(dimensions) or len(dimensions) > 2:
        raise Invalid(f"by: {text!r} is not one of {', '.join(known)}, nor two of them as in day,model")
    return cast("tuple[CostDimension, ...]", dimensions)


def _make_sessions(view_cache: ViewCache, query: queries.SessionsQuery, position: Position | None) -> common.SessionsPage:
    runs = runs_in(view_cache.log, view_cache.resolve_scope(query.scope))
    with view_cache.snapshot(position, ("calendar",)) as snapshot:
        head = snapshot.head_fields()
    found = view_cache.find_outcomes(OutcomeQuery(query.since, query.until, runs, query.limit + 1, position))
    return common.SessionsPage(**head, sessions=found[: query.limit], more=len(found) > query.limit)


def make_session(view_cache: ViewCache, id: str, position: Position | None) -> common.SessionPage:
    """One session, by its id or its beginning."""
    scope = view_cache.resolve_scope(f"run:{id}")
    with view_cache.snapshot(position, ("calendar",)) as snapshot:
        head = snapshot.head_fields()
    found = view_cache.find_outcomes(OutcomeQuery(runs=runs_in(view_cache.log, scope), upto=position))
    if not found:
        raise UnknownName("run", id, [], "GET /api/sessions lists the sessions")
    return common.SessionPage(**head, session=found[0])


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
    ApiView("/api/sessions", "What happened in each session, with evidence", queries.SessionsQuery, common.SessionsPage, _make_sessions),
    ApiView(
        "/api/brief",
        "What a day delivered, what went wrong, what to check, who needs you",
        queries.BriefQuery,
        common.PeriodBrief,
        period.make_brief,
        period.write_brief,
    ),
    ApiView("/api/costs", "What the models cost, in tokens and dollars", queries.CostsQuery, common.CostsPage, _make_costs),
    ApiView(
        "/api/story",
        "What each session of a day did, what came of it first, each sentence with its source events",
        queries.StoryQuery,
        common.PeriodStory,
        period.make_story,
        period.write_story,
    ),
    ApiView("/api/timeline", "What happened when, by agent", queries.TimelineQuery, common.TimelinePage, _make_timeline),
    ApiView("/api/stage", "A cast at play: the scene, what was said, the verdict", queries.StageQuery, types_stage.Stage, _make_stage),
    ApiView("/api/goals", "Goals, those that need a person first, and all of one", queries.GoalsQuery, types_goals.Goals, _make_goals),
    ApiView("/api/town", "The town: agents, board, missions, and what waits for whom", queries.TownQuery, types_town.TownPage, _make_town),
)
