"""Connections to a Redis or Valkey server; the only module that uses redis-py.

Sends commands and returns raw answers, several per round trip. All commands may be repeated, so after a broken
connection they are sent again on a new one until the timeout.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha1
from time import monotonic, sleep
from typing import Any, NamedTuple, TypeAlias

from redis.backoff import NoBackoff
from redis.connection import Connection, parse_url
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ConnectionError,
    InvalidResponse,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)
from redis.retry import Retry

from fleetlore import settings
from fleetlore.errors import Closed, Denied, InvalidUrl, LogError, StorageFull, Unanswered, Unreachable, Unsuitable, Unwritable

Command: TypeAlias = Sequence[str | bytes | int]
Answer: TypeAlias = Any
"""Bytes, numbers, lists of them, or `None`; a `ResponseError` if the server refused the command."""

ScriptMissing = NoScriptError
"""The server does not have a script (any more)."""
MIN_VERSION = (7, 0)
_CONNECTION_ERRORS = (ConnectionError, TimeoutError, OSError, TryAgainError)
# Temporary refusals that changed nothing: another script is running, or there is no primary at the moment.
_TRANSIENT_PREFIXES = ("BUSY", "MASTERDOWN", "TRYAGAIN", "LOADING")
_ABORT_MARKER = "because of: "
_FIRST_BACKOFF, _MAX_BACKOFF = 0.02, 0.5


class ConnectionBroken(Exception):
    """The connection failed before all replies arrived. `sent` is true if the server may have received the commands."""

    def __init__(self, error: Exception, *, sent: bool) -> None:
        self.error, self.sent = error, sent
        super().__init__(str(error))


class RedisConnection:
    """One connection; opened on first use and again after it broke."""

    def __init__(self, connection: Any, translate_error: Callable[[Exception], LogError]) -> None:
        self._connection, self._translate_error = connection, translate_error

    def run_commands(self, commands: Sequence[Command]) -> list[Answer]:
        """Send commands in one round trip and return the answers; raise `ConnectionBroken` if they do not come."""
        sent = False
        try:
            self._connection.connect()
            sent = True
            self._connection.send_packed_command(self._connection.pack_commands(commands))
            return [self._read_answer() for _ in commands]
        except BaseException as error:
            self.disconnect()  # part of an answer may still be in transit
            if isinstance(error, _CONNECTION_ERRORS) and not isinstance(error, AuthenticationError):
                raise ConnectionBroken(error, sent=sent and not isinstance(error, TryAgainError | BusyLoadingError)) from error
            if isinstance(error, RedisError):
                raise self._translate_error(error) from error
            raise

    def _read_answer(self) -> Answer:
        try:
            return self._connection.read_response(disconnect_on_error=False)
        except (TryAgainError, AuthenticationError):
            raise
        except ResponseError as refusal:
            if str(refusal).partition(_ABORT_MARKER)[2].startswith(_TRANSIENT_PREFIXES) or str(refusal).startswith(_TRANSIENT_PREFIXES):
                raise TryAgainError(str(refusal)) from refusal
            return refusal

    def disconnect(self) -> None:
        """Close the connection; the next command opens a new one."""
        self._connection.disconnect()

    def interrupt(self) -> None:
        """Shut the socket down, so that another thread that is blocked on a reply returns at once."""
        sock: socket.socket | None = self._connection._sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


class RedisClient:
    """Connection pool for one server: one connection per thread that is waiting for answers."""

    def __init__(self, address: str, *, timeout: float, ca: str | None = None) -> None:
        self.address = settings.mask_url(address)
        self.timeout = timeout
        self._create_raw_connection = _connection_factory(address, timeout, ca)
        self._idle: list[RedisConnection] = []
        self._digests: dict[str, str] = {}
        self._sources: dict[str, str] = {}
        self._owner_pid = os.getpid()
        self.closed = False

    def run_commands(self, *commands: Command) -> list[Answer]:
        """Send commands that only read or may be sent twice, and return the answers; refusals are raised."""
        try:
            answers = self.send_commands(commands)
        except ConnectionBroken as broken:
            raise self.make_unreachable_error(broken.error) from broken
        return [self.unwrap_answer(answer) for answer in answers]

    def send_commands(self, commands: Sequence[Command]) -> list[Answer]:
        """Return the answers, including refusals; retry on new connections until the timeout, then `ConnectionBroken`."""
        self.check_open()
        deadline, pause, sent = monotonic() + self.timeout, _FIRST_BACKOFF, False
        while True:
            connection = self._acquire_connection()
            try:
                answers = connection.run_commands(commands)
            except ConnectionBroken as broken:
                sent = sent or broken.sent
                self._close_idle()  # most likely all connections are broken
                if self.closed:
                    raise ConnectionBroken(broken.error, sent=sent) from broken
                if monotonic() + pause >= deadline:
                    raise ConnectionBroken(broken.error, sent=sent) from broken
                sleep(pause)
                pause = min(2 * pause, _MAX_BACKOFF)
            else:
                self._release_connection(connection)
                return answers

    def _acquire_connection(self) -> RedisConnection:
        try:
            return self._idle.pop()
        except IndexError:
            return self._create_connection()

    def _release_connection(self, connection: RedisConnection) -> None:
        if self.closed:
            connection.disconnect()
        else:
            self._idle.append(connection)

    def run_scripts(self, calls: Sequence[Command]) -> list[Answer]:
        """Run commands from `make_script_command`; if the server lost the scripts, send their source."""
        answers = self.send_commands(calls)
        if not any(isinstance(answer, NoScriptError) for answer in answers):
            return answers
        return self.send_commands([self.to_eval_command(call) for call in calls])

    def run_script(self, source: str, keys: Sequence[str], arguments: Sequence[str | bytes | int]) -> Answer:
        """Run one script and return its answer; refusals and missing answers are raised."""
        try:
            [answer] = self.run_scripts([self.make_script_command(source, keys, arguments)])
        except ConnectionBroken as broken:
            raise self.make_unanswered_error(broken) from broken
        return self.unwrap_answer(answer)

    def make_script_command(self, source: str, keys: Sequence[str], arguments: Sequence[str | bytes | int]) -> Command:
        """Return the EVALSHA command for a script."""
        digest = self._digests.get(source)
        if digest is None:
            digest = self._digests[source] = sha1(source.encode(), usedforsecurity=False).hexdigest()
            self._sources[digest] = source
        return ("EVALSHA", digest, len(keys), *keys, *arguments)

    def to_eval_command(self, call: Command) -> Command:
        """Convert an EVALSHA command to EVAL, for a server that does not have the script."""
        return ("EVAL", self._sources[str(call[1])], *call[2:])

    def open_connection(self) -> RedisConnection:
        """Open a connection outside the pool."""
        self.check_open()
        return self._create_connection()

    def _create_connection(self) -> RedisConnection:
        return RedisConnection(self._create_raw_connection(), self.translate_error)

    def unwrap_answer(self, answer: Answer) -> Answer:
        """Return the answer, or raise the refusal as `LogError`."""
        if isinstance(answer, RedisError):
            raise self.translate_error(answer)
        return answer

    def make_unreachable_error(self, error: Exception) -> Unreachable:
        """Return the error for a server that does not answer."""
        return Unreachable(f"{self.address}: the server does not answer ({error}); see that it runs and can be reached, then try again")

    def make_unanswered_error(self, broken: ConnectionBroken, ids: Sequence[str] = ()) -> LogError:
        """Return the error for missing answers; `ids` are the events that may or may not be stored."""
        if not broken.sent:
            return self.make_unreachable_error(broken.error)
        advice = "append again with the same ids, nothing is stored twice" if ids else "do it again, what is done stays done"
        return Unanswered(f"{self.address}: the connection broke before the answer came ({broken}); {advice}", ids)

    def translate_error(self, error: Exception) -> LogError:
        """Return the `LogError` for a refusal, with what to do next."""
        match error:
            case AuthenticationError():
                return Denied(f"{self.address}: user name or password is wrong or missing ({error}); write redis://USER:PASSWORD@HOST")
            case NoPermissionError() | AuthorizationError():
                return Denied(f"{self.address}: this user is not allowed to do that ({error}); ask for rights on its keys and on scripts")
            case OutOfMemoryError():
                return StorageFull(
                    f"{self.address}: the server's memory limit is reached; raise maxmemory, or trim (what was acknowledged is safe)"
                )
            case ReadOnlyError():
                return Unwritable(f"{self.address}: a replica cannot be written; name the primary")
            case ResponseError() if str(error).startswith("ACL failure"):
                return Denied(f"{self.address}: this user is not allowed to do that ({error}); ask for rights on its keys and on scripts")
            case ResponseError() if str(error).startswith("MISCONF"):
                return StorageFull(f"{self.address}: the server cannot write to its disk ({error})")
            case ResponseError() if "Invalid stream ID" in str(error):
                return LogError(
                    f"{self.address}: another program used the highest possible entry id, so nothing can be added behind it ({error});"
                    " delete that entry with XDEL, and set the stream back with XSETID"
                )
            case ResponseError() if "DB index" in str(error):
                return Unsuitable(f"{self.address}: {error}; take a lower number behind the /, the server's `databases` is the limit")
            case InvalidResponse():
                return Unsuitable(f"{self.address}: this is not a Redis server; check the port")
            case _:
                return LogError(f"{self.address}: {error}")

    def check_open(self) -> None:
        """Raise `Closed` if the log was closed, or in a forked child, which would share its parent's connections."""
        if self.closed:
            raise Closed("the log was closed; open it again with connect()")
        if self.is_forked_child:
            raise Closed("the log was opened before a fork; open it again in the child with connect()")

    def close(self) -> None:
        """Close the idle connections; the others close when they are released."""
        self.closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._acquire_connection().disconnect()

    @property
    def is_forked_child(self) -> bool:
        """Whether this is a forked child; the connections belong to its parent."""
        return os.getpid() != self._owner_pid


