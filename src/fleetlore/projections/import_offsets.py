"""Remembers how far each transcript was imported into a log, so that the next import resumes there.

Kept in the disposable store: if it is lost, files are read from the beginning and nothing is stored twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256, shake_256
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fleetlore.log.sqlite.file import fetch_rows
from fleetlore.projections.store import EventAnchor, ProjectionStore, make_anchor, open_store, raise_anchor

if TYPE_CHECKING:
    import apsw

    from fleetlore.log.recorder import BlockingRecorder


# --- Reader state, obfuscated so that only somebody who has the file can read it.

MAX_KEY_BYTES = 64 * 1024


def xor_reader_state(path: str, offset: int, reader_state: bytes) -> bytes:
    """Encrypt or decrypt a reader's state with a key taken from the file; raises `OSError` if the file cannot be read."""
    with open(path, "rb") as file:
        file.seek(max(0, offset - MAX_KEY_BYTES))
        key = file.read(min(offset, MAX_KEY_BYTES))
    stream = shake_256(b"%d\0%b" % (offset, key)).digest(len(reader_state))
    return (int.from_bytes(reader_state) ^ int.from_bytes(stream)).to_bytes(len(reader_state))


def hash_path(path: str) -> str:
    """Key of a file in the store, without revealing its path."""
    return sha256(path.encode(errors="surrogateescape")).hexdigest()


# --- Load and save offsets.


class ImportOffset(Struct, frozen=True, kw_only=True):
    """Where the import of one file ended."""

    offset: int
    """In bytes, after the last complete line."""
    lines: int
    head: str
    """Hash of the first line and the bytes before the offset; identifies the file."""
    mind: bytes
    """The reader's state at the offset."""
    finished: bool = False
    """Whether the file had stopped growing and its held-back events were stored."""


def load_offsets(log: BlockingRecorder, paths: Iterable[str]) -> dict[str, ImportOffset]:
    """Return the offsets of files that this log has imported before."""
    store = open_store(log.info())
    if store is None:
        return {}
    with store:
        return {path: offset for path in paths if (offset := _load_offset(store, path))} if store.sync_with_log(log).holds else {}


def _load_offset(store: ProjectionStore, path: str) -> ImportOffset | None:
    rows: list[Any] = store.run_read(
        lambda connection: fetch_rows(connection, "SELECT place FROM tapes WHERE path = ?", (hash_path(path),)), []
    )
    try:
        offset = msgspec.json.decode(rows[0][0], type=ImportOffset) if rows else None
        return offset and replace(offset, mind=xor_reader_state(path, offset.offset, offset.mind))
    except (msgspec.DecodeError, OSError):
        return None


def _encode_offsets(offsets: Mapping[str, ImportOffset]) -> Iterator[tuple[str, bytes]]:
    for path, offset in offsets.items():
        with suppress(OSError):  # a file that is gone will not grow
            yield hash_path(path), msgspec.json.encode(replace(offset, mind=xor_reader_state(path, offset.offset, offset.mind)))


def save_offsets(log: BlockingRecorder, offsets: Mapping[str, ImportOffset]) -> None:
    """Save offsets. Everything before them must be in the log already."""
    newest, store = next(log.read(newest_first=True, limit=1), None), open_store(log.info())
    if store is None:
        return
    with store:
        store.sync_with_log(log)
        if newest is not None:
            _store_offsets(store, make_anchor(log, newest), offsets)


def _store_offsets(store: ProjectionStore, anchor: EventAnchor, offsets: Mapping[str, ImportOffset]) -> None:

    def write(connection: apsw.Connection) -> None:
        connection.executemany("INSERT OR REPLACE INTO tapes VALUES (?, ?)", list(_encode_offsets(offsets)))
        # If the log is restored to an older state, this event is missing and everything in the store is dropped.
        raise_anchor(connection, anchor)

    store.run_write(write, None)
