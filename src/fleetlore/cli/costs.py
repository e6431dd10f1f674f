"""`lore costs`: what the models cost, by agent, day, model, task, session, project or person. docs/costs.md describes the rules."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from fleetlore.cli import arguments, open_log, terminal
from fleetlore.log.base import TOWN, check_scope
from fleetlore.views.cost_sums import COST_DIMENSIONS, CostDimension
from fleetlore.views.costs import CostAmount
from fleetlore.views.prices import Prices

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.operations.costs import CostReport, CostReportRow

FIELDS = ("input", "output", "cache_read", "cache_write")

_EXAMPLES = (
    ("lore costs", "every day, and the total"),
    ("lore costs --by agent --day today --tz Europe/Berlin", "who spent what today, as it is on clocks in Berlin"),
    ("lore costs --by model --since 7d", "the last seven days by model"),
    ("lore costs --by month", "month by month; also week, pull_request"),
    ("lore costs --by session --scope task:t7", "what one task cost, session by session"),
    ("lore costs --by project --json | jq '.by[] | [.project, .usd]'", "for programs"),
)
_NOTES = """\
Costs come from the source if stated, else from a dated price table; override prices with [prices]
in fleetlore.toml.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--by", choices=COST_DIMENSIONS, default="day", help="what to add up by (day)")
    parser.add_argument("--scope", metavar="S", default=TOWN, help=arguments.SCOPE_HELP)
    period = parser.add_mutually_exclusive_group()
    period.add_argument("--day", metavar="DAY", help="one day: 2026-11-15, today or yesterday")
    period.add_argument("--since", metavar="WHEN", help="from then on: 30m, 2h, 3d or 1w ago, a day, or a time such as 2026-11-15T20:00Z")
    parser.add_argument("--tz", metavar="ZONE", default="UTC", help="the time zone of days, such as Europe/Berlin (UTC)")
    arguments.add_json(parser)
    parser.set_defaults(last=None, all=True)  # `span_of` expects these options, which this command does not have
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Add up the costs and print them."""
    from fleetlore.cli.operations import open_context
    from fleetlore.cli.periods import span_of, zone_of
    from fleetlore.cli.status import is_log_missing
    from fleetlore.operations.costs import CostReport, ReadCosts, report_costs
    from fleetlore.operations.table import find_operation

    check_scope(args.scope)
    settings = open_log.settings_of(args)
    open_log.drain_spool()
    if args.scope == TOWN and is_log_missing(settings):
        date, own_prices = Prices(settings.prices.value).date, len(settings.prices.value)
        is_limited = args.day is not None or args.since is not None
        _print_report(CostReport(args.by, [], CostAmount(), {}, date, own_prices, is_limited), args)
        return 0
    with open_context(args, find_operation("costs")) as context:
        span = span_of(args, zone_of(args.tz), context.now())
        _print_report(report_costs(context, ReadCosts(by=args.by, since=span.since, until=span.until, tz=args.tz), args.scope), args)
    return 0


def _print_report(report: CostReport, args: Namespace) -> None:
    from fleetlore.cli import costs_table

    if args.json:
        terminal.print_value(report_as_json(report))
    elif terminal.is_terminal(sys.stdout):
        from fleetlore.cli.status import make_console

        console = make_console()
        console.print(costs_table.render_table(report, columns=console.width))
    else:
        terminal.print_line(costs_table.render_plain(report))


def report_as_json(report: CostReport) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "total": _amount_fields(report.total),
        "by": [_row_key_fields(report.dimension, row) | _amount_fields(row.amount) for row in report.rows],
        "unpriced": report.unpriced,
        "prices": report.prices,
    }


def _row_key_fields(dimension: CostDimension, row: CostReportRow) -> dict[str, Any]:
    return {dimension: row.key} | ({"name": row.name or row.key} if dimension in ("agent", "session") else {})


def _amount_fields(amount: CostAmount) -> dict[str, Any]:
    return {name: getattr(amount, name) for name in (*FIELDS, "usd")}
