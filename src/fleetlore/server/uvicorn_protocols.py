"""uvicorn's protocols with timeouts and a limit of connections per address: uvicorn has neither.

`FleetloreServer` (serve.py) checks each connection every few seconds. Streams are left to the feed, which drops slow clients itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from fleetlore.server.security.rate_limit import get_network

REQUEST_TIMEOUT_SECONDS = 15.0
"""How long a new connection may take to send its request."""
READ_TIMEOUT_SECONDS = 30.0
"""How long a client may read nothing of its response."""
MAX_FRAGMENTS = 64
"""Fragments of one WebSocket message: empty fragments take memory but do not count towards its length."""
MAX_UNREAD_BYTES = 1 << 20
"""Unread bytes of a client that goes on sending pings."""
_BODY = (b"content-length", b"transfer-encoding")


class ConnectionsByAddress:
    """Open connections of each address, oldest first."""

    def __init__(self, most_each: int) -> None:
        self._most, self._open = most_each, dict[str, dict[HttpProtocol, None]]()

    def add(self, connection: HttpProtocol, address: str) -> None:
        """Count a connection; beyond the limit, close the oldest idle one of its address, or this one if none is idle."""
        network = get_network(address)
        connections = self._open.setdefault(network, {})
        if len(connections) >= self._most:
            next((known for known in connections if known.is_idle), connection).transport.abort()
        connections[connection] = None

    def remove(self, connection: HttpProtocol, address: str) -> None:
        """Forget a connection, if it was counted."""
        network = get_network(address)
        connections = self._open.get(network, {})
        connections.pop(connection, None)
        if not connections:
            self._open.pop(network, None)


class HttpProtocol(H11Protocol):
    """An HTTP connection that can be aborted when its client stalls, and that is counted for its address."""

    connections_by_address: ConnectionsByAddress | None = None
    _silent_since: float | None = None
    _stuck_since: float | None = None
    _unread = 0

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn declares it
        """Count the connection."""
        super().connection_made(transport)
        if self.connections_by_address is not None and self.client:
            self.connections_by_address.add(self, self.client[0])

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._uncount_connection()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the connection over to the WebSocket protocol; it is counted as a stream there."""
        self._uncount_connection()
        super().handle_websocket_upgrade(event)

    def _uncount_connection(self) -> None:
        if self.connections_by_address is not None and self.client:
            self.connections_by_address.remove(self, self.client[0])

    def abort_if_stalled(self, now: float, untimed: Iterable[str] = ()) -> None:
        """Abort the connection if its client sends or reads nothing for too long. Requests to `untimed` paths have no timeout."""
        is_idle = self.is_idle
        if not is_idle and self.scope["path"] in untimed:
            self._silent_since = self._stuck_since = None
            return
        unread = self.transport.get_write_buffer_size()
        is_silent = is_idle and not unread and self.timeout_keep_alive_task is None
        self._silent_since = (self._silent_since or now) if is_silent else None
        self._stuck_since = (self._stuck_since or now) if unread and unread >= self._unread else None
        self._unread = unread
        if _has_timed_out(self._silent_since, now, REQUEST_TIMEOUT_SECONDS) or _has_timed_out(self._stuck_since, now, READ_TIMEOUT_SECONDS):
            self.transport.abort()

    def resume_writing(self) -> None:
        """The client has read something: reset the read timeout."""
        self._unread = 1 << 62  # larger than any buffer at the next check
        super().resume_writing()

    def _should_upgrade(self) -> bool:
        """Only for a plain GET: `websockets` never answers any other upgrade, and the connection would hang."""
        is_plain = self.scope["method"] == "GET" and not any(name in _BODY for name, _ in self.headers)
        return is_plain and super()._should_upgrade()


def limit_connections(protocol: type[HttpProtocol], most_each: int) -> type[HttpProtocol]:
    """A protocol class whose connections are limited per address."""
    return type(protocol.__name__, (protocol,), {"connections_by_address": ConnectionsByAddress(most_each)})


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket connection with limits on pings and fragments."""

    def handle_ping(self) -> None:
        """Answer a ping; abort if the client does not read the answers."""
        super().handle_ping()
        if self.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            self.transport.abort()

    def handle_cont(self, event: Frame) -> None:
        """Take a fragment; abort if there are too many."""
        if len(self.frames) >= MAX_FRAGMENTS:
            self.transport.abort()
            return
        super().handle_cont(event)


def _has_timed_out(since: float | None, now: float, timeout: float) -> bool:
    return since is not None and now - since >= timeout
