"""What a part of a log came to: counts, times and costs, with those of what had been trimmed before it."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from fleetlore.events.envelope import Event
from fleetlore.views import costs_sums
from fleetlore.views.costs import Costs
from fleetlore.views.reading import stamp_of

MOST_NAMES = 500
"""Of agents, and of kinds, that are told one by one."""
OTHERS = "others"
_TOKENS = ("input", "output", "cache_read", "cache_write", "cache_write_1h")


class Totals:
    """Adds up events in the order of the log."""

    def __init__(self, costs: Costs) -> None:
        self._costs, self._spending = costs.whole, costs.initial()
        self._gone = self._events = 0
        self._kinds: Counter[str] = Counter()
        self._agents: Counter[str] = Counter()
        self._first: str | None = None
        self._last: str | None = None

    def add(self, event: Event) -> None:
        """One more; what an earlier trim of this log told of itself is taken over."""
        self._gone += 1
        self._spending = self._costs.apply(self._spending, event)
        if event.kind == "log.trimmed" and (event.origin is None or event.origin.log is None):
            self._take_over(event.data)
            return
        self._events += 1
        self._kinds[event.kind] += 1
        if event.agent is not None:
            self._agents[event.agent] += 1
        self._widen(_written(stamp_of(event)[0]))

    @property
    def is_settled(self) -> bool:
        """Whether nothing that stays in the log can count again what was added."""
        return self._spending.is_settled

    def leave_to(self, event: Event) -> None:
        """Leave what a reply counts that stays in the log to it."""
        self._costs.leave_to(self._spending, event)

    def _take_over(self, data: dict[str, Any]) -> None:
        self._events += _number(data.get("events"))
        for counter, name in ((self._kinds, "counts"), (self._agents, "agents")):
            told = data.get(name)
            for key, value in told.items() if isinstance(told, dict) else ():
                counter[key] += _number(value)
        for name in ("first_at", "last_at"):
            if isinstance(at := data.get(name), str):
                self._widen(at)

    def _widen(self, at: str) -> None:
        self._first = at if self._first is None else min(self._first, at)
        self._last = at if self._last is None else max(self._last, at)

    def told(self) -> dict[str, Any]:
        """As `log.trimmed` says it; `gone` is how many events were added."""
        spent = costs_sums.total(self._spending)
        tokens = {name: value for name in _TOKENS if (value := getattr(spent, name))}
        return {
            "gone": self._gone,
            "events": self._events,
            "counts": _largest(self._kinds),
            "agents": _largest(self._agents),
            **tokens,
            **({"usd": round(spent.usd, 9)} if spent.usd else {}),
            **({"first_at": self._first, "last_at": self._last} if self._first else {}),
        }


def _largest(counts: Counter[str]) -> dict[str, int]:
    """The largest, and the others together."""
    largest = dict(sorted(counts.items(), key=lambda pair: (pair[0] == OTHERS, -pair[1], pair[0]))[:MOST_NAMES])
    rest = counts.total() - sum(largest.values())
    return largest | ({OTHERS: largest.get(OTHERS, 0) + rest} if rest else {})


def _written(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _number(value: object) -> int:
    return value if type(value) is int and value > 0 else 0
