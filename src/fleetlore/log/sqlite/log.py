"""SQLite backend: one file in WAL mode, a set of tables per town.

`events_N` holds the canonical JSON in log order. `ids_N` (for idempotent appends) and `members_N` (the sequence numbers
of every scope) are its indexes. Writing them with each event would multiply the pages per commit, so they lag behind by
at most `LAG` events; for those, readers look at the id and scopes in the event's own row. `zones_N` holds the newest
time in each run of 4096 events, so that `since` need not read old events.
"""

from __future__ import annotations

import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from operator import attrgetter
from threading import Lock
from typing import Any, TypeVar

import apsw

from fleetlore.errors import Closed, Conflict, Forgotten, LogError
from fleetlore.log.base import (
    TOWN,
    AppendBatch,
    AppendOutcome,
    LogInfo,
    LogQuery,
    Position,
    Record,
    StoredRecord,
    hash_event_id,
    to_position,
    to_sequence,
    to_stored_records,
)
from fleetlore.log.sqlite import archive
from fleetlore.log.sqlite import file as sqlite_file
from fleetlore.log.sqlite.file import OpenedFile, Sync, checksum_record, fetch_rows, translate_errors, write_transaction
from fleetlore.log.sqlite.query import (
    ZONE_SIZE,
    find_first_since,
    find_newest,
    select_by_id,
    select_records,
    sequence_range,
    to_optional_position,
)
from fleetlore.log.sqlite.tail import ChangeSignal, SqliteTail

# --- Planning a commit: which records are new and which batches are rejected, decided inside the write transaction.

_is_minted = attrgetter("minted")


class WriterState:
    """What the writer knows about the end of the log, so that it need not read it again for each commit."""

    def __init__(self) -> None:
        self.n = 0
        self.last_sequence: int | None = None
        """The newest sequence number in the log."""
        self.next_sequence = 1
        """The next one to assign; none is used twice, even after deletions."""
        self.indexed = 0
        self.erasures = 0
        self.recent_ids: dict[bytes, int] = {}
        """The ids after `indexed`."""
        self.insert_statement = ""
        """Statement that stores one event, unless another process has written since."""

    def read_changes(self, connection: apsw.Connection, n: int) -> None:
        """Read what others have written since. Runs in the write transaction, so nobody writes meanwhile."""
        [(last,)] = fetch_rows(connection, f"SELECT max(seq) FROM events_{n}")
        if last is not None and last == self.last_sequence and n == self.n:
            return
        [(highest, indexed, erasures)] = fetch_rows(connection, "SELECT highest, indexed, erasures FROM towns WHERE n = ?", (n,))
        if self.last_sequence is None or (indexed, erasures, n) != (self.indexed, self.erasures, self.n):
            self.recent_ids, start = {}, indexed
        else:
            start = self.last_sequence
        self.recent_ids.update(fetch_rows(connection, f"SELECT id, seq FROM events_{n} WHERE seq > ?", (start,)))
        self.n, self.last_sequence, self.next_sequence, self.indexed, self.erasures = (
            n,
            last,
            max(last or 0, highest) + 1,
            indexed,
            erasures,
        )
        # If the newest event is not the one we know, the id becomes NULL and the constraint rejects the row.
        # INSERT … SELECT … WHERE would go through a temporary table.
        newest = f"(SELECT max(seq) FROM events_{n})"
        self.insert_statement = f"INSERT INTO events_{n} VALUES (?1, CASE {newest} WHEN ?7 THEN ?2 END, ?3, ?4, ?5, CAST(?6 AS TEXT), ?8)"


