"""Sums over the costs view: in total, by agent, day, model, task, session, project or person, and unpriced models."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias, get_args

from msgspec.structs import replace

from fleetlore.views.costs import SLOT_SECONDS, UNKNOWN_MODEL, CostAmount, CostCell, RunCosts, Spending, StampedText

CostDimension = Literal["agent", "day", "week", "month", "model", "task", "session", "project", "person", "pull_request"]
COST_DIMENSIONS: tuple[CostDimension, ...] = get_args(CostDimension)
CodeDimension = Literal["commit", "file"]
CODE_DIMENSIONS: tuple[CodeDimension, ...] = get_args(CodeDimension)
"""Dimensions that need the events of sessions; `operations/code_costs.py`."""
TIME_DIMENSIONS: tuple[CostDimension, ...] = ("day", "week", "month")
RUN_DIMENSIONS: tuple[CostDimension, ...] = ("agent", "task", "session", "pull_request")
"""Dimensions known only for the newest sessions; older ones are summed under `None`. Agents with names of their own are known."""


class CostLine(NamedTuple):
    """One cell with the context of its run."""

    cell: CostCell
    session: str | None
    task: str | None
    project: str | None
    person: str | None
    pull_request: str | None = None


CostFilter: TypeAlias = Callable[[CostLine], bool]


def iterate_cost_lines(spending: Spending) -> Iterator[CostLine]:
    """Yield every cell, including partial replies."""
    yield from iterate_older_lines(spending)
    for name, run in spending.runs.items():
        yield from _run_lines(name, run, list(run.counted.values()))
    for part in spending.open.values():
        yield from _run_lines(part.run, spending.runs.get(part.run, RunCosts()), [part.cell])


def iterate_older_lines(spending: Spending) -> Iterator[CostLine]:
    """Yield the cells whose task and session only `Costs.unpruned` knows."""
    for run in spending.older.values():
        yield from _run_lines("", run, list(run.cells.values()))


def sum_total(spending: Spending, where: CostFilter | None = None) -> CostAmount:
    """Total costs, optionally filtered."""
    amount = CostAmount()
    for part in sum_by(spending, "model", where=where).values():
        amount.add(part)
    return amount


def sum_by(
    spending: Spending, dimension: CostDimension, *, zone: tzinfo = UTC, where: CostFilter | None = None
) -> dict[str | None, CostAmount]:
    """Costs by one dimension, for example by day; `None` where it is unknown."""
    sums: dict[str | None, CostAmount] = {
        keys[0]: amount for keys, amount in sum_by_dimensions(spending, (dimension,), zone=zone, where=where).items()
    }
    if where is None and (spending.trimmed.tokens or spending.trimmed.priced):
        sums.setdefault(None, CostAmount()).add(spending.trimmed)
    return sums


def sum_by_agent(spending: Spending) -> dict[str, CostAmount]:
    """Costs by agent, from sums that the view keeps: fast for logs of any length."""
    sums = {agent: replace(amount) for agent, amount in spending.agents.items()}
    printed = (cell for run in spending.runs.values() if not run.cells for cell in run.counted.values())
    for cell in (*printed, *(part.cell for part in spending.open.values())):
        sums.setdefault(cell.agent, CostAmount()).add(cell.amount)
    return sums


def sum_by_dimensions(
    spending: Spending, dimensions: Sequence[CostDimension], *, zone: tzinfo = UTC, where: CostFilter | None = None
) -> dict[tuple[str | None, ...], CostAmount]:
    """Costs by several dimensions, for example day and model; without trimmed events, of which only the sum is known."""
    sums: dict[tuple[str | None, ...], CostAmount] = {}
    readers = [_dimension_reader(dimension, zone) for dimension in dimensions]
    for line in iterate_cost_lines(spending):
        if where is None or where(line):
            sums.setdefault(tuple([read(line) for read in readers]), CostAmount()).add(line.cell.amount)
    return sums


def find_unpriced_models(spending: Spending, where: CostFilter | None = None) -> dict[str, int]:
    """Models without a known price, with their number of unpriced tokens."""
    sums = sum_by(spending, "model", where=where)
    return {model or UNKNOWN_MODEL: amount.unpriced for model, amount in sorted(sums.items(), key=str) if amount.unpriced}


def restrict_spending(spending: Spending, selected: Spending) -> Spending:
    """Restrict costs to some replies, keeping what all events say about their runs.

    A partial reply counts unless its complete one has come.
    """
    runs = {name: _replace_cells(spending.runs.get(name, run), run) for name, run in selected.runs.items()}
    for part in selected.open.values():
        runs.setdefault(part.run, _replace_cells(spending.runs.get(part.run, RunCosts()), RunCosts()))
    still_open = {key: part for key, part in selected.open.items() if spending.open.get(key) == part}
    return Spending(runs=runs, open=still_open)


@lru_cache(maxsize=100_000)
def slot_day(slot: int, zone: tzinfo) -> str:
    """The day of a slot: `2026-11-15`."""
    try:
        return datetime.fromtimestamp(slot * SLOT_SECONDS, zone).date().isoformat()
    except (OverflowError, ValueError, OSError):  # outside of the calendar
        return (date.max if slot > 0 else date.min).isoformat()


@lru_cache(maxsize=100_000)
def slot_week(slot: int, zone: tzinfo) -> str:
    """The Monday of a slot's week: `2026-11-16`."""
    day = date.fromisoformat(slot_day(slot, zone))
    return date.fromordinal(max(1, day.toordinal() - day.weekday())).isoformat()


def _run_lines(name: str, run: RunCosts, cells: list[CostCell]) -> Iterator[CostLine]:
    project, person, pull_request = _get_text(run.project), _get_text(run.person), _get_text(run.pull_request)
    slots = sorted(run.bound)
    for cell in cells:
        yield CostLine(cell, name or None, cell.task or _find_task_at(run, slots, cell.slot), project, person, pull_request)


def _find_task_at(run: RunCosts, slots: list[int], slot: int) -> str | None:
    index = bisect_right(slots, slot)
    return run.bound[slots[index - 1]][1] if index else _get_text(run.first)


def _get_text(stamped: StampedText | None) -> str | None:
    return None if stamped is None else stamped[1]


def _dimension_reader(dimension: CostDimension, zone: tzinfo) -> Callable[[CostLine], str | None]:
    match dimension:
        case "agent":
            return lambda line: line.cell.agent or None
        case "model":
            return lambda line: line.cell.model
        case "day":
            return lambda line: slot_day(line.cell.slot, zone)
        case "week":
            return lambda line: slot_week(line.cell.slot, zone)
        case "month":
            return lambda line: slot_day(line.cell.slot, zone)[:7]
        case _:
            return lambda line: getattr(line, dimension)


def _replace_cells(run: RunCosts, selected: RunCosts) -> RunCosts:
    replaced = {} if run.cells else selected.reported
    return replace(run, cells=selected.cells, reported=replaced, printed={} if run.cells or run.reported else selected.printed)
