"""What becomes of each append in a commit: decided inside the write transaction, before anything is written."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from fleetlore.errors import Conflict, Forgotten, LogError
from fleetlore.events.ids import uuid_bytes
from fleetlore.log.base import TOWN, Batch, Outcome, Position, Record, hash_of
from fleetlore.log.sequence import to_position
from fleetlore.log.sqlite_file import ask
from fleetlore.log.sqlite_query import as_position, newest


class Book:
    """What a writer remembers of the log's end from one commit to the next, so that it need not read it again."""

    def __init__(self) -> None:
        self.n = 0
        self.last: int | None = None
        """The newest sequence number in the log."""
        self.next = 1
        """The next one to be given: none is given twice, whatever was removed."""
        self.indexed = 0
        self.erasures = 0
        self.recent: dict[bytes, int] = {}
        """The ids behind `indexed`."""

    def catch_up(self, connection: apsw.Connection, n: int) -> None:
        """Read what others have written since. Runs in the write transaction, so nobody writes meanwhile."""
        [(last,)] = ask(connection, f"SELECT max(seq) FROM events_{n}")
        if last is not None and last == self.last and n == self.n:
            return
        [(highest, indexed, erasures)] = ask(connection, "SELECT highest, indexed, erasures FROM towns WHERE n = ?", (n,))
        if self.last is None or (indexed, erasures, n) != (self.indexed, self.erasures, self.n):
            self.recent, start = {}, indexed
        else:
            start = self.last
        self.recent.update(ask(connection, f"SELECT id, seq FROM events_{n} WHERE seq > ?", (start,)))
        self.n, self.last, self.next, self.indexed, self.erasures = n, last, max(last or 0, highest) + 1, indexed, erasures


class Plan:
    """Gives sequence numbers to the records that are new, and says what speaks against a batch."""

    def __init__(self, connection: apsw.Connection, book: Book, batches: Sequence[Batch]) -> None:
        self._connection, self._book = connection, book
        self.first = book.next
        self.rows: list[tuple[bytes, Record]] = []
        """The records to store and their keys, the first at sequence number `first`."""
        self._known = self._look_up([record for batch in batches for record in batch.records if not record.minted])
        self.outcomes = [self._place(batch) for batch in batches]

    def _look_up(self, records: Sequence[Record]) -> dict[bytes, int]:
        """Where those of the records stand that are stored already."""
        if not records:
            return {}
        recent = self._book.recent
        keys = [uuid_bytes(record.id) for record in records]
        sql = f"SELECT id, seq FROM ids_{self._book.n} WHERE id"
        if len(keys) == 1:
            known = dict(ask(self._connection, f"{sql} = ?", keys))
        else:
            known = dict(ask(self._connection, f"{sql} IN carray(?)", (apsw.carray(tuple(keys)),)))
        known.update({key: recent[key] for key in keys if key in recent})
        return known

    def _place(self, batch: Batch) -> Outcome:
        """The positions of a batch's records, or the reason why it is left out."""
        keys = [uuid_bytes(record.id) for record in batch.records]
        if batch.expect is None and all(record.minted for record in batch.records):
            first = self.first + len(self.rows)
            self.rows += zip(keys, batch.records, strict=True)
            return [to_position(seq) for seq in range(first, first + len(keys))]
        if batch.expect is not None or self._book.erasures:
            objection = self._objection(batch, keys)
            if objection is not None:
                return objection
        return [to_position(self._known.get(key) or self._new(key, record)) for key, record in zip(keys, batch.records, strict=True)]

    def _objection(self, batch: Batch, keys: Sequence[bytes]) -> LogError | None:
        if all(key in self._known for key in keys):
            return None  # a repetition, whose first answer may have been lost
        if self._book.erasures and (forgotten := [record.id for record in batch.records if self._is_forgotten(record)]):
            return Forgotten(forgotten)
        if batch.expect is not None and (head := self._head(batch.expect.scope)) != batch.expect.head:
            return Conflict(batch.expect.scope, batch.expect.head, head)
        return None

    def _new(self, key: bytes, record: Record) -> int:
        seq = self._known[key] = self.first + len(self.rows)
        self.rows.append((key, record))
        return seq

    def _head(self, scope: str) -> Position | None:
        """The scope's newest position, with what this very transaction is going to add."""
        for back, (_, record) in enumerate(reversed(self.rows), 1):
            if scope == TOWN or scope in record.scopes:
                return to_position(self.first + len(self.rows) - back)
        return as_position(newest(self._connection, self._book.n, scope))

    def _is_forgotten(self, record: Record) -> bool:
        return bool(ask(self._connection, f"SELECT 1 FROM forgotten_{self._book.n} WHERE hash = ?", (hash_of(record.id),)))
