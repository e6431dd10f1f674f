"""The events of a task's thread: those that name the task, and those of its goals and runs that name none.

A recorded session names its task once or twice, when it starts or in a prompt; all its other events carry only the run. The log's
scope `task:X` holds just the events that name the task. The thread, as the threads view counts it, holds all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from heapq import merge
from itertools import chain, islice
from operator import attrgetter
from typing import TypeAlias

from fleetlore.events.envelope import Event
from fleetlore.log.base import Position, StoredRecord
from fleetlore.log.reading import decode_all_stored
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.views.thread_state import ThreadsState
from fleetlore.views.threads import owns_of, task_at

PAGE = 1000
_position = attrgetter("position")


class ThreadEvents:
    """Which events belong to one task's thread. `holds` learns from the events that it is shown, so that a live thread can be followed."""

    def __init__(self, key: str, moves: dict[str, list[tuple[str, str]]]) -> None:
        self.key = key
        """`task:X`."""
        self._moves = moves

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes of the log that hold its events, and others."""
        return (self.key, *self._moves)

    def holds(self, event: Event) -> bool:
        """Whether an event belongs to the thread."""
        if event.task is not None:
            self._learn(event)
            return f"task:{event.task}" == self.key
        own = f"goal:{event.goal}" if event.goal is not None else f"run:{event.run}"
        return task_at(self._moves.get(own, []), event.position or "") == self.key

    def _learn(self, event: Event) -> None:
        """An event that names a goal or run with a task moves it to that task, from here on."""
        task, position = f"task:{event.task}", event.position or ""
        for own in owns_of(event):
            moves = self._moves.get(own)
            if moves is None:
                if task == self.key:
                    self._moves[own] = [(position, task)]
            elif position > moves[-1][0] and task != moves[-1][1]:
                moves.append((position, task))

    def read(
        self,
        log: BlockingRecorder,
        *,
        after: Position | None = None,
        before: Position | None = None,
        since: datetime | None = None,
        newest_first: bool = False,
    ) -> Iterator[Event]:
        """Its events, oldest first unless told otherwise."""
        parts = [log.read(scope, after=after, before=before, since=since, newest_first=newest_first) for scope in self.scopes]
        last: Position | None = None
        for event in merge(*parts, key=_position, reverse=newest_first):
            if event.position != last and self.holds(event):
                yield event
            last = event.position

    def pages(self, log: BlockingRecorder, *, since: datetime | None = None) -> Iterator[tuple[list[StoredRecord], list[Event]]]:
        """Its stored records and their events, oldest first, some at a time."""
        parts = [chain.from_iterable(log.pages(scope, since=since)) for scope in self.scopes]
        rows = _without_repeats(merge(*parts, key=_position))
        while page := list(islice(rows, PAGE)):
            held = [(row, event) for row, event in zip(page, decode_all_stored(page), strict=True) if self.holds(event)]
            if held:
                yield [row for row, _ in held], [event for _, event in held]


Selection: TypeAlias = str | ThreadEvents
"""Which events: those of a scope, or those of a task's thread."""


def select(scope: str, threads: ThreadsState, *, live: bool = False) -> Selection:
    """What a story of a scope tells: of a task with goals or runs of its own, the whole thread; else the scope as it is.

    A `live` story of a task is that of its thread even if it has no goals or runs yet: they may come.
    """
    if not scope.startswith("task:"):
        return scope
    moves = {own: list(known) for own, known in threads.moves.items() if any(task == scope for _, task in known)}
    return ThreadEvents(scope, moves) if moves or live else scope


def read_selection(
    log: BlockingRecorder,
    selection: Selection,
    *,
    after: Position | None = None,
    before: Position | None = None,
    kinds: Sequence[str] = (),
    since: datetime | None = None,
    newest_first: bool = False,
    limit: int | None = None,
) -> Iterator[Event]:
    """The events of a selection, oldest first unless told otherwise."""
    if isinstance(selection, str):
        return log.read(selection, after=after, before=before, kinds=kinds, since=since, newest_first=newest_first, limit=limit)
    assert not kinds, "kinds are asked for by scope only"
    return islice(selection.read(log, after=after, before=before, since=since, newest_first=newest_first), limit)


def _without_repeats(rows: Iterator[StoredRecord]) -> Iterator[StoredRecord]:
    last: Position | None = None
    for row in rows:
        if row.position != last:
            yield row
        last = row.position
