"""What the models cost: tokens and dollars by one or two dimensions such as agent, day or model, of everything, a scope or a period."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, cast, get_args

from msgspec import Meta

from fleetlore.errors import Invalid
from fleetlore.operations.context import OperationContext
from fleetlore.operations.reading import AsOfRequest, Head, Text, Time, parse_time_zone
from fleetlore.views import names as names_view
from fleetlore.views.cost_sums import (
    RUN_DIMENSIONS,
    CostDimension,
    CostFilter,
    CostLine,
    find_unpriced_models,
    iterate_older_lines,
    sum_by_dimensions,
)
from fleetlore.views.costs import CostAmount, Spending, slot_number

_FIGURES = ("input", "output", "cache_read", "cache_write", "tokens", "usd")


class ReadCosts(AsOfRequest, kw_only=True):
    """Which costs, and by what they are added up."""

    by: Annotated[
        str, Meta(max_length=40, description="day, agent, model, task, session, project or person; or two of them: day,model")
    ] = "day"
    since: Time | None = None
    until: Time | None = None
    tz: Text = "UTC"


class CostsPage(Head, kw_only=True):
    """Costs, added up."""

    total: dict[str, Any]
    by: list[dict[str, Any]]
    unpriced: dict[str, int]
    prices: str
    older: dict[str, Any] | None = None
    """By task or session: the sum of older ones, which are not kept one by one. It is included in the row without a name."""


def read_costs(context: OperationContext, request: ReadCosts) -> CostsPage:
    """Costs by dimension. `since` and `until` are rounded to quarter hours, on which days begin in every time zone."""
    dimensions, zone = _parse_dimensions(request.by), parse_time_zone(request.tz)
    where = _time_filter(request.since, request.until)
    with context.source.snapshot(context.source.resolve_position(request.as_of), ("costs", "names")) as snapshot:
        spending: Spending = snapshot.states["costs"]
        sums = sum_by_dimensions(spending, dimensions, zone=zone, where=where)
        if where is None and (spending.trimmed.tokens or spending.trimmed.priced):
            sums.setdefault((None,) * len(dimensions), CostAmount()).add(spending.trimmed)
        total = CostAmount()
        for amount in sums.values():
            total.add(amount)
        display_names = names_view.all_display_names(snapshot.states["names"]) if "agent" in dimensions else {}
        return CostsPage(
            **snapshot.head_fields(),
            total=_amount_fields(total),
            by=[_cost_row(dimensions, keys, amount, display_names) for keys, amount in _sort_rows(sums, by_day=dimensions[0] == "day")],
            unpriced=find_unpriced_models(spending, where),
            prices=context.source.prices,
            older=_sum_older(spending, dimensions, where),
        )


def _parse_dimensions(text: str) -> tuple[CostDimension, ...]:
    known = get_args(CostDimension)
    dimensions = tuple(text.split(","))
    if not set(dimensions) <= set(known) or len(set(dimensions)) != len(dimensions) or len(dimensions) > 2:
        raise Invalid(f"by: {text!r} is not one of {', '.join(known)}, nor two of them as in day,model")
    return cast("tuple[CostDimension, ...]", dimensions)


def _sum_older(spending: Spending, dimensions: Sequence[CostDimension], where: CostFilter | None) -> dict[str, Any] | None:
    """The sum of older costs, which are no longer kept by task and session, if one of those is asked for."""
    lines = (
        [line for line in iterate_older_lines(spending) if where is None or where(line)] if set(RUN_DIMENSIONS) & set(dimensions) else []
    )
    total = CostAmount()
    for line in lines:
        total.add(line.cell.amount)
    return _amount_fields(total) if lines else None


def _time_filter(since: datetime | None, until: datetime | None) -> CostFilter | None:
    if since is None and until is None:
        return None
    first = None if since is None else slot_number(since)
    end = None if until is None else slot_number(until)

    def where(line: CostLine) -> bool:
        slot = line.cell.slot
        return (first is None or slot >= first) and (end is None or slot < end)

    return where


def _sort_rows(sums: dict[tuple[str | None, ...], CostAmount], *, by_day: bool) -> list[tuple[tuple[str | None, ...], CostAmount]]:
    """Days in order, everything else by cost, highest first."""
    rows = sorted(sums.items(), key=lambda row: [key or "" for key in row[0]])
    if not by_day:
        rows.sort(key=lambda row: (row[1].pico, row[1].tokens), reverse=True)
    return rows


def _cost_row(
    dimensions: Sequence[CostDimension], keys: tuple[str | None, ...], amount: CostAmount, display_names: dict[str, str]
) -> dict[str, Any]:
    row: dict[str, Any] = dict(zip(dimensions, keys, strict=True))
    if "agent" in row:
        row["name"] = display_names.get(row["agent"] or "", row["agent"])
    return row | _amount_fields(amount)


def _amount_fields(amount: CostAmount) -> dict[str, Any]:
    return {name: getattr(amount, name) for name in _FIGURES}
