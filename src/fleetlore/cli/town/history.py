"""`lore town history`: the facts of a town, oldest first, and what comes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from fleetlore.cli import terminal
from fleetlore.cli.drain_while_watching import draining
from fleetlore.cli.events import writer_of
from fleetlore.cli.town import commands
from fleetlore.errors import Invalid
from fleetlore.log.base import TOWN, matches_kind
from fleetlore.town import commands as town_commands
from fleetlore.town import mission_commands

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from fleetlore.cli.town.commands import Hall
    from fleetlore.events.envelope import Event

TOLD = ("town.*", "work.*", "control.*")


def history(args: Namespace) -> int:
    """The newest, and with --follow what comes."""
    if args.last < 0:
        raise Invalid("--last: a number from 0 on is needed")
    with commands.opened(args) as hall:
        scope, write = _scope(hall, args), writer_of(args)
        head = hall.log.head()
        newest = list(hall.log.read(scope, kinds=TOLD, newest_first=True, limit=args.last)) if args.last else []
        for event in reversed(newest):
            write(event)
        terminal.flush()
        if args.follow:
            with suppress(KeyboardInterrupt), draining():  # Ctrl-C is the usual way to end it
                _follow(hall, scope, write, max(newest[0].position or "" if newest else "", head or "") or None)
        elif not newest and args.last:
            terminal.err("nothing of a town was told yet")
    return 0


def _follow(hall: Hall, scope: str, write: Callable[[Event], None], after: str | None) -> None:
    for event in hall.log.follow(scope, after=after):
        if matches_kind(event.kind, (*TOLD, "log.gap")):
            write(event)
            terminal.flush()


def _scope(hall: Hall, args: Namespace) -> str:
    """What is asked for. One that the log names just so need not be known to the town any more."""
    for name, value in (("agent", args.agent), ("mission", args.mission), ("task", args.task)):
        if value is None:
            continue
        with suppress(Invalid):  # what is no scope is no name, and is told so below
            if hall.log.head(f"{name}:{value}") is not None:
                return f"{name}:{value}"
        town = hall.town()
        if name == "agent":
            return f"agent:{town_commands.find_agent(town, value).name}"
        return (
            f"mission:{mission_commands.find_mission(town, value).id}"
            if name == "mission"
            else f"task:{town_commands.find_task(town, value).id}"
        )
    return TOWN
