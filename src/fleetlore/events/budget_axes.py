"""The axes of budgets: what goals and stage runs count and limit, and what each axis is called on the wire. One row per axis.

Views, kernel, files, CLI and server read this table. Most axes are fields of the usage and limits of goals and runs, because
code counts them. An axis with `kinds` needs no code: it is counted from events, and kept under its name in `others`.
The last functions say when an axis is exhausted, and what is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from fleetlore.events.envelope import Event

BudgetUnit: TypeAlias = Literal["count", "tokens", "usd", "seconds"]
Runtime: TypeAlias = Literal["goal", "stage"]


class BudgetRow(Struct, frozen=True, kw_only=True):
    """One axis."""

    name: str
    """In goal files (`max_NAME`), requests, options and outcomes."""
    label: str
    """For people."""
    field: str = ""
    """In states, answers, and stage files (`max_FIELD`); by default the name."""
    unit: BudgetUnit = "count"
    help: str = ""
    """What a limit counts, for `lore goal raise`."""
    runtimes: frozenset[Runtime] = frozenset(("goal", "stage"))
    limit: float | None = None
    """The limit of a goal whose file sets none; `None` means unlimited."""
    is_in_a_row: bool = False
    """It counts failures in a row: success resets it, and so does resuming the goal."""
    is_unlimited_at_zero: bool = False
    grows_in_turn: bool = False
    """Whether a turn is stopped when the axis is exhausted."""
    is_lasting_resource: bool = False
    """Whether an exhausted axis leaves nothing for memories after the last turn."""
    guard: str | None = None
    """Wire: the field of `BudgetUsage`, and with `max_` of `BudgetGuards`; `None`: the plan holds the limit."""
    spent_name: str = ""
    """Wire: its name in outcomes; by default the name."""
    foreign_name: str = ""
    """Wire: its name in outcomes for programs that know the ancestor's axes only; by default `spent_name`."""
    kinds: frozenset[str] = frozenset()
    """Events that are counted; empty if code counts it."""
    amounts: tuple[str, ...] = ()
    """Fields of the payload that are summed; empty: each event counts as one."""

    @property
    def is_counted_from_events(self) -> bool:
        """Whether it is kept in `others`, because no code counts it."""
        return bool(self.kinds)

    @property
    def key(self) -> str:
        """`field`, or else the name."""
        return self.field or self.name

    @property
    def spent_as(self) -> str:
        """`spent_name`, or else the name."""
        return self.spent_name or self.name

    @property
    def option(self) -> str:
        """The option of `lore goal raise`."""
        return f"--{self.name.replace('_', '-')}"


_GOAL: frozenset[Runtime] = frozenset(("goal",))

AXES: tuple[BudgetRow, ...] = (
    BudgetRow(name="turns", label="turns", help="turns in total", limit=40, guard="turns"),
    BudgetRow(name="calls", label="calls", runtimes=frozenset(("stage",))),
    BudgetRow(
        name="wall_time",
        field="seconds",
        label="time",
        unit="seconds",
        help="time in total, as in 6h or 90m",
        limit=4 * 3600.0,
        grows_in_turn=True,
        is_lasting_resource=True,
        guard="wall_time",
    ),
    BudgetRow(
        name="tokens",
        label="tokens",
        unit="tokens",
        help="tokens in total",
        limit=2_000_000,
        grows_in_turn=True,
        is_lasting_resource=True,
        guard="tokens",
    ),
    BudgetRow(
        name="usd",
        label="money",
        unit="usd",
        help="US dollars in total",
        grows_in_turn=True,
        is_lasting_resource=True,
        foreign_name="tokens",
    ),
    BudgetRow(
        name="consecutive_denies",
        field="denies",
        label="denied",
        help="tools denied in a row",
        runtimes=_GOAL,
        limit=3,
        is_in_a_row=True,
        grows_in_turn=True,
        guard="consecutive_denies",
    ),
    BudgetRow(
        name="consecutive_errors",
        field="errors",
        label="errors",
        help="errors in a row",
        runtimes=_GOAL,
        limit=5,
        is_in_a_row=True,
        is_unlimited_at_zero=True,
        guard="consecutive_errors",
    ),
    BudgetRow(
        name="consecutive_413",
        field="overflows",
        label="too long",
        help="context overflows in a row",
        runtimes=_GOAL,
        limit=2,
        is_in_a_row=True,
        is_unlimited_at_zero=True,
        guard="consecutive_413",
        spent_name="consecutive413",  # nexo writes it without the underscore of its own field
    ),
)
"""Axes are checked and shown in this order."""
VERSION = 1000 * sum(row.is_counted_from_events for row in AXES)
"""Part of the version of folds that count events: a new axis makes them read the log again."""


