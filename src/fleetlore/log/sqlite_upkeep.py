"""Looking after a log's file while others use it: check it, back it up, restore it.

A backup is one plain file that opens as a log anywhere, read-only places included. A restore goes into
the live file in one transaction, so that other processes see the log as it was or as it is then. What
must outlive it is carried over: numbers that were given are not given again, what was forgotten stays so.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, NamedTuple, TypeAlias

import apsw
from msgspec import Struct

from fleetlore.errors import Damaged, DiskFull, InvalidEvent, LogError, Unwritable
from fleetlore.events import codec
from fleetlore.events.envelope import Event
from fleetlore.events.ids import format_uuid, is_uuid, uuid_bytes
from fleetlore.log import sqlite_file
from fleetlore.log.base import hash_of, scopes_of
from fleetlore.log.sequence import to_position
from fleetlore.log.sqlite_file import ask, our_errors, transaction
from fleetlore.log.sqlite_query import ZONE, microseconds

Progress: TypeAlias = Callable[[int, int], None]
"""Told how much is done, and of how much."""

MOST_PROBLEMS = 200
PAGES = 1000
EVENTS = 1000
# Given up when a damaged log cannot tell how far its numbers went: more than any log has given since its last backup.
LEAP = 10**9
_NAMES_KEPT = 100_000
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Report(Struct, frozen=True):
    """What was found in a log; no problems means that it is sound."""

    events: int
    towns: int
    problems: list[str]


class Town(NamedTuple):
    """A town's row."""

    n: int
    name: str
    trimmed: int
    highest: int
    indexed: int


# --- checking


def check(path: str, *, progress: Progress | None = None) -> Report:
    """Read the whole log as it is at one moment, and compare everything that is written twice. Nothing is changed."""
    problems = _Problems()
    with our_errors(path), closing(_open_existing(path)) as connection:
        connection.execute("BEGIN")
        if not _scan(problems, "the file", lambda: _check_pages(connection, problems)):
            return Report(0, 0, problems.told())
        towns = _towns(connection)
        done, total = 0, 0
        with suppress(apsw.CorruptError, apsw.SQLError):
            total = sum(_count(connection, town.n) for town in towns)
        for town in towns:
            done += _TownCheck(connection, town, problems, progress, done, total).run()
        connection.execute("ROLLBACK")
    return Report(done, len(towns), problems.told())


