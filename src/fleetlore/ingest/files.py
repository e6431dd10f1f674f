"""Imports files with one foreign record per line, merged by time.

Each file is read once, and only as far as the merge needs it, so memory does not grow with file size. Ids are derived
from the records: importing a file again stores nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from heapq import merge
from itertools import chain
from stat import S_ISREG
from typing import IO, TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from fleetlore.errors import DialectError, Invalid
from fleetlore.events.envelope import Event
from fleetlore.ingest.batch_writer import ImportItem, make_rejection, set_missing_times
from fleetlore.ingest.lines import LONGEST_LINE, SourceLine, convert_to_utf8, split_lines

if TYPE_CHECKING:
    from fleetlore.dialects.base import Dialect

STDIN = "-"
CHUNK = 256 * 1024
# Records before the first one with a time are buffered up to this many bytes.
MOST_HELD = 4 * 1024 * 1024

ReadCallback = Callable[[int], None]
"""Called with the number of bytes just read."""


class ImportSource(NamedTuple):
    """An open input."""

    name: str
    """The value of `origin.source`: the file name without its folder, so that moving a file changes nothing."""
    file: IO[bytes]
    modified: datetime
    size: int
    """In bytes; 0 if unknown, for example in a pipe."""


class OrderedItem(NamedTuple):
    """An item and its key in the merge: the newest time that its source has reached."""

    reached: datetime
    item: ImportItem

    def sort_key(self) -> tuple[datetime, str, int]:
        """Sort by time, then by source and line."""
        return self.reached, self.item.line.source, self.item.line.n


@contextmanager
def open_sources(paths: Sequence[str]) -> Iterator[list[ImportSource]]:
    """Open all inputs; raises `OSError` before anything is read if one cannot be opened."""
    if paths.count(STDIN) > 1:
        raise Invalid("standard input (-) can be read only once; name it once")
    with ExitStack() as stack:
        # Sorted, so that the order of arguments does not matter for files with the same name.
        yield [_open_source(path, stack) for path in sorted(paths, key=lambda path: (os.path.basename(path), os.path.abspath(path)))]


def _open_source(path: str, stack: ExitStack) -> ImportSource:
    if path == STDIN:
        name, file = "stdin", sys.stdin.buffer
    else:
        name, file = os.path.basename(path), stack.enter_context(open(path, "rb"))  # noqa: SIM115  # closed by the stack
    status = os.stat(file.fileno())
    size = status.st_size if S_ISREG(status.st_mode) else 0
    return ImportSource(name.encode(errors="replace").decode(), file, datetime.fromtimestamp(status.st_mtime, UTC), size)


def read_sources(sources: Iterable[ImportSource], dialect: Dialect, *, on_read: ReadCallback = lambda size: None) -> Iterator[ImportItem]:
    """Yield the items of all sources, merged by time. Within a source, lines keep their order."""
    streams = [order_items(read_source(source, dialect, on_read=on_read), source.modified) for source in sources]
    return (ordered.item for ordered in merge(*streams, key=OrderedItem.sort_key))


def read_source(source: ImportSource, dialect: Dialect, *, on_read: ReadCallback = lambda size: None) -> Iterator[ImportItem]:
    """Yield one item per line, in order; records without a time give events without one."""
    return (_decode_line(line, dialect) for line in split_lines(source.name, convert_to_utf8(_read_chunks(source.file, on_read))))


def _read_chunks(file: IO[bytes], on_read: ReadCallback) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk
        on_read(len(chunk))


def _decode_line(line: SourceLine, dialect: Dialect) -> ImportItem:
    if line.too_long:
        return make_rejection(line, f"longer than {LONGEST_LINE} bytes", dialect=dialect.name, at=None)
    try:
        event = dialect.decode(line.raw, nth=line.nth)
    except DialectError as error:
        return make_rejection(line, str(error), dialect=dialect.name, at=None)
    return ImportItem(line, (_set_origin_line(event, line, dialect.name),))


def _set_origin_line(event: Event, line: SourceLine, dialect: str) -> Event:
    """Set the file and line of a foreign event; an event of ours that was only transported in this dialect is kept."""
    if event.origin is None or event.origin.dialect != dialect:
        return event
    return replace(event, origin=replace(event.origin, source=line.source, n=line.n))


def order_items(items: Iterable[ImportItem], modified: datetime) -> Iterator[OrderedItem]:
    """Give items without a time that of the item before, else of the next, else the file's modification time."""
    items = iter(items)
    lead = _read_until_dated(items)
    last = next((item.newest_time for item in lead if item.newest_time is not None), modified)
    reached = last
    for item in chain(lead, items):
        last = item.newest_time or last
        reached = max(reached, last)
        yield OrderedItem(reached, set_missing_times(item, last))


def _read_until_dated(items: Iterator[ImportItem]) -> list[ImportItem]:
    lead: list[ImportItem] = []
    held = 0
    for item in items:
        lead.append(item)
        held += len(item.line.raw)
        if item.newest_time is not None or held > MOST_HELD:
            break
    return lead
