"""Bytes cut into lines: numbered, counted, and never longer than memory allows."""

from __future__ import annotations

from array import array
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections.abc import Iterable, Iterator
from hashlib import blake2b, sha256
from itertools import chain
from typing import NamedTuple

LONGEST_LINE = 16 * 1024 * 1024
SAMPLE_BYTES = 2048
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SourceLine(NamedTuple):
    """One record as it stood in its source, without its end of line."""

    source: str
    n: int
    """From one; empty lines count."""
    raw: bytes
    """Of a line that is too long only the beginning and a digest of the whole."""
    nth: int
    """How often the same bytes came before in the same source."""
    size: int
    path: str = ""
    """Where the source is on this machine, for messages about a line that was rejected; it is stored nowhere."""

    @property
    def too_long(self) -> bool:
        """Whether `raw` is not all of it."""
        return self.size > LONGEST_LINE


def detect_utf16(beginning: bytes) -> str | None:
    """The encoding of a source that writes two bytes a character, as some shells do; `None` for any other."""
    if beginning.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "utf-16"
    return "utf-16-le" if beginning.startswith(b"{\0") else "utf-16-be" if beginning.startswith(b"\0{") else None


def convert_to_utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same text in the encoding that all else expects."""
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


def split_lines(source: str, chunks: Iterable[bytes]) -> Iterator[SourceLine]:
    """The lines of a source that have something in them; the last may lack its end."""
    splitter = LineSplitter(source)
    for chunk in chunks:
        yield from splitter.feed(chunk)
    yield from splitter.flush()


class LineSplitter:
    """Cuts what it is fed into lines; a byte order mark and carriage returns are left out. `counting`: how often each came before."""

    def __init__(self, source: str, *, n: int = 0, counting: bool = True) -> None:
        self._source = source
        self._n = n
        self.consumed = 0
        """Bytes of all lines that have ended, with their ends."""
        self._partial_line = bytearray()
        self._size = 0
        self._digest = sha256()
        self._occurrences = _OccurrenceCounter() if counting else None

    @property
    def n(self) -> int:
        """How many lines have ended."""
        return self._n

    def feed(self, chunk: bytes) -> Iterator[SourceLine]:
        """The lines that end in this chunk."""
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
        """The line that is held back, if it has something in it; a new one begins."""
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
    """How often each line came before, at some 16 bytes a line. Two lines in 2⁶⁴ may be taken for one, the same two every time."""

    def __init__(self) -> None:
        self._marks = array("Q", bytes(8 * 1024))
        self._used = 0
        self._again: dict[int, int] = {}

    def count(self, raw: bytes) -> int:
        """How often these bytes were counted before."""
        mark = int.from_bytes(blake2b(raw, digest_size=8).digest(), "big") or 1
        if self._add(mark):
            self._used += 1
            if self._used * 3 > len(self._marks) * 2:
                self._grow()
            return 0
        self._again[mark] = self._again.get(mark, 0) + 1
        return self._again[mark]

    def _add(self, mark: int) -> bool:
        marks, last = self._marks, len(self._marks) - 1
        place = mark & last
        while found := marks[place]:
            if found == mark:
                return False
            place = (place + 1) & last
        marks[place] = mark
        return True

    def _grow(self) -> None:
        old, self._marks = self._marks, array("Q", bytes(16 * len(self._marks)))
        for mark in old:
            if mark:
                self._add(mark)
