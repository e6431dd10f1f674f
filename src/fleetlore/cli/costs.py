"""`lore costs`: what the models cost, by agent, day, model, task, session, project or person. docs/costs.md describes the rules.

A table on a terminal, aligned text in a pipe. Texts from the log are sanitised.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from fleetlore.cli import arguments, open_log, terminal
from fleetlore.cli.terminal import sanitise_text
from fleetlore.log.base import TOWN, check_scope
from fleetlore.views.cost_sums import CODE_DIMENSIONS, COST_DIMENSIONS, CodeDimension, CostDimension
from fleetlore.views.costs import CostAmount
from fleetlore.views.prices import Prices

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from rich.console import Group

    from fleetlore.operations.costs import CostReport, CostReportRow
    from fleetlore.views.costs import CostAmount

FIELDS = ("input", "output", "cache_read", "cache_write")

_EXAMPLES = (
    ("lore costs", "every day, and the total"),
    ("lore costs --by agent --day today --tz Europe/Berlin", "who spent what today, in Berlin time"),
    ("lore costs --by model --since 7d", "the last seven days by model"),
    ("lore costs --by file --scope run:4f9d2c1e", "what each file cost; also commit, pr"),
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
    parser.add_argument("--by", choices=(*COST_DIMENSIONS, *CODE_DIMENSIONS, "pr"), default="day", help="what to group by (day)")
    parser.add_argument("--scope", metavar="S", default=TOWN, help=arguments.SCOPE_HELP)
    period = parser.add_mutually_exclusive_group()
    period.add_argument("--day", metavar="DAY", help="one day: 2026-11-15, today or yesterday")
    period.add_argument("--since", metavar="WHEN", help="from then on: 30m, 2h, 3d or 1w ago, a day, or a time such as 2026-11-15T20:00Z")
    parser.add_argument("--tz", metavar="ZONE", default="UTC", help="the time zone of days, such as Europe/Berlin (UTC)")
    arguments.add_json(parser)
    parser.set_defaults(last=None, all=True)  # `read_span` expects these options, which this command does not have
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Add up the costs and print them."""
    from fleetlore.cli.operations import open_context
    from fleetlore.cli.periods import read_span, read_zone
    from fleetlore.cli.status import is_log_missing
    from fleetlore.operations.costs import CostReport, ReadCosts, report_costs
    from fleetlore.operations.table import find_operation

    check_scope(args.scope)
    settings = open_log.load_settings_for(args)
    open_log.drain_spool()
    if args.scope == TOWN and is_log_missing(settings):
        date, own_prices = Prices(settings.prices.value).date, len(settings.prices.value)
        is_limited = args.day is not None or args.since is not None
        _print_report(CostReport(args.by, [], CostAmount(), {}, date, own_prices, is_limited), args)
        return 0
    with open_context(args, find_operation("costs")) as context:
        span = read_span(args, read_zone(args.tz), context.now())
        _print_report(
            report_costs(
                context,
                ReadCosts(by="pull_request" if args.by == "pr" else args.by, since=span.since, until=span.until, tz=args.tz),
                args.scope,
            ),
            args,
        )
    return 0


def _print_report(report: CostReport, args: Namespace) -> None:
    if args.json:
        terminal.print_value(report_as_json(report))
    elif terminal.is_terminal(sys.stdout):
        from fleetlore.cli.status import make_console

        console = make_console()
        console.print(render_table(report, columns=console.width))
    else:
        terminal.print_line(render_plain(report))


def report_as_json(report: CostReport) -> dict[str, Any]:
    """The report as a dict, for `--json`."""
    return {
        "total": _amount_fields(report.total),
        "by": [_row_key_fields(report.dimension, row) | _amount_fields(row.amount) for row in report.rows],
        "unpriced": report.unpriced,
        "prices": report.prices,
    }


def _row_key_fields(dimension: CostDimension | CodeDimension, row: CostReportRow) -> dict[str, Any]:
    return {dimension: row.key} | ({"name": row.name or row.key} if dimension in ("agent", "session") else {})


def _amount_fields(amount: CostAmount) -> dict[str, Any]:
    return {name: getattr(amount, name) for name in (*FIELDS, "usd")}


COLUMNS = ("input", "output", "cache read", "cache write", "USD")
SMALL = 1.0
"""Amounts below this many dollars are shown with four decimals."""

MIN_LABEL_WIDTH = 10