class CommitPlan:
    """Assigns sequence numbers to new records and decides which batches are rejected."""

    def __init__(self, connection: apsw.Connection, writer_state: WriterState, batches: Sequence[AppendBatch]) -> None:
        self._connection, self._writer_state = connection, writer_state
        self.first = writer_state.next_sequence
        self.rows: list[Record] = []
        """The records to store, starting at sequence number `first`."""
        self._known_sequences = self._find_known([record for batch in batches for record in batch.records if not record.minted])
        self.outcomes = [self._plan_batch(batch) for batch in batches]

    def _find_known(self, records: Sequence[Record]) -> dict[bytes, int]:
        """Return the sequence numbers of the records that are already stored."""
        if not records:
            return {}
        recent = self._writer_state.recent_ids
        keys = [record.key for record in records]
        sql = f"SELECT id, seq FROM ids_{self._writer_state.n} WHERE id"
        if len(keys) == 1:
            known = dict(fetch_rows(self._connection, f"{sql} = ?", keys))
        else:
            known = dict(fetch_rows(self._connection, f"{sql} IN carray(?)", (apsw.carray(tuple(keys)),)))
        known.update({key: recent[key] for key in keys if key in recent})
        return known

    def _plan_batch(self, batch: AppendBatch) -> AppendOutcome:
        """Return the positions of a batch's records, or the error that rejects it."""
        records, expect = batch.records, batch.expect
        if expect is None and all(map(_is_minted, records)):
            first = self.first + len(self.rows)
            self.rows += records
            return [to_position(seq) for seq in range(first, first + len(records))]
        if expect is not None or self._writer_state.erasures:
            rejection = self._find_rejection(batch)
            if rejection is not None:
                return rejection
        return [to_position(self._known_sequences.get(record.key) or self._add_record(record)) for record in records]

    def _find_rejection(self, batch: AppendBatch) -> LogError | None:
        if all(record.key in self._known_sequences for record in batch.records):
            return None  # a retry: the first acknowledgement may have been lost
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
        """Return the scope's newest position, including records of this plan."""
        for back, record in enumerate(reversed(self.rows), 1):
            if scope == TOWN or scope in record.scopes:
                return to_position(self.first + len(self.rows) - back)
        return to_optional_position(find_newest(self._connection, self._writer_state.n, scope))

    def _is_erased(self, record: Record) -> bool:
        return bool(
            fetch_rows(self._connection, f"SELECT 1 FROM forgotten_{self._writer_state.n} WHERE hash = ?", (hash_event_id(record.id),))
        )


# ---

LAG = 1024
TRIM_STEP = 5000
MOST_NUMBERS = 4000
"""Cache limit for scope numbers and for combinations of scopes; every task adds some that are not used again."""
_T = TypeVar("_T")
_DURABILITY: dict[Sync, str] = {
    "full": "every acknowledged append is on the disk",
    "normal": "safe from crashes of programs; a power cut may take the newest",
    "off": "none against a power cut: for tests",
}