class _Problems:
    """The first problems, in words, and how many more there were."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._count = 0

    def add(self, problem: str) -> None:
        self._count += 1
        if self._count <= MOST_PROBLEMS:
            self._first.append(problem)

    def told(self) -> list[str]:
        more = self._count - len(self._first)
        return [*self._first, f"and {more} more"] if more else list(self._first)


def _scan(problems: _Problems, where: str, work: Callable[[], None]) -> bool:
    """Do a part of the check; a page that SQLite cannot read ends that part alone."""
    try:
        work()
    except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError) as error:
        problems.add(f"{where}: cannot be read to its end ({error})")
        return False
    return True


def _check_pages(connection: apsw.Connection, problems: _Problems) -> None:
    for (line,) in connection.execute(f"PRAGMA integrity_check({MOST_PROBLEMS})"):
        if line != "ok":
            problems.add(f"the file: {' '.join(str(line).split())}")
    _towns(connection)


class _TownCheck:
    """One town: its records one by one, then its indexes against them."""

    def __init__(
        self, connection: apsw.Connection, town: Town, problems: _Problems, progress: Progress | None, done: int, total: int
    ) -> None:
        self._connection, self._town, self._problems = connection, town, problems
        self._progress, self._done, self._total = progress, done, total
        self._kinds: dict[int, str | None] = {}
        self._scopes: dict[int, str | None] = {}
        self._forgets = False
        self._count = 0

    def run(self) -> int:
        """Check everything; answers how many events there are."""
        name = f"town {self._town.name}"
        _scan(self._problems, f"{name}, records", self._check_records)
        for part in (self._check_row, self._check_ids, self._check_members, self._check_zones):
            _scan(self._problems, f"{name}, indexes", part)
        return self._count

    def _tell(self, problem: str, seq: int | None = None) -> None:
        place = "" if seq is None else f", {to_position(seq)}"
        self._problems.add(f"town {self._town.name}{place}: {problem}")

    def _check_records(self) -> None:
        n = self._town.n
        self._forgets = bool(self._rows(f"SELECT 1 FROM forgotten_{n} LIMIT 1"))
        records: Iterator[Any] = self._connection.execute(
            f"SELECT seq, id, at, kind, scopes, CAST(raw AS BLOB) FROM events_{n} ORDER BY seq"
        )
        for seq, key, at, kind, scopes, raw in records:
            self._count += 1
            if self._progress is not None and self._count % EVENTS == 0:
                self._progress(min(self._done + self._count, self._total), self._total)
            try:
                event = codec.decode(raw)
            except InvalidEvent as error:
                self._tell(f"the record cannot be read: {error}", seq)
            else:
                self._compare(seq, event, (key, at, kind, scopes))
        if self._progress is not None:
            self._progress(min(self._done + self._count, self._total), self._total)

    def _compare(self, seq: int, event: Event, row: tuple[bytes, int, int, str]) -> None:
        key, at, kind, scopes = row
        if event.id is None or not is_uuid(event.id) or uuid_bytes(event.id) != key:
            self._tell("the row's id is not the event's", seq)
        elif self._forgets and self._rows(f"SELECT 1 FROM forgotten_{self._town.n} WHERE hash = ?", hash_of(event.id)):
            self._tell("the event was erased for good, and is here", seq)
        if event.at is None or microseconds(event.at) != at:
            self._tell("the row's time is not the event's", seq)
        if self._name("kinds", self._kinds, kind) != event.kind:
            self._tell("the row's kind is not the event's", seq)
        if self._scope_names(scopes) != sorted(scopes_of(event)):
            self._tell("the row's scopes are not the event's", seq)

    def _scope_names(self, text: str) -> list[str] | None:
        numbers = text.split()
        if text != (f" {' '.join(numbers)} " if numbers else "") or not all(number.isdigit() for number in numbers):
            return None
        return sorted(self._name("scopes", self._scopes, int(number)) or "" for number in numbers)

    def _name(self, table: str, known: dict[int, str | None], number: int) -> str | None:
        """What a small number stands for; remembered, but not without end."""
        if number not in known:
            if len(known) >= _NAMES_KEPT:
                known.clear()
            rows = self._rows(f"SELECT name FROM {table}_{self._town.n} WHERE id = ?", number)
            known[number] = rows[0][0] if rows else None
        return known[number]

    def _check_row(self) -> None:
        """The numbers in the town's own row, which say what was given away and what is indexed."""
        town = self._town
        [(first, last)] = self._rows(f"SELECT (SELECT min(seq) FROM events_{town.n}), (SELECT max(seq) FROM events_{town.n})")
        if first is not None and first <= town.trimmed:
            self._tell(f"an event before the trimmed {to_position(town.trimmed)} is still here", first)
        if first is not None and first < 1:
            self._tell(f"a sequence number below one: {first}")
        if town.trimmed > town.highest:
            self._tell("trimmed numbers could be given again: `highest` is too low")
        if town.indexed > max(last or 0, town.highest):
            self._tell("`indexed` is ahead of every event")

    def _check_ids(self) -> None:
        n, indexed = self._town.n, self._town.indexed
        self._tell_each(
            "the id is not in its index",
            f"SELECT e.seq FROM events_{n} e LEFT JOIN ids_{n} i ON i.id = e.id WHERE e.seq <= {indexed} AND i.seq IS NOT e.seq",
        )
        self._tell_each(
            "the index of ids has no such event",
            f"SELECT i.seq FROM ids_{n} i LEFT JOIN events_{n} e ON e.seq = i.seq WHERE e.id IS NOT i.id OR i.seq > {indexed}",
        )
        self._tell_each(
            "the same id is stored before",
            f"SELECT e.seq FROM events_{n} e WHERE e.seq > {indexed} AND EXISTS (SELECT 1 FROM ids_{n} i WHERE i.id = e.id)"
            f" UNION ALL SELECT max(seq) FROM events_{n} WHERE seq > {indexed} GROUP BY id HAVING count(*) > 1",
        )

    def _check_members(self) -> None:
        n, indexed = self._town.n, self._town.indexed
        numbers = "'[' || replace(trim(e.scopes), ' ', ',') || ']'"
        self._tell_each(
            "a scope does not list the event",
            f"SELECT DISTINCT e.seq FROM events_{n} e, json_each(iif(json_valid({numbers}), {numbers}, '[]')) s"
            f" WHERE e.seq <= {indexed} AND NOT EXISTS (SELECT 1 FROM members_{n} m WHERE m.scope = s.value AND m.seq = e.seq)",
        )
        self._tell_each(
            "a scope lists an event that is not there, or not in it",
            f"SELECT m.seq FROM members_{n} m LEFT JOIN events_{n} e ON e.seq = m.seq"
            f" WHERE e.seq IS NULL OR m.seq > {indexed} OR NOT instr(e.scopes, ' ' || m.scope || ' ')",
        )

    def _check_zones(self) -> None:
        """A zone that is missing, or older than its events, would hide them from `since`."""
        n = self._town.n
        self._tell_each(
            "a time index does not cover the event",
            f"SELECT t.seq FROM (SELECT seq / {ZONE} AS zone, max(at) AS newest, max(seq) AS seq FROM events_{n}"
            f" WHERE seq < (SELECT (max(zone) + 1) * {ZONE} FROM zones_{n}) GROUP BY 1) t"
            f" LEFT JOIN zones_{n} z ON z.zone = t.zone WHERE z.newest IS NULL OR z.newest < t.newest",
        )

    def _tell_each(self, problem: str, sql: str) -> None:
        found: Iterator[Any] = self._connection.execute(sql)
        for (seq,) in found:
            self._tell(problem, seq)

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        return ask(self._connection, sql, values)


