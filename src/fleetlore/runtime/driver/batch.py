"""Events that are stored together or not at all, once, however often that is tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import TypeAlias

from fleetlore.events.envelope import Event

Events: TypeAlias = Sequence[Event] | Callable[[], Sequence[Event]]
"""Events, or what makes them."""


class Batch:
    """Events that belong together, made when they are stored."""

    def __init__(self, events: Events, unless: Callable[[], bool]) -> None:
        self._events, self.unless = events, unless
        self._made: Sequence[Event] | None = None
        self.is_stored = False

    def signed(self, sign: Callable[[Event], Event]) -> list[Event]:
        """As they are stored; the same each time that it is tried, so that they are stored once."""
        if self._made is None:
            self._made = [sign(event) for event in (self._events() if callable(self._events) else self._events)]
        return list(self._made)

    def is_known(self, seen: Set[str]) -> bool:
        """Whether they are on the log, though nobody was told so."""
        return bool(self._made) and all(event.id in seen for event in self._made or ())

    def make_anew(self, seen: Set[str]) -> None:
        """Others wrote meanwhile: have them made by what is known now."""
        if callable(self._events) and not self.is_known(seen):
            self._made = None
