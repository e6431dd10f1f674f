"""`lore arcs`: lists the patterns (arcs) found in the log, one per line."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import arguments, terminal, times
from fleetlore.log.base import TOWN, check_scope

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.views.patterns.model import Finding

_EXAMPLES = (
    ("lore arcs", "all of them; those that are still open come last"),
    ("lore arcs --since 1d", "of the last day; only that part of the log is read"),
    ("lore arcs --kind struggle_and_recovery --kind abandon_then_retry --since 1w", "two kinds"),
    (
        "lore arcs --scope mission:m1 --json | jq -r .kind | sort | uniq -c",
        "for programs: one JSON object per line, with the ids of its events",
    ),
)
_NOTES = """\
docs/patterns.md says what each kind means, and how often it was right on real recordings.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--scope", metavar="S", default=TOWN, help=arguments.SCOPE_HELP)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--since", metavar="WHEN", help="only those that ended or went on since: 2h, 3d or 1w ago, a day, or a time")
    which.add_argument("--all", action="store_true", help="all of them, as without it")
    parser.add_argument("--kind", metavar="K", action="append", default=[], help="a kind, such as solo_sprint; may be repeated")
    parser.add_argument("--open", action="store_true", help="only those that are still open")
    parser.add_argument("--now", metavar="TIME", help="the moment as of which something is open (the newest event's)")
    arguments.add_json(parser, "one JSON object per line, with the ids of its events")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Find patterns and print them."""
    from fleetlore.cli import operations
    from fleetlore.operations.arcs import FindPatterns, find_patterns
    from fleetlore.operations.table import find_operation

    check_scope(args.scope)
    now = None if args.now is None else times.parse_time(args.now, now=clock.now())
    since = None if args.since is None else times.parse_time(args.since, now=now or clock.now())
    write = _write_json if args.json else _write_line
    with operations.open_context(args, find_operation("patterns")) as context:
        wanted = FindPatterns(scope=args.scope, since=since, kind=args.kind, open=args.open, now=now)
        for finding in find_patterns(context, wanted).patterns:
            write(finding)
    return 0


def _write_json(finding: Finding) -> None:
    import msgspec

    from fleetlore.views.patterns.wording import describe_finding
    from fleetlore.views.thread_names import AS_THEY_ARE

    terminal.print_value({**msgspec.to_builtins(finding), "text": f"{describe_finding(finding, AS_THEY_ARE)}."})


def _write_line(finding: Finding) -> None:
    agents = terminal.sanitise_text(", ".join(finding.agents)) or "-"
    events = f"{finding.count:,} {'event' if finding.count == 1 else 'events'}"
    note = f"  ({terminal.sanitise_text(finding.note)})" if finding.note else ""
    thread = terminal.sanitise_text(finding.thread)
    terminal.print_line(f"{finding.state:<6}  {finding.kind:<21}  {thread}  {agents}  {_format_period(finding)}  {events}{note}")


def _format_period(finding: Finding) -> str:
    first, last = (at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z") for at in (finding.first_at, finding.last_at))
    return first if first == last else f"{first}/{last}"
