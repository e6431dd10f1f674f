"""Whether an agent's context is to be made smaller before its next turn; pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from fleetlore.events.driver_types import Age, CompactTrigger, TokenPressure
from fleetlore.events.goal_plan import Compaction
from fleetlore.runtime.driver import breaker

_MINUTE = timedelta(minutes=1)


def why_compact(
    plan: Compaction,
    *,
    context: int | None,
    session_since: datetime,
    now: datetime,
    turn: int,
    last_compacted_turn: int | None = None,
    failures: int = 0,
    breaker_opened_turn: int | None = None,
) -> CompactTrigger | None:
    """What calls for it, or `None`.

    `context` is what the context holds now, not what all turns used together. `session_since` is when it was begun or last made smaller.
    `failures` are those in a row, and `breaker_opened_turn` the turn of the newest.
    """
    if plan.context_window == 0 or _is_too_soon(plan, turn, last_compacted_turn):
        return None
    if breaker.is_open(failures=failures, most=plan.max_failures, turn=turn, opened=breaker_opened_turn, rest=plan.min_turns_between):
        return None
    return _pressure(plan, context) or _age(plan, now - session_since)


def age_minutes(session_since: datetime, now: datetime) -> int:
    """How old a context is, in whole minutes; nought where the clock was set back."""
    return max(0, (now - session_since) // _MINUTE)


def pressure(plan: Compaction, context: int | None) -> float:
    """How full the window is, from nought on; nought where nobody knows."""
    return context / plan.context_window if context is not None and plan.context_window else 0.0


def _is_too_soon(plan: Compaction, turn: int, last: int | None) -> bool:
    return last is not None and turn - last < plan.min_turns_between


def _pressure(plan: Compaction, context: int | None) -> TokenPressure | None:
    full = pressure(plan, context)
    if context is None or full < plan.at:
        return None
    return TokenPressure(pct=full, tokens_used=context, context_window=plan.context_window)


def _age(plan: Compaction, age: timedelta) -> Age | None:
    minutes = age // _MINUTE
    if plan.max_age_minutes == 0 or minutes < plan.max_age_minutes:
        return None
    return Age(age_minutes=minutes, max_age_minutes=plan.max_age_minutes)
