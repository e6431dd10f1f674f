"""What the users of one log share beside its events: how far each has read, who may do what just now, whose tokens are known, its seal.

A cursor is a name for a position. A lease is a right that ends by itself; each taking of it has an epoch, which only
ever grows. Whoever acts under a lease hands the epoch on, and whoever is acted upon refuses one lower than it has seen:
a holder that was frozen and does not know that its time is over then does no harm. A token lets its bearer in over the
network; tokens.py tells what is kept of it. The seal says who may steer; seal.py tells how.

All are kept where the log is, a town's apart from another's: in the file of `sqlite:`, on the server of `redis:` and
`nats:`, and for `memory:` in the handle alone, which nobody else sees and which takes them along when it is closed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, ParamSpec, Protocol, Self, TypeVar

from msgspec import Struct

from fleetlore import clock
from fleetlore.errors import Busy, Closed, Invalid, InvalidUrl
from fleetlore.events.names import is_name
from fleetlore.log import connect
from fleetlore.log import seal as seal_rules
from fleetlore.log import tokens as token_rules
from fleetlore.log.base import Position
from fleetlore.log.seal import Seal
from fleetlore.log.tokens import Token

MIN_LEASE_SECONDS, MAX_LEASE_SECONDS = 0.001, 366 * 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_is_position = re.compile(r"[0-9-]{1,100}", re.ASCII).fullmatch
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Lease(Struct, frozen=True, kw_only=True):
    """One taking of a lease."""

    name: str
    holder: str
    epoch: int
    """Higher than that of every earlier taking of this name, on this log, for ever; a renewal keeps it."""
    until: datetime
    """When it ends unless it is renewed: a hint, for the engine decides by its own clock."""
    seconds: float
    """How long it was asked for."""


class CoordinationStore(Protocol):
    """Where one town's cursors, leases, tokens and seal are kept; called from any thread."""

    def load_cursor(self, name: str) -> Position | None:
        """The position of a cursor."""

    def commit_cursor(self, name: str, position: Position) -> None:
        """Move a cursor."""

    def list_cursors(self) -> dict[str, Position]:
        """Every cursor."""

    def delete_cursor(self, name: str) -> None:
        """Drop a cursor."""

    def take(self, name: str, holder: str, seconds: float) -> Lease | None:
        """Take a lease if it is free or the holder's own."""

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """Let a lease last longer, or `LeaseLost`."""

    def release(self, lease: Lease) -> None:
        """End a lease, if it is still this one."""

    def find_lease(self, name: str) -> Lease | None:
        """The lease as it is held now."""

    def save_token(self, token: Token) -> None:
        """Keep a token under its id."""

    def list_tokens(self) -> list[Token]:
        """Every token."""

    def delete_token(self, id: str) -> None:
        """Drop a token."""

    def load_seal(self) -> bytes | None:
        """The seal."""

    def set_seal(self, seal: bytes, expect: bytes | None) -> bool:
        """Put a seal in the place of another, or of none; `False` if that is not what is there. Done twice, it is done."""

    def close(self) -> None:
        """Let go of files and connections."""


