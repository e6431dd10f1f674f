"""`lore costs`: what the models cost, by agent, day, model, task, session, project or person. docs/costs.md describes the rules."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from fleetlore import clock
from fleetlore import settings as config
from fleetlore.cli import arguments, open_log, scopes, terminal
from fleetlore.log.base import TOWN, check_scope
from fleetlore.views.cost_sums import (
    COST_DIMENSIONS,
    RUN_DIMENSIONS,
    CostDimension,
    CostFilter,
    find_unpriced_models,
    restrict_spending,
    sum_by,
    sum_total,
)
from fleetlore.views.costs import CostAmount, Costs, Spending
from fleetlore.views.prices import Prices

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.cli.periods import Span
    from fleetlore.log.recorder import BlockingRecorder

FIELDS = ("input", "output", "cache_read", "cache_write")

_EXAMPLES = (
    ("lore costs", "every day, and the total"),
    ("lore costs --by agent --day today --tz Europe/Berlin", "who spent what today, as it is on clocks in Berlin"),
    ("lore costs --by model --since 7d", "the last seven days by model"),
    ("lore costs --by session --scope task:t7", "what one task cost, session by session"),
    ("lore costs --by project --json | jq '.by[] | [.project, .usd]'", "for programs"),
)
_NOTES = """\
Costs come from the source if stated, else from a dated price table; override prices with [prices]
in fleetlore.toml.
"""


class CostReportRow(NamedTuple):
    """Costs of one agent, day and so on, with its display name."""

    key: str | None
    name: str | None
    amount: CostAmount


class CostReport(NamedTuple):
    """Everything that `lore costs` shows."""

    dimension: CostDimension
    rows: list[CostReportRow]
    total: CostAmount
    unpriced: dict[str, int]
    prices: str
    """The date of the price table."""
    own: int
    """Number of models with prices set by the user."""
    is_part: bool
    """Whether only a scope or a range was asked for."""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--by", choices=COST_DIMENSIONS, default="day", help="what to add up by (day)")
    parser.add_argument("--scope", metavar="S", default=TOWN, help=arguments.SCOPE_HELP)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--day", metavar="DAY", help="one day: 2026-11-15, today or yesterday")
    which.add_argument("--since", metavar="WHEN", help="from then on: 30m, 2h, 3d or 1w ago, a day, or a time such as 2026-11-15T20:00Z")
    parser.add_argument("--tz", metavar="ZONE", default="UTC", help="the time zone of days, such as Europe/Berlin (UTC)")
    arguments.add_json(parser)
    parser.set_defaults(last=None, all=True)  # `span_of` reads them
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Add up the costs and print them."""
    check_scope(args.scope)
    settings = open_log.settings_of(args)
    view = Costs(Prices(settings.prices.value))
    own = len(settings.prices.value)
    open_log.drain_spool()
    path = open_log.find_file(settings)
    if args.scope == TOWN and settings.log.source == config.DEFAULT and path is not None and not os.path.exists(path):
        _print_report(_make_report(args, view, Spending(), own, {}), args)
        return 0
    with open_log.open_existing_log(args, settings=settings) as log:
        args.scope = scopes.resolve_scope(log, args.scope)
        spending, where = _select_spending(args, view, log)
        names = _display_names(log) if args.by == "agent" else {}
        _print_report(_make_report(args, view, spending, own, names, where), args)
    return 0


def _select_spending(args: Namespace, view: Costs, log: BlockingRecorder) -> tuple[Spending, CostFilter | None]:
    """The costs of the scope and range. Facts about a run come from the whole log, its replies only from the range and scope."""
    from fleetlore.cli.fold import fold_large, fold_log
    from fleetlore.cli.periods import span_of, zone_of

    span = span_of(args, zone_of(args.tz), clock.now())
    spending = fold_log(log, view, view.name)
    if spending.older and (args.by in RUN_DIMENSIONS or args.scope != TOWN or span.since is not None):
        spending = fold_large(log, view.unpruned, view.unpruned.name)  # the pruned view has details of the newest sessions only
    where = _scope_filter(args.scope)
    scope = TOWN if where is not None else args.scope
    if scope == TOWN and span.since is None:
        return spending, where
    return restrict_spending(spending, _fold_range(view.unpruned, log, scope, span)), where


def _scope_filter(scope: str) -> CostFilter | None:
    """A filter for tasks and runs, applied to the sums: most replies do not name their task."""
    kind, _, name = scope.partition(":")
    match kind:
        case "task":
            return lambda line: line.task == name
        case "run":
            return lambda line: line.session == name
    return None


def _fold_range(view: Costs, log: BlockingRecorder, scope: str, span: Span) -> Spending:
    spending = view.initial()
    for event in log.read(scope, kinds=("model.replied",), since=span.since):
        if span.until is None or (event.at is not None and event.at < span.until):
            spending = view.apply(spending, event)
    return spending


def _display_names(log: BlockingRecorder) -> dict[str, str]:
    from fleetlore.cli.fold import fold_log
    from fleetlore.views import names

    return names.all_display_names(fold_log(log, names, "names"))


def _make_report(
    args: Namespace, view: Costs, spending: Spending, own: int, names: dict[str, str], where: CostFilter | None = None
) -> CostReport:
    from fleetlore.cli.periods import zone_of

    sums = sum_by(spending, args.by, zone=zone_of(args.tz), where=where)
    rows = [CostReportRow(key, names.get(key or ""), amount) for key, amount in sums.items()]
    rows.sort(key=lambda row: row.key or "")
    if args.by != "day":
        rows.sort(key=lambda row: (row.amount.pico, row.amount.tokens), reverse=True)
    is_part = args.scope != TOWN or args.day is not None or args.since is not None
    return CostReport(args.by, rows, sum_total(spending, where), find_unpriced_models(spending, where), view.prices.date, own, is_part)


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
    return {dimension: row.key} | ({"name": row.name or row.key} if dimension == "agent" else {})


def _amount_fields(amount: CostAmount) -> dict[str, Any]:
    return {name: getattr(amount, name) for name in (*FIELDS, "usd")}
