"""What a town's stream stores besides events: erased ids, renamed ids and the trim horizon.

Every handle keeps a copy, read on open, after each reconnection, and when a message arrives on these subjects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from nats.aio.msg import Msg

from fleetlore.errors import LogError
from fleetlore.log.base import hash_event_id
from fleetlore.log.nats.errors import NATS_ERRORS, WRONG_LAST_SEQUENCE, JetStreamError
from fleetlore.log.nats.loop import map_concurrently
from fleetlore.log.nats.stream import MAX_IN_FLIGHT, NatsMessage, NatsStream
from fleetlore.log.nats.subjects import erased_subject, events_subject, meta_subject

TRIMMED_KEY = "fleetlore_trimmed"
RECHECK_SECONDS = (0.0, 0.05, 0.5)
"""Delays for reading after a notification: the stream may store the message a moment later, or refuse it."""


class StreamMarks:
    """Decides which stored messages are visible to readers."""

    def __init__(self, stream: NatsStream) -> None:
        self._stream = stream
        self._trimmed_subject, self._moved_subject = meta_subject(stream.town, "trimmed"), meta_subject(stream.town, "moved.")
        self._events_prefix = events_subject(stream.town)[:-1]
        self._erased_hashes: set[str] = set()
        self._erased_sequences: set[int] = set()
        self._unplaced_erasures = 0
        """Erased ids of which the mark does not say where they were: marks of older versions, or the event was not found."""
        self._renamed_ids: dict[str, int] = {}
        self._last_read = {erased_subject(stream.town): 0, f"{self._moved_subject}>": 0}
        self._generation = -1
        self.horizon = 0
        """The highest trimmed sequence number."""
        self.on_change: Callable[[], None] = lambda: None

    async def open(self) -> None:
        """Read the stored marks and subscribe to new ones."""
        client = self._stream.client
        for subject in (*self._last_read, self._trimmed_subject):
            await client.subscribe(subject, self._on_message)
        client.on_reconnect(self.refresh)
        await self.load_marks()

    async def refresh(self) -> None:
        """Read what was missed if the connection was interrupted."""
        if self._generation != self._stream.client.generation:
            await self.load_marks()

    async def load_marks(self) -> None:
        """Read the marks since the last time."""
        generation = self._stream.client.generation
        for subject, seen in self._last_read.items():
            for row in await self._stream.read_every(subject, seen + 1):
                self._add_mark(row)
                self._last_read[subject] = row.seq
        await self.read_horizon()
        self._generation = generation

    def _add_mark(self, row: NatsMessage) -> None:
        digest = row.subject.rpartition(".")[2]
        if row.subject.startswith(self._moved_subject):
            self._renamed_ids[digest] = _parse_number(row.raw)
        elif digest not in self._erased_hashes:
            self._erased_hashes.add(digest)
            self.add_erased_sequences(int(number) for number in row.raw.split() if number.isdigit())

    def add_erased_sequences(self, sequences: Iterable[int]) -> None:
        """Note where an erased event was, so that the hole is not taken for a purge."""
        places = set(sequences)
        self._erased_sequences |= places
        self._unplaced_erasures += not places

    def _on_message(self, message: Msg) -> None:
        """Read the mark: the message was published, but may not be stored."""
        self._stream.client.spawn(self._read_after_message(message.subject))

    async def _read_after_message(self, subject: str) -> None:
        # Not with `load_marks`: nats-server 2.12.1 may hang on a batched request during a write, as now.
        for pause in RECHECK_SECONDS:
            await asyncio.sleep(pause)
            with suppress(LogError, *NATS_ERRORS):
                if subject == self._trimmed_subject:
                    await self.read_horizon()
                elif (row := await self._stream.read_last(subject)) is not None:
                    self._add_mark(row)

    # --- the horizon

    async def read_horizon(self) -> int:
        """Read the horizon from the server: from a message, or from the metadata if there was no room for one."""
        row, _ = await asyncio.gather(self._stream.read_last(self._trimmed_subject), self._stream.refresh_config())
        stored = self._stream.config["metadata"].get(TRIMMED_KEY, "").encode()
        self._raise_horizon(max(_parse_number(stored), 0 if row is None else _parse_number(row.raw)))
        self._raise_horizon(self._find_purge_end())
        return self.horizon

    def _find_purge_end(self) -> int:
        """Return the last message that others have purged from the start of the stream, or 0."""
        first = self._stream.first_sequence
        missing = first - 1 - self.horizon
        if missing <= self._unplaced_erasures:
            return 0
        erased = sum(self.horizon < seq < first for seq in self._erased_sequences)
        return first - 1 if missing > erased + self._unplaced_erasures else 0

    async def move_horizon(self, to: int) -> None:
        """Store on the server that everything up to `to` is trimmed; the horizon never moves back."""
        if not await self.publish_horizon(to):
            # Metadata still fits when the server is full; trimming must work then.
            await self._stream.set_metadata(TRIMMED_KEY, str(to))
        self._raise_horizon(to)

    async def publish_horizon(self, to: int) -> bool:
        """Store the horizon as a message; return `False` if there is no room."""
        while (row := await self._stream.read_last(self._trimmed_subject)) is None or _parse_number(row.raw) < to:
            headers = {"Nats-Expected-Last-Subject-Sequence": str(row.seq if row is not None else 0)}
            try:
                await self._stream.store_message(self._trimmed_subject, str(to).encode(), headers)
            except JetStreamError as error:
                if error.is_no_room:
                    return False
                if error.code not in WRONG_LAST_SEQUENCE:
                    raise
        await self._stream.purge({"filter": self._trimmed_subject, "keep": 1})
        return True

    def _raise_horizon(self, number: int) -> None:
        if number > self.horizon:
            self.horizon = number
            self.on_change()

    # --- ids

    def is_erased(self, id: str) -> bool:
        """Return whether an id is rejected forever, as far as this handle knows."""
        return bool(self._erased_hashes) and hash_event_id(id).hex() in self._erased_hashes

    def add_erased(self, id: str, sequences: Iterable[int]) -> None:
        """Add an id that this handle erased itself, and where it was."""
        self._erased_hashes.add(hash_event_id(id).hex())
        self.add_erased_sequences(sequences)

    async def check_erased(self, id: str) -> bool:
        """Like `is_erased`, but asks the server."""
        digest = hash_event_id(id).hex()
        subject = erased_subject(self._stream.town, digest)
        if digest not in self._erased_hashes and await self._stream.read_last(subject) is not None:
            self._erased_hashes.add(digest)
        return digest in self._erased_hashes

    def message_id(self, id: str) -> str:
        """Return the message id of an event: its id, or `id/sequence` if it was stored before at `sequence` and is gone."""
        was_at = self._renamed_ids.get(hash_event_id(id).hex()) if self._renamed_ids else None
        return id if was_at is None else f"{id}/{was_at}"

    async def rename_ids(self, was_at: Mapping[str, int]) -> None:
        """Give ids another message id, for all handles and forever: the server's own memory of ids is lost on restart."""

        async def store_one(item: tuple[str, int]) -> None:
            digest = hash_event_id(item[0]).hex()
            await self._stream.store_message(self._moved_subject + digest, str(item[1]).encode(), {})
            self._renamed_ids[digest] = item[1]

        await map_concurrently(was_at.items(), store_one, at_once=MAX_IN_FLIGHT)

    def is_visible(self, row: NatsMessage) -> bool:
        """Return whether a message is an event that readers may see."""
        return row.seq > self.horizon and row.subject.startswith(self._events_prefix) and not self.is_erased(row.id)


def _parse_number(raw: bytes) -> int:
    return int(raw) if raw.isdigit() else 0
