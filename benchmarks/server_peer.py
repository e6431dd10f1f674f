"""The two servers that are compared, each in a process of its own: `python -m benchmarks.server_peer ours|queues URL`.

`ours` is what `lore up` serves, with all that it does beside the feed: folding the views, indexing the text, checking tokens and limits.
`queues` is what one writes first, and nothing else: a task follows the log and encodes each event once, every client has an
`asyncio.Queue`, and a `StreamingResponse` takes from it. Both run under uvicorn with the same settings; both print a JSON list
with their port and their token, and end with their input.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Event as Signal
from threading import Thread

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from fleetlore import Event, connect
from fleetlore import settings as config
from fleetlore.events import codec
from fleetlore.server.live.stream import HEADERS
from fleetlore.server.open_context import open_context
from fleetlore.server.security.limits import RequestLimits
from fleetlore.server.serve import HOST, bind_socket, serve_in_thread


@contextmanager
def ours(url: str) -> Iterator[tuple[int, str]]:
    settings = config.load_settings(log=url, environ={})
    with connect(url).blocking() as log, open_context(log, settings, host=HOST) as rooms, bind_socket(HOST, 0) as opened:
        port: int = opened.getsockname()[1]
        with serve_in_thread(rooms.context, opened):
            yield port, rooms.token


@contextmanager
def queues(url: str) -> Iterator[tuple[int, str]]:
    with bind_socket(HOST, 0) as opened:
        port: int = opened.getsockname()[1]
        server = _Server(_queues(url))
        thread = Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
        thread.start()
        server.ready.wait()
        yield port, ""
        server.should_exit = True
        thread.join()


class _Server(uvicorn.Server):
    def __init__(self, app: Starlette) -> None:
        self.ready = Signal()
        settings = RequestLimits().for_uvicorn()
        super().__init__(
            uvicorn.Config(app, loop="asyncio", lifespan="on", log_config=None, access_log=False, timeout_graceful_shutdown=1, **settings)
        )

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]  # uvicorn's says less
        await super().startup(sockets)  # type: ignore[arg-type]
        self.ready.set()


def _queues(url: str) -> Starlette:
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
        return StreamingResponse(chunks(), headers=HEADERS)

    @asynccontextmanager
    async def living(app: Starlette) -> AsyncIterator[None]:
        following = asyncio.create_task(follow())
        yield
        following.cancel()

    return Starlette(routes=[Route("/api/stream", stream)], lifespan=living)


def _chunk(event: Event) -> bytes:
    return b"id: %b\ndata: %b\n\n" % (str(event.position).encode(), codec.encode_with_position(event))


def main(name: str, url: str) -> None:
    with {"ours": ours, "queues": queues}[name](url) as place:
        print(msgspec.json.encode(place).decode(), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
