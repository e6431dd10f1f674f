"""`lore brief`: what was delivered, what went wrong, what to check, who needs you, and the bill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import arguments, open_log, scopes, terminal
from fleetlore.cli.sessions import add_range
from fleetlore.log.base import check_scope

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from datetime import datetime, tzinfo

    from fleetlore.cli.periods import Span
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.settings import Settings
    from fleetlore.story.brief import Brief
    from fleetlore.story.reading import ReadPeriod

SUMMARY = "sum up a day: what was delivered, what went wrong, what to check, who needs you"

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
    arguments.teach(parser, _EXAMPLES)


def run(args: Namespace) -> int:
    """Print the brief."""
    from fleetlore.story.brief_formats import FORMATS

    settings = open_log.settings_of(args)
    with open_log.open_existing_log(args, settings=settings) as log:
        brief = read_brief(args, log, settings, clock.now())
    written = FORMATS["json" if args.json else args.format](brief)
    for line in written.splitlines():
        terminal.out(line)
    return 0


def read_brief(args: Namespace, log: BlockingRecorder, settings: Settings, now: datetime) -> Brief:
    """The brief of the period that the arguments ask for; by default of the newest day with a session or a task."""
    from fleetlore.cli.periods import span_of, zone_of
    from fleetlore.story import reading

    zone = zone_of(args.tz)
    scope = scopes.resolve_scope(log, f"agent:{args.agent}" if args.agent else check_scope(args.scope))
    return reading.brief_of(read_records(log, settings, scope, span_of(args, zone, now), now, zone), zone)


def read_records(
    log: BlockingRecorder, settings: Settings, scope: str, span: Span, now: datetime, zone: tzinfo, newest_event: datetime | None = None
) -> ReadPeriod:
    """The records of a scope in a period, for the brief and the story."""
    from fleetlore.cli.progress import bar_if_long
    from fleetlore.cli.sessions import open_outcomes
    from fleetlore.projections.outcomes import OutcomeQuery, select_scope
    from fleetlore.story import reading
    from fleetlore.views.costs import Costs
    from fleetlore.views.prices import Prices

    with open_outcomes(log) as store, bar_if_long() as progress:
        return reading.read_records(
            log,
            now=now,
            zone=zone,
            costs=Costs(Prices(settings.prices.value)),
            wanted=select_scope(log, scope, OutcomeQuery(span.since, span.until)),
            store=store,
            newest_day=span.is_newest_day,
            newest_event=newest_event,
            progress=progress,
        )
