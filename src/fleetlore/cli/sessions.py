"""`lore sessions`: what happened in each session, as outcome records."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from fleetlore.cli import arguments, terminal
from fleetlore.log.base import TOWN, check_scope

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator
    from datetime import datetime

    from fleetlore.views.outcomes.record import Outcome

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
    arguments.add_examples(parser, _EXAMPLES)


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
    from fleetlore.cli.operations import open_context
    from fleetlore.operations.sessions import ListSessions, find_sessions
    from fleetlore.operations.table import find_operation

    with open_context(args, find_operation("sessions")) as context:
        found = find_sessions(context, ListSessions(**read_range(args, context.now()), limit=None))
    for one in found:
        if args.json:
            terminal.print_value(one)
            continue
        for line in describe_session(one):
            terminal.print_line(line)
    if not found and not args.json:
        explain_nothing(args, "sessions")
    return 0


def explain_nothing(args: Namespace, what: str) -> None:
    """Say on standard error why a list is empty, and how to see more."""
    if has_period(args):
        terminal.print_error(f"No {what} found.")
    else:
        terminal.print_error(f"No {what} in the last {DAYS} days. `lore {what} --all` lists older ones, too.")


def has_period(args: Namespace) -> bool:
    """Whether the arguments name a period; without one, lists cover the last few days."""
    return args.all or args.since is not None or args.day is not None


def read_range(args: Namespace, now: datetime) -> dict[str, Any]:
    """Scope and period that the arguments ask for, as fields of a request; without a period, the last few days."""
    from fleetlore.cli.periods import Span, read_span, read_zone

    span = read_span(args, read_zone(args.tz), now) if has_period(args) else Span(since=now - timedelta(days=DAYS))
    scope = f"agent:{args.agent}" if args.agent else check_scope(args.scope)
    return {"scope": scope, "since": span.since, "until": span.until}


def describe_session(outcome: Outcome) -> Iterator[str]:
    """A session in two lines: when, state, who and where; then the headline."""
    when = outcome.ended.strftime("%Y-%m-%d %H:%M") if outcome.ended else "                "
    state = f"waiting for {outcome.waiting_for}" if outcome.waiting_for else outcome.status
    where = ", ".join(part for part in (outcome.person, outcome.repo, outcome.branch) if part)
    cost = f"${outcome.usd:.2f}" if outcome.usd else ""
    yield "  ".join(part for part in (when, outcome.session[:8], state, where, cost) if part)
    yield f"    {outcome.headline}"
