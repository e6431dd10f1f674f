"""The fleet as cards: every agent, those that need a person first."""

from __future__ import annotations

from collections.abc import Sequence

from fleetlore.server.desk import Look
from fleetlore.server.shapes import AgentCard, Asking, Fleet
from fleetlore.views import fleet as view
from fleetlore.views import names as names_view
from fleetlore.views.costs import Amount
from fleetlore.views.costs_sums import by
from fleetlore.views.pace import Pace
from fleetlore.views.standings import Standing

NEEDS = ("fleet", "names", "pace", "costs")
"""The views that it is made of."""
ORDER: tuple[Standing, ...] = ("needs you", "silent", "working", "idle", "ended")


def show(look: Look) -> Fleet:
    """All agents."""
    fleet: view.Fleet = look.states["fleet"]
    shown = names_view.all_shown(look.states["names"])
    spent = by(look.states["costs"], "agent")
    pace: Pace = look.states["pace"]
    stood = view.in_order(fleet, now=look.now)
    stood.sort(key=lambda pair: ORDER.index(pair[0]))
    cards = [_card(standing, agent, shown, spent.get(agent.name) or Amount(), pace) for standing, agent in stood]
    asking = [Asking(mission=mission, text=ask.text, since=ask.since) for mission, ask in sorted(fleet.asking.items())]
    return Fleet(**look.head(), now=look.now, counts=_counts(stood), agents=cards, asking=asking)


def counts(look: Look) -> dict[str, int]:
    """How many agents stand how."""
    return _counts(view.in_order(look.states["fleet"], now=look.now))


def _counts(stood: Sequence[tuple[Standing, view.Agent]]) -> dict[str, int]:
    found: dict[str, int] = dict.fromkeys(ORDER, 0)
    for standing, _ in stood:
        found[standing] += 1
    return found


def _card(standing: Standing, agent: view.Agent, shown: dict[str, str], spent: Amount, pace: Pace) -> AgentCard:
    lane = pace.lanes.get(agent.name)
    return AgentCard(
        name=agent.name,
        shown=shown.get(agent.name, agent.name),
        standing=standing,
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
