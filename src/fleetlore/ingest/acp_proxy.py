"""A recording proxy between a client and an agent of the Agent Client Protocol.

Bytes are passed on as they come, unread and unchanged, so unknown methods and `_meta` arrive as they were sent. A copy goes to a bounded
queue, from which another thread stores the events. If the log is slow, full or not there, the copies wait; beyond `MAX_WAITING_BYTES` they
are dropped and counted. The conversation never waits for the log.
"""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from threading import Condition, Thread
from time import monotonic
from typing import NamedTuple

from fleetlore import clock
from fleetlore.dialects.fields import write_time
from fleetlore.dialects.recording import parse_record
from fleetlore.errors import DialectError, FleetloreError
from fleetlore.ingest.batch_writer import BatchWriter, ImportItem
from fleetlore.ingest.lines import LineSplitter, SourceLine
from fleetlore.programs.acp.transcript import AcpReader, open_reader

CHUNK = 64 * 1024
MAX_WAITING_BYTES = 64 * 1024 * 1024
MAX_BATCH_LINES = 200
RETRY_SECONDS = 2.0
END_SECONDS = 3.0
"""How long the events of the last moments may take once the agent has ended."""
SOURCE = "acp"

OpenWriter = Callable[[], AbstractContextManager[BatchWriter]]
"""Opens the log; may fail, and is then tried again."""


class ProxyResult(NamedTuple):
    """How the conversation ended."""

    code: int
    """The agent's exit code; 128 and the signal's number if a signal ended it."""
    dropped: int
    """Bytes of the conversation that are not in the log."""
    error: str
    """Why the log could not be written last; empty if it could."""


class _Piece(NamedTuple):
    sender: str
    at: str
    content: bytes


class ConversationRecorder:
    """Stores what both sides say, in a thread of its own."""

    def __init__(self, open_writer: OpenWriter, *, agent: str) -> None:
        self._open_writer = open_writer
        self._pieces: deque[_Piece] = deque()
        self._waiting_bytes, self._is_over = 0, False
        self._changed = Condition()
        self._reader: AcpReader = open_reader(None, agent=agent)
        self._splitters = {sender: LineSplitter(SOURCE, counting=False) for sender in ("client", "agent")}
        self._items: list[ImportItem] = []
        self._lines = 0
        self.dropped = 0
        self.error = ""
        self._deadline = float("inf")
        self._thread = Thread(target=self._record_all, name="acp-recorder", daemon=True)
        self._thread.start()

    def add_piece(self, sender: str, content: bytes) -> None:
        """Keep a copy, unless too much waits already. Takes microseconds."""
        with self._changed:
            if self._waiting_bytes + len(content) > MAX_WAITING_BYTES:
                self.dropped += len(content)
                return
            self._waiting_bytes += len(content)
            self._pieces.append(_Piece(sender, write_time(clock.now()), content))
            self._changed.notify()

    def finish(self) -> None:
        """Store what waits, for a limited time."""
        with self._changed:
            self._is_over, self._deadline = True, monotonic() + END_SECONDS
            self._changed.notify()
        self._thread.join(END_SECONDS + 1)
        self.dropped += self._waiting_bytes + sum(item.line.size for item in self._items)

    def _record_all(self) -> None:
        while monotonic() < self._deadline and not (self._is_over and not self._pieces and not self._items and self._has_ended):
            try:
                with self._open_writer() as writer:
                    self.error = ""
                    self._write_pieces(writer)
            except (FleetloreError, OSError) as error:
                self.error = str(error)
                with self._changed:
                    self._changed.wait(min(RETRY_SECONDS, max(0.0, self._deadline - monotonic())))

    _has_ended = False

    def _write_pieces(self, writer: BatchWriter) -> None:
        while True:
            if self._items:
                writer.write_batch(self._items)
                self._items = []
            with self._changed:
                while not self._pieces and not self._is_over:
                    self._changed.wait()
                pieces = [self._pieces.popleft() for _ in range(min(len(self._pieces), MAX_BATCH_LINES))]
                self._waiting_bytes -= sum(len(piece.content) for piece in pieces)
            if not pieces:
                self._end_conversation(writer)
                return
            for piece in pieces:
                for line in self._splitters[piece.sender].feed(piece.content):
                    self._read_line(piece.sender, piece.at, line)

    def _end_conversation(self, writer: BatchWriter) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._items = [ImportItem(SourceLine(SOURCE, self._lines + 1, b"", 0, 0), tuple(self._reader.end(clock.now())))]
        if self._items:
            writer.write_batch(self._items)
            self._items = []

    def _read_line(self, sender: str, at: str, line: SourceLine) -> None:
        self._lines += 1
        if line.too_long:
            self.dropped += line.size
            return
        raw = b'{"at":"%b","from":"%b","message":%b}' % (at.encode(), sender.encode(), line.raw)
        with suppress(DialectError):  # not JSON: passed on, and not recorded
            events = tuple(self._reader.read_message(parse_record(line.raw), sender, at, raw))
            if events:
                self._items.append(ImportItem(SourceLine(SOURCE, self._lines, raw, 0, len(raw)), events))


def run_proxy(command: Sequence[str], recorder: ConversationRecorder, *, source: int = 0, target: int = 1) -> ProxyResult:
    """Run the agent between two file descriptors until it ends. Raises `OSError` if it cannot be started."""
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert agent.stdin is not None
    assert agent.stdout is not None
    into, out = agent.stdin, agent.stdout

    def pass_to_agent() -> None:
        with suppress(OSError):  # the agent has ended
            _copy(source, into.fileno(), lambda content: recorder.add_piece("client", content))
        with suppress(OSError):
            into.close()

    Thread(target=pass_to_agent, name="acp-input", daemon=True).start()
    try:
        _copy(out.fileno(), target, lambda content: recorder.add_piece("agent", content))
    except OSError:  # the client has ended
        agent.terminate()
    except KeyboardInterrupt:
        agent.terminate()
    code = agent.wait()
    recorder.finish()
    return ProxyResult(code if code >= 0 else 128 - code, recorder.dropped, recorder.error)


def _copy(source: int, target: int, keep: Callable[[bytes], None]) -> None:
    while content := os.read(source, CHUNK):
        keep(content)  # first, so that no answer is recorded before its question
        left = memoryview(content)
        while left:
            left = left[os.write(target, left) :]
