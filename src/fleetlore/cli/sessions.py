"""`lore sessions`: what happened in each session, as outcome records."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import arguments, open_log, scopes, terminal
from fleetlore.log.base import TOWN, check_scope

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from datetime import datetime

    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.projections.outcomes import OutcomeQuery
    from fleetlore.projections.store import ProjectionStore
    from fleetlore.settings import Settings
    from fleetlore.views.outcomes.record import Outcome

SUMMARY = "list sessions: what was delivered, which checks passed, what is open"

DAYS = 7
_EXAMPLES = (
    ("lore sessions", "the sessions of the last 7 days"),
    ("lore sessions --day yesterday", "the sessions of one day"),
    ("lore sessions --all --json | jq 'select(.delivered.pushed)'", "one JSON object per line, for programs"),
)


def configure(parser: ArgumentParser) -> None:
    """Which sessions, and how to show them."""
    add_range(parser)
    arguments.add_json(parser, "print one JSON object per line and session")
    arguments.teach(parser, _EXAMPLES)


def add_range(
    parser: ArgumentParser,
    *,
    all_help: str = f"all sessions, not only those of the last {DAYS} days",
    day_help: str = "active on one day: 2026-11-15, today or yesterday",
) -> None:
    """The options for a period, a scope and a time zone."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help=all_help)
    which.add_argument("--since", metavar="WHEN", help="active since: 30m, 2h, 3d or 1w ago, a day, or a time such as 2026-11-15T20:00Z")
    which.add_argument("--day", metavar="DAY", help=day_help)
    parser.add_argument("--scope", metavar="S", default=TOWN, help=arguments.SCOPE_HELP)
    parser.add_argument("--agent", metavar="NAME", help="only sessions of this agent")
    parser.add_argument("--tz", metavar="ZONE", default="UTC", help="the time zone of days, such as Europe/Berlin (UTC)")
    parser.set_defaults(last=None)


def run(args: Namespace) -> int:
    """Print the outcome of each session."""
    settings = open_log.settings_of(args)
    with open_log.open_existing_log(args, settings=settings) as log:
        now = clock.now()
        for record in read_outcomes(log, settings, select_sessions(args, log, now), now):
            show(record, as_json=args.json)
    return 0


def select_sessions(args: Namespace, log: BlockingRecorder, now: datetime) -> OutcomeQuery:
    """The sessions that the arguments ask for."""
    from fleetlore.cli.periods import Span, span_of, zone_of
    from fleetlore.projections.outcomes import OutcomeQuery, runs_in

    is_limited = args.all or args.since is not None or args.day is not None
    span = span_of(args, zone_of(args.tz), now) if is_limited else Span(since=now - timedelta(days=DAYS))
    scope = scopes.resolve_scope(log, f"agent:{args.agent}" if args.agent else check_scope(args.scope))
    return OutcomeQuery(span.since, span.until, runs_in(log, scope))


def open_outcomes(log: BlockingRecorder) -> AbstractContextManager[ProjectionStore | None]:
    """The store that keeps records; none for a short log, which is folded each time."""
    from fleetlore.projections.runner import SAVE_AFTER
    from fleetlore.projections.store import open_store

    info = log.info()
    store = open_store(info) if info.events >= SAVE_AFTER or info.trimmed_before is not None else None
    return store or nullcontext()


def read_outcomes(log: BlockingRecorder, settings: Settings, wanted: OutcomeQuery, now: datetime) -> Iterator[bytes]:
    """The records as JSON, the newest first."""
    from fleetlore.cli.progress import bar_if_long
    from fleetlore.projections.outcomes import list_outcomes
    from fleetlore.views.costs import Costs
    from fleetlore.views.prices import Prices

    with open_outcomes(log) as store, bar_if_long() as progress:
        yield from list_outcomes(log, now=now, costs=Costs(Prices(settings.prices.value)), wanted=wanted, store=store, progress=progress)


def show(record: bytes, *, as_json: bool) -> None:
    """Print one session."""
    if as_json:
        terminal.out_json(record)
        return
    import msgspec

    from fleetlore.views.outcomes.record import Outcome

    for line in describe(msgspec.json.decode(record, type=Outcome)):
        terminal.out(line)


def describe(outcome: Outcome) -> Iterator[str]:
    """A session in two lines: when, state, who and where; then the headline."""
    when = outcome.ended.strftime("%Y-%m-%d %H:%M") if outcome.ended else "                "
    state = f"waiting for {outcome.waiting_for}" if outcome.waiting_for else outcome.status
    where = ", ".join(part for part in (outcome.person, outcome.repo, outcome.branch) if part)
    cost = f"${outcome.usd:.2f}" if outcome.usd else ""
    yield "  ".join(part for part in (when, outcome.session[:8], state, where, cost) if part)
    yield f"    {outcome.headline}"
