"""Appends a town's events: signed if the log is sealed, and conditional on the task's state where a decision depends on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.errors import Busy, Conflict, NoRoom, Unreachable
from fleetlore.events.envelope import Event
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import Expect, Position
from fleetlore.log.seal import OperatorKey
from fleetlore.projections.signed_town import SignedTownFold
from fleetlore.views.town import fold_task
from fleetlore.views.town_state import Task

TOWN_KINDS = ("town.*", "work.*", "control.*")
"""Event families that the town's fold reads."""
MAX_DECISION_RETRIES = 50
RETRY_SECONDS = 0.5
MAX_RETRY_SECONDS = 60.0
"""How long temporary errors of the log are retried."""
RETRYABLE_ERRORS = (Busy, Unreachable, NoRoom)


class TownJournal:
    """Writes to a town's log on behalf of one process."""

    def __init__(
        self,
        log: Recorder,
        *,
        town_view: SignedTownFold | None = None,
        key: OperatorKey | None = None,
        new_id: Callable[[], str] = clock.uuid7,
    ) -> None:
        self.log, self.town_view, self._signing_key, self._new_id = log, town_view or SignedTownFold(), key, new_id
        self._admit = log.as_blocking().admit

    async def append(self, events: Sequence[Event], *, expect: Expect | None = None) -> list[Position]:
        """Append the events, all or none. Temporary errors are retried; events keep their ids, so a retry stores nothing twice."""
        stamped = [self.sign_event(event) for event in events]
        waited = 0.0
        while True:
            try:
                return await self.log.append(stamped, expect=expect)
            except RETRYABLE_ERRORS:
                if waited >= MAX_RETRY_SECONDS:
                    raise
            await asyncio.sleep(RETRY_SECONDS)
            waited += RETRY_SECONDS

    async def append_all(self, events: Iterable[Event]) -> None:
        """Append any number of events in order, not as one transaction."""
        await self.log.append_all(map(self.sign_event, events))

    def sign_event(self, event: Event) -> Event:
        """Return the event with an id, signed if the log is sealed."""
        identified = event if event.id is not None else replace(event, id=self._new_id())
        return identified if self._signing_key is None else self._signing_key.sign_event(identified, admit=self._admit)

    async def read_task(self, id: str) -> Task | None:
        """Fold a task from its own scope; `None` if there is no such task."""
        events = [event async for event in self.log.read(f"task:{id}", kinds=TOWN_KINDS)]
        return fold_task(filter(self.town_view.is_trusted, events), id)

    async def decide(
        self, id: str, decision: Callable[[Task | None], Sequence[Event]], *, known: tuple[Task | None, Position | None] | None = None
    ) -> list[Position]:
        """Append the events that `decision` derives from the task, if the task did not change meanwhile; returns their positions.

        On a conflict the task is read again and `decision` repeated; raises `Busy` after `MAX_DECISION_RETRIES`. `known` is the task as
        of a position and saves the first read; if `decision` yields nothing from it, the task is read after all.
        """
        for _ in range(MAX_DECISION_RETRIES):
            is_fresh = known is None
            task, head = known or await self._read_task_and_head(id)
            known = None
            events = decision(task)
            if not events and is_fresh:
                return []
            if not events:
                continue
            try:
                return await self.append(events, expect=Expect(f"task:{id}", head))
            except Conflict:
                continue
        raise Busy(f"the task {id} is written to so often that nothing could be decided; try again")

    async def _read_task_and_head(self, id: str) -> tuple[Task | None, Position | None]:
        head = await self.log.head(f"task:{id}")  # before reading, so that an event in between causes a conflict
        return await self.read_task(id), head
