"""A process of its own that watches streams of server-sent events, a given number at a time, as cheaply as it can.

`python -m benchmarks.server_clients`: one JSON command a line on standard input, one JSON answer a line on standard output.

- `["token", port, secret]` gives the token that the server at this port needs;
- `["open", group, port, count]` opens that many streams, and answers when each has been greeted;
- `["stall", group, port]` opens one more that never reads again, and whose window is small;
- `["timed", group, yes]` says whether to look for a `sent` in events;
- `["await", group, frames]` answers when each has got that many events since it was last asked: when the last one came, in
  nanoseconds of the monotonic clock, and the microseconds that events with a `sent` in them took;
- `["unstall", group]` ends those that never read;
- `["restless", port, count, times, last]` opens streams that break their connection `times` altogether and come back with
  `Last-Event-ID`; `["finish"]` answers when each has got the position `last`: how many events were missing, and came twice;
- `["close", group]` ends them.

Events are counted by how each begins, without looking at what is in them.
"""

from __future__ import annotations

import asyncio
import re
import resource
import socket
import sys
from asyncio import Future, Transport
from collections import defaultdict
from random import Random
from time import monotonic_ns
from typing import Any, cast

import msgspec
import uvloop

GREETING = b"event: hello"
BEGINNING = b"\nid: "
_LONGEST = len(BEGINNING) - 1
_REQUEST = "GET /api/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n{}\r\n"
_tokens: dict[int, str] = {}
_sent = re.compile(rb'"sent":(\d+)')
_id = re.compile(rb"(?:^|\n)id: (\d+)\n")
_SMALL_WINDOW = 4096


def request_to(transport: Transport, resume: str = "") -> bytes:
    """The request for a stream, with the token of the server that it goes to."""
    secret = _tokens.get(transport.get_extra_info("peername")[1])
    return _REQUEST.format((f"Authorization: Bearer {secret}\r\n" if secret else "") + resume).encode()


class Watcher(asyncio.BufferedProtocol):
    """One stream whose events are counted. All share one buffer: nothing is kept."""

    buffer = bytearray(1 << 20)

    def __init__(self, group: Group) -> None:
        self._group = group
        self._greeted = False
        self._end = bytearray()
        self.seen = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(Transport, transport)
        self.transport.write(request_to(self.transport))

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        buffer = self.buffer
        if not self._greeted:
            self._greet(bytes(buffer[:nbytes]))
            return
        # What lies across two reads is in neither of them whole.
        self.seen += buffer.count(BEGINNING, 0, nbytes) + (self._end + buffer[: min(nbytes, _LONGEST)]).count(BEGINNING)
        self._end = (self._end + buffer[max(0, nbytes - _LONGEST) : nbytes])[-_LONGEST:]
        if self._group.is_timed:
            now = monotonic_ns()
            self._group.delays += [(now - int(sent)) / 1000 for sent in _sent.findall(buffer, 0, nbytes)]
        if self.seen >= self._group.wanted:
            self._group.has_all(self)

    def _greet(self, data: bytes) -> None:
        if GREETING in data:
            self._greeted = True
            self._group.greeted()


class Group:
    """Streams that are measured together."""

    def __init__(self) -> None:
        self.watchers: list[Watcher] = []
        self.stalled: list[Transport] = []
        self.wanted = sys.maxsize
        self.is_timed = False
        self.delays: list[float] = []
        self._left = 0
        self._done: Future[int] | None = None
        self._greetings: Future[None] | None = None

    async def open(self, port: int, count: int) -> None:
        loop = asyncio.get_running_loop()
        self._left, self._greetings = count, loop.create_future()
        for _ in range(count):
            _, watcher = await loop.create_connection(lambda: Watcher(self), "127.0.0.1", port)
            self.watchers.append(watcher)
        await self._greetings

    def greeted(self) -> None:
        self._left -= 1
        if not self._left and self._greetings is not None:
            self._greetings.set_result(None)

    async def wait(self, frames: int) -> dict[str, Any]:
        self._done = asyncio.get_running_loop().create_future()
        self._left, self.wanted = len(self.watchers), frames
        for watcher in self.watchers:
            if watcher.seen >= frames:
                self.has_all(watcher)
        at = await self._done
        self.wanted, delays, self.delays = sys.maxsize, self.delays, []
        return {"at": at, "delays": delays}

    def has_all(self, watcher: Watcher) -> None:
        watcher.seen -= self.wanted
        self._left -= 1
        if not self._left and self._done is not None:
            self._done.set_result(monotonic_ns())

    async def stall(self, port: int) -> None:
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_WINDOW)
        line.connect(("127.0.0.1", port))
        line.setblocking(False)
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=line)
        transport.write(request_to(transport))
        transport.pause_reading()
        self.stalled.append(transport)

    def unstall(self) -> None:
        for transport in self.stalled:
            transport.abort()
        self.stalled.clear()

    def close(self) -> None:
        self.unstall()
        for watcher in self.watchers:
            watcher.transport.abort()


