"""The SQLite file of a log: open and harden it, migrate its schema, translate its errors. Used by `log.py` and `coordination.py`."""

from __future__ import annotations

import errno
import os
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from time import monotonic, sleep
from typing import Any, Literal
from zlib import crc32

import apsw

from fleetlore import clock
from fleetlore.errors import Busy, Damaged, DiskFull, InvalidUrl, LogError, Unwritable

Sync = Literal["full", "normal", "off"]

BUSY_POLL_SECONDS = 0.001
APPLICATION_ID = 0x464C4F52  # "FLOR"
MAX_TIMEOUT_SECONDS = 86_400
CHECKED_SECONDS = 0.02
"""Maximum age of a full `OpenedFile` check at a commit.

A full check takes 3 to 10 µs; a commit without fsync takes 25 µs. So each commit only asks SQLite whether the inode at
the path changed, which takes half of that; the full check also covers symbolic links, mounts and side files.
"""

_ERROR_TRANSLATIONS: tuple[tuple[type[apsw.Error], type[LogError], str], ...] = (
    (apsw.FullError, DiskFull, "the disk is full; make room and try again (what was acknowledged is safe)"),
    (apsw.ReadOnlyError, Unwritable, "cannot be written; check the permissions of the file and its directory"),
    (apsw.CantOpenError, Unwritable, "cannot be opened; check that the directory exists and can be written"),
    (apsw.PermissionsError, Unwritable, "cannot be written; check the permissions of the file and its directory"),
    (apsw.AuthError, Unwritable, "cannot be written; check the permissions of the file and its directory"),
    (apsw.BusyError, Busy, "it is locked by another program; try again, or raise ?timeout= (seconds)"),
    (apsw.LockedError, Busy, "it is locked by another program; try again, or raise ?timeout= (seconds)"),
    (
        apsw.NotADBError,
        Damaged,
        "is not a SQLite file; give another path, or restore a backup (if it is a damaged log, `lore salvage` saves what is left)",
    ),
    (
        apsw.CorruptError,
        Damaged,
        "is damaged; run `lore verify`, then `lore restore` a backup, or save what can be read with `lore salvage`",
    ),
    (apsw.IOError, LogError, "could not be read or written; check the disk (what was acknowledged is safe)"),
)

_ACCESS_ERRORS = (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, apsw.AuthError, apsw.IOError)

_RESTART = "stop every process that uses this log, restore a backup with `lore restore`, and start them again"
_GONE = (
    f"{{path}}: was deleted or moved away while the log was open; nothing appended since then is acknowledged; move it back, or {_RESTART}"
)
_REPLACED = (
    f"{{path}}: was replaced by another file while the log was open; nothing appended since then is acknowledged; {_RESTART}"
    " (`lore restore` also replaces a log that is in use; mv and cp do not)"
)
_UNKNOWN = "{path}: cannot be checked ({reason}), so nothing is acknowledged; make it reachable again"

Migration = Sequence[str]
MIGRATIONS: tuple[Migration, ...] = (
    (
        """CREATE TABLE towns (
            n INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, log_id TEXT NOT NULL, created TEXT NOT NULL,
            trimmed INTEGER NOT NULL DEFAULT 0, -- the last sequence number that was trimmed away
            highest INTEGER NOT NULL DEFAULT 0, -- the highest one that was ever removed: none is given twice
            indexed INTEGER NOT NULL DEFAULT 0, -- the last one that stands in ids_N and members_N
            erasures INTEGER NOT NULL DEFAULT 0 -- how often events were erased for good
        ) STRICT""",
    ),
    (  # of log/sqlite/coordination.py; by the town's name, for a restore changes its number
        """CREATE TABLE cursors (
            town TEXT NOT NULL, name TEXT NOT NULL, position TEXT NOT NULL, PRIMARY KEY (town, name)
        ) STRICT, WITHOUT ROWID""",
        """CREATE TABLE leases (
            town TEXT NOT NULL, name TEXT NOT NULL,
            epoch INTEGER NOT NULL, -- the last one that was given; the row stays, so that none is given twice
            holder TEXT, -- nobody after a release
            until INTEGER NOT NULL, -- microseconds since 1970
            seconds REAL NOT NULL,
            PRIMARY KEY (town, name)
        ) STRICT, WITHOUT ROWID""",
    ),
    (
        """CREATE TABLE tokens (
            town TEXT NOT NULL, id TEXT NOT NULL,
            token TEXT NOT NULL, -- JSON of log/tokens.py: the secret's hash, never the secret
            PRIMARY KEY (town, id)
        ) STRICT, WITHOUT ROWID""",
    ),
    (
        """CREATE TABLE seals (
            town TEXT PRIMARY KEY,
            seal TEXT NOT NULL -- JSON of log/seal.py: the operator key under the passphrase's pad, never the key
        ) STRICT, WITHOUT ROWID""",
    ),
    (
        "ALTER TABLE events_{n} ADD COLUMN checksum INTEGER",
        "ALTER TABLE towns ADD COLUMN indexed_events INTEGER",  # rows in ids_N; NULL if they must be counted
    ),
)
"""Each step and its row in `migrations` are one transaction. A statement with `{n}` runs once per town. Never change a released step."""

