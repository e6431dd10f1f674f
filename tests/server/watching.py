"""A server of nothing but the feed, on a free port of the loopback, and clients that read what it sends byte by byte."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from time import monotonic
from types import SimpleNamespace
from typing import Any, Self

import msgspec
import uvicorn
from starlette.applications import Starlette

from fleetlore import clock, connect
from fleetlore.errors import FleetloreError
from fleetlore.log.coordination import Coordination, open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.tokens import create_token
from fleetlore.server import problems
from fleetlore.server.live import sockets, stream
from fleetlore.server.live.feed import Feed
from fleetlore.server.security.authorization import Keyring
from fleetlore.server.security.limits import RequestLimits
from tests.patience import PATIENCE


class Station:
    """A log, its feed, and the port at which it is served."""

    def __init__(self, log: BlockingRecorder, feed: Feed, shared: Coordination, *, limits: RequestLimits) -> None:
        self.log, self.feed, self.shared, self.limits = log, feed, shared, limits
        self.token, token = create_token("read", now=clock.now())
        shared.save_token(token)
        self.app = Starlette(
            routes=[*stream.ROUTES, *sockets.ROUTES],
            exception_handlers={problems.Problem: problems.on_problem, FleetloreError: problems.on_fleetlore_error},
        )
        keys = Keyring(shared, ticks=lambda: 100 * monotonic())  # which forgets a revoked token sooner
        # There are no views here, so that names are taken as they are; test_scopes.py follows scopes at a whole server.
        view_cache = SimpleNamespace(resolve_scope=lambda scope, may_be_new: scope)
        self.app.state.context = SimpleNamespace(log=log, feed=feed, limits=limits, keys=keys, view_cache=view_cache, run=asyncio.to_thread)
        self.server = uvicorn.Server(
            uvicorn.Config(
                self.app, http="h11", ws="websockets-sansio", lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=2
            )
        )
        self.server.capture_signals = suppress  # type: ignore[assignment,method-assign]  # they are the test runner's
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]

    @property
    def connections(self) -> int:
        return len(self.server.server_state.connections)

    def watch(self, query: str = "", **options: Any) -> Client:
        """A stream with our own token, unless another Authorization is given; an empty one means none."""
        given = {"Authorization": f"Bearer {self.token}"} | options
        return Client(self.port, f"/api/stream{query}", **{name: value for name, value in given.items() if value != ""})


@asynccontextmanager
async def station(*, limits: RequestLimits | None = None, **options: Any) -> AsyncIterator[Station]:
    """A server that runs on this loop."""
    with connect("memory:").blocking() as log, open_shared("memory:") as shared:
        feed = Feed(log, **options)
        feed.start()
        place = Station(log, feed, shared, limits=limits or RequestLimits())
        serving = asyncio.create_task(place.server.serve(sockets=[place.socket]))
        await until(lambda: place.server.started)
        try:
            yield place
        finally:
            feed.close()
            place.server.should_exit = True
            await serving
            log.close()
            await asyncio.to_thread(feed.join, PATIENCE)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(PATIENCE):
        while not is_so():  # noqa: ASYNC110 - nobody says when
            await asyncio.sleep(0.002)


class Client:
    """One stream of server-sent events: `async with station.watch("?scope=task:t7") as client`."""

    def __init__(self, port: int, path: str, *, method: str = "GET", window: int | None = None, **headers: str) -> None:
        self._port, self._window = port, window
        said = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self._request = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{said}\r\n".encode()
        self._rest = b""
        self.status = 0
        self.headers: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        line = socket.socket()
        if self._window is not None:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._window)
        line.setblocking(False)
        await asyncio.get_running_loop().sock_connect(line, ("127.0.0.1", self._port))
        self.reader, self.writer = await asyncio.open_connection(sock=line, limit=1 << 12 if self._window else 1 << 16)
        self.writer.write(self._request)
        async with asyncio.timeout(PATIENCE):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.status = int(head[0].split()[1])
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()

    async def body(self) -> bytes:
        """All of an answer that has an end."""
        if "content-length" in self.headers:
            return await self.reader.readexactly(int(self.headers["content-length"]))
        parts = []
        while part := await self._chunk():
            parts.append(part)
        return b"".join(parts)

    async def _chunk(self) -> bytes:
        async with asyncio.timeout(PATIENCE):
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            return (await self.reader.readexactly(size + 2))[:-2]

    async def frame(self) -> str:
        """What stands before the next empty line."""
        while b"\n\n" not in self._rest:
            part = await self._chunk()
            if not part:
                raise EOFError
            self._rest += part
        frame, _, self._rest = self._rest.partition(b"\n\n")
        return frame.decode()

    async def event(self) -> tuple[str, dict[str, Any]]:
        """The next event's id and data; greetings and signs of life are passed over."""
        while not (frame := await self.frame()).startswith("id: "):
            pass
        id, data = frame.split("\n")
        return id.removeprefix("id: "), msgspec.json.decode(data.removeprefix("data: "))

    async def texts(self, count: int) -> list[str]:
        return [(await self.event())[1]["text"] for _ in range(count)]
