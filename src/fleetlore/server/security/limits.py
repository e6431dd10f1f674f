"""Limits on requests, bodies and streams, per client and in total, so that memory stays bounded.

`RequestLimits` holds the numbers and counts usage; `Limited` is the middleware that enforces them. `ConcurrencyLimit` queues
expensive work.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from math import ceil
from time import monotonic
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleetlore.server.problems import Problem
from fleetlore.server.security.guard import send_problem
from fleetlore.server.security.rate_limit import RateLimit, get_network
from fleetlore.server.uvicorn_protocols import HttpProtocol, WebSocketProtocol, limit_connections

MIB = 1 << 20
STREAMS = ("/api/stream", "/ws", "/ws/chat")
"""Paths of long-lived requests. They are counted by `RequestLimits.stream`, not with the other requests."""

_SOON, _NEXT_SLOT, _LATER = {"retry-after": "1"}, {"retry-after": "2"}, {"retry-after": "5"}
_MOST_DIGITS = 18
_DISCONNECT: Message = {"type": "http.disconnect"}


@dataclass(kw_only=True, eq=False)
class RequestLimits:
    """The limits, each can be set as in `RequestLimits(body=1024)`, and current usage. For one event loop."""

    body: int = 32 * MIB
    """Bytes of a body as received."""
    unpacked: int = 128 * MIB
    """Bytes of a body after decompression."""
    bodies: int = 256 * MIB
    """Bytes of all bodies in memory at once."""
    body_pause: float = 30
    """Seconds without progress of a body."""
    body_time: float = 300
    """Seconds in total for a body."""
    path: int = 2 * 1024
    """Bytes of a path."""
    query: int = 8 * 1024
    """Bytes of a query string."""
    headers: int = 64 * 1024
    """Bytes of all headers together. uvicorn's h11 gets the same limit (`h11_max_incomplete_event_size`)."""
    frame: int = 64 * 1024
    """Bytes of an incoming WebSocket message."""
    rate: float = 500
    """Sustained requests per second from one address."""
    burst: int = 2_000
    """Requests from one address at once."""
    addresses: int = 10_000
    """Addresses remembered; beyond that, the one that was silent longest is dropped."""
    requests: int = 1_000
    """Concurrent requests."""
    streams: int = 4_000
    """Concurrent streams."""
    streams_each: int = 2_000
    """Concurrent streams of one address."""
    connections_each: int = 2_500
    """Open connections of one address; beyond that, its oldest idle connection is closed."""
    now: Callable[[], float] = monotonic
    open_requests: int = field(default=0, init=False)
    open_streams: int = field(default=0, init=False)
    held: int = field(default=0, init=False)
    """Bytes of bodies in memory."""

    def __post_init__(self) -> None:
        self._rate = RateLimit(self.rate, self.burst, clients=self.addresses, now=self.now)
        self._streams_by_network: Counter[str] = Counter()

    @contextmanager
    def count_stream(self, scope: Scope) -> Iterator[None]:
        """Count a stream while the block runs; raises a `Problem` if there are too many, in all or of this address."""
        network = get_network(get_client_address(scope))
        if self._streams_by_network[network] >= self.streams_each:
            detail = f"{self.streams_each:,} streams of this address are open, which is the limit; close some, and try again"
            raise Problem(429, detail, headers=_LATER)
        if self.open_streams >= self.streams:
            raise Problem(503, f"{self.streams:,} streams are open, which is the limit; try again in a while", headers=_LATER)
        self.open_streams += 1
        self._streams_by_network[network] += 1
        try:
            yield
        finally:
            self.open_streams -= 1
            self._streams_by_network[network] -= 1
            if not self._streams_by_network[network]:
                del self._streams_by_network[network]

    @contextmanager
    def count_request(self) -> Iterator[None]:
        """Count a request while the block runs."""
        self.open_requests += 1
        try:
            yield
        finally:
            self.open_requests -= 1

    def check(self, scope: Scope) -> None:
        """Raise a `Problem` if a request exceeds a limit."""
        wait = self._rate.count(get_client_address(scope))
        if wait > 0:
            detail = f"more than {self.rate:g} requests a second come from this address; wait, and send several events with one request"
            raise Problem(429, detail, headers={"retry-after": str(ceil(wait))})
        if len(scope["path"]) > self.path or len(scope.get("query_string", b"")) > self.query:
            detail = f"the address is too long; a path has at most {self.path:,} bytes, what follows its question mark {self.query:,}"
            raise Problem(414, detail)
        if sum(len(name) + len(value) for name, value in scope["headers"]) > self.headers:
            raise Problem(431, f"the headers are too long; all together have at most {self.headers:,} bytes")
        if self.open_requests >= self.requests and scope["path"] not in STREAMS:
            raise Problem(503, "too many requests are at work at this moment; try again", headers=_SOON)

    def for_uvicorn(self) -> Mapping[str, Any]:
        """Options for `uvicorn.Config`.

        Forwarded headers are not trusted: a client could claim a new address for each request.
        """
        connections = self.requests + self.streams
        return {
            "http": limit_connections(HttpProtocol, self.connections_each),  # h11, which limits headers
            "h11_max_incomplete_event_size": self.headers,
            "limit_concurrency": connections + connections // 4,  # counts connections, idle ones too
            "ws": WebSocketProtocol,
            "ws_max_size": self.frame,
            "proxy_headers": False,
            "server_header": False,
        }


