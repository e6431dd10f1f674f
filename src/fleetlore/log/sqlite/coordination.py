"""Cursors, leases, tokens and the seal of a town, in the SQLite file of its log. Leases expire by this machine's clock.

Rows are keyed by the town's name, because a restore renumbers towns.
Every change is synced before it returns, whatever `?sync=` says for events.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import apsw

from fleetlore import clock
from fleetlore.errors import Closed, LeaseLost
from fleetlore.log.base import Lease, Position, epoch_microseconds, make_lease, next_epoch, seconds_to_microseconds
from fleetlore.log.sqlite import file as sqlite_file
from fleetlore.log.sqlite.file import OpenedFile, fetch_rows, translate_errors, write_transaction
from fleetlore.log.tokens import Token, decode_tokens, encode_token


class SqliteCoordination:
    """Coordination state of one town in one file. Methods as in `CoordinationStore`."""

    def __init__(self, path: str, *, town: str, timeout: float = 10.0, now: clock.Clock = clock.now) -> None:
        self._path = os.path.abspath(path)
        self._town, self._now = town, now
        self._owner_pid, self._closed = os.getpid(), False
        self._lock = Lock()
        self._connection = sqlite_file.open_file(self._path, sync="full", timeout=timeout)
        try:
            sqlite_file.migrate_schema(self._connection, self._path)
            self._file = OpenedFile(self._path, self._connection)
        except BaseException:
            self._connection.close()
            raise

    def load_cursor(self, name: str) -> Position | None:
        """Return the position of a cursor."""
        with self._locked_connection() as connection:
            rows = fetch_rows(connection, "SELECT position FROM cursors WHERE town = ? AND name = ?", (self._town, name))
        return rows[0][0] if rows else None

    def commit_cursor(self, name: str, position: Position) -> None:
        """Set a cursor."""
        with self._write_transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?, ?)", (self._town, name, position))

    def list_cursors(self) -> dict[str, Position]:
        """Return all cursors."""
        with self._locked_connection() as connection:
            return dict(fetch_rows(connection, "SELECT name, position FROM cursors WHERE town = ?", (self._town,)))

    def delete_cursor(self, name: str) -> None:
        """Delete a cursor."""
        with self._write_transaction() as connection:
            connection.execute("DELETE FROM cursors WHERE town = ? AND name = ?", (self._town, name))

    def acquire(self, name: str, holder: str, seconds: float) -> Lease | None:
        """Acquire a lease if it is free or already the holder's, whose earlier lease ends."""
        with self._write_transaction() as connection:
            now = epoch_microseconds(self._now())
            rows = fetch_rows(connection, "SELECT epoch, holder, until FROM leases WHERE town = ? AND name = ?", (self._town, name))
            last, held_by, until = rows[0] if rows else (0, None, 0)
            if held_by not in (None, holder) and until > now:
                return None
            epoch, until = next_epoch(last, now), now + seconds_to_microseconds(seconds)
            values = (self._town, name, epoch, holder, until, seconds)
            connection.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?, ?)", values)
        return make_lease(name, holder, epoch, until, seconds)

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """Extend a lease."""
        with self._write_transaction() as connection:
            now = epoch_microseconds(self._now())
            until = now + seconds_to_microseconds(seconds)
            connection.execute(
                "UPDATE leases SET until = ?, seconds = ? WHERE town = ? AND name = ? AND epoch = ? AND holder = ? AND until > ?",
                (until, seconds, self._town, lease.name, lease.epoch, lease.holder, now),
            )
            if not connection.changes():
                raise LeaseLost(lease.name, lease.holder, lease.epoch)
        return make_lease(lease.name, lease.holder, lease.epoch, until, seconds)

    def release(self, lease: Lease) -> None:
        """Release a lease, if nobody has acquired it since. The row stays, so that the next epoch is higher."""
        with self._write_transaction() as connection:
            connection.execute(
                "UPDATE leases SET holder = NULL WHERE town = ? AND name = ? AND epoch = ? AND holder = ?",
                (self._town, lease.name, lease.epoch, lease.holder),
            )

    def find_lease(self, name: str) -> Lease | None:
        """Return the current lease."""
        with self._locked_connection() as connection:
            rows = fetch_rows(
                connection,
                "SELECT holder, epoch, until, seconds FROM leases WHERE town = ? AND name = ? AND holder IS NOT NULL AND until > ?",
                (self._town, name, epoch_microseconds(self._now())),
            )
        return make_lease(name, *rows[0]) if rows else None

    def save_token(self, token: Token) -> None:
        """Store a token."""
        with self._write_transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO tokens VALUES (?, ?, ?)", (self._town, token.id, encode_token(token).decode()))

    def list_tokens(self) -> list[Token]:
        """Return all tokens."""
        with self._locked_connection() as connection:
            rows = fetch_rows(connection, "SELECT token FROM tokens WHERE town = ?", (self._town,))
        return decode_tokens(raw for (raw,) in rows)

    def delete_token(self, id: str) -> None:
        """Delete a token."""
        with self._write_transaction() as connection:
            connection.execute("DELETE FROM tokens WHERE town = ? AND id = ?", (self._town, id))

    def load_seal(self) -> bytes | None:
        """Return the seal."""
        with self._locked_connection() as connection:
            return _select_seal(connection, self._town)

    def set_seal(self, seal: bytes, expect: bytes | None) -> bool:
        """Replace the seal if it is `expect`. Returns whether it is now `seal`."""
        with self._write_transaction() as connection:
            if _select_seal(connection, self._town) not in (expect, seal):
                return False
            connection.execute("INSERT OR REPLACE INTO seals VALUES (?, ?)", (self._town, seal.decode()))
            return True

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._closed = True
            self._connection.close()

    @contextmanager
    def _locked_connection(self) -> Iterator[apsw.Connection]:
        with self._lock, translate_errors(self._path, self._file):
            self._check_open()
            yield self._connection

    @contextmanager
    def _write_transaction(self) -> Iterator[apsw.Connection]:
        with self._locked_connection() as connection:
            with write_transaction(connection):
                yield connection
            self._file.check_quickly()  # a lease in a file that was deleted or replaced during the commit is lost

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the coordination store was closed; open it again with open_shared()")
        if os.getpid() != self._owner_pid:  # SQLite's locks belong to the parent process
            raise Closed("the coordination store was opened before a fork; open it again in the child with open_shared()")
        self._file.check()


def _select_seal(connection: apsw.Connection, town: str) -> bytes | None:
    rows = fetch_rows(connection, "SELECT seal FROM seals WHERE town = ?", (town,))
    return rows[0][0].encode() if rows else None
