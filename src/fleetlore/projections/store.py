"""One small SQLite file beside each log, in the user's cache: checkpoints of folds, the index of words, how far files were read.

docs/state.md tells more.

Whatever is in it was made from the log and can be made again, so nothing here ever fails: a file that is damaged, foreign or
of another version is thrown away and made anew, one that is locked or cannot be written is done without. Several
processes may use it at once; who loses a race has lost time and nothing else.
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
from fleetlore.log.sqlite.file import ask, harden_connection, transaction

if TYPE_CHECKING:
    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder

APPLICATION_ID = 0x464C5354  # "FLST"
SCHEMA_VERSION = 5
TIMEOUT = 5.0
MAX_CHECKPOINTS = 96
"""Of one view, over the whole length of the log: to look back at any moment costs about as much."""
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
)
_DELETE_OUTDATED = """DELETE FROM checkpoints WHERE view = ?1 AND version & 0xffff <= ?2 & 0xffff AND version != ?2 AND version IS NOT (
    SELECT version FROM checkpoints WHERE view = ?1 AND version & 0xffff = ?2 & 0xffff AND version != ?2 ORDER BY position DESC LIMIT 1)"""
"""Above its low 16 bits a version tells what packages add (`events.foreign.marked`): of those of one rank, one other may be in use, too."""
# Not the file's fault: it is left alone, and done without this time.
_TRANSIENT_ERRORS = (apsw.BusyError, apsw.LockedError, apsw.FullError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError)
_Answer = TypeVar("_Answer")
_FileIdentity: TypeAlias = tuple[int, int]


class EventAnchor(Struct, frozen=True):
    """An event by which a log is known again: it is the one that follows `previous`."""

    position: Position
    previous: Position | None
    id: str


class ViewCheckpoint(Struct, frozen=True, kw_only=True):
    """A fold as it stood behind one event."""

    view: str
    version: int
    place: EventAnchor
    events: int
    """How many were folded."""
    state: bytes


class _StoreMarks(Struct, frozen=True):
    """How far the store has seen the log."""

    swept: Position | None
    """Every erasure up to here is heeded by all that is stored; `None` in a new file."""
    anchor: EventAnchor | None
    """The newest event that anything stored here knows of."""


class StoreAgreement(NamedTuple):
    """What the log says of itself, and whether what the store holds may be used with it."""

    info: LogInfo
    holds: bool


class ProjectionStore:
    """The open file. No verb raises for its sake; each answers as if it were empty when the file cannot be used."""

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
        """Whether there is a file at all."""
        return self._connection is not None and os.getpid() == self._process  # SQLite's locks stay behind with a forked parent

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    # --- any work on the file

    def run_read(self, work: Callable[[apsw.Connection], _Answer], otherwise: _Answer) -> _Answer:
        """What `work` reads, as it is at one moment; `otherwise` if the file cannot say."""
        return self._run_in_transaction(work, otherwise, _read_transaction)

    def run_write(self, work: Callable[[apsw.Connection], _Answer], otherwise: _Answer) -> _Answer:
        """What `work` answers once all that it wrote is kept; `otherwise` if nothing of it was."""
        return self._run_in_transaction(work, otherwise, transaction)

    def _run_in_transaction(
        self, work: Callable[[apsw.Connection], _Answer], otherwise: _Answer, within: Callable[[apsw.Connection], Any]
    ) -> _Answer:
        with self._lock:
            if self._connection is None or not self.is_usable:
                return otherwise
            try:
                with within(self._connection):
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

    # --- staying in agreement with the log

    def sync_with_log(self, log: BlockingRecorder) -> StoreAgreement:
        """Drop what the log no longer stands behind: all, if another history was put in its place; what was folded before an erasure."""
        info = log.info()
        marks = self.run_read(_read_marks, None)
        return StoreAgreement(info, marks is not None and self._apply_log_changes(log, info.head, marks))

    def is_synced_with(self, log: BlockingRecorder) -> bool:
        """The same for whoever need not know how much the log holds, which is counted: that takes longer, the longer the log is."""
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
            place = make_anchor(log, erasures[-1])
            done = self.run_write(lambda connection: _drop_before_erasure(connection, place, head), False)
            self.truncate_wal()
            return done
        if cut := _last_trimmed_position(facts):
            self.run_write(lambda connection: connection.execute("DELETE FROM checkpoints WHERE position < ?", (cut,)), None)
        if (head or "") > marks.swept:
            self.run_write(lambda connection: _raise_fact(connection, "swept", head), None)
        return True

    def truncate_wal(self) -> None:
        """Have what was deleted off the disk: the WAL holds it until it is written back and cut. Not while another process reads."""
        with self._lock:
            if self._connection is not None and self.is_usable:
                with suppress(apsw.Error):
                    ask(self._connection, "PRAGMA wal_checkpoint(TRUNCATE)")

    @property
    def swept_position(self) -> Position | None:
        """Every erasure up to this position is heeded by all that is stored."""
        return self.run_read(lambda connection: get_fact(connection, "swept"), None)

    # --- checkpoints

    def newest_checkpoint(self, view: str, version: int, *, upto: Position | None = None) -> ViewCheckpoint | None:
        """The newest checkpoint of a view, or the newest that is not behind a position."""
        rows: list[Any] = self.run_read(
            lambda connection: ask(
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
        """Keep a checkpoint, and fewer of the older ones. `heeded`: every erasure up to there is heeded by it; else it is not taken."""
        place = checkpoint.place
        packed = compress(checkpoint.state, _COMPRESSION_LEVEL)

        def work(connection: apsw.Connection) -> None:
            if max(place.position, heeded or "") < (get_fact(connection, "forgotten") or ""):
                return
            connection.execute(_DELETE_OUTDATED, (checkpoint.view, checkpoint.version))
            connection.execute(
                "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)",
                (checkpoint.view, checkpoint.version, place.position, place.previous, place.id, checkpoint.events, packed),
            )
            _thin_checkpoints(connection, checkpoint.view, checkpoint.version)
            raise_anchor(connection, place)

        self.run_write(work, None)

    def drop_checkpoints(self, view: str, *, before: Position | None = None) -> None:
        """Drop every checkpoint of a view, or those before a position."""
        statement = "DELETE FROM checkpoints WHERE view = ?1 AND (?2 IS NULL OR position < ?2)"
        self.run_write(lambda connection: connection.execute(statement, (view, before)), None)


# --- what every part of the store reads and writes


def get_fact(connection: apsw.Connection, name: str) -> str | None:
    """One of the few single values that the store keeps."""
    rows = ask(connection, "SELECT value FROM facts WHERE name = ?", (name,))
    return rows[0][0] if rows else None


def set_fact(connection: apsw.Connection, name: str, value: str | None) -> None:
    """Keep a single value."""
    connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))


def raise_anchor(connection: apsw.Connection, place: EventAnchor) -> None:
    """Have the log known again by this event, if it is newer than the one so far."""
    if place.position > (get_fact(connection, "anchor") or ""):
        set_fact(connection, "anchor", place.position)
        set_fact(connection, "anchor_previous", place.previous)
        set_fact(connection, "anchor_id", place.id)


def erased_hashes(erasures: Sequence[Event]) -> set[str]:
    """The hashes, in hex, of the ids that were erased."""
    named = (event.data.get("id_hashes") for event in erasures)
    return {hash for hashes in named if isinstance(hashes, list) for hash in hashes if isinstance(hash, str)}


def _last_trimmed_position(facts: Sequence[Event]) -> Position:
    """The last position that this log, by its own word, was trimmed of: who folded less would go on behind a hole."""
    own = [fact for fact in facts if fact.kind == "log.trimmed" and (fact.origin is None or fact.origin.log is None)]
    return max((last for fact in own if isinstance(last := fact.data.get("last"), str)), default="")


def make_anchor(log: BlockingRecorder, event: Event) -> EventAnchor:
    """By what an event of the log is known again."""
    before = next(log.read(before=event.position, newest_first=True, limit=1), None)
    return EventAnchor(event.position or "", None if before is None else before.position, event.id or "")


def is_anchor_valid(log: BlockingRecorder, place: EventAnchor) -> bool:
    """Whether an event is where it was. What was trimmed away since cannot be asked any more, and is believed."""
    found = next(log.read(after=place.previous, limit=1), None)
    if found is not None and (found.position, found.id) == (place.position, place.id):
        return True
    trimmed_before = log.info().trimmed_before
    return trimmed_before is not None and place.position < trimmed_before


def _raise_fact(connection: apsw.Connection, name: str, position: Position | None) -> None:
    if position is not None and position > (get_fact(connection, name) or ""):
        set_fact(connection, name, position)


def _drop_before_erasure(connection: apsw.Connection, erasure: EventAnchor, head: Position | None) -> bool:
    """A fold that was made before an erasure may hold erased words; those of all views go."""
    connection.execute("DELETE FROM checkpoints WHERE position < ?", (erasure.position,))
    connection.execute("DELETE FROM tapes")
    connection.execute("DELETE FROM sessions")
    set_fact(connection, "outcomes_at", None)
    _raise_fact(connection, "forgotten", erasure.position)
    _raise_fact(connection, "swept", max(erasure.position, head or ""))
    raise_anchor(connection, erasure)
    return True


def _init_marks(connection: apsw.Connection, head: Position | None) -> bool:
    """Nothing that was erased so far is in a store that holds nothing; a fold that began earlier, elsewhere, is not taken."""
    if get_fact(connection, "swept") is None:
        set_fact(connection, "swept", head or "")
        set_fact(connection, "forgotten", head or "")
    return True


def _reset_store(connection: apsw.Connection, head: Position | None) -> bool:
    for table in ("facts", "checkpoints", "docs", "tapes", "sessions"):
        connection.execute(f"DELETE FROM {table}")
    connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
    return _init_marks(connection, head)


def _is_same_history(log: BlockingRecorder, anchor: EventAnchor | None, erasures: Sequence[Event]) -> bool:
    """Whether this is still the history that is known here; the event that it is known by may itself have been erased."""
    return anchor is None or is_anchor_valid(log, anchor) or hash_event_id(anchor.id).hex() in erased_hashes(erasures)


def _read_marks(connection: apsw.Connection) -> _StoreMarks:
    facts = dict(ask(connection, "SELECT name, value FROM facts"))
    if facts.get("anchor") is None:
        return _StoreMarks(facts.get("swept"), None)
    return _StoreMarks(facts.get("swept"), EventAnchor(facts["anchor"], facts.get("anchor_previous"), facts.get("anchor_id") or ""))


def _decompress_state(state: bytes) -> bytes:
    """What was compressed; nothing, which is no state, of bytes that were damaged."""
    try:
        return decompress(state)
    except NotCompressed:
        return b""


def _thin_checkpoints(connection: apsw.Connection, view: str, version: int) -> None:
    rows = ask(connection, "SELECT rowid, events FROM checkpoints WHERE view = ? AND version = ? ORDER BY events", (view, version))
    kept = select_kept_counts([events for _, events in rows])
    connection.executemany("DELETE FROM checkpoints WHERE rowid = ?", [(row,) for row, events in rows if events not in kept])


def select_kept_counts(counts: Sequence[int]) -> set[int]:
    """Which of some ascending counts of events to keep: the newest few, and the first in each of some equal parts of the whole."""
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
    """The store of a log; `None` for one that is not kept, and where no file can be made."""
    if info.backend == "memory" or not info.log_id:
        return None
    store = ProjectionStore(os.path.join(folder or cache_folder(), store_file_name(info)))
    return store if store.is_usable else None


def cache_folder() -> str:
    """Where stores are kept: the user's cache of the platform."""
    home = os.path.expanduser("~/Library/Caches") if sys.platform == "darwin" else os.path.expanduser("~/.cache")
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or home, "fleetlore")