def _connection_factory(address: str, timeout: float, ca: str | None) -> Callable[[], Any]:
    scheme, _, rest = address.partition(":")
    if not rest.startswith("//"):
        if scheme != "unix":
            raise InvalidUrl(f"{settings.mask_url(address)}: did you mean {scheme}://HOST:6379?")
        address = f"unix://{rest}"
    try:
        options: dict[str, Any] = dict(parse_url(address))  # type: ignore[no-untyped-call]
    except ValueError:  # its message may contain the password
        raise InvalidUrl(
            f"{settings.mask_url(address)}: not an address of a server; write redis://HOST:6379/0,"
            " and / # ? @ : in a password as %2F %23 %3F %40 %3A"
        ) from None
    if scheme != "unix":
        _check_database(address)
    connection_class = options.pop("connection_class", Connection)
    options |= {"socket_timeout": timeout, "socket_connect_timeout": timeout, "retry": Retry(NoBackoff(), 0), "protocol": 2}
    if ca is not None and scheme == "rediss":
        options["ssl_ca_certs"] = ca
    return lambda: connection_class(**options)


def _check_database(address: str) -> None:
    """Raise `InvalidUrl` if the path is not a database number; redis-py would silently use database 0."""
    path = address.partition("://")[2].rpartition("@")[2].partition("/")[2]
    if path and not path.isdecimal():
        raise InvalidUrl(
            f"{settings.mask_url(address)}: /{path} is no database; write a number, as in redis://HOST:6379/0, and the town as ?town=NAME"
        )


