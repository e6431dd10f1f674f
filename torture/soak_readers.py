"""Ten readers of the live feed in a soak: some stay, some break off and come back, one reads slowly, some want only a part."""

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
COME_BACK = (0.2, 6.0)
SMALL_WINDOW = 8192
_event = re.compile(rb"(?<![^\n])id: (\d+)\n(?:event: [^\n]*\n)?data: ([^\n]*)\n\n")
_id = re.compile(rb'"id":"([^"]+)"')


@dataclass(frozen=True, kw_only=True)
class Taste:
    """What a reader is like."""

    name: str
    scope: str = "town"
    kind: str = ""
    stays: tuple[float, float] | None = None
    """Seconds after which it breaks off; `None`: it never does."""
    is_slow: bool = False


TASTES = (
    Taste(name="all, steady"),
    Taste(name="all, steady too"),
    Taste(name="all, restless", stays=(3, 25)),
    Taste(name="all, restless too", stays=(20, 90)),
    Taste(name="all, slow", is_slow=True),
    Taste(name="an agent", scope="agent:agent-042"),
    Taste(name="a mission", scope="mission:mission-7"),
    Taste(name="a mission, restless", scope="mission:mission-9", stays=(3, 25)),
    Taste(name="fleet.*", kind="fleet.*"),
    Taste(name="tools, restless", kind="tool.*", stays=(5, 40)),
)


class Reader:
    """One of them. `read` goes on until it is told to stop and has come to a position that it is told, too."""

    def __init__(self, taste: Taste, port: int, sent: Mapping[str, float], seed: int) -> None:
        self.taste, self._port, self._sent = taste, port, sent
        self._chance = Random(f"{seed}/{taste.name}")
        self.positions = array("Q")
        self.delays: list[float] = []
        """Milliseconds from the beginning of a request to the delivery of its event, since the last look; of steady readers only."""
        self.returns = -1
        self.is_hurried = False
        """The end is near: nobody breaks off any more, and nobody is slow."""
        self._is_timed = not taste.is_slow and taste.stays is None

    @property
    def last(self) -> int:
        return self.positions[-1] if self.positions else 0

    async def read(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self.returns += 1
            leave_at = monotonic() + self._chance.uniform(*self.taste.stays) if self.taste.stays else float("inf")
            with suppress(OSError, EOFError):  # let go by the server: it comes back as any other
                await self._connected(stop, leave_at)
            await asyncio.sleep(self._chance.uniform(*COME_BACK) if not self.is_hurried else 0.2)

    async def _connected(self, stop: asyncio.Event, leave_at: float) -> None:
        plug = socket.socket()
        if self.taste.is_slow:
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_WINDOW)
        plug.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plug, ("127.0.0.1", self._port))
        reader, writer = await asyncio.open_connection(sock=plug, limit=SMALL_WINDOW if self.taste.is_slow else 1 << 16)
        try:
            writer.write(self._request())
            assert b" 200 " in (head := await reader.readuntil(b"\r\n\r\n")), head
            await self._take(reader, stop, leave_at)
        finally:
            writer.close()

    def _request(self) -> bytes:
        query = urlencode({"scope": self.taste.scope} | ({"kind": self.taste.kind} if self.taste.kind else {}))
        place = f"{self.last:016d}" if self.positions else BEFORE_ALL
        return f"GET /api/stream?{query} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nLast-Event-ID: {place}\r\n\r\n".encode()

    async def _take(self, reader: asyncio.StreamReader, stop: asyncio.Event, leave_at: float) -> None:
        """Chunks of HTTP are taken apart; an event that is there only by half when it breaks off was never seen."""
        text = b""
        while not stop.is_set() and (self.is_hurried or monotonic() < leave_at):
            try:
                async with asyncio.timeout(1.0):
                    line = await reader.readuntil(b"\r\n")
            except TimeoutError:
                continue
            size = int(line, 16)
            text = self._note(text + (await reader.readexactly(size + 2))[:-2])
            if not size:
                return
            if self.taste.is_slow and not self.is_hurried:
                await asyncio.sleep(self._chance.choice((0.02, 0.2, 0.6, 40.0 if self._chance.random() < 0.02 else 0.1)))

    def _note(self, text: bytes) -> bytes:
        now, end = monotonic(), 0
        for found in _event.finditer(text):
            end = found.end()
            self.positions.append(int(found[1]))
            if self._is_timed and (id := _id.search(found[2])) and (began := self._sent.get(id[1].decode())) is not None:
                self.delays.append((now - began) * 1e3)
        return text[end:]
