"""A self-healing connection to a NATS server or cluster: `publisher.py` is the only other module that uses the nats-py client.

`NatsClient` runs it on a private event loop (`loop.py`). `stream.py` and `coordination.py` build on it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js import JetStreamContext

from fleetlore.errors import Denied, FleetloreError, InvalidUrl, LogError, Unreachable, Unsuitable
from fleetlore.log.nats.errors import (
    NATS_ERRORS,
    ApiError,
    ConnectionLost,
    JetStreamError,
    NoResponder,
    denied_error,
    jetstream_silent_error,
    unreachable_error,
)
from fleetlore.log.nats.loop import LoopThread, cancel_tasks
from fleetlore.settings import mask_url

# --- Parsing the address of a NATS server.

_is_host = re.compile(r"([\w.~-]+|\[[0-9A-Fa-f:.]+(%\w+)?\])(:\d{1,5})?").fullmatch


class NatsAddress(NamedTuple):
    """A parsed address. `servers` contain no secrets and may be shown; the other fields may not."""

    servers: list[str]
    user: str | None = None
    password: str | None = None
    token: str | None = None

    @property
    def is_tls(self) -> bool:
        """Whether TLS is required."""
        return self.servers[0].startswith("tls:")


def parse_address(address: str) -> NatsAddress:
    """Parse `nats://user:password@one:4222,two:4222` or `nats://token@one`; the part before `@` may be URL-escaped."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        scheme, _, rest = address.partition(":")
        host = rest.rpartition("@")[2]
        raise InvalidUrl(f"{scheme}: two slashes are missing; did you mean {scheme}://{host if _is_host(host) else 'HOST:4222'}?")
    credentials, at, hosts = rest.rpartition("@")
    if "://" in rest or ("@" in credentials and "," in credentials):
        raise InvalidUrl(f"{scheme}: several servers share one user name and password: use {scheme}://USER:PASSWORD@ONE:4222,TWO:4222")
    servers = [f"{scheme}://{host}" for host in _split_hosts(scheme, hosts)]
    if not at:
        return NatsAddress(servers)
    user, colon, password = credentials.partition(":")
    return NatsAddress(servers, unquote(user), unquote(password)) if colon else NatsAddress(servers, token=unquote(user))


def _split_hosts(scheme: str, hosts: str) -> list[str]:
    hosts, _, path = hosts.partition("/")
    if path:
        raise InvalidUrl(f"{scheme}: there is a path behind the server, which means nothing to NATS; a town is named with ?town=NAME")
    servers = hosts.split(",")
    if not all(map(_is_valid_host, servers)):
        raise InvalidUrl(
            f"{scheme}: not the address of a NATS server; use {scheme}://HOST:4222, and escape / ? @ : in a password (%2F %3F %40 %3A)"
        )
    return servers


def _is_valid_host(host: str) -> bool:
    match = _is_host(host)
    return match is not None and int((match[3] or ":1")[1:]) in range(1, 65536)


# ---

MIN_VERSION = (2, 12, 1)
MIN_PAYLOAD_LIMIT = 512 * 1024
"""An event has at most 256 KiB, plus its subject and headers."""
PING_SECONDS = 5
ADVISORIES = "$JS.EVENT.ADVISORY."
"""Subjects that a user need not be allowed to read."""
RETRY_SECONDS = 0.1
ATTEMPT_SECONDS = 0.5
"""How long one attempt may stay unanswered before the request is sent again.

A cluster needs 4 to 9 s to elect a leader and drops requests meanwhile. With the usual timeout of 10 s the next one has
to follow soon.
"""
MAX_ATTEMPTS = 20
"""With a long timeout, later attempts are spaced out, so that a hanging server does not get hundreds."""
PRUNE_INTERVAL = 10_000
MAX_CREDENTIALS_BYTES = 1 << 20
_DENIED_WORDS = ("authorization violation", "authentication")
_T = TypeVar("_T")
_logger = logging.getLogger("fleetlore.log")

MessageCallback = Callable[[Msg], None]
ReconnectHook = Callable[[], Awaitable[None]]


class _NoTls(nats.errors.Error):
    """The server offers no TLS although the address requires it."""


