"""`lore town spawn`, `list`, and commands to agents: `interrupt`, `resume`, `close`, `kill`, `restart`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import terminal
from fleetlore.cli.terminal import sanitise
from fleetlore.cli.town import commands
from fleetlore.cli.town import lines as town_lines
from fleetlore.cli.town.lines import BOLD, CALL, DIM, WARN
from fleetlore.errors import Invalid
from fleetlore.town import commands as town_commands

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from fleetlore.cli.town.lines import Cell, Line
    from fleetlore.views.town_state import Agent, TownState

HIDDEN_AFTER = timedelta(days=1)


def spawn_agents(args: Namespace) -> int:
    """Add agents to the town: all or none."""
    if len(set(args.names)) < len(args.names):
        raise Invalid("a name was given twice; each agent needs its own")
    with commands.open_town(args, new=True) as console:
        stored = console.store_commands(
            lambda town: commands.merge_commands(
                [
                    town_commands.spawn_agent(
                        town,
                        name,
                        by=console.by,
                        roles=args.roles,
                        harness=args.harness,
                        parent=_find_parent(town, args.parent),
                        mode=args.mode,
                    )
                    for name in args.names
                ]
            ),
            why="to add agents",
        )
    return commands.print_results(args, stored)


def _find_parent(town: TownState, name: str | None) -> str | None:
    return None if name is None else town_commands.find_agent(town, name).name


def interrupt_agents(args: Namespace) -> int:
    """Pause agents; they keep their sessions."""
    return _control_agents(args, "interrupt", "to interrupt agents")


def resume_agents(args: Namespace) -> int:
    """Resume paused agents."""
    return _control_agents(args, "resume", "to resume agents")


def close_agents(args: Namespace) -> int:
    """Stop agents after their current tasks."""
    return _control_agents(args, "drain", "to close agents")


def kill_agents(args: Namespace) -> int:
    """Stop agents at once."""
    return _control_agents(args, "kill", "to kill agents")


def restart_agents(args: Namespace) -> int:
    """Make stopped agents available again."""
    return _control_agents(args, "restart", "to restart agents")


def _control_agents(args: Namespace, action: str, why: str) -> int:
    """Check all commands before the first is stored."""
    with commands.open_town(args) as console:
        stored = console.store_commands(
            lambda town: commands.merge_commands(
                [town_commands.control_agent(town, name, action, by=console.by, reason=args.reason) for name in dict.fromkeys(args.names)]
            ),
            why=why,
        )
    return commands.print_results(args, stored)


# --- the list


def list_agents(args: Namespace) -> int:
    """List agents, those that need attention first."""
    with commands.open_town(args) as console:
        town, now = console.town(), clock.now()
    shown = sort_agents(town, now, everybody=args.all)
    if args.json:
        terminal.out_value({"town": console.name, "agents": shown})
        return 0
    town_lines.print_lines(agent_lines(town, shown, now))
    hidden = len(town.agents) - len(shown)
    if not town.agents:
        terminal.err("this town has no agents yet; add one with `lore town spawn NAME` and run it with `lore worker`")
    elif hidden:
        terminal.err(f"{hidden} more stopped more than a day ago; --all shows {'it' if hidden == 1 else 'them'}")
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
        (sanitise(agent.name), BOLD),
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
        return f"{sanitise(task.id)}  {town_lines.in_a_line(task.title)}"
    if agent.queue:
        return f"next: {town_lines.join_names(agent.queue[:3])}"
    return town_lines.in_a_line(agent.reason) if agent.state not in ("idle", "working", "starting") else ""
