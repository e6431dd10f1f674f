"""The projection store: one SQLite file per log in the user's cache, with checkpoints, search index and import offsets.

Everything in it can be rebuilt from the log, so nothing here fails: a damaged, foreign or outdated file is deleted
and created again, and one that is locked or read-only is not used. Several processes may use it at once; losing a
race costs time only.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from threading import RLock
from time import monotonic, sleep
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, TypeVar
from zlib import compress, decompress
from zlib import error as NotCompressed

import apsw
from msgspec import Struct

from fleetlore.events.ids import find_uuid
from fleetlore.log.base import LogInfo, Position, hash_event_id
from fleetlore.log.sqlite.file import fetch_rows, harden_connection, write_transaction

if TYPE_CHECKING:
    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder

APPLICATION_ID = 0x464C5354  # "FLST"
SCHEMA_VERSION = 7
TIMEOUT = 5.0
MAX_CHECKPOINTS = 96
"""Per view, spread over the whole log, so that looking back at any moment costs about the same."""
NEWEST_CHECKPOINTS = 8
_COMPRESSION_LEVEL = 1

CREATE_INDEX = "CREATE VIRTUAL TABLE {name} USING fts5(text, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2')"
_TABLES = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT) STRICT, WITHOUT ROWID",
    """CREATE TABLE checkpoints (
        view TEXT NOT NULL, version INTEGER NOT NULL, position TEXT NOT NULL, previous TEXT, id TEXT NOT NULL,
        events INTEGER NOT NULL, state BLOB NOT NULL, UNIQUE (view, version, position)
    ) STRICT""",
    """CREATE TABLE docs (
        seq INTEGER PRIMARY KEY, position TEXT NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL, scopes TEXT NOT NULL, hash BLOB NOT NULL
    ) STRICT""",
    CREATE_INDEX.format(name="words"),
    "CREATE TABLE tapes (path TEXT PRIMARY KEY, place BLOB NOT NULL) STRICT, WITHOUT ROWID",
    """CREATE TABLE sessions (
        run TEXT PRIMARY KEY, is_row INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER NOT NULL,
        state BLOB NOT NULL, record BLOB NOT NULL
    ) STRICT""",
    "CREATE INDEX sessions_by_end ON sessions (is_row, ended)",
    "CREATE TABLE tasks (task TEXT PRIMARY KEY, started INTEGER NOT NULL, ended INTEGER NOT NULL, state BLOB NOT NULL) STRICT",
    "CREATE INDEX tasks_by_end ON tasks (ended)",
    "CREATE TABLE outside (key TEXT NOT NULL, event TEXT NOT NULL, run BLOB NOT NULL, PRIMARY KEY (key, event)) STRICT, WITHOUT ROWID",
    "CREATE TABLE session_keys (key TEXT NOT NULL, run TEXT NOT NULL, PRIMARY KEY (key, run)) STRICT, WITHOUT ROWID",
    """CREATE TABLE file_calls (
        name BLOB NOT NULL, position TEXT NOT NULL, call TEXT NOT NULL, result TEXT, PRIMARY KEY (name, position)
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX file_calls_by_call ON file_calls (call)",
)
_DELETE_OUTDATED = """DELETE FROM checkpoints WHERE view = ?1 AND version & 0xffff <= ?2 & 0xffff AND version != ?2 AND version IS NOT (
    SELECT version FROM checkpoints WHERE view = ?1 AND version & 0xffff = ?2 & 0xffff AND version != ?2 ORDER BY position DESC LIMIT 1)"""
"""The bits of a version above the low 16 say what packages add (`installed_kinds.combine_version`).

For each rank, the checkpoints of one other set of packages are kept, since it may be in use too.
"""
# Not the file's fault: it is left alone and not used this time.
_TRANSIENT_ERRORS = (apsw.BusyError, apsw.LockedError, apsw.FullError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError)
_Answer = TypeVar("_Answer")
_FileIdentity: TypeAlias = tuple[int, int]


class EventAnchor(Struct, frozen=True):
    """Identifies a log's history by an event: the one that follows `previous`."""

    position: Position
    previous: Position | None
    id: str


