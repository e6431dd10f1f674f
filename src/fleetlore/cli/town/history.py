"""`lore town history`: print the events of a town, oldest first, and follow new ones."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from fleetlore.cli import terminal
from fleetlore.cli.drain_while_watching import drain_in_background
from fleetlore.cli.events import make_writer
from fleetlore.cli.town import commands
from fleetlore.errors import Invalid
from fleetlore.log.base import TOWN, matches_kind
from fleetlore.town import commands as town_commands
from fleetlore.town import mission_commands

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from fleetlore.cli.town.commands import TownConsole
    from fleetlore.events.envelope import Event

SHOWN_KINDS = ("town.*", "work.*", "control.*")


def show_history(args: Namespace) -> int:
    """Print the newest events, then follow with `--follow`."""
    if args.last < 0:
        raise Invalid("--last must be 0 or more")
    with commands.open_town(args) as console:
        scope, write = _resolve_scope(console, args), make_writer(args)
        head = console.log.head()
        newest = list(console.log.read(scope, kinds=SHOWN_KINDS, newest_first=True, limit=args.last)) if args.last else []
        for event in reversed(newest):
            write(event)
        terminal.flush_output()
        if args.follow:
            with suppress(KeyboardInterrupt), drain_in_background():  # Ctrl-C is the usual way to end it
                _follow_history(console, scope, write, max(newest[0].position or "" if newest else "", head or "") or None)
        elif not newest and args.last:
            terminal.print_error("the town has no events yet")
    return 0


def _follow_history(console: TownConsole, scope: str, write: Callable[[Event], None], after: str | None) -> None:
    for event in console.log.follow(scope, after=after):
        if matches_kind(event.kind, (*SHOWN_KINDS, "log.gap")):
            write(event)
            terminal.flush_output()


def _resolve_scope(console: TownConsole, args: Namespace) -> str:
    """The scope to show. An exact name on the log is accepted even if the town dropped it."""
    for name, value in (("agent", args.agent), ("mission", args.mission), ("task", args.task)):
        if value is None:
            continue
        with suppress(Invalid):  # not a valid scope: the lookup below reports it
            if console.log.head(f"{name}:{value}") is not None:
                return f"{name}:{value}"
        town = console.town()
        if name == "agent":
            return f"agent:{town_commands.find_agent(town, value).name}"
        return (
            f"mission:{mission_commands.find_mission(town, value).id}"
            if name == "mission"
            else f"task:{town_commands.find_task(town, value).id}"
        )
    return TOWN
