"""The two servers that are compared, each in a process of its own: `python -m benchmarks.server_peer ours|queues URL`.

`queues` is what one writes first: a task follows the log and encodes each event once, every client has an `asyncio.Queue`, and
a `StreamingResponse` takes from it. Both run under uvicorn with the same settings, print their port, and end with their input.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from fleetlore import Event, connect
from fleetlore.events import codec
from fleetlore.server.feed import Feed
from fleetlore.server.stream import HEADERS, ROUTES

_HOUR = 3600.0


def ours(url: str) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        with connect(url).blocking() as log:
            feed = Feed(log, heartbeat=_HOUR)
            app.state.house = SimpleNamespace(feed=feed)
            feed.start()
            yield
            feed.close()

    return Starlette(routes=ROUTES, lifespan=lifespan)


def queues(url: str) -> Starlette:
    clients: set[asyncio.Queue[bytes]] = set()

    async def follow() -> None:
        async with connect(url) as log:
            async for event in log.follow(after=await log.head()):
                chunk = _chunk(event)
                for queue in clients:
                    queue.put_nowait(chunk)

    async def chunks() -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        clients.add(queue)
        try:
            yield b"event: hello\ndata: {}\n\n"
            while True:
                yield await queue.get()
        finally:
            clients.discard(queue)

    async def stream(request: Request) -> StreamingResponse:
        return StreamingResponse(chunks(), headers={name.decode(): value.decode() for name, value in HEADERS})

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        following = asyncio.create_task(follow())
        yield
        following.cancel()

    return Starlette(routes=[Route("/api/stream", stream)], lifespan=lifespan)


def _chunk(event: Event) -> bytes:
    return b"id: %b\ndata: %b\n\n" % (str(event.position).encode(), codec.encode_with_position(event))


APPS = {"ours": ours, "queues": queues}


async def serve(app: Starlette, *, loop_name: str = "uvloop", http: str = "h11") -> None:
    """Until standard input ends."""
    line = socket.create_server(("127.0.0.1", 0), backlog=2048)
    server = uvicorn.Server(uvicorn.Config(app, http=http, access_log=False, log_level="warning", timeout_graceful_shutdown=1))
    print(line.getsockname()[1], flush=True)
    serving = asyncio.create_task(server.serve(sockets=[line]))
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.should_exit = server.force_exit = True
    await serving


def main(name: str, url: str, loop_name: str = "uvloop", http: str = "h11") -> None:
    runner = asyncio.Runner() if loop_name == "asyncio" else asyncio.Runner(loop_factory=__import__("uvloop").new_event_loop)
    with runner:
        runner.run(serve(APPS[name](url), http=http))


if __name__ == "__main__":
    main(*sys.argv[1:])
