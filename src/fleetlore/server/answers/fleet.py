"""The response of `/api/fleet`: a card for every agent, those that need a person first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fleetlore.operations.sources import ViewSnapshot
from fleetlore.server.types.common import AgentCard, Asking, Fleet
from fleetlore.views import fleet as view
from fleetlore.views import names as names_view
from fleetlore.views.activity import FleetActivity
from fleetlore.views.agent_status_rules import AgentStanding
from fleetlore.views.cost_sums import sum_by_agent
from fleetlore.views.costs import CostAmount

NEEDS = ("fleet", "names", "pace", "costs")
"""Views that the snapshot must contain."""
STANDING_ORDER: tuple[AgentStanding, ...] = ("needs you", "silent", "working", "idle", "ended")


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
    """Active agents by standing."""
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