def store_file_name(info: LogInfo) -> str:
    """The store's name: the log's id, which a server may say as it likes, and a hash of its town and place.

    The place is in it because a backup, which is a log too, has the id of its original.
    """
    place = info.details.get("path") or info.details.get("address") or info.details.get("server") or ""
    log = find_uuid(info.log_id) or sha256(info.log_id.encode()).hexdigest()[:32]
    where = sha256(f"{info.town}\n{place}".encode()).hexdigest()[:12]
    return f"{log}-{where}.db"


def discard_stores(info: LogInfo, *, folder: str | None = None) -> int:
    """Remove every store of a log, by whatever address it was reached; answers how many. What was erased is then in none of them."""
    folder, log = folder or cache_folder(), store_file_name(info)[: -len("-0123456789ab.db")]
    if not os.path.isdir(folder) or not info.log_id:
        return 0
    with _lock_folder(folder):
        names = [name for name in os.listdir(folder) if name.startswith(f"{log}-") and name.endswith(".db")]
        for name in names:
            _remove_files(os.path.join(folder, name))
    return len(names)


class _UnknownFile(apsw.Error):
    """A file of another program, or of another version of this one."""


def _open_file(path: str, *, without: _FileIdentity | None = None) -> tuple[apsw.Connection | None, _FileIdentity | None]:
    """A connection and the file that it is to: a new one if the old is of no use, or is `without`. None of both if there can be none."""
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
    """One process at a time opens stores: nobody removes a file that another is just making."""
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
    """Wait for whoever is at it, but not for one that was stopped."""
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
        ask(connection, "PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        ask(connection, "PRAGMA secure_delete=ON")  # what was erased from the log shall not be found here
        _create_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _create_tables(connection: apsw.Connection) -> None:
    [(tables,)] = ask(connection, "SELECT count(*) FROM sqlite_schema")
    if tables == 0:
        with transaction(connection):
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
            for statement in _TABLES:
                connection.execute(statement)
    if ask(connection, "PRAGMA application_id") != [(APPLICATION_ID,)] or ask(connection, "PRAGMA user_version") != [(SCHEMA_VERSION,)]:
        raise _UnknownFile


def _remove_files(path: str) -> None:
    for end in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            os.unlink(path + end)


def _file_identity(path: str) -> _FileIdentity:
    """Which file it is, whatever it is called."""
    found = os.stat(path)
    return found.st_dev, found.st_ino
