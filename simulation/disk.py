"""A virtual disk: what was written but not synced can be lost or torn when the power fails; synced bytes can rot."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from random import Random
from typing import Any
from zlib import crc32

_HEADER_BYTES = 8


class VirtualFile:
    """An append-only file of frames, each with its length and checksum, like a write-ahead log or an append-only file."""

    def __init__(self) -> None:
        self._synced = bytearray()
        self._unsynced: list[bytes] = []
        self.lost_writes = 0

    def write(self, entry: Any) -> None:
        """Write an entry; it is in the page cache until `sync`."""
        body = pickle.dumps(entry, protocol=5)
        self._unsynced.append(len(body).to_bytes(4, "big") + crc32(body).to_bytes(4, "big") + body)

    def sync(self) -> None:
        """Make everything durable that was written."""
        for frame in self._unsynced:
            self._synced += frame
        self._unsynced.clear()

    @property
    def unsynced_count(self) -> int:
        """Entries that a power cut can lose."""
        return len(self._unsynced)

    @property
    def entry_count(self) -> int:
        """Entries that are intact."""
        return sum(1 for _ in self._find_frames()) + len(self._unsynced)

    def lose_power(self, rng: Random) -> None:
        """Keep what was synced. Of the rest the disk has written some blocks, in any order, one of them perhaps only in part."""
        for frame in self._unsynced:
            match rng.randrange(3):
                case 0:
                    self._synced += frame
                case 1:
                    written = rng.randrange(len(frame))
                    self._synced += frame[:written] + bytes(len(frame) - written)
                    self.lost_writes += 1
                case _:
                    self._synced += bytes(len(frame))  # the file grew, the block was not written
                    self.lost_writes += 1
        self._unsynced.clear()
        self._cut_damaged_end()

    def read_entries(self) -> Iterator[Any]:
        """Yield the entries up to the first that is torn or damaged."""
        for start, end in self._find_frames():
            yield pickle.loads(bytes(self._synced[start + _HEADER_BYTES : end]))
        for frame in self._unsynced:
            yield pickle.loads(frame[_HEADER_BYTES:])

    def _find_frames(self) -> Iterator[tuple[int, int]]:
        start = 0
        while start + _HEADER_BYTES <= len(self._synced):
            size = int.from_bytes(self._synced[start : start + 4], "big")
            end = start + _HEADER_BYTES + size
            body = bytes(self._synced[start + _HEADER_BYTES : end])
            if not size or end > len(self._synced) or crc32(body) != int.from_bytes(self._synced[start + 4 : start + 8], "big"):
                return
            yield start, end
            start = end

    def _cut_damaged_end(self) -> None:
        """Recovery ends at the first damaged frame, and new frames are written there."""
        end = 0
        for _, end in self._find_frames():  # noqa: B007 - the last one is wanted
            pass
        del self._synced[end:]
