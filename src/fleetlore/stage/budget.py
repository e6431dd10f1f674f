"""Limits of a run and its usage: turns, calls, tokens, money, time. Usage is a fold of the log, so a restart loses none of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from fleetlore.errors import BudgetExceeded
from fleetlore.events.budget_axes import count_event, find_exhausted, list_axes, list_uses
from fleetlore.events.envelope import Event

JUDGE_BUDGET_SHARE = 0.1
"""Share of tokens, money and time reserved for a pending verdict."""
CALLS_PER_JUDGE = 2
"""One call, and a second if the verdict names nobody of the cast."""


class StageLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Limits of a run; `None` means unlimited."""

    max_turns: int = 12
    max_calls: int = 400
    max_calls_per_turn: int = 32
    max_tokens: int | None = None
    max_usd: float | None = None
    max_seconds: float | None = None
    others: dict[str, float] = field(default_factory=dict)
    """Limits of axes that are counted from events, by name; a file writes them as `max_NAME`."""

    def reserve_for_judges(self, judges: int) -> StageLimits:
        """The limits for players, with calls, tokens, money and time for the judges deducted."""
        if not judges:
            return self
        return replace(
            self,
            max_calls=max(0, self.max_calls - CALLS_PER_JUDGE * judges),
            max_tokens=_subtract_judge_share(self.max_tokens),
            max_usd=_subtract_judge_share(self.max_usd),
            max_seconds=_subtract_judge_share(self.max_seconds),
            others={name: _subtract_judge_share(limit) for name, limit in self.others.items()},
        )


class RunUsage(Struct, kw_only=True):
    """Usage according to the log. A call whose answer was lost counts as a call."""

    turn: int = 0
    calls: int = 0
    calls_in_turn: int = 0
    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0
    others: dict[str, float] = field(default_factory=dict)

    def apply_event(self, event: Event) -> None:
        """Count one event of the run; malformed values count as zero."""
        count_event(self.others, event, "stage")
        data = event.data
        match event.kind:
            case "model.called":
                self._count_call(_number_or_zero(data.get("turn")))
            case "model.replied" | "model.failed":
                self.tokens += int(sum(_number_or_zero(data.get(name)) for name in ("input", "output", "cache_read", "cache_write")))
                self.usd += _number_or_zero(data.get("usd"))
            case _:
                return
        self.seconds = max(self.seconds, _number_or_zero(data.get("elapsed_ms")) / 1000)

    def _count_call(self, turn: float) -> None:
        if turn > self.turn:
            self.turn, self.calls_in_turn = int(turn), 0
        self.calls += 1
        self.calls_in_turn += 1


def check_budget(limits: StageLimits, usage: RunUsage, *, turn: int, seconds: float) -> int:
    """How many calls may be made now; raises `BudgetExceeded` with what ran out.

    Checked before every round, so a run exceeds its limits by at most the calls in flight.
    """
    spent = SimpleNamespace(
        turns=turn - 1,
        calls=usage.calls,
        tokens=usage.tokens,
        usd=usage.usd,
        seconds=max(seconds, usage.seconds),
        others=usage.others,
    )
    rows = list_axes("stage")
    use = find_exhausted(list_uses(rows, spent, limits, prefix="max_"))
    if use is not None and use.limit is not None:
        reason = next(row.key for row in rows if row.spent_as == use.axis)
        raise BudgetExceeded(reason, used=use.used, limit=use.limit)
    return limits.max_calls - usage.calls


def _subtract_judge_share(limit: Any) -> Any:
    return None if limit is None else limit * (1 - JUDGE_BUDGET_SHARE)


def _number_or_zero(value: Any) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15 else 0