class Limited:
    """The middleware; `Guard` comes before it."""

    def __init__(self, app: ASGIApp, *, limits: RequestLimits) -> None:
        self._app, self._limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            self._limits.check(scope)
            announced = _announced_length(scope)
        except Problem as problem:
            await send_problem(problem, scope, receive, send)
            return
        run = self._app if announced == 0 else self._with_body
        if scope["path"] in STREAMS:
            await run(scope, receive, send)
        else:
            with self._limits.count_request():
                await run(scope, receive, send)

    async def _with_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = _Body(scope, receive, send, self._limits)
        try:
            body.check_announced()
            await self._app(scope, body.receive, body.send)
        except Problem as problem:
            if problem is not body.problem or body.is_answered:
                raise
            await send_problem(problem, scope, receive, body.send)
        finally:
            body.release_memory()


class _Body:
    """A body being received. One that is too long or too slow raises a `Problem` in the reader."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: RequestLimits) -> None:
        self._scope, self._receive, self._send, self._limits = scope, receive, send, limits
        self._received, self._in_memory, self._is_whole = 0, 0, False
        self._end = limits.now() + limits.body_time
        self.is_answered = False
        self.problem: Problem | None = None

    def check_announced(self) -> None:
        """Reject a body whose announced length is too long."""
        if (_announced_length(self._scope) or 0) > self._limits.body:
            self._answer_problem(self._too_long())

    async def receive(self) -> Message:
        """Receive the next part."""
        if self._is_whole:
            return await self._receive()
        try:
            async with asyncio.timeout(min(self._limits.body_pause, self._end - self._limits.now())):
                message = await self._receive_part()
        except TimeoutError:
            return self._answer_problem(
                Problem(408, "the body came too slowly; send it again, in smaller parts", headers={"connection": "close"})
            )
        self._count_bytes(len(message.get("body", b"")))
        return message if self._received <= self._limits.body else self._answer_problem(self._too_long())

    async def send(self, message: Message) -> None:
        """Send a part of the response."""
        if not self.is_answered:
            self.is_answered = True
            await self._read_rest()
        await self._send(message)

    def release_memory(self) -> None:
        """Release the body's share of memory when the request has ended."""
        self._limits.held -= self._in_memory
        self._in_memory = 0

    def _count_bytes(self, size: int) -> None:
        self._in_memory += size
        self._limits.held += size
        if self._limits.held > self._limits.bodies:
            self._answer_problem(Problem(503, "too many large bodies are coming in at this moment; try again", headers=_LATER))

    async def _receive_part(self) -> Message:
        message = await self._receive()
        self._received += len(message.get("body", b""))
        self._is_whole = not message.get("more_body", False)
        return message

    async def _read_rest(self) -> None:
        """Read the rest of the body, up to the limit once more.

        Many clients read the response only after sending everything.
        """
        if any(name.lower() == b"expect" for name, _ in self._scope["headers"]):
            return  # the client waits for `100 Continue` before it sends
        most = 2 * self._limits.body
        if (_announced_length(self._scope) or 0) > most:
            return  # it would not be read completely anyway: answer at once
        with suppress(TimeoutError):
            async with asyncio.timeout(min(self._limits.body_pause, self._end - self._limits.now())):
                while not self._is_whole and self._received <= most:
                    await self._receive_part()

    def _too_long(self) -> Problem:
        return Problem(413, f"the body is longer than {self._limits.body:,} bytes; send it in several requests")

    def _answer_problem(self, problem: Problem) -> Message:
        if self.is_answered:
            return _DISCONNECT  # the response is on its way already
        self.problem = problem
        raise problem


def get_client_address(scope: Scope) -> str:
    """The address that a request comes from."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def _announced_length(scope: Scope) -> int | None:
    """The body's announced length; `None` if it is chunked."""
    sizes = [value for name, value in scope["headers"] if name.lower() == b"content-length"]
    is_chunked = any(name.lower() == b"transfer-encoding" for name, _ in scope["headers"])
    if not sizes:
        return None if is_chunked else 0
    if is_chunked:  # request smuggling: a proxy may have used the other header
        raise Problem(400, "a body has a Content-Length or a Transfer-Encoding; send one of them", headers={"connection": "close"})
    if len(sizes) > 1 or not sizes[0].isdigit() or len(sizes[0]) > _MOST_DIGITS:
        raise Problem(400, "the Content-Length is no number of bytes; send a right one, or none at all")
    return int(sizes[0])


class ConcurrencyLimit:
    """Limits expensive work: some at once, some queued, a 503 response for the rest. `async with limit.hold_slot():`, on one event loop."""

    def __init__(self, at_once: int, *, queued: int, timeout: float) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._most_queued, self._timeout = queued, timeout
        self.waiting = 0

    @asynccontextmanager
    async def hold_slot(self) -> AsyncIterator[None]:
        """Hold a slot while the block runs; raises a `Problem` if none is free in time."""
        await self._wait_for_slot()
        try:
            yield
        finally:
            self._free.release()

    async def _wait_for_slot(self) -> None:
        if self.waiting >= self._most_queued:
            raise _busy_problem()
        self.waiting += 1
        try:
            async with asyncio.timeout(self._timeout):
                await self._free.acquire()
        except TimeoutError:
            raise _busy_problem() from None
        finally:
            self.waiting -= 1


def _busy_problem() -> Problem:
    return Problem(503, "too much of this kind is being worked on; try again in a moment, or ask for less at once", headers=_NEXT_SLOT)
