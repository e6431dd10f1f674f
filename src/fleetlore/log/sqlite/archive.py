"""Moves the content of old events out of a log file into compressed files (`lore archive`). Readers do not notice.

The row of an archived event stays, with its position, id, time, kind, scopes and checksum; only its text is empty. The texts, and
the whole texts of cut strings, are in files in the folder `PATH.archive`, in blocks of a few hundred events. `archive_N` says which
block has which events.

Each step is one transaction that writes its file first: a crash leaves the events in the log, and at most a file that no row
names, which the next step deletes. A file is never changed: to remove an event from it, a new one is written.

    file    `FLAR1` and a line feed, then blocks
    block   `FLAB`, length, CRC-32 and number of events (4 bytes each, big-endian), then a zlib stream of msgpack: [sequence, text,
            packed whole texts] per event
"""

from __future__ import annotations

import errno
import os
import re
import stat
import struct
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TypeAlias

import apsw
import msgspec

from fleetlore.errors import Damaged, LogError
from fleetlore.log.base import to_position
from fleetlore.log.sqlite import file as sqlite_file
from fleetlore.log.sqlite.file import fetch_rows

EVENTS_PER_FILE = 2000
EVENTS_PER_BLOCK = 250
CACHED_BLOCKS = 64
MAX_ATTEMPTS = 3
_FILE_MAGIC = b"FLAR1\n"
_BLOCK_HEADER = struct.Struct(">4sIII")
_BLOCK_MAGIC = b"FLAB"
_COMPRESSION_LEVEL = 6
_MAX_BLOCK_BYTES = 1 << 30

ArchivedEvent: TypeAlias = tuple[int, bytes, bytes]
"""Sequence number, text, packed whole texts (or empty)."""

_is_file_name = re.compile(r"\d+-\d{16,20}-\d+-[0-9a-f]{16}\.flar").fullmatch
_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(list[ArchivedEvent]).decode


def archive_folder(path: str) -> str:
    """Return the folder for the archived events of a log file."""
    return f"{path}.archive"


def _file_path(folder: str, name: object) -> str:
    """Where an archive is. Names come from the log, which may be somebody else's: they must not lead out of the folder."""
    if not isinstance(name, str) or not _is_file_name(name):
        raise Damaged(f"{folder}: {str(name)[:80]!r} is no name of an archive; this log was changed by another program, use a backup")
    return os.path.join(folder, name)


def _open_plain_file(path: str, flags: int) -> int:
    """Open a file, but no link, and no pipe or device, which may never end."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "no plain file", path)
    return descriptor


def has_archive(connection: apsw.Connection, n: int) -> bool:
    """Return whether a town has archived events. The table is created with the first."""
    return bool(fetch_rows(connection, f"SELECT 1 FROM sqlite_schema WHERE name = 'archive_{n}'"))


# --- reading


def fill_texts(connection: apsw.Connection, n: int, rows: Sequence[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Return rows of sequence number and text, with the texts of archived events. Raises `Damaged` if a file is damaged or missing."""
    archived = sorted(seq for seq, raw in rows if not raw)
    if not archived or not has_archive(connection, n):
        return list(rows)
    texts = {seq: raw for seq, raw, _ in _load_events(connection, n, archived)}
    missing, gone = [seq for seq in archived if seq not in texts], set[int]()
    if missing:  # erased or trimmed since the rows were read; otherwise the empty text is read as `log.rejected`
        sql = f"SELECT seq FROM events_{n} WHERE seq IN carray(?)"
        gone = {*missing} - {seq for (seq,) in fetch_rows(connection, sql, (apsw.carray(array("q", missing)),))}
    return [(seq, raw or texts.get(seq, b"")) for seq, raw in rows if seq not in gone]


def find_whole_texts(connection: apsw.Connection, n: int, seq: int) -> bytes | None:
    """Return the packed whole texts of an archived event."""
    if not has_archive(connection, n):
        return None
    return next((packed or None for number, _, packed in _load_events(connection, n, [seq]) if number == seq), None)


def _load_events(connection: apsw.Connection, n: int, wanted: Sequence[int]) -> list[ArchivedEvent]:
    """Return the events of every block that has one of these sequence numbers, which are sorted."""
    for _ in range(MAX_ATTEMPTS - 1):
        with suppress(_MissingFile):  # it was just written anew without an erased event
            return _load_blocks(connection, n, wanted)
    return _load_blocks(connection, n, wanted)


