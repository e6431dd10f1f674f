"""Arguments of `lore goal raise`, which differ from the request of its operation: one option for each budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleetlore.errors import Invalid
from fleetlore.events.budget_axes import list_axes
from fleetlore.goal.commands import BUDGET_AXES

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


_UNITS: dict[str, tuple[str, type]] = {"seconds": ("TIME", str), "usd": ("X", float)}


def add_raise_arguments(parser: ArgumentParser) -> None:
    """An option for each budget."""
    for row in list_axes("goal"):
        metavar, convert = _UNITS.get(row.unit, ("N", int))
        parser.add_argument(row.option, metavar=metavar, type=convert, help=row.help or f"{row.label} in total")


def adapt_raise(args: Namespace, values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The new limits as one value."""
    limits = {axis: limit for axis in BUDGET_AXES if (limit := getattr(args, axis)) is not None}
    if not limits:
        *options, last = (row.option for row in list_axes("goal"))
        raise Invalid(f"nothing to raise: give {', '.join(options)} or {last}")
    return "goal control", values | {"value": limits}
