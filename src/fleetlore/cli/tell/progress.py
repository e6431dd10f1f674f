"""How far the reading for a telling has come, as a bar on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack

from fleetlore.cli import progress
from fleetlore.cli.tell.readings import Watch
from fleetlore.events.envelope import Event

_EVERY = 1000


class TellBar(Watch):
    """Moves with every event twice: when it is counted, and when it is told."""

    def __init__(self, stack: ExitStack, total: int) -> None:
        self._show, self._total = stack.enter_context(progress.bar("reading")), total
        self._done = self._shown = 0

    def begin(self) -> None:
        """All over."""
        self._done = self._shown = 0

    def see(self, events: Sequence[Event]) -> None:
        """Some more were counted."""
        self._add(len(events))

    def passing(self, events: Iterable[Event]) -> Iterator[Event]:
        """Each is told."""
        for event in events:
            self._add(1)
            yield event

    def _add(self, count: int) -> None:
        self._done += count
        if self._done - self._shown >= _EVERY:
            self._shown = self._done
            self._show(self._done, self._total)