class ViewCheckpoint(Struct, frozen=True, kw_only=True):
    """The state of a fold after one event."""

    view: str
    version: int
    place: EventAnchor
    events: int
    """Number of folded events."""
    state: bytes


class _StoreMarks(Struct, frozen=True):
    """How far the store has seen the log."""

    swept: Position | None
    """Every erasure up to here was applied to everything stored; `None` in a new file."""
    anchor: EventAnchor | None
    """The newest event that anything stored depends on."""


class StoreAgreement(NamedTuple):
    """The log's info, and whether what the store holds may be used with it."""

    info: LogInfo
    holds: bool


class ProjectionStore:
    """An open store. Its methods never raise for the file: if it cannot be used, they behave as if it were empty."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._process, self._lock = os.getpid(), RLock()
        self._connection, self._file = _open_file(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def is_usable(self) -> bool:
        """Whether the file can be used in this process."""
        return self._connection is not None and os.getpid() == self._process  # SQLite's locks do not survive a fork

    def close(self) -> None:
        """Close the file; the store is empty afterwards."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    # --- transactions

    def run_read(self, work: Callable[[apsw.Connection], _Answer], otherwise: _Answer) -> _Answer:
        """Return what `work` reads in one transaction; `otherwise` if the file cannot be used."""
        return self._run_in_transaction(work, otherwise, _read_transaction)

    def run_write(self, work: Callable[[apsw.Connection], _Answer], otherwise: _Answer) -> _Answer:
        """Return what `work` returns once its writes are committed; `otherwise` if they were not."""
        return self._run_in_transaction(work, otherwise, write_transaction)

    def _run_in_transaction(
        self, work: Callable[[apsw.Connection], _Answer], otherwise: _Answer, open_transaction: Callable[[apsw.Connection], Any]
    ) -> _Answer:
        with self._lock:
            if self._connection is None or not self.is_usable:
                return otherwise
            try:
                with open_transaction(self._connection):
                    return work(self._connection)
            except _TRANSIENT_ERRORS:
                return otherwise
            except apsw.Error:
                self._recreate_file()
                return otherwise

    def _recreate_file(self) -> None:
        assert self._connection is not None
        self._connection.close()
        self._connection, self._file = _open_file(self.path, without=self._file)

    # --- staying in sync with the log

    def sync_with_log(self, log: BlockingRecorder) -> StoreAgreement:
        """Drop what is no longer valid.

        If the log was replaced, that is everything; after an erasure, everything folded before it.
        """
        info = log.info()
        marks = self.run_read(_read_marks, None)
        return StoreAgreement(info, marks is not None and self._apply_log_changes(log, info.head, marks))

    def is_synced_with(self, log: BlockingRecorder) -> bool:
        """Like `sync_with_log`, without `log.info()`, which counts events and takes longer the longer the log is."""
        head, marks = log.head(), self.run_read(_read_marks, None)
        return marks is not None and self._apply_log_changes(log, head, marks)

    def _apply_log_changes(self, log: BlockingRecorder, head: Position | None, marks: _StoreMarks) -> bool:
        if marks.swept is None:
            return self.run_write(lambda connection: _init_marks(connection, head), False)
        facts = list(log.read(after=marks.swept or None, kinds=("log.forgotten", "log.trimmed")))
        erasures = [fact for fact in facts if fact.kind == "log.forgotten"]
        if not _is_same_history(log, marks.anchor, erasures):
            return self.run_write(lambda connection: _reset_store(connection, head), False)
        if erasures:
            anchor = make_anchor(log, erasures[-1])
            done = self.run_write(lambda connection: _drop_before_erasure(connection, anchor, head), False)
            self.truncate_wal()
            return done
        if cut := _last_trimmed_position(facts):
            self.run_write(lambda connection: connection.execute("DELETE FROM checkpoints WHERE position < ?", (cut,)), None)
        if (head or "") > marks.swept:
            self.run_write(lambda connection: _raise_fact(connection, "swept", head), None)
        return True

    def truncate_wal(self) -> None:
        """Remove deleted data from the disk by truncating the WAL; not possible while another process reads."""
        with self._lock:
            if self._connection is not None and self.is_usable:
                with suppress(apsw.Error):
                    fetch_rows(self._connection, "PRAGMA wal_checkpoint(TRUNCATE)")

    @property
    def swept_position(self) -> Position | None:
        """Every erasure up to this position was applied to everything stored."""
        return self.run_read(lambda connection: get_fact(connection, "swept"), None)

    # --- checkpoints

    def newest_checkpoint(self, view: str, version: int, *, upto: Position | None = None) -> ViewCheckpoint | None:
        """Return the newest checkpoint of a view, optionally up to a position."""
        rows: list[Any] = self.run_read(
            lambda connection: fetch_rows(
                connection,
                "SELECT position, previous, id, events, state FROM checkpoints"
                " WHERE view = ?1 AND version = ?2 AND (?3 IS NULL OR position <= ?3) ORDER BY position DESC LIMIT 1",
                (view, version, upto),
            ),
            [],
        )
        for position, previous, id, events, state in rows:
            return ViewCheckpoint(
                view=view, version=version, place=EventAnchor(position, previous, id), events=events, state=_decompress_state(state)
            )
        return None

    def save_checkpoint(self, checkpoint: ViewCheckpoint, *, heeded: Position | None) -> None:
        """Save a checkpoint and thin out older ones.

        `heeded` is the position up to which erasures were applied; an outdated checkpoint is not saved.
        """
        anchor = checkpoint.place
        compressed = compress(checkpoint.state, _COMPRESSION_LEVEL)

        def write(connection: apsw.Connection) -> None:
            if max(anchor.position, heeded or "") < (get_fact(connection, "forgotten") or ""):
                return
            connection.execute(_DELETE_OUTDATED, (checkpoint.view, checkpoint.version))
            connection.execute(
                "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)",
                (checkpoint.view, checkpoint.version, anchor.position, anchor.previous, anchor.id, checkpoint.events, compressed),
            )
            _thin_checkpoints(connection, checkpoint.view, checkpoint.version)
            raise_anchor(connection, anchor)

        self.run_write(write, None)

    def drop_checkpoints(self, view: str, *, before: Position | None = None) -> None:
        """Delete the checkpoints of a view, optionally only those before a position."""
        statement = "DELETE FROM checkpoints WHERE view = ?1 AND (?2 IS NULL OR position < ?2)"
        self.run_write(lambda connection: connection.execute(statement, (view, before)), None)