# --- backing up


def backup(path: str, target: str, *, overwrite: bool = False, progress: Progress | None = None) -> int:
    """Copy a log, in use or not, to one plain file; answers how many events it holds. The target is there whole or not at all."""
    _check_target(path, target, overwrite)
    with closing(_open_existing(path)) as log, _part_file(target) as part:
        events = _copy_plain(path, log, part, target, progress)
        with _os_errors(target):
            _sync(part)
            _move(part, target, overwrite)
            _sync(os.path.dirname(os.path.abspath(target)))
    return events


def _check_target(path: str, target: str, overwrite: bool) -> None:
    if os.path.realpath(path) == os.path.realpath(target):
        raise Unwritable(f"{target}: is the log itself; name another file")
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise Unwritable(f"{target}: is there already; name another file, or allow it to be overwritten")
    if not os.path.isfile(target):
        raise Unwritable(f"{target}: is not a plain file; name another")
    # A -wal that outlives its file would be played into the new one.
    if any(os.path.exists(target + end) for end in ("-wal", "-journal")):
        raise Unwritable(f"{target}: seems to be a log in use (there is a {os.path.basename(target)}-wal); name another file")


def _move(part: str, target: str, overwrite: bool) -> None:
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


def _copy_plain(path: str, log: apsw.Connection, part: str, target: str, progress: Progress | None) -> int:
    """Copy one moment of a log to a file without WAL, so that it needs no second file and can be read from a read-only disk."""
    with closing(apsw.Connection(part, flags=apsw.SQLITE_OPEN_READWRITE)) as copy:
        with our_errors(path):
            # Held until the copy is done: without it, every commit of others would start the copy again.
            log.execute("BEGIN")
            events = sum(_count(log, town.n) for town in _towns(log))
        with our_errors(target):
            copy.execute("PRAGMA synchronous=OFF")  # synced once, when it is whole
            with copy.backup("main", log, "main") as pages:
                _copy_pages(pages, progress)
            copy.execute("PRAGMA journal_mode=DELETE").fetchall()
        log.execute("ROLLBACK")
    return events


