"""What costs add up to: in all, by agent, day, model, task, session, project or person, and of which models no price is known."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias, get_args

from msgspec.structs import replace

from fleetlore.views.costs import SLOT, UNKNOWN, Amount, Cell, Run, Said, Spending

Dimension = Literal["agent", "day", "model", "task", "session", "project", "person"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
OF_RUNS: tuple[Dimension, ...] = ("task", "session")
"""What only the newest are told by: of older ones `None` holds the sum."""


class Line(NamedTuple):
    """One cell, with what its run says of it."""

    cell: Cell
    session: str | None
    task: str | None
    project: str | None
    person: str | None


Where: TypeAlias = Callable[[Line], bool]


def lines(spending: Spending) -> Iterator[Line]:
    """Every cell, open partial replies included."""
    yield from older_lines(spending)
    for name, run in spending.runs.items():
        yield from _lines_of(name, run, list(run.counted.values()))
    for part in spending.open.values():
        yield from _lines_of(part.run, spending.runs.get(part.run, Run()), [part.cell])


def older_lines(spending: Spending) -> Iterator[Line]:
    """The cells of which only `Costs.whole` knows task and session."""
    for run in spending.older.values():
        yield from _lines_of("", run, list(run.cells.values()))


def total(spending: Spending, where: Where | None = None) -> Amount:
    """All of it, or all that is wanted."""
    amount = Amount()
    for part in by(spending, "model", where=where).values():
        amount.add(part)
    return amount


def by(spending: Spending, dimension: Dimension, *, zone: tzinfo = UTC, where: Where | None = None) -> dict[str | None, Amount]:
    """What each came to, for example each day; `None` where it is not known which."""
    sums: dict[str | None, Amount] = {keys[0]: amount for keys, amount in by_all(spending, (dimension,), zone=zone, where=where).items()}
    if where is None and (spending.trimmed.tokens or spending.trimmed.priced):
        sums.setdefault(None, Amount()).add(spending.trimmed)
    return sums


def by_agent(spending: Spending) -> dict[str, Amount]:
    """What each agent came to, read off the sums that the fold keeps: as quick for a log of years as for one of an hour."""
    sums = {agent: replace(amount) for agent, amount in spending.agents.items()}
    printed = (cell for run in spending.runs.values() if run.printed and not run.cells for cell in run.printed.values())
    for cell in (*printed, *(part.cell for part in spending.open.values())):
        sums.setdefault(cell.agent, Amount()).add(cell.amount)
    return sums


def by_all(
    spending: Spending, dimensions: Sequence[Dimension], *, zone: tzinfo = UTC, where: Where | None = None
) -> dict[tuple[str | None, ...], Amount]:
    """What each combination came to, for example each day and model; without what was trimmed away, of which only the sum is known."""
    sums: dict[tuple[str | None, ...], Amount] = {}
    readers = [_reader(dimension, zone) for dimension in dimensions]
    for line in lines(spending):
        if where is None or where(line):
            sums.setdefault(tuple([read(line) for read in readers]), Amount()).add(line.cell.amount)
    return sums


def unpriced(spending: Spending, where: Where | None = None) -> dict[str, int]:
    """Models of which no price is known, with the tokens that were not priced."""
    sums = by(spending, "model", where=where)
    return {model or UNKNOWN: amount.unpriced for model, amount in sorted(sums.items(), key=str) if amount.unpriced}


def among(spending: Spending, some: Spending) -> Spending:
    """Some of the replies, with what all events say of their runs; a part of a reply counts if its whole has not come by now."""
    runs = {name: _with_cells(spending.runs.get(name, run), run) for name, run in some.runs.items()}
    for part in some.open.values():
        runs.setdefault(part.run, _with_cells(spending.runs.get(part.run, Run()), Run()))
    still_open = {key: part for key, part in some.open.items() if spending.open.get(key) == part}
    return Spending(runs=runs, open=still_open)


@lru_cache(maxsize=100_000)
def day_of(slot: int, zone: tzinfo) -> str:
    """The day of a quarter of an hour: `2026-11-15`."""
    try:
        return datetime.fromtimestamp(slot * SLOT, zone).date().isoformat()
    except (OverflowError, ValueError, OSError):  # at the calendar's ends
        return (date.max if slot > 0 else date.min).isoformat()


def _lines_of(name: str, run: Run, cells: list[Cell]) -> Iterator[Line]:
    project, person = _text(run.project), _text(run.person)
    slots = sorted(run.bound)
    for cell in cells:
        yield Line(cell, name or None, cell.task or _task_at(run, slots, cell.slot), project, person)


def _task_at(run: Run, slots: list[int], slot: int) -> str | None:
    index = bisect_right(slots, slot)
    return run.bound[slots[index - 1]][1] if index else _text(run.first)


def _text(said: Said | None) -> str | None:
    return None if said is None else said[1]


def _reader(dimension: Dimension, zone: tzinfo) -> Callable[[Line], str | None]:
    match dimension:
        case "agent":
            return lambda line: line.cell.agent
        case "model":
            return lambda line: line.cell.model
        case "day":
            return lambda line: day_of(line.cell.slot, zone)
        case _:
            return lambda line: getattr(line, dimension)


def _with_cells(run: Run, own: Run) -> Run:
    return replace(run, cells=own.cells, printed={} if run.cells else own.printed)