EMPTY = """\
No model has answered yet, so nothing was spent. Two ways to put something here:

  lore import claude-code                                  import what your agents did
  lore emit model.replied --agent ada --data '{"model": "claude-opus-4-8", "input": 1200, "output": 300}'
                                                           record one answer\
"""
NOTHING_IN_PART = "No model answered in the part that was asked for; without --scope, --day and --since everything is counted."

_NO_KEY = {
    "agent": "(no agent)",
    "day": "(trimmed away)",
    "model": "(trimmed away)",
    "task": "(no task)",
    "session": "(no session)",
    "project": "(no project)",
    "person": "(nobody named)",
    "week": "(trimmed away)",
    "month": "(trimmed away)",
    "pull_request": "(no pull request)",
    "commit": "(not attributable: no commit followed)",
    "file": "(not attributable: no file was edited in the turn)",
}


def render_plain(report: CostReport) -> str:
    """The report for a pipe, untruncated."""
    if not report.rows:
        return _empty_text(report)
    table = [(report.dimension.replace("_", " ").upper(), *(column.upper() for column in COLUMNS))]
    table += [
        (_row_label(report, row) + (f"  {_agent_id(row)}" if _agent_id(row) else ""), *amount_cells(row.amount)) for row in report.rows
    ]
    table += [("TOTAL", *amount_cells(report.total))]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    rows = [
        "  ".join([line[0].ljust(widths[0]), *(cell.rjust(size) for cell, size in zip(line[1:], widths[1:], strict=True))])
        for line in table
    ]
    return "\n".join([*rows, "", *make_notes(report)])


def render_table(report: CostReport, *, columns: int) -> Group:
    """The report for a terminal; only names are truncated."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if not report.rows:
        return Group(Text(_empty_text(report)))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bright_black")
    lines = [COLUMNS, *(amount_cells(row.amount) for row in report.rows), amount_cells(report.total)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    room = columns - sum(widths) - 2 * len(widths)
    table.add_column(report.dimension.replace("_", " "), no_wrap=True, overflow="ellipsis", max_width=max(room, MIN_LABEL_WIDTH))
    for column, width in zip(COLUMNS, widths, strict=True):
        table.add_column(column, no_wrap=True, justify="right", min_width=width)
    for row in report.rows:
        label = Text.assemble((_row_label(report, row), "bold" if row.key is not None else "bright_black"))
        if _agent_id(row) and label.cell_len + len(_agent_id(row)) + 2 <= room:
            label.append(f"  {_agent_id(row)}", style="bright_black")
        table.add_row(label, *(Text(figure) for figure in amount_cells(row.amount)))
    table.add_row()
    table.add_row(Text("total", style="bold"), *(Text(figure, style="bold") for figure in amount_cells(report.total)))
    first, *rest = make_notes(report)
    return Group(table, Text(), *(Text(note, style="yellow") for note in rest), Text(first, style="bright_black"))


def amount_cells(amount: CostAmount) -> list[str]:
    """The cells of a row."""
    return [*(f"{count:,}" for count in (amount.input, amount.output, amount.cache_read, amount.cache_write)), format_dollars(amount)]


def format_dollars(amount: CostAmount) -> str:
    """`12.34`, `0.0012`, `?` if no price is known, `≥ 12.34` if some are not."""
    usd = amount.usd
    if usd is None:
        return "?"
    shown = f"{usd:,.2f}" if usd >= SMALL or not usd else f"{usd:.4f}" if usd >= 0.0001 else "< 0.0001"
    return f"≥ {shown}" if amount.unpriced else shown


def make_notes(report: CostReport) -> list[str]:
    """The lines below the table: the date of the prices, and models without a price."""
    own = f", {report.own} of your own" if report.own else ""
    first = f"Prices as of {report.prices}{own}. Costs reported by the agent take precedence."
    missing = [f"no price known for {sanitise_text(model)} ({tokens:,} tokens)" for model, tokens in report.unpriced.items()]
    if missing:
        model = sanitise_text(next(iter(report.unpriced)))
        missing.append(f'set one in fleetlore.toml: [prices."{model}"] with input = … and output = … in USD for a million tokens')
    return [first, *missing]


def _empty_text(report: CostReport) -> str:
    return NOTHING_IN_PART if report.is_part else EMPTY


def _row_label(report: CostReport, row: CostReportRow) -> str:
    return sanitise_text(row.name or row.key or "") or _NO_KEY[report.dimension]


def _agent_id(row: CostReportRow) -> str:
    """The row's id in the log (agent or session), if it differs from the display name."""
    return sanitise_text(row.key or "") if row.name and row.name != row.key else ""
