"""Stores commands to a town, for the CLI, the server and MCP alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fleetlore.events.envelope import Event
from fleetlore.kernel.journal import BlockingJournal, JournalDecision, NoState
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.seal import OperatorKey
from fleetlore.town.commands import TownCommand


class StoredCommand(NamedTuple):
    """A command whose events are on the log."""

    answer: str
    events: tuple[Event, ...]


def store_commands(
    log: BlockingRecorder, make_commands: Callable[[], Sequence[TownCommand]], *, key: OperatorKey | None = None
) -> list[StoredCommand]:
    """Store commands that are made from the current town; they are made again if another writer was faster.

    Only the first command may have a condition. Raises `Busy` if others write all the time.
    """
    journal = BlockingJournal(log, NoState(), scopes=(), key=key)

    def decide(_: None) -> JournalDecision[Sequence[TownCommand]]:
        made = make_commands()
        return JournalDecision(made[0].events, guard=made[0].expect, answer=made) if made else JournalDecision((), answer=made)

    stored = journal.decide(decide)
    commands = stored.answer
    rest = [journal.append(command.events) for command in commands[1:]]
    return [StoredCommand(command.answer, tuple(events)) for command, events in zip(commands, [stored.events, *rest], strict=False)]