@cache
def list_axes(runtime: Runtime) -> tuple[BudgetRow, ...]:
    """The axes of a runtime."""
    return tuple(row for row in AXES if runtime in row.runtimes)


def find_axis(name: str, runtime: Runtime = "goal") -> BudgetRow | None:
    """The axis with that name, also with `max_` before it; `None` if there is none."""
    return next((row for row in list_axes(runtime) if name.removeprefix("max_") == row.name), None)


def describe_axis(name: str) -> str:
    """An exhausted axis, named as in outcomes, in words."""
    row = next((row for row in AXES if row.spent_name == name), None)
    return name.replace("_", " ") if row is None else row.help  # a wire name that is no word


def is_counted(kind: str) -> bool:
    """Whether an axis is counted from events of this kind."""
    return any(kind in row.kinds for row in AXES)


def count_event(others: dict[str, float], event: Event, runtime: Runtime) -> None:
    """Add an event to the axes that are counted from events. Invalid amounts count as zero."""
    for row in _axes_counted_from(event.kind, runtime):
        amount = sum(map(_number_or_zero, (event.data.get(name) for name in row.amounts))) if row.amounts else 1
        others[row.name] = others.get(row.name, 0) + amount


@lru_cache(maxsize=1024)
def _axes_counted_from(kind: str, runtime: Runtime) -> tuple[BudgetRow, ...]:
    return tuple(row for row in AXES if kind in row.kinds and runtime in row.runtimes)


def _number_or_zero(value: Any) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15 else 0


# --- use and limits


class BudgetUse(Struct, frozen=True, kw_only=True):
    """How much of one budget is used."""

    axis: str
    label: str
    unit: BudgetUnit
    used: float
    limit: float | None
    """`null` means unlimited."""
    is_in_a_row: bool
    """Whether it counts failures in a row; success resets it."""


def list_uses(rows: Iterable[BudgetRow], usage: Any, limits: Any, *, prefix: str = "") -> list[BudgetUse]:
    """The use of each axis. `usage` and `limits` have a field per axis (`prefix` is that of the limits), and `others`."""
    return [
        BudgetUse(
            axis=row.spent_name or row.name,
            label=row.label,
            unit=row.unit,
            used=get_amount(usage, row) or 0,
            limit=_get_limit(limits, row, prefix),
            is_in_a_row=row.is_in_a_row,
        )
        for row in rows
    ]


def get_amount(holder: Any, row: BudgetRow, *, prefix: str = "") -> float | None:
    """The amount of an axis in usage or limits."""
    # Written out: a goal asks this thirty times a turn.
    amount: float | None = holder.others.get(row.name) if row.kinds else getattr(holder, f"{prefix}{row.field or row.name}")
    return amount


def set_amount(holder: Any, row: BudgetRow, amount: float) -> None:
    """Set the amount of an axis in usage or limits."""
    if row.is_counted_from_events:
        holder.others[row.name] = amount
    else:
        setattr(holder, row.key, amount)


def _get_limit(limits: Any, row: BudgetRow, prefix: str) -> float | None:
    limit = get_amount(limits, row, prefix=prefix)
    return None if limit == 0 and row.is_unlimited_at_zero else limit


def is_exhausted(use: BudgetUse) -> bool:
    """Whether nothing is left. A budget of zero is exhausted at once."""
    return use.limit is not None and use.used >= use.limit


def find_exhausted(uses: Iterable[BudgetUse]) -> BudgetUse | None:
    """The first exhausted budget in the order of the table, or `None`."""
    return next(filter(is_exhausted, uses), None)


def remaining_amount(uses: Iterable[BudgetUse]) -> float | None:
    """What is left of budgets that limit the same thing, such as those of a goal and its parents; `None` means unlimited."""
    return min((max(0, use.limit - use.used) for use in uses if use.limit is not None), default=None)
