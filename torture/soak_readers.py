"""Ten readers of the live feed in a soak test: steady ones, ones that reconnect, a slow one, and ones with filters."""

from __future__ import annotations

import asyncio
import re
import socket
from array import array
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from time import monotonic
from urllib.parse import urlencode

BEFORE_ALL = "0" * 16
RECONNECT_SECONDS = (0.2, 6.0)
SMALL_WINDOW = 8192
_event = re.compile(rb"(?<![^\n])id: (\d+)\n(?:event: [^\n]*\n)?data: ([^\n]*)\n\n")
_id = re.compile(rb'"id":"([^"]+)"')


@dataclass(frozen=True, kw_only=True)
class ReaderProfile:
    """What a reader is like."""

    name: str
    scope: str = "town"
    kind: str = ""
    stays: tuple[float, float] | None = None
    """Seconds after which it breaks off; `None`: it never does."""
    is_slow: bool = False


PROFILES = (
    ReaderProfile(name="all, steady"),
    ReaderProfile(name="all, steady too"),
    ReaderProfile(name="all, restless", stays=(3, 25)),
    ReaderProfile(name="all, restless too", stays=(20, 90)),
    ReaderProfile(name="all, slow", is_slow=True),
    ReaderProfile(name="an agent", scope="agent:agent-042"),
    ReaderProfile(name="a mission", scope="mission:mission-7"),
    ReaderProfile(name="a mission, restless", scope="mission:mission-9", stays=(3, 25)),
    ReaderProfile(name="fleet.*", kind="fleet.*"),
    ReaderProfile(name="tools, restless", kind="tool.*", stays=(5, 40)),
)


class Reader:
    """One reader. `read` runs until it gets a stop with a position, and has reached that position."""

    def __init__(self, profile: ReaderProfile, port: int, token: str, sent: Mapping[str, float], seed: int) -> None:
        self.profile, self._port, self._token, self._sent = profile, port, token, sent
        self._rng = Random(f"{seed}/{profile.name}")
        self.positions = array("Q")
        self.delays: list[float] = []
        """Milliseconds from the beginning of a request to the delivery of its event, since the last look; of steady readers only."""
        self.returns = -1
        self.is_hurried = False
        """The end is near: nobody breaks off any more, and nobody is slow."""
        self._is_timed = not profile.is_slow and profile.stays is None

    @property
    def last(self) -> int:
        return self.positions[-1] if self.positions else 0

    async def read(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self.returns += 1
            leave_at = monotonic() + self._rng.uniform(*self.profile.stays) if self.profile.stays else float("inf")
            with suppress(OSError, EOFError):  # let go by the server: it comes back as any other
                await self._read_connected(stop, leave_at)
            await asyncio.sleep(self._rng.uniform(*RECONNECT_SECONDS) if not self.is_hurried else 0.2)

    async def _read_connected(self, stop: asyncio.Event, leave_at: float) -> None:
        sock = socket.socket()
        if self.profile.is_slow:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_WINDOW)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self._port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=SMALL_WINDOW if self.profile.is_slow else 1 << 16)
        try:
            writer.write(self._request())
            assert b" 200 " in (head := await reader.readuntil(b"\r\n\r\n")), head
            await self._read_chunks(reader, stop, leave_at)
        finally:
            writer.close()

    def _request(self) -> bytes:
        query = urlencode({"scope": self.profile.scope} | ({"kind": self.profile.kind} if self.profile.kind else {}))
        place = f"{self.last:016d}" if self.positions else BEFORE_ALL
        head = f"Host: 127.0.0.1:{self._port}\r\nAuthorization: Bearer {self._token}\r\nLast-Event-ID: {place}\r\n"
        return f"GET /api/stream?{query} HTTP/1.1\r\n{head}\r\n".encode()

    async def _read_chunks(self, reader: asyncio.StreamReader, stop: asyncio.Event, leave_at: float) -> None:
        """Chunks of HTTP are taken apart; an event that is there only by half when it breaks off was never seen."""
        text = b""
        while not stop.is_set() and (self.is_hurried or monotonic() < leave_at):
            try:
                async with asyncio.timeout(1.0):
                    line = await reader.readuntil(b"\r\n")
            except TimeoutError:
                continue
            size = int(line, 16)
            text = self._record_events(text + (await reader.readexactly(size + 2))[:-2])
            if not size:
                return
            if self.profile.is_slow and not self.is_hurried:
                await asyncio.sleep(self._rng.choice((0.02, 0.2, 0.6, 40.0 if self._rng.random() < 0.02 else 0.1)))

    def _record_events(self, text: bytes) -> bytes:
        now, end = monotonic(), 0
        for found in _event.finditer(text):
            end = found.end()
            self.positions.append(int(found[1]))
            if self._is_timed and (id := _id.search(found[2])) and (began := self._sent.get(id[1].decode())) is not None:
                self.delays.append((now - began) * 1e3)
        return text[end:]