_TOWN_TABLES = (
    """CREATE TABLE events_{n} (
        seq INTEGER PRIMARY KEY, id BLOB NOT NULL, at INTEGER NOT NULL, kind INTEGER NOT NULL, scopes TEXT NOT NULL, raw TEXT NOT NULL,
        checksum INTEGER -- `checksum_record`; NULL in rows of older versions
    ) STRICT""",
    "CREATE TABLE ids_{n} (id BLOB PRIMARY KEY, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE scopes_{n} (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT",
    "CREATE TABLE kinds_{n} (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT",
    "CREATE TABLE members_{n} (scope INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (scope, seq)) STRICT, WITHOUT ROWID",
    "CREATE TABLE zones_{n} (zone INTEGER PRIMARY KEY, newest INTEGER NOT NULL) STRICT",
    "CREATE TABLE forgotten_{n} (hash BLOB PRIMARY KEY) STRICT, WITHOUT ROWID",
)


def checksum_record(seq: int, raw: bytes) -> int:
    """Return the checksum of an event's row. Id, time, kind and scopes are copies from the event, so they need none."""
    return crc32(raw, seq)  # the lowest 32 bits of `seq`


def has_checksums(connection: apsw.Connection, n: int) -> bool:
    """Return whether a town's table has checksums; a file that was not migrated yet has none."""
    return bool(fetch_rows(connection, f"SELECT 1 FROM pragma_table_info('events_{n}') WHERE name = 'checksum'"))


