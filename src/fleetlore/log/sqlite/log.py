"""The embedded log: one SQLite file in WAL mode, a set of tables a town.

`events_N` holds the canonical JSON in log order. `ids_N` (which makes appends idempotent) and
`members_N` (the sequence numbers of every scope) are its indexes. Writing them with each event would
multiply the pages that a commit has to put on the disk, so they lag behind by at most `LAG` events;
for those, readers look at the id and the scopes that stand in the event's own row. `zones_N`
remembers the newest time in each run of 4096 events, so that `since` need not read the past.
"""

from __future__ import annotations

import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from threading import Lock
from typing import Any, TypeVar

import apsw

from fleetlore.errors import Closed, Conflict, Forgotten, LogError
from fleetlore.log.base import TOWN, AppendBatch, AppendOutcome, LogInfo, LogQuery, Position, Record, StoredRecord, hash_event_id
from fleetlore.log.sequence import to_position, to_sequence, to_stored_records
from fleetlore.log.sqlite import file as sqlite_file
from fleetlore.log.sqlite.file import OpenedFile, Sync, ask, transaction, translate_errors
from fleetlore.log.sqlite.query import ZONE_SIZE, find_newest, select_by_id, select_records, sequence_range, to_optional_position
from fleetlore.log.sqlite.tail import ChangeSignal, SqliteTail

# --- What becomes of each append in a commit: decided inside the write transaction, before anything is written.

_is_minted = attrgetter("minted")


class WriterState:
    """What a writer remembers of the log's end from one commit to the next, so that it need not read it again."""

    def __init__(self) -> None:
        self.n = 0
        self.last_sequence: int | None = None
        """The newest sequence number in the log."""
        self.next_sequence = 1
        """The next one to be given: none is given twice, whatever was removed."""
        self.indexed = 0
        self.erasures = 0
        self.recent_ids: dict[bytes, int] = {}
        """The ids behind `indexed`."""
        self.insert_statement = ""
        """The statement that stores one event, if nobody has written since."""

    def read_changes(self, connection: apsw.Connection, n: int) -> None:
        """Read what others have written since. Runs in the write transaction, so nobody writes meanwhile."""
        [(last,)] = ask(connection, f"SELECT max(seq) FROM events_{n}")
        if last is not None and last == self.last_sequence and n == self.n:
            return
        [(highest, indexed, erasures)] = ask(connection, "SELECT highest, indexed, erasures FROM towns WHERE n = ?", (n,))
        if self.last_sequence is None or (indexed, erasures, n) != (self.indexed, self.erasures, self.n):
            self.recent_ids, start = {}, indexed
        else:
            start = self.last_sequence
        self.recent_ids.update(ask(connection, f"SELECT id, seq FROM events_{n} WHERE seq > ?", (start,)))
        self.n, self.last_sequence, self.next_sequence, self.indexed, self.erasures = (
            n,
            last,
            max(last or 0, highest) + 1,
            indexed,
            erasures,
        )
        # An id is never NULL: so nothing is stored, and it is said, if the newest event is not the one that we know.
        # INSERT … SELECT … WHERE would go through a temporary table.
        newest = f"(SELECT max(seq) FROM events_{n})"
        self.insert_statement = f"INSERT INTO events_{n} VALUES (?1, CASE {newest} WHEN ?7 THEN ?2 END, ?3, ?4, ?5, CAST(?6 AS TEXT))"