class SqliteLog:
    """One town in one SQLite file. One writer at a time; readers never wait for it."""

    def __init__(self, path: str, *, town: str, sync: Sync = "full", timeout: float = 10.0, vfs: str | None = None) -> None:
        self.path = path = os.path.abspath(path)  # stays valid after os.chdir
        self._owner_pid = os.getpid()
        self._needs_wal_checkpoint = False
        self._town, self._sync = town, sync
        self._options: dict[str, Any] = {"sync": sync, "timeout": timeout, "vfs": vfs}
        self._timeout = timeout
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
            self._is_read_only = sqlite_file.is_read_only(self._writer)
        except BaseException:
            self._writer.close()
            raise

    # --- writing

    def commit(self, batches: Sequence[AppendBatch]) -> list[AppendOutcome]:
        """Store each batch that is not rejected, all with one disk write."""
        with self._write_lock:
            self._check_handle()
            return self._commit_locked(batches)

    def _commit_locked(self, batches: Sequence[AppendBatch]) -> list[AppendOutcome]:
        # Does not use `_write_transaction`, for speed: this path runs for every event.
        self.file.check_quickly()
        try:
            outcomes = self._commit_single_event(batches) or self._commit_batches(batches)
        except BaseException as error:
            self._roll_back(error)
            raise
        if self._needs_wal_checkpoint:
            with suppress(apsw.Error):  # the events are stored; the next commit tries again
                self._checkpoint_wal(wait=False)
        self.changes.notify_change()
        self.file.check_quickly()  # if the file was deleted or replaced meanwhile, the events are lost: do not acknowledge
        return outcomes

    def _commit_single_event(self, batches: Sequence[AppendBatch]) -> list[AppendOutcome] | None:
        """Fast path for a single event with a new id: one statement, if nobody else has written since our last commit."""
        state = self._writer_state
        if len(batches) != 1 or len(records := batches[0].records) != 1 or state.last_sequence is None or state.n != self._n:
            return None
        [record] = records
        seq = state.next_sequence
        if (
            not record.minted
            or record.blobs
            or batches[0].expect is not None
            or seq - state.indexed >= LAG
            or seq % ZONE_SIZE == ZONE_SIZE - 1
        ):
            return None
        kind, scopes = self._kinds.get(record.kind), self._find_scope_text(record.scopes)
        if kind is None or scopes is None:
            return None
        raw = record.raw
        row = (seq, record.key, record.moment, kind, scopes, raw, state.last_sequence, checksum_record(seq, raw))
        try:
            self._writer.execute(state.insert_statement, row)
        except (apsw.ConstraintError, apsw.SQLError):  # others have written, or a restore has removed the table
            return None
        state.recent_ids[record.key] = state.last_sequence = seq
        state.next_sequence = seq + 1
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
        """Read what others have written; return the number of the town's tables, created if needed."""
        n = self._n or sqlite_file.find_or_create_town(self._writer, self._town)
        if n != self._writer_state.n:
            self._reset_caches()  # a restore (perhaps noticed by a reader) also changed the numbers of kinds and scopes
        try:
            self._writer_state.read_changes(self._writer, n)
        except apsw.SQLError:  # no such table: a backup was restored, under another number
            self._reset_caches()
            n = sqlite_file.find_or_create_town(self._writer, self._town)
            self._writer_state.read_changes(self._writer, n)
        return n

    @contextmanager
    def _write_transaction(self) -> Iterator[int]:
        """Run a write transaction on the town's tables, created if needed."""
        with self._write_lock:
            self.check_open()
            try:
                with write_transaction(self._writer):
                    self._reset_caches()  # used rarely, so simply start afresh
                    n = sqlite_file.find_or_create_town(self._writer, self._town)
                    yield n
            except BaseException as error:
                self._roll_back(error)
                raise
            self._n = n
            self._writer_state = WriterState()
            self.file.check_quickly()

    def _roll_back(self, error: BaseException) -> None:
        """Roll back and drop the caches: nothing learnt in a failed transaction is valid."""
        self._reset_caches()
        # Some errors (a full disk, for example) have already rolled back.
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
                checksum_record(seq, record.raw),
            )
            for seq, record in enumerate(plan.rows, first)
        ]
        self._writer.executemany(f"INSERT INTO events_{n} VALUES (?, ?, ?, ?, ?, CAST(? AS TEXT), ?)", rows)
        if blobs := [(seq, record.blobs) for seq, record in enumerate(plan.rows, first) if record.blobs]:
            sqlite_file.insert_blobs(self._writer, n, blobs)
        if end - 1 - self._writer_state.indexed >= LAG:
            behind = fetch_rows(
                self._writer, f"SELECT seq, id, scopes FROM events_{n} WHERE seq > ? AND seq < ?", (self._writer_state.indexed, first)
            )
            self._update_indexes(n, [*behind, *((seq, key, scopes) for seq, key, _, _, scopes, _, _ in rows)])
        if first // ZONE_SIZE < end // ZONE_SIZE:
            self._insert_closed_zones(n, end // ZONE_SIZE)

    def _remember_commit(self, plan: CommitPlan) -> None:
        state = self._writer_state
        if not plan.rows:
            return
        state.last_sequence = plan.first + len(plan.rows) - 1
        state.next_sequence = state.last_sequence + 1
        if state.last_sequence - state.indexed >= LAG:
            state.indexed, state.recent_ids = state.last_sequence, {}
        else:
            state.recent_ids.update({record.key: seq for seq, record in enumerate(plan.rows, plan.first)})

    def _update_indexes(self, n: int, rows: Sequence[tuple[int, bytes, str]]) -> None:
        """Bring `ids_N` and `members_N` up to date, in key order so that neighbours share pages.

        Passing whole arrays to one statement takes a third of the time of single rows.
        """
        members: defaultdict[str, list[int]] = defaultdict(list)
        for seq, _, scopes in rows:
            for scope in scopes.split():
                members[scope].append(seq)
        changes = self._writer.total_changes()
        self._index_ids(n, rows)
        added = self._writer.total_changes() - changes
        for scope in sorted(members, key=int):
            values = (int(scope), apsw.carray(array("q", members[scope])))
            self._writer.execute(f"INSERT INTO members_{n} SELECT ?, value FROM carray(?)", values)
        self._writer.execute(
            f"UPDATE towns SET indexed = ?1, indexed_events = coalesce(indexed_events + ?2, (SELECT count(*) FROM ids_{n})) WHERE n = ?3",
            (rows[-1][0], added, n),
        )

    def _index_ids(self, n: int, rows: Sequence[tuple[int, bytes, str]]) -> None:
        # OR IGNORE: a duplicate id is reported by `lore verify`; it must not block appends.
        insert = f"INSERT OR IGNORE INTO ids_{n}"
        before = rows[0][0] - 1
        if rows[-1][0] - before == len(rows):
            keys = apsw.carray(tuple([key for _, key, _ in rows]))
            self._writer.execute(f"{insert} SELECT value, ? + rowid FROM carray(?) ORDER BY 1", (before, keys))
        else:  # erased events have left holes
            self._writer.executemany(f"{insert} VALUES (?, ?)", sorted([(key, seq) for seq, key, _ in rows]))

    def _find_scope_text(self, scopes: tuple[str, ...]) -> str | None:
        """Return the scopes as stored in an event's row (numbers, each between blanks); `None` if one has no number yet."""
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

    def _intern_name(self, table: str, cached: dict[str, int], name: str) -> int:
        """Return the number of a scope or kind, assigned on first use. It never changes, so it can be cached."""
        if len(cached) > MOST_NUMBERS:
            cached.clear()
            self._scope_texts.clear()
        self._writer.execute(f"INSERT OR IGNORE INTO {table}_{self._writer_state.n} (name) VALUES (?)", (name,))
        [(cached[name],)] = fetch_rows(self._writer, f"SELECT id FROM {table}_{self._writer_state.n} WHERE name = ?", (name,))
        return cached[name]

    def _insert_closed_zones(self, n: int, end: int) -> None:
        [(start,)] = fetch_rows(self._writer, f"SELECT coalesce(max(zone) + 1, 0) FROM zones_{n}")
        self._writer.executemany(
            f"INSERT INTO zones_{n} SELECT ?1, max(at) FROM events_{n} WHERE seq >= ?1 * {ZONE_SIZE} AND seq < (?1 + 1) * {ZONE_SIZE}"
            " HAVING count(*)",
            [(zone,) for zone in range(start, end)],
        )

    def trim(self, before: Position) -> int:
        """Delete the oldest records, a few thousand per transaction, so that other writers wait only briefly."""
        count, limit = 0, to_sequence(before)
        while step := self._trim_batch(limit):
            count += step
        with self._write_transaction() as n:
            sqlite_file.remove_orphaned_blobs(self._writer, n)
            old_files = archive.remove_gone_events(self._writer, n)
        archive.delete_files(old_files)
        self.changes.notify_change()
        return count

    def archive(self, before: datetime, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Move the content of events older than a time into compressed files, a few thousand per transaction; return how many.

        Everything before the first event that is not older is moved. Safe to repeat after an interruption.
        """
        count = 0
        with self._write_transaction() as n:
            archive.delete_unused_files(self._writer)
            end = find_first_since(self._writer, n, before) or (find_newest(self._writer, n, TOWN) or 0) + 1
            [(first,)] = fetch_rows(self._writer, f"SELECT coalesce(min(seq), 0) FROM events_{n}")
        while True:
            with self._write_transaction() as n:
                step = archive.archive_events(self._writer, n, end)
            if not step:
                break
            count += step
            if progress is not None:
                progress(min(first + count, end), end)
        with self._write_lock, translate_errors(self.path, self.file):
            self._checkpoint_wal(wait=False)
        return count

    def _trim_batch(self, limit: int) -> int:
        with self._write_transaction() as n:
            rows = fetch_rows(self._writer, f"SELECT seq FROM events_{n} WHERE seq < ? ORDER BY seq LIMIT {TRIM_STEP}", (limit,))
            if rows:
                last = rows[-1][0]
                sqlite_file.remove_events(self._writer, n, [seq for (seq,) in rows])
                self._writer.execute("UPDATE towns SET trimmed = max(trimmed, ?1), highest = max(highest, ?1) WHERE n = ?2", (last, n))
                self._writer.execute(f"DELETE FROM zones_{n} WHERE (zone + 1) * {ZONE_SIZE} <= ?", (last,))
        return len(rows)

    def erase(self, ids: Sequence[str], forgotten_event: Record) -> int:
        """Delete these records, overwrite their bytes, and keep only the hashes of their ids."""
        with self._write_transaction() as n:
            archive.delete_unused_files(self._writer)
            removed = [seq for seq, _ in select_by_id(self._writer, n, ids)]
            sqlite_file.remove_events(self._writer, n, removed)
            sqlite_file.remove_orphaned_blobs(self._writer, n)
            old_files = archive.remove_gone_events(self._writer, n)
            self._writer.executemany(f"INSERT OR IGNORE INTO forgotten_{n} VALUES (?)", [(hash_event_id(id),) for id in ids])
            highest = max(removed, default=0)
            self._writer.execute("UPDATE towns SET highest = max(highest, ?), erasures = erasures + 1 WHERE n = ?", (highest, n))
            self._writer_state = WriterState()
            self._writer_state.read_changes(self._writer, n)
            self._insert_records(CommitPlan(self._writer, self._writer_state, [AppendBatch([forgotten_event])]))
        with self._write_lock, translate_errors(self.path, self.file):
            self._checkpoint_wal(wait=True)
        archive.delete_files(old_files)
        self.changes.notify_change()
        return len(removed)

    def _checkpoint_wal(self, *, wait: bool) -> None:
        """Write back and truncate the WAL, which still holds the old pages; if readers block it, each commit retries."""
        self._needs_wal_checkpoint = True
        sqlite_file.set_busy_wait(self._writer, self._timeout if wait else 0.0)
        try:
            [(busy, _, _)] = fetch_rows(self._writer, "PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            sqlite_file.set_busy_wait(self._writer, self._timeout)
        self._needs_wal_checkpoint = bool(busy)

    # --- reading

    def read(self, query: LogQuery) -> list[StoredRecord]:
        """Return the matching records from one snapshot."""
        sequence_range(query)
        return self._query_pooled(lambda connection, n: select_records(connection, n, query)) or []

    def get(self, ids: Sequence[str]) -> list[StoredRecord]:
        """Return the records with these ids."""
        rows = self._query_pooled(lambda connection, n: select_by_id(connection, n, ids))
        return to_stored_records(rows or ())

    def get_blobs(self, id: str) -> bytes | None:
        """Return the whole texts of a record."""
        return self._query_pooled(lambda connection, n: _select_blobs(connection, n, id))

    def head(self, scope: str) -> Position | None:
        """Return the newest position in a scope."""
        return to_optional_position(self._query_pooled(lambda connection, n: find_newest(connection, n, scope)))

    def _query_pooled(self, work: Callable[[apsw.Connection, int], _T]) -> _T | None:
        with self._pooled_connection() as connection:
            return self.query_town(connection, work)

    def query_town(self, connection: apsw.Connection, work: Callable[[apsw.Connection, int], _T]) -> _T | None:
        """Run a query on the town's tables; `None` if nothing was ever stored in the town."""
        n = self._n
        if n is not None:
            try:
                return work(connection, n)
            except apsw.SQLError:  # no such table: a backup was restored, under another number
                self._n = None
        self._n = sqlite_file.find_town(connection, self._town)
        return None if self._n is None else work(connection, self._n)

    def tail(self, scope: str, after: Position | None) -> SqliteTail:
        """Return a cursor that waits for new records, on its own connection."""
        self.check_open()
        start = None if after is None else to_sequence(after)
        return SqliteTail(self, self._open_another(), scope, start)

    def _open_another(self) -> apsw.Connection:
        """Open another connection to the same file."""
        try:
            connection = sqlite_file.open_file(self.path, create=False, **self._options)
        except LogError:
            self.file.check()  # it may just have been replaced
            raise
        try:
            self.file.check()
        except BaseException:
            connection.close()
            raise
        return connection

    def info(self) -> LogInfo:
        """Describe this log."""
        with self._pooled_connection() as connection:
            log_id, trimmed, first, last, count = self.query_town(connection, _read_town_facts) or ("", 0, None, None, 0)
            towns = [name for (name,) in fetch_rows(connection, "SELECT name FROM towns ORDER BY name")]
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
            durability="the log can only be read here, not written" if self._is_read_only else _DURABILITY[self._sync],
            details={
                "path": os.path.abspath(self.path),
                "sync": self._sync,
                "sqlite": apsw.sqlite_lib_version(),
                "towns": towns,
                "unscrubbed": self._needs_wal_checkpoint,
                "read_only": self._is_read_only,
                "archive_bytes": archive.count_bytes(self.path),
            },
        )

    def close(self) -> None:
        """Close every connection; the last one writes the WAL back."""
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
        """Raise if the log was closed, its file was deleted or replaced, or this is a forked child."""
        self._check_handle()
        self.file.check()

    def _check_handle(self) -> None:
        if self._closed:
            raise Closed("the log was closed; open it again with connect()")
        if os.getpid() != self._owner_pid:  # SQLite's locks belong to the parent process
            raise Closed("the log was opened before a fork; open it again in the child with connect()")


def _select_blobs(connection: apsw.Connection, n: int, id: str) -> bytes | None:
    found = select_by_id(connection, n, [id])
    if not found:
        return None
    if not sqlite_file.has_blobs(connection, n):
        return archive.find_whole_texts(connection, n, found[0][0])
    rows = fetch_rows(connection, f"SELECT packed FROM blobs_{n} WHERE seq = ?", (found[0][0],))
    return rows[0][0] if rows else archive.find_whole_texts(connection, n, found[0][0])


def _read_town_facts(connection: apsw.Connection, n: int) -> tuple[str, int, int | None, int | None, int]:
    """Return a town's log id, last trimmed number, first and last number, event count."""
    [facts] = fetch_rows(
        connection,
        f"SELECT log_id, trimmed, (SELECT min(seq) FROM events_{n}), (SELECT max(seq) FROM events_{n}) FROM towns WHERE n = {n}",
    )
    return (*facts, sqlite_file.count_events(connection, n))
