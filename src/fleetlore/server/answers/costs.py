"""Costs: what the models came to, by one or two of agent, day, model and so on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

from fleetlore.server.types.common import Costs
from fleetlore.server.view_cache import Look
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

NEEDS = ("costs", "names")
"""The views that it is made of."""
_FIGURES = ("input", "output", "cache_read", "cache_write", "tokens", "usd")


def show(
    look: Look,
    *,
    dimensions: Sequence[CostDimension],
    since: datetime | None = None,
    until: datetime | None = None,
    zone: tzinfo = UTC,
    prices: str,
) -> Costs:
    """The bill. A range begins and ends with a quarter of an hour, as the day does in every time zone."""
    spending: Spending = look.states["costs"]
    where = _between(since, until)
    sums = sum_by_dimensions(spending, dimensions, zone=zone, where=where)
    if where is None and (spending.trimmed.tokens or spending.trimmed.priced):
        sums.setdefault((None,) * len(dimensions), CostAmount()).add(spending.trimmed)
    whole = CostAmount()
    for amount in sums.values():
        whole.add(amount)
    shown = names_view.all_display_names(look.states["names"]) if "agent" in dimensions else {}
    rows = [_row(dimensions, keys, amount, shown) for keys, amount in _in_order(sums, by_day=dimensions[0] == "day")]
    return Costs(
        **look.head(),
        total=_figures(whole),
        by=rows,
        unpriced=find_unpriced_models(spending, where),
        prices=prices,
        older=_older(spending, dimensions, where),
    )


def _older(spending: Spending, dimensions: Sequence[CostDimension], where: CostFilter | None) -> dict[str, Any] | None:
    """What cannot be told by task and session any more, if that is asked for."""
    lines = (
        [line for line in iterate_older_lines(spending) if where is None or where(line)] if set(RUN_DIMENSIONS) & set(dimensions) else []
    )
    whole = CostAmount()
    for line in lines:
        whole.add(line.cell.amount)
    return _figures(whole) if lines else None


def _between(since: datetime | None, until: datetime | None) -> CostFilter | None:
    if since is None and until is None:
        return None
    first = None if since is None else slot_number(since)
    end = None if until is None else slot_number(until)

    def where(line: CostLine) -> bool:
        slot = line.cell.slot
        return (first is None or slot >= first) and (end is None or slot < end)

    return where


def _in_order(sums: dict[tuple[str | None, ...], CostAmount], *, by_day: bool) -> list[tuple[tuple[str | None, ...], CostAmount]]:
    """Days in their order, all else by what it cost."""
    rows = sorted(sums.items(), key=lambda row: [key or "" for key in row[0]])
    if not by_day:
        rows.sort(key=lambda row: (row[1].pico, row[1].tokens), reverse=True)
    return rows


def _row(dimensions: Sequence[CostDimension], keys: tuple[str | None, ...], amount: CostAmount, shown: dict[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = dict(zip(dimensions, keys, strict=True))
    if "agent" in row:
        row["name"] = shown.get(row["agent"] or "", row["agent"])
    return row | _figures(amount)


def _figures(amount: CostAmount) -> dict[str, Any]:
    return {name: getattr(amount, name) for name in _FIGURES}