class Restless(asyncio.Protocol):
    """One stream that breaks its connection now and then, and looks at every position that it is given."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._rest = b""
        self._last: int | None = None
        self._width = 0
        self._until_break = crowd.rng.randrange(1, 40)

    async def connect(self) -> None:
        await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", self._crowd.port)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(Transport, transport)
        self._rest = b""
        resume = "" if self._last is None else f"Last-Event-ID: {self._last:0{self._width}d}\r\n"
        self._transport.write(request_to(self._transport, resume))

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        *whole, self._rest = data.split(b"\n\n")
        for frame in whole:
            self._crowd.greeted(frame)
            if (match := _id.search(frame)) and not self._transport.is_closing():
                self._take(match[1])

    def _take(self, position: bytes) -> None:
        number = int(position)
        if self._last is not None:
            self._crowd.missing += max(0, number - self._last - 1)
            self._crowd.doubled += number <= self._last
        self._last, self._width = number, len(position)
        if number == self._crowd.last:
            self._crowd.finished()
        self._until_break -= 1
        if self._until_break <= 0 and self._crowd.may_break():
            self._until_break = self._crowd.rng.randrange(1, 40)
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._crowd.is_over:
            self._crowd.spawn(self.connect())


class Crowd:
    """Streams that do not last."""

    def __init__(self, port: int, count: int, times: int, last: int) -> None:
        self.port, self.last = port, last
        self.missing = self.doubled = self.broken = 0
        self.is_over = False
        self.rng = Random(7)
        self._times = times
        self._greetings = self._unfinished = count
        self._tasks: set[asyncio.Task[None]] = set()
        self._all_greeted: Future[None] = asyncio.get_running_loop().create_future()
        self._all_finished: Future[None] = asyncio.get_running_loop().create_future()
        self._watchers = [Restless(self) for _ in range(count)]

    async def open(self) -> None:
        for watcher in self._watchers:
            await watcher.connect()
        await self._all_greeted

    async def wait(self) -> dict[str, int]:
        await self._all_finished
        self.is_over = True
        return {"missing": self.missing, "doubled": self.doubled, "broken": self.broken}

    def spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def greeted(self, frame: bytes) -> None:
        if self._greetings and GREETING in frame:
            self._greetings -= 1
            if not self._greetings:
                self._all_greeted.set_result(None)

    def may_break(self) -> bool:
        if self.broken == self._times:
            return False
        self.broken += 1
        return True

    def finished(self) -> None:
        self._unfinished -= 1
        if not self._unfinished:
            self._all_finished.set_result(None)


async def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    groups: defaultdict[str, Group] = defaultdict(Group)
    crowd: Crowd | None = None
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        answer: Any = None
        match msgspec.json.decode(line):
            case ["token", int(port), str(secret)]:
                _tokens[port] = secret
            case ["open", str(name), int(port), int(count)]:
                await groups[name].open(port, count)
            case ["stall", str(name), int(port)]:
                await groups[name].stall(port)
            case ["timed", str(name), bool(yes)]:
                groups[name].is_timed = yes
            case ["unstall", str(name)]:
                groups[name].unstall()
            case ["await", str(name), int(frames)]:
                answer = await groups[name].wait(frames)
            case ["restless", int(port), int(count), int(times), int(last)]:
                crowd = Crowd(port, count, times, last)
                await crowd.open()
            case ["finish"]:
                assert crowd is not None
                answer = await crowd.wait()
            case ["close", str(name)]:
                groups.pop(name).close()
        print(msgspec.json.encode(answer).decode(), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
