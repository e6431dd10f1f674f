"""Parses the payloads of goal events; invalid data never raises."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from fleetlore.documents import durations
from fleetlore.errors import Invalid
from fleetlore.events import driver_types
from fleetlore.events.budget_axes import BudgetRow, list_axes
from fleetlore.events.driver_types import BudgetSpent, BudgetUsage, Cancelled, Continue, Escalate, Goal, Sleep
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Plan
from fleetlore.views import goal_state
from fleetlore.views.goal_state import GoalLimits, GoalState, GoalUsage

_T = TypeVar("_T")


def parse_payload(event: Event, payload: type[_T]) -> _T | None:
    """Convert an event's payload; `None` if it is invalid."""
    return convert_or_none(event.data, payload)


def convert_or_none(value: Any, type: type[_T]) -> _T | None:
    """Convert a value; `None` if it is invalid."""
    try:
        return msgspec.convert(value, type)
    except (msgspec.ValidationError, RecursionError):
        return None


def struct_tag(struct: Struct) -> str:
    """The struct's tag on the wire."""
    return str(struct.__struct_config__.tag)


def outcome_reason(outcome: Struct) -> str:
    """The reason of an outcome; empty if it has none."""
    match outcome:
        case Escalate(reason=reason) | Continue(reason=reason) | Sleep(reason=reason):
            return reason
        case BudgetSpent(axis=axis):
            return axis
        case Cancelled():
            return "called off"
    return ""


def convert_usage(usage: BudgetUsage) -> GoalUsage:
    """Convert the usage that another program's driver reports."""
    return GoalUsage(**{row.key: _parse_amount(row, getattr(usage, row.guard)) for row in list_axes("goal") if row.guard})


def goal_usage(goal: GoalState, now: datetime) -> BudgetUsage:
    """The usage of a goal in the nexo format."""
    usage = goal_state.current_usage(goal, now)
    return BudgetUsage(**{row.guard: format_amount(row, getattr(usage, row.key)) for row in list_axes("goal") if row.guard})


def read_limits(goal: Goal, plan: Plan | None) -> GoalLimits:
    """The limits of a goal: those of its budget, and those of our axes in its plan."""
    limits = GoalLimits(**{row.key: _parse_amount(row, getattr(goal.budget, f"max_{row.guard}")) for row in list_axes("goal") if row.guard})
    if plan is not None:
        limits.usd = plan.max_usd
        limits.others = dict(plan.max_others)
    return limits


def add_others(others: Mapping[str, float], more: Mapping[str, float] | None) -> dict[str, float]:
    """Add the use of axes that are counted from events; implausible amounts in `more` count as zero."""
    return {name: others.get(name, 0) + amount_or_zero((more or {}).get(name, 0)) for name in (*others, *(more or {}))}


def format_amount(row: BudgetRow, amount: Any) -> Any:
    """An amount in the nexo format."""
    return durations.format_duration(round(amount * 1000) * 1_000_000) if row.unit == "seconds" else amount


def _parse_amount(row: BudgetRow, amount: Any) -> Any:
    return duration_seconds(amount) if row.unit == "seconds" else amount


def duration_seconds(text: str) -> float:
    """Parse a duration to seconds; 0 if it is invalid."""
    try:
        return durations.parse_duration(text) / 1e9
    except Invalid:
        return 0.0


def parse_time(text: str | None) -> datetime | None:
    """Parse a time, in UTC if it names no zone; `None` if it is invalid."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def count_or_zero(value: Any) -> int:
    """Return a plausible count, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1e12 else 0


def usd_or_zero(value: Any) -> float:
    """Return a plausible amount of dollars, else 0."""
    amount = amount_or_zero(value)
    return amount if amount < 1e9 else 0.0


def amount_or_zero(value: Any) -> float:
    """Return a plausible amount in any unit, else 0."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15 else 0.0


def limit_time(moment: datetime, start: datetime, span: timedelta) -> datetime:
    """Limit a time to at most `span` after `start`."""
    return moment if moment - start <= span else start + span


def text_or_empty(value: Any) -> str:
    """Return a string, else the empty one."""
    return value if isinstance(value, str) else ""


def criterion_label(criterion: Any) -> str:
    """The name of a criterion in verdicts."""
    match criterion:
        case driver_types.ShellCommand():
            return f"shell:{criterion.command}"
        case driver_types.FileMatches():
            return f"file:{criterion.path}"
        case driver_types.Custom():
            return f"custom:{criterion.name}"
    return "llm_judge"
