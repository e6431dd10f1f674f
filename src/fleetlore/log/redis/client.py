"""The connection to a Redis or Valkey server. The only module that knows redis-py.

Commands go out and raw answers come back, several in one round trip. Whatever Fleetlore sends may be
repeated, so a broken connection is made anew and the commands are sent again until the patience ends.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha1
from time import monotonic, sleep
from typing import Any, TypeAlias

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
from fleetlore.errors import Closed, Denied, InvalidUrl, LogError, NoRoom, Unanswered, Unreachable, Unsuitable, Unwritable

Command: TypeAlias = Sequence[str | bytes | int]
Answer: TypeAlias = Any
"""Bytes, numbers, lists of them, or `None`; a `ResponseError` where the server refused the command."""

ScriptMissing = NoScriptError
"""The server does not know a script any more."""
MIN_VERSION = (7, 0)
_CONNECTION_ERRORS = (ConnectionError, TimeoutError, OSError, TryAgainError)
# Nothing was done: another script runs, or the server has no primary just now. It passes.
_TRANSIENT_PREFIXES = ("BUSY", "MASTERDOWN", "TRYAGAIN", "LOADING")
_ABORT_MARKER = "because of: "
_FIRST_BACKOFF, _MAX_BACKOFF = 0.02, 0.5


class ConnectionBroken(Exception):
    """The server could not be asked, in all the time that there was. `sent`: whether it may have heard the commands."""

    def __init__(self, error: Exception, *, sent: bool) -> None:
        self.error, self.sent = error, sent
        super().__init__(str(error))


class RedisConnection:
    """One connection; made when it is first used, and again after it broke."""

    def __init__(self, connection: Any, in_our_words: Callable[[Exception], LogError]) -> None:
        self._connection, self._translate_error = connection, in_our_words

    def ask(self, commands: Sequence[Command]) -> list[Answer]:
        """The answers to several commands, in one round trip; `Broken` if they do not come."""
        sent = False
        try:
            self._connection.connect()
            sent = True
            self._connection.send_packed_command(self._connection.pack_commands(commands))
            return [self._read_answer() for _ in commands]
        except BaseException as error:
            self.disconnect()  # half an answer may still be on its way
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
        """Close the connection; the next question makes a new one."""
        self._connection.disconnect()

    def interrupt(self) -> None:
        """Break the connection under a thread that waits for its answer."""
        found: socket.socket | None = self._connection._sock
        if found is not None:
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)


class RedisClient:
    """As many connections to one server as there are threads that ask at once."""

    def __init__(self, address: str, *, timeout: float, ca: str | None = None) -> None:
        self.address = settings.masked(address)
        self.timeout = timeout
        self._create_raw_connection = _connection_factory(address, timeout, ca)
        self._idle: list[RedisConnection] = []
        self._digests: dict[str, str] = {}
        self._sources: dict[str, str] = {}
        self._owner_pid = os.getpid()
        self.closed = False

    def ask(self, *commands: Command) -> list[Answer]:
        """The answers to commands that only read, or that may be sent twice; refusals are raised."""
        try:
            answers = self.send_commands(commands)
        except ConnectionBroken as broken:
            raise self.make_unreachable_error(broken.error) from broken
        return [self.unwrap_answer(answer) for answer in answers]

    def send_commands(self, commands: Sequence[Command]) -> list[Answer]:
        """The answers, refusals among them; tried again on a new connection until the time is over, then `Broken`."""
        self.check_open()
        deadline, pause, sent = monotonic() + self.timeout, _FIRST_BACKOFF, False
        while True:
            line = self._acquire_connection()
            try:
                answers = line.ask(commands)
            except ConnectionBroken as broken:
                sent = sent or broken.sent
                self._close_idle()  # what broke one connection has most likely broken all
                if self.closed:
                    raise ConnectionBroken(broken.error, sent=sent) from broken
                if monotonic() + pause >= deadline:
                    raise ConnectionBroken(broken.error, sent=sent) from broken
                sleep(pause)
                pause = min(2 * pause, _MAX_BACKOFF)
            else:
                self._release_connection(line)
                return answers

    def _acquire_connection(self) -> RedisConnection:
        try:
            return self._idle.pop()
        except IndexError:
            return self._create_connection()

    def _release_connection(self, line: RedisConnection) -> None:
        if self.closed:
            line.disconnect()
        else:
            self._idle.append(line)

    def run_scripts(self, calls: Sequence[Command]) -> list[Answer]:
        """The answers to calls made by `script`; a server that has lost the scripts is given them again."""
        answers = self.send_commands(calls)
        if not any(isinstance(answer, NoScriptError) for answer in answers):
            return answers
        return self.send_commands([self.to_eval_command(call) for call in calls])

    def run_script(self, source: str, keys: Sequence[str], arguments: Sequence[str | bytes | int]) -> Answer:
        """The answer to one script; a refusal, or no answer at all, is raised."""
        try:
            [answer] = self.run_scripts([self.make_script_command(source, keys, arguments)])
        except ConnectionBroken as broken:
            raise self.make_unanswered_error(broken) from broken
        return self.unwrap_answer(answer)

    def make_script_command(self, source: str, keys: Sequence[str], arguments: Sequence[str | bytes | int]) -> Command:
        """The command that runs a script that the server knows."""
        digest = self._digests.get(source)
        if digest is None:
            digest = self._digests[source] = sha1(source.encode(), usedforsecurity=False).hexdigest()
            self._sources[digest] = source
        return ("EVALSHA", digest, len(keys), *keys, *arguments)

    def to_eval_command(self, call: Command) -> Command:
        """The same for a server that does not know it, and will from now on."""
        return ("EVAL", self._sources[str(call[1])], *call[2:])

    def open_connection(self) -> RedisConnection:
        """A connection for one user alone."""
        self.check_open()
        return self._create_connection()

    def _create_connection(self) -> RedisConnection:
        return RedisConnection(self._create_raw_connection(), self.translate_error)

    def unwrap_answer(self, answer: Answer) -> Answer:
        """The answer, or the refusal raised."""
        if isinstance(answer, RedisError):
            raise self.translate_error(answer)
        return answer

    def make_unreachable_error(self, error: Exception) -> Unreachable:
        """What to say when the server does not answer."""
        return Unreachable(f"{self.address}: the server does not answer ({error}); see that it runs and can be reached, then try again")

    def make_unanswered_error(self, broken: ConnectionBroken, ids: Sequence[str] = ()) -> LogError:
        """What to say when commands were sent, or not even that, and no answer came; `ids` are those of events that were on their way."""
        if not broken.sent:
            return self.make_unreachable_error(broken.error)
        again = "append again with the same ids, nothing is stored twice" if ids else "do it again, what is done stays done"
        return Unanswered(f"{self.address}: the connection broke before the answer came ({broken}); {again}", ids)

    def translate_error(self, error: Exception) -> LogError:
        """What a refusal means, and what to do next."""
        match error:
            case AuthenticationError():
                return Denied(f"{self.address}: user name or password is wrong or missing ({error}); write redis://USER:PASSWORD@HOST")
            case NoPermissionError() | AuthorizationError():
                return Denied(f"{self.address}: this user is not allowed to do that ({error}); ask for rights on its keys and on scripts")
            case OutOfMemoryError():
                return NoRoom(
                    f"{self.address}: the server's memory limit is reached; raise maxmemory, or trim (what was acknowledged is safe)"
                )
            case ReadOnlyError():
                return Unwritable(f"{self.address}: a replica cannot be written; name the primary")
            case ResponseError() if str(error).startswith("ACL failure"):
                return Denied(f"{self.address}: this user is not allowed to do that ({error}); ask for rights on its keys and on scripts")
            case ResponseError() if str(error).startswith("MISCONF"):
                return NoRoom(f"{self.address}: the server cannot write to its disk ({error})")
            case ResponseError() if "DB index" in str(error):
                return Unsuitable(f"{self.address}: {error}; take a lower number behind the /, the server's `databases` is the limit")
            case InvalidResponse():
                return Unsuitable(f"{self.address}: this is not a Redis server; check the port")
            case _:
                return LogError(f"{self.address}: {error}")

    def check_open(self) -> None:
        """Refuse to go on once the log was closed, or in a forked child, which would share its parent's connections."""
        if self.closed:
            raise Closed("the log was closed; open it again with connect()")
        if self.is_forked_child:
            raise Closed("the log was opened before a fork; open it again in the child with connect()")

    def close(self) -> None:
        """Close the connections that nobody uses; the others follow as they are given back."""
        self.closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._acquire_connection().disconnect()

    @property
    def is_forked_child(self) -> bool:
        """Whether this is a forked child, whose parent the connections belong to."""
        return os.getpid() != self._owner_pid


