"""Saves what can still be read of a damaged log file (`lore salvage`).

SQLite stops at the first page that it cannot follow. This module does not follow pages: it reads every page of the file on its own,
takes the rows that lie in it, and keeps those that are what was written. The result is a new log with the same positions.
The file format: https://sqlite.org/fileformat2.html
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple, TypeAlias

import apsw
from msgspec import Struct

from fleetlore import clock
from fleetlore.errors import Damaged, InvalidEvent, LogError
from fleetlore.events import codec
from fleetlore.events.envelope import Event
from fleetlore.events.ids import is_uuid, uuid_bytes
from fleetlore.log.base import epoch_microseconds, event_scopes, hash_event_id, to_position
from fleetlore.log.blobs import unpack_texts
from fleetlore.log.check_report import Progress
from fleetlore.log.connect import DEFAULT_TOWN
from fleetlore.log.sqlite import archive
from fleetlore.log.sqlite import file as sqlite_file
from fleetlore.log.sqlite.file import fetch_rows, translate_errors, write_transaction
from fleetlore.log.sqlite.maintenance import check_target, fsync_file, move_into_place, temporary_file, translate_os_errors
from fleetlore.log.sqlite.query import ZONE_SIZE

MAX_RANGES = 200
PAGES_PER_TRANSACTION = 5000
_DEFAULT_PAGE_SIZE = 4096
_PAGE_SIZES = frozenset(1 << power for power in range(9, 17))
_WAL_MAGIC = (0x377F0682, 0x377F0683)
_TABLE_INTERIOR, _TABLE_LEAF, _INDEX_INTERIOR, _INDEX_LEAF = 0x05, 0x0D, 0x02, 0x0A
_PAGE_TYPES = (_TABLE_INTERIOR, _TABLE_LEAF, _INDEX_INTERIOR, _INDEX_LEAF)
_INT_SIZES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_COMPANIONS = {"cursors": 3, "tokens": 3, "seals": 2, "leases": 6}
"""Tables of `coordination.py` and their number of columns; all are keyed by the town's name."""
_TOWN_TABLE = re.compile(r"(events|ids|forgotten|blobs|kinds)_(\d+)")

Value: TypeAlias = int | float | bytes | None


class MissingEvents(Struct, frozen=True):
    """Positions without an event. Positions of erased events are among them."""

    town: str
    first: str
    last: str
    count: int


class SalvageReport(Struct, frozen=True):
    """What was saved and what was not."""

    events: int
    towns: list[str]
    missing: list[MissingEvents]
    """The first ranges of positions without an event."""
    missing_events: int
    erased_events: int
    """How many events were erased on purpose; their positions are counted as missing."""
    damaged_records: int
    """Records that were found, but are not what was written."""
    newer_events: int
    """Events of a newer Fleetlore, which were left out."""
    notes: list[str]


def salvage_log(source: str, target: str, *, progress: Progress | None = None) -> SalvageReport:
    """Write everything that is still readable in a damaged log to a new one. The source is not changed.

    Stop every process that writes to the source first: pages are read one by one, not as one snapshot.
    """
    check_target(source, target, overwrite=False)
    try:
        pages = _PageFile(source)
    except OSError as error:
        raise LogError(f"{source}: cannot be read ({error.strerror}); check the path") from error
    with closing(pages), temporary_file(target) as part:
        with translate_errors(target), closing(sqlite_file.open_file(part, sync="off")) as connection:
            sqlite_file.migrate_schema(connection, part)
            report = _Salvage(pages, connection, progress).run()
            fetch_rows(connection, "PRAGMA journal_mode=DELETE")
        with translate_os_errors(target):
            fsync_file(part)
            move_into_place(part, target, overwrite=False)
            fsync_file(os.path.dirname(os.path.abspath(target)))
    return report


# --- the file, page by page


