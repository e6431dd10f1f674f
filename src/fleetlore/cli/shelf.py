"""Arcs of a telling, kept in memory as long as they are few, then in a temporary file that nobody else can read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from tempfile import SpooledTemporaryFile
from types import TracebackType

import msgspec

from fleetlore.chronicle.arcs import Arc

MOST_BYTES_IN_MEMORY = 4 << 20


class SpoolingShelf(AbstractContextManager["SpoolingShelf"]):
    """Keeps any number of arcs in the order of their coming."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(MOST_BYTES_IN_MEMORY)  # noqa: SIM115  # closed by __exit__
        self._encoder, self._decoder = msgspec.json.Encoder(), msgspec.json.Decoder(Arc)
        self._is_at_end = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()

    def append(self, arc: Arc, /) -> None:
        """One more."""
        if not self._is_at_end:
            self._file.seek(0, 2)
            self._is_at_end = True
        self._file.write(self._encoder.encode(arc) + b"\n")

    def __iter__(self) -> Iterator[Arc]:
        self._file.seek(0)
        self._is_at_end = False
        for line in self._file:
            yield self._decoder.decode(line)
