"""One file of a recording, read from its beginning or on from where it was left.

The file is open only while a piece of it is read, so that thousands can be merged at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fleetlore.dialects.recording import Recording
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event
from fleetlore.intake import documents
from fleetlore.intake.deposit import Item, rejection
from fleetlore.intake.lines import LONGEST_LINE, Line, Splitter
from fleetlore.state.tapes import TapePlace

if TYPE_CHECKING:
    from fleetlore.dialects.recording import Reader

CHUNK = 256 * 1024
HEAD = 256
"""So many bytes tell one file from another."""


class Tape:
    """Reads a file of records. `live`: it may still grow, so an unfinished last line waits."""

    def __init__(self, path: str, recording: Recording, *, place: TapePlace | None = None, live: bool = False) -> None:
        self.path, self._recording, self._live = path, recording, live
        self.name = os.path.basename(path).encode(errors="replace").decode()
        status = os.stat(path)
        self.modified = datetime.fromtimestamp(status.st_mtime, UTC)
        self.size = status.st_size
        self._head = _hash_of_head(path)
        self._from = place if place is not None and place.offset <= self.size and place.head == self._head else None
        self.place: TapePlace | None = self._from
        """Where it was left, once all items were taken."""

    @property
    def left(self) -> int:
        """How many bytes there are to read."""
        return self.size - (self._from.offset if self._from else 0)

    def items(self, *, on_read: Callable[[int], None] = lambda size: None) -> Iterator[Item]:
        """One item a line; what the last lines held back comes with the last of them."""
        start = self._from
        reader = self._recording.open(start.mind if start else None)
        if start is None:
            _read_beside(self.path, reader)
        offset, lines = (start.offset, start.lines) if start else (0, 0)
        mind: bytes | None = None
        held: Item | None = None
        for line, size in self._lines(Splitter(self.name, n=lines), offset, on_read):
            if held is not None:
                yield held
            if size == 0 and mind is None:
                mind = reader.save()  # it has no end, and is read again if the file grows
            held = self._item(line, reader)
            offset, lines = offset + size, line.n if size else lines
        if self._live:
            held = self._with(held, reader.settle())
            mind = reader.save()
        else:
            mind = mind or reader.save()  # what the end brings to light is not remembered: the file may grow after all
            held = self._with(held, reader.end())
        if held is not None:
            yield held
        self.place = TapePlace(offset=offset, lines=lines, head=self._head, mind=mind)

    def _with(self, item: Item | None, events: list[Event]) -> Item | None:
        return None if item is None else item._replace(events=item.events + tuple(self._placed(event, item.line) for event in events))

    def _lines(self, splitter: Splitter, offset: int, on_read: Callable[[int], None]) -> Iterator[tuple[Line, int]]:
        """Each line, and how many bytes were used up by it and the empty ones before it."""
        if self._recording.whole_files and offset == 0 and (whole := documents.find(self.path, self.name)) is not None:
            on_read(self.size)
            yield from ((line, self.size if index == 0 else 0) for index, line in enumerate(whole))
            return
        used = 0
        while chunk := _read_at(self.path, offset):
            offset += len(chunk)
            for line in splitter.feed(chunk):
                yield line, splitter.consumed - used
                used = splitter.consumed
            on_read(len(chunk))
        if not self._live:
            yield from ((line, 0) for line in splitter.end())

    def _item(self, line: Line, reader: Reader) -> Item:
        if line.too_long:
            return rejection(line, f"longer than {LONGEST_LINE} bytes", dialect=self._recording.name, at=None)
        try:
            events = reader.read(line.raw)
        except DialectError as error:
            return rejection(line, str(error), dialect=self._recording.name, at=None)
        return Item(line, tuple(self._placed(event, line) for event in events))

    def _placed(self, event: Event, line: Line) -> Event:
        return event if event.origin is None else replace(event, origin=replace(event.origin, source=line.source, n=line.n))


def _read_at(path: str, offset: int) -> bytes:
    with open(path, "rb", buffering=0) as file:
        file.seek(offset)
        return file.read(CHUNK)


def _hash_of_head(path: str) -> str:
    with open(path, "rb", buffering=0) as file:
        # Up to the first line's end: a file that has only begun is still the same when it has grown.
        first, _, _ = file.read(HEAD).partition(b"\n")
    return sha256(first).hexdigest()[:16]


def _read_beside(path: str, reader: Reader) -> None:
    """What a small file beside this one says of it."""
    beside = f"{path.removesuffix('.jsonl')}.meta.json"
    try:
        with open(beside, "rb") as file:
            reader.read(file.read(LONGEST_LINE))
    except (OSError, DialectError):
        return
