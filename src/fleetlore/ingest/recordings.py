"""Recordings of other programs into the log: any number of files, merged by the times of their events."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.dialects.recording import QUIET
from fleetlore.events.envelope import Event
from fleetlore.ingest.batch_writer import Deposit, Item
from fleetlore.ingest.files import Placed, Read, place
from fleetlore.ingest.transcript_file import CHUNK, Tape
from fleetlore.projections import import_offsets as places

if TYPE_CHECKING:
    from fleetlore.dialects.recording import Recording
    from fleetlore.log.recorder import BlockingRecorder

MOST_READ_AHEAD = 16 * 1024 * 1024
"""Of all files together: hundreds of sessions may have run side by side, and each is read a piece ahead."""
SMALLEST_PIECE = 8 * 1024
MOST_PARTS = 5000
WHOLES_AT_ONCE = 200

REST = QUIET
"""After so long without a word, a file is taken for finished."""
TURN_END = "session.turn_ended"
Change = Callable[[Event], Event]
"""What is done to every event on its way: a veil, a name."""


def open_growing(paths: Sequence[str], recording: Recording, log: BlockingRecorder, *, rest: timedelta = REST) -> list[Tape]:
    """The files that have something new for a log, each from where it was left; one that is gone meanwhile is left out.

    One that nobody has written to for as long as `rest` is taken for finished.
    """
    known = places.load(log, paths)
    found = []
    for path in paths:
        with suppress(OSError):
            found.append(Tape(path, recording, place=known.get(path), live=True))
    for tape in found:
        tape.is_at_rest = clock.now() - tape.modified >= rest
    return [tape for tape in found if tape.left or (tape.is_at_rest and not tape.was_finished)]


def open_history(files: Sequence[tuple[str, Recording]], log: BlockingRecorder) -> dict[str, Tape]:
    """The same for an import of everything: each path that has something new for a log, with its tape.

    What a file holds back at its end is told. Of one that nobody has written to for as long as `REST`, a last line without an end is
    rejected: nothing will complete it.
    """
    known = places.load(log, [path for path, _ in files])
    found: dict[str, Tape] = {}
    for path, recording in files:
        with suppress(FileNotFoundError):  # it was there a moment ago
            tape = Tape(path, recording, place=known.get(path), live=_is_young(path))
            tape.is_at_rest = True
            if tape.left:
                found[path] = tape
    return found


def _is_young(path: str) -> bool:
    return clock.now() - datetime.fromtimestamp(os.stat(path).st_mtime, UTC) < REST


def take_in(
    tapes: Sequence[Tape],
    deposit: Deposit,
    log: BlockingRecorder,
    *,
    change: Change | None = None,
    not_before: datetime | None = None,
    on_read: Read = lambda size: None,
) -> None:
    """Store all that the files tell, then remember where each was left. What is older than a log is to keep is not taken in again."""
    items = merged(tapes, on_read=on_read)
    if change is not None:
        items = (_changed(item, change) for item in items)
    if not_before is not None:
        items = (_young(item, not_before) for item in items)
    parts = _Parts(log, deposit.again())
    deposit.put_all(map(parts.put_aside, items))
    parts.store()
    places.save(log, {tape.path: tape.place for tape in tapes if tape.place is not None})


def merged(tapes: Sequence[Tape], *, on_read: Read = lambda size: None) -> Iterator[Item]:
    """The items of all files, by time; a file is gone into only when its first time is reached."""
    piece = min(CHUNK, max(SMALLEST_PIECE, MOST_READ_AHEAD // max(1, len(tapes))))
    if len(tapes) == 1:
        yield from (placed.item for placed in place(tapes[0].items(on_read=on_read), tapes[0].modified))
        return
    waiting = sorted(((_first_time(tape, piece), tape.name, index) for index, tape in enumerate(tapes)), reverse=True)
    active: list[tuple[tuple[datetime, str, int], int, Placed, Iterator[Placed]]] = []
    while waiting or active:
        while waiting and (not active or waiting[-1][0] <= active[0][0][0]):
            index = waiting.pop()[2]
            _advance(active, index, place(tapes[index].items(on_read=on_read, piece=piece), tapes[index].modified))
        if active:
            _, index, placed, stream = heappop(active)
            yield placed.item
            _advance(active, index, stream)


def _advance(active: list[tuple[tuple[datetime, str, int], int, Placed, Iterator[Placed]]], index: int, stream: Iterator[Placed]) -> None:
    placed = next(stream, None)
    if placed is not None:
        heappush(active, (placed.key(), index, placed, stream))


def _first_time(tape: Tape, piece: int) -> datetime:
    """The time of the first event, for which only the beginning is read."""
    first = next((placed for placed in place(tape.items(piece=piece), tape.modified) if placed.item.events), None)
    return tape.modified if first is None else first.reached


def _changed(item: Item, change: Change) -> Item:
    return item if item.rejected is not None else item._replace(events=tuple(map(change, item.events)))


def _young(item: Item, not_before: datetime) -> Item:
    return item._replace(events=tuple(event for event in item.events if event.at is None or event.at >= not_before))


class _Parts:
    """Answers of which a whole may come, or have come, from elsewhere: stored last, and only those whose whole the log does not have.

    The end of a turn that follows such an answer is stored with it, so that it stays behind the answer.
    """

    def __init__(self, log: BlockingRecorder, deposit: Deposit) -> None:
        self._log, self._deposit = log, deposit
        self._held: list[Item] = []

    def put_aside(self, item: Item) -> Item:
        """The item without them."""
        first = next((index for index, event in enumerate(item.events) if _is_part(event)), None)
        if first is None:
            return item
        parts = tuple(event for index, event in enumerate(item.events) if _is_part(event) or (index > first and event.kind == TURN_END))
        if len(self._held) >= MOST_PARTS:
            self.store()
        self._held.append(item._replace(line=item.line._replace(raw=b""), events=parts))
        return item._replace(events=tuple(event for event in item.events if event not in parts))

    def store(self) -> None:
        """Those of no known whole. A whole that comes after all replaces its part."""
        held, self._held = self._held, []
        for start in range(0, len(held), WHOLES_AT_ONCE):
            group = held[start : start + WHOLES_AT_ONCE]
            wholes = {str(event.data["whole"]) for item in group for event in item.events if _is_part(event)}
            known = {event.id for event in self._log.get(sorted(wholes))}
            self._deposit.put_all(
                item._replace(events=tuple(event for event in item.events if not _is_part(event) or event.data["whole"] not in known))
                for item in group
            )


def _is_part(event: Event) -> bool:
    return event.kind == "model.replied" and "whole" in event.data
