"""Files of foreign records, one a line, taken in together in the order of their times.

Each file is read once, from the front, and only as far as the merge needs it: memory does not grow
with the files. Ids follow from the records, so importing a file again stores nothing.
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
# Records in front of the first that has a time wait for it, up to this many bytes.
MOST_HELD = 4 * 1024 * 1024

ReadCallback = Callable[[int], None]
"""Told how many bytes were just read."""


class ImportSource(NamedTuple):
    """One input, open."""

    name: str
    """What `origin.source` says: the file's name without its folder, so that moving a file changes nothing."""
    file: IO[bytes]
    modified: datetime
    size: int
    """In bytes; 0 where nobody knows, as in a pipe."""


class OrderedItem(NamedTuple):
    """An item and its place in the merge: the newest time that its source had reached by then."""

    reached: datetime
    item: ImportItem

    def sort_key(self) -> tuple[datetime, str, int]:
        """By time, then by source and line."""
        return self.reached, self.item.line.source, self.item.line.n


@contextmanager
def open_sources(paths: Sequence[str]) -> Iterator[list[ImportSource]]:
    """All inputs, or none: one that cannot be opened is an `OSError` before anything was read."""
    if paths.count(STDIN) > 1:
        raise Invalid("standard input (-) can be read only once; name it once")
    with ExitStack() as stack:
        # In an order that does not depend on that of the arguments, for files that bear the same name.
        yield [_open_source(path, stack) for path in sorted(paths, key=lambda path: (os.path.basename(path), os.path.abspath(path)))]


def _open_source(path: str, stack: ExitStack) -> ImportSource:
    if path == STDIN:
        name, file = "stdin", sys.stdin.buffer
    else:
        name, file = os.path.basename(path), stack.enter_context(open(path, "rb"))  # noqa: SIM115  # the stack closes it
    status = os.stat(file.fileno())
    size = status.st_size if S_ISREG(status.st_mode) else 0
    return ImportSource(name.encode(errors="replace").decode(), file, datetime.fromtimestamp(status.st_mtime, UTC), size)


def read_sources(sources: Iterable[ImportSource], dialect: Dialect, *, on_read: ReadCallback = lambda size: None) -> Iterator[ImportItem]:
    """The items of all sources, merged by time. Within a source the order of its lines is kept."""
    streams = [order_items(read_source(source, dialect, on_read=on_read), source.modified) for source in sources]
    return (placed.item for placed in merge(*streams, key=OrderedItem.sort_key))


def read_source(source: ImportSource, dialect: Dialect, *, on_read: ReadCallback = lambda size: None) -> Iterator[ImportItem]:
    """One item a line, in order; a record that tells no time has none."""
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
    """The event with its file and line; one that was ours before, and only travelled in this dialect, stays as it is."""
    if event.origin is None or event.origin.dialect != dialect:
        return event
    return replace(event, origin=replace(event.origin, source=line.source, n=line.n))


def order_items(items: Iterable[ImportItem], modified: datetime) -> Iterator[OrderedItem]:
    """Give each item without a time that of the one before it, else of the next, else the file's own."""
    items = iter(items)
    lead = _read_until_dated(items)
    last = next((item.newest_time for item in lead if item.newest_time is not None), modified)
    reached = last
    for item in chain(lead, items):
        last = item.newest_time or last
        reached = max(reached, last)
        yield OrderedItem(reached, set_missing_times(item, last))


def _read_until_dated(items: Iterator[ImportItem]) -> list[ImportItem]:
    """The items up to the first that has a time."""
    lead: list[ImportItem] = []
    held = 0
    for item in items:
        lead.append(item)
        held += len(item.line.raw)
        if item.newest_time is not None or held > MOST_HELD:
            break
    return lead
