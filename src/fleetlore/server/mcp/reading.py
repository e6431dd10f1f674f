"""MCP tools for views of the log: `fleet`, `arcs` and `costs`. Each has a function for the response and one for its text."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fleetlore.operations import arcs, costs, fleet
from fleetlore.operations.agents import Asking
from fleetlore.operations.arcs import ArcRow
from fleetlore.operations.fleet import AgentCard
from fleetlore.operations.reading import Head, parse_time_zone
from fleetlore.operations.sources import ViewSnapshot, ViewSource
from fleetlore.server.mcp import requests, responses, times
from fleetlore.server.mcp.caller import Caller
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

MAX_ARCS = 1000
"""The newest that can be paged through."""
_MAX_HELP_BYTES = MAX_PAGE_BYTES // 4


def response_fields(snapshot: ViewSnapshot) -> dict[str, Any]:
    """The fields with which every response begins."""
    return {"as_of": snapshot.position, "reading": not snapshot.caught_up}


def head_fields(answer: Head) -> dict[str, Any]:
    """The same fields, of the answer of an operation."""
    return {"as_of": answer.as_of, "reading": not answer.caught_up}


def read_fields(source: ViewSource) -> dict[str, Any]:
    """The same fields, as of now."""
    with source.snapshot(None, ()) as snapshot:
        return response_fields(snapshot)


# --- fleet


def get_fleet(source: ViewSource, caller: Caller, request: requests.FleetRequest) -> responses.FleetResponse:
    """The tool `fleet`."""
    found = fleet.read_fleet(caller.open_context(source), fleet.ReadFleet())
    wanted = [
        card
        for card in found.agents
        if (card.standing == request.standing if request.standing is not None else request.everybody or not card.at_rest)
    ]
    agents, next = page_rows(wanted, _agent_row, limit=request.limit, page=request.page)
    asking = fill_rows(found.asking, _help_row, limit=20, max_bytes=_MAX_HELP_BYTES)
    return responses.FleetResponse(**head_fields(found), next=next, now=found.now, counts=found.counts, agents=agents, asking=asking)


def _agent_row(card: AgentCard) -> responses.AgentRow:
    same = ("name", "standing", "since", "last_seen", "task", "mission", "goal", "parent", "session", "status", "waiting_for")
    return responses.AgentRow(
        **{name: getattr(card, name) for name in same},
        shown="" if card.shown == card.name else clean_line(card.shown),
        doing=clean_line(card.doing),
        question=clean_line(card.question) if card.question else None,
    )


def _help_row(call: Asking) -> Asking:
    return replace(call, text=clean_line(call.text))


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
    found = arcs.list_arcs(caller.open_context(source), arcs.ListArcs(state=request.state, kind=request.kind, limit=MAX_ARCS))
    rows, next = page_rows(found.arcs, _shorten_arc, limit=request.limit, page=request.page)
    return responses.ArcsResponse(**head_fields(found), next=next, arcs=rows, counts=found.counts)


def _shorten_arc(row: ArcRow) -> ArcRow:
    return replace(
        row,
        title=clean_line(row.title),
        text=clean_line(row.text),
        note=clean_line(row.note),
        agents=first_names(row.agents),
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
