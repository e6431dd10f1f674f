"""Reads a town from the log, and appends changes of a task only if the task has not changed in the meantime (optimistic locking)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fleetlore.events.envelope import Event
from fleetlore.kernel.journal import BlockingJournal, Journal, JournalDecision, KnownState, NoState
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import Position
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.seal import OperatorKey
from fleetlore.projections.signed_views import SignedTownFold
from fleetlore.town.commands import TownCommand
from fleetlore.views.town_state import Task, TownState

TOWN_KINDS = ("town.*", "work.*", "control.*")
"""Event families that the town's fold reads."""
RETRY_SECONDS = 60.0
"""How long dispatchers and workers retry temporary errors of the log."""


class TownJournal(Journal[TownState]):
    """Reads and writes a town's log on behalf of one process."""

    def __init__(self, log: Recorder, fold: SignedTownFold | None = None, *, retry_seconds: float = RETRY_SECONDS, **options: Any) -> None:
        self.fold: SignedTownFold = fold or SignedTownFold()
        super().__init__(log, self.fold, retry_seconds=retry_seconds, **options)

    def is_trusted(self, event: Event) -> bool:
        """Whether an event counts on this log."""
        return self.fold.is_trusted(event)

    async def read_task(self, id: str) -> Task | None:
        """Fold a task from its own scope; `None` if there is no such task."""
        journal = self._make_task_journal(id, None)
        await journal.catch_up()
        return journal.state.tasks.get(id)

    async def decide_task(
        self, id: str, decide: Callable[[Task | None], Sequence[Event]], *, known: KnownState[Task | None] | None = None
    ) -> Position | None:
        """Append the events that `decide` makes from a task; if another writer changes it first, decide again from the new state.

        Returns the position of the last event, or `None` if `decide` makes none. `known`, a state of the task that may be outdated,
        saves the first read; if `decide` makes no events from it, the task is read and decided again.
        """

        def decide_on_town(town: TownState) -> JournalDecision[None]:
            return JournalDecision(decide(town.tasks.get(id)), guard=f"task:{id}")

        stored = await self._make_task_journal(id, known).decide(decide_on_town, is_current=known is not None)
        return stored.events[-1].position if stored.events else None

    def _make_task_journal(self, id: str, known: KnownState[Task | None] | None) -> Journal[TownState]:
        start = None
        if known is not None:
            start = KnownState(self.fold.initial(), known.position)
            if known.state is not None:
                start.state.tasks[id] = known.state
        return self.narrow(self.fold, scopes=(f"task:{id}",), kinds=TOWN_KINDS, known=start)


# --- commands of users, from the CLI, the server and MCP


class StoredCommand(NamedTuple):
    """A command whose events are stored."""

    answer: str
    events: tuple[Event, ...]


def store_commands(
    log: BlockingRecorder, make_commands: Callable[[], Sequence[TownCommand]], *, key: OperatorKey | None = None
) -> list[StoredCommand]:
    """Store commands that are made from the current town; they are made again if another writer was faster.

    The first command is stored under its condition (`TownCommand.expect`); the others must have none and are stored after it, each
    in an append of its own. Raises `Busy` if others write all the time.
    """
    journal = BlockingJournal(log, NoState(), scopes=(), key=key)

    def decide(_: None) -> JournalDecision[Sequence[TownCommand]]:
        made = make_commands()
        return JournalDecision(made[0].events, guard=made[0].expect, answer=made) if made else JournalDecision((), answer=made)

    stored = journal.decide(decide)
    commands = stored.answer
    rest = [journal.append(command.events) for command in commands[1:]]
    return [StoredCommand(command.answer, tuple(events)) for command, events in zip(commands, [stored.events, *rest], strict=False)]
