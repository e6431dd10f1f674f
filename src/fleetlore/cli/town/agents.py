"""`lore town list`: agents with state and current task."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import terminal
from fleetlore.cli.terminal import sanitise_text
from fleetlore.cli.town import lines as town_lines
from fleetlore.cli.town.lines import BOLD, CALL, DIM, WARN

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from fleetlore.cli.town.lines import Cell, Line
    from fleetlore.operations.town_lists import TownAgents
    from fleetlore.views.town_state import Agent


def print_agents(response: TownAgents, args: Namespace) -> None:
    """List agents, those that need attention first."""
    town_lines.print_lines(agent_lines(response, response.agents, clock.now()))
    if not response.agents and not response.hidden:
        terminal.print_error("this town has no agents yet; add one with `lore town spawn NAME` and run it with `lore worker`")
    elif response.hidden:
        terminal.print_error(f"{response.hidden} more stopped more than a day ago; --all shows {'it' if response.hidden == 1 else 'them'}")


def agent_lines(town: TownAgents, agents: list[Agent], now: datetime, *, indent: int = 0) -> Iterator[Line]:
    """A table row for each agent."""
    return town_lines.align_rows([_agent_row(town, agent, now) for agent in agents], indent=indent, spare=(5, 3))


def _agent_row(town: TownAgents, agent: Agent, now: datetime) -> list[Cell]:
    waiting = town.unread.get(agent.name, 0)
    return [
        (sanitise_text(agent.name), BOLD),
        town_lines.state_cell(town_lines.AGENT_STYLES, agent.state),
        (f"asked to {_ACTION_NAMES.get(agent.wish, agent.wish)}" if agent.wish else "", CALL),
        (town_lines.join_names(agent.roles), ""),
        (f"✉ {waiting}" if waiting else "", WARN),
        (town_lines.format_age(agent.seen_at, now), DIM),
        (_activity_text(town, agent), ""),
    ]


_ACTION_NAMES = {"drain": "close"}


def _activity_text(town: TownAgents, agent: Agent) -> str:
    if agent.task in town.titles:
        return f"{sanitise_text(agent.task)}  {town_lines.in_a_line(town.titles[agent.task])}"
    if agent.queue:
        return f"next: {town_lines.join_names(agent.queue[:3])}"
    return town_lines.in_a_line(agent.reason) if agent.state not in ("idle", "working", "starting") else ""
