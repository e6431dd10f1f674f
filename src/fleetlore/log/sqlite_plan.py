"""What becomes of each append in a commit: decided inside the write transaction, before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import apsw

from fleetlore.errors import Conflict, Forgotten, LogError
from fleetlore.log.base import TOWN, Batch, Outcome, Position, Record, hash_of
from fleetlore.log.sequence import to_position
from fleetlore.log.sqlite_file import ask
from fleetlore.log.sqlite_query import as_position, newest

_is_minted = attrgetter("minted")


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
        self.insert_one = ""
        """The statement that stores one event, if nobody has written since."""

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
        # An id is never NULL: so nothing is stored, and it is said, if the newest event is not the one that we know.
        # INSERT … SELECT … WHERE would go through a temporary table.
        newest = f"(SELECT max(seq) FROM events_{n})"
        self.insert_one = f"INSERT INTO events_{n} VALUES (?1, CASE {newest} WHEN ?7 THEN ?2 END, ?3, ?4, ?5, CAST(?6 AS TEXT))"


class Plan:
    """Gives sequence numbers to the records that are new, and says what speaks against a batch."""

    def __init__(self, connection: apsw.Connection, book: Book, batches: Sequence[Batch]) -> None:
        self._connection, self._book = connection, book
        self.first = book.next
        self.rows: list[Record] = []
        """The records to store, the first at sequence number `first`."""
        self._known = self._look_up([record for batch in batches for record in batch.records if not record.minted])
        self.outcomes = [self._place(batch) for batch in batches]

    def _look_up(self, records: Sequence[Record]) -> dict[bytes, int]:
        """Where those of the records stand that are stored already."""
        if not records:
            return {}
        recent = self._book.recent
        keys = [record.key for record in records]
        sql = f"SELECT id, seq FROM ids_{self._book.n} WHERE id"
        if len(keys) == 1:
            known = dict(ask(self._connection, f"{sql} = ?", keys))
        else:
            known = dict(ask(self._connection, f"{sql} IN carray(?)", (apsw.carray(tuple(keys)),)))
        known.update({key: recent[key] for key in keys if key in recent})
        return known

    def _place(self, batch: Batch) -> Outcome:
        """The positions of a batch's records, or the reason why it is left out."""
        records, expect = batch.records, batch.expect
        if expect is None and all(map(_is_minted, records)):
            first = self.first + len(self.rows)
            self.rows += records
            return [to_position(seq) for seq in range(first, first + len(records))]
        if expect is not None or self._book.erasures:
            objection = self._objection(batch)
            if objection is not None:
                return objection
        return [to_position(self._known.get(record.key) or self._new(record)) for record in records]

    def _objection(self, batch: Batch) -> LogError | None:
        if all(record.key in self._known for record in batch.records):
            return None  # a repetition, whose first answer may have been lost
        if self._book.erasures and (forgotten := [record.id for record in batch.records if self._is_forgotten(record)]):
            return Forgotten(forgotten)
        if batch.expect is not None and (head := self._head(batch.expect.scope)) != batch.expect.head:
            return Conflict(batch.expect.scope, batch.expect.head, head)
        return None

    def _new(self, record: Record) -> int:
        seq = self._known[record.key] = self.first + len(self.rows)
        self.rows.append(record)
        return seq

    def _head(self, scope: str) -> Position | None:
        """The scope's newest position, with what this very transaction is going to add."""
        for back, record in enumerate(reversed(self.rows), 1):
            if scope == TOWN or scope in record.scopes:
                return to_position(self.first + len(self.rows) - back)
        return as_position(newest(self._connection, self._book.n, scope))

    def _is_forgotten(self, record: Record) -> bool:
        return bool(ask(self._connection, f"SELECT 1 FROM forgotten_{self._book.n} WHERE hash = ?", (hash_of(record.id),)))
