"""Serves a house with uvicorn: in the main thread until a signal, or in a thread for as long as a block lasts."""

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
from fleetlore.server.context import House
from fleetlore.server.security.hosts import HIGHEST_PORT
from fleetlore.server.security.limits import STREAMS
from fleetlore.server.uvicorn_protocols import HttpWire

HOST, PORT = "127.0.0.1", 7077
BACKLOG = 2048
OPEN_FILES = 16_384
LOOK_SECONDS = 5
"""Between two looks at all connections."""
GRACE = 3
"""Seconds that requests under way are waited for when it ends."""
START_SECONDS = 30.0
_NOT_STARTED = "the server did not start; its own output says why"


def make_room() -> None:
    """Let this process hold as many connections as the system allows it: each stream is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens at an address, for `serve`; port 0 takes any that is free."""
    if not 0 <= port <= HIGHEST_PORT:  # the system would take the rest of it
        raise Invalid(f"--port {port}: a number from 0 to {HIGHEST_PORT} is needed; leave it out for {PORT}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise Invalid(f"--host {host}: no such address here; leave it out for {HOST}") from error
    # With its protocol said: else asyncio does not take it for TCP and leaves Nagle's delay on, 40 ms on every answer of a kept connection.
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        opened.close()
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"{host}:{port}: cannot listen there ({reason}); say another with --port, or --port 0 for any that is free"
        ) from error
    return opened


def address_of(opened: socket.socket, host: str) -> str:
    """The address to be given to a browser."""
    port = opened.getsockname()[1]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}/"


def serve(house: House, opened: socket.socket, *, allow_hosts: Iterable[str] = (), on_ready: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGINT or SIGTERM."""
    server = Server(house, allow_hosts=allow_hosts, on_ready=on_ready)
    server.run(sockets=[opened])
    if not server.started:
        raise ConfigError(_NOT_STARTED)


@contextmanager
def serving(house: House, opened: socket.socket, *, allow_hosts: Iterable[str] = ()) -> Iterator[None]:
    """Serve in a thread, from the first line of the block to the last."""
    ready = Event()
    server = Server(house, allow_hosts=allow_hosts, on_ready=ready.set)

    def run() -> None:
        try:
            server.run(sockets=[opened])
        finally:
            ready.set()  # nobody waits for one that could not begin

    thread = Thread(target=run, name="fleetlore-server", daemon=True)
    thread.start()
    try:
        if not ready.wait(START_SECONDS) or not server.started:
            raise ConfigError(_NOT_STARTED)
        yield
    finally:
        server.should_exit = True
        thread.join(START_SECONDS)


class Server(uvicorn.Server):
    """uvicorn, which lets everybody go who watches before it waits for requests to end."""

    def __init__(self, house: House, *, allow_hosts: Iterable[str] = (), on_ready: Callable[[], None] = lambda: None) -> None:
        make_room()
        self._house, self._on_ready = house, on_ready
        super().__init__(
            uvicorn.Config(
                make_app(house, allow_hosts=allow_hosts),
                loop="asyncio",
                ws_per_message_deflate=False,  # it would compress every frame for each client
                lifespan="on",
                log_config=None,
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=GRACE,
                **house.limits.for_uvicorn(),
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End well; a second Ctrl-C ends at once. The signal is not raised again: whoever called us has things to put away, too."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin, and say so."""
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second by uvicorn; checks the connections every `LOOK_SECONDS`."""
        if counter % (10 * LOOK_SECONDS) == 0:
            now = monotonic()
            for connection in tuple(self.server_state.connections):
                if isinstance(connection, HttpWire):
                    connection.look(now, untimed=STREAMS)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End."""
        self._house.stop_streaming()
        await super().shutdown(sockets)