class CommitPlan:
    """Gives sequence numbers to the records that are new, and says what speaks against a batch."""

    def __init__(self, connection: apsw.Connection, book: WriterState, batches: Sequence[AppendBatch]) -> None:
        self._connection, self._writer_state = connection, book
        self.first = book.next_sequence
        self.rows: list[Record] = []
        """The records to store, the first at sequence number `first`."""
        self._known_sequences = self._find_known([record for batch in batches for record in batch.records if not record.minted])
        self.outcomes = [self._plan_batch(batch) for batch in batches]

    def _find_known(self, records: Sequence[Record]) -> dict[bytes, int]:
        """Where those of the records stand that are stored already."""
        if not records:
            return {}
        recent = self._writer_state.recent_ids
        keys = [record.key for record in records]
        sql = f"SELECT id, seq FROM ids_{self._writer_state.n} WHERE id"
        if len(keys) == 1:
            known = dict(ask(self._connection, f"{sql} = ?", keys))
        else:
            known = dict(ask(self._connection, f"{sql} IN carray(?)", (apsw.carray(tuple(keys)),)))
        known.update({key: recent[key] for key in keys if key in recent})
        return known

    def _plan_batch(self, batch: AppendBatch) -> AppendOutcome:
        """The positions of a batch's records, or the reason why it is left out."""
        records, expect = batch.records, batch.expect
        if expect is None and all(map(_is_minted, records)):
            first = self.first + len(self.rows)
            self.rows += records
            return [to_position(seq) for seq in range(first, first + len(records))]
        if expect is not None or self._writer_state.erasures:
            objection = self._find_rejection(batch)
            if objection is not None:
                return objection
        return [to_position(self._known_sequences.get(record.key) or self._add_record(record)) for record in records]

    def _find_rejection(self, batch: AppendBatch) -> LogError | None:
        if all(record.key in self._known_sequences for record in batch.records):
            return None  # a repetition, whose first answer may have been lost
        if self._writer_state.erasures and (forgotten := [record.id for record in batch.records if self._is_erased(record)]):
            return Forgotten(forgotten)
        if batch.expect is not None and (head := self._find_head(batch.expect.scope)) != batch.expect.head:
            return Conflict(batch.expect.scope, batch.expect.head, head)
        return None

    def _add_record(self, record: Record) -> int:
        seq = self._known_sequences[record.key] = self.first + len(self.rows)
        self.rows.append(record)
        return seq

    def _find_head(self, scope: str) -> Position | None:
        """The scope's newest position, with what this very transaction is going to add."""
        for back, record in enumerate(reversed(self.rows), 1):
            if scope == TOWN or scope in record.scopes:
                return to_position(self.first + len(self.rows) - back)
        return to_optional_position(find_newest(self._connection, self._writer_state.n, scope))

    def _is_erased(self, record: Record) -> bool:
        return bool(ask(self._connection, f"SELECT 1 FROM forgotten_{self._writer_state.n} WHERE hash = ?", (hash_event_id(record.id),)))


# ---

LAG = 1024
TRIM_STEP = 5000
MOST_NUMBERS = 4000
"""So many scopes, and so many combinations of them, are remembered with their numbers; each task brings a few that never come again."""
_Answer = TypeVar("_Answer")
_DURABILITY: dict[Sync, str] = {
    "full": "every acknowledged append is on the disk",
    "normal": "safe from crashes of programs; a power cut may take the newest",
    "off": "none against a power cut: for tests",
}


