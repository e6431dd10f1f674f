"""How `lore costs` looks: a table on a terminal, aligned text in a pipe. Every word that is not ours is made harmless first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli.terminal import sanitise

if TYPE_CHECKING:
    from rich.console import Group

    from fleetlore.cli.costs import Bill, Row
    from fleetlore.views.costs import CostAmount

COLUMNS = ("input", "output", "cache read", "cache write", "USD")
SMALL = 1.0
"""Dollars below which cents do not say enough."""

LEAST_ROOM = 10

EMPTY = """\
No model has answered yet, so nothing was spent. Two ways to put something here:

  lore import claude-code                                  take in what your agents did
  lore emit model.replied --agent ada --data '{"model": "claude-opus-4-8", "input": 1200, "output": 300}'
                                                           record one answer\
"""
NOTHING_IN_PART = "No model answered in the part that was asked for; without --scope, --day and --since everything is counted."

_NOBODY = {
    "agent": "(no agent)",
    "day": "(trimmed away)",
    "model": "(trimmed away)",
    "task": "(no task)",
    "session": "(no session)",
    "project": "(no project)",
    "person": "(nobody named)",
}


def plain(bill: Bill) -> str:
    """The bill for a pipe: nothing is cut off."""
    if not bill.rows:
        return _nothing(bill)
    table = [(bill.dimension.upper(), *(column.upper() for column in COLUMNS))]
    table += [(_label(bill, row) + (f"  {_id(row)}" if _id(row) else ""), *figures(row.amount)) for row in bill.rows]
    table += [("TOTAL", *figures(bill.total))]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    rows = [
        "  ".join([line[0].ljust(widths[0]), *(cell.rjust(size) for cell, size in zip(line[1:], widths[1:], strict=True))])
        for line in table
    ]
    return "\n".join([*rows, "", *notes(bill)])


def page(bill: Bill, *, columns: int) -> Group:
    """The bill for a terminal: figures are whole, names are cut."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if not bill.rows:
        return Group(Text(_nothing(bill)))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bright_black")
    lines = [COLUMNS, *(figures(row.amount) for row in bill.rows), figures(bill.total)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    room = columns - sum(widths) - 2 * len(widths)
    table.add_column(bill.dimension, no_wrap=True, overflow="ellipsis", max_width=max(room, LEAST_ROOM))
    for column, width in zip(COLUMNS, widths, strict=True):
        table.add_column(column, no_wrap=True, justify="right", min_width=width)
    for row in bill.rows:
        label = Text.assemble((_label(bill, row), "bold" if row.key is not None else "bright_black"))
        if _id(row) and label.cell_len + len(_id(row)) + 2 <= room:
            label.append(f"  {_id(row)}", style="bright_black")
        table.add_row(label, *(Text(figure) for figure in figures(row.amount)))
    table.add_row()
    table.add_row(Text("total", style="bold"), *(Text(figure, style="bold") for figure in figures(bill.total)))
    first, *rest = notes(bill)
    return Group(table, Text(), *(Text(note, style="yellow") for note in rest), Text(first, style="bright_black"))


def figures(amount: CostAmount) -> list[str]:
    """The cells of a line."""
    return [*(f"{count:,}" for count in (amount.input, amount.output, amount.cache_read, amount.cache_write)), dollars(amount)]


def dollars(amount: CostAmount) -> str:
    """`12.34`, `0.0012`, `?` where no price is known, `≥ 12.34` where some is not."""
    usd = amount.usd
    if usd is None:
        return "?"
    shown = f"{usd:,.2f}" if usd >= SMALL or not usd else f"{usd:.4f}" if usd >= 0.0001 else "< 0.0001"
    return f"≥ {shown}" if amount.unpriced else shown


def notes(bill: Bill) -> list[str]:
    """What stands below: the day of the prices, and the models that have none."""
    own = f", {bill.own} of your own" if bill.own else ""
    first = f"prices of {bill.prices}{own}; what a source says that it cost comes first"
    missing = [f"no price known for {sanitise(model)} ({tokens:,} tokens)" for model, tokens in bill.unpriced.items()]
    if missing:
        model = sanitise(next(iter(bill.unpriced)))
        missing.append(f'set one in fleetlore.toml: [prices."{model}"] with input = … and output = … in USD for a million tokens')
    return [first, *missing]


def _nothing(bill: Bill) -> str:
    return NOTHING_IN_PART if bill.is_part else EMPTY


def _label(bill: Bill, row: Row) -> str:
    return sanitise(row.name or row.key or "") or _NOBODY[bill.dimension]


def _id(row: Row) -> str:
    """An agent's own name, where it is shown under another."""
    return sanitise(row.key or "") if row.name and row.name != row.key else ""
