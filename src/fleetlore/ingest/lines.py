"""Splits byte streams into numbered lines with bounded memory. Used by all importers of files."""

from __future__ import annotations

from array import array
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections.abc import Iterable, Iterator
from hashlib import blake2b, sha256
from itertools import chain
from json import JSONDecoder
from typing import NamedTuple

LONGEST_LINE = 16 * 1024 * 1024
SAMPLE_BYTES = 2048
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SourceLine(NamedTuple):
    """One record of a source, without its line break."""

    source: str
    n: int
    """Starts at 1; empty lines count."""
    raw: bytes
    """Only the beginning and a digest, if the line is too long."""
    nth: int
    """How often the same bytes occurred before in this source."""
    size: int
    path: str = ""
    """Path of the source on this machine, for messages about rejected lines; never stored."""

    @property
    def too_long(self) -> bool:
        """Whether `raw` is not the whole line."""
        return self.size > LONGEST_LINE


def detect_utf16(beginning: bytes) -> str | None:
    """Return the UTF-16 variant of a source, as some shells write it; `None` for other encodings."""
    if beginning.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "utf-16"
    return "utf-16-le" if beginning.startswith(b"{\0") else "utf-16-be" if beginning.startswith(b"\0{") else None


def convert_to_utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Convert UTF-16 to UTF-8; other input passes unchanged."""
    chunks = iter(chunks)
    first = next(chunks, b"")
    encoding = detect_utf16(first)
    if encoding is None:
        yield first
        yield from chunks
        return
    decoder = getincrementaldecoder(encoding)(errors="replace")
    for chunk in chain((first,), chunks):
        yield decoder.decode(chunk).encode(errors="replace")


def split_objects(raw: bytes) -> list[bytes]:
    """Split a line on which two processes wrote at once, as in `{…}{…}`; empty if it is anything but several whole JSON objects."""
    text, place, objects = raw.decode(errors="replace"), 0, list[bytes]()
    decoder = JSONDecoder()
    while place < len(text):
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict):
            return []
        objects.append(text[place:end].encode(errors="replace"))
        place = end
        while place < len(text) and text[place].isspace():
            place += 1
    return objects if len(objects) > 1 else []


def split_lines(source: str, chunks: Iterable[bytes]) -> Iterator[SourceLine]:
    """Yield the non-empty lines of a source; the last may lack its line break."""
    splitter = LineSplitter(source)
    for chunk in chunks:
        yield from splitter.feed(chunk)
    yield from splitter.flush()


class LineSplitter:
    """Splits chunks into lines; drops a byte order mark and carriage returns.

    `counting` sets `SourceLine.nth`.
    """

    def __init__(self, source: str, *, n: int = 0, counting: bool = True) -> None:
        self._source = source
        self._n = n
        self.consumed = 0
        """Bytes of all complete lines, with their line breaks."""
        self._partial_line = bytearray()
        self._size = 0
        self._digest = sha256()
        self._occurrences = _OccurrenceCounter() if counting else None

    @property
    def n(self) -> int:
        """Number of complete lines so far."""
        return self._n

    def feed(self, chunk: bytes) -> Iterator[SourceLine]:
        """Yield the lines that end in this chunk."""
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            if self._size or len(part) > LONGEST_LINE:
                self._append_partial(part)
                self.consumed += self._size + 1
                yield from self.flush()
                continue
            self.consumed += len(part) + 1
            if (line := self._make_line(part, len(part))) is not None:
                yield line
        self._append_partial(rest)

    def flush(self) -> Iterator[SourceLine]:
        """Yield the incomplete last line, if it is not empty, and reset."""
        raw, size = bytes(self._partial_line), self._size
        if size > LONGEST_LINE:
            raw += self._digest.digest()
        self._partial_line.clear()
        self._size = 0
        if (line := self._make_line(raw, size)) is not None:
            yield line

    def _make_line(self, raw: bytes, size: int) -> SourceLine | None:
        self._n += 1
        if self._n == 1:
            raw = raw.removeprefix(_BYTE_ORDER_MARK)
        raw = raw.removesuffix(b"\r")
        if not raw or raw.isspace():
            return None
        nth = 0 if self._occurrences is None else self._occurrences.count(raw)
        return SourceLine(self._source, self._n, raw, nth, size if size > LONGEST_LINE else len(raw))

    def _append_partial(self, part: bytes) -> None:
        before, self._size = self._size, self._size + len(part)
        if self._size <= LONGEST_LINE:
            self._partial_line += part
            return
        if before <= LONGEST_LINE:
            self._digest = sha256(self._partial_line)
            self._partial_line = (self._partial_line + part[:SAMPLE_BYTES])[:SAMPLE_BYTES]
        self._digest.update(part)


class _OccurrenceCounter:
    """Counts occurrences of lines with about 16 bytes per line.

    Open-addressing hash set of 64-bit hashes. A collision counts two different lines as one, the same way in every
    run.
    """

    def __init__(self) -> None:
        self._table = array("Q", bytes(8 * 1024))
        self._used = 0
        self._repeats: dict[int, int] = {}

    def count(self, raw: bytes) -> int:
        """How often these bytes were counted before."""
        hash = int.from_bytes(blake2b(raw, digest_size=8).digest(), "big") or 1
        if self._add_hash(hash):
            self._used += 1
            if self._used * 3 > len(self._table) * 2:
                self._grow_table()
            return 0
        self._repeats[hash] = self._repeats.get(hash, 0) + 1
        return self._repeats[hash]

    def _add_hash(self, hash: int) -> bool:
        table, mask = self._table, len(self._table) - 1
        slot = hash & mask
        while entry := table[slot]:
            if entry == hash:
                return False
            slot = (slot + 1) & mask
        table[slot] = hash
        return True

    def _grow_table(self) -> None:
        old, self._table = self._table, array("Q", bytes(16 * len(self._table)))
        for hash in old:
            if hash:
                self._add_hash(hash)