class SqliteLog:
    """One town in one SQLite file. One writer at a time; readers never wait for it."""

    def __init__(self, path: str, *, town: str, sync: Sync = "full", timeout: float = 10.0, vfs: str | None = None) -> None:
        self.path = path = os.path.abspath(path)  # whoever changes the directory later still means this file
        self._owner_pid = os.getpid()
        self._needs_wal_checkpoint = False
        self._town, self._sync = town, sync
        self._options: dict[str, Any] = {"sync": sync, "timeout": timeout, "vfs": vfs}
        self._timeout_ms = int(timeout * 1000)
        self._write_lock = Lock()
        self._pool: list[apsw.Connection] = []
        self._closed = False
        self.changes = ChangeSignal()
        self._n: int | None = None
        self._writer_state = WriterState()
        self._kinds: dict[str, int] = {}
        self._scopes: dict[str, int] = {}
        self._scope_texts: dict[tuple[str, ...], str] = {}
        self._writer = sqlite_file.open_file(path, **self._options)
        try:
            sqlite_file.migrate_schema(self._writer, path)
            self.file = OpenedFile(path, self._writer)
        except BaseException:
            self._writer.close()
            raise

    # --- writing

    def commit(self, batches: Sequence[AppendBatch]) -> list[AppendOutcome]:
        """Store each batch that nothing speaks against, all with one write to the disk."""
        with self._write_lock:
            self._check_handle()
            return self._commit_locked(batches)

    def _commit_locked(self, batches: Sequence[AppendBatch]) -> list[AppendOutcome]:
        # Written out, where the other verbs use `_writing`: this path is taken for every event.
        self.file.check_quickly()
        try:
            outcomes = self._commit_single_event(batches) or self._commit_batches(batches)
        except BaseException as error:
            self._roll_back(error)
            raise
        if self._needs_wal_checkpoint:
            with suppress(apsw.Error):  # the events are stored; this is tried again with the next
                self._checkpoint_wal(wait=False)
        self.changes.notify_change()
        self.file.check_quickly()  # a file that was deleted or replaced meanwhile has taken the events with it: no acknowledgement
        return outcomes

    def _commit_single_event(self, batches: Sequence[AppendBatch]) -> list[AppendOutcome] | None:
        """The short way for a single event with a new id: one statement, if nothing has changed since our last commit."""
        book = self._writer_state
        if len(batches) != 1 or len(records := batches[0].records) != 1 or book.last_sequence is None or book.n != self._n:
            return None
        [record] = records
        seq = book.next_sequence
        if not record.minted or batches[0].expect is not None or seq - book.indexed >= LAG or seq % ZONE_SIZE == ZONE_SIZE - 1:
            return None
        kind, scopes = self._kinds.get(record.kind), self._find_scope_text(record.scopes)
        if kind is None or scopes is None:
            return None
        try:
            self._writer.execute(book.insert_statement, (seq, record.key, record.moment, kind, scopes, record.raw, book.last_sequence))
        except (apsw.ConstraintError, apsw.SQLError):  # others have written; or restored a backup, and there is no such table any more
            return None
        book.recent_ids[record.key] = book.last_sequence = seq
        book.next_sequence = seq + 1
        return [[to_position(seq)]]

    def _commit_batches(self, batches: Sequence[AppendBatch]) -> list[AppendOutcome]:
        self._writer.execute("BEGIN IMMEDIATE")
        n = self._sync_writer_state()
        plan = CommitPlan(self._writer, self._writer_state, batches)
        if plan.rows:
            self._insert_records(plan)
        self._writer.execute("COMMIT")
        self._n = n
        self._remember_commit(plan)
        return plan.outcomes

    def _sync_writer_state(self) -> int:
        """Learn what others have written meanwhile; answers the number of the town's tables, which are made if need be."""
        n = self._n or sqlite_file.find_or_create_town(self._writer, self._town)
        if n != self._writer_state.n:
            self._reset_caches()  # a reader may have been first to notice a restore: the numbers of kinds and scopes are old too
        try:
            self._writer_state.read_changes(self._writer, n)
        except apsw.SQLError:  # no such table: a backup was restored, under another number
            self._reset_caches()
            n = sqlite_file.find_or_create_town(self._writer, self._town)
            self._writer_state.read_changes(self._writer, n)
        return n

    @contextmanager
    def _write_transaction(self) -> Iterator[int]:
        """One write transaction on the town's tables, which are made if need be."""
        with self._write_lock:
            self.check_open()
            try:
                with transaction(self._writer):
                    self._reset_caches()  # rare enough to start afresh, whatever was trimmed or restored meanwhile
                    n = sqlite_file.find_or_create_town(self._writer, self._town)
                    yield n
            except BaseException as error:
                self._roll_back(error)
                raise
            self._n = n
            self._writer_state = WriterState()
            self.file.check_quickly()

    def _roll_back(self, error: BaseException) -> None:
        """After a failed transaction nothing that was learnt in it is true."""
        self._reset_caches()
        # Some errors, a full disk for one, have rolled back already.
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")
        if isinstance(error, apsw.Error):
            self.file.check()
            raise sqlite_file.translate_error(self.path, error) from error

    def _reset_caches(self) -> None:
        self._n = None
        self._writer_state = WriterState()
        self._kinds.clear()
        self._scopes.clear()
        self._scope_texts.clear()

    def _insert_records(self, plan: CommitPlan) -> None:
        n, first, end = self._writer_state.n, plan.first, plan.first + len(plan.rows)
        kinds, texts = self._kinds, self._scope_texts
        rows = [
            (
                seq,
                record.key,
                record.moment,
                kinds.get(record.kind) or self._intern_name("kinds", kinds, record.kind),
                texts.get(record.scopes) or self._intern_scopes(record.scopes),
                record.raw,
            )
            for seq, record in enumerate(plan.rows, first)
        ]
        self._writer.executemany(f"INSERT INTO events_{n} VALUES (?, ?, ?, ?, ?, CAST(? AS TEXT))", rows)
        if end - 1 - self._writer_state.indexed >= LAG:
            behind = ask(
                self._writer, f"SELECT seq, id, scopes FROM events_{n} WHERE seq > ? AND seq < ?", (self._writer_state.indexed, first)
            )
            self._update_indexes(n, [*behind, *((seq, key, scopes) for seq, key, _, _, scopes, _ in rows)])
        if first // ZONE_SIZE < end // ZONE_SIZE:
            self._insert_closed_zones(n, end // ZONE_SIZE)

    def _remember_commit(self, plan: CommitPlan) -> None:
        """Remember what was committed."""
        book = self._writer_state
        if not plan.rows:
            return
        book.last_sequence = plan.first + len(plan.rows) - 1
        book.next_sequence = book.last_sequence + 1
        if book.last_sequence - book.indexed >= LAG:
            book.indexed, book.recent_ids = book.last_sequence, {}
        else:
            book.recent_ids.update({record.key: seq for seq, record in enumerate(plan.rows, plan.first)})

    def _update_indexes(self, n: int, rows: Sequence[tuple[int, bytes, str]]) -> None:
        """Bring `ids_N` and `members_N` up to date, in key order, so that neighbours land on one page.

        Whole arrays go into one statement: a third of the time that single rows take.
        """
        members: defaultdict[str, list[int]] = defaultdict(list)
        for seq, _, scopes in rows:
            for scope in scopes.split():
                members[scope].append(seq)
        self._index_ids(n, rows)
        for scope in sorted(members, key=int):
            values = (int(scope), apsw.carray(array("q", members[scope])))
            self._writer.execute(f"INSERT INTO members_{n} SELECT ?, value FROM carray(?)", values)
        self._writer.execute("UPDATE towns SET indexed = ? WHERE n = ?", (rows[-1][0], n))

    def _index_ids(self, n: int, rows: Sequence[tuple[int, bytes, str]]) -> None:
        # An id that is there twice is for `lore verify` to tell; it must not keep anything from being stored.
        into = f"INSERT OR IGNORE INTO ids_{n}"
        before = rows[0][0] - 1
        if rows[-1][0] - before == len(rows):
            keys = apsw.carray(tuple([key for _, key, _ in rows]))
            self._writer.execute(f"{into} SELECT value, ? + rowid FROM carray(?) ORDER BY 1", (before, keys))
        else:  # erased events have left holes
            self._writer.executemany(f"{into} VALUES (?, ?)", sorted([(key, seq) for seq, key, _ in rows]))

    def _find_scope_text(self, scopes: tuple[str, ...]) -> str | None:
        """The scopes of an event as they stand in its row, numbers with a blank around each; `None` while one of them has none."""
        text = self._scope_texts.get(scopes)
        if text is not None:
            return text
        numbers = [self._scopes.get(scope) for scope in scopes]
        return None if None in numbers else self._cache_scope_text(scopes, numbers)

    def _intern_scopes(self, scopes: tuple[str, ...]) -> str:
        return self._cache_scope_text(
            scopes, [self._scopes.get(scope) or self._intern_name("scopes", self._scopes, scope) for scope in scopes]
        )

    def _cache_scope_text(self, scopes: tuple[str, ...], numbers: Sequence[int | None]) -> str:
        if len(self._scope_texts) > MOST_NUMBERS:
            self._scope_texts.clear()
        text = self._scope_texts[scopes] = f" {' '.join(map(str, numbers))} " if numbers else ""
        return text

    def _intern_name(self, table: str, known: dict[str, int], name: str) -> int:
        """The small number that stands for a scope or a kind; it never changes, so it may be remembered."""
        if len(known) > MOST_NUMBERS:
            known.clear()
            self._scope_texts.clear()
        self._writer.execute(f"INSERT OR IGNORE INTO {table}_{self._writer_state.n} (name) VALUES (?)", (name,))
        [(known[name],)] = ask(self._writer, f"SELECT id FROM {table}_{self._writer_state.n} WHERE name = ?", (name,))
        return known[name]

    def _insert_closed_zones(self, n: int, end: int) -> None:
        [(start,)] = ask(self._writer, f"SELECT coalesce(max(zone) + 1, 0) FROM zones_{n}")
        self._writer.executemany(
            f"INSERT INTO zones_{n} SELECT ?1, max(at) FROM events_{n} WHERE seq >= ?1 * {ZONE_SIZE} AND seq < (?1 + 1) * {ZONE_SIZE}"
            " HAVING count(*)",
            [(zone,) for zone in range(start, end)],
        )

    def trim(self, before: Position) -> int:
        """Drop the oldest records, a few thousand at a time, so that other writers wait only briefly."""
        count, limit = 0, to_sequence(before)
        while step := self._trim_batch(limit):
            count += step
        self.changes.notify_change()
        return count

    def _trim_batch(self, limit: int) -> int:
        with self._write_transaction() as n:
            rows = ask(self._writer, f"SELECT seq FROM events_{n} WHERE seq < ? ORDER BY seq LIMIT {TRIM_STEP}", (limit,))
            if rows:
                last = rows[-1][0]
                sqlite_file.remove_events(self._writer, n, [seq for (seq,) in rows])
                self._writer.execute("UPDATE towns SET trimmed = max(trimmed, ?1), highest = max(highest, ?1) WHERE n = ?2", (last, n))
                self._writer.execute(f"DELETE FROM zones_{n} WHERE (zone + 1) * {ZONE_SIZE} <= ?", (last,))
        return len(rows)

    def erase(self, ids: Sequence[str], fact: Record) -> int:
        """Drop these records, overwrite their bytes, and remember only the hashes of their ids."""
        with self._write_transaction() as n:
            gone = [seq for seq, _ in select_by_id(self._writer, n, ids)]
            sqlite_file.remove_events(self._writer, n, gone)
            self._writer.executemany(f"INSERT OR IGNORE INTO forgotten_{n} VALUES (?)", [(hash_event_id(id),) for id in ids])
            highest = max(gone, default=0)
            self._writer.execute("UPDATE towns SET highest = max(highest, ?), erasures = erasures + 1 WHERE n = ?", (highest, n))
            self._writer_state = WriterState()
            self._writer_state.read_changes(self._writer, n)
            self._insert_records(CommitPlan(self._writer, self._writer_state, [AppendBatch([fact])]))
        with self._write_lock, translate_errors(self.path, self.file):
            self._checkpoint_wal(wait=True)
        self.changes.notify_change()
        return len(gone)

    def _checkpoint_wal(self, *, wait: bool) -> None:
        """The WAL holds the old pages until it is written back and cut; while somebody reads them, it is tried again with each commit."""
        self._needs_wal_checkpoint = True
        self._writer.set_busy_timeout(self._timeout_ms if wait else 0)
        try:
            [(busy, _, _)] = ask(self._writer, "PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self._writer.set_busy_timeout(self._timeout_ms)
        self._needs_wal_checkpoint = bool(busy)

    # --- reading

    def read(self, query: LogQuery) -> list[StoredRecord]:
        """The records asked for, as they are at one moment."""
        sequence_range(query)
        return self._query_pooled(lambda connection, n: select_records(connection, n, query)) or []

    def get(self, ids: Sequence[str]) -> list[StoredRecord]:
        """The records with these ids."""
        rows = self._query_pooled(lambda connection, n: select_by_id(connection, n, ids))
        return to_stored_records(rows or ())

    def head(self, scope: str) -> Position | None:
        """The newest position in a scope."""
        return to_optional_position(self._query_pooled(lambda connection, n: find_newest(connection, n, scope)))

    def _query_pooled(self, work: Callable[[apsw.Connection, int], _Answer]) -> _Answer | None:
        with self._pooled_connection() as connection:
            return self.query_town(connection, work)

    def query_town(self, connection: apsw.Connection, work: Callable[[apsw.Connection, int], _Answer]) -> _Answer | None:
        """Ask the town's tables; `None` as long as nothing was ever stored in it."""
        known = self._n
        if known is not None:
            try:
                return work(connection, known)
            except apsw.SQLError:  # no such table: a backup was restored, under another number
                self._n = None
        self._n = sqlite_file.find_town(connection, self._town)
        return None if self._n is None else work(connection, self._n)

    def tail(self, scope: str, after: Position | None) -> SqliteTail:
        """Wait for what follows, on a connection of its own."""
        self.check_open()
        start = None if after is None else to_sequence(after)
        return SqliteTail(self, self._open_another(), scope, start)

    def _open_another(self) -> apsw.Connection:
        """One more connection to the file that is open already."""
        try:
            connection = sqlite_file.open_file(self.path, create=False, **self._options)
        except LogError:
            self.file.check()  # another file may have come into its place just now
            raise
        try:
            self.file.check()
        except BaseException:
            connection.close()
            raise
        return connection

    def info(self) -> LogInfo:
        """What this log holds, and what it promises."""
        with self._pooled_connection() as connection:
            log_id, trimmed, count, first, last = self.query_town(connection, _read_town_facts) or ("", 0, 0, None, None)
            towns = [name for (name,) in ask(connection, "SELECT name FROM towns ORDER BY name")]
        return LogInfo(
            backend="sqlite",
            town=self._town,
            log_id=log_id,
            events=count,
            first=to_optional_position(first),
            head=to_optional_position(last),
            trimmed_before=to_position(trimmed + 1) if trimmed else None,
            bytes=sum(os.path.getsize(path) for path in (self.path, f"{self.path}-wal") if os.path.exists(path)),
            dedup="as long as the event is kept",
            durability=_DURABILITY[self._sync],
            details={
                "path": os.path.abspath(self.path),
                "sync": self._sync,
                "sqlite": apsw.sqlite_lib_version(),
                "towns": towns,
                "unscrubbed": self._needs_wal_checkpoint,
            },
        )

    def close(self) -> None:
        """Close every connection; the last one out writes the WAL back."""
        with self._write_lock:
            self._closed = True
            self.changes.notify_change()
            self._writer.close()
            while self._pool:
                self._pool.pop().close()

    @contextmanager
    def _pooled_connection(self) -> Iterator[apsw.Connection]:
        self.check_open()
        with translate_errors(self.path, self.file):
            try:
                connection = self._pool.pop()
            except IndexError:
                connection = self._open_another()
            try:
                yield connection
            finally:
                if self._closed:
                    connection.close()
                else:
                    self._pool.append(connection)

    def check_open(self) -> None:
        """Refuse to go on once the log was closed, its file was deleted or replaced, or in a forked child."""
        self._check_handle()
        self.file.check()

    def _check_handle(self) -> None:
        if self._closed:
            raise Closed("the log was closed; open it again with connect()")
        if os.getpid() != self._owner_pid:  # SQLite's locks stay behind with the parent
            raise Closed("the log was opened before a fork; open it again in the child with connect()")


def _read_town_facts(connection: apsw.Connection, n: int) -> tuple[str, int, int, int | None, int | None]:
    """A town's log id, last trimmed number, count of events, first and last number."""
    [facts] = ask(
        connection,
        f"SELECT log_id, trimmed, (SELECT count(*) FROM ids_{n}) + (SELECT count(*) FROM events_{n} WHERE seq > indexed),"
        f" (SELECT min(seq) FROM events_{n}), (SELECT max(seq) FROM events_{n}) FROM towns WHERE n = {n}",
    )
    return tuple(facts)
