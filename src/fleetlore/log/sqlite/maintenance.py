"""Backup and restore of a log file while others use it (checks are in `check.py`).

A backup is one plain file that opens as a log anywhere, even from a read-only disk. A restore writes the live file in
one transaction, so other processes see either the old or the new log. Some things are carried over from the replaced
log: sequence numbers are not reused, erased ids stay erased, and a sealed town keeps its seal.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, NamedTuple

import apsw

from fleetlore.errors import Damaged, DiskFull, LogError, Unwritable
from fleetlore.events.ids import format_uuid
from fleetlore.log.base import hash_event_id
from fleetlore.log.check_report import LogCheckReport, Progress
from fleetlore.log.sqlite import archive
from fleetlore.log.sqlite import file as sqlite_file
from fleetlore.log.sqlite.check import TownRow, check_log, check_schema, list_towns, open_existing
from fleetlore.log.sqlite.file import fetch_rows, translate_errors, write_transaction

__all__ = ["LogCheckReport", "Progress", "backup_log", "check_log", "restore_log"]

PAGES_PER_STEP = 1000
# Numbers skipped when a damaged log cannot say which was its last: more than any log uses between backups.
SEQUENCE_SKIP = 10**9
_DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)


# --- backing up


def backup_log(path: str, target: str, *, overwrite: bool = False, progress: Progress | None = None) -> int:
    """Copy a log, in use or not, to one plain file and return its number of events. The target appears complete or not at all."""
    check_target(path, target, overwrite)
    with closing(open_existing(path)) as log, temporary_file(target) as part:
        events = _copy_without_wal(path, log, part, target, progress)
        with translate_os_errors(target):
            with closing(apsw.Connection(part, flags=apsw.SQLITE_OPEN_READONLY)) as copy:
                archive.copy_files(archive.list_files(copy), path, target)
            fsync_file(part)
            move_into_place(part, target, overwrite)
            fsync_file(os.path.dirname(os.path.abspath(target)))
    return events


def check_target(path: str, target: str, overwrite: bool) -> None:
    """Raise `Unwritable` if a copy of a log must not be put at `target`."""
    if os.path.realpath(path) == os.path.realpath(target):
        raise Unwritable(f"{target}: is the log itself; name another file")
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise Unwritable(f"{target}: the file exists; name another one, or replace it with `lore backup --force`")
    if not os.path.isfile(target):
        raise Unwritable(f"{target}: is not a plain file; name another")
    # SQLite would replay a leftover -wal into the new file.
    if any(os.path.exists(target + suffix) for suffix in ("-wal", "-journal")):
        raise Unwritable(f"{target}: seems to be a log in use (there is a {os.path.basename(target)}-wal); name another file")


def move_into_place(part: str, target: str, overwrite: bool) -> None:
    """Give a finished file its name; without `overwrite`, fail if another program made the target meanwhile."""
    if not overwrite:
        try:
            os.link(part, target)  # fails, unlike a rename, if another program made the target meanwhile
        except FileExistsError:
            raise
        except OSError:
            pass  # a file system without links
        else:
            return
    os.replace(part, target)


def _copy_without_wal(path: str, log: apsw.Connection, part: str, target: str, progress: Progress | None) -> int:
    """Copy a snapshot of a log to a file without WAL, so that it is one file and readable from a read-only disk."""
    with closing(apsw.Connection(part, flags=apsw.SQLITE_OPEN_READWRITE)) as copy:
        with translate_errors(path):
            # Read transaction until the copy is done: otherwise every commit of others would restart the copy.
            log.execute("BEGIN")
            events = sum(sqlite_file.count_events(log, town.n) for town in list_towns(log))
        with translate_errors(target):
            copy.execute("PRAGMA synchronous=OFF")  # synced once, when it is complete
            with copy.backup("main", log, "main") as pages:
                _copy_pages(pages, progress)
            copy.execute("PRAGMA journal_mode=DELETE").fetchall()
        log.execute("ROLLBACK")
    return events


def _copy_pages(pages: apsw.Backup, progress: Progress | None) -> None:
    while not pages.done:
        pages.step(PAGES_PER_STEP)
        if progress is not None:
            progress(pages.page_count - pages.remaining, pages.page_count)


# --- restoring


def restore_log(source: str, path: str, *, overwrite: bool = False, timeout: float = 10.0, progress: Progress | None = None) -> int:
    """Replace a log, in use or not, with a backup and return its number of events.

    The backup is checked first. A log that has events is replaced only with `overwrite`. New events get sequence numbers
    above all that the replaced log used, and ids that it erased stay erased. A log too damaged to be written is moved to
    `PATH.damaged`.
    """
    if os.path.realpath(source) == os.path.realpath(path):
        raise Unwritable(f"{path}: is the backup itself; name the log to restore")
    with temporary_file(path) as staged:
        with closing(open_existing(source)) as backup_file:
            with translate_errors(source):
                check_schema(backup_file, source)
            _copy_without_wal(source, backup_file, staged, path, _scale_progress(progress, 0))
        with closing(apsw.Connection(staged)) as connection:
            _copy_archives(source, path, staged, connection)
            _check_staged(source, staged, connection, _scale_progress(progress, 1))
            try:
                events = _restore_into(path, connection, overwrite, timeout, _scale_progress(progress, 2))
            except _UnusableLog as error:
                if not overwrite:
                    raise error.reason from error
                with translate_errors(path), write_transaction(connection):
                    connection.execute(f"UPDATE towns SET highest = highest + {SEQUENCE_SKIP}")
                events = sum(sqlite_file.count_events(connection, town.n) for town in list_towns(connection))
                connection.close()
                _replace_damaged(path, staged)
    return events


def _copy_archives(source: str, path: str, staged: str, connection: apsw.Connection) -> None:
    """Bring the archived events to the log's folder, and let the staged copy use them there."""
    names = archive.list_files(connection)
    if names:
        with translate_os_errors(path):
            archive.copy_files(names, source, path)
            os.symlink(os.path.abspath(archive.archive_folder(path)), archive.archive_folder(staged))


