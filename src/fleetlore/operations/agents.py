"""The status of all agents, for terminals and programs, and their display names. `fleet.py` has what pages show."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta, Struct

from fleetlore.errors import UnknownName
from fleetlore.events.envelope import Event, is_name
from fleetlore.operations.context import OperationContext
from fleetlore.operations.request import MAX_NAME_CHARS, Request
from fleetlore.operations.responses import Stored
from fleetlore.operations.table import Argument
from fleetlore.views import fleet as view
from fleetlore.views import names as names_view
from fleetlore.views.agent_status_rules import AgentStanding
from fleetlore.views.session_status import Status, WaitingFor

# --- status


class Asking(Struct, kw_only=True):
    """A mission that asks for help."""

    mission: str
    text: str
    since: datetime


class ReadFleetStatus(Request, kw_only=True):
    """How long an agent may be quiet."""

    silent_after: Annotated[float, Meta(ge=0, description="seconds after which an agent at work counts as silent")] = (
        view.SILENT_AFTER.total_seconds()
    )


class AgentStatus(Struct, kw_only=True):
    """One agent, what it does, and the status of its newest session."""

    name: str
    shown: str
    """Its display name."""
    state: AgentStanding
    doing: str
    kind: str
    since: datetime | None
    last_seen: datetime | None
    task: str | None
    mission: str | None
    goal: str | None
    run: str | None
    session: str | None
    parent: str | None
    counts: dict[str, int]
    """Kind → its events."""
    status: Status | None
    waiting_for: WaitingFor | None
    question: str | None
    reason: str
    """What the status is known by."""
    disagreement: str
    """What another source says, if it says something else."""
    is_looping: bool
    """Whether it fails in the same way again and again."""
    is_clock_ahead: bool
    """Whether its newest event is from the future: the clock of its machine is wrong."""
    short: str
    """Its display name without what it works on."""
    is_inactive: bool
    """Whether it had no event for a day and needs nobody."""


class FleetStatus(Struct, kw_only=True):
    """All agents, those that need a person first."""

    town: str
    position: str | None
    now: datetime
    events: int
    agents: list[AgentStatus]
    asking: list[Asking]
    is_trimmed: bool
    """Whether the oldest events are gone."""
    dropped: int = 0
    """How many agents are not listed, because they were not seen for a week and there are very many."""


def read_fleet_status(context: OperationContext, request: ReadFleetStatus) -> FleetStatus:
    """Who needs a person, who works, who is silent."""
    with context.source.open_view("names") as (names, _):
        shown, short = names_view.all_display_names(names), names_view.all_short_names(names)
    try:
        silent_after = timedelta(seconds=request.silent_after)
    except OverflowError:
        silent_after = timedelta.max
    with context.source.open_view("fleet") as (fleet, _):
        now = context.now()
        return FleetStatus(
            town=context.town,
            position=fleet.position,
            now=now,
            events=fleet.events,
            agents=[
                _describe_status(fleet, standing, agent, now, shown=shown, short=short)
                for standing, agent in view.sort_by_standing(fleet, now=now, silent_after=silent_after)
            ],
            asking=[Asking(mission=name, text=ask.text, since=ask.since) for name, ask in fleet.asking.items()],
            is_trimmed=bool(fleet.trimmed_before),
            dropped=fleet.dropped,
        )


def _describe_status(
    fleet: view.FleetState,
    standing: AgentStanding,
    agent: view.FleetAgent,
    now: datetime,
    *,
    shown: dict[str, str],
    short: dict[str, str],
) -> AgentStatus:
    session = view.view_session(fleet, agent, now)
    same = ("name", "kind", "since", "last_seen", "task", "mission", "goal", "run", "session", "parent")
    return AgentStatus(
        **{name: getattr(agent, name) for name in same},
        shown=shown.get(agent.name, agent.name),
        short=short.get(agent.name, agent.name),
        state=standing,
        doing=view.describe_activity(agent, session),
        counts=dict(agent.counts),
        status=None if session is None else session.status,
        waiting_for=None if session is None else session.waiting_for,
        question=None if session is None else session.question or None,
        reason="" if session is None else session.reason,
        disagreement="" if session is None else session.disagreement,
        is_looping=session is not None and session.is_looping,
        is_clock_ahead=view.is_clock_ahead(agent, now),
        is_inactive=view.is_inactive(agent, standing, now),
    )


# --- display names


class NameAgent(Request, kw_only=True):
    """What to call an agent."""

    agent: Annotated[str, Meta(max_length=MAX_NAME_CHARS, description="which agent"), Argument(metavar="AGENT")]
    name: Annotated[str, Meta(max_length=MAX_NAME_CHARS, description='what to call it; "" removes it'), Argument(metavar="NAME")]


def name_agent(context: OperationContext, request: NameAgent) -> Stored:
    """Give an agent a display name, which everything that was and is to come shows."""
    agent = _find_agent(context, request.agent)
    stored = context.store([Event(kind="agent.named", actor=context.actor, agent=agent, data={"name": request.name.strip()})])
    with context.source.open_view("names") as (names, _):
        shown = names_view.display_name(names, agent)
    return Stored.from_events(f"{agent} is shown as {shown}" if shown != agent else f"{agent} is shown by its own name", stored)


def _find_agent(context: OperationContext, text: str) -> str:
    """The agent with this logged name, display name or unique prefix; an error with suggestions if there is none."""
    from fleetlore.projections import name_lookup

    if not is_name(text):
        raise UnknownName("agent", text, (), name_lookup.HINTS["agent"])
    try:
        return name_lookup.resolve_agent(context.log, text, lambda: context.source.snapshot(None, name_lookup.NEEDS))
    except UnknownName:
        with context.source.open_view("names") as (names, _):
            matches = sorted(agent for agent in names.agents if agent.startswith(text))
            if len(matches) == 1:
                return str(matches[0])
            if matches:
                raise name_lookup.ambiguous_name_error(names, "agent", text, matches) from None
        raise
