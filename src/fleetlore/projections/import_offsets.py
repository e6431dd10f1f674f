"""How far each file of a recording was read into a log, so that the next reading goes on from there.

Kept in the disposable store: whoever starts from the beginning again stores nothing twice and loses only time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256, shake_256
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fleetlore.log.sqlite.file import ask
from fleetlore.projections.store import EventAnchor, ProjectionStore, make_anchor, open_store, raise_anchor

if TYPE_CHECKING:
    import apsw

    from fleetlore.log.recorder import BlockingRecorder


# --- What a reader keeps in mind of a file, kept so that only who has the file can read it.

MAX_KEY_BYTES = 64 * 1024


def xor_reader_state(path: str, offset: int, mind: bytes) -> bytes:
    """The bytes made unreadable, or readable again; `OSError` where the file cannot be read."""
    with open(path, "rb") as file:
        file.seek(max(0, offset - MAX_KEY_BYTES))
        key = file.read(min(offset, MAX_KEY_BYTES))
    stream = shake_256(b"%d\0%b" % (offset, key)).digest(len(mind))
    return (int.from_bytes(mind) ^ int.from_bytes(stream)).to_bytes(len(mind))


def hash_path(path: str) -> str:
    """By which a file is found again, without saying where it lies."""
    return sha256(path.encode(errors="surrogateescape")).hexdigest()


# ---


class ImportOffset(Struct, frozen=True, kw_only=True):
    """Where reading one file came to its end."""

    offset: int
    """In bytes: behind the last whole line."""
    lines: int
    head: str
    """A hash of how the file begins and of what stands before the offset, by which it is known again."""
    mind: bytes
    """What the reader keeps in mind there."""
    finished: bool = False
    """Nothing was being written to the file any more, and what its last records held back is in the log."""


def load_offsets(log: BlockingRecorder, paths: Iterable[str]) -> dict[str, ImportOffset]:
    """Where files were left that this log has read before."""
    store = open_store(log.info())
    if store is None:
        return {}
    with store:
        return {path: place for path in paths if (place := _load_offset(store, path))} if store.sync_with_log(log).holds else {}


def _load_offset(store: ProjectionStore, path: str) -> ImportOffset | None:
    rows: list[Any] = store.run_read(lambda connection: ask(connection, "SELECT place FROM tapes WHERE path = ?", (hash_path(path),)), [])
    try:
        place = msgspec.json.decode(rows[0][0], type=ImportOffset) if rows else None
        return place and replace(place, mind=xor_reader_state(path, place.offset, place.mind))
    except (msgspec.DecodeError, OSError):
        return None


def _encode_offsets(places: Mapping[str, ImportOffset]) -> Iterator[tuple[str, bytes]]:
    for path, place in places.items():
        with suppress(OSError):  # a file that is gone meanwhile will not grow
            yield hash_path(path), msgspec.json.encode(replace(place, mind=xor_reader_state(path, place.offset, place.mind)))


def save_offsets(log: BlockingRecorder, places: Mapping[str, ImportOffset]) -> None:
    """Remember where files were left; all that they told up to there is in the log."""
    newest, store = next(log.read(newest_first=True, limit=1), None), open_store(log.info())
    if store is None:
        return
    with store:
        store.sync_with_log(log)
        if newest is not None:
            _store_offsets(store, make_anchor(log, newest), places)


def _store_offsets(store: ProjectionStore, anchor: EventAnchor, places: Mapping[str, ImportOffset]) -> None:

    def work(connection: apsw.Connection) -> None:
        connection.executemany("INSERT OR REPLACE INTO tapes VALUES (?, ?)", list(_encode_offsets(places)))
        # A log that was put back to an older state is noticed by this event, and everything here is then dropped.
        raise_anchor(connection, anchor)

    store.run_write(work, None)