class _UnusableLog(Exception):
    """The log to be replaced is too damaged to be written."""

    def __init__(self, reason: LogError) -> None:
        self.reason = reason
        super().__init__(str(reason))


def _check_staged(source: str, staged: str, connection: apsw.Connection, progress: Progress | None) -> None:
    sqlite_file.migrate_schema(connection, source)
    problems = check_log(staged, progress=progress).problems
    if problems:
        raise Damaged(f"{source}: is damaged and was not restored: {problems[0]}; take another backup (`lore verify` says more)")


def _restore_into(path: str, staged: apsw.Connection, overwrite: bool, timeout: float, progress: Progress | None) -> int:
    """Write the staged log over the live one, in one transaction of the live log."""
    with (
        _raise_unusable_if_damaged(path),
        closing(_open_log(path, timeout)) as log,
        closing(_open_log(path, timeout)) as reader,
        translate_errors(path),
    ):
        _match_page_size(staged, log)
        with log.backup("main", staged, "main") as pages:
            pages.step(0)  # takes the write lock: from here on nobody assigns sequence numbers
            old = _ReplacedLog.read_from(reader)
            if old.has_events and not overwrite:
                raise Unwritable(f"{path}: has events already; name another path, or let it be replaced (`lore restore --force`)")
            with write_transaction(staged):
                _carry_over(staged, old)
            _copy_pages(pages, progress)
        # The whole log is in the WAL now, so truncate it; if readers prevent that, a later checkpoint will.
        log.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return sum(sqlite_file.count_events(staged, town.n) for town in list_towns(staged))


@contextmanager
def _raise_unusable_if_damaged(path: str) -> Iterator[None]:
    """Separate files that SQLite cannot read from files of another program or a newer version."""
    try:
        yield
    except Damaged as error:
        if isinstance(error.__cause__, apsw.CorruptError | apsw.NotADBError):
            raise _UnusableLog(error) from error
        raise