def _copy_pages(pages: apsw.Backup, progress: Progress | None) -> None:
    while not pages.done:
        pages.step(PAGES)
        if progress is not None:
            progress(pages.page_count - pages.remaining, pages.page_count)


# --- restoring


def restore(source: str, path: str, *, overwrite: bool = False, timeout: float = 10.0, progress: Progress | None = None) -> int:
    """Put a backup in a log's place, in use or not; answers how many events it then holds.

    The backup is checked first. A log that has events is replaced only with `overwrite`. What is written
    next gets a number above all that the replaced log ever gave, and ids that it forgot stay forgotten.
    A log too damaged to be written into is moved aside to `PATH.damaged`.
    """
    if os.path.realpath(source) == os.path.realpath(path):
        raise Unwritable(f"{path}: is the backup itself; name the log to restore")
    with _part_file(path) as staged:
        with closing(_open_existing(source)) as backup_file:
            _copy_plain(source, backup_file, staged, path, _part_of(progress, 0))
        with closing(apsw.Connection(staged)) as connection:
            _check_staged(source, staged, connection, _part_of(progress, 1))
            try:
                events = _restore_into(path, connection, overwrite, timeout, _part_of(progress, 2))
            except _Unusable as error:
                if not overwrite:
                    raise error.reason from error
                with our_errors(path), transaction(connection):
                    connection.execute(f"UPDATE towns SET highest = highest + {LEAP}")
                events = sum(_count(connection, town.n) for town in _towns(connection))
                connection.close()
                _replace_damaged(path, staged)
    return events


class _Unusable(Exception):
    """The log that is to be replaced is too damaged to be written into."""

    def __init__(self, reason: LogError) -> None:
        self.reason = reason
        super().__init__(str(reason))


def _check_staged(source: str, staged: str, connection: apsw.Connection, progress: Progress | None) -> None:
    sqlite_file.migrate(connection, source)
    problems = check(staged, progress=progress).problems
    if problems:
        raise Damaged(f"{source}: is damaged and was not restored: {problems[0]}; take another backup (`lore verify` says more)")


def _restore_into(path: str, staged: apsw.Connection, overwrite: bool, timeout: float, progress: Progress | None) -> int:
    """Write the staged log over the live one, in one transaction of the latter."""
    with _damage_told(path), closing(_open_log(path, timeout)) as log, closing(_open_log(path, timeout)) as reader, our_errors(path):
        _match_page_size(staged, log)
        with log.backup("main", staged, "main") as pages:
            pages.step(0)  # takes the write lock: from here on nobody gives a number away
            old = _Old.of(reader)
            if old.has_events and not overwrite:
                raise Unwritable(f"{path}: has events already; name another path, or allow it to be overwritten")
            with transaction(staged):
                _carry_over(staged, old)
            _copy_pages(pages, progress)
        # Best done now, while the whole log is in the WAL; if others read it, they will do it.
        log.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return sum(_count(staged, town.n) for town in _towns(staged))


@contextmanager
def _damage_told(path: str) -> Iterator[None]:
    """A file that SQLite cannot read, told apart from one that is not for us."""
    try:
        yield
    except Damaged as error:
        if isinstance(error.__cause__, apsw.CorruptError | apsw.NotADBError):
            raise _Unusable(error) from error
        raise


