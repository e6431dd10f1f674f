"""Connections as uvicorn keeps them, and when they are let go: it waits without end for who says nothing, or reads nothing.

`Server` looks at each of them every few seconds. A stream is left to the feed, which knows better whether its client reads.
"""

from __future__ import annotations

from collections.abc import Iterable

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

HEAD_SECONDS = 15.0
"""How long a connection may take to say what it wants."""
READ_SECONDS = 30.0
"""How long a client may read nothing of its answer."""
MOST_FRAGMENTS = 64
"""Parts of one message on a WebSocket; an empty one costs memory, too, and counts for nothing in its length."""
MOST_UNREAD = 1 << 20
"""Bytes that wait for a client that goes on asking for signs of life."""
_BODY = (b"content-length", b"transfer-encoding")


class HttpWire(H11Protocol):
    """One connection that speaks HTTP."""

    _silent_since: float | None = None
    _stuck_since: float | None = None
    _unread = 0

    def look(self, now: float, untimed: Iterable[str] = ()) -> None:
        """Break the connection if its client has been waited for long enough; `untimed` are paths that somebody else looks after."""
        is_idle = self.cycle is None or self.cycle.response_complete
        if not is_idle and self.scope["path"] in untimed:
            self._silent_since = self._stuck_since = None
            return
        unread = self.transport.get_write_buffer_size()
        is_silent = is_idle and not unread and self.timeout_keep_alive_task is None
        self._silent_since = (self._silent_since or now) if is_silent else None
        self._stuck_since = (self._stuck_since or now) if unread and unread >= self._unread else None
        self._unread = unread
        if _is_over(self._silent_since, now, HEAD_SECONDS) or _is_over(self._stuck_since, now, READ_SECONDS):
            self.transport.abort()

    def resume_writing(self) -> None:
        """The client has read something."""
        self._unread = 1 << 62  # whatever waits at the next look is less
        super().resume_writing()

    def _should_upgrade(self) -> bool:
        """A WebSocket begins with a plain GET; the library says nothing at all to another, and waits."""
        is_plain = self.scope["method"] == "GET" and not any(name in _BODY for name, _ in self.headers)
        return is_plain and super()._should_upgrade()


class SocketWire(WebSocketsSansIOProtocol):
    """One WebSocket."""

    def handle_ping(self) -> None:
        """Answer a ping; who sends them without reading the answers is let go."""
        super().handle_ping()
        if self.transport.get_write_buffer_size() > MOST_UNREAD:
            self.transport.abort()

    def handle_cont(self, event: Frame) -> None:
        """Take a part of a message."""
        if len(self.frames) >= MOST_FRAGMENTS:
            self.transport.abort()
            return
        super().handle_cont(event)


def _is_over(since: float | None, now: float, patience: float) -> bool:
    return since is not None and now - since >= patience
