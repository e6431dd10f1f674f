"""Every view of the API: its path, what can be asked, what is answered, and how. The routes and the OpenAPI document are made of this."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast, get_args

from msgspec import Struct

from fleetlore.chronicle.vocabulary import arc_kinds
from fleetlore.errors import Invalid, UnknownName
from fleetlore.log.base import Position
from fleetlore.projections.outcomes import Wanted, runs_in, select_scope
from fleetlore.server import queries
from fleetlore.server.answers import arcs, costs, fleet, goals, stage, story, threads, timeline, town
from fleetlore.server.queries import AsOf, zone_of
from fleetlore.server.types import common
from fleetlore.server.types import goals as types_goals
from fleetlore.server.types import stage as types_stage
from fleetlore.server.types import town as types_town
from fleetlore.server.view_cache import Desk
from fleetlore.story.brief import bounds_of_day
from fleetlore.views.cost_sums import CostDimension


class Shown(NamedTuple):
    """One view."""

    path: str
    summary: str
    query: type[AsOf]
    answer: type[Struct]
    make: Callable[[Desk, Any, Position | None], Struct]
    """Blocks; the position is that of the past, `None` for the head."""


def _fleet(desk: Desk, query: AsOf, position: Position | None) -> common.Fleet:
    with desk.looking(position, fleet.NEEDS) as look:
        return fleet.show(look)


def _threads(desk: Desk, query: queries.ThreadsQuery, position: Position | None) -> common.Threads:
    with desk.looking(position, threads.NEEDS) as look:
        return threads.show(look, state=query.state, limit=query.limit)


def _arcs(desk: Desk, query: queries.ArcsQuery, position: Position | None) -> common.Arcs:
    for kind in query.kind:
        if kind not in arc_kinds():
            raise Invalid(f"kind: no such arc: {kind!r}; there are {', '.join(arc_kinds())}")
    with desk.looking(position, arcs.NEEDS) as look:
        return arcs.show(look, state=query.state, kinds=query.kind, limit=query.limit, hidden=query.hidden == "true")


def _costs(desk: Desk, query: queries.CostsQuery, position: Position | None) -> common.Costs:
    dimensions, zone = _dimensions(query.by), zone_of(query.tz)
    prices = desk.costs.prices.date
    with desk.looking(position, costs.NEEDS) as look:
        return costs.show(look, dimensions=dimensions, since=query.since, until=query.until, zone=zone, prices=prices)


def _dimensions(text: str) -> tuple[CostDimension, ...]:
    known = get_args(CostDimension)
    named = tuple(text.split(","))
    if not set(named) <= set(known) or len(set(named)) != len(named) or len(named) > 2:
        raise Invalid(f"by: {text!r} is not one of {', '.join(known)}, nor two of them as in day,model")
    return cast("tuple[CostDimension, ...]", named)


def _sessions(desk: Desk, query: queries.SessionsQuery, position: Position | None) -> common.Sessions:
    runs = runs_in(desk.log, desk.scope(query.scope))
    with desk.looking(position, ("calendar",)) as look:
        head = look.head()
    found = desk.outcomes(Wanted(query.since, query.until, runs, query.limit + 1, position))
    return common.Sessions(**head, sessions=found[: query.limit], more=len(found) > query.limit)


def show_session(desk: Desk, id: str, position: Position | None) -> common.Session:
    """One session, by its id or its beginning."""
    scope = desk.scope(f"run:{id}")
    with desk.looking(position, ("calendar",)) as look:
        head = look.head()
    found = desk.outcomes(Wanted(runs=runs_in(desk.log, scope), upto=position))
    if not found:
        raise UnknownName("run", id, [], "GET /api/sessions lists the sessions")
    return common.Session(**head, session=found[0])


def _brief(desk: Desk, query: queries.BriefQuery, position: Position | None) -> common.PeriodBrief:
    zone, since, until = zone_of(query.tz), query.since, query.until
    if (query.day is not None and since is not None) or (until is not None and since is None):
        raise Invalid("say day, or since, or since and until")
    if query.day is not None:
        try:
            since, until = bounds_of_day(query.day, zone)
        except OverflowError as error:
            raise Invalid(f"day: out of reach of the calendar: {query.day}") from error
    wanted = select_scope(desk.log, desk.scope(query.scope), Wanted(since, until, upto=position))
    with desk.looking(position, ("calendar",)) as look:
        head = look.head()
    return common.PeriodBrief(**head, brief=desk.brief(wanted, zone))


def _story(desk: Desk, query: queries.StoryQuery, position: Position | None) -> common.Story:
    wanted = story.Wanted(desk.scope(query.scope), desk.check_place(query.before, "before"), query.limit, query.detail, zone_of(query.tz))
    with desk.looking(position, story.NEEDS if position is None else story.NEEDS_THEN) as look:
        head, views = look.head(), story.known(look, wanted.scope)
    stretch = story.read(desk.log, wanted, views, position)
    return story.tell(stretch, wanted, views, head)


def _timeline(desk: Desk, query: queries.TimelineQuery, position: Position | None) -> common.Timeline:
    if query.from_ is not None and query.to is not None and query.to <= query.from_:
        raise Invalid("to: is not after from; a window ends after it begins")
    agents = [agent and desk.scope(f"agent:{agent}").partition(":")[2] for agent in query.agent]  # "" is the town's own lane
    with desk.looking(position, timeline.NEEDS) as look:
        views = timeline.known(look, query.from_, query.to, query.width)
    return timeline.show(desk.log, views, position, agents)


def _stage(desk: Desk, query: queries.StageQuery, position: Position | None) -> types_stage.Stage:
    with desk.looking(position, stage.NEEDS) as look:
        known = stage.known(look, query.run, minds=query.minds == "true")
    return stage.show(desk.log, known)


def _goals(desk: Desk, query: queries.GoalsQuery, position: Position | None) -> types_goals.Goals:
    with desk.looking(position, goals.NEEDS) as look:
        known = goals.known(look, desk, query.goal, query.state)
    return goals.show(desk, known)


def _town(desk: Desk, query: queries.TownQuery, position: Position | None) -> types_town.Town:
    with desk.looking(position, town.NEEDS) as look:
        return town.show(look, mission=query.mission, task=query.task, agent=query.agent, more=query.more)


VIEWS: tuple[Shown, ...] = (
    Shown("/api/fleet", "Every agent, those that need a person first", AsOf, common.Fleet, _fleet),
    Shown("/api/threads", "The lines of story, the one that moved last first", queries.ThreadsQuery, common.Threads, _threads),
    Shown("/api/arcs", "Rescues, struggles, stalls and more, with their proof", queries.ArcsQuery, common.Arcs, _arcs),
    Shown("/api/sessions", "What happened in each session, with evidence", queries.SessionsQuery, common.Sessions, _sessions),
    Shown(
        "/api/brief", "What a day delivered, what went wrong, what to check, who needs you", queries.BriefQuery, common.PeriodBrief, _brief
    ),
    Shown("/api/costs", "What the models cost, in tokens and dollars", queries.CostsQuery, common.Costs, _costs),
    Shown("/api/story", "The chronicle of a stretch of the log, each sentence with its proof", queries.StoryQuery, common.Story, _story),
    Shown("/api/timeline", "What happened when, by agent", queries.TimelineQuery, common.Timeline, _timeline),
    Shown("/api/stage", "A cast at play: the scene, what was said, the verdict", queries.StageQuery, types_stage.Stage, _stage),
    Shown("/api/goals", "Goals, those that need a person first, and all of one", queries.GoalsQuery, types_goals.Goals, _goals),
    Shown("/api/town", "The town: agents, board, missions, and what waits for whom", queries.TownQuery, types_town.Town, _town),
)
