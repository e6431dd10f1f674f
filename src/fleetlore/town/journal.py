"""The journal of a town: folds the town, and decides on one task from that task's own scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fleetlore.events.envelope import Event
from fleetlore.kernel.journal import Journal, JournalDecision, KnownState
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import Position
from fleetlore.projections.signed_town import SignedTownFold
from fleetlore.views.town_state import Task, TownState

TOWN_KINDS = ("town.*", "work.*", "control.*")
"""Event families that the town's fold reads."""
RETRY_SECONDS = 60.0
"""How long dispatchers and workers retry temporary errors of the log."""


class TownJournal(Journal[TownState]):
    """Reads and writes a town's log on behalf of one process."""

    def __init__(self, log: Recorder, fold: SignedTownFold | None = None, **options: Any) -> None:
        self.fold: SignedTownFold = fold or SignedTownFold()
        super().__init__(log, self.fold, **{"retry_seconds": RETRY_SECONDS} | options)

    def is_trusted(self, event: Event) -> bool:
        """Whether an event counts on this log."""
        return self.fold.is_trusted(event)

    async def read_task(self, id: str) -> Task | None:
        """Fold a task from its own scope; `None` if there is no such task."""
        journal = self._open_task(id, None)
        await journal.catch_up()
        return journal.state.tasks.get(id)

    async def decide_task(
        self, id: str, decide: Callable[[Task | None], Sequence[Event]], *, known: KnownState[Task | None] | None = None
    ) -> Position | None:
        """Append what `decide` derives from a task, if the task has not changed meanwhile; returns the last position.

        `None` if nothing was to be done. `known` saves the first read; if `decide` finds nothing to do with it, the task is read.
        """

        def decide_on_town(town: TownState) -> JournalDecision[None]:
            return JournalDecision(decide(town.tasks.get(id)), guard=f"task:{id}")

        stored = await self._open_task(id, known).decide(decide_on_town, is_current=known is not None)
        return stored.events[-1].position if stored.events else None

    def _open_task(self, id: str, known: KnownState[Task | None] | None) -> Journal[TownState]:
        start = None
        if known is not None:
            start = KnownState(self.fold.initial(), known.position)
            if known.state is not None:
                start.state.tasks[id] = known.state
        return self.narrow(self.fold, scopes=(f"task:{id}",), kinds=TOWN_KINDS, known=start)
