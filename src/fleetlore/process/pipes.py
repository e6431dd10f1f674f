"""What a program writes, taken in bounded pieces: lines of its output, the tail of its complaints; and what it is given to read."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from typing import IO, NamedTuple

READ_BYTES = 65_536
"""Bytes that are read at once: what a pipe holds."""

MAX_PIPE_BYTES = 1_048_576
"""Bytes that a pipe can be made to hold."""

TAIL_BYTES = 4096
"""Bytes of stderr that are kept."""

# Colours and cursors, titles and links; then every control character but tab and newline.
_ESCAPE_SEQUENCES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]")
_CONTROL_CHARS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class OutputLine(NamedTuple):
    """One line of output, without its newline."""

    text: bytes
    is_cut: bool = False
    """Whether it was longer than is kept; this is its beginning."""


class LineBuffer:
    """Cuts what comes, in pieces of any size, into lines; holds no more than the longest that is kept."""

    def __init__(self, longest: int) -> None:
        self._max_bytes = longest
        self._partial_line = bytearray()
        self._is_cut = False

    def feed(self, piece: bytes) -> Iterator[OutputLine]:
        """The lines that are complete with this piece."""
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            yield self._complete_line(piece[start:end])
            start = end + 1
        self._append_partial(piece[start:])

    def flush(self) -> Iterator[OutputLine]:
        """What came last, without a newline."""
        if self._partial_line or self._is_cut:
            yield self._complete_line(b"")

    def _append_partial(self, part: bytes) -> None:
        room = self._max_bytes - len(self._partial_line)
        self._partial_line += part[:room]
        self._is_cut = self._is_cut or len(part) > room

    def _complete_line(self, end: bytes) -> OutputLine:
        self._append_partial(end)
        line = OutputLine(bytes(self._partial_line), self._is_cut)
        self._partial_line, self._is_cut = bytearray(), False
        return line


class TailBuffer:
    """The end of what came."""

    def __init__(self, most: int = TAIL_BYTES) -> None:
        self._max_bytes = most
        self._kept = bytearray()

    def feed(self, piece: bytes) -> None:
        """Keeps the end of it all; what is too much goes now and then, so that many short pieces cost little each."""
        self._kept += piece[-self._max_bytes :]
        if len(self._kept) > 2 * self._max_bytes:
            del self._kept[: -self._max_bytes]

    def text(self) -> str:
        """As people read it: no colours, no control characters."""
        return clean_output(bytes(self._kept[-self._max_bytes :])).strip()


def clean_output(raw: bytes) -> str:
    """Text without colours and control characters; what is no UTF-8 is replaced, and half a character at the beginning left out."""
    start = next((at for at in range(min(4, len(raw))) if raw[at] & 0xC0 != 0x80), 0)
    text = raw[start:].decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL_CHARS.sub("", _ESCAPE_SEQUENCES.sub("", text))


class PipeReader:
    """The end of a pipe that a program writes to. One reads at a time."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._bytes_left: int | None = None
        self._wake: asyncio.Future[None] | None = None
        os.set_blocking(pipe.fileno(), False)

    async def read(self) -> bytes:
        """What is there, as soon as anything is; nothing at the end."""
        while (piece := self._read_available()) is None:
            self._wake = asyncio.get_running_loop().create_future()
            await wait_ready(self._pipe.fileno(), wake=self._wake)
        return piece

    def _read_available(self) -> bytes | None:
        """What is there at this moment: `None` if nothing is yet, nothing at the end."""
        most = READ_BYTES if self._bytes_left is None else min(READ_BYTES, self._bytes_left)
        try:
            piece = os.read(self._pipe.fileno(), most)
        except BlockingIOError:
            return None if self._bytes_left is None else b""
        if self._bytes_left is not None:
            self._bytes_left -= len(piece)
        return piece

    def stop_waiting(self) -> None:
        """From now on only what is in the pipe is read: whoever still holds its other end is not waited for."""
        self._bytes_left = MAX_PIPE_BYTES
        if self._wake and not self._wake.done():
            self._wake.set_result(None)


async def write_pipe(pipe: IO[bytes], content: bytes) -> None:
    """Writes all of it, without holding anything else up, and closes the pipe; a program need not read it."""
    fd, left = pipe.fileno(), memoryview(content)
    os.set_blocking(fd, False)
    try:
        while left:
            try:
                left = left[os.write(fd, left[:READ_BYTES]) :]
            except BlockingIOError:
                await wait_ready(fd, writing=True)
    except BrokenPipeError:
        return
    finally:
        pipe.close()


async def wait_ready(fd: int, *, writing: bool = False, wake: asyncio.Future[None] | None = None) -> None:
    """Waits until it can be read from, or written to; or until it is woken."""
    loop = asyncio.get_running_loop()
    is_ready = wake or loop.create_future()
    add, remove = (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)
    add(fd, lambda: None if is_ready.done() else is_ready.set_result(None))
    try:
        await is_ready
    finally:
        remove(fd)