def _load_blocks(connection: apsw.Connection, n: int, wanted: Sequence[int]) -> list[ArchivedEvent]:
    folder, events = archive_folder(connection.filename), list[ArchivedEvent]()
    rows = fetch_rows(
        connection,
        f"SELECT first, last, file, start FROM archive_{n} WHERE first <= ?2"
        f" AND first >= coalesce((SELECT max(first) FROM archive_{n} WHERE first <= ?1), 0) ORDER BY first",
        (wanted[0], wanted[-1]),
    )
    for first, last, file, start in rows:
        at = bisect_left(wanted, first)
        if at < len(wanted) and wanted[at] <= last:
            events += _read_block(_file_path(folder, file), start)
    return events


class _MissingFile(Damaged):
    """An archive file is not there."""


@lru_cache(maxsize=CACHED_BLOCKS)  # files are never changed, and their names contain a digest
def _read_block(path: str, offset: int) -> tuple[ArchivedEvent, ...]:
    try:
        with open(path, "rb", opener=_open_plain_file) as file:
            file.seek(offset)
            header = file.read(_BLOCK_HEADER.size)
            return _parse_block(header, file.read(_block_length(header)))
    except FileNotFoundError as error:
        raise _MissingFile(f"{path}: an archive of the log is missing; bring the file back from a backup") from error
    except OSError as error:
        raise Damaged(f"{path}: an archive of the log cannot be read ({error.strerror}); bring the file back from a backup") from error
    except _DamagedBlock as error:
        raise Damaged(f"{path}: an archive of the log is damaged at byte {offset}; bring the file back from a backup") from error


class _DamagedBlock(ValueError):
    """A block is not what was written."""


def _block_length(header: bytes) -> int:
    if len(header) < _BLOCK_HEADER.size or not header.startswith(_BLOCK_MAGIC):
        raise _DamagedBlock
    return int(_BLOCK_HEADER.unpack(header)[1])


def _parse_block(header: bytes, content: bytes) -> tuple[ArchivedEvent, ...]:
    _, length, checksum, count = _BLOCK_HEADER.unpack(header)
    if len(content) != length or zlib.crc32(content) != checksum:
        raise _DamagedBlock
    try:
        events = tuple(_decode(zlib.decompressobj().decompress(content, _MAX_BLOCK_BYTES)))
    except (zlib.error, msgspec.DecodeError) as error:
        raise _DamagedBlock from error
    if len(events) != count:
        raise _DamagedBlock
    return events


def scan_file(path: str) -> Iterator[ArchivedEvent]:
    """Yield the events of every undamaged block of a file, for `lore salvage`."""
    with open(path, "rb") as file:
        content = file.read()
    at = content.find(_BLOCK_MAGIC)
    while at >= 0:
        header = content[at : at + _BLOCK_HEADER.size]
        try:
            length = _block_length(header)
            yield from _parse_block(header, content[at + _BLOCK_HEADER.size : at + _BLOCK_HEADER.size + length])
            at = content.find(_BLOCK_MAGIC, at + _BLOCK_HEADER.size + length)
        except _DamagedBlock:
            at = content.find(_BLOCK_MAGIC, at + 1)


# --- writing: inside a write transaction of the log


def archive_events(connection: apsw.Connection, n: int, before: int) -> int:
    """Archive the oldest events before a sequence number, as many as fit into one file; return how many.

    Call it inside a transaction, again and again until it returns 0. The texts must be intact: a checksum that differs raises `Damaged`.
    """
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS archive_{n} (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, file TEXT NOT NULL,"
        " start INTEGER NOT NULL) STRICT"
    )
    [(done,)] = fetch_rows(connection, f"SELECT coalesce(max(last), 0) FROM archive_{n}")
    rows = fetch_rows(
        connection,
        f"SELECT seq, CAST(raw AS BLOB), checksum FROM events_{n} WHERE seq > ? AND seq < ? ORDER BY seq LIMIT {EVENTS_PER_FILE}",
        (done, before),
    )
    if not rows:
        return 0
    for seq, raw, checksum in rows:
        if not raw or (checksum is not None and checksum != sqlite_file.checksum_record(seq, raw)):
            raise Damaged(
                f"{connection.filename}: the event at {to_position(seq)} is not what was written, so nothing more was archived;"
                " run `lore verify`"
            )
    first, last = rows[0][0], rows[-1][0]
    blobs: dict[int, bytes] = {}
    if sqlite_file.has_blobs(connection, n):
        blobs = dict(fetch_rows(connection, f"SELECT seq, packed FROM blobs_{n} WHERE seq BETWEEN ? AND ?", (first, last)))
        connection.execute(f"DELETE FROM blobs_{n} WHERE seq BETWEEN ? AND ?", (first, last))
    _store_blocks(connection, n, [(seq, raw, blobs.get(seq, b"")) for seq, raw, _ in rows])
    # Rows of older versions get their checksum now: from here on it is the only copy of what the text must be.
    connection.executemany(
        f"UPDATE events_{n} SET raw = '', checksum = ? WHERE seq = ?",
        [(sqlite_file.checksum_record(seq, raw), seq) for seq, raw, _ in rows],
    )
    return len(rows)


