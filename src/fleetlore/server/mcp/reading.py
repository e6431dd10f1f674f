"""Tools that show what the log adds up to: who does what, which patterns there are, what it cost."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fleetlore.chronicle.vocabulary import arc_kinds
from fleetlore.errors import Invalid
from fleetlore.server.answers import arcs as arcs_show
from fleetlore.server.answers import costs as costs_show
from fleetlore.server.answers import fleet as fleet_show
from fleetlore.server.mcp import requests, responses, times
from fleetlore.server.mcp.sanitise import MOST_BYTES, clock_of, fill, going_on, line, page, quoted, some, told, with_dots
from fleetlore.server.mcp.sources import Caller, Source
from fleetlore.server.queries import zone_of
from fleetlore.server.types.common import ArcRow
from fleetlore.server.view_cache import Look
from fleetlore.views import fleet as fleet_view
from fleetlore.views import names as names_view
from fleetlore.views.agent_status_rules import AgentStanding

MOST_ARCS = 1000
"""The newest that can be paged through."""
_ASKING_BYTES = MOST_BYTES // 4


def head(look: Look) -> dict[str, Any]:
    """What every answer begins with."""
    return {"as_of": look.position, "reading": not look.caught_up}


# --- fleet


def fleet(source: Source, caller: Caller, ask: requests.Fleet) -> responses.Fleet:
    """Who does what."""
    with source.looking(None, ("fleet", "names")) as look:
        state: fleet_view.FleetState = look.states["fleet"]
        shown = names_view.all_display_names(look.states["names"])
        stood = [pair for pair in fleet_view.sort_by_standing(state, now=look.now) if _is_wanted(*pair, ask, look.now)]
        stood.sort(key=lambda pair: fleet_show.ORDER.index(pair[0]))
        agents, next = page(stood, lambda pair: _agent(*pair, shown), limit=ask.limit, page=ask.page)
        asking = fill(sorted(state.asking.items()), lambda pair: _asking(*pair), limit=20, most=_ASKING_BYTES)
        return responses.Fleet(**head(look), next=next, now=look.now, counts=fleet_show.counts(look), agents=agents, asking=asking)


def _is_wanted(standing: AgentStanding, agent: fleet_view.FleetAgent, ask: requests.Fleet, now: datetime) -> bool:
    if ask.standing is not None:
        return standing == ask.standing
    return ask.everybody or not fleet_view.is_inactive(agent, standing, now)


def _agent(standing: AgentStanding, agent: fleet_view.FleetAgent, shown: dict[str, str]) -> responses.Agent:
    called = shown.get(agent.name, agent.name)
    return responses.Agent(
        name=agent.name,
        standing=standing,
        shown="" if called == agent.name else line(called),
        doing=line(agent.doing),
        since=agent.since,
        last_seen=agent.last_seen,
        task=agent.task,
        mission=agent.mission,
        goal=agent.goal,
        parent=agent.parent,
    )


def _asking(mission: str, ask: fleet_view.OpenHelpCall) -> responses.Asking:
    return responses.Asking(mission=mission, text=line(ask.text), since=ask.since)


def fleet_told(answer: responses.Fleet) -> str:
    """The fleet as text."""
    counts = ", ".join(f"{count} {standing}" for standing, count in answer.counts.items() if count) or "nobody is about"
    asking = [f"mission {line(each.mission)} asks for help since {clock_of(each.since)} · {each.text}" for each in answer.asking]
    return told(
        f"The fleet at {clock_of(answer.now)}: {counts}.",
        quoted(*map(line, asking), *map(_agent_told, answer.agents)),
        going_on(answer.next),
    )


def _agent_told(agent: responses.Agent) -> str:
    since = f"since {clock_of(agent.since)}" if agent.since else None
    name = f"{agent.name} ({agent.shown})" if agent.shown else agent.name
    places = [f"{kind} {value}" for kind in ("task", "mission", "goal", "parent") if (value := getattr(agent, kind))]
    return with_dots(name, agent.standing, since, *places, agent.doing)


# --- arcs


def arcs(source: Source, caller: Caller, ask: requests.Arcs) -> responses.Arcs:
    """Patterns."""
    for kind in ask.kind:
        if kind not in arc_kinds():
            raise Invalid(f"kind: no such arc: {kind!r}; there are {', '.join(arc_kinds())}")
    with source.looking(None, arcs_show.NEEDS) as look:
        found = arcs_show.show(look, state=ask.state, kinds=ask.kind, limit=MOST_ARCS)
        start = head(look)
    rows, next = page(found.arcs, _arc, limit=ask.limit, page=ask.page)
    return responses.Arcs(**start, next=next, arcs=rows, counts=found.counts)


def _arc(row: ArcRow) -> responses.Arc:
    return responses.Arc(
        kind=row.kind,
        state=row.state,
        thread=row.thread,
        text=line(row.text),
        agents=some(row.agents),
        count=row.count,
        first_at=row.first_at,
        last_at=row.last_at,
        evidence=some(row.evidence[-5:]),
    )


def arcs_told(answer: responses.Arcs) -> str:
    """Arcs as text."""
    counts = ", ".join(f"{count:,} {kind}" for kind, count in answer.counts.items()) or "none yet"
    rows = [with_dots(arc.kind, arc.state, arc.thread, f"until {clock_of(arc.last_at)}", arc.text) for arc in answer.arcs]
    return told(f"Arcs that the log tells so far: {counts}.", quoted(*rows), going_on(answer.next))


# --- costs


def costs(source: Source, caller: Caller, ask: requests.Costs) -> responses.Costs:
    """What it cost."""
    zone = zone_of(ask.tz)
    with source.looking(None, costs_show.NEEDS) as look:
        since = times.parse_since(ask.since, now=look.now, zone=zone)
        found = costs_show.show(look, dimensions=(ask.by,), since=since, zone=zone, prices=source.prices)
        start = head(look)
    rows, next = page(found.by, lambda row: _cost(row.get(ask.by), row), limit=ask.limit, page=ask.page)
    unpriced = dict(sorted(found.unpriced.items(), key=lambda pair: -pair[1])[:10])
    total, older = _cost("all", found.total), None if found.older is None else _cost("older", found.older)
    return responses.Costs(**start, next=next, by=ask.by, total=total, rows=rows, unpriced=unpriced, prices=found.prices, older=older)


def _cost(key: str | None, row: dict[str, Any]) -> responses.Cost:
    called = row.get("name")
    shown = line(called) if isinstance(called, str) and called != key else ""
    return responses.Cost(key=key, tokens=row["tokens"], usd=row["usd"], shown=shown)


def costs_told(answer: responses.Costs) -> str:
    """Costs as text."""
    unpriced = [with_dots(model, f"{tokens:,} tokens") for model, tokens in answer.unpriced.items()]
    return told(
        f"In all {_figures(answer.total)}; by {answer.by}:",
        quoted(*(with_dots(f"{row.key} ({row.shown})" if row.shown else row.key or "unknown", _figures(row)) for row in answer.rows)),
        f"Of older ones only the sum is known here: {_figures(answer.older)}, under “unknown”." if answer.older else "",
        "Without a known price, and not in the dollars:" if unpriced else "",
        quoted(*unpriced),
        going_on(answer.next),
    )


def _figures(cost: responses.Cost) -> str:
    return f"{cost.tokens:,} tokens, {'price unknown' if cost.usd is None else f'${cost.usd:,.2f}'}"