class _TlsClient(Client):
    """Refuses to log in without TLS for `tls://`; nats-py would send the password in the clear."""

    needs_tls = False

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if self.needs_tls and initial_connection and info.get("tls_available"):
            info["tls_required"] = True  # the server makes it optional; we require it
        await super()._process_info(info, initial_connection)

    def _connect_command(self) -> bytes:
        writer = getattr(self._transport, "_io_writer", None)
        if self.needs_tls and (writer is None or writer.get_extra_info("ssl_object") is None):
            raise _NoTls
        return super()._connect_command()


class _JetStreamInfo(msgspec.Struct):
    error: ApiError | None = None


class _PendingReply:
    """Waits for the answer on one inbox: the first message, or all messages until `more` returns false."""

    __slots__ = ("future", "more", "subjects")

    def __init__(self, subjects: Sequence[str], future: asyncio.Future[Msg], more: Callable[[Msg], bool] | None) -> None:
        self.subjects, self.future, self.more = subjects, future, more

    def handle_message(self, message: Msg) -> bool:
        """Handle an answer; return whether it was the last one."""
        if self.more is not None and self.more(message):
            return False
        if not self.future.done():
            self.future.set_result(message)
        return True

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
            self.future.exception()  # mark as retrieved: if nobody waits any more, asyncio would warn


