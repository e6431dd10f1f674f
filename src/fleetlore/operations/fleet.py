"""The fleet as pages show it: a card for every agent, and story threads. `agents.py` has the status for terminals."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from fleetlore.operations.agents import Asking
from fleetlore.operations.context import OperationContext
from fleetlore.operations.reading import AsOfRequest, Head
from fleetlore.operations.sources import ViewSnapshot
from fleetlore.views import fleet as view
from fleetlore.views import names as names_view
from fleetlore.views import threads as threads_view
from fleetlore.views.activity import FleetActivity
from fleetlore.views.agent_status_rules import AgentStanding
from fleetlore.views.cost_sums import sum_by_agent
from fleetlore.views.costs import CostAmount
from fleetlore.views.session_status import Status, WaitingFor
from fleetlore.views.thread_names import Naming

STANDING_ORDER: tuple[AgentStanding, ...] = ("needs you", "silent", "working", "idle", "ended")


# --- all agents


class ReadFleet(AsOfRequest, kw_only=True):
    """The fleet."""


class AgentCard(Struct, kw_only=True):
    """One agent."""

    name: str
    shown: str
    standing: AgentStanding
    at_rest: bool
    """Whether it had no event for a day and needs nobody."""
    since: datetime | None
    doing: str
    kind: str
    last_seen: datetime | None
    task: str | None
    mission: str | None
    goal: str | None
    run: str | None
    session: str | None
    """Its newest session."""
    status: Status | None
    """The status of that session, as `/api/sessions` has it."""
    waiting_for: WaitingFor | None
    question: str | None
    """The open question that it waits with."""
    parent: str | None
    events: int
    beats: list[tuple[datetime, str]]
    """The newest, oldest first."""
    tokens: int
    usd: float | None
    last_id: str | None
    last_position: str | None


class Fleet(Head, kw_only=True):
    """All agents, those that need a person first."""

    now: datetime
    counts: dict[str, int]
    """By status, without inactive agents."""
    at_rest: int
    agents: list[AgentCard]
    asking: list[Asking]


def read_fleet(context: OperationContext, request: ReadFleet) -> Fleet:
    """A card for every agent, those that need a person first."""
    with context.source.snapshot(context.source.resolve_position(request.as_of), ("fleet", "names", "pace", "costs")) as snapshot:
        return build_fleet(snapshot)


def build_fleet(snapshot: ViewSnapshot) -> Fleet:
    """Cards of all agents."""
    fleet: view.FleetState = snapshot.states["fleet"]
    display_names = names_view.all_display_names(snapshot.states["names"])
    spent = sum_by_agent(snapshot.states["costs"])
    by_standing = view.sort_by_standing(fleet, now=snapshot.now)
    by_standing.sort(key=lambda pair: STANDING_ORDER.index(pair[0]))
    cards = [
        _agent_card(standing, agent, snapshot, display_names, spent.get(agent.name) or CostAmount()) for standing, agent in by_standing
    ]
    asking = [Asking(mission=mission, text=ask.text, since=ask.since) for mission, ask in sorted(fleet.asking.items())]
    at_rest = sum(card.at_rest for card in cards)
    return Fleet(
        **snapshot.head_fields(),
        now=snapshot.now,
        counts=_count_active(by_standing, snapshot.now),
        at_rest=at_rest,
        agents=cards,
        asking=asking,
    )


def count_by_standing(snapshot: ViewSnapshot) -> dict[str, int]:
    """Active agents by status."""
    return _count_active(view.sort_by_standing(snapshot.states["fleet"], now=snapshot.now), snapshot.now)


def _count_active(by_standing: Sequence[tuple[AgentStanding, view.FleetAgent]], now: datetime) -> dict[str, int]:
    counts: dict[str, int] = dict.fromkeys(STANDING_ORDER, 0)
    for standing, agent in by_standing:
        if not view.is_inactive(agent, standing, now):
            counts[standing] += 1
    return counts


def _agent_card(
    standing: AgentStanding, agent: view.FleetAgent, snapshot: ViewSnapshot, display_names: dict[str, str], spent: CostAmount
) -> AgentCard:
    activity: FleetActivity = snapshot.states["pace"]
    lane = activity.lanes.get(agent.name)
    session = view.view_session(snapshot.states["fleet"], agent, snapshot.now)
    return AgentCard(
        name=agent.name,
        shown=display_names.get(agent.name, agent.name),
        standing=standing,
        at_rest=view.is_inactive(agent, standing, snapshot.now),
        since=agent.since,
        doing=view.describe_activity(agent, session),
        kind=agent.kind,
        last_seen=agent.last_seen,
        task=agent.task,
        mission=agent.mission,
        goal=agent.goal,
        run=agent.run,
        session=agent.session if session is not None else None,
        status=session.status if session is not None else None,
        waiting_for=session.waiting_for if session is not None else None,
        question=(session.question or None) if session is not None else None,
        parent=agent.parent,
        events=sum(agent.counts.values()),
        beats=[] if lane is None else list(lane.beats),
        tokens=spent.tokens,
        usd=spent.usd if spent.tokens or spent.pico else None,
        last_id=agent.last_id,
        last_position=agent.last_position,
    )


# --- threads


class ListThreads(AsOfRequest, kw_only=True):
    """Threads."""

    state: Literal["open", "closed", "all"] = "all"
    limit: Annotated[int, Meta(ge=1, le=5000)] = 200


class ThreadRow(Struct, kw_only=True):
    """One story thread."""

    key: str
    title: str
    state: Literal["open", "closed"]
    mission: str | None
    agents: dict[str, int]
    counts: dict[str, int]
    first_at: datetime | None
    last_at: datetime | None
    events: int
    stalled_seconds: float | None


class Threads(Head, kw_only=True):
    """Threads, the most recently active first."""

    threads: list[ThreadRow]
    total: int


def list_threads(context: OperationContext, request: ListThreads) -> Threads:
    """Story threads in a state, the most recently active first, and their total number."""
    with context.source.snapshot(context.source.resolve_position(request.as_of), ("threads", "names")) as snapshot:
        all_threads: threads_view.ThreadsState = snapshot.states["threads"]
        threads = [thread for thread in all_threads.threads.values() if request.state in ("all", thread.state)]
        threads.sort(key=lambda thread: (thread.last or threads_view.OLDEST_STAMP, thread.key), reverse=True)
        naming = snapshot.naming
        dropped = 0 if request.state == "open" else all_threads.dropped
        return Threads(
            **snapshot.head_fields(),
            threads=[_thread_row(thread, snapshot, naming) for thread in threads[: request.limit]],
            total=len(threads) + dropped,
        )


def _thread_row(thread: threads_view.StoryThread, snapshot: ViewSnapshot, naming: Naming) -> ThreadRow:
    silence = threads_view.stall_duration(thread, snapshot.now)
    return ThreadRow(
        key=thread.key,
        title=naming.title(thread.key),
        state=thread.state,
        mission=thread.mission,
        agents=dict(thread.agents),
        counts=dict(thread.counts),
        first_at=thread.first_at,
        last_at=None if thread.last is None else thread.last[0],
        events=thread.events,
        stalled_seconds=None if silence is None else silence.total_seconds(),
    )
