"""Imports transcripts of coding agents into the log: any number of files, merged by the times of their events."""

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
from fleetlore.ingest.database_file import open_transcript
from fleetlore.ingest.files import OrderedItem, ReadCallback, order_items
from fleetlore.ingest.transcript_file import CHUNK, TranscriptFile
from fleetlore.projections import import_offsets

if TYPE_CHECKING:
    from fleetlore.dialects.recording import Recording
    from fleetlore.log.recorder import BlockingRecorder

MAX_READ_AHEAD_BYTES = 16 * 1024 * 1024
"""For all files together: hundreds of sessions may have run in parallel, and each is read a chunk ahead."""
MIN_CHUNK_BYTES = 8 * 1024
MAX_HELD_REPLIES = 5000
LOOKUP_BATCH = 200

FINISHED_AFTER = QUIET
"""A file that was not modified for this long is treated as finished."""
TURN_END = "session.turn_ended"
ChangeEvent = Callable[[Event], Event]
"""Changes an event before it is stored, for example anonymises it."""


def open_growing_files(
    paths: Sequence[str], recording: Recording, log: BlockingRecorder, *, rest: timedelta = FINISHED_AFTER
) -> list[TranscriptFile]:
    """Open the files that have something new for the log, each where the last import ended; missing files are left out.

    A file that was not modified for `rest` is treated as finished.
    """
    known = import_offsets.load_offsets(log, paths)
    transcripts = []
    for path in paths:
        with suppress(OSError):
            transcripts.append(open_transcript(path, recording, import_offset=known.get(path), live=True))
    for transcript in transcripts:
        transcript.is_finished = clock.now() - transcript.modified >= rest
    return [
        transcript for transcript in transcripts if transcript.remaining_bytes or (transcript.is_finished and not transcript.was_finished)
    ]


def open_history(files: Sequence[tuple[str, Recording]], log: BlockingRecorder) -> dict[str, TranscriptFile]:
    """Open all files of a history import that have something new, by path.

    Replies held back at the end of a file are stored. In a file that is older than `FINISHED_AFTER`, an incomplete
    last line is rejected.
    """
    known = import_offsets.load_offsets(log, [path for path, _ in files])
    found: dict[str, TranscriptFile] = {}
    for path, recording in files:
        with suppress(FileNotFoundError):  # removed a moment ago
            transcript = open_transcript(path, recording, import_offset=known.get(path), live=_is_recently_modified(path))
            transcript.is_finished = True
            if transcript.remaining_bytes:
                found[path] = transcript
    return found


def _is_recently_modified(path: str) -> bool:
    return clock.now() - datetime.fromtimestamp(os.stat(path).st_mtime, UTC) < FINISHED_AFTER


def import_transcripts(
    transcripts: Sequence[TranscriptFile],
    writer: BatchWriter,
    log: BlockingRecorder,
    *,
    change: ChangeEvent | None = None,
    not_before: datetime | None = None,
    on_read: ReadCallback = lambda size: None,
) -> None:
    """Store the events of all files, then save where each import ended.

    Events older than `not_before` are skipped: retention would remove them again.
    """
    items = merge_items(transcripts, on_read=on_read)
    if change is not None:
        items = (_change_item(item, change) for item in items)
    if not_before is not None:
        items = (_drop_old_events(item, not_before) for item in items)
    partial_replies = _PartialReplies(log, writer.new_writer())
    writer.write_all(map(partial_replies.hold_back, items))
    partial_replies.store_held()
    import_offsets.save_offsets(
        log, {transcript.path: transcript.import_offset for transcript in transcripts if transcript.import_offset is not None}
    )


def merge_items(transcripts: Sequence[TranscriptFile], *, on_read: ReadCallback = lambda size: None) -> Iterator[ImportItem]:
    """Yield the items of all files in order of time; a file is opened only when its first time is reached."""
    chunk_bytes = min(CHUNK, max(MIN_CHUNK_BYTES, MAX_READ_AHEAD_BYTES // max(1, len(transcripts))))
    if len(transcripts) == 1:
        yield from (ordered.item for ordered in order_items(transcripts[0].read_items(on_read=on_read), transcripts[0].modified))
        return
    waiting = sorted(
        ((_first_event_time(transcript, chunk_bytes), transcript.name, index) for index, transcript in enumerate(transcripts)), reverse=True
    )
    active: list[tuple[tuple[datetime, str, int], int, OrderedItem, Iterator[OrderedItem]]] = []
    while waiting or active:
        while waiting and (not active or waiting[-1][0] <= active[0][0][0]):
            index = waiting.pop()[2]
            _push_next_item(
                active, index, order_items(transcripts[index].read_items(on_read=on_read, piece=chunk_bytes), transcripts[index].modified)
            )
        if active:
            _, index, ordered, stream = heappop(active)
            yield ordered.item
            _push_next_item(active, index, stream)


def _push_next_item(
    active: list[tuple[tuple[datetime, str, int], int, OrderedItem, Iterator[OrderedItem]]], index: int, stream: Iterator[OrderedItem]
) -> None:
    ordered = next(stream, None)
    if ordered is not None:
        heappush(active, (ordered.sort_key(), index, ordered, stream))


def _first_event_time(transcript: TranscriptFile, chunk_bytes: int) -> datetime:
    """The time of the first event; only the beginning of the file is read."""
    first = next(
        (ordered for ordered in order_items(transcript.read_items(piece=chunk_bytes), transcript.modified) if ordered.item.events), None
    )
    return transcript.modified if first is None else first.reached


def _change_item(item: ImportItem, change: ChangeEvent) -> ImportItem:
    return item if item.rejected is not None else item._replace(events=tuple(map(change, item.events)))


def _drop_old_events(item: ImportItem, not_before: datetime) -> ImportItem:
    return item._replace(events=tuple(event for event in item.events if event.at is None or event.at >= not_before))


class _PartialReplies:
    """Holds back partial replies, of which the complete reply may come from elsewhere.

    They are stored last, and only if the log has no complete one. The end of a turn that follows a partial reply is
    stored with it, so that their order is kept.
    """

    def __init__(self, log: BlockingRecorder, writer: BatchWriter) -> None:
        self._log, self._writer = log, writer
        self._held: list[ImportItem] = []

    def hold_back(self, item: ImportItem) -> ImportItem:
        """Return the item without its partial replies."""
        first = next((index for index, event in enumerate(item.events) if _is_partial_reply(event)), None)
        if first is None:
            return item
        parts = tuple(
            event for index, event in enumerate(item.events) if _is_partial_reply(event) or (index > first and event.kind == TURN_END)
        )
        if len(self._held) >= MAX_HELD_REPLIES:
            self.store_held()
        self._held.append(item._replace(line=item.line._replace(raw=b""), events=parts))
        return item._replace(events=tuple(event for event in item.events if event not in parts))

    def store_held(self) -> None:
        """Store held replies without a known complete one. A complete reply that comes later replaces its part."""
        held, self._held = self._held, []
        for start in range(0, len(held), LOOKUP_BATCH):
            batch = held[start : start + LOOKUP_BATCH]
            complete_ids = {str(event.data["whole"]) for item in batch for event in item.events if _is_partial_reply(event)}
            stored_ids = {event.id for event in self._log.get(sorted(complete_ids))}
            self._writer.write_all(
                item._replace(
                    events=tuple(event for event in item.events if not _is_partial_reply(event) or event.data["whole"] not in stored_ids)
                )
                for item in batch
            )


def _is_partial_reply(event: Event) -> bool:
    return event.kind == "model.replied" and "whole" in event.data