def _open_log(path: str, timeout: float) -> apsw.Connection:
    connection = sqlite_file.open_file(path, timeout=timeout)
    try:
        sqlite_file.migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _match_page_size(staged: apsw.Connection, log: apsw.Connection) -> None:
    """The pages of a WAL file cannot change their size, so the copy's must."""
    [[wanted]] = log.execute("PRAGMA page_size").fetchall()
    if staged.execute("PRAGMA page_size").fetchall() != [(wanted,)]:
        staged.execute(f"PRAGMA page_size={wanted}")
        staged.execute("VACUUM")


class _Old(NamedTuple):
    """What has to outlive the log that is replaced."""

    has_events: bool
    last_n: int
    rows: list[tuple[str, str, str, int]]
    """Of each town the name, the log's id, the time of its founding, and the last number given."""
    forgotten: dict[str, list[bytes]]
    """The hashes of what each town has erased."""

    @classmethod
    def of(cls, log: apsw.Connection) -> _Old:
        """Read it, as far as it can be read."""
        towns = _towns(log)
        founding = {n: (log_id, created) for n, log_id, created in ask(log, "SELECT n, log_id, created FROM towns")}
        return cls(
            has_events=any(_has_events(log, town.n) for town in towns),
            last_n=max((town.n for town in towns), default=0),
            rows=[(town.name, *founding[town.n], _last_given(log, town)) for town in towns],
            forgotten={town.name: hashes for town in towns if (hashes := _forgotten(log, town.n))},
        )


def _has_events(log: apsw.Connection, n: int) -> bool:
    try:
        return bool(ask(log, f"SELECT 1 FROM events_{n} LIMIT 1"))
    except (apsw.CorruptError, apsw.SQLError):
        return True


def _last_given(log: apsw.Connection, town: Town) -> int:
    try:
        [(last,)] = ask(log, f"SELECT max(seq) FROM events_{town.n}")
    except (apsw.CorruptError, apsw.SQLError):
        return max(town.highest, town.indexed) + LEAP
    return max(last or 0, town.highest)


def _forgotten(log: apsw.Connection, n: int) -> list[bytes]:
    try:
        return [hash for (hash,) in ask(log, f"SELECT hash FROM forgotten_{n}")]
    except (apsw.CorruptError, apsw.SQLError):
        return []


def _carry_over(staged: apsw.Connection, old: _Old) -> None:
    _renumber(staged, old.last_n)
    for name, log_id, created, last in old.rows:
        if sqlite_file.find_town(staged, name) is None:
            n = sqlite_file.found_town(staged, name)
            staged.execute("UPDATE towns SET log_id = ?, created = ? WHERE n = ?", (log_id, created, n))
        staged.execute("UPDATE towns SET highest = max(highest, ?) WHERE name = ?", (last, name))
    for name, hashes in old.forgotten.items():
        _forget(staged, sqlite_file.found_town(staged, name), hashes)


def _renumber(staged: apsw.Connection, above: int) -> None:
    """Give each town's tables a number that the replaced log never used.

    A handle that remembers the old number, and with it the numbers of kinds and scopes, then finds no table
    where it would otherwise write into one that means something else.
    """
    towns = _towns(staged)
    shift = max([above, *(town.n for town in towns)]) if above else 0
    for town in towns if shift else ():
        for (table,) in ask(staged, "SELECT name FROM sqlite_schema WHERE type = 'table'"):
            if match := re.fullmatch(rf"([a-z]+)_{town.n}", table):
                staged.execute(f"ALTER TABLE {table} RENAME TO {match[1]}_{town.n + shift}")
        staged.execute("UPDATE towns SET n = ? WHERE n = ?", (town.n + shift, town.n))


