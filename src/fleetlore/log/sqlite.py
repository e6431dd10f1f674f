"""The embedded log: one SQLite file in WAL mode, a set of tables a town.

`events_N` holds the canonical JSON in log order, and `ids_N` makes appends idempotent. `members_N`
lists the sequence numbers of every scope. Writing it with each event would double the pages that a
commit has to put on the disk, so it lags behind by at most `LAG` events; for those, readers look at
the scopes that stand in the event's own row. `zones_N` remembers the newest time in each run of
4096 events, so that `since` need not read the past.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Condition, Lock
from time import monotonic
from typing import Any

import apsw

from fleetlore.errors import Closed, InvalidEvent
from fleetlore.events import codec
from fleetlore.events.ids import uuid_bytes
from fleetlore.log import sqlite_file
from fleetlore.log.base import Batch, Info, Outcome, Page, Position, Query, Record, Stored, hash_of, scopes_of
from fleetlore.log.sequence import to_position, to_sequence
from fleetlore.log.sqlite_file import Sync, our_errors, transaction
from fleetlore.log.sqlite_plan import Plan
from fleetlore.log.sqlite_query import ZONE, as_position, microseconds, newest, select

LAG = 256
TRIM_STEP = 5000
MOST_NUMBERS = 100_000
# SQLite cannot wake another process; asking for its change counter costs some microseconds.
POLL_SECONDS = 0.004


class SqliteLog:
    """One town in one SQLite file. One writer at a time; readers never wait for it."""

    def __init__(self, path: str, *, town: str, sync: Sync = "full", timeout: float = 10.0, vfs: str | None = None) -> None:
        self.path = path
        self._town, self._sync = town, sync
        self._options: dict[str, Any] = {"sync": sync, "timeout": timeout, "vfs": vfs}
        self._write_lock = Lock()
        self._pool: list[apsw.Connection] = []
        self._closed = False
        self.changed = Condition()
        self._n: int | None = None
        self._scope_numbers: dict[str, int] = {}
        self._kind_numbers: dict[str, int] = {}
        self._writer = sqlite_file.open_file(path, **self._options)
        try:
            sqlite_file.migrate(self._writer, path)
        except BaseException:
            self._writer.close()
            raise

    # --- writing

    def commit(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Store each batch that nothing speaks against, all with one write to the disk."""
        with self._writing() as n:
            plan = Plan(self._writer, n, batches)
            outcomes = [plan.place(batch) for batch in batches]
            self._insert(n, plan)
        self._wake()
        return outcomes

    @contextmanager
    def _writing(self) -> Iterator[int]:
        """One write transaction on the town's tables, which are made if need be."""
        with self._write_lock, our_errors(self.path):
            self.check_open()
            try:
                with transaction(self._writer):
                    if self._n is None:
                        self._n = sqlite_file.found_town(self._writer, self._town)
                    yield self._n
            except BaseException:
                # Numbers given in this transaction were never stored.
                self._n = None
                self._scope_numbers.clear()
                self._kind_numbers.clear()
                raise

    def _insert(self, n: int, plan: Plan) -> None:
        if not plan.rows:
            return
        end = plan.first + len(plan.rows)
        kinds, scopes = self._kind_numbers, self._scope_numbers
        self._learn("kinds", kinds, {record.kind for record in plan.rows})
        self._learn("scopes", scopes, {scope for record in plan.rows for scope in record.scopes})
        self._writer.executemany(
            f"INSERT INTO events_{n} VALUES (?, ?, ?, ?, ?)",
            [
                (seq, microseconds(record.at), kinds[record.kind], _scopes_text(record, scopes), record.raw.decode())
                for seq, record in enumerate(plan.rows, plan.first)
            ],
        )
        self._writer.executemany(f"INSERT INTO ids_{n} VALUES (?, ?)", sorted(plan.placed.items()))
        if end - 1 - plan.indexed >= LAG:
            self._index(n, plan.indexed)
        if plan.first // ZONE < end // ZONE:
            self._close_zones(n, end // ZONE)

    def _index(self, n: int, after: int) -> None:
        """Bring `members_N` up to date."""
        rows = self._writer.execute(f"SELECT seq, scopes FROM events_{n} WHERE seq > ?", (after,)).fetchall()
        # In key order, so that neighbours land on one page.
        members = sorted([(int(scope), seq) for seq, scopes in rows for scope in scopes.split()])
        self._writer.executemany(f"INSERT INTO members_{n} VALUES (?, ?)", members)
        self._writer.execute("UPDATE towns SET indexed = ? WHERE n = ?", (rows[-1][0], n))

    def _close_zones(self, n: int, end: int) -> None:
        [(start,)] = self._writer.execute(f"SELECT coalesce(max(zone) + 1, 0) FROM zones_{n}").fetchall()
        self._writer.executemany(
            f"INSERT INTO zones_{n} SELECT ?1, max(at) FROM events_{n} WHERE seq >= ?1 * {ZONE} AND seq < (?1 + 1) * {ZONE} HAVING count(*)",
            [(zone,) for zone in range(start, end)],
        )

    def _learn(self, table: str, known: dict[str, int], names: set[str]) -> None:
        """The small numbers that stand for scopes and kinds; they never change, so they may be remembered."""
        if len(known) > MOST_NUMBERS:
            known.clear()
        for name in sorted(names - known.keys()):
            self._writer.execute(f"INSERT OR IGNORE INTO {table}_{self._n} (name) VALUES (?)", (name,))
            [(known[name],)] = self._writer.execute(f"SELECT id FROM {table}_{self._n} WHERE name = ?", (name,)).fetchall()

    def trim(self, before: Position) -> int:
        """Drop the oldest records, a few thousand at a time, so that other writers wait only briefly."""
        count, limit = 0, to_sequence(before)
        while step := self._trim_step(limit):
            count += step
        self._wake()
        return count

    def _trim_step(self, limit: int) -> int:
        with self._writing() as n:
            rows = self._writer.execute(
                f"SELECT seq, CAST(raw AS BLOB) FROM events_{n} WHERE seq < ? ORDER BY seq LIMIT {TRIM_STEP}", (limit,)
            ).fetchall()
            if rows:
                last = rows[-1][0]
                self._delete(n, rows)
                self._writer.execute("UPDATE towns SET trimmed = max(trimmed, ?1), highest = max(highest, ?1) WHERE n = ?2", (last, n))
                self._writer.execute(f"DELETE FROM zones_{n} WHERE (zone + 1) * {ZONE} <= ?", (last,))
        return len(rows)

    def erase(self, ids: Sequence[str], fact: Record) -> int:
        """Drop these records, overwrite their bytes, and remember only the hashes of their ids."""
        with self._writing() as n:
            self._writer.execute("PRAGMA secure_delete=ON").fetchall()
            rows = self._writer.execute(
                f"SELECT seq, CAST(raw AS BLOB) FROM events_{n} WHERE seq IN (SELECT seq FROM ids_{n} WHERE id IN carray(?))",
                (_array(ids),),
            ).fetchall()
            self._delete(n, rows)
            self._writer.executemany(f"INSERT OR IGNORE INTO forgotten_{n} VALUES (?)", [(hash_of(id),) for id in ids])
            highest = max((seq for seq, _ in rows), default=0)
            self._writer.execute("UPDATE towns SET highest = max(highest, ?) WHERE n = ?", (highest, n))
            batch = Batch([fact])
            plan = Plan(self._writer, n, [batch])
            plan.place(batch)
            self._insert(n, plan)
        with self._write_lock, our_errors(self.path):
            # The WAL still holds the old pages until it is written back and cut.
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self._wake()
        return len(rows)

    def _delete(self, n: int, rows: Sequence[tuple[int, bytes]]) -> None:
        run = self._writer.executemany
        run(f"DELETE FROM events_{n} WHERE seq = ?", [(seq,) for seq, _ in rows])
        for seq, raw in rows:
            try:
                event = codec.decode(raw)
            except InvalidEvent:  # what cannot be read has to be looked for
                self._writer.execute(f"DELETE FROM ids_{n} WHERE seq = ?", (seq,))
                self._writer.execute(f"DELETE FROM members_{n} WHERE seq = ?", (seq,))
                continue
            self._writer.execute(f"DELETE FROM ids_{n} WHERE id = ?", (uuid_bytes(event.id or ""),))
            run(
                f"DELETE FROM members_{n} WHERE scope = (SELECT id FROM scopes_{n} WHERE name = ?) AND seq = ?",
                [(scope, seq) for scope in scopes_of(event)],
            )

    def _wake(self) -> None:
        with self.changed:
            self.changed.notify_all()

    # --- reading

    def read(self, query: Query) -> list[Stored]:
        """The records asked for, as they are at one moment."""
        with self._reader() as connection:
            n = self.town_number(connection)
            return [] if n is None else select(connection, n, query)

    def tail(self, scope: str, after: Position | None) -> SqliteTail:
        """Wait for what follows, on a connection of its own."""
        self.check_open()
        return SqliteTail(self, sqlite_file.open_file(self.path, **self._options), scope, after)

    def get(self, ids: Sequence[str]) -> list[Stored]:
        """The records with these ids."""
        with self._reader() as connection:
            n = self.town_number(connection)
            if n is None or not ids:
                return []
            rows = connection.execute(
                f"SELECT seq, CAST(raw AS BLOB) FROM events_{n} WHERE seq IN (SELECT seq FROM ids_{n} WHERE id IN carray(?)) ORDER BY seq",
                (_array(ids),),
            )
            return [Stored(to_position(seq), raw) for seq, raw in rows]

    def head(self, scope: str) -> Position | None:
        """The newest position in a scope."""
        with self._reader() as connection:
            n = self.town_number(connection)
            return None if n is None else as_position(newest(connection, n, scope))

    def info(self) -> Info:
        """What this log holds, and what it promises."""
        with self._reader() as connection:
            n = self.town_number(connection)
            [(log_id, trimmed)] = connection.execute("SELECT log_id, trimmed FROM towns WHERE n = ?", (n,)).fetchall() or [("", 0)]
            count, first, last = 0, None, None
            if n is not None:
                [(count,)] = connection.execute(f"SELECT count(*) FROM ids_{n}").fetchall()
                [(first, last)] = connection.execute(
                    f"SELECT (SELECT min(seq) FROM events_{n}), (SELECT max(seq) FROM events_{n})"
                ).fetchall()
            towns = [name for (name,) in connection.execute("SELECT name FROM towns ORDER BY name")]
        return Info(
            backend="sqlite",
            town=self._town,
            log_id=log_id,
            events=count,
            first=as_position(first),
            head=as_position(last),
            trimmed_before=to_position(trimmed + 1) if trimmed else None,
            bytes=sum(os.path.getsize(path) for path in (self.path, f"{self.path}-wal") if os.path.exists(path)),
            dedup="as long as the event is kept",
            durability={"full": "every append is on the disk", "normal": "safe from crashes, not from power cuts", "off": "none"}[self._sync],
            details={"path": os.path.abspath(self.path), "sync": self._sync, "sqlite": apsw.sqlite_lib_version(), "towns": towns},
        )

    def close(self) -> None:
        """Close every connection; the last one out writes the WAL back."""
        with self._write_lock:
            self._closed = True
            self._wake()
            self._writer.close()
            while self._pool:
                self._pool.pop().close()

    def town_number(self, connection: apsw.Connection) -> int | None:
        """The number of the town's tables; `None` as long as nothing was ever stored in it."""
        if self._n is None:
            self._n = sqlite_file.find_town(connection, self._town)
        return self._n

    @contextmanager
    def _reader(self) -> Iterator[apsw.Connection]:
        self.check_open()
        with our_errors(self.path):
            try:
                connection = self._pool.pop()
            except IndexError:
                connection = sqlite_file.open_file(self.path, **self._options)
            try:
                yield connection
            finally:
                if self._closed:
                    connection.close()
                else:
                    self._pool.append(connection)

    def check_open(self) -> None:
        """Refuse to go on once the log was closed."""
        if self._closed:
            raise Closed("the log was closed; open it again with connect()")


class SqliteTail:
    """Waits for its scope to grow: told at once by this process's writer, asking for the others' every few milliseconds."""

    def __init__(self, log: SqliteLog, connection: apsw.Connection, scope: str, after: Position | None) -> None:
        self._log, self._connection, self._scope = log, connection, scope
        self._after = None if after is None else to_sequence(after)
        self._closed = False
        self._in_use = Lock()

    def next(self, timeout: float) -> Page:
        """The next records."""
        deadline = monotonic() + timeout
        with self._in_use, our_errors(self._log.path):
            seen = None
            while not self._closed:
                self._log.check_open()
                version = self._connection.execute("PRAGMA data_version").fetchall()
                if version != seen:
                    seen = version
                    page = self._page()
                    if page.rows or page.gap:
                        return page
                if monotonic() >= deadline:
                    break
                with self._log.changed:
                    self._log.changed.wait(min(POLL_SECONDS, max(0.0, deadline - monotonic())))
        return Page([])

    def _page(self) -> Page:
        n = self._log.town_number(self._connection)
        if n is None:
            return Page([])
        rows = select(self._connection, n, Query(scope=self._scope, after=as_position(self._after)))
        # Asked after the rows: what was trimmed in between is told as a gap, never passed over.
        [(trimmed,)] = self._connection.execute("SELECT trimmed FROM towns WHERE n = ?", (n,)).fetchall()
        gap = None
        if self._after is not None and self._after < trimmed:
            gap = to_position(trimmed)
            rows = [row for row in rows if row.position > gap]
            self._after = trimmed
        if rows:
            self._after = to_sequence(rows[-1].position)
        return Page(rows, gap)

    def close(self) -> None:
        """Stop waiting, and let the connection go."""
        self._closed = True
        with self._log.changed:
            self._log.changed.notify_all()
        with self._in_use:
            self._connection.close()


def _scopes_text(record: Record, numbers: dict[str, int]) -> str:
    """The scopes of an event as they stand in its row: numbers with a blank around each."""
    return f" {' '.join([str(numbers[scope]) for scope in record.scopes])} " if record.scopes else ""


def _array(ids: Sequence[str]) -> Any:
    return apsw.carray(tuple([uuid_bytes(id) for id in ids]))