# --- helpers for all parts of the store


def get_fact(connection: apsw.Connection, name: str) -> str | None:
    """Return a single value from the `facts` table."""
    rows = fetch_rows(connection, "SELECT value FROM facts WHERE name = ?", (name,))
    return rows[0][0] if rows else None


def set_fact(connection: apsw.Connection, name: str, value: str | None) -> None:
    """Store a single value in the `facts` table."""
    connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))


def raise_anchor(connection: apsw.Connection, anchor: EventAnchor) -> None:
    """Make this event the anchor if it is newer than the current one."""
    if anchor.position > (get_fact(connection, "anchor") or ""):
        set_fact(connection, "anchor", anchor.position)
        set_fact(connection, "anchor_previous", anchor.previous)
        set_fact(connection, "anchor_id", anchor.id)


def erased_hashes(erasures: Sequence[Event]) -> set[str]:
    """The hashes (hex) of erased ids."""
    named = (event.data.get("id_hashes") for event in erasures)
    return {hash for hashes in named if isinstance(hashes, list) for hash in hashes if isinstance(hash, str)}


def _last_trimmed_position(facts: Sequence[Event]) -> Position:
    """The last position that this log itself was trimmed up to; resuming before it would skip events."""
    own = [fact for fact in facts if fact.kind == "log.trimmed" and (fact.origin is None or fact.origin.log is None)]
    return max((last for fact in own if isinstance(last := fact.data.get("last"), str)), default="")


def make_anchor(log: BlockingRecorder, event: Event) -> EventAnchor:
    """Return the anchor of an event."""
    previous = next(log.read(before=event.position, newest_first=True, limit=1), None)
    return EventAnchor(event.position or "", None if previous is None else previous.position, event.id or "")


