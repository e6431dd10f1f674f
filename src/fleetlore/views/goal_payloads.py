"""What the facts of a goal hold, read so that whatever stands there raises nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from fleetlore.documents import durations
from fleetlore.errors import Invalid
from fleetlore.events import driver_types
from fleetlore.events.driver_types import BudgetSpent, BudgetUsage, Cancelled, Continue, Escalate, Sleep
from fleetlore.events.envelope import Event
from fleetlore.views import goal_state
from fleetlore.views.goal_state import GoalState, GoalUsage

_T = TypeVar("_T")


def parse_payload(event: Event, payload: type[_T]) -> _T | None:
    """What an event holds, or `None` where it holds something else."""
    return convert_or_none(event.data, payload)


def convert_or_none(value: Any, type: type[_T]) -> _T | None:
    """A value as a type, or `None` where it is none."""
    try:
        return msgspec.convert(value, type)
    except (msgspec.ValidationError, RecursionError):
        return None


def struct_tag(told: Struct) -> str:
    """What it is called on the wire."""
    return str(told.__struct_config__.tag)


def outcome_reason(outcome: Struct) -> str:
    """Why it ended so."""
    match outcome:
        case Escalate(reason=reason) | Continue(reason=reason) | Sleep(reason=reason):
            return reason
        case BudgetSpent(axis=axis):
            return axis
        case Cancelled():
            return "called off"
    return ""


def convert_usage(usage: BudgetUsage) -> GoalUsage:
    """What somebody else's driver says that it has used."""
    return GoalUsage(
        turns=usage.turns,
        seconds=duration_seconds(usage.wall_time),
        tokens=usage.tokens,
        denies=usage.consecutive_denies,
        errors=usage.consecutive_errors,
        overflows=usage.consecutive_413,
    )


def goal_usage(goal: GoalState, now: datetime) -> BudgetUsage:
    """What a goal has used, as the nexo format says it."""
    spent = goal.spent
    return BudgetUsage(
        turns=spent.turns,
        wall_time=durations.format_duration(int(goal_state.elapsed_seconds(goal, now) * 1000) * 1_000_000),
        tokens=goal_state.used_tokens(goal),
        consecutive_denies=spent.denies,
        consecutive_errors=spent.errors,
        consecutive_413=spent.overflows,
    )


def duration_seconds(text: str) -> float:
    """A duration; nought where it is none."""
    try:
        return durations.parse_duration(text) / 1e9
    except Invalid:
        return 0.0


def parse_time(text: str | None) -> datetime | None:
    """A moment, in UTC where no zone is named."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def count_or_zero(value: Any) -> int:
    """A number of things; nought where it is none that can be."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1e12 else 0


def usd_or_zero(value: Any) -> float:
    """US dollars; nought where it is no sum that can be."""
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e9 else 0.0


def limit_time(moment: datetime, start: datetime, span: timedelta) -> datetime:
    """A moment, but no later than so long after a start."""
    return moment if moment - start <= span else start + span


def text_or_empty(value: Any) -> str:
    """A text; empty where it is none."""
    return value if isinstance(value, str) else ""


def criterion_label(criterion: Any) -> str:
    """What a criterion is called in verdicts."""
    match criterion:
        case driver_types.ShellCommand():
            return f"shell:{criterion.command}"
        case driver_types.FileMatches():
            return f"file:{criterion.path}"
        case driver_types.Custom():
            return f"custom:{criterion.name}"
    return "llm_judge"