def _forget(staged: apsw.Connection, n: int, hashes: list[bytes]) -> None:
    """Take out of a backup what was erased from the log after it was made."""
    run = staged.execute
    staged.executemany(f"INSERT OR IGNORE INTO forgotten_{n} VALUES (?)", [(hash,) for hash in hashes])
    staged.create_scalar_function("hash_of_key", _hash_of_key, 1, deterministic=True)
    run("PRAGMA secure_delete=ON").fetchall()
    rows = ask(staged, f"SELECT seq, id, scopes FROM events_{n} WHERE hash_of_key(id) IN (SELECT hash FROM forgotten_{n})")
    for seq, key, scopes in rows:
        run(f"DELETE FROM events_{n} WHERE seq = ?", (seq,))
        run(f"DELETE FROM ids_{n} WHERE id = ?", (key,))
        staged.executemany(f"DELETE FROM members_{n} WHERE scope = ? AND seq = ?", [(int(scope), seq) for scope in scopes.split()])
    last = max((seq for seq, _, _ in rows), default=0)
    run("UPDATE towns SET highest = max(highest, ?), erasures = erasures + 1 WHERE n = ?", (last, n))


def _hash_of_key(*keys: Any) -> bytes:
    return hash_of(format_uuid(keys[0]))


def _replace_damaged(path: str, staged: str) -> None:
    """Keep what is left of a damaged log, and put the restored one in its place."""
    with _os_errors(path):
        _sync(staged)
        for end in ("-wal", "-shm", "-journal"):
            if os.path.exists(path + end):
                os.replace(path + end, f"{path}.damaged{end}")
        os.replace(path, f"{path}.damaged")
        os.replace(staged, path)
        _sync(os.path.dirname(os.path.abspath(path)))


# --- files


def _open_existing(path: str) -> apsw.Connection:
    """A connection to a log that must be there; the file is not changed."""
    if not os.path.exists(path):
        raise LogError(f"{path}: there is no such file; check the path")
    with our_errors(path):
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.set_busy_timeout(10_000)
            _check_is_log(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def _check_is_log(connection: apsw.Connection, path: str) -> None:
    [(application,)] = connection.execute("PRAGMA application_id").fetchall()
    if application != sqlite_file.APPLICATION_ID:
        raise Damaged(f"{path}: is not a log of Fleetlore; give another path")
    [(schema,)] = ask(connection, "SELECT max(n) FROM migrations")
    if schema > len(sqlite_file.MIGRATIONS):
        raise Damaged(
            f"{path}: written by a newer Fleetlore (schema {schema}, known here: {len(sqlite_file.MIGRATIONS)}); upgrade fleetlore"
        )


def _towns(connection: apsw.Connection) -> list[Town]:
    return [Town(*row) for row in ask(connection, "SELECT n, name, trimmed, highest, indexed FROM towns ORDER BY n")]


def _count(connection: apsw.Connection, n: int) -> int:
    """How many events a town holds, without reading them all."""
    late = f"seq > (SELECT indexed FROM towns WHERE n = {n})"
    [(count,)] = ask(connection, f"SELECT (SELECT count(*) FROM ids_{n}) + (SELECT count(*) FROM events_{n} WHERE {late})")
    return int(count)


@contextmanager
def _part_file(target: str) -> Iterator[str]:
    """An empty file next to the target, readable by its owner only; gone at the end, unless it was renamed."""
    with _os_errors(target):
        directory, name = os.path.split(os.path.abspath(target))
        handle, part = tempfile.mkstemp(prefix=f".{name}.", suffix=".part", dir=directory)
        os.close(handle)
    try:
        yield part
    finally:
        for end in ("", "-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                os.unlink(part + end)


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFull(f"{path}: the disk is full; make room and try again") from error
        raise Unwritable(f"{path}: cannot be made ({error.strerror}); check that the directory exists and can be written") from error


def _part_of(progress: Progress | None, part: int, parts: int = 3) -> Progress | None:
    """Progress of one of several parts of a job, told as progress of the whole."""
    if progress is None:
        return None
    scale = 1000
    return lambda done, total: progress(part * scale + (done * scale // total if total else scale), parts * scale)