def is_anchor_valid(log: BlockingRecorder, anchor: EventAnchor) -> bool:
    """Whether an event is still where it was. Trimmed events cannot be checked and count as valid."""
    event = next(log.read(after=anchor.previous, limit=1), None)
    if event is not None and (event.position, event.id) == (anchor.position, anchor.id):
        return True
    trimmed_before = log.info().trimmed_before
    return trimmed_before is not None and anchor.position < trimmed_before


def _raise_fact(connection: apsw.Connection, name: str, position: Position | None) -> None:
    if position is not None and position > (get_fact(connection, name) or ""):
        set_fact(connection, name, position)


def _drop_before_erasure(connection: apsw.Connection, erasure: EventAnchor, head: Position | None) -> bool:
    """Folds from before an erasure may contain erased content: delete those of all views."""
    connection.execute("DELETE FROM checkpoints WHERE position < ?", (erasure.position,))
    connection.execute("DELETE FROM tapes")
    connection.execute("DELETE FROM sessions")
    set_fact(connection, "outcomes_at", None)
    connection.execute("DELETE FROM file_calls")
    set_fact(connection, "file_calls_at", None)
    _raise_fact(connection, "forgotten", erasure.position)
    _raise_fact(connection, "swept", max(erasure.position, head or ""))
    raise_anchor(connection, erasure)
    return True


def _init_marks(connection: apsw.Connection, head: Position | None) -> bool:
    """An empty store contains nothing erased; a fold that began elsewhere before is not accepted."""
    if get_fact(connection, "swept") is None:
        set_fact(connection, "swept", head or "")
        set_fact(connection, "forgotten", head or "")
    return True


def _reset_store(connection: apsw.Connection, head: Position | None) -> bool:
    for table in ("facts", "checkpoints", "docs", "tapes", "sessions", "file_calls"):
        connection.execute(f"DELETE FROM {table}")
    connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
    return _init_marks(connection, head)


def _is_same_history(log: BlockingRecorder, anchor: EventAnchor | None, erasures: Sequence[Event]) -> bool:
    """Whether the log still has the known history; the anchor event itself may have been erased."""
    return anchor is None or is_anchor_valid(log, anchor) or hash_event_id(anchor.id).hex() in erased_hashes(erasures)


def _read_marks(connection: apsw.Connection) -> _StoreMarks:
    facts = dict(fetch_rows(connection, "SELECT name, value FROM facts"))
    if facts.get("anchor") is None:
        return _StoreMarks(facts.get("swept"), None)
    return _StoreMarks(facts.get("swept"), EventAnchor(facts["anchor"], facts.get("anchor_previous"), facts.get("anchor_id") or ""))


def _decompress_state(state: bytes) -> bytes:
    """Decompress a state; empty for damaged bytes, which is not a valid state."""
    try:
        return decompress(state)
    except NotCompressed:
        return b""


def _thin_checkpoints(connection: apsw.Connection, view: str, version: int) -> None:
    rows = fetch_rows(connection, "SELECT rowid, events FROM checkpoints WHERE view = ? AND version = ? ORDER BY events", (view, version))
    kept = select_kept_counts([events for _, events in rows])
    connection.executemany("DELETE FROM checkpoints WHERE rowid = ?", [(row,) for row, events in rows if events not in kept])


