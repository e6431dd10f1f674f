"""Translates errors of a NATS server to `LogError`s. The only module that knows its error codes."""

from __future__ import annotations

import asyncio

import nats.errors
from msgspec import Struct
from nats.js.errors import APIError

from fleetlore.errors import Closed, Denied, LogError, StorageFull, Unreachable, Unsuitable

NO_STREAM = 10059
NAME_IN_USE = 10058
NO_MESSAGE = frozenset({10037, 10043, 10057})
WRONG_LAST_SEQUENCE = frozenset({10071, 10164})
"""The expected head of a scope is not current; the second code comes from clusters."""
NO_ROLLUP = 10111
FILTERS_OVERLAP = 10138
DUPLICATE_ID = 10201
"""A batch contains an id that the stream already has."""

_NO_CLUSTER = 10074
_NO_ROOM_CODES = frozenset({10002, 10023, 10028, 10047, 10054, 10077, 10120, 10122})
_UNSUITABLE_CODES = frozenset({10039, 10052, 10065, 10074, 10076, 10174})
# A message of a batch was lost, or too many batches are open: nothing was stored, and a retry may succeed.
_TRANSIENT_CODES = frozenset({10008, 10158, 10167, 10176, 10207, 10210})


class ApiError(Struct, frozen=True):
    """The `error` of JetStream's answers."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class ConnectionLost(Exception):
    """The connection broke, or nobody answered; a retry is right."""


class NoResponder(ConnectionLost):
    """Nobody listens on the subject: JetStream is not up yet, or the stream is gone. Nothing was stored."""

    def __init__(self) -> None:
        super().__init__("nobody answers")


class JetStreamError(Exception):
    """JetStream refused a request."""

    def __init__(self, error: ApiError) -> None:
        self.code = error.err_code
        self.description = error.description or f"error {error.code}"
        self.is_no_room = error.err_code in _NO_ROOM_CODES
        self.is_transient = error.err_code in _TRANSIENT_CODES or (error.code in (429, 503) and not self.is_no_room)
        super().__init__(self.description)


NATS_ERRORS = (nats.errors.Error, ConnectionLost, JetStreamError, OSError, TimeoutError)
"""Errors on the way to a server; `translate_error` handles each."""


def translate_error(address: str, error: BaseException) -> LogError:
    """Return the `LogError` for a NATS error, with what to do next. `address` is the server's address without secrets."""
    match error:
        case LogError():
            return error
        case JetStreamError():
            return _translate_refusal(address, error.code, error.description)
        case APIError():
            return _translate_refusal(address, error.err_code or 0, error.description or str(error.code))
        case nats.errors.AuthorizationError():
            return denied_error(address)
        case asyncio.CancelledError() | nats.errors.ConnectionClosedError() | nats.errors.ConnectionDrainingError():
            return closed_error()
        case nats.errors.MaxPayloadError():
            return Unsuitable(f"{address}: the server takes no message of that size; raise its max_payload to 1MB")
        case _:
            return unreachable_error(address)


def _translate_refusal(address: str, code: int, description: str) -> LogError:
    if code in _NO_ROOM_CODES:
        return StorageFull(
            f"{address}: no room left ({description}); raise the server's JetStream limits or trim (what was acknowledged is safe)"
        )
    if code == NO_STREAM:
        return LogError(f"{address}: the town's stream was deleted on the server; open the log again with connect() to make a new one")
    if code == _NO_CLUSTER and "non-clustered" in description:
        return Unsuitable(f"{address}: the server refused ({description}); leave ?replicas= out, or use a cluster")
    if code in _UNSUITABLE_CODES:
        return Unsuitable(f"{address}: the server cannot keep this log as it is set up ({description})")
    return LogError(f"{address}: the server refused ({description}, {code})")


def unreachable_error(address: str) -> Unreachable:
    """Return the error for a server that does not answer."""
    return Unreachable(f"{address}: does not answer; check that nats-server runs there, or raise ?timeout= (seconds)")


def jetstream_silent_error(address: str) -> Unreachable:
    """Return the error for a connected server whose JetStream does not answer."""
    return Unreachable(
        f"{address}: is connected, but JetStream does not answer; in a cluster, check that most of its servers run, or it has no leader"
        " (`nats server report jetstream`); or raise ?timeout= (seconds)"
    )


def missing_stream_error(address: str, stream: str) -> Unreachable:
    """Return the error for a server that does not have the stream."""
    return Unreachable(
        f"{address}: nobody keeps the stream {stream} there; in a cluster, check that most of its servers run;"
        " if the stream was deleted, open the log again with connect()"
    )


def denied_error(address: str, what: str = "") -> Denied:
    """Return the error for a rejected login, or for the forbidden operation `what`."""
    if what:
        return Denied(f"{address}: the server forbids this ({what}); allow fl.>, fl-erased.>, fl-meta.>, $JS.API.> and _INBOX.>")
    return Denied(f"{address}: the server does not let us in; check user, password or token in the address, or ?creds=FILE")


def closed_error() -> Closed:
    """Return the error for use after close."""
    return Closed("the log was closed; open it again with connect()")
