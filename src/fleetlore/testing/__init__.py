"""Test helpers for code built on Fleetlore: a frozen clock, counting ids, a scripted model, and given/when/then for views.

from fleetlore.testing import given
from fleetlore.views import fleet

given(fleet, Event(kind="fleet.dispatch", agent="ada")).when(Event(kind="fleet.idle", agent="ada")).then(
    lambda state: state.agents["ada"].standing == "idle"
)

mind = ScriptedModel({"ada": ["First line.", Stall()], "judge": {"winner": "ada"}})

`check_dialect`, `check_program`, `check_vocabulary`, `check_arc`, `check_node` and `check_harness` verify an extension against the same
rules as ours: docs/extending.md.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Generic, Protocol, TypeVar

from msgspec.structs import replace

from fleetlore.events.envelope import Event
from fleetlore.models.scripted import AnyOf, BreaksOff, Calls, ScriptedModel, Slow, Stall
from fleetlore.testing.dialects import check_dialect
from fleetlore.testing.programs import check_program
from fleetlore.testing.runners import check_harness, check_node
from fleetlore.testing.stories import check_arc, check_vocabulary

__all__ = [
    "START",
    "AnyOf",
    "BreaksOff",
    "Calls",
    "FrozenClock",
    "GivenView",
    "ScriptedModel",
    "Slow",
    "Stall",
    "View",
    "check_arc",
    "check_dialect",
    "check_harness",
    "check_node",
    "check_program",
    "check_vocabulary",
    "counting_ids",
    "given",
]

State = TypeVar("State")

START = datetime(2026, 1, 1, 9, 0, tzinfo=UTC)
"""Default start time of tests."""


class FrozenClock:
    """A clock that moves only on `advance`: `connect(url, now=clock)`."""

    def __init__(self, start: datetime = START) -> None:
        if start.tzinfo is None:
            raise ValueError("a clock needs a time zone, as in datetime(2026, 1, 1, tzinfo=UTC)")
        self.moment = start

    def __call__(self) -> datetime:
        """The current time of this clock."""
        return self.moment

    def advance(self, seconds: float) -> datetime:
        """Move the clock forward; returns the new time."""
        self.moment += timedelta(seconds=seconds)
        return self.moment


def counting_ids(first: int = 1) -> Callable[[], str]:
    """Sequential UUIDs: `connect(url, new_id=counting_ids())`."""
    numbers = count(first)
    return lambda: f"00000000-0000-7000-8000-{next(numbers):012x}"


class View(Protocol[State]):
    """A fold, such as the modules of `fleetlore.views`."""

    def initial(self) -> State:
        """The state before the first event."""

    def apply(self, state: State, event: Event, /) -> State:
        """The state after one more event; may modify the given state."""


class GivenView(Generic[State]):
    """A view with events applied. Missing ids, times and positions are filled in; the clock advances one second per event."""

    def __init__(self, view: View[State], clock: FrozenClock) -> None:
        self._view, self._clock, self._new_id, self._positions = view, clock, counting_ids(), count(1)
        self.state = view.initial()

    @property
    def now(self) -> datetime:
        """The current time of the clock."""
        return self._clock()

    def when(self, *events: Event) -> GivenView[State]:
        """Apply more events."""
        for event in events:
            self.state = self._view.apply(self.state, self._complete_event(event))
        return self

    def then(self, expected: State | Callable[[State], bool]) -> GivenView[State]:
        """Assert that the state equals `expected`, or satisfies it."""
        holds = expected(self.state) if callable(expected) else self.state == expected
        assert holds, f"the state is {self.state!r}"
        return self

    def _complete_event(self, event: Event) -> Event:
        at = event.at
        if at is None:
            at = self._clock()
            self._clock.advance(1)
        return replace(
            event,
            id=event.id or self._new_id(),
            at=at,
            actor=event.actor or event.agent or "test",
            position=event.position or f"{next(self._positions):020d}",
        )


def given(view: View[State], *events: Event, clock: FrozenClock | None = None) -> GivenView[State]:
    """A view with these events applied: `given(fleet, …).when(…).then(…)`."""
    return GivenView(view, clock or FrozenClock()).when(*events)
