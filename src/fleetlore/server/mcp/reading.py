"""MCP tools for views of the log: `fleet`, `arcs` and `costs`. Each has a function for the response and one for its text."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fleetlore.errors import Invalid
from fleetlore.operations import costs
from fleetlore.operations.reading import Head, parse_time_zone
from fleetlore.operations.sources import ViewSnapshot, ViewSource
from fleetlore.server.answers import arcs as arc_answers
from fleetlore.server.answers import fleet as fleet_answers
from fleetlore.server.mcp import requests, responses, times
from fleetlore.server.mcp.sanitise import (
    MAX_PAGE_BYTES,
    clean_line,
    fill_rows,
    first_names,
    format_time,
    join_fields,
    join_parts,
    next_page_hint,
    page_rows,
    quote_lines,
)
from fleetlore.server.mcp.sources import Caller
from fleetlore.server.types.common import ArcRow
from fleetlore.views import fleet as fleet_view
from fleetlore.views import names as names_view
from fleetlore.views.agent_status_rules import AgentStanding
from fleetlore.views.patterns.kinds import all_kinds, describe_unknown
from fleetlore.views.session_status import SessionView

MAX_ARCS = 1000
"""The newest that can be paged through."""
_MAX_HELP_BYTES = MAX_PAGE_BYTES // 4


def response_fields(snapshot: ViewSnapshot) -> dict[str, Any]:
    """The fields with which every response begins."""
    return {"as_of": snapshot.position, "reading": not snapshot.caught_up}


def head_fields(answer: Head) -> dict[str, Any]:
    """The same fields, of the answer of an operation."""
    return {"as_of": answer.as_of, "reading": not answer.caught_up}


# --- fleet


def get_fleet(source: ViewSource, caller: Caller, request: requests.FleetRequest) -> responses.FleetResponse:
    """The tool `fleet`."""
    with source.snapshot(None, ("fleet", "names")) as snapshot:
        state: fleet_view.FleetState = snapshot.states["fleet"]
        display_names = names_view.all_display_names(snapshot.states["names"])
        by_standing = [
            pair for pair in fleet_view.sort_by_standing(state, now=snapshot.now) if _matches_agent(*pair, request, snapshot.now)
        ]
        by_standing.sort(key=lambda pair: fleet_answers.STANDING_ORDER.index(pair[0]))
        agents, next = page_rows(
            by_standing,
            lambda pair: _agent_row(*pair, fleet_view.view_session(state, pair[1], snapshot.now), display_names),
            limit=request.limit,
            page=request.page,
        )
        help_calls = fill_rows(sorted(state.asking.items()), lambda pair: _help_row(*pair), limit=20, max_bytes=_MAX_HELP_BYTES)
        return responses.FleetResponse(
            **response_fields(snapshot),
            next=next,
            now=snapshot.now,
            counts=fleet_answers.count_by_standing(snapshot),
            agents=agents,
            asking=help_calls,
        )


def _matches_agent(standing: AgentStanding, agent: fleet_view.FleetAgent, request: requests.FleetRequest, now: datetime) -> bool:
    if request.standing is not None:
        return standing == request.standing
    return request.everybody or not fleet_view.is_inactive(agent, standing, now)


def _agent_row(
    standing: AgentStanding, agent: fleet_view.FleetAgent, session: SessionView | None, display_names: dict[str, str]
) -> responses.AgentRow:
    display_name = display_names.get(agent.name, agent.name)
    return responses.AgentRow(
        name=agent.name,
        standing=standing,
        shown="" if display_name == agent.name else clean_line(display_name),
        doing=clean_line(fleet_view.describe_activity(agent, session)),
        since=agent.since,
        last_seen=agent.last_seen,
        task=agent.task,
        mission=agent.mission,
        goal=agent.goal,
        parent=agent.parent,
        session=agent.session if session is not None else None,
        status=session.status if session is not None else None,
        waiting_for=session.waiting_for if session is not None else None,
        question=clean_line(session.question) if session is not None and session.question else None,
    )


def _help_row(mission: str, call: fleet_view.OpenHelpCall) -> responses.HelpCallRow:
    return responses.HelpCallRow(mission=mission, text=clean_line(call.text), since=call.since)


def render_fleet(response: responses.FleetResponse) -> str:
    """The fleet as text."""
    counts = ", ".join(f"{count} {standing}" for standing, count in response.counts.items() if count) or "nobody is about"
    asking = [f"mission {clean_line(each.mission)} asks for help since {format_time(each.since)} · {each.text}" for each in response.asking]
    return join_parts(
        f"The fleet at {format_time(response.now)}: {counts}.",
        quote_lines(*map(clean_line, asking), *map(_render_agent_row, response.agents)),
        next_page_hint(response.next),
    )


def _render_agent_row(agent: responses.AgentRow) -> str:
    since = f"since {format_time(agent.since)}" if agent.since else None
    name = f"{agent.name} ({agent.shown})" if agent.shown else agent.name
    places = [f"{kind} {value}" for kind in ("task", "mission", "goal", "parent") if (value := getattr(agent, kind))]
    waits = f"waiting for {agent.waiting_for}" if agent.waiting_for else None
    return join_fields(name, agent.standing, waits, since, *places, agent.doing)


# --- arcs


def list_arcs(source: ViewSource, caller: Caller, request: requests.ArcsRequest) -> responses.ArcsResponse:
    """The tool `arcs`; `Invalid` for an unknown kind."""
    for kind in request.kind:
        if kind not in all_kinds():
            raise Invalid(f"kind: {describe_unknown(kind)}")
    sessions = arc_answers.read_session_patterns(source, None)
    with source.snapshot(None, arc_answers.NEEDS) as snapshot:
        found = arc_answers.build_arcs(snapshot, sessions, state=request.state, kinds=request.kind, limit=MAX_ARCS)
        head = response_fields(snapshot)
    rows, next = page_rows(found.arcs, _arc_summary, limit=request.limit, page=request.page)
    return responses.ArcsResponse(**head, next=next, arcs=rows, counts=found.counts)


def _arc_summary(row: ArcRow) -> responses.ArcSummary:
    return responses.ArcSummary(
        kind=row.kind,
        state=row.state,
        thread=row.thread,
        text=clean_line(row.text),
        agents=first_names(row.agents),
        count=row.count,
        first_at=row.first_at,
        last_at=row.last_at,
        evidence=first_names(row.evidence[-5:]),
    )


def render_arcs(response: responses.ArcsResponse) -> str:
    """Patterns as text."""
    counts = ", ".join(f"{count:,} {kind}" for kind, count in response.counts.items()) or "none yet"
    rows = [join_fields(arc.kind, arc.state, arc.thread, f"until {format_time(arc.last_at)}", arc.text) for arc in response.arcs]
    return join_parts(f"Patterns found so far: {counts}.", quote_lines(*rows), next_page_hint(response.next))


# --- costs


def get_costs(source: ViewSource, caller: Caller, request: requests.CostsRequest) -> responses.CostsResponse:
    """The tool `costs`."""
    since = times.parse_since(request.since, now=source.now(), zone=parse_time_zone(request.tz))
    found = costs.read_costs(caller.open_context(source), costs.ReadCosts(by=request.by, since=since, tz=request.tz))
    rows, next = page_rows(found.by, lambda row: _cost_row(row.get(request.by), row), limit=request.limit, page=request.page)
    unpriced = dict(sorted(found.unpriced.items(), key=lambda pair: -pair[1])[:10])
    total, older = _cost_row("all", found.total), None if found.older is None else _cost_row("older", found.older)
    return responses.CostsResponse(
        **head_fields(found), next=next, by=request.by, total=total, rows=rows, unpriced=unpriced, prices=found.prices, older=older
    )


def _cost_row(key: str | None, row: dict[str, Any]) -> responses.CostRow:
    name = row.get("name")
    shown = clean_line(name) if isinstance(name, str) and name != key else ""
    return responses.CostRow(key=key, tokens=row["tokens"], usd=row["usd"], shown=shown)


def render_costs(response: responses.CostsResponse) -> str:
    """Costs as text."""
    unpriced = [join_fields(model, f"{tokens:,} tokens") for model, tokens in response.unpriced.items()]
    return join_parts(
        f"In all {_render_amount(response.total)}; by {response.by}:",
        quote_lines(
            *(join_fields(f"{row.key} ({row.shown})" if row.shown else row.key or "unknown", _render_amount(row)) for row in response.rows)
        ),
        f"Of older ones only the sum is known here: {_render_amount(response.older)}, under “unknown”." if response.older else "",
        "Without a known price, and not in the dollars:" if unpriced else "",
        quote_lines(*unpriced),
        next_page_hint(response.next),
    )


def _render_amount(cost: responses.CostRow) -> str:
    return f"{cost.tokens:,} tokens, {'price unknown' if cost.usd is None else f'${cost.usd:,.2f}'}"
