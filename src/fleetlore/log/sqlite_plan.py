"""What becomes of each append in a commit: decided inside the write transaction, before anything is written."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from fleetlore.errors import Conflict, Forgotten
from fleetlore.events.ids import uuid_bytes
from fleetlore.log.base import TOWN, Batch, Outcome, Position, Record, hash_of
from fleetlore.log.sequence import to_position
from fleetlore.log.sqlite_query import as_position, newest


class Plan:
    """Gives sequence numbers to the records that are new, and says what speaks against a batch."""

    def __init__(self, connection: apsw.Connection, n: int, batches: Sequence[Batch]) -> None:
        self._connection, self._n = connection, n
        [(last, self.indexed, forgets)] = connection.execute(
            f"SELECT max(coalesce((SELECT max(seq) FROM events_{n}), 0), highest), indexed, EXISTS (SELECT 1 FROM forgotten_{n})"
            f" FROM towns WHERE n = {n}"
        ).fetchall()
        self._forgets = bool(forgets)
        self._known = self._look_up([uuid_bytes(record.id) for batch in batches for record in batch.records])
        self.first: int = last + 1
        self.rows: list[Record] = []
        """The records to store, the first at sequence number `first`."""
        self.placed: dict[bytes, int] = {}
        """Their ids and sequence numbers."""

    def _look_up(self, keys: list[bytes]) -> dict[bytes, int]:
        if len(keys) == 1:
            found = self._connection.execute(f"SELECT id, seq FROM ids_{self._n} WHERE id = ?", keys)
        else:
            found = self._connection.execute(f"SELECT id, seq FROM ids_{self._n} WHERE id IN carray(?)", (apsw.carray(tuple(keys)),))
        return dict(found.fetchall())

    def place(self, batch: Batch) -> Outcome:
        """The positions of a batch's records, or the reason why it is left out."""
        keys = [uuid_bytes(record.id) for record in batch.records]
        if not all(key in self._known for key in keys):
            if self._forgets and (forgotten := [record.id for record in batch.records if self._is_forgotten(record)]):
                return Forgotten(forgotten)
            if batch.expect is not None and (head := self._head(batch.expect.scope)) != batch.expect.head:
                return Conflict(batch.expect.scope, batch.expect.head, head)
        return [to_position(self._place(key, record)) for key, record in zip(keys, batch.records, strict=True)]

    def _place(self, key: bytes, record: Record) -> int:
        seq = self._known.get(key)
        if seq is None:
            seq = self._known[key] = self.placed[key] = self.first + len(self.rows)
            self.rows.append(record)
        return seq

    def _head(self, scope: str) -> Position | None:
        """The scope's newest position, with what this very transaction is going to add."""
        for seq in range(self.first + len(self.rows) - 1, self.first - 1, -1):
            if scope == TOWN or scope in self.rows[seq - self.first].scopes:
                return to_position(seq)
        return as_position(newest(self._connection, self._n, scope))

    def _is_forgotten(self, record: Record) -> bool:
        return bool(self._connection.execute(f"SELECT 1 FROM forgotten_{self._n} WHERE hash = ?", (hash_of(record.id),)).fetchall())
