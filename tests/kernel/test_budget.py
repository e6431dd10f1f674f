"""Budgets: one table of axes, and the rules that enforce them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.events import driver_types
from fleetlore.events.budget_axes import AXES, BudgetUse, find_exhausted, is_exhausted, list_axes, list_uses, remaining_amount
from fleetlore.views.goal_state import GoalLimits, GoalUsage
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
amounts = st.floats(0, 1e9) | st.integers(0, 10**9)


def use(used: float, limit: float | None) -> BudgetUse:
    return BudgetUse(axis="turns", label="turns", unit="count", used=used, limit=limit, is_in_a_row=False)


def test_an_axis_is_added_by_one_row_of_the_table(tmp_path: Path) -> None:
    """Enforced by a goal and a stage, and shown by the CLI, HTTP and the data of the pages."""
    program = [sys.executable, "-m", "tests.kernel.added_axis", str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, cwd=ROOT, timeout=10 * PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wire_names_of_the_ancestor_are_those_of_the_table() -> None:
    assert {row.guard for row in AXES if row.guard} == set(driver_types.BudgetUsage.__struct_fields__)
    assert {f"max_{row.guard}" for row in AXES if row.guard} == set(driver_types.BudgetGuards.__struct_fields__)
    assert set(get_args(driver_types.BudgetAxis)) == {
        "turns", "wall_time", "tokens", "consecutive_denies", "consecutive_errors", "consecutive413", "usd"
    }  # fmt: skip


def test_the_limits_of_a_goal_whose_file_sets_none_are_those_of_the_table() -> None:
    assert [use.limit for use in list_uses(list_axes("goal"), GoalUsage(), GoalLimits())] == [row.limit for row in list_axes("goal")]


@given(amounts, amounts)
def test_a_budget_is_exhausted_when_nothing_is_left(used: float, limit: float) -> None:
    assert is_exhausted(use(used, limit)) == (remaining_amount([use(used, limit)]) == 0)


@given(amounts)
def test_a_budget_without_a_limit_is_never_exhausted(used: float) -> None:
    assert find_exhausted([use(used, None)]) is None
    assert remaining_amount([use(used, None)]) is None


@given(st.lists(st.tuples(amounts, st.none() | amounts), min_size=1))
def test_the_tightest_of_several_budgets_decides(pairs: list[tuple[float, float | None]]) -> None:
    uses = [use(*pair) for pair in pairs]
    left = [remaining_amount([each]) for each in uses]
    assert remaining_amount(uses) == min((each for each in left if each is not None), default=None)
    assert (find_exhausted(uses) is not None) == (0 in left)


@pytest.mark.parametrize("field", ["errors", "overflows"])
def test_zero_failures_in_a_row_mean_no_limit(field: str) -> None:
    limits, usage = GoalLimits(), GoalUsage()
    setattr(limits, field, 0)
    setattr(usage, field, 99)
    assert find_exhausted(list_uses(list_axes("goal"), usage, limits)) is None