def _open_log(path: str, timeout: float) -> apsw.Connection:
    connection = sqlite_file.open_file(path, timeout=timeout)
    try:
        sqlite_file.migrate_schema(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _match_page_size(staged: apsw.Connection, log: apsw.Connection) -> None:
    """Give the copy the live log's page size, which cannot change in WAL mode."""
    [[wanted]] = log.execute("PRAGMA page_size").fetchall()
    if staged.execute("PRAGMA page_size").fetchall() != [(wanted,)]:
        staged.execute(f"PRAGMA page_size={wanted}")
        staged.execute("VACUUM")


class _ReplacedLog(NamedTuple):
    """What must survive from the log that is replaced."""

    has_events: bool
    last_n: int
    """The highest number of a town, which is in the names of its tables (`events_3`)."""
    rows: list[tuple[str, str, str, int]]
    """Per town: name, log id, creation time, last sequence number used."""
    forgotten: dict[str, list[bytes]]
    """Per town: the hashes of erased ids."""
    seals: list[tuple[str, str]]
    """Per sealed town: name and seal."""

    @classmethod
    def read_from(cls, log: apsw.Connection) -> _ReplacedLog:
        """Read as much as the (possibly damaged) log still gives."""
        towns = list_towns(log)
        identities = {n: (log_id, created) for n, log_id, created in fetch_rows(log, "SELECT n, log_id, created FROM towns")}
        return cls(
            has_events=any(_has_events(log, town.n) for town in towns),
            last_n=max((town.n for town in towns), default=0),
            rows=[(town.name, *identities[town.n], _find_last_sequence(log, town)) for town in towns],
            forgotten={town.name: hashes for town in towns if (hashes := _read_erased_hashes(log, town.n))},
            seals=fetch_rows(log, "SELECT town, seal FROM seals"),
        )


def _has_events(log: apsw.Connection, n: int) -> bool:
    try:
        return bool(fetch_rows(log, f"SELECT 1 FROM events_{n} LIMIT 1"))
    except (apsw.CorruptError, apsw.SQLError):
        return True


def _find_last_sequence(log: apsw.Connection, town: TownRow) -> int:
    try:
        [(last,)] = fetch_rows(log, f"SELECT max(seq) FROM events_{town.n}")
    except (apsw.CorruptError, apsw.SQLError):
        return max(town.highest, town.indexed) + SEQUENCE_SKIP
    return max(last or 0, town.highest)


def _read_erased_hashes(log: apsw.Connection, n: int) -> list[bytes]:
    try:
        return [hash for (hash,) in fetch_rows(log, f"SELECT hash FROM forgotten_{n}")]
    except (apsw.CorruptError, apsw.SQLError):
        return []


def _carry_over(staged: apsw.Connection, old: _ReplacedLog) -> None:
    _renumber_towns(staged, old.last_n)
    for name, log_id, created, last in old.rows:
        if sqlite_file.find_town(staged, name) is None:
            n = sqlite_file.find_or_create_town(staged, name)
            staged.execute("UPDATE towns SET log_id = ?, created = ? WHERE n = ?", (log_id, created, n))
        staged.execute("UPDATE towns SET highest = max(highest, ?) WHERE name = ?", (last, name))
    staged.executemany("INSERT OR REPLACE INTO seals VALUES (?, ?)", old.seals)
    for name, hashes in old.forgotten.items():
        _remove_erased(staged, sqlite_file.find_or_create_town(staged, name), hashes)


def _renumber_towns(staged: apsw.Connection, above: int) -> None:
    """Give each town's tables a number that the replaced log never used.

    Other handles cache the town's number and those of its kinds and scopes. With the old number they now find no table,
    instead of writing into one where the cached numbers mean something else.
    """
    towns = list_towns(staged)
    shift = max([above, *(town.n for town in towns)]) if above else 0
    for town in towns if shift else ():
        for (table,) in fetch_rows(staged, "SELECT name FROM sqlite_schema WHERE type = 'table'"):
            if match := re.fullmatch(rf"([a-z]+)_{town.n}", table):
                staged.execute(f"ALTER TABLE {table} RENAME TO {match[1]}_{town.n + shift}")
        staged.execute("UPDATE towns SET n = ? WHERE n = ?", (town.n + shift, town.n))


def _remove_erased(staged: apsw.Connection, n: int, hashes: list[bytes]) -> None:
    """Delete from the restored copy what was erased after the backup was made."""
    run = staged.execute
    staged.executemany(f"INSERT OR IGNORE INTO forgotten_{n} VALUES (?)", [(hash,) for hash in hashes])
    staged.create_scalar_function("hash_of_key", _hash_of_key, 1, deterministic=True)
    run("PRAGMA secure_delete=ON").fetchall()
    erased = [seq for (seq,) in fetch_rows(staged, f"SELECT seq FROM events_{n} WHERE hash_of_key(id) IN (SELECT hash FROM forgotten_{n})")]
    sqlite_file.remove_events(staged, n, erased)
    archive.remove_gone_events(staged, n)
    last = max(erased, default=0)
    run("UPDATE towns SET highest = max(highest, ?), erasures = erasures + 1 WHERE n = ?", (last, n))


def _hash_of_key(*keys: Any) -> bytes:
    return hash_event_id(format_uuid(keys[0]))


def _replace_damaged(path: str, staged: str) -> None:
    """Move the damaged log aside and put the restored one in its place."""
    with translate_os_errors(path):
        fsync_file(staged)
        for suffix in ("-wal", "-shm", "-journal"):
            if os.path.exists(path + suffix):
                os.replace(path + suffix, f"{path}.damaged{suffix}")
        os.replace(path, f"{path}.damaged")
        os.replace(staged, path)
        fsync_file(os.path.dirname(os.path.abspath(path)))


# --- files


@contextmanager
def temporary_file(target: str) -> Iterator[str]:
    """Create an empty file next to the target, readable by its owner only; deleted on exit unless renamed."""
    with translate_os_errors(target):
        directory, name = os.path.split(os.path.abspath(target))
        handle, part = tempfile.mkstemp(prefix=f".{name}.", suffix=".part", dir=directory)
        os.close(handle)
    try:
        yield part
    finally:
        for suffix in ("", "-wal", "-shm", "-journal", ".archive"):
            with suppress(FileNotFoundError):
                os.unlink(part + suffix)


def fsync_file(path: str) -> None:
    """Write a file or directory to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def translate_os_errors(path: str) -> Iterator[None]:
    """Re-raise errors of the file system as `LogError`s."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FULL_ERRNOS:
            raise DiskFull(f"{path}: the disk is full; make room and try again") from error
        raise Unwritable(f"{path}: cannot be created ({error.strerror}); check that the directory exists and can be written") from error


def _scale_progress(progress: Progress | None, part: int, parts: int = 3) -> Progress | None:
    """Report the progress of one part of a job as progress of the whole job."""
    if progress is None:
        return None
    scale = 1000
    return lambda done, total: progress(part * scale + (done * scale // total if total else scale), parts * scale)
