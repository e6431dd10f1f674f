"""Verifies a log file (`lore verify`): compares everything that is stored twice, in one snapshot, while others keep using it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any, NamedTuple

import apsw

from fleetlore.errors import Damaged, InvalidEvent, LogError
from fleetlore.events import codec
from fleetlore.events.envelope import Event
from fleetlore.events.ids import is_uuid, uuid_bytes
from fleetlore.log.base import epoch_microseconds, event_scopes, hash_event_id, to_position
from fleetlore.log.check_report import MAX_PROBLEMS, LogCheckReport, Problems, Progress, TownCheck
from fleetlore.log.sqlite import file as sqlite_file
from fleetlore.log.sqlite.archive import fill_texts
from fleetlore.log.sqlite.file import fetch_rows, translate_errors
from fleetlore.log.sqlite.query import ZONE_SIZE

PROGRESS_INTERVAL = 1000
_MAX_CACHED_NAMES = 100_000


class TownRow(NamedTuple):
    """A row of the `towns` table."""

    n: int
    name: str
    trimmed: int
    highest: int
    indexed: int


def check_log(path: str, *, progress: Progress | None = None) -> LogCheckReport:
    """Read the whole log in one snapshot and compare everything that is stored twice. Changes nothing."""
    problems = Problems()
    with translate_errors(path), closing(open_existing(path)) as connection:
        connection.execute("BEGIN")
        if not _run_part(problems, "the file", lambda: _check_pages(connection, problems)):
            return LogCheckReport(0, 0, problems.list_messages())
        towns = list_towns(connection)
        done, total = 0, 0
        with suppress(apsw.CorruptError, apsw.SQLError):
            total = sum(sqlite_file.count_events(connection, town.n) for town in towns)
        newer = without_checksum = 0
        for town in towns:
            check = _FileTownCheck(connection, town, problems, progress, done, total)
            done += check.run_checks()
            newer, without_checksum = newer + check.newer, without_checksum + check.without_checksum
        connection.execute("ROLLBACK")
    return LogCheckReport(done, len(towns), problems.list_messages(), newer, without_checksum)


def _run_part(problems: Problems, where: str, work: Callable[[], None]) -> bool:
    """Run one part of the check; a page that SQLite cannot read ends only that part."""
    try:
        work()
    except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError) as error:
        problems.add(f"{where}: cannot be read to its end ({error})")
        return False
    return True


def _check_pages(connection: apsw.Connection, problems: Problems) -> None:
    for (line,) in connection.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})"):
        if line != "ok":
            problems.add(f"the file: {' '.join(str(line).split())}")
    list_towns(connection)
    for kind, name in fetch_rows(connection, "SELECT type, name FROM sqlite_schema WHERE type IN ('trigger', 'view')"):
        problems.add(f"the file: a {kind} that is not ours: {name}")


class _FileTownCheck(TownCheck):
    """Checks one town: its records one by one, then its indexes against them."""

    def __init__(
        self, connection: apsw.Connection, town: TownRow, problems: Problems, progress: Progress | None, done: int, total: int
    ) -> None:
        super().__init__(town.name, problems)
        self._connection, self._row = connection, town
        self._progress, self._done, self._total = progress, done, total
        self._kinds: dict[int, str | None] = {}
        self._scopes: dict[int, str | None] = {}
        self._has_erasures = False

    def run_checks(self) -> int:
        """Run all checks and return the number of events."""
        name = f"town {self._row.name}"
        _run_part(self._problems, f"{name}, records", self._check_records)
        for part in (self._check_row, self._check_ids, self._check_members, self._check_zones, self._check_blobs):
            _run_part(self._problems, f"{name}, indexes", part)
        return self.events

    def _add_problem(self, problem: str, seq: int | None = None) -> None:
        self.add_problem(problem, None if seq is None else to_position(seq))

    def _check_records(self) -> None:
        n = self._row.n
        self._has_erasures = bool(self._query_rows(f"SELECT 1 FROM forgotten_{n} LIMIT 1"))
        checksum_column = "checksum" if sqlite_file.has_checksums(self._connection, n) else "NULL"
        records: Iterator[Any] = self._connection.execute(
            f"SELECT seq, id, at, kind, scopes, CAST(raw AS BLOB), {checksum_column} FROM events_{n} ORDER BY seq"
        )
        for seq, key, at, kind, scopes, raw, checksum in records:
            if not raw:
                raw = self._read_archived(seq)
                if raw is None:
                    self.events += 1
                    continue
            is_intact = None if checksum is None else checksum == sqlite_file.checksum_record(seq, raw)
            event = self.check_record(raw, to_position(seq), is_intact=is_intact)
            if event is not None:
                self._compare_row(seq, event, (key, at, kind, scopes))
            if self.events % PROGRESS_INTERVAL == 0:
                self._show_progress()
        self._show_progress()

    def _show_progress(self) -> None:
        if self._progress is not None:
            self._progress(min(self._done + self.events, self._total), self._total)

    def _read_archived(self, seq: int) -> bytes | None:
        try:
            [(_, raw)] = fill_texts(self._connection, self._row.n, [(seq, b"")])
        except Damaged as error:
            self._add_problem(str(error), seq)
            return None
        if not raw:
            self._add_problem("the record cannot be read: it is empty, and no archive has it", seq)
            return None
        return raw

    def _compare_row(self, seq: int, event: Event, row: tuple[bytes, int, int, str]) -> None:
        key, at, kind, scopes = row
        if event.id is None or not is_uuid(event.id) or uuid_bytes(event.id) != key:
            self._add_problem("the row's id is not the event's", seq)
        elif self._has_erasures and self._query_rows(f"SELECT 1 FROM forgotten_{self._row.n} WHERE hash = ?", hash_event_id(event.id)):
            self._add_problem("the event was erased for good, and is here", seq)
        if event.at is None or epoch_microseconds(event.at) != at:
            self._add_problem("the row's time is not the event's", seq)
        if self._look_up_name("kinds", self._kinds, kind) != event.kind:
            self._add_problem("the row's kind is not the event's", seq)
        if self._scope_names(scopes) != sorted(event_scopes(event)):
            self._add_problem("the row's scopes are not the event's", seq)

    def _scope_names(self, text: str) -> list[str] | None:
        numbers = text.split()
        if text != (f" {' '.join(numbers)} " if numbers else "") or not all(number.isdigit() for number in numbers):
            return None
        return sorted(self._look_up_name("scopes", self._scopes, int(number)) or "" for number in numbers)

    def _look_up_name(self, table: str, known: dict[int, str | None], number: int) -> str | None:
        """Return the name behind a number of `kinds_N` or `scopes_N`; cached up to a limit."""
        if number not in known:
            if len(known) >= _MAX_CACHED_NAMES:
                known.clear()
            rows = self._query_rows(f"SELECT name FROM {table}_{self._row.n} WHERE id = ?", number)
            known[number] = rows[0][0] if rows else None
        return known[number]

    def _check_row(self) -> None:
        """Check the numbers in the town's own row: which sequence numbers are used and which are indexed."""
        town = self._row
        [(first, last)] = self._query_rows(f"SELECT (SELECT min(seq) FROM events_{town.n}), (SELECT max(seq) FROM events_{town.n})")
        if first is not None and first <= town.trimmed:
            self._add_problem(f"an event before the trimmed {to_position(town.trimmed)} is still here", first)
        if first is not None and first < 1:
            self._add_problem(f"a sequence number below one: {first}")
        if town.trimmed > town.highest:
            self._add_problem("trimmed numbers could be given again: `highest` is too low")
        if town.indexed > max(last or 0, town.highest):
            self._add_problem("`indexed` is ahead of every event")
        if (known := sqlite_file.count_events(self._connection, town.n)) != self.events:
            self._add_problem(f"the number of events is {self.events:,}, not {known:,}")

    def _check_ids(self) -> None:
        n, indexed = self._row.n, self._row.indexed
        self._add_problem_per_row(
            "the id is not in its index",
            f"SELECT e.seq FROM events_{n} e LEFT JOIN ids_{n} i ON i.id = e.id WHERE e.seq <= {indexed} AND i.seq IS NOT e.seq",
        )
        self._add_problem_per_row(
            "the index of ids has no such event",
            f"SELECT i.seq FROM ids_{n} i LEFT JOIN events_{n} e ON e.seq = i.seq WHERE e.id IS NOT i.id OR i.seq > {indexed}",
        )
        self._add_problem_per_row(
            "the same id is stored before",
            f"SELECT e.seq FROM events_{n} e WHERE e.seq > {indexed} AND EXISTS (SELECT 1 FROM ids_{n} i WHERE i.id = e.id)"
            f" UNION ALL SELECT max(seq) FROM events_{n} WHERE seq > {indexed} GROUP BY id HAVING count(*) > 1",
        )

    def _check_members(self) -> None:
        n, indexed = self._row.n, self._row.indexed
        numbers = "'[' || replace(trim(e.scopes), ' ', ',') || ']'"
        self._add_problem_per_row(
            "a scope does not list the event",
            f"SELECT DISTINCT e.seq FROM events_{n} e, json_each(iif(json_valid({numbers}), {numbers}, '[]')) s"
            f" WHERE e.seq <= {indexed} AND NOT EXISTS (SELECT 1 FROM members_{n} m WHERE m.scope = s.value AND m.seq = e.seq)",
        )
        self._add_problem_per_row(
            "a scope lists an event that is not there, or not in it",
            f"SELECT m.seq FROM members_{n} m LEFT JOIN events_{n} e ON e.seq = m.seq"
            f" WHERE e.seq IS NULL OR m.seq > {indexed} OR NOT instr(e.scopes, ' ' || m.scope || ' ')",
        )

    def _check_zones(self) -> None:
        """A zone that is missing, or older than its events, would hide them from `since`. One that is newer makes `since` slow."""
        n = self._row.n
        if not self._has_erasures:
            self._add_problem_per_row(
                "a time index is newer than its events",
                f"SELECT t.seq FROM (SELECT seq / {ZONE_SIZE} AS zone, max(at) AS newest, max(seq) AS seq FROM events_{n} GROUP BY 1) t"
                f" JOIN zones_{n} z ON z.zone = t.zone WHERE z.newest > t.newest AND max(z.zone * {ZONE_SIZE}, 1) > {self._row.trimmed}",
            )
        self._add_problem_per_row(
            "a time index does not cover the event",
            f"SELECT t.seq FROM (SELECT seq / {ZONE_SIZE} AS zone, max(at) AS newest, max(seq) AS seq FROM events_{n}"
            f" WHERE seq < (SELECT (max(zone) + 1) * {ZONE_SIZE} FROM zones_{n}) GROUP BY 1) t"
            f" LEFT JOIN zones_{n} z ON z.zone = t.zone WHERE z.newest IS NULL OR z.newest < t.newest",
        )

    def _check_blobs(self) -> None:
        """Each whole text belongs to an event that names it, and has the digest that the event names."""
        n = self._row.n
        if not sqlite_file.has_blobs(self._connection, n):
            return
        sql = f"SELECT b.seq, b.packed, CAST(e.raw AS BLOB) FROM blobs_{n} b LEFT JOIN events_{n} e ON e.seq = b.seq"
        rows: Iterator[Any] = self._connection.execute(sql)
        for seq, packed, raw in rows:
            if raw is None:
                self._add_problem("the whole text of an event that is gone; `lore trim` or `lore forget` removes it", seq)
                continue
            with suppress(InvalidEvent):  # reported with the records
                self.check_texts(codec.decode_event(raw), packed, to_position(seq))

    def _add_problem_per_row(self, problem: str, sql: str) -> None:
        found: Iterator[Any] = self._connection.execute(sql)
        for (seq,) in found:
            self._add_problem(problem, seq)

    def _query_rows(self, sql: str, *values: Any) -> list[Any]:
        return fetch_rows(self._connection, sql, values)