def remove_gone_events(connection: apsw.Connection, n: int) -> list[str]:
    """Write archives anew without the events that the log no longer has; return the files to delete after the commit."""
    if not has_archive(connection, n):
        return []
    folder, old = archive_folder(connection.filename), list[str]()
    for (name,) in fetch_rows(connection, f"SELECT DISTINCT file FROM archive_{n} ORDER BY file"):
        blocks = fetch_rows(connection, f"SELECT first, last, start FROM archive_{n} WHERE file = ? ORDER BY first", (name,))
        first, last = blocks[0][0], blocks[-1][1]
        present = {seq for (seq,) in fetch_rows(connection, f"SELECT seq FROM events_{n} WHERE seq BETWEEN ? AND ?", (first, last))}
        if int(_file_path(folder, name).split("-")[-2]) == len(present):  # the number of events is part of the name
            continue
        events = [event for _, _, start in blocks for event in _read_block(_file_path(folder, name), start)]
        connection.execute(f"DELETE FROM archive_{n} WHERE file = ?", (name,))
        if kept := [event for event in events if event[0] in present]:
            _store_blocks(connection, n, kept)
        old.append(_file_path(folder, name))
    return old


def _store_blocks(connection: apsw.Connection, n: int, events: Sequence[ArchivedEvent]) -> None:
    """Write a file with these events, durably, and note its blocks."""
    from hashlib import sha256

    content, blocks = bytearray(_FILE_MAGIC), list[tuple[int, int, int]]()
    for at in range(0, len(events), EVENTS_PER_BLOCK):
        part = events[at : at + EVENTS_PER_BLOCK]
        packed = zlib.compress(_encode(part), _COMPRESSION_LEVEL)
        blocks.append((part[0][0], part[-1][0], len(content)))
        content += _BLOCK_HEADER.pack(_BLOCK_MAGIC, len(packed), zlib.crc32(packed), len(part)) + packed
    folder = archive_folder(connection.filename)
    name = f"{n}-{events[0][0]:016}-{len(events)}-{sha256(content).hexdigest()[:16]}.flar"
    os.makedirs(folder, mode=0o700, exist_ok=True)
    _write_durably(os.path.join(folder, name), bytes(content))
    connection.executemany(f"INSERT INTO archive_{n} VALUES (?, ?, ?, ?)", [(first, last, name, start) for first, last, start in blocks])


def copy_files(names: Iterable[str], source: str, target: str) -> None:
    """Copy archive files of the log at `source` beside the one at `target`, durably. Raises `LogError` if one is missing."""
    for name in names:
        old, new = _file_path(archive_folder(source), name), _file_path(archive_folder(target), name)
        if os.path.exists(new) and os.path.getsize(new) == (os.path.getsize(old) if os.path.exists(old) else -1):
            continue
        os.makedirs(archive_folder(target), mode=0o700, exist_ok=True)
        try:
            with open(old, "rb", opener=_open_plain_file) as file:
                content = file.read()
        except FileNotFoundError as error:
            raise LogError(f"{old}: an archive of the log is missing; copy the folder of archives together with the log") from error
        _write_durably(new, content)


def _write_durably(path: str, content: bytes) -> None:
    with open(os.open(f"{path}.part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.part", path)
    handle = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def list_files(connection: apsw.Connection) -> list[str]:
    """Return the names of all archive files that a log needs."""
    tables = fetch_rows(connection, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'archive_[0-9]*'")
    return sorted({file for (table,) in tables for (file,) in fetch_rows(connection, f"SELECT DISTINCT file FROM {table}")})


def delete_unused_files(connection: apsw.Connection) -> None:
    """Delete files that no row names, as a crash may leave them. Call it inside a write transaction: nobody writes files meanwhile."""
    folder = archive_folder(connection.filename)
    if not os.path.isdir(folder):
        return
    needed = set(list_files(connection))
    delete_files(os.path.join(folder, name) for name in os.listdir(folder) if name not in needed)


def delete_files(paths: Iterable[str]) -> None:
    """Delete archive files, and forget what was read of them."""
    for path in paths:
        if path.endswith((".flar", ".flar.part")) and os.path.exists(path):
            os.unlink(path)
    _read_block.cache_clear()


def count_bytes(path: str) -> int:
    """Return the size of all archive files of a log."""
    folder = archive_folder(path)
    return sum(entry.stat().st_size for entry in os.scandir(folder)) if os.path.isdir(folder) else 0
