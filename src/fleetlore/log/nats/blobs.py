"""Whole texts of events in a town's stream, in pieces that fit the server's payload limit.

They are stored before their event, so an append that fails or is interrupted can leave some without an event. A failed append
removes its own; `remove_orphans` removes those of crashes and of programs that do not know of whole texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import msgspec

from fleetlore import clock
from fleetlore.log.base import Record, StoredRecord, to_position
from fleetlore.log.blobs import list_cuts, unpack_texts
from fleetlore.log.nats.client import MIN_PAYLOAD_LIMIT
from fleetlore.log.nats.index import NatsIndex
from fleetlore.log.nats.loop import map_concurrently
from fleetlore.log.nats.marks import StreamMarks
from fleetlore.log.nats.stream import MAX_IN_FLIGHT, NatsMessage, NatsStream
from fleetlore.log.nats.subjects import blob_subject
from fleetlore.log.reading import decode_stored

PIECE_BYTES = MIN_PAYLOAD_LIMIT - (16 << 10)
MIN_ORPHAN_AGE = timedelta(hours=1)
"""Younger ones may belong to an append that is under way."""


class NatsBlobs:
    """Stores, reads and removes whole texts. Its methods run on the client's loop."""

    def __init__(self, stream: NatsStream, index: NatsIndex, marks: StreamMarks, *, now: clock.Clock = clock.now) -> None:
        self._stream, self._index, self._marks, self._now = stream, index, marks, now

    async def store(self, records: Sequence[Record]) -> None:
        """Store the whole texts of records. Stored again, they are recognised by their digest."""
        await map_concurrently(records, self._store_one, at_once=4)

    async def _store_one(self, record: Record) -> None:
        subject = self._value_subject(record)
        pieces = [record.blobs[start : start + PIECE_BYTES] for start in range(0, len(record.blobs), PIECE_BYTES)]
        last = f"{subject}.{len(pieces)}.{len(pieces)}"
        if not record.minted and await self._stream.read_last(last) is not None:
            return  # the last piece is written last, so all are there
        for number, piece in enumerate(pieces, 1):
            await self._stream.store_message(f"{subject}.{len(pieces)}.{number}", piece, {})

    def _value_subject(self, record: Record) -> str:
        return blob_subject(self._stream.town, f"{record.id}.{sha256(record.blobs).hexdigest()[:32]}")

    async def read(self, id: str) -> bytes | None:
        """Return the whole texts of an event."""
        values = await self._read_values(id)
        if len(values) < 2:
            return next(iter(values), None)
        # The same id was sent with different texts; those of the event that is stored count.
        rows = await self._index.find_messages([id])
        return next((value for value in values if rows and unpack_texts(value).keys() & _named_digests(rows[0])), None)

    async def _read_values(self, id: str) -> list[bytes]:
        pieces: dict[str, dict[str, bytes]] = {}
        for row in await self._stream.read_every(blob_subject(self._stream.town, f"{id}.>")):
            value, _, number = row.subject.rpartition(".")
            pieces.setdefault(value, {})[number] = row.raw
        values = []
        for value, found in pieces.items():
            digest, count = value.split(".")[-2:]
            packed = b"".join(found.get(str(number), b"") for number in range(1, int(count) + 1))
            if sha256(packed).hexdigest()[:32] == digest:  # else a piece is missing: its append was interrupted
                values.append(packed)
        return values

    async def remove(self, ids: Iterable[str]) -> None:
        """Delete the whole texts of these events."""
        await map_concurrently(ids, self._remove_one, at_once=MAX_IN_FLIGHT)

    async def _remove_one(self, id: str) -> None:
        await self._stream.purge({"filter": blob_subject(self._stream.town, f"{id}.>")})

    async def remove_unstored(self, records: Sequence[Record]) -> None:
        """Delete the whole texts of records that were not stored; an event with the same id keeps its own."""
        if not records:
            return
        named = {row.id: _named_digests(row) for row in await self._index.find_messages([record.id for record in records])}
        for record in records:
            if not named.get(record.id, set()) & unpack_texts(record.blobs).keys():
                await self._stream.purge({"filter": f"{self._value_subject(record)}.>"})

    async def remove_orphans(self) -> None:
        """Delete the whole texts of events that were trimmed or erased, and of appends that were never completed."""
        subjects = await self._stream.list_subjects(blob_subject(self._stream.town, ">"))
        newest = {_event_id(subject): subject for subject in subjects}
        if not newest:
            return
        rows = await self._index.find_messages(newest)
        visible = {row.id for row in rows if self._marks.is_visible(row)}
        trimmed = {row.id for row in rows} - visible
        unknown = [id for id in newest if id not in visible and id not in trimmed]
        ages = await map_concurrently([newest[id] for id in unknown], self._find_age, at_once=MAX_IN_FLIGHT)
        await self.remove([*trimmed, *(id for id, age in zip(unknown, ages, strict=True) if age >= MIN_ORPHAN_AGE)])

    async def _find_age(self, subject: str) -> timedelta:
        body = msgspec.json.encode({"last_by_subj": subject})
        message = await self._stream.client.request_with_retry(f"$JS.API.DIRECT.GET.{self._stream.name}", body)
        stamp = (message.headers or {}).get("Nats-Time-Stamp")
        return timedelta(0) if stamp is None else self._now() - _parse_stamp(stamp)


def _named_digests(row: NatsMessage) -> set[str]:
    return {cut.sha256 for cut in list_cuts(decode_stored(StoredRecord(to_position(row.seq), row.raw)))}


def _event_id(subject: str) -> str:
    return subject.split(".")[3]


def _parse_stamp(stamp: str) -> datetime:
    """Parse RFC 3339 with nanoseconds, in UTC."""
    return datetime.fromisoformat(stamp[:19]).replace(tzinfo=UTC)