# --- the file


def open_existing(path: str) -> apsw.Connection:
    """Open a connection to an existing log without changing the file; raise `LogError` if it is missing."""
    if not os.path.exists(path):
        raise LogError(f"{path}: file not found; check the path")
    if not os.path.isfile(path):
        raise LogError(f"{path}: is no file; name a file that `lore backup` made")
    with translate_errors(path):
        connection = sqlite_file.connect_file(path)
        try:
            connection.set_busy_timeout(10_000)
            _check_is_log(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


_SCHEMA_NAME = re.compile(
    r"(?:towns|cursors|leases|tokens|seals|migrations|(?:events|ids|scopes|kinds|members|zones|forgotten|blobs|archive)_\d+)\Z"
)


def check_schema(connection: apsw.Connection, path: str) -> None:
    """Raise `Damaged` if the file has anything but tables of a log: a view or trigger could run without end when it is read."""
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_schema"):
        is_ours = (kind == "table" and _SCHEMA_NAME.match(name) and "VIRTUAL" not in str(sql)[:20].upper()) or (
            kind == "index" and (sql is None or _SCHEMA_NAME.match(str(sql).rpartition(" ON ")[2].partition("(")[0].strip()))
        )
        if not is_ours:
            raise Damaged(f"{path}: has the {kind} {name[:80]!r}, which no log has; it was not made by `lore backup`, and nothing was read")


def _check_is_log(connection: apsw.Connection, path: str) -> None:
    [(application,)] = connection.execute("PRAGMA application_id").fetchall()
    if application != sqlite_file.APPLICATION_ID:
        raise Damaged(f"{path}: is not a log of Fleetlore; give another path")
    [(schema,)] = fetch_rows(connection, "SELECT max(n) FROM migrations")
    if schema > len(sqlite_file.MIGRATIONS):
        raise Damaged(
            f"{path}: written by a newer Fleetlore (schema {schema}, known here: {len(sqlite_file.MIGRATIONS)}); upgrade fleetlore"
        )


def list_towns(connection: apsw.Connection) -> list[TownRow]:
    """Return every town of a log."""
    return [TownRow(*row) for row in fetch_rows(connection, "SELECT n, name, trimmed, highest, indexed FROM towns ORDER BY n")]