def select_kept_counts(counts: Sequence[int]) -> set[int]:
    """Select which checkpoints to keep, by their ascending event counts: the newest few, and one in each equal part."""
    if not counts:
        return set()
    part = 1
    while counts[-1] // part >= MAX_CHECKPOINTS - NEWEST_CHECKPOINTS:
        part *= 2
    firsts: dict[int, int] = {}
    for count in counts:
        firsts.setdefault(count // part, count)
    return {*firsts.values(), *counts[-NEWEST_CHECKPOINTS:]}


@contextmanager
def _read_transaction(connection: apsw.Connection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


# --- the file


def open_store(info: LogInfo, *, folder: str | None = None) -> ProjectionStore | None:
    """Open the store of a log; `None` for a log in memory, or if no file can be created."""
    if info.backend == "memory" or not info.log_id:
        return None
    store = ProjectionStore(os.path.join(folder or cache_folder(), store_file_name(info)))
    return store if store.is_usable else None


def cache_folder() -> str:
    """The folder of all stores: the platform's user cache."""
    home = os.path.expanduser("~/Library/Caches") if sys.platform == "darwin" else os.path.expanduser("~/.cache")
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or home, "fleetlore")


def store_file_name(info: LogInfo) -> str:
    """File name of a store: the log's id and a hash of its town and address.

    The address is included because a backup has the id of its original. A server may return any string as id.
    """
    address = info.details.get("path") or info.details.get("address") or info.details.get("server") or ""
    log = find_uuid(info.log_id) or sha256(info.log_id.encode()).hexdigest()[:32]
    address_hash = sha256(f"{info.town}\n{address}".encode()).hexdigest()[:12]
    return f"{log}-{address_hash}.db"


def discard_stores(info: LogInfo, *, folder: str | None = None) -> int:
    """Delete every store of a log, for all of its addresses; return how many."""
    folder, log = folder or cache_folder(), store_file_name(info)[: -len("-0123456789ab.db")]
    if not os.path.isdir(folder) or not info.log_id:
        return 0
    with _lock_folder(folder):
        names = [name for name in os.listdir(folder) if name.startswith(f"{log}-") and name.endswith(".db")]
        for name in names:
            _remove_files(os.path.join(folder, name))
    return len(names)


class _UnknownFile(apsw.Error):
    """A file of another program or another version."""


def _open_file(path: str, *, without: _FileIdentity | None = None) -> tuple[apsw.Connection | None, _FileIdentity | None]:
    """Open a connection; returns it with the file's identity, or `None` twice if impossible.

    A file that cannot be used, or is `without`, is replaced.
    """
    try:
        with _lock_folder(os.path.dirname(path)):
            if without is not None and os.path.exists(path) and without == _file_identity(path):
                _remove_files(path)
            return _connect_or_remake(path), _file_identity(path)
    except (OSError, apsw.Error):
        return None, None


def _connect_or_remake(path: str) -> apsw.Connection:
    try:
        return _connect_file(path)
    except _TRANSIENT_ERRORS:
        raise
    except apsw.Error:
        _remove_files(path)
        return _connect_file(path)


@contextmanager
def _lock_folder(folder: str) -> Iterator[None]:
    """One process at a time opens stores, so that nobody removes a file that another is creating."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        if os.fstat(handle).st_mode & 0o077:
            os.fchmod(handle, 0o700)
        _wait_for_lock(handle)
        yield
    finally:
        os.close(handle)


def _wait_for_lock(handle: int) -> None:
    """Wait for the lock, but not forever: the holder may be suspended."""
    deadline = monotonic() + TIMEOUT
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() >= deadline:
                raise
            sleep(0.005)
        else:
            return


def _connect_file(path: str) -> apsw.Connection:
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = apsw.Connection(path)
    try:
        connection.set_busy_timeout(int(TIMEOUT * 1000))
        harden_connection(connection)
        fetch_rows(connection, "PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        fetch_rows(connection, "PRAGMA secure_delete=ON")  # erased content must not be recoverable
        _create_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _create_tables(connection: apsw.Connection) -> None:
    [(tables,)] = fetch_rows(connection, "SELECT count(*) FROM sqlite_schema")
    if tables == 0:
        with write_transaction(connection):
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
            for statement in _TABLES:
                connection.execute(statement)
    if fetch_rows(connection, "PRAGMA application_id") != [(APPLICATION_ID,)] or fetch_rows(connection, "PRAGMA user_version") != [
        (SCHEMA_VERSION,)
    ]:
        raise _UnknownFile


def _remove_files(path: str) -> None:
    for end in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            os.unlink(path + end)


def _file_identity(path: str) -> _FileIdentity:
    """Device and inode."""
    status = os.stat(path)
    return status.st_dev, status.st_ino