class Coordination:
    """The cursors, leases, tokens and seal of one town: `with open_shared(url) as shared`. Any number of threads may use it at once."""

    def __init__(self, open_keeper: Callable[[], CoordinationStore]) -> None:
        self._open_store = open_keeper
        self._store: CoordinationStore | None = None

    def __enter__(self) -> Self:
        self._store = self._open_store()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the log. Leases that were taken stay until they end."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def as_async(self) -> AsyncCoordination:
        """The same verbs for asyncio: `async with open_shared(url).aio() as shared`."""
        return AsyncCoordination(self)

    # --- cursors

    def load_cursor(self, name: str) -> Position | None:
        """The position that was last committed under a name."""
        return self._require_store().load_cursor(_validate_name("cursor", name))

    def commit_cursor(self, name: str, position: Position) -> None:
        """Remember a position, the last word wins; as durable as the log's events when it returns."""
        if not _is_position(position):
            raise Invalid(f"not a position: {position!r}; 1 to 100 digits and hyphens are needed, as the log gives them")
        self._require_store().commit_cursor(_validate_name("cursor", name), position)

    def list_cursors(self) -> dict[str, Position]:
        """Every cursor, by name."""
        return dict(sorted(self._require_store().list_cursors().items()))

    def delete_cursor(self, name: str) -> None:
        """Drop a cursor; nothing happens if there is none."""
        self._require_store().delete_cursor(_validate_name("cursor", name))

    # --- leases

    def take(self, name: str, holder: str, seconds: float) -> Lease | None:
        """Take a lease for so long; `None` while another holds it. Whoever holds it already gets a new epoch, and loses the old one.

        NATS counts whole seconds and rounds up.
        """
        return self._require_store().take(_validate_name("lease", name), _validate_name("holder", holder), _validate_lease_seconds(seconds))

    def renew(self, lease: Lease, seconds: float | None = None) -> Lease:
        """Let a lease last so long from now, by default as long as before. `LeaseLost` if it ended, was released or was taken since."""
        return self._require_store().renew(lease, _validate_lease_seconds(lease.seconds if seconds is None else seconds))

    def release(self, lease: Lease) -> None:
        """Let the next one in. A lease that was lost is let be, whoever has it now."""
        self._require_store().release(lease)

    def find_lease(self, name: str) -> Lease | None:
        """The lease as it is held now, or `None` if it is free."""
        return self._require_store().find_lease(_validate_name("lease", name))

    # --- tokens

    def save_token(self, token: Token) -> None:
        """Let a token in from now on; one of the same id gives way. As durable as the log's events when it returns."""
        self._require_store().save_token(token_rules.validate_token(token))

    def list_tokens(self) -> list[Token]:
        """Every token, the oldest first, those whose time is up among them."""
        return sorted(self._require_store().list_tokens(), key=lambda token: (token.created_at, token.id))

    def delete_token(self, id: str) -> None:
        """Let a token in no more; nothing happens if there is none."""
        self._require_store().delete_token(token_rules.validate_token_id(id))

    # --- the seal

    def load_seal(self) -> Seal | None:
        """The seal, `None` if there is none; one that cannot be read is `Damaged`, never an open door."""
        kept = self._require_store().load_seal()
        return None if kept is None else seal_rules.decode_seal(kept)

    def set_seal(self, seal: Seal, expect: Seal | None) -> None:
        """Put a seal in the place of the one expected, or of none; `Busy` if another came first. As durable as the log's events."""
        before = None if expect is None else seal_rules.encode_seal(expect)
        if not self._require_store().set_seal(seal_rules.encode_seal(seal_rules.check_seal(seal)), before):
            raise Busy("somebody else has sealed this log, or changed its passphrase, meanwhile; look with `lore seal --status`")

    def _require_store(self) -> CoordinationStore:
        if self._store is None:
            raise Closed("not open; use it inside `with open_shared(url) as shared`")
        return self._store


class AsyncCoordination:
    """`Shared`, each verb in a thread of its own while the loop goes on."""

    def __init__(self, shared: Coordination) -> None:
        self._coordination = shared

    async def __aenter__(self) -> Self:
        await _run_in_thread(self._coordination.__enter__)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await _run_in_thread(self._coordination.close)

    async def load_cursor(self, name: str) -> Position | None:
        """See `Shared.load`."""
        return await _run_in_thread(self._coordination.load_cursor, name)

    async def commit_cursor(self, name: str, position: Position) -> None:
        """See `Shared.commit`."""
        await _run_in_thread(self._coordination.commit_cursor, name, position)

    async def list_cursors(self) -> dict[str, Position]:
        """See `Shared.cursors`."""
        return await _run_in_thread(self._coordination.list_cursors)

    async def delete_cursor(self, name: str) -> None:
        """See `Shared.forget`."""
        await _run_in_thread(self._coordination.delete_cursor, name)

    async def take(self, name: str, holder: str, seconds: float) -> Lease | None:
        """See `Shared.take`."""
        return await _run_in_thread(self._coordination.take, name, holder, seconds)

    async def renew(self, lease: Lease, seconds: float | None = None) -> Lease:
        """See `Shared.renew`."""
        return await _run_in_thread(self._coordination.renew, lease, seconds)

    async def release(self, lease: Lease) -> None:
        """See `Shared.release`."""
        await _run_in_thread(self._coordination.release, lease)

    async def find_lease(self, name: str) -> Lease | None:
        """See `Shared.holder_of`."""
        return await _run_in_thread(self._coordination.find_lease, name)

    async def save_token(self, token: Token) -> None:
        """See `Shared.keep_token`."""
        await _run_in_thread(self._coordination.save_token, token)

    async def list_tokens(self) -> list[Token]:
        """See `Shared.tokens`."""
        return await _run_in_thread(self._coordination.list_tokens)

    async def delete_token(self, id: str) -> None:
        """See `Shared.drop_token`."""
        await _run_in_thread(self._coordination.delete_token, id)

    async def load_seal(self) -> Seal | None:
        """See `Shared.seal`."""
        return await _run_in_thread(self._coordination.load_seal)

    async def set_seal(self, seal: Seal, expect: Seal | None) -> None:
        """See `Shared.set_seal`."""
        await _run_in_thread(self._coordination.set_seal, seal, expect)


