"""`lore brief`: what was delivered, what went wrong, what to check, who needs you, and the bill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli import arguments, terminal
from fleetlore.cli.sessions import add_range
from fleetlore.log.base import check_scope

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_EXAMPLES = (
    ("lore brief", "the newest day with sessions"),
    ("lore brief --day yesterday --format markdown", "yesterday, for a wiki page or an issue"),
    ("lore brief --since 1d --format chat", "the last 24 hours, as a short message"),
)


def configure(parser: ArgumentParser) -> None:
    """Which period, and how to write it."""
    add_range(parser, all_help="everything", day_help="one day: 2026-11-15, today or yesterday (default: the newest day with sessions)")
    parser.add_argument("--format", choices=("text", "markdown", "html", "json", "chat"), default="text", help="how to write it (text)")
    arguments.add_json(parser, "the same as --format json")
    arguments.add_examples(parser, _EXAMPLES)


def run(args: Namespace) -> int:
    """Print the brief; by default of the newest day with a session or a task."""
    from fleetlore.cli.operations import open_context
    from fleetlore.cli.periods import read_span, read_zone
    from fleetlore.operations.periods import ReadBrief, make_brief
    from fleetlore.operations.table import find_operation
    from fleetlore.story.brief_formats import FORMATS, write_page

    zone = read_zone(args.tz)
    scope = f"agent:{args.agent}" if args.agent else check_scope(args.scope)
    with open_context(args, find_operation("brief")) as context:
        span = read_span(args, zone, context.now())
        brief = make_brief(context, ReadBrief(scope=scope, since=span.since, until=span.until, all=args.all, tz=args.tz))
    format = "json" if args.json else args.format
    written = write_page(brief) if format == "html" else FORMATS[format](brief)
    for line in written.splitlines():
        terminal.print_line(line)
    return 0
