"""`lore town history`: print the events of a town, oldest first, and follow new ones."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fleetlore.cli import operations, terminal
from fleetlore.cli.drain_while_watching import drain_in_background
from fleetlore.cli.events import make_writer
from fleetlore.log.base import matches_kind
from fleetlore.operations.table import find_operation
from fleetlore.operations.town_lists import HISTORY_KINDS, ReadHistory, read_history

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_follow_arguments(parser: ArgumentParser) -> None:
    """How to print them."""
    parser.add_argument("--follow", "-f", action="store_true", help="follow new events")
    parser.add_argument("--utc", action="store_true", help="times in UTC")


def show_history(args: Namespace, values: dict[str, Any]) -> int:
    """Print the newest events, then follow with `--follow`."""
    request, write = operations.make_request(ReadHistory, values), make_writer(args)
    with operations.open_context(args, find_operation("town history")) as context:
        history = read_history(context, request)
        for event in history.events:
            write(event)
        terminal.flush_output()
        if args.follow:
            with suppress(KeyboardInterrupt), drain_in_background():  # Ctrl-C is the usual way to end it
                for event in context.log.follow(history.scope, after=history.position):
                    if matches_kind(event.kind, (*HISTORY_KINDS, "log.gap")):
                        write(event)
                        terminal.flush_output()
        elif not history.events and request.last:
            terminal.print_error("the town has no events yet")
    return 0
