"""The fleet as cards: every agent, those that need a person first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fleetlore.server.types.common import AgentCard, Asking, Fleet
from fleetlore.server.view_cache import Look
from fleetlore.views import fleet as view
from fleetlore.views import names as names_view
from fleetlore.views.activity import FleetActivity
from fleetlore.views.agent_status_rules import AgentStanding
from fleetlore.views.cost_sums import sum_by_agent
from fleetlore.views.costs import CostAmount

NEEDS = ("fleet", "names", "pace", "costs")
"""The views that it is made of."""
ORDER: tuple[AgentStanding, ...] = ("needs you", "silent", "working", "idle", "ended")


def show(look: Look) -> Fleet:
    """All agents."""
    fleet: view.FleetState = look.states["fleet"]
    shown = names_view.all_display_names(look.states["names"])
    spent = sum_by_agent(look.states["costs"])
    stood = view.sort_by_standing(fleet, now=look.now)
    stood.sort(key=lambda pair: ORDER.index(pair[0]))
    cards = [_card(standing, agent, look, shown, spent.get(agent.name) or CostAmount()) for standing, agent in stood]
    asking = [Asking(mission=mission, text=ask.text, since=ask.since) for mission, ask in sorted(fleet.asking.items())]
    at_rest = sum(card.at_rest for card in cards)
    return Fleet(**look.head(), now=look.now, counts=_counts(stood, look.now), at_rest=at_rest, agents=cards, asking=asking)


def counts(look: Look) -> dict[str, int]:
    """How many agents stand how, without those at rest."""
    return _counts(view.sort_by_standing(look.states["fleet"], now=look.now), look.now)


def _counts(stood: Sequence[tuple[AgentStanding, view.FleetAgent]], now: datetime) -> dict[str, int]:
    found: dict[str, int] = dict.fromkeys(ORDER, 0)
    for standing, agent in stood:
        if not view.is_inactive(agent, standing, now):
            found[standing] += 1
    return found


def _card(standing: AgentStanding, agent: view.FleetAgent, look: Look, shown: dict[str, str], spent: CostAmount) -> AgentCard:
    pace: FleetActivity = look.states["pace"]
    lane = pace.lanes.get(agent.name)
    return AgentCard(
        name=agent.name,
        shown=shown.get(agent.name, agent.name),
        standing=standing,
        at_rest=view.is_inactive(agent, standing, look.now),
        since=agent.since,
        doing=agent.doing,
        kind=agent.kind,
        last_seen=agent.last_seen,
        task=agent.task,
        mission=agent.mission,
        goal=agent.goal,
        run=agent.run,
        parent=agent.parent,
        events=sum(agent.counts.values()),
        beats=[] if lane is None else list(lane.beats),
        tokens=spent.tokens,
        usd=spent.usd if spent.tokens or spent.pico else None,
        last_id=agent.last_id,
        last_position=agent.last_position,
    )