def _connection_factory(address: str, timeout: float, ca: str | None) -> Callable[[], Any]:
    scheme, _, rest = address.partition(":")
    if not rest.startswith("//"):
        if scheme != "unix":
            raise InvalidUrl(f"{settings.masked(address)}: did you mean {scheme}://HOST:6379?")
        address = f"unix://{rest}"
    try:
        options: dict[str, Any] = dict(parse_url(address))  # type: ignore[no-untyped-call]
    except ValueError:  # its words may quote the password
        raise InvalidUrl(
            f"{settings.masked(address)}: not an address of a server; write redis://HOST:6379/0,"
            " and / # ? @ : in a password as %2F %23 %3F %40 %3A"
        ) from None
    if scheme != "unix":
        _check_database(address)
    kind = options.pop("connection_class", Connection)
    options |= {"socket_timeout": timeout, "socket_connect_timeout": timeout, "retry": Retry(NoBackoff(), 0), "protocol": 2}
    if ca is not None and scheme == "rediss":
        options["ssl_ca_certs"] = ca
    return lambda: kind(**options)


def _check_database(address: str) -> None:
    """A database has a number; redis-py would take anything else for the first one."""
    path = address.partition("://")[2].rpartition("@")[2].partition("/")[2]
    if path and not path.isdecimal():
        raise InvalidUrl(
            f"{settings.masked(address)}: /{path} is no database; write a number, as in redis://HOST:6379/0, and the town as ?town=NAME"
        )


def check_server(client: RedisClient) -> str:
    """The server's name and version, if a log can be kept there; `Unsuitable` says why not."""
    facts = read_server_info(client)
    name, version = ("valkey", facts["valkey_version"]) if "valkey_version" in facts else ("redis", facts.get("redis_version", "0"))
    if tuple(int(part) for part in facts.get("redis_version", "0").split(".")[:2] if part.isdigit()) < MIN_VERSION:
        raise Unsuitable(f"{client.address}: {name} {version} is too old; install Redis 7.0 or newer, or Valkey")
    if facts.get("redis_mode") == "cluster" or facts.get("cluster_enabled") == "1":
        raise Unsuitable(f"{client.address}: a cluster cannot keep a town's streams together; name a single server")
    if facts.get("maxmemory_policy", "").startswith("allkeys-"):
        raise Unsuitable(
            f"{client.address}: with maxmemory-policy {facts['maxmemory_policy']} the server throws events away when memory is short;"
            " set it to noeviction"
        )
    return f"{name} {version}"


def read_server_info(client: RedisClient) -> dict[str, str]:
    """What the server says of itself."""
    [text] = client.ask(("INFO",))
    return dict(line.partition(":")[::2] for line in text.decode(errors="replace").splitlines() if ":" in line)
