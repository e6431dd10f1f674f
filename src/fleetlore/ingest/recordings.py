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
from fleetlore.ingest.batch_writer import BatchWriter, ImportItem
from fleetlore.ingest.files import OrderedItem, ReadCallback, order_items
from fleetlore.ingest.transcript_file import CHUNK, TranscriptFile
from fleetlore.projections import import_offsets as places

if TYPE_CHECKING:
    from fleetlore.dialects.recording import Recording
    from fleetlore.log.recorder import BlockingRecorder

MOST_READ_AHEAD = 16 * 1024 * 1024
"""Of all files together: hundreds of sessions may have run side by side, and each is read a piece ahead."""
MIN_CHUNK_BYTES = 8 * 1024
MOST_PARTS = 5000
WHOLES_AT_ONCE = 200

FINISHED_AFTER = QUIET
"""After so long without a word, a file is taken for finished."""
TURN_END = "session.turn_ended"
ChangeEvent = Callable[[Event], Event]
"""What is done to every event on its way: a veil, a name."""


def open_growing_files(
    paths: Sequence[str], recording: Recording, log: BlockingRecorder, *, rest: timedelta = FINISHED_AFTER
) -> list[TranscriptFile]:
    """The files that have something new for a log, each from where it was left; one that is gone meanwhile is left out.

    One that nobody has written to for as long as `rest` is taken for finished.
    """
    known = places.load_offsets(log, paths)
    found = []
    for path in paths:
        with suppress(OSError):
            found.append(TranscriptFile(path, recording, import_offset=known.get(path), live=True))
    for tape in found:
        tape.is_finished = clock.now() - tape.modified >= rest
    return [tape for tape in found if tape.remaining_bytes or (tape.is_finished and not tape.was_finished)]


def open_history(files: Sequence[tuple[str, Recording]], log: BlockingRecorder) -> dict[str, TranscriptFile]:
    """The same for an import of everything: each path that has something new for a log, with its tape.

    What a file holds back at its end is told. Of one that nobody has written to for as long as `REST`, a last line without an end is
    rejected: nothing will complete it.
    """
    known = places.load_offsets(log, [path for path, _ in files])
    found: dict[str, TranscriptFile] = {}
    for path, recording in files:
        with suppress(FileNotFoundError):  # it was there a moment ago
            tape = TranscriptFile(path, recording, import_offset=known.get(path), live=_is_young(path))
            tape.is_finished = True
            if tape.remaining_bytes:
                found[path] = tape
    return found


def _is_young(path: str) -> bool:
    return clock.now() - datetime.fromtimestamp(os.stat(path).st_mtime, UTC) < FINISHED_AFTER


def import_transcripts(
    tapes: Sequence[TranscriptFile],
    deposit: BatchWriter,
    log: BlockingRecorder,
    *,
    change: ChangeEvent | None = None,
    not_before: datetime | None = None,
    on_read: ReadCallback = lambda size: None,
) -> None:
    """Store all that the files tell, then remember where each was left. What is older than a log is to keep is not taken in again."""
    items = merge_items(tapes, on_read=on_read)
    if change is not None:
        items = (_change_item(item, change) for item in items)
    if not_before is not None:
        items = (_drop_old_events(item, not_before) for item in items)
    parts = _PartialReplies(log, deposit.new_writer())
    deposit.write_all(map(parts.hold_back, items))
    parts.store_held()
    places.save_offsets(log, {tape.path: tape.import_offset for tape in tapes if tape.import_offset is not None})


def merge_items(tapes: Sequence[TranscriptFile], *, on_read: ReadCallback = lambda size: None) -> Iterator[ImportItem]:
    """The items of all files, by time; a file is gone into only when its first time is reached."""
    piece = min(CHUNK, max(MIN_CHUNK_BYTES, MOST_READ_AHEAD // max(1, len(tapes))))
    if len(tapes) == 1:
        yield from (placed.item for placed in order_items(tapes[0].read_items(on_read=on_read), tapes[0].modified))
        return
    waiting = sorted(((_first_event_time(tape, piece), tape.name, index) for index, tape in enumerate(tapes)), reverse=True)
    active: list[tuple[tuple[datetime, str, int], int, OrderedItem, Iterator[OrderedItem]]] = []
    while waiting or active:
        while waiting and (not active or waiting[-1][0] <= active[0][0][0]):
            index = waiting.pop()[2]
            _push_next_item(active, index, order_items(tapes[index].read_items(on_read=on_read, piece=piece), tapes[index].modified))
        if active:
            _, index, placed, stream = heappop(active)
            yield placed.item
            _push_next_item(active, index, stream)


def _push_next_item(
    active: list[tuple[tuple[datetime, str, int], int, OrderedItem, Iterator[OrderedItem]]], index: int, stream: Iterator[OrderedItem]
) -> None:
    placed = next(stream, None)
    if placed is not None:
        heappush(active, (placed.sort_key(), index, placed, stream))


def _first_event_time(tape: TranscriptFile, piece: int) -> datetime:
    """The time of the first event, for which only the beginning is read."""
    first = next((placed for placed in order_items(tape.read_items(piece=piece), tape.modified) if placed.item.events), None)
    return tape.modified if first is None else first.reached


def _change_item(item: ImportItem, change: ChangeEvent) -> ImportItem:
    return item if item.rejected is not None else item._replace(events=tuple(map(change, item.events)))


def _drop_old_events(item: ImportItem, not_before: datetime) -> ImportItem:
    return item._replace(events=tuple(event for event in item.events if event.at is None or event.at >= not_before))


class _PartialReplies:
    """Answers of which a whole may come, or have come, from elsewhere: stored last, and only those whose whole the log does not have.

    The end of a turn that follows such an answer is stored with it, so that it stays behind the answer.
    """

    def __init__(self, log: BlockingRecorder, deposit: BatchWriter) -> None:
        self._log, self._deposit = log, deposit
        self._held: list[ImportItem] = []

    def hold_back(self, item: ImportItem) -> ImportItem:
        """The item without them."""
        first = next((index for index, event in enumerate(item.events) if _is_partial_reply(event)), None)
        if first is None:
            return item
        parts = tuple(
            event for index, event in enumerate(item.events) if _is_partial_reply(event) or (index > first and event.kind == TURN_END)
        )
        if len(self._held) >= MOST_PARTS:
            self.store_held()
        self._held.append(item._replace(line=item.line._replace(raw=b""), events=parts))
        return item._replace(events=tuple(event for event in item.events if event not in parts))

    def store_held(self) -> None:
        """Those of no known whole. A whole that comes after all replaces its part."""
        held, self._held = self._held, []
        for start in range(0, len(held), WHOLES_AT_ONCE):
            group = held[start : start + WHOLES_AT_ONCE]
            wholes = {str(event.data["whole"]) for item in group for event in item.events if _is_partial_reply(event)}
            known = {event.id for event in self._log.get(sorted(wholes))}
            self._deposit.write_all(
                item._replace(
                    events=tuple(event for event in item.events if not _is_partial_reply(event) or event.data["whole"] not in known)
                )
                for item in group
            )


def _is_partial_reply(event: Event) -> bool:
    return event.kind == "model.replied" and "whole" in event.data
