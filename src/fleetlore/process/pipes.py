"""Pipes of a program with bounded memory: lines of stdout, the end of stderr, and input for stdin."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from typing import IO, NamedTuple

READ_BYTES = 65_536
"""Bytes read at once: the capacity of a pipe."""

MAX_PIPE_BYTES = 1_048_576
"""Capacity that a pipe is set to, in bytes."""

TAIL_BYTES = 4096
"""Bytes of stderr to keep."""

# Escape sequences for colours, cursor, titles and links; then every control character except tab and newline.
_ESCAPE_SEQUENCES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]")
_CONTROL_CHARS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class OutputLine(NamedTuple):
    """One line of output, without its newline."""

    text: bytes
    is_cut: bool = False
    """Whether the line was longer than the limit; this is its beginning."""


class LineBuffer:
    """Splits chunks of any size into lines; holds at most one line of maximum length."""

    def __init__(self, longest: int) -> None:
        self._max_bytes = longest
        self._partial_line = bytearray()
        self._is_cut = False

    def feed(self, piece: bytes) -> Iterator[OutputLine]:
        """Add a chunk; returns the lines that it completes."""
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            yield self._complete_line(piece[start:end])
            start = end + 1
        self._append_partial(piece[start:])

    def flush(self) -> Iterator[OutputLine]:
        """The last line, if it has no newline."""
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
    """Keeps the end of a stream."""

    def __init__(self, most: int = TAIL_BYTES) -> None:
        self._max_bytes = most
        self._kept = bytearray()

    def feed(self, piece: bytes) -> None:
        """Add a chunk. The excess is dropped only now and then, so that many short chunks stay cheap."""
        self._kept += piece[-self._max_bytes :]
        if len(self._kept) > 2 * self._max_bytes:
            del self._kept[: -self._max_bytes]

    def decode_text(self) -> str:
        """The text without escape sequences and control characters."""
        return clean_output(bytes(self._kept[-self._max_bytes :])).strip()


def clean_output(raw: bytes) -> str:
    """Text without escape sequences and control characters. Invalid UTF-8 is replaced; a partial character at the start is dropped."""
    start = next((at for at in range(min(4, len(raw))) if raw[at] & 0xC0 != 0x80), 0)
    text = raw[start:].decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL_CHARS.sub("", _ESCAPE_SEQUENCES.sub("", text))


class PipeReader:
    """Our end of a pipe that a program writes to. One reader at a time."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._bytes_left: int | None = None
        self._wake: asyncio.Future[None] | None = None
        os.set_blocking(pipe.fileno(), False)

    async def read(self) -> bytes:
        """Wait for bytes and return them; empty at the end."""
        while (piece := self._read_available()) is None:
            self._wake = asyncio.get_running_loop().create_future()
            await wait_ready(self._pipe.fileno(), wake=self._wake)
        return piece

    def _read_available(self) -> bytes | None:
        """Return the available bytes without waiting: `None` if there are none yet, empty at the end."""
        most = READ_BYTES if self._bytes_left is None else min(READ_BYTES, self._bytes_left)
        try:
            piece = os.read(self._pipe.fileno(), most)
        except BlockingIOError:
            return None if self._bytes_left is None else b""
        if self._bytes_left is not None:
            self._bytes_left -= len(piece)
        return piece

    def stop_waiting(self) -> None:
        """From now on read only what is in the pipe; do not wait for processes that keep the other end open."""
        self._bytes_left = MAX_PIPE_BYTES
        if self._wake and not self._wake.done():
            self._wake.set_result(None)


async def write_pipe(pipe: IO[bytes], content: bytes) -> None:
    """Write all of it without blocking the loop, then close the pipe. The program may ignore it."""
    os.set_blocking(pipe.fileno(), False)
    try:
        await _write_all(pipe.fileno(), content)
    except BrokenPipeError:
        return
    finally:
        pipe.close()


async def write_inputs(pipe: IO[bytes], inputs: asyncio.Queue[bytes | None]) -> None:
    """Write what comes until `None`, then close the pipe."""
    os.set_blocking(pipe.fileno(), False)
    try:
        while (content := await inputs.get()) is not None:
            await _write_all(pipe.fileno(), content)
    except BrokenPipeError:
        return
    finally:
        pipe.close()


async def _write_all(fd: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        try:
            left = left[os.write(fd, left[:READ_BYTES]) :]
        except BlockingIOError:
            await wait_ready(fd, writing=True)


async def wait_ready(fd: int, *, writing: bool = False, wake: asyncio.Future[None] | None = None) -> None:
    """Wait until the file is readable or writable, or until woken."""
    loop = asyncio.get_running_loop()
    is_ready = wake or loop.create_future()
    add, remove = (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)
    add(fd, lambda: None if is_ready.done() else is_ready.set_result(None))
    try:
        await is_ready
    finally:
        remove(fd)
