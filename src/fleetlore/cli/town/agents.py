"""`lore town list`: agents with state and current task."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import terminal
from fleetlore.cli.terminal import sanitise_text
from fleetlore.cli.town import commands
from fleetlore.cli.town import lines as town_lines
from fleetlore.cli.town.lines import BOLD, CALL, DIM, WARN

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from fleetlore.cli.town.lines import Cell, Line
    from fleetlore.views.town_state import Agent, TownState

HIDDEN_AFTER = timedelta(days=1)


# --- the list


def list_agents(args: Namespace) -> int:
    """List agents, those that need attention first."""
    with commands.open_town(args) as console:
        town, now = console.town(), clock.now()
    shown = sort_agents(town, now, everybody=args.all)
    if args.json:
        terminal.print_value({"town": console.name, "agents": shown})
        return 0
    town_lines.print_lines(agent_lines(town, shown, now))
    hidden = len(town.agents) - len(shown)
    if not town.agents:
        terminal.print_error("this town has no agents yet; add one with `lore town spawn NAME` and run it with `lore worker`")
    elif hidden:
        terminal.print_error(f"{hidden} more stopped more than a day ago; --all shows {'it' if hidden == 1 else 'them'}")
    return 0


def sort_agents(town: TownState, now: datetime, *, everybody: bool = True) -> list[Agent]:
    """Agents sorted by state and name, without long stopped ones unless `everybody`."""
    order = list(town_lines.AGENT_STYLES)
    shown = [agent for agent in town.agents.values() if everybody or not _is_long_stopped(agent, now)]
    return sorted(shown, key=lambda agent: (order.index(agent.state), agent.name))


def _is_long_stopped(agent: Agent, now: datetime) -> bool:
    return agent.state == "stopped" and agent.seen_at is not None and now - agent.seen_at > HIDDEN_AFTER


def agent_lines(town: TownState, agents: list[Agent], now: datetime, *, indent: int = 0) -> Iterator[Line]:
    """A table row for each agent."""
    return town_lines.align_rows([_agent_row(town, agent, now) for agent in agents], indent=indent, spare=(5, 3))


def _agent_row(town: TownState, agent: Agent, now: datetime) -> list[Cell]:
    waiting = len(town.inboxes.get(agent.name, ()))
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


def _activity_text(town: TownState, agent: Agent) -> str:
    task = town.tasks.get(agent.task or "")
    if task is not None:
        return f"{sanitise_text(task.id)}  {town_lines.in_a_line(task.title)}"
    if agent.queue:
        return f"next: {town_lines.join_names(agent.queue[:3])}"
    return town_lines.in_a_line(agent.reason) if agent.state not in ("idle", "working", "starting") else ""