def fetch_rows(connection: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> list[Any]:
    """Run a statement and return all rows, so that no statement stays open."""
    return connection.execute(sql, values).fetchall()


@contextmanager
def translate_errors(path: str, file: OpenedFile | None = None) -> Iterator[None]:
    """Re-raise SQLite errors as `LogError`s. If `file` is given, first check whether it was deleted or replaced."""
    try:
        yield
    except apsw.Error as error:
        if file is not None:
            file.check()
        raise translate_error(path, error) from error


def translate_error(path: str, error: apsw.Error) -> LogError:
    """Return the `LogError` for an SQLite error, with what to do next."""
    if isinstance(error, _ACCESS_ERRORS) and (cause := _find_access_problem(path)):
        return Unwritable(f"{path}: {cause}")
    for theirs, ours, advice in _ERROR_TRANSLATIONS:
        if isinstance(error, theirs):
            return ours(f"{path}: {advice} ({error})")
    return LogError(f"{path}: {error}")


def _find_access_problem(path: str) -> str | None:
    """Return why a file cannot be opened or written, if it is one of the causes that SQLite does not tell apart."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        os.close(os.open(path if os.path.exists(path) else folder, os.O_RDONLY))
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            return "is on a read-only file system, so it can be read but not written; copy it to another disk, or mount this one writable"
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return "no file descriptor is left, so it cannot be opened; close files, or raise the limit (`ulimit -n`), and try again"
    return None


class OpenedFile:
    """The file that a handle has open; the checks raise `LogError` once its path leads to another file or none.

    SQLite does not look at the path again: after `rm fleet.db` or `mv backup.db fleet.db` it would keep storing events in
    a file that nobody can open any more. Create this after `migrate_schema`: by then PATH-wal and PATH-shm exist.
    """

    def __init__(self, path: str, connection: apsw.Connection) -> None:
        self._connection = connection
        self._has_moved = array("i", [0])
        self._address = self._has_moved.buffer_info()[0]
        # A backup on a read-only disk has no side files.
        self._files = [
            (name, _read_identity(name)) for name in (path, f"{path}-wal", f"{path}-shm") if name == path or os.path.exists(name)
        ]
        self._checked_at = -inf
        if self._has_other_inode():
            raise LogError(_REPLACED.format(path=path))  # replaced between open and now

    def check(self) -> None:
        """Check that the path leads to this file and that its side files are the ones in use."""
        self._checked_at = -inf  # stays so if a check below raises
        main, *side_files = self._files
        _check_identity(*main)
        for side_file in side_files:
            try:
                _check_identity(*side_file)
            except LogError:
                _check_identity(*main)  # if it is lost too by now, that is the better reason
                raise
        self._checked_at = monotonic()

    def check_quickly(self) -> None:
        """Cheaper check, run before and after a commit; nothing is acknowledged unless both pass.

        The caller must hold the connection: it is used for the check.
        """
        if self._has_other_inode() or monotonic() - self._checked_at >= CHECKED_SECONDS:
            self.check()

    def _has_other_inode(self) -> bool:
        self._connection.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, self._address)
        return bool(self._has_moved[0])


def _check_identity(path: str, identity: tuple[int, int]) -> None:
    if _read_identity(path) != identity:
        raise LogError(_REPLACED.format(path=path))


def _read_identity(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise LogError(_GONE.format(path=path)) from error
    except OSError as error:
        raise LogError(_UNKNOWN.format(path=path, reason=error.strerror)) from error
    return status.st_dev, status.st_ino


def open_file(path: str, *, sync: Sync = "full", timeout: float = 10.0, vfs: str | None = None, create: bool = True) -> apsw.Connection:
    """Open a connection to a log file. Creates it (unless `create` is false), readable by its owner only."""
    with translate_errors(path):
        if create and vfs is None and not os.path.exists(path):
            _create_private(path)
        connection = connect_file(path, create=create, vfs=vfs)
        try:
            set_busy_wait(connection, timeout)
            harden_connection(connection)
            _check_application(connection, path)
            if not is_read_only(connection):
                _enable_wal(connection, timeout)
            connection.execute(f"PRAGMA synchronous={sync}")
            # macOS: without it a sync stops at the drive's cache. No effect elsewhere.
            connection.execute(f"PRAGMA fullfsync={int(sync == 'full')}")
            # Split, emptied or freed pages must not keep copies of events that `erase` could not find.
            fetch_rows(connection, "PRAGMA secure_delete=ON")
        except BaseException:
            connection.close()
            raise
    return connection


def connect_file(path: str, *, create: bool = False, vfs: str | None = None) -> apsw.Connection:
    """Open a connection; to a file on a read-only disk, one that can only read."""
    if vfs is None and _is_unchangeable(path):
        from urllib.parse import quote

        uri = f"file:{quote(os.path.abspath(path))}?immutable=1"  # no side files, because nobody can change it
        return apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    return apsw.Connection(path, flags=flags, vfs=vfs)


def _is_unchangeable(path: str) -> bool:
    """Return whether a log is on a read-only disk or in a directory of another user, where SQLite cannot create PATH-shm.

    If PATH-wal is there, SQLite must read it; it can do that if PATH-shm is there too.
    """
    if not os.path.exists(path) or any(
        os.access(place, os.W_OK, effective_ids=os.access in os.supports_effective_ids) for place in (os.path.dirname(path) or ".", path)
    ):
        return False
    if not os.path.exists(f"{path}-wal") or os.path.getsize(f"{path}-wal") == 0:
        return True
    if not os.path.exists(f"{path}-shm"):
        raise Unwritable(
            f"{path}: was not closed, and cannot be written here: {os.path.basename(path)}-wal has events that it lacks;"
            " copy both files to a disk that can be written, and open the copy"
        )
    return False


def is_read_only(connection: apsw.Connection) -> bool:
    """Return whether a file can only be read, as a backup on a read-only disk."""
    return bool(connection.readonly("main"))


def set_busy_wait(connection: apsw.Connection, timeout: float) -> None:
    """Wait for a lock that another process holds, asking again every millisecond.

    SQLite's own wait asks less and less often, up to every 100 ms, so the writer that has waited longest gets the lock last: beside
    busy writers, others waited up to 10 s and failed.
    """
    start = 0.0

    def is_worth_waiting(count: int) -> bool:
        nonlocal start
        now = monotonic()
        if count == 0:
            start = now
        if now - start >= timeout:
            return False
        sleep(BUSY_POLL_SECONDS)
        return True

    connection.set_busy_handler(is_worth_waiting)


def _enable_wal(connection: apsw.Connection, timeout: float) -> None:
    """Retry until `timeout`: several processes may create the log at once, and SQLite has no busy wait here."""
    deadline = monotonic() + timeout
    while True:
        try:
            fetch_rows(connection, "PRAGMA journal_mode=WAL")
        except apsw.BusyError:
            if monotonic() >= deadline:
                raise
            sleep(0.002)
        else:
            return


def harden_connection(connection: apsw.Connection) -> None:
    """Disable triggers, views and trusted schema: a file may come from anywhere and must not run code."""
    for feature in (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, apsw.SQLITE_DBCONFIG_ENABLE_VIEW, apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA):
        connection.config(feature, 0)


def _create_private(path: str) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError as error:
        raise Unwritable(f"{path}: cannot be created ({error.strerror}); check that the directory exists and can be written") from error


def _check_application(connection: apsw.Connection, path: str) -> None:
    # In this order: a process that is creating the log sets the application id before its tables become visible.
    [(tables,)] = fetch_rows(connection, "SELECT count(*) FROM sqlite_schema")
    [(application,)] = fetch_rows(connection, "PRAGMA application_id")
    if application != APPLICATION_ID and tables:
        raise Damaged(f"{path}: a SQLite file of another program; give another path")


def migrate_schema(connection: apsw.Connection, path: str, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Migrate the file to the newest schema, one transaction per step."""
    with translate_errors(path):
        while (done := _schema_version(connection)) < len(migrations):
            if done and is_read_only(connection):
                return  # events can be read with any schema
            with write_transaction(connection):
                if _schema_version(connection) != done:
                    continue  # another process has done this step
                if done == 0:
                    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
                    connection.execute("CREATE TABLE migrations (n INTEGER PRIMARY KEY, at TEXT NOT NULL) STRICT")
                for statement in migrations[done]:
                    if "{n}" not in statement:
                        connection.execute(statement)
                        continue
                    for (n,) in fetch_rows(connection, "SELECT n FROM towns"):
                        connection.execute(statement.format(n=n))
                connection.execute("INSERT INTO migrations VALUES (?, ?)", (done + 1, clock.now().isoformat()))
        if done > len(migrations):
            raise Damaged(f"{path}: written by a newer Fleetlore (schema {done}, known here: {len(migrations)}); upgrade fleetlore")


def _schema_version(connection: apsw.Connection) -> int:
    if not fetch_rows(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'migrations'"):
        return 0
    [(done,)] = fetch_rows(connection, "SELECT coalesce(max(n), 0) FROM migrations")
    return int(done)


@contextmanager
def write_transaction(connection: apsw.Connection) -> Iterator[None]:
    """Run a write transaction; roll back on any error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # Some errors (a full disk, for example) have already rolled back.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def find_town(connection: apsw.Connection, name: str) -> int | None:
    """Return the number in the names of a town's tables, or `None`."""
    rows = fetch_rows(connection, "SELECT n FROM towns WHERE name = ?", (name,))
    return rows[0][0] if rows else None


def find_or_create_town(connection: apsw.Connection, name: str) -> int:
    """Return the town's number; create its tables if needed. Call it inside a transaction."""
    number = find_town(connection, name)
    return create_town(connection, name, clock.uuid7(), clock.now().isoformat()) if number is None else number


def create_town(connection: apsw.Connection, name: str, log_id: str, created: str, *, n: int | None = None) -> int:
    """Create a town with its tables and return its number. Call it inside a transaction."""
    sql = "INSERT INTO towns (n, name, log_id, created, indexed_events) VALUES (?, ?, ?, ?, 0) RETURNING n"
    [(number,)] = fetch_rows(connection, sql, (n, name, log_id, created))
    for statement in _TOWN_TABLES:
        connection.execute(statement.format(n=number))
    return int(number)


def count_events(connection: apsw.Connection, n: int) -> int:
    """Return the number of events in a town. Counts only those that are not indexed yet, unless events were removed since."""
    known = fetch_rows(connection, "SELECT 1 FROM pragma_table_info('towns') WHERE name = 'indexed_events'")
    indexed = fetch_rows(connection, "SELECT indexed_events FROM towns WHERE n = ?", (n,)) if known else []
    if not indexed or indexed[0][0] is None:
        indexed = fetch_rows(connection, f"SELECT count(*) FROM ids_{n}")
    [(newer,)] = fetch_rows(connection, f"SELECT count(*) FROM events_{n} WHERE seq > (SELECT indexed FROM towns WHERE n = {n})")
    return int(indexed[0][0]) + int(newer)


def has_blobs(connection: apsw.Connection, n: int) -> bool:
    """Return whether a town has a table for whole texts. It is created with the first one: 0.1 refuses files of a newer schema."""
    return bool(fetch_rows(connection, f"SELECT 1 FROM sqlite_schema WHERE name = 'blobs_{n}'"))


def insert_blobs(connection: apsw.Connection, n: int, rows: Sequence[tuple[int, bytes]]) -> None:
    """Store whole texts, by the sequence numbers of their events. Call it inside the transaction that stores the events."""
    connection.execute(f"CREATE TABLE IF NOT EXISTS blobs_{n} (seq INTEGER PRIMARY KEY, packed BLOB NOT NULL) STRICT")
    connection.executemany(f"INSERT OR REPLACE INTO blobs_{n} VALUES (?, ?)", rows)


def remove_orphaned_blobs(connection: apsw.Connection, n: int) -> None:
    """Delete the whole texts of events that 0.1, which does not know of them, has trimmed or erased."""
    if has_blobs(connection, n):
        connection.execute(f"DELETE FROM blobs_{n} WHERE seq NOT IN (SELECT seq FROM events_{n})")


def remove_events(connection: apsw.Connection, n: int, sequences: Iterable[int]) -> None:
    """Delete events and their whole texts from a town's tables and indexes. Call it inside a transaction."""
    removed: list[tuple[int]] = []
    for seq in sequences:
        [(key, scopes)] = fetch_rows(connection, f"DELETE FROM events_{n} WHERE seq = ? RETURNING id, scopes", (seq,))
        connection.execute(f"DELETE FROM ids_{n} WHERE id = ?", (key,))
        connection.executemany(f"DELETE FROM members_{n} WHERE scope = ? AND seq = ?", [(int(scope), seq) for scope in scopes.split()])
        removed.append((seq,))
    if removed:
        connection.execute("UPDATE towns SET indexed_events = NULL WHERE n = ?", (n,))
    if removed and has_blobs(connection, n):
        connection.executemany(f"DELETE FROM blobs_{n} WHERE seq = ?", removed)


def parse_options(options: dict[str, str]) -> dict[str, Any]:
    """Parse `?sync=` and `?timeout=`; raise `InvalidUrl` for anything else."""
    known: dict[str, Any] = {}
    for name, value in options.items():
        if name == "sync" and value in ("full", "normal", "off"):
            known["sync"] = value
        elif name == "timeout" and value.replace(".", "", 1).isdigit() and float(value) <= MAX_TIMEOUT_SECONDS:
            known["timeout"] = float(value)
        else:
            raise InvalidUrl(f"?{name}={value}: not an option of sqlite:; use sync=full|normal or timeout=SECONDS")
    return known


def default_path() -> str:
    """Return the path of the user's own log, in the platform's data directory."""
    if sys.platform == "darwin":
        home = os.path.expanduser("~/Library/Application Support")
    else:
        home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(home, "fleetlore", "fleet.db")
