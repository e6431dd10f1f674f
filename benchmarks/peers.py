"""The other libraries, each configured to be as durable as ours: WAL, synchronous=FULL, one fsync per commit.

All get finished bytes and keep no scopes; only `eventsourcing` keeps an index at all. The bare inserts use a prepared statement with one
bound value: the least that SQLite can be asked to do.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import apsw
from eventsourcing.persistence import StoredEvent
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

from benchmarks.samples import TASKS, Supply, payloads

_TABLE = "CREATE TABLE events (seq INTEGER PRIMARY KEY, raw BLOB NOT NULL)"
_INSERT = "INSERT INTO events (raw) VALUES (?)"


class BareSqlite:
    """(c) One INSERT an event through the standard library, in autocommit: no scopes, no index, no checks."""

    def __init__(self, path: Path) -> None:
        self.take = Supply(payloads()).take
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute(_TABLE)

    def one_a_commit(self, raws: Sequence[bytes]) -> None:
        for raw in raws:
            self._connection.execute(_INSERT, (raw,))

    def bulk(self, raws: Sequence[bytes]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(_INSERT, [(raw,) for raw in raws])
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


class BareApsw:
    """The same insert through apsw, which is what ours is built on: it shows what the two SQLite versions differ by."""

    def __init__(self, path: Path) -> None:
        self.take = Supply(payloads()).take
        self._connection = apsw.Connection(str(path))
        self._connection.execute("PRAGMA journal_mode=WAL").fetchall()
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute(_TABLE)

    def one_a_commit(self, raws: Sequence[bytes]) -> None:
        for raw in raws:
            self._connection.execute(_INSERT, (raw,))

    def close(self) -> None:
        self._connection.close()


class EventSourcing:
    """(b) The `eventsourcing` library's own recorder for applications on SQLite.

    Its `insert_events` is one transaction, as `Application.save` makes one. The stored events are made
    beforehand, an aggregate a task, so that neither the library's aggregates nor its mapper nor its JSON is
    in the measured time. It sets WAL by itself; FULL is what SQLite gives it, and is asserted here.
    """

    def __init__(self, path: Path) -> None:
        self._datastore = SQLiteDatastore(str(path))
        self._recorder = SQLiteApplicationRecorder(self._datastore)
        self._recorder.create_table()
        self._raws = Supply(payloads())
        self._versions: Counter[int] = Counter()
        self._made = 0
        self._check_settings()

    def _check_settings(self) -> None:
        with self._datastore.transaction(commit=False) as cursor:
            cursor.execute("PRAGMA journal_mode")
            assert cursor.fetchone()[0] == "wal"
            cursor.execute("PRAGMA synchronous")
            assert cursor.fetchone()[0] == 2, "FULL"

    def take(self, count: int) -> list[StoredEvent]:
        return [self._stored(raw) for raw in self._raws.take(count)]

    def _stored(self, raw: bytes) -> StoredEvent:
        task = self._made % TASKS
        self._made += 1
        self._versions[task] += 1
        return StoredEvent(UUID(int=(task * 0x9E3779B97F4A7C15) << 48), self._versions[task], "benchmarks.samples:Deed", raw)

    def one_a_commit(self, stored: Sequence[StoredEvent]) -> None:
        for event in stored:
            self._recorder.insert_events([event])

    def bulk(self, stored: Sequence[StoredEvent]) -> None:
        self._recorder.insert_events(stored)

    def close(self) -> None:
        self._datastore.close()


class JsonLines:
    """(a) What small fleets do: open the file, append a line, sync, close."""

    def __init__(self, path: Path) -> None:
        self.take = Supply(payloads()).take
        self._path = path

    def one_a_commit(self, raws: Sequence[bytes]) -> None:
        for raw in raws:
            with open(self._path, "ab") as file:
                file.write(raw + b"\n")
                file.flush()
                os.fsync(file.fileno())

    def close(self) -> None:
        """Nothing stays open."""