class ServerSettings(NamedTuple):
    """Settings of a server that decide whether it keeps what it acknowledged."""

    eviction: str
    durability: str
    """`none` (no append-only file), or its `appendfsync`; `unknown` if the server does not tell."""
    max_memory: int


DURABILITIES = ("none", "no", "unknown", "everysec", "always")
"""From the weakest to the strongest."""


def check_server(client: RedisClient) -> tuple[str, ServerSettings]:
    """Return the server's name with version, and its settings; raise `Unsuitable` if it cannot store a log."""
    info = read_server_info(client)
    name, version = ("valkey", info["valkey_version"]) if "valkey_version" in info else ("redis", info.get("redis_version", "0"))
    if tuple(int(part) for part in info.get("redis_version", "0").split(".")[:2] if part.isdigit()) < MIN_VERSION:
        raise Unsuitable(f"{client.address}: {name} {version} is too old; install Redis 7.0 or newer, or Valkey")
    if info.get("redis_mode") == "cluster" or info.get("cluster_enabled") == "1":
        raise Unsuitable(f"{client.address}: a cluster cannot keep a town's streams together; name a single server")
    eviction = info.get("maxmemory_policy", "unknown")
    if eviction.startswith("allkeys-"):
        raise Unsuitable(
            f"{client.address}: with maxmemory-policy {eviction} the server throws events away when memory is short;"
            " set it to noeviction, and compare the log with a backup if this was changed while it was in use"
        )
    max_memory = int(info.get("maxmemory", "0") or 0)
    return f"{name} {version}", ServerSettings(eviction, _read_durability(client, info), max_memory)


def _read_durability(client: RedisClient, info: dict[str, str]) -> str:
    if info.get("aof_enabled") != "1":
        return "none"
    try:
        [(_, policy)] = client.run_commands(("CONFIG", "GET", "appendfsync"))
    except (LogError, ValueError):  # managed servers refuse CONFIG
        return "unknown"
    found: str = policy.decode()
    return found if found in DURABILITIES else "no"


def read_server_info(client: RedisClient) -> dict[str, str]:
    """Return the fields of the server's INFO."""
    [text] = client.run_commands(("INFO",))
    return dict(line.partition(":")[::2] for line in text.decode(errors="replace").splitlines() if ":" in line)
