"""`lore status`: who needs you, who works, who has fallen silent. docs/status.md has the rules."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from fleetlore import clock
from fleetlore import settings as config
from fleetlore.cli import arguments, open_log, terminal
from fleetlore.cli.drain_while_watching import drain_in_background

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from rich.console import Console

    from fleetlore.operations.agents import FleetStatus, ReadFleetStatus
    from fleetlore.operations.context import OperationContext
    from fleetlore.settings import Settings

_EXAMPLES = (
    ("lore status", "all agents, those that need you first"),
    ("lore status --watch", "the same as a live screen: move, open, allow, deny, filter; q ends it"),
    ("lore status --silent-after 3m", "an agent at work counts as silent after three minutes without a sign of life"),
    ("lore status --json | jq '.agents[] | select(.state == \"needs you\")'", "for programs"),
)

TICK_SECONDS = 10.0
"""How often silence is looked for while nothing happens."""
_ONLY_TABLE = ("short", "is_inactive")
"""Fields that only the table needs."""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    arguments.add_json(parser, "print JSON, with exact times; with --watch one line whenever something changes")
    parser.add_argument("--watch", action="store_true", help="stay, and follow the log live")
    parser.add_argument("--all", action="store_true", help="also agents that have been idle or ended for more than a day")
    parser.add_argument("--silent-after", metavar="TIME", default="10m", help="how long an agent at work may be quiet (10m)")
    arguments.add_examples(parser, _EXAMPLES)


def run(args: Namespace) -> int:
    """Show the status once; with --watch whenever something changed."""
    from fleetlore.cli.operations import open_context
    from fleetlore.operations.agents import ReadFleetStatus, read_fleet_status
    from fleetlore.operations.table import find_operation

    request = ReadFleetStatus(silent_after=parse_duration_option(args.silent_after).total_seconds())
    settings = open_log.load_settings_for(args)
    is_new = is_log_missing(settings)
    open_log.drain_spool()
    if is_new and is_log_missing(settings) and not args.watch:
        _print_status(args, None)
        return 0
    with open_context(args, find_operation("status")._replace(creates_log=is_new)) as context:
        if not args.watch:
            _print_status(args, read_fleet_status(context, request))
            return 0
        try:
            with drain_in_background():
                return _watch_status(args, context, request)
        except KeyboardInterrupt:  # the usual way to end it
            return 0


def is_log_missing(settings: Settings) -> bool:
    """Whether this is the user's own log, and nothing was ever recorded; another log that is missing is a typing error."""
    path = open_log.find_file(settings)
    return settings.log.source == config.DEFAULT and path is not None and not os.path.exists(path)


def _print_status(args: Namespace, status: FleetStatus | None) -> None:
    """Print the status; `None` if there is no log yet."""
    from fleetlore.cli import status_table

    if args.json:
        terminal.print_value(_as_json(args, status))
    elif terminal.is_terminal(sys.stdout):
        console = make_console()
        console.print(status_table.render_page(status, everybody=args.all, columns=console.width))
    else:
        terminal.print_line(status_table.render_plain(status, everybody=args.all))


def _as_json(args: Namespace, status: FleetStatus | None) -> dict[str, Any]:
    if status is None:
        town = open_log.load_settings_for(args).town.value
        return {
            "town": town,
            "position": None,
            "now": clock.now(),
            "events": 0,
            "is_trimmed": False,
            "dropped": 0,
            "agents": [],
            "asking": [],
        }
    agents = [{name: getattr(agent, name) for name in agent.__struct_fields__ if name not in _ONLY_TABLE} for agent in status.agents]
    return {name: getattr(status, name) for name in ("town", "position", "now", "events", "is_trimmed", "dropped", "asking")} | {
        "agents": agents
    }


def _watch_status(args: Namespace, context: OperationContext, request: ReadFleetStatus) -> int:
    """Show it, and show it again whenever something changed."""
    from fleetlore.cli import status_table
    from fleetlore.cli.follow_with_clock import follow_batches
    from fleetlore.operations.agents import read_fleet_status

    def read_again() -> Iterator[FleetStatus]:
        status = read_fleet_status(context, request)
        yield status
        for _ in follow_batches(context.log, after=status.position, tick=TICK_SECONDS):
            yield read_fleet_status(context, request)

    if terminal.is_terminal(sys.stdout) and terminal.is_terminal(sys.stdin) and not args.json:
        from fleetlore.cli.status_screen import run_screen

        _print_status(args, run_screen(make_console(), context, request, everybody=args.all))  # the page goes with its screen
        return 0
    shown = None
    for status in read_again():
        # More than the clock, and more than a heartbeat.
        agents = sorted(
            (each.name, each.state, status_table.describe_doing(each), each.task or "", each.goal or "", each.mission or "")
            for each in status.agents
        )
        visible = [agents, sorted((each.mission, each.text) for each in status.asking)]
        if visible != shown:
            shown = visible
            _print_status(args, status)
            if not args.json:
                terminal.print_line("")
            terminal.flush_output()
    return 0


def parse_duration_option(text: str) -> timedelta:
    """A time such as `10m` or `1h 30m`."""
    from fleetlore.documents import durations

    try:
        return timedelta(microseconds=durations.parse_duration(text) / 1000)
    except OverflowError:
        return timedelta.max


def make_console() -> Console:
    """Standard output as rich sees it; respects NO_COLOR and TERM."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False, no_color=not terminal.has_colour(sys.stdout))
