"""`lore arcs`: the patterns in the log, one a line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import arguments, open_log, scopes, terminal, times
from fleetlore.errors import Invalid
from fleetlore.log.base import TOWN, check_scope

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.settings import Settings
    from fleetlore.views.patterns.model import Finding

_EXAMPLES = (
    ("lore arcs", "all of them; those that are still open come last"),
    ("lore arcs --since 1d", "of the last day; only that part of the log is read"),
    ("lore arcs --kind struggle_and_recovery --kind abandon_then_retry --since 1w", "two kinds"),
    ("lore arcs --scope mission:m1 --json | jq -r .kind | sort | uniq -c", "for programs: one JSON a line, with the ids of its events"),
)
_NOTES = """\
docs/patterns.md says what each kind means, and how often it was right on real recordings.
"""


def configure(parser: ArgumentParser) -> None:
    """Which patterns."""
    parser.add_argument("--scope", metavar="S", default=TOWN, help=arguments.SCOPE_HELP)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--since", metavar="WHEN", help="only those that ended or went on since: 2h, 3d or 1w ago, a day, or a time")
    which.add_argument("--all", action="store_true", help="all of them, as without it")
    parser.add_argument("--kind", metavar="K", action="append", default=[], help="a kind, such as solo_sprint; may be repeated")
    parser.add_argument("--open", action="store_true", help="only those that are still open")
    parser.add_argument("--now", metavar="TIME", help="the moment as of which something is open (the newest event's)")
    arguments.add_json(parser, "one JSON a line, with the ids of its events")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Find patterns and print them."""
    check_scope(args.scope)
    _check_kinds(args.kind)
    now = None if args.now is None else times.parse_time(args.now, now=clock.now())
    since = None if args.since is None else times.parse_time(args.since, now=now or clock.now())
    settings = open_log.settings_of(args)
    write = _write_json if args.json else _write_line
    with open_log.open_existing_log(args, settings=settings) as log:
        for finding in find_patterns(log, settings, args.scope, now=now, since=since):
            if (not args.kind or finding.kind in args.kind) and (finding.state == "open" or not args.open):
                write(finding)
    return 0


def _check_kinds(kinds: list[str]) -> None:
    from fleetlore.views.patterns.kinds import all_kinds, describe_unknown

    for kind in kinds:
        if kind not in all_kinds():
            raise Invalid(f"--kind: {describe_unknown(kind)}")


def find_patterns(
    log: BlockingRecorder, settings: Settings, scope: str = TOWN, *, now: datetime | None = None, since: datetime | None = None
) -> list[Finding]:
    """The patterns of a scope that ended or went on since a time: closed ones in the order of their end, then open ones."""
    from fleetlore.cli.fold import fold_log
    from fleetlore.views import time_ranges
    from fleetlore.views.patterns.book import sort_key

    resolved = scopes.resolve_scope(log, scope)
    if now is None:
        now = fold_log(log, time_ranges, "calendar").newest or clock.now()
    found = [*_find_in_threads(log, resolved, now, is_recent=since is not None), *_find_in_sessions(log, settings, resolved, now, since)]
    found = [finding for finding in found if (since is None or finding.last_at >= since) and finding.last_at <= now]
    found.sort(key=lambda finding: (finding.state == "open", *sort_key(finding)))
    return found


def _find_in_threads(log: BlockingRecorder, scope: str, now: datetime, *, is_recent: bool) -> list[Finding]:
    """Patterns in steps. What is recent comes from the saved fold; all of them, or those of a scope, from its events."""
    from fleetlore.cli.progress import bar_if_long
    from fleetlore.cli.sessions import open_outcomes
    from fleetlore.projections.patterns import make_patterns_view
    from fleetlore.projections.runner import Runner
    from fleetlore.projections.thread_events import read_selection
    from fleetlore.views.patterns import book

    if is_recent and scope == TOWN:
        with open_outcomes(log) as store, bar_if_long() as show:
            return list(book.find_patterns(Runner(log, make_patterns_view(), store).catch_up(show).state, now))
    state = book.PatternBook(is_bounded=False)
    with bar_if_long() as show:
        for done, event in enumerate(read_selection(log, scopes.select_events(log, scope))):
            if event.at is None or event.at <= now:
                book.apply(state, event)
            if done % 1000 == 999:
                show(done, 0)
    return list(book.find_patterns(state, now))


def _find_in_sessions(log: BlockingRecorder, settings: Settings, scope: str, now: datetime, since: datetime | None) -> list[Finding]:
    from fleetlore.cli.sessions import open_outcomes
    from fleetlore.projections.outcomes import OutcomeQuery, find_outcomes, runs_in
    from fleetlore.views.outcomes.rules import read_outcome_rules
    from fleetlore.views.patterns.across_sessions import LONGEST_BOUND, find_record_patterns

    wanted = OutcomeQuery(None if since is None else since - LONGEST_BOUND, None, runs_in(log, scope))
    with open_outcomes(log) as store:
        return find_record_patterns(find_outcomes(log, now=now, rules=read_outcome_rules(settings), wanted=wanted, store=store))


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
