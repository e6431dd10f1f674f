"""In-memory log: the backend contract in its simplest form, for tests and trials. Its data is lost when the handle closes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import datetime
from threading import Condition
from time import monotonic
from typing import NamedTuple

from fleetlore import clock
from fleetlore.errors import Closed, Conflict, Forgotten
from fleetlore.log.base import (
    TOWN,
    AppendBatch,
    AppendOutcome,
    LogInfo,
    LogQuery,
    Position,
    Record,
    StoredRecord,
    TailPage,
    hash_event_id,
    matches_kind,
    to_position,
    to_sequence,
)


class _Row(NamedTuple):
    at: datetime
    kind: str
    stored: StoredRecord


class MemoryLog:
    """Keeps one town's records in dicts and sorted lists."""

    def __init__(self, *, town: str, log_id: str | None = None) -> None:
        self._town = town
        self._log_id = log_id or clock.uuid7()
        self._rows: dict[int, _Row] = {}
        self._members: dict[str, list[int]] = {TOWN: []}
        self._ids: dict[str, int] = {}
        self._blobs: dict[str, bytes] = {}
        self._forgotten: set[bytes] = set()
        self._last_sequence = 0
        self._trimmed = 0
        self._closed = False
        self.changed = Condition()

    def commit(self, batches: Sequence[AppendBatch]) -> list[AppendOutcome]:
        """Store each batch that is not rejected."""
        with self.changed:
            self._check_open()
            outcomes = [self._commit_batch(batch) for batch in batches]
            self.changed.notify_all()
        return outcomes

    def _commit_batch(self, batch: AppendBatch) -> AppendOutcome:
        if all(record.id in self._ids for record in batch.records):
            return [to_position(self._ids[record.id]) for record in batch.records]
        if forgotten := [record.id for record in batch.records if hash_event_id(record.id) in self._forgotten]:
            return Forgotten(forgotten)
        if batch.expect is not None and (head := self.head(batch.expect.scope)) != batch.expect.head:
            return Conflict(batch.expect.scope, batch.expect.head, head)
        return [to_position(self._ids.get(record.id) or self._store_record(record)) for record in batch.records]

    def _store_record(self, record: Record) -> int:
        self._last_sequence += 1
        self._rows[self._last_sequence] = _Row(record.at, record.kind, StoredRecord(to_position(self._last_sequence), record.raw))
        self._ids[record.id] = self._last_sequence
        if record.blobs:
            self._blobs[record.id] = record.blobs
        for scope in (TOWN, *record.scopes):
            self._members.setdefault(scope, []).append(self._last_sequence)
        return self._last_sequence

    def read(self, query: LogQuery) -> list[StoredRecord]:
        """Return the selected records."""
        with self.changed:
            self._check_open()
            members = self._members.get(query.scope, [])
            start = 0 if query.after is None else bisect_right(members, to_sequence(query.after))
            end = len(members) if query.before is None else bisect_left(members, to_sequence(query.before))
            span = members[start:end]
            if query.newest_first:
                span.reverse()
            rows: list[StoredRecord] = []
            for row in map(self._rows.__getitem__, span):
                if len(rows) >= query.limit:
                    break
                if matches_kind(row.kind, query.kinds) and (query.since is None or row.at >= query.since):
                    rows.append(row.stored)
            return rows

    def tail(self, scope: str, after: Position | None) -> MemoryTail:
        """Return a cursor that waits for new records."""
        return MemoryTail(self, scope, after)

    def read_page(self, scope: str, after: Position | None) -> TailPage:
        """Return the next page for a tail, with the gap if records were trimmed before it read them."""
        lost = after is not None and to_sequence(after) < self._trimmed
        return TailPage(self.read(LogQuery(scope=scope, after=after)), to_position(self._trimmed) if lost else None)

    def get(self, ids: Sequence[str]) -> list[StoredRecord]:
        """Return the records with these ids."""
        with self.changed:
            self._check_open()
            return [self._rows[sequence].stored for sequence in sorted({self._ids[id] for id in ids if id in self._ids})]

    def get_blobs(self, id: str) -> bytes | None:
        """Return the whole texts of a record."""
        with self.changed:
            self._check_open()
            return self._blobs.get(id)

    def head(self, scope: str) -> Position | None:
        """Return the newest position in a scope."""
        with self.changed:
            self._check_open()
            members = self._members.get(scope)
            return to_position(members[-1]) if members else None

    def trim(self, before: Position) -> int:
        """Delete the oldest records."""
        with self.changed:
            limit = min(to_sequence(before), self._last_sequence + 1)
            removed = [sequence for sequence in self._members[TOWN] if sequence < limit]
            self._drop_records(removed)
            self._trimmed = max(self._trimmed, limit - 1)
            self.changed.notify_all()
            return len(removed)

    def erase(self, ids: Sequence[str], forgotten_event: Record) -> int:
        """Delete these records and remember the hashes of their ids."""
        with self.changed:
            removed = sorted({self._ids[id] for id in ids if id in self._ids})
            self._drop_records(removed)
            self._forgotten.update(hash_event_id(id) for id in ids)
            self._store_record(forgotten_event)
            self.changed.notify_all()
            return len(removed)

    def _drop_records(self, sequences: Sequence[int]) -> None:
        dropped = set(sequences)
        for sequence in sequences:
            del self._rows[sequence]
        self._ids = {id: sequence for id, sequence in self._ids.items() if sequence not in dropped}
        self._blobs = {id: packed for id, packed in self._blobs.items() if id in self._ids}
        for scope, members in self._members.items():
            self._members[scope] = [sequence for sequence in members if sequence not in dropped]

    def info(self) -> LogInfo:
        """Describe this log."""
        with self.changed:
            town = self._members[TOWN]
            return LogInfo(
                backend="memory",
                town=self._town,
                log_id=self._log_id,
                events=len(town),
                first=to_position(town[0]) if town else None,
                head=self.head(TOWN),
                trimmed_before=to_position(self._trimmed + 1) if self._trimmed else None,
                bytes=sum(len(row.stored.raw) for row in self._rows.values()) + sum(map(len, self._blobs.values())),
                dedup="as long as the event is kept",
                durability="none: gone when the handle is closed",
            )

    def close(self) -> None:
        """Close the log and wake waiting tails."""
        with self.changed:
            self._closed = True
            self.changed.notify_all()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the log was closed; open it again with connect()")


class MemoryTail:
    """Waits on the log's condition variable."""

    def __init__(self, log: MemoryLog, scope: str, after: Position | None) -> None:
        self._log, self._scope, self._after = log, scope, after
        self._closed = False

    def next_page(self, timeout: float) -> TailPage:
        """Return the next records, or an empty page after `timeout`."""
        deadline = monotonic() + timeout
        with self._log.changed:
            while not self._closed:
                page = self._log.read_page(self._scope, self._after)
                if page.rows or page.gap:
                    self._after = page.rows[-1].position if page.rows else page.gap
                    return page
                left = deadline - monotonic()
                if left <= 0:
                    break
                self._log.changed.wait(left)
        return TailPage([])

    def close(self) -> None:
        """Stop waiting."""
        self._closed = True
        with self._log.changed:
            self._log.changed.notify_all()