class _PageFile:
    """The pages of a database file, as the write-ahead log changes them. A page that the disk cannot read is empty."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.notes: list[str] = []
        self._file = os.open(path, os.O_RDONLY)
        size = os.fstat(self._file).st_size
        header = self._read(self._file, 0, 100)
        given = int.from_bytes(header[16:18], "big")
        self.page_size = 65536 if given == 1 else given
        if self.page_size not in _PAGE_SIZES:
            self.notes.append("the file's header is damaged")
            self.page_size = _DEFAULT_PAGE_SIZE
        self.usable = self.page_size - (header[20] if header[20:21] and header[20] <= 32 else 0)
        self._wal: int | None = None
        self._frames: dict[int, int] = {}
        if os.path.exists(f"{path}-wal"):
            self._wal = os.open(f"{path}-wal", os.O_RDONLY)
            self._read_wal()
        self.count = max([-(-size // self.page_size), *self._frames])
        stated = int.from_bytes(header[28:32], "big")
        if not self._frames and stated > self.count:
            self.notes.append(f"the file is cut off: {stated - self.count:,} of {stated:,} pages are gone")

    def read_page(self, number: int) -> bytes:
        """Return a page, counted from one."""
        if number in self._frames and self._wal is not None:
            return self._read(self._wal, self._frames[number], self.page_size)
        return self._read(self._file, (number - 1) * self.page_size, self.page_size)

    def _read(self, file: int, offset: int, size: int) -> bytes:
        try:
            content = os.pread(file, size, offset)
        except OSError as error:
            self.notes.append(f"the disk cannot read {size} bytes at {offset:,} ({error.strerror})")
            content = b""
        return content.ljust(size, b"\0")

    def _read_wal(self) -> None:
        """Find the newest committed version of each page."""
        assert self._wal is not None
        header = self._read(self._wal, 0, 32)
        magic, _, page_size = struct.unpack(">3I", header[:12])
        if magic not in _WAL_MAGIC or page_size != self.page_size:
            return
        order = ">" if magic & 1 else "<"
        salts, sums = header[16:24], _wal_checksum(order, header[:24], (0, 0))
        offset, pending = 32, dict[int, int]()
        while len(frame := os.pread(self._wal, 24 + page_size, offset)) == 24 + page_size:
            sums = _wal_checksum(order, frame[24:], _wal_checksum(order, frame[:8], sums))
            if frame[8:16] != salts or struct.unpack(">2I", frame[16:24]) != sums:
                break
            number, commit = struct.unpack(">2I", frame[:8])
            pending[number] = offset + 24
            if commit:
                self._frames |= pending
                pending = {}
            offset += 24 + page_size

    def close(self) -> None:
        """Close the files."""
        os.close(self._file)
        if self._wal is not None:
            os.close(self._wal)


def _wal_checksum(order: str, content: bytes, start: tuple[int, int]) -> tuple[int, int]:
    first, second = start
    words = iter(struct.unpack(f"{order}{len(content) // 4}I", content))
    for word, next_word in zip(words, words, strict=True):
        first = (first + word + second) & 0xFFFFFFFF
        second = (second + next_word + first) & 0xFFFFFFFF
    return first, second


# --- rows


class _Row(NamedTuple):
    rowid: int
    values: list[Value]


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    """Return the number and where it ends; raise `IndexError` at the end of the content."""
    value = 0
    for count in range(8):
        byte = content[at + count]
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            return value, at + count + 1
    value = (value << 8) | content[at + 8]
    return (value - (1 << 64) if value >= 1 << 63 else value), at + 9


def _read_rows(pages: _PageFile, number: int) -> Iterator[_Row]:
    """Yield the rows of a page that can be parsed; a page without rows yields nothing."""
    page = pages.read_page(number)
    start = 100 if number == 1 else 0
    kind = page[start]
    if kind not in (_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR):
        return
    head = 12 if kind == _INDEX_INTERIOR else 8
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    for index in range(min(count, pages.usable // 4)):
        pointer = start + head + 2 * index
        at = int.from_bytes(page[pointer : pointer + 2], "big")
        if at == 0:
            continue
        try:
            yield _parse_cell(pages, page, kind, at)
        except (IndexError, ValueError, struct.error):
            continue  # part of it is damaged


def _parse_cell(pages: _PageFile, page: bytes, kind: int, at: int) -> _Row:
    rowid = 0
    if kind == _INDEX_INTERIOR:
        at += 4
    size, at = _read_varint(page, at)
    if kind == _TABLE_LEAF:
        rowid, at = _read_varint(page, at)
    return _Row(rowid, _parse_record(_read_payload(pages, page, kind, size, at)))


def _read_payload(pages: _PageFile, page: bytes, kind: int, size: int, at: int) -> bytes:
    usable = pages.usable
    if not 0 < size <= pages.count * usable:
        raise ValueError("no such size")
    most = usable - 35 if kind == _TABLE_LEAF else (usable - 12) * 64 // 255 - 23
    if size <= most:
        payload = page[at : at + size]
    else:
        least = (usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (usable - 4)
        local = local if local <= most else least
        parts, left = [page[at : at + local]], size - local
        following = int.from_bytes(page[at + local : at + local + 4], "big")
        while left > 0:
            if not 0 < following <= pages.count:
                raise ValueError("a chain that ends too early")
            overflow = pages.read_page(following)
            parts.append(overflow[4 : 4 + min(left, usable - 4)])
            left -= usable - 4
            following = int.from_bytes(overflow[:4], "big")
        payload = b"".join(parts)
    if len(payload) < size:
        raise ValueError("cut off")
    return payload


def _parse_record(payload: bytes) -> list[Value]:
    """Return the columns of a record; texts are bytes."""
    end, at = _read_varint(payload, 0)
    values: list[Value] = []
    content = end
    while at < end:
        kind, at = _read_varint(payload, at)
        if kind == 0 or kind in (8, 9):
            values.append(None if kind == 0 else kind - 8)
            continue
        size = _INT_SIZES.get(kind) or (8 if kind == 7 else (kind - 12) // 2 if kind >= 12 else -1)
        part = payload[content : content + size]
        if size < 0 or len(part) != size:
            raise ValueError("not a column")
        content += size
        if kind >= 12:
            values.append(part)
        else:
            values.append(struct.unpack(">d", part)[0] if kind == 7 else int.from_bytes(part, "big", signed=True))
    return values


# --- what the rows are


class _Town:
    """A town of the damaged log, and its number in the names of its tables there."""

    def __init__(self, n: int, name: str, log_id: str, created: str, trimmed: int = 0, highest: int = 0) -> None:
        self.n, self.name, self.log_id, self.created = n, name, log_id, created
        self.trimmed, self.highest = trimmed, highest
        self.kinds: dict[int, bytes] = {}
        self.scopes: dict[str, int] = {}
        self.kind_numbers: dict[str, int] = {}
        self.forgotten: set[bytes] = set()
        self.last = highest
        """The highest sequence number that anything in the file names."""


class _Salvage:
    """Copies rows of the damaged file into an empty log."""

    def __init__(self, pages: _PageFile, connection: apsw.Connection, progress: Progress | None) -> None:
        self._pages, self._connection, self._progress = pages, connection, progress
        self._owners: dict[int, str] = {}
        self._towns: dict[int, _Town] = {}
        self._damaged = self._newer = 0

    def run(self) -> SalvageReport:
        """Find out which page belongs to which table, then copy the rows."""
        self._find_owners()
        self._find_towns()
        self._connection.execute(
            "CREATE TEMP TABLE archived (n INTEGER, seq INTEGER, checksum INTEGER, PRIMARY KEY (seq, n)) WITHOUT ROWID"
        )
        for town in self._towns.values():
            self._create_town(town)
        for start in range(1, self._pages.count + 1, PAGES_PER_TRANSACTION):
            with write_transaction(self._connection):
                for number in range(start, min(start + PAGES_PER_TRANSACTION, self._pages.count + 1)):
                    self._copy_page(number)
            if self._progress is not None:
                self._progress(min(start + PAGES_PER_TRANSACTION, self._pages.count), self._pages.count)
        self._copy_archives()
        missing: list[MissingEvents] = []
        for town in self._towns.values():
            with write_transaction(self._connection):
                self._finish_town(town)
            missing += self._find_missing(town)
        return SalvageReport(
            events=sum(self._count_events(town) for town in self._towns.values()),
            towns=[town.name for town in self._towns.values()],
            missing=missing[:MAX_RANGES],
            missing_events=sum(each.count for each in missing),
            erased_events=sum(len(town.forgotten) for town in self._towns.values()),
            damaged_records=self._damaged,
            newer_events=self._newer,
            notes=list(dict.fromkeys(self._pages.notes)),
        )

    def _find_owners(self) -> None:
        """Follow the trees of tables as far as they can be followed, so that most pages are known by their table."""
        self._own_pages(1, "schema")
        for number in [number for number, owner in self._owners.items() if owner == "schema"]:
            for _, values in _read_rows(self._pages, number):
                match values:
                    case [b"table", bytes(name), bytes(), int(root), *_]:
                        self._own_pages(root, name.decode(errors="replace"))

    def _own_pages(self, root: int, owner: str) -> None:
        waiting = [root]
        while waiting:
            number = waiting.pop()
            if not 0 < number <= self._pages.count or number in self._owners:
                continue
            page, start = self._pages.read_page(number), 100 if number == 1 else 0
            kind = page[start]
            if kind not in _PAGE_TYPES:
                continue
            self._owners[number] = owner
            if kind in (_TABLE_INTERIOR, _INDEX_INTERIOR):
                count = int.from_bytes(page[start + 3 : start + 5], "big")
                pointers = page[start + 12 : start + 12 + 2 * count]
                cells = [int.from_bytes(pointers[index : index + 2], "big") for index in range(0, len(pointers), 2)]
                waiting += [int.from_bytes(page[at : at + 4], "big") for at in (start + 8, *cells)]

    def _find_towns(self) -> None:
        for number in range(1, self._pages.count + 1):
            if self._owners.get(number, "towns") != "towns":
                continue
            for rowid, values in _read_rows(self._pages, number):
                match values:
                    case [None, bytes(name), bytes(log_id), bytes(created), int(trimmed), int(highest), int(indexed), int(), *_]:
                        with_text = [part.decode(errors="replace") for part in (name, log_id, created)]
                        if is_uuid(with_text[1]) and rowid > 0:
                            town = self._towns.setdefault(rowid, _Town(rowid, with_text[0], with_text[1], with_text[2], trimmed, highest))
                            town.last = max(town.last, indexed)
        numbers = {int(match[2]) for owner in self._owners.values() if (match := _TOWN_TABLE.fullmatch(owner))}
        for n in numbers - self._towns.keys() or ({1} if not self._towns else ()):
            new_name = DEFAULT_TOWN if n == 1 and not self._towns else f"salvaged-{n}"
            self._pages.notes.append(f"the name of town {n} is lost; it is now called {new_name}, with a new log id")
            self._towns[n] = _Town(n, new_name, clock.uuid7(), clock.now().isoformat())
        for number, owner in self._owners.items():
            if (match := _TOWN_TABLE.fullmatch(owner)) and match[1] == "kinds":
                self._towns[int(match[2])].kinds |= {
                    rowid: values[1]
                    for rowid, values in _read_rows(self._pages, number)
                    if len(values) == 2 and isinstance(values[1], bytes)
                }

    def _create_town(self, town: _Town) -> None:
        with write_transaction(self._connection):
            names = {name for (name,) in fetch_rows(self._connection, "SELECT name FROM towns")}
            if town.name in names:
                town.name = f"{town.name}-{town.n}"
            sqlite_file.create_town(self._connection, town.name, town.log_id, town.created, n=town.n)

    def _copy_page(self, number: int) -> None:
        owner = self._owners.get(number)
        table = _TOWN_TABLE.fullmatch(owner or "")
        town = self._towns.get(int(table[2])) if table else None
        for rowid, values in _read_rows(self._pages, number):
            match values:
                case [None, bytes(key), int(at), int(kind), bytes(), bytes(raw), *checksum] if (
                    len(key) == 16 and len(checksum) <= 1 and (owner is None or owner.startswith("events_"))
                ):
                    self._copy_event(town, rowid, (key, at, kind, raw, checksum[0] if checksum else None))
                case [None, bytes(packed)] if owner is None or owner.startswith("blobs_"):
                    self._copy_blobs(town, rowid, packed)
                case [bytes(hash)] if len(hash) == 32 and (owner is None or owner.startswith("forgotten_")):
                    for each in [town] if town else self._towns.values():
                        each.forgotten.add(hash)
                case [bytes(key), int(seq)] if len(key) == 16 and town is not None and table is not None and table[1] == "ids":
                    town.last = max(town.last, seq)
                case [bytes(), *_] if owner in _COMPANIONS and len(values) == _COMPANIONS[owner]:
                    self._copy_companion(owner, values)

    def _copy_companion(self, table: str, values: Sequence[Value]) -> None:
        texts = [value.decode(errors="replace") if isinstance(value, bytes) else value for value in values]
        self._connection.execute(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(texts))})", texts)

    def _copy_event(self, town: _Town | None, seq: int, row: tuple[bytes, int, int, bytes, Value]) -> None:
        key, at, kind, raw, checksum = row
        if not raw:
            town = town or next(iter(self._towns.values()))
            self._connection.execute("INSERT OR IGNORE INTO temp.archived VALUES (?, ?, ?)", (town.n, seq, checksum))
            return
        try:
            if seq < 1 or (checksum is not None and checksum != sqlite_file.checksum_record(seq, raw)):
                raise Damaged("not what was written")
            event = codec.decode_event(raw)
            if event.id is None or not is_uuid(event.id) or uuid_bytes(event.id) != key:
                raise Damaged("another event's id")
            if event.at is None or epoch_microseconds(event.at) != at:
                raise Damaged("another event's time")
        except InvalidEvent as error:
            self._newer += error.path == "$.v"
            self._damaged += error.path != "$.v"
            return
        except Damaged:
            self._damaged += 1
            return
        town = town or self._guess_town(seq, kind, event)
        if seq > town.trimmed:
            self._insert_event(town, seq, event, (key, at, raw))

    def _copy_archives(self) -> None:
        """Copy archived events, which the rows name by their checksum."""
        folder = archive.archive_folder(self._pages.path)
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            with write_transaction(self._connection):
                for seq, raw, packed in archive.scan_file(os.path.join(folder, name)):
                    sql = "SELECT n FROM temp.archived WHERE seq = ? AND checksum = ?"
                    for (n,) in fetch_rows(self._connection, sql, (seq, sqlite_file.checksum_record(seq, raw))):
                        event = codec.decode_event(raw)
                        assert event.id is not None
                        assert event.at is not None
                        self._insert_event(self._towns[n], seq, event, (uuid_bytes(event.id), epoch_microseconds(event.at), raw))
                        if packed:
                            self._copy_blobs(self._towns[n], seq, packed)

    def _guess_town(self, seq: int, kind: int, event: Event) -> _Town:
        """Return the town of a row on a page that no table leads to: by the kind's number, then by the first free position."""
        towns = list(self._towns.values())
        fitting = [town for town in towns if town.kinds.get(kind) == event.kind.encode()] or towns
        free = [town for town in fitting if not fetch_rows(self._connection, f"SELECT 1 FROM events_{town.n} WHERE seq = ?", (seq,))]
        return (free or fitting)[0]

    def _insert_event(self, town: _Town, seq: int, event: Event, row: tuple[bytes, int, bytes]) -> None:
        key, at, raw = row
        numbers = [self._intern_name(town, "scopes", town.scopes, scope) for scope in event_scopes(event)]
        kind = self._intern_name(town, "kinds", town.kind_numbers, event.kind)
        scopes = f" {' '.join(map(str, numbers))} " if numbers else ""
        values = (seq, key, at, kind, scopes, raw, sqlite_file.checksum_record(seq, raw))
        self._connection.execute(f"INSERT OR IGNORE INTO events_{town.n} VALUES (?, ?, ?, ?, ?, CAST(? AS TEXT), ?)", values)

    def _intern_name(self, town: _Town, table: str, known: dict[str, int], name: str) -> int:
        number = known.get(name)
        if number is None:
            [(number,)] = fetch_rows(self._connection, f"INSERT INTO {table}_{town.n} (name) VALUES (?) RETURNING id", (name,))
            known[name] = number
        return number

    def _copy_blobs(self, town: _Town | None, seq: int, packed: bytes) -> None:
        if town is None and len(self._towns) > 1:
            return
        try:
            unpack_texts(packed)
        except Damaged:
            self._damaged += town is not None
            return
        sqlite_file.insert_blobs(self._connection, (town or next(iter(self._towns.values()))).n, [(seq, packed)])

    def _finish_town(self, town: _Town) -> None:
        """Remove what was erased, then build the indexes."""
        run, n = self._connection.execute, town.n
        if town.forgotten:
            self._connection.executemany(f"INSERT OR IGNORE INTO forgotten_{n} VALUES (?)", [(hash,) for hash in town.forgotten])
            self._connection.create_scalar_function("hash_of_raw", _hash_of_raw, 1, deterministic=True)
            run(f"DELETE FROM events_{n} WHERE hash_of_raw(CAST(raw AS BLOB)) IN (SELECT hash FROM forgotten_{n})")
        run(f"DELETE FROM events_{n} WHERE seq NOT IN (SELECT min(seq) FROM events_{n} GROUP BY id)")
        run(f"INSERT INTO ids_{n} SELECT id, seq FROM events_{n} ORDER BY id")
        numbers = "'[' || replace(trim(e.scopes), ' ', ',') || ']'"
        run(f"INSERT INTO members_{n} SELECT DISTINCT s.value, e.seq FROM events_{n} e, json_each({numbers}) s ORDER BY 1, 2")
        [(last,)] = fetch_rows(self._connection, f"SELECT coalesce(max(seq), 0) FROM events_{n}")
        town.last = max(town.last, last)
        run(
            f"INSERT INTO zones_{n} SELECT seq / {ZONE_SIZE}, max(at) FROM events_{n} WHERE seq / {ZONE_SIZE} < ? GROUP BY 1",
            ((last + 1) // ZONE_SIZE,),
        )
        run(
            f"UPDATE towns SET trimmed = ?, highest = ?, indexed = ?, erasures = ?, indexed_events = (SELECT count(*) FROM ids_{n})"
            " WHERE n = ?",
            (town.trimmed, max(town.highest, town.last), last, int(bool(town.forgotten)), n),
        )
        sqlite_file.remove_orphaned_blobs(self._connection, n)

    def _find_missing(self, town: _Town) -> list[MissingEvents]:
        """Return the positions without an event, up to the highest that is known to have been used."""
        rows = fetch_rows(
            self._connection,
            f"SELECT seq + 1, following - 1 FROM (SELECT seq, lead(seq, 1, ?1) OVER (ORDER BY seq) AS following FROM"
            f" (SELECT seq FROM events_{town.n} UNION ALL SELECT ?2)) WHERE following > seq + 1",
            (town.last + 1, town.trimmed),
        )
        return [MissingEvents(town.name, to_position(first), to_position(last), last - first + 1) for first, last in rows]

    def _count_events(self, town: _Town) -> int:
        [(count,)] = fetch_rows(self._connection, f"SELECT count(*) FROM events_{town.n}")
        return int(count)


def _hash_of_raw(*raw: Any) -> bytes:
    return hash_event_id(codec.decode_event(raw[0]).id or "")
