"""`lore events`: print events, oldest first, and follow new ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fleetlore.cli import arguments, terminal, times
from fleetlore.cli.drain_while_watching import drain_in_background
from fleetlore.cli.main import UsageError
from fleetlore.errors import Invalid
from fleetlore.events import codec
from fleetlore.log.base import check_scope, matches_kind

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.operations.context import OperationContext

DEFAULT_LAST = 20
_EXAMPLES = (
    ("lore events", f"the newest {DEFAULT_LAST}"),
    ("lore events --scope agent:ada --since 2h", "all of an agent's events of the last two hours"),
    ("lore events --kind 'tool.*' --kind model.failed --last 100", "the newest hundred of some kinds"),
    ("lore events --follow", "the newest, and then what comes; Ctrl-C ends it"),
    ("lore events --last 1 --kind tool.returned --json --whole", "a tool's output, whole"),
    ("lore events --json | jq -r .kind | sort | uniq -c", "for programs: one JSON object per line, with its position"),
)
_NOTES = f"""\
Without --all, --last or --since the newest {DEFAULT_LAST} are shown; `--json` in a pipe prints everything, unless it follows.
Times are local unless --utc says otherwise; in JSON they are always UTC. NO_COLOR is honoured.
{arguments.SCOPE_NOTE}
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    arguments.add_selection(parser)
    parser.add_argument("--last", metavar="N", type=int, help=f"only the newest N (default: {DEFAULT_LAST}, unless --since or --all)")
    parser.add_argument("--all", action="store_true", help="everything")
    parser.add_argument("--follow", "-f", action="store_true", help="follow new events")
    parser.add_argument("--whole", action="store_true", help="with --json: texts that were cut, whole, as far as the log keeps them")
    parser.add_argument("--utc", action="store_true", help="times in UTC")
    arguments.add_json(parser, "one JSON object per line: the canonical event and its position")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Print stored events, then follow with `--follow`."""
    if args.last is not None and args.last < 0:
        raise Invalid("--last must be 0 or more")
    if args.last is not None and args.all:
        raise UsageError("--last and --all do not go together; give one")
    if args.whole and not args.json:
        raise Invalid("--whole needs --json: a line on a terminal has no room for long texts")
    check_scope(args.scope)
    try:
        _print_events(args, times.parse_since(args.since))
    except KeyboardInterrupt:
        if not args.follow:
            raise
    return 0


def _print_events(args: Namespace, since: datetime | None) -> None:
    from fleetlore.cli.operations import open_context
    from fleetlore.operations.sources import resolve_scope
    from fleetlore.operations.table import find_operation

    write = make_writer(args)
    operation = find_operation("events")
    with open_context(args, operation._replace(creates_log=args.follow)) as context:
        log = context.log
        args.scope = resolve_scope(context.source, args.scope, may_be_new=args.follow)
        if args.whole:
            write_event, write = write, lambda event: write_event(log.restore_whole(event))
        head = log.head()
        last_position = _write_events(_read_past(context, args, since), write)
        if args.follow:
            with drain_in_background():
                _follow_events(log, args, since, write, after=max(last_position, head or "") or None)
        else:
            _hint_at_more(log, args, last_position)


def _read_past(context: OperationContext, args: Namespace, since: datetime | None) -> Iterator[Event]:
    from fleetlore.operations.events import ListEvents, find_events

    wanted = ListEvents(scope=args.scope, kind=args.kind, since=since, limit=None, order="oldest")
    is_for_program = args.json and not terminal.is_terminal(sys.stdout) and not args.follow
    if args.last is None and (args.all or since is not None or is_for_program):
        return iter(find_events(context, wanted, may_be_new=args.follow))
    limit = DEFAULT_LAST if args.last is None else args.last
    if limit == 0:
        return iter(())
    return reversed(list(find_events(context, replace(wanted, limit=limit, order="newest"), may_be_new=args.follow)))


def _write_events(events: Iterator[Event], write: Callable[[Event], None]) -> str:
    """Write events; returns the highest position."""
    position = ""
    for event in events:
        write(event)
        position = max(position, event.position or "")
    terminal.flush_output()
    return position


def _follow_events(
    log: BlockingRecorder, args: Namespace, since: datetime | None, write: Callable[[Event], None], *, after: str | None
) -> None:
    for event in log.follow(args.scope, after=after):
        is_wanted = matches_kind(event.kind, args.kind) and (since is None or event.at is None or event.at >= since)
        if is_wanted or event.kind == "log.gap":
            write(event)
            terminal.flush_output()


def make_writer(args: Namespace) -> Callable[[Event], None]:
    """A function that prints an event: as JSON, for a terminal, or in plain columns."""
    if args.json:
        return lambda event: terminal.print_json(codec.encode_with_position(event))
    from fleetlore.cli.event_lines import PlainEventLines, TerminalEventLines

    zone = UTC if args.utc else None
    if terminal.is_terminal(sys.stdout):
        formatter: PlainEventLines | TerminalEventLines = TerminalEventLines(
            zone, width=terminal.terminal_width(sys.stdout), colour=terminal.has_colour(sys.stdout)
        )
    else:
        formatter = PlainEventLines(zone)
    return lambda event: terminal.print_line(formatter.format_line(event))


def _hint_at_more(log: BlockingRecorder, args: Namespace, last_position: str) -> None:
    """On a terminal, tell the user if there are more events, or none at all."""
    if args.json or not terminal.is_terminal(sys.stdout):
        return
    if not last_position and args.last != 0:
        terminal.print_error("no such events yet")
    elif args.last is None and not args.all and args.since is None and _has_more(log, args):
        terminal.print_error(f"the newest {DEFAULT_LAST} are shown; --all shows everything, --last N more")


def _has_more(log: BlockingRecorder, args: Namespace) -> bool:
    return sum(1 for _ in log.read(args.scope, kinds=args.kind, limit=DEFAULT_LAST + 1)) > DEFAULT_LAST
