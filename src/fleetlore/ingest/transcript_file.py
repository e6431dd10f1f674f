"""Reads one transcript file, from the beginning or from where the last import ended.

The file is open only while a chunk is read, so thousands can be merged at once. Files compressed with zstd, as some
programs do after a week, are decompressed on the fly.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from fleetlore import clock
from fleetlore.dialects.recording import QUIET, Recording
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event
from fleetlore.ingest import zstd
from fleetlore.ingest.batch_writer import ImportItem, make_rejection
from fleetlore.ingest.lines import LONGEST_LINE, LineSplitter, SourceLine, convert_to_utf8, detect_utf16, split_objects
from fleetlore.projections.import_offsets import ImportOffset

if TYPE_CHECKING:
    from fleetlore.dialects.recording import RecordReader


# --- Files with JSON over many lines: one document, or an array of documents.

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_documents(path: str, name: str) -> list[SourceLine] | None:
    """The documents of a file; `None` if it has one per line, or is not JSON."""
    with open(path, "rb") as file:
        raw = file.read(LONGEST_LINE + 1).removeprefix(_BYTE_ORDER_MARK)
    first = raw.lstrip().partition(b"\n")[0]
    if len(raw) > LONGEST_LINE or (first.startswith(b"{") and _is_json(first)):
        return None
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    parts = [msgspec.json.encode(part) for part in value] if isinstance(value, list) else [raw]
    return [SourceLine(name, n, part, 0, len(part)) for n, part in enumerate(parts, 1)]


def _is_json(raw: bytes) -> bool:
    try:
        msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


# --- Read a transcript.

CHUNK = 256 * 1024
HEAD_BYTES = 256
"""This many bytes identify a file."""
_DECOMPRESSORS = {b"\x1f\x8b": "zcat", b"\xfd7zXZ": "xzcat", b"BZh91AY&SY": "bzcat"}
"""First bytes of unsupported compression formats, and the command that unpacks them."""


class TranscriptFile:
    """Reads a file of records. `live`: the file may still grow, so an incomplete last line waits."""

    def __init__(self, path: str, recording: Recording, *, import_offset: ImportOffset | None = None, live: bool = False) -> None:
        self.path, self._recording, self._live = path, recording, live
        # A rollout that is compressed later keeps its name, so that a rejected line is not rejected again.
        self.name = os.path.basename(path).removesuffix(zstd.SUFFIX).encode(errors="replace").decode()
        status = os.stat(path)
        self.modified = datetime.fromtimestamp(status.st_mtime, UTC)
        self.size = status.st_size
        self._chunk_bytes = CHUNK
        self._read_error: str | None = None
        self._beginning = self._read_beginning()
        self._is_compressed = path.endswith(zstd.SUFFIX) or self._beginning.startswith(zstd.MAGIC)
        self._resume_offset = import_offset if import_offset is not None and self._can_resume_at(import_offset) else None
        self.import_offset: ImportOffset | None = self._resume_offset
        """Where the import ended, once all items were read."""
        self.is_finished = not live
        """Whether events held back for later lines are stored now. If those lines come after all, they replace them."""

    def _read_beginning(self) -> bytes:
        try:
            return _read_at(self.path, 0, HEAD_BYTES)
        except OSError as error:  # no permission
            self._read_error = error.strerror or str(error)
            return b""

    def _can_resume_at(self, import_offset: ImportOffset) -> bool:
        """Whether this is the same file, and the saved reader state can still be decoded.

        A compressed file is read completely or not at all: nobody appends to it.
        """
        if import_offset.offset > self.size or self._read_error or import_offset.head != self._compute_fingerprint(import_offset.offset):
            return False
        if self._is_compressed and import_offset.offset < self.size:
            return False
        try:
            self._recording.open(import_offset.mind)
        except msgspec.DecodeError:  # saved by another version
            return False
        return True

    def _compute_fingerprint(self, offset: int) -> str:
        """Identifies a file by its first line and the bytes before `offset`."""
        # Only the first line: a file that has just been started is the same after it has grown.
        begin = max(0, offset - HEAD_BYTES)
        return sha256(self._beginning.partition(b"\n")[0] + _read_at(self.path, begin, offset - begin)).hexdigest()[:16]

    @property
    def remaining_bytes(self) -> int:
        """Bytes left to read; not 0 for an unreadable file, which has to be reported."""
        if self._read_error is not None or (self._is_compressed and not self.size):
            return 1
        return self.size - (self._resume_offset.offset if self._resume_offset else 0)

    @property
    def was_finished(self) -> bool:
        """Whether the file was read to its end after the last change, with all held-back events stored."""
        return self._resume_offset is None or self._resume_offset.finished

    def read_items(self, *, on_read: Callable[[int], None] = lambda size: None, piece: int | None = None) -> Iterator[ImportItem]:
        """Yield one item per line, reading `piece` bytes at a time; held-back events come with the last item.

        A file that cannot be read to its end yields one more item, a rejection.
        """
        if reason := _explain_compressed(self._beginning):
            yield self._make_rejection(SourceLine(self.name, 1, self._beginning, 0, self.size), reason)
            return
        self._read_error = None
        start = None if self._is_compressed else self._resume_offset
        reader = self._recording.open(start.mind if start else None)
        if start is None:
            _read_metadata_file(self.path, reader)
        if (record := self._recording.read_path(self.path)) is not None:
            reader.read(record)
        offset, lines = (start.offset, start.lines) if start else (0, 0)
        reader_state: bytes | None = None
        pending: ImportItem | None = None
        self._chunk_bytes = piece or CHUNK
        for line, size in self._read_lines(LineSplitter(self.name, n=lines, counting=False), offset, on_read):
            if pending is not None:
                yield pending
            if size == 0 and reader_state is None:
                reader_state = reader.save()  # without a line break, it is read again if the file grows
            pending = self._make_item(line, reader)
            offset, lines = offset + size, line.n if size else lines
        if not self.is_finished:
            pending = self._add_events(pending, reader.flush_complete())
            reader_state = reader.save()
        else:
            reader_state = reader_state or reader.save()  # what `end` returns is not remembered: the file may still grow
            pending = pending or ImportItem(SourceLine(self.name, lines, b"", 0, 0), ())
            pending = self._add_events(pending, reader.end(clock.now()))
        if pending is not None and (pending.events or pending.line.size or pending.rejected):
            yield pending
        if self._read_error is not None:
            yield self._make_rejection(SourceLine(self.name, lines + 1, b"", 0, 0), f"cannot be read: {self._read_error}")
        else:
            self._save_offset(self.size if self._is_compressed else offset, lines, reader_state)

    def _save_offset(self, offset: int, lines: int, reader_state: bytes) -> None:
        if detect_utf16(self._beginning) is not None:  # offsets in the file differ from those in the converted text
            return
        with suppress(OSError):
            finished = self.is_finished and clock.now() - self.modified >= QUIET
            self.import_offset = ImportOffset(
                offset=offset, lines=lines, head=self._compute_fingerprint(offset), mind=reader_state, finished=finished
            )

    def _add_events(self, item: ImportItem | None, events: list[Event]) -> ImportItem | None:
        return None if item is None else item._replace(events=item.events + tuple(self._set_origin(event, item.line) for event in events))

    def _read_lines(self, splitter: LineSplitter, offset: int, on_read: Callable[[int], None]) -> Iterator[tuple[SourceLine, int]]:
        """Yield each line, and the number of bytes consumed by it and the empty ones before it."""
        may_be_document = self._recording.whole_files and offset == 0 and not self._is_compressed
        if may_be_document and (documents := read_documents(self.path, self.name)) is not None:
            on_read(self.size)
            yield from ((line, self.size if index == 0 else 0) for index, line in enumerate(documents))
            return
        consumed = 0
        chunks = self._read_decompressed(on_read) if self._is_compressed else self._read_chunks(offset, on_read)
        for chunk in chunks if offset else convert_to_utf8(chunks):
            for line in splitter.feed(chunk):
                yield line, splitter.consumed - consumed
                consumed = splitter.consumed
        if not self._live and self._read_error is None:
            yield from ((line, 0) for line in splitter.flush())

    def _read_chunks(self, offset: int, on_read: Callable[[int], None]) -> Iterator[bytes]:
        while chunk := self._read_at(offset):
            offset += len(chunk)
            yield chunk
            on_read(len(chunk))

    def _read_decompressed(self, on_read: Callable[[int], None]) -> Iterator[bytes]:
        try:
            yield from zstd.decompress_zstd(self._read_chunks(0, on_read))
        except zstd.DamagedZstd as error:
            self._read_error = self._read_error or str(error)

    def _read_at(self, offset: int) -> bytes:
        try:
            return _read_at(self.path, offset, self._chunk_bytes)
        except OSError as error:  # removed a moment ago
            self._read_error = error.strerror or str(error)
            return b""

    def _make_item(self, line: SourceLine, reader: RecordReader) -> ImportItem:
        if line.too_long:
            return self._make_rejection(line, f"longer than {LONGEST_LINE} bytes")
        # After a power failure, zero bytes may precede what was written next.
        raw = line.raw.lstrip(b"\0")
        try:
            try:
                events = reader.read(raw)
            except DialectError:
                if not (objects := split_objects(raw)):
                    raise
                events = [event for each in objects for event in reader.read(each)]
        except Exception as error:  # noqa: BLE001  # an unexpected record must not block the others
            reason = str(error) if isinstance(error, DialectError) else f"not foreseen: {type(error).__name__}: {error}"
            return self._make_rejection(line, reason)
        return ImportItem(line, tuple(self._set_origin(event, line) for event in events))

    def _make_rejection(self, line: SourceLine, reason: str) -> ImportItem:
        return make_rejection(line._replace(path=self.path), reason, dialect=self._recording.name, at=None)

    def _set_origin(self, event: Event, line: SourceLine) -> Event:
        return event if event.origin is None else replace(event, origin=replace(event.origin, source=line.source, n=line.n))


def _read_at(path: str, offset: int, size: int) -> bytes:
    with open(path, "rb", buffering=0) as file:
        file.seek(offset)
        return file.read(size)


def _explain_compressed(beginning: bytes) -> str | None:
    """What to do about a compressed file."""
    unpack = next((unpack for magic, unpack in _DECOMPRESSORS.items() if beginning.startswith(magic)), None)
    return f"it is compressed; unpack it first, as in {unpack} FILE | lore import DIALECT -" if unpack else None


def _read_metadata_file(path: str, reader: RecordReader) -> None:
    """Read the `.meta.json` file next to a transcript."""
    metadata_path = f"{path.removesuffix(zstd.SUFFIX).removesuffix('.jsonl')}.meta.json"
    try:
        with open(metadata_path, "rb") as file:
            reader.read(file.read(LONGEST_LINE))
    except (OSError, DialectError):
        return
