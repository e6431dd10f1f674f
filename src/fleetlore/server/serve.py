"""Runs uvicorn for an `AppContext`: in the main thread until a signal, or in a thread for the length of a `with` block."""

from __future__ import annotations

import resource
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from time import monotonic
from types import FrameType

import uvicorn

from fleetlore.errors import ConfigError, Invalid
from fleetlore.server.app import make_app
from fleetlore.server.context import AppContext
from fleetlore.server.security.hosts import HIGHEST_PORT
from fleetlore.server.security.limits import STREAMS
from fleetlore.server.uvicorn_protocols import HttpProtocol

HOST, PORT = "127.0.0.1", 7077
BACKLOG = 2048
OPEN_FILES = 16_384
CHECK_SECONDS = 5
"""Seconds between two checks of all connections for stalled clients."""
GRACE_SECONDS = 3
"""How long shutdown waits for running requests."""
START_SECONDS = 30.0
_NOT_STARTED = "the server did not start; its own output says why"


def raise_open_file_limit() -> None:
    """Raise the soft limit of open files: each stream is a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def bind_socket(host: str, port: int) -> socket.socket:
    """A listening socket for `serve_app`; port 0 takes any free port. `Invalid` or `ConfigError` if it cannot listen there."""
    if not 0 <= port <= HIGHEST_PORT:  # the system would use it modulo 65536
        raise Invalid(f"--port {port}: a number from 0 to {HIGHEST_PORT} is needed; leave it out for {PORT}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise Invalid(f"--host {host}: this machine has no such address; leave it out for {HOST}") from error
    # With the protocol: without it asyncio does not set TCP_NODELAY, and every response on a kept-alive connection takes 40 ms longer.
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        opened.close()
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"{host}:{port}: cannot listen there ({reason}); choose another with --port, or --port 0 for any free one"
        ) from error
    return opened


def browser_url(opened: socket.socket, host: str) -> str:
    """The URL to open in a browser."""
    port = opened.getsockname()[1]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}/"


def serve_app(
    context: AppContext, opened: socket.socket, *, allow_hosts: Iterable[str] = (), on_ready: Callable[[], None] = lambda: None
) -> None:
    """Serve until SIGINT or SIGTERM; `ConfigError` if the server did not start."""
    server = FleetloreServer(context, allow_hosts=allow_hosts, on_ready=on_ready)
    server.run(sockets=[opened])
    if not server.started:
        raise ConfigError(_NOT_STARTED)


@contextmanager
def serve_in_thread(context: AppContext, opened: socket.socket, *, allow_hosts: Iterable[str] = ()) -> Iterator[None]:
    """Serve in a thread for the length of the block; `ConfigError` if the server did not start."""
    ready = Event()
    server = FleetloreServer(context, allow_hosts=allow_hosts, on_ready=ready.set)

    def run() -> None:
        try:
            server.run(sockets=[opened])
        finally:
            ready.set()  # also if it failed to start, so that nobody waits

    thread = Thread(target=run, name="fleetlore-server", daemon=True)
    thread.start()
    try:
        if not ready.wait(START_SECONDS) or not server.started:
            raise ConfigError(_NOT_STARTED)
        yield
    finally:
        server.should_exit = True
        thread.join(START_SECONDS)


class FleetloreServer(uvicorn.Server):
    """uvicorn that disconnects stream clients before it waits for requests to end, and aborts stalled connections."""

    def __init__(self, context: AppContext, *, allow_hosts: Iterable[str] = (), on_ready: Callable[[], None] = lambda: None) -> None:
        raise_open_file_limit()
        self._context, self._on_ready = context, on_ready
        super().__init__(
            uvicorn.Config(
                make_app(context, allow_hosts=allow_hosts),
                loop="asyncio",
                ws_per_message_deflate=False,  # it would compress each frame once per client
                lifespan="on",
                log_config=None,
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=GRACE_SECONDS,
                **context.limits.for_uvicorn(),
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down; a second Ctrl-C exits at once. Unlike uvicorn, it does not raise the signal again: the caller has to clean up."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then call `on_ready`."""
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second by uvicorn; checks the connections every `CHECK_SECONDS`."""
        if counter % (10 * CHECK_SECONDS) == 0:
            now = monotonic()
            for connection in tuple(self.server_state.connections):
                if isinstance(connection, HttpProtocol):
                    connection.abort_if_stalled(now, untimed=STREAMS)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Disconnect stream clients, then shut down."""
        self._context.stop_streaming()
        await super().shutdown(sockets)
