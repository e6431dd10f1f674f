"""Enforces budgets: which axis is exhausted, and how much is left. Used by goals and stage runs.

What the axes are is in `fleetlore.events.budget_axes`, which views and dialects need, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from fleetlore.events.budget_axes import BudgetUse


def is_exhausted(use: BudgetUse) -> bool:
    """Whether nothing is left. A budget of zero is exhausted at once."""
    return use.limit is not None and use.used >= use.limit


def find_exhausted(uses: Iterable[BudgetUse]) -> BudgetUse | None:
    """The first exhausted budget in the order of the table, or `None`."""
    return next(filter(is_exhausted, uses), None)


def remaining_amount(uses: Iterable[BudgetUse]) -> float | None:
    """What is left of budgets that limit the same thing, such as those of a goal and its parents; `None` means unlimited."""
    return min((max(0, use.limit - use.used) for use in uses if use.limit is not None), default=None)
