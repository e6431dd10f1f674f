"""Selects the events of a task's thread: those that name the task, and those of its goals and runs that name none.

A recorded session names its task once or twice, at the start or in a prompt; its other events carry only the run. The
log's scope `task:X` has only the events that name the task; the thread, as the threads view counts it, has all of
them.
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
from fleetlore.views.threads import ThreadsState, bound_task_at, goal_and_run_keys

PAGE = 1000
_position = attrgetter("position")


class ThreadEvents:
    """Which events belong to one task's thread.

    `holds` learns from the events it sees, so a live thread can be followed.
    """

    def __init__(self, key: str, moves: dict[str, list[tuple[str, str]]]) -> None:
        self.key = key
        """`task:X`."""
        self._moves = moves

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes of the log that contain its events, among others."""
        return (self.key, *self._moves)

    def holds_event(self, event: Event) -> bool:
        """Whether an event belongs to the thread."""
        if event.task is not None:
            self._record_move(event)
            return f"task:{event.task}" == self.key
        owner = f"goal:{event.goal}" if event.goal is not None else f"run:{event.run}"
        return bound_task_at(self._moves.get(owner, []), event.position or "") == self.key

    def _record_move(self, event: Event) -> None:
        """An event that names a task and a goal or run moves the goal or run to that task from here on."""
        task, position = f"task:{event.task}", event.position or ""
        for owner in goal_and_run_keys(event):
            moves = self._moves.get(owner)
            if moves is None:
                if task == self.key:
                    self._moves[owner] = [(position, task)]
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
        """Yield its events, oldest first by default."""
        parts = [log.read(scope, after=after, before=before, since=since, newest_first=newest_first) for scope in self.scopes]
        last: Position | None = None
        for event in merge(*parts, key=_position, reverse=newest_first):
            if event.position != last and self.holds_event(event):
                yield event
            last = event.position

    def read_pages(self, log: BlockingRecorder, *, since: datetime | None = None) -> Iterator[tuple[list[StoredRecord], list[Event]]]:
        """Yield its stored records and their events in pages, oldest first."""
        parts = [chain.from_iterable(log.read_pages(scope, since=since)) for scope in self.scopes]
        rows = _drop_duplicates(merge(*parts, key=_position))
        while page := list(islice(rows, PAGE)):
            matching = [(row, event) for row, event in zip(page, decode_all_stored(page), strict=True) if self.holds_event(event)]
            if matching:
                yield [row for row, _ in matching], [event for _, event in matching]


Selection: TypeAlias = str | ThreadEvents
"""Events of a scope, or of a task's thread."""


def select_thread(scope: str, threads: ThreadsState, *, live: bool = False) -> Selection:
    """Return what the story of a scope covers: the whole thread for a task with goals or runs, else the scope.

    For a `live` story of a task it is always the thread: goals and runs may still come.
    """
    if not scope.startswith("task:"):
        return scope
    moves = {owner: list(task_moves) for owner, task_moves in threads.moves.items() if any(task == scope for _, task in task_moves)}
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
    """Yield the events of a selection, oldest first by default."""
    if isinstance(selection, str):
        return log.read(selection, after=after, before=before, kinds=kinds, since=since, newest_first=newest_first, limit=limit)
    assert not kinds, "kinds are asked for by scope only"
    return islice(selection.read(log, after=after, before=before, since=since, newest_first=newest_first), limit)


def _drop_duplicates(rows: Iterator[StoredRecord]) -> Iterator[StoredRecord]:
    last: Position | None = None
    for row in rows:
        if row.position != last:
            yield row
        last = row.position
