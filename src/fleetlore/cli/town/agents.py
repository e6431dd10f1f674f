"""`lore town spawn`, `list`, and what is asked of agents: `interrupt`, `resume`, `close`, `kill`, `restart`."""

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

LATELY = timedelta(days=1)


def spawn(args: Namespace) -> int:
    """Have agents join: all of them, or none."""
    if len(set(args.names)) < len(args.names):
        raise Invalid("a name is there twice; each agent needs one of its own")
    with commands.opened(args, new=True) as hall:
        done = hall.fulfil(
            lambda town: commands.together(
                [
                    town_commands.spawn_agent(
                        town, name, by=hall.by, roles=args.roles, harness=args.harness, parent=_parent(town, args.parent), mode=args.mode
                    )
                    for name in args.names
                ]
            ),
            why="to have agents join",
        )
    return commands.tell(args, done)


def _parent(town: TownState, name: str | None) -> str | None:
    return None if name is None else town_commands.find_agent(town, name).name


def interrupt(args: Namespace) -> int:
    """Break off, keep the session."""
    return _ask(args, "interrupt", "to interrupt agents")


def resume(args: Namespace) -> int:
    """Go on."""
    return _ask(args, "resume", "to have agents go on")


def close(args: Namespace) -> int:
    """Stop after the task."""
    return _ask(args, "drain", "to close agents")


def kill(args: Namespace) -> int:
    """Stop at once."""
    return _ask(args, "kill", "to kill agents")


def restart(args: Namespace) -> int:
    """Start anew."""
    return _ask(args, "restart", "to restart agents")


def _ask(args: Namespace, action: str, why: str) -> int:
    """Check every wish before the first is stored."""
    with commands.opened(args) as hall:
        done = hall.fulfil(
            lambda town: commands.together(
                [town_commands.control_agent(town, name, action, by=hall.by, reason=args.reason) for name in dict.fromkeys(args.names)]
            ),
            why=why,
        )
    return commands.tell(args, done)


# --- the list


def list_(args: Namespace) -> int:
    """Everybody, those that need somebody first."""
    with commands.opened(args) as hall:
        town, now = hall.town(), clock.now()
    shown = in_order(town, now, everybody=args.all)
    if args.json:
        terminal.out_value({"town": hall.name, "agents": shown})
        return 0
    town_lines.show(lines(town, shown, now))
    hidden = len(town.agents) - len(shown)
    if not town.agents:
        terminal.err("nobody lives here yet; `lore town spawn NAME` has an agent join, `lore worker` runs it")
    elif hidden:
        terminal.err(f"{hidden} more stopped over a day ago; --all shows {'it' if hidden == 1 else 'them'}")
    return 0


def in_order(town: TownState, now: datetime, *, everybody: bool = True) -> list[Agent]:
    """The agents in the order of being shown."""
    order = list(town_lines.AGENTS)
    shown = [agent for agent in town.agents.values() if everybody or not _is_long_gone(agent, now)]
    return sorted(shown, key=lambda agent: (order.index(agent.state), agent.name))


def _is_long_gone(agent: Agent, now: datetime) -> bool:
    return agent.state == "stopped" and agent.seen_at is not None and now - agent.seen_at > LATELY


def lines(town: TownState, agents: list[Agent], now: datetime, *, indent: int = 0) -> Iterator[Line]:
    """A row for each."""
    return town_lines.table([_row(town, agent, now) for agent in agents], indent=indent, spare=(5, 3))


def _row(town: TownState, agent: Agent, now: datetime) -> list[Cell]:
    waiting = len(town.inboxes.get(agent.name, ()))
    return [
        (sanitise(agent.name), BOLD),
        town_lines.state(town_lines.AGENTS, agent.state),
        (f"asked to {_WISHES.get(agent.wish, agent.wish)}" if agent.wish else "", CALL),
        (town_lines.names(agent.roles), ""),
        (f"✉ {waiting}" if waiting else "", WARN),
        (town_lines.seen(agent.seen_at, now), DIM),
        (_doing(town, agent), ""),
    ]


_WISHES = {"drain": "close"}


def _doing(town: TownState, agent: Agent) -> str:
    task = town.tasks.get(agent.task or "")
    if task is not None:
        return f"{sanitise(task.id)}  {town_lines.in_a_line(task.title)}"
    if agent.queue:
        return f"next: {town_lines.names(agent.queue[:3])}"
    return town_lines.in_a_line(agent.reason) if agent.state not in ("idle", "working", "starting") else ""
