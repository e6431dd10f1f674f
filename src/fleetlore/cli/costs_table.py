"""Output of `lore costs`: a table on a terminal, aligned text in a pipe. Texts from the log are sanitised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli.terminal import sanitise_text

if TYPE_CHECKING:
    from rich.console import Group

    from fleetlore.operations.costs import CostReport, CostReportRow
    from fleetlore.views.costs import CostAmount

COLUMNS = ("input", "output", "cache read", "cache write", "USD")
SMALL = 1.0
"""Amounts below this many dollars are shown with four decimals."""

MIN_LABEL_WIDTH = 10

EMPTY = """\
No model has answered yet, so nothing was spent. Two ways to put something here:

  lore import claude-code                                  take in what your agents did
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
    """The agent's name in the log, if its display name differs."""
    return sanitise_text(row.key or "") if row.name and row.name != row.key else ""