class NatsClient(LoopThread):
    """Connection to a NATS server with requests, retries and subscriptions.

    `run_coroutine` takes a coroutine to the client's loop from any thread; the coroutine methods are for use on that loop.
    """

    def __init__(self, address: str, *, timeout: float = 10.0, creds: str | None = None) -> None:
        self._address, self._creds = parse_address(address), creds
        super().__init__(mask_url(",".join(self._address.servers)))
        self.servers = tuple(self._address.servers)
        self.timeout = timeout
        self.generation = 0
        """How often the connection was lost; server state that belongs to a connection is lost with it."""
        self._connection: Client | None = None
        self._latest_connection: Client | None = None
        self._online = asyncio.Event()
        self._inbox = ""
        self._request_count = 0
        self._pending_replies: dict[str, _PendingReply] = {}
        self._callbacks: dict[str, MessageCallback] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._hooks: list[ReconnectHook] = []
        self._refusal: asyncio.Future[LogError] | None = None
        self._denial: Denied | None = None
        """Set if the server forbids us to receive its answers."""
        self._last_error: Exception | None = None
        try:
            self.run_coroutine(self._connect_and_check())
        except BaseException:
            self.close()
            raise

    @property
    def connection(self) -> Client:
        """The nats-py client; raises `ConnectionLost` while there is none."""
        if self._connection is None:
            raise ConnectionLost("not connected")
        return self._connection

    @property
    def jetstream(self) -> JetStreamContext:
        """The nats-py JetStream context."""
        return self.connection.jetstream(timeout=self.timeout)

    @property
    def version(self) -> str:
        """The server's version."""
        return ".".join(map(str, _server_version(self.connection)))

    @property
    def is_online(self) -> bool:
        """Whether messages can be sent right now."""
        return self._online.is_set() and self._connection is not None and self._connection.is_connected

    def make_deadline(self) -> float:
        """Return the loop time at which an operation that starts now times out."""
        return self.loop_time() + self.timeout

    async def wait_online(self, deadline: float) -> bool:
        """Wait for the connection; return `False` if it is not there by `deadline` (loop time)."""
        while not self.is_online:
            left = deadline - self.loop_time()
            if left <= 0:
                return False
            with suppress(TimeoutError):
                async with asyncio.timeout(min(RETRY_SECONDS, left)):
                    await self._online.wait()
                    await asyncio.sleep(0 if self.is_online else RETRY_SECONDS)
        return True

    async def send_request(
        self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None, more: Callable[[Msg], bool] | None = None
    ) -> asyncio.Future[Msg]:
        """Send a request without waiting; the future gets the answer or `ConnectionLost`.

        With `more`, answers are passed to it until it returns false.
        """
        inbox, future = self.expect_reply(subject, more=more)
        await self.connection.publish(subject, payload, inbox, headers=headers)  # type: ignore[arg-type]
        return future

    def expect_reply(self, *subjects: str, more: Callable[[Msg], bool] | None = None) -> tuple[str, asyncio.Future[Msg]]:
        """Return a new inbox, and a future for the answer to what is sent to these subjects with it."""
        if not self.is_online:
            raise ConnectionLost("not connected")
        self._request_count += 1
        token = str(self._request_count)
        reply = _PendingReply(subjects, self._loop.create_future(), more)
        self._pending_replies[token] = reply
        if self._request_count % PRUNE_INTERVAL == 0:
            self._pending_replies = {token: reply for token, reply in self._pending_replies.items() if not reply.future.done()}
        if self._denial is not None:
            reply.fail(self._denial)
        return f"{self._inbox}.{token}", reply.future

    async def retry_until_answered(
        self, attempt: Callable[[], Awaitable[_T]], *, limit: float = 0.0, progress: Callable[[], int] = lambda: 0
    ) -> _T:
        """Repeat an attempt until it is answered or the timeout is reached. Attempts must be safe to run twice, even concurrently.

        A cluster that elects a leader silently drops requests, so another attempt starts beside one that stays unanswered. The
        first answer to any of them counts, so a slow server still gets its answer through. `limit` is the time before the next
        attempt, if the usual one is too short. `progress` counts the received parts of a long answer; while it grows, no new
        attempt starts.
        """
        deadline, last_progress = self.make_deadline(), 0
        limit, count = max(limit, ATTEMPT_SECONDS), 0
        attempts: set[asyncio.Task[_T]] = set()
        try:
            while await self.wait_online(deadline) and self.loop_time() < deadline:
                if not attempts or progress() == last_progress:
                    attempts.add(task := self._loop.create_task(_as_coroutine(attempt)))
                    task.add_done_callback(_is_failed)  # retrieves the exception: asyncio warns otherwise
                    count += 1
                    if count > MAX_ATTEMPTS:
                        limit = max(limit, self.timeout / MAX_ATTEMPTS)
                last_progress = progress()
                timeout = min(limit, deadline - self.loop_time())
                ended, attempts = await asyncio.wait(attempts, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                if final := [task for task in ended if not _is_transient(task.exception())]:
                    return min(final, key=_is_failed).result()
                if ended:
                    await asyncio.sleep(min(RETRY_SECONDS, max(0.0, deadline - self.loop_time())))
        finally:
            await cancel_tasks(attempts)
        raise self.make_timeout_error()

    def make_timeout_error(self) -> Unreachable:
        """Return the error for a timeout."""
        return jetstream_silent_error(self.display_address) if self.is_online else unreachable_error(self.display_address)

    async def request_with_retry(self, subject: str, payload: bytes = b"") -> Msg:
        """Return the answer to a request that may be repeated."""

        async def attempt() -> Msg:
            message = await (await self.send_request(subject, payload))
            if is_no_responder(message):
                raise NoResponder
            return message

        return await self.retry_until_answered(attempt)

    def on_reconnect(self, hook: ReconnectHook) -> None:
        """Register a hook that runs whenever the connection is back."""
        self._hooks.append(hook)

    async def subscribe(self, subject: str, callback: MessageCallback) -> None:
        """Pass every message on a subject to `callback`, on this and all later connections."""
        self._callbacks[subject] = callback
        if self._connection is not None:
            self._subscriptions[subject] = await self._subscribe_to(subject, callback)

    async def unsubscribe(self, subject: str) -> None:
        """End a subscription."""
        self._callbacks.pop(subject, None)
        subscription = self._subscriptions.pop(subject, None)
        if subscription is not None:
            with suppress(nats.errors.Error):
                await subscription.unsubscribe()

    # --- connecting and reconnecting

    async def _connect_and_check(self) -> None:
        await self._open_connection()
        version, max_payload = _server_version(self.connection), self.connection.max_payload
        if version < MIN_VERSION:
            raise Unsuitable(
                f"{self.display_address}: nats-server {'.'.join(map(str, version))} is too old, and would silently ignore what a log needs;"
                f" install nats-server {'.'.join(map(str, MIN_VERSION))} or newer"
            )
        if max_payload < MIN_PAYLOAD_LIMIT:
            raise Unsuitable(
                f"{self.display_address}: max_payload is {max_payload}; set it to {MIN_PAYLOAD_LIMIT} or more (1MB is the default)"
            )

        async def request_info() -> Msg:
            return await (await self.send_request("$JS.API.INFO"))

        message = await self.retry_until_answered(request_info)
        if is_no_responder(message):
            raise Unsuitable(
                f"{self.display_address}: JetStream is off; start the server with -js, or with `jetstream {{}}` in its settings"
            )
        if (error := msgspec.json.decode(message.data, type=_JetStreamInfo).error) is not None:
            raise JetStreamError(error)

    async def _open_connection(self) -> None:
        """Open a new connection, with a timeout: nats-py itself would try forever, even with a wrong password."""
        connection = self._latest_connection = _TlsClient()
        connection.needs_tls = self._address.is_tls
        self._refusal = self._loop.create_future()
        connecting = self._loop.create_task(self._connect_with_credentials(connection))
        try:
            waiting: set[asyncio.Future[Any]] = {connecting, self._refusal}
            await asyncio.wait(waiting, timeout=self.timeout, return_when=asyncio.FIRST_COMPLETED)
            if connecting.done() and connecting.exception() is None:
                self._connection = connection
                await self._subscribe_all()
                self._online.set()
                return
        finally:
            refusal = self._refusal.result() if self._refusal.done() else None
            self._refusal.cancel()
            await cancel_tasks({connecting})
            if self._connection is not connection:
                await close_client(connection)
        error = None if connecting.cancelled() else connecting.exception()
        if isinstance(error, FleetloreError):
            raise error
        raise refusal or self._make_connect_error(error) from error

    def _make_connect_error(self, error: BaseException | None) -> LogError:
        if self._creds is not None and error is not None and not isinstance(error, NATS_ERRORS):
            return Denied(f"{self.display_address}: ?creds={self._creds}: no credentials that can be used ({type(error).__name__})")
        if isinstance(self._last_error, ssl.SSLError):
            return Unreachable(f"{self.display_address}: no safe connection ({self._last_error.reason}); check the server's certificate")
        return unreachable_error(self.display_address)

    async def _connect_with_credentials(self, connection: Client) -> None:
        if self._creds is not None:
            check_credentials(self._creds)
        await connection.connect(
            self._address.servers,
            name="fleetlore",
            user=self._address.user,
            password=self._address.password,
            token=self._address.token,
            user_credentials=self._creds,
            tls=ssl.create_default_context() if self._address.is_tls else None,
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnected,
            reconnected_cb=self._on_reconnected,
            closed_cb=self._on_closed,
            max_reconnect_attempts=-1,
            reconnect_time_wait=RETRY_SECONDS,  # type: ignore[arg-type]  # typed int, but any number works
            connect_timeout=max(1, int(self.timeout)),
            ping_interval=PING_SECONDS,
        )

    async def _on_error(self, error: Exception) -> None:
        self._last_error = error
        if self._latest_connection is not None and not self._latest_connection.is_connected:
            drop_transport(self._latest_connection)
        words = str(error).lower()
        if isinstance(error, _NoTls):
            self._set_refusal(
                Unsuitable(f"{self.display_address}: the server offers no TLS, so nothing was sent; set `tls {{…}}` there, or say nats://")
            )
        elif any(word in words for word in _DENIED_WORDS):
            self._set_refusal(denied_error(self.display_address))
        if "permissions violation" in words:
            self._on_permission_denied(words.removeprefix("nats: "))

    def _set_refusal(self, error: LogError) -> None:
        if self._refusal is not None and not self._refusal.done():
            self._refusal.set_result(error)

    def _on_permission_denied(self, words: str) -> None:
        """Fail the pending replies of a forbidden subject; the server reports it only here, with the subject in lower case."""
        error = denied_error(self.display_address, words)
        needed = [subject for subject in self._callbacks if not subject.startswith(ADVISORIES)]
        if "subscription" in words and any(f'"{subject.lower()}"' in words for subject in (f"{self._inbox}.*", *needed)):
            self._denial = error
        for token, reply in list(self._pending_replies.items()):
            if self._denial is not None or any(f'"{subject.lower()}"' in words for subject in reply.subjects):
                del self._pending_replies[token]
                reply.fail(error)

    async def _on_disconnected(self) -> None:
        if self._online.is_set() and not self._closed:
            _logger.warning("%s: the connection was lost; trying again until it is back", self.display_address)
        self._online.clear()
        self._denial = None
        self.generation += 1
        self._fail_pending_replies()

    def _fail_pending_replies(self) -> None:
        waiting, self._pending_replies = self._pending_replies, {}
        for reply in waiting.values():
            reply.fail(ConnectionLost("the connection broke"))

    async def _on_reconnected(self) -> None:
        self._online.set()
        _logger.info("%s: connected again", self.display_address)
        for hook in self._hooks:
            self.spawn(_run_hook_quietly(hook))

    async def _on_closed(self) -> None:
        """Reconnect: nats-py gives up after some server errors, such as expired credentials."""
        if not self._closed and self._connection is not None and self._connection.is_closed:
            self._connection = None
            self.spawn(self._restore_connection())

    async def _restore_connection(self) -> None:
        while self._connection is None:
            try:
                await self._open_connection()
            except LogError as error:
                _logger.debug("%s", error)
                await asyncio.sleep(RETRY_SECONDS)
        await self._on_reconnected()

    async def _subscribe_all(self) -> None:
        self._inbox, self._denial = self.connection.new_inbox(), None
        await self._subscribe_to(f"{self._inbox}.*", self._on_answer)
        for subject, callback in self._callbacks.items():
            self._subscriptions[subject] = await self._subscribe_to(subject, callback)

    async def _subscribe_to(self, subject: str, callback: MessageCallback) -> Subscription:
        async def call_back(message: Msg) -> None:
            callback(message)

        # No limits: we only get what we asked for, and nats-py would drop messages beyond them.
        return await self.connection.subscribe(subject, cb=call_back, pending_msgs_limit=0, pending_bytes_limit=0)

    def _on_answer(self, message: Msg) -> None:
        token = message.subject[len(self._inbox) + 1 :]
        reply = self._pending_replies.get(token)
        if reply is not None and reply.handle_message(message):
            del self._pending_replies[token]

    def _abort_connection(self) -> None:
        with suppress(AttributeError, OSError):
            self._latest_connection._transport._io_writer.transport.abort()  # type: ignore[union-attr]

    async def _close_connection(self) -> None:
        if self._connection is not None:
            await close_client(self._connection)


def check_credentials(file: str) -> None:
    """Raise `Denied` unless a file contains NATS credentials; nats-py would retry forever."""
    if find_spec("nkeys") is None:
        raise LogError("nats: for ?creds= the module nkeys is needed; pip install 'fleetlore[nats]'")
    try:
        with open(file, "rb") as stream:
            content = stream.read(MAX_CREDENTIALS_BYTES)
    except OSError as error:
        raise Denied(f"?creds={file}: cannot be read ({error.strerror}); name another file, or let yourself read it") from error
    if b"BEGIN NATS USER JWT" not in content or b"BEGIN USER NKEY SEED" not in content:
        raise Denied(f"?creds={file}: no NATS credentials in it; make some with `nsc generate creds`")


def message_status(message: Msg) -> str:
    """Return the status header of an answer, or an empty string."""
    return (message.headers or {}).get("Status", "")


def is_no_responder(message: Msg) -> bool:
    """Return whether the server says that nobody listens on the subject."""
    return not message.data and message_status(message) == "503"


async def _as_coroutine(attempt: Callable[[], Awaitable[_T]]) -> _T:
    return await attempt()


def _is_failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None


def _is_transient(error: BaseException | None) -> bool:
    """Return whether another attempt may succeed."""
    if isinstance(error, JetStreamError):
        return error.is_transient
    return isinstance(error, ConnectionLost | TimeoutError | nats.errors.ConnectionClosedError)


def _server_version(connection: Client) -> tuple[int, int, int]:
    version = connection.connected_server_version
    return version.major, version.minor, version.patch


async def _run_hook_quietly(hook: ReconnectHook) -> None:
    with suppress(LogError, *NATS_ERRORS):
        await hook()


def drop_transport(connection: Client) -> None:
    """Close the socket of a failed attempt; nats-py 2.16 leaks it."""
    with suppress(AttributeError, OSError):
        connection._transport.close()  # type: ignore[union-attr]


async def close_client(connection: Client) -> None:
    """Close a client, at most 5 s long; never raises."""
    with suppress(nats.errors.Error, OSError, TimeoutError, AttributeError, AssertionError):
        async with asyncio.timeout(5):
            await connection.close()