async def _run_in_thread(work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    from asyncio import to_thread  # the blocking door does without it

    return await to_thread(work, *args, **kwargs)


def next_epoch(last: int, now: int) -> int:
    """The epoch after `last`, at a time in microseconds.

    The time is in it so that epochs go on growing where the last one is not known any more: a backup was restored, or
    a server lost its newest second.
    """
    return max(last + 1, now)


def epoch_microseconds(moment: datetime) -> int:
    """A time as it is kept, in microseconds."""
    return (moment - _EPOCH) // _MICROSECOND


def seconds_to_microseconds(seconds: float) -> int:
    """The length of a lease as it is kept."""
    return timedelta(seconds=seconds) // _MICROSECOND


def make_lease(name: str, holder: str, epoch: int, until: int, seconds: float) -> Lease:
    """A lease by what is kept of it."""
    return Lease(name=name, holder=holder, epoch=epoch, until=_EPOCH + until * _MICROSECOND, seconds=seconds)


def _validate_name(what: str, name: str) -> str:
    if is_name(name):
        return name
    raise Invalid(f"not a name for a {what}: {name!r}; 1 to 200 bytes without control characters are needed")


def _validate_lease_seconds(seconds: float) -> float:
    if MIN_LEASE_SECONDS <= seconds <= MAX_LEASE_SECONDS:
        return float(seconds)
    raise Invalid(f"a lease of {seconds} seconds; it must last at least {MIN_LEASE_SECONDS} and at most {MAX_LEASE_SECONDS}")


# --- opening


def open_shared(url: str = connect.DEFAULT_URL, *, town: str | None = None, now: clock.Clock = clock.now) -> Coordination:
    """The cursors, leases, tokens and seal beside the log at an address, which is read as `connect()` reads it.

    `now` is for tests of `memory:` and `sqlite:`; a server goes by its own clock.
    """
    scheme, place, options, name = connect.resolve_url(url, town)
    match scheme:
        case "memory":
            return Coordination(lambda: _open_memory(options, now))
        case "sqlite":
            return Coordination(lambda: _open_sqlite(place, options, name, now))
        case "redis" | "rediss" | "unix":
            return Coordination(lambda: _open_redis(place, options, name))
        case "nats" | "tls":
            return Coordination(lambda: _open_nats(place, options, name))
        case _:
            raise connect.unknown_scheme_error(scheme)


def _open_memory(options: dict[str, str], now: clock.Clock) -> CoordinationStore:
    from fleetlore.log.memory.coordination import MemoryCoordination

    if options:
        raise InvalidUrl(f"memory: takes no options, not ?{next(iter(options))}=; leave it out")
    return MemoryCoordination(now=now)


def _open_sqlite(path: str, options: dict[str, str], town: str, now: clock.Clock) -> CoordinationStore:
    from fleetlore.log.sqlite import file as sqlite_file
    from fleetlore.log.sqlite.coordination import SqliteCoordination

    known = sqlite_file.parse_options(options)
    return SqliteCoordination(connect.resolve_sqlite_path(path), town=town, now=now, **_select_options(known, "timeout"))


def _open_redis(address: str, options: dict[str, str], town: str) -> CoordinationStore:
    with connect.require_extra("redis"):
        from fleetlore.log.redis import log as redis_log
        from fleetlore.log.redis.coordination import RedisCoordination

    return RedisCoordination(address, town=town, **_select_options(redis_log.parse_options(options), "timeout"))


def _open_nats(address: str, options: dict[str, str], town: str) -> CoordinationStore:
    with connect.require_extra("nats"):
        from fleetlore.log.nats import log as nats_log
        from fleetlore.log.nats.coordination import NatsCoordination

    return NatsCoordination(address, town=town, **_select_options(nats_log.parse_options(options), "timeout", "creds", "replicas"))


def _select_options(options: dict[str, Any], *names: str) -> dict[str, Any]:
    """The options that mean something here; the others are the log's."""
    return {name: options[name] for name in names if name in options}
