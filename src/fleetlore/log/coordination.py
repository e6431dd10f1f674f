"""State that the users of one log share beside its events: cursors, leases, tokens and the seal.

- A cursor is a named position: how far a reader got.
- A lease is an exclusive right that expires (`Lease` in `base.py`).
- A token grants access over the network (`tokens.py`).
- The seal holds the key, encrypted with a passphrase, that signs events which control goals and towns (`seal.py`).

All are stored per town where the log is: in the `sqlite:` file, on the `redis:` or `nats:` server. For `memory:` they
belong to the handle and are lost when it closes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, ParamSpec, Protocol, Self, TypeVar

from fleetlore import clock
from fleetlore.errors import Busy, Closed, Invalid, InvalidUrl
from fleetlore.events.envelope import is_name
from fleetlore.log import connect
from fleetlore.log import seal as seal_rules
from fleetlore.log import tokens as token_rules
from fleetlore.log.base import Lease, Position
from fleetlore.log.seal import Seal
from fleetlore.log.tokens import Token

MIN_LEASE_SECONDS, MAX_LEASE_SECONDS = 0.001, 366 * 86_400
_is_position = re.compile(r"[0-9-]{1,100}", re.ASCII).fullmatch
_P = ParamSpec("_P")
_T = TypeVar("_T")


class CoordinationStore(Protocol):
    """Stores one town's cursors, leases, tokens and seal; implemented per backend. Thread-safe."""

    def load_cursor(self, name: str) -> Position | None:
        """Return the position of a cursor."""

    def commit_cursor(self, name: str, position: Position) -> None:
        """Set a cursor."""

    def list_cursors(self) -> dict[str, Position]:
        """Return all cursors by name."""

    def delete_cursor(self, name: str) -> None:
        """Delete a cursor, if it exists."""

    def acquire(self, name: str, holder: str, seconds: float) -> Lease | None:
        """Acquire a lease if it is free or already the holder's; `None` otherwise."""

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """Extend a lease; raise `LeaseLost` if it is not held any more."""

    def release(self, lease: Lease) -> None:
        """End a lease, if it is still this acquisition."""

    def find_lease(self, name: str) -> Lease | None:
        """Return the current lease, or `None`."""

    def save_token(self, token: Token) -> None:
        """Store a token under its id."""

    def list_tokens(self) -> list[Token]:
        """Return all tokens."""

    def delete_token(self, id: str) -> None:
        """Delete a token, if it exists."""

    def load_seal(self) -> bytes | None:
        """Return the encoded seal, or `None`."""

    def set_seal(self, seal: bytes, expect: bytes | None) -> bool:
        """Replace the seal `expect` (`None`: no seal yet); `False` if another one is stored. Idempotent."""

    def close(self) -> None:
        """Close files and connections."""


class Coordination:
    """Cursors, leases, tokens and seal of one town: `with open_shared(url) as shared`. Thread-safe."""

    def __init__(self, open_store: Callable[[], CoordinationStore]) -> None:
        self._open_store = open_store
        self._store: CoordinationStore | None = None

    def __enter__(self) -> Self:
        self._store = self._open_store()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Leases that were taken stay until they expire."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def as_async(self, *, own_thread: bool = False) -> AsyncCoordination:
        """Return the same methods for asyncio: `async with open_shared(url).as_async() as shared`.

        With `own_thread` no call waits for a free thread of the event loop; end that thread with `end_thread`.
        """
        return AsyncCoordination(self, own_thread=own_thread)

    # --- cursors

    def load_cursor(self, name: str) -> Position | None:
        """Return the position last committed under a name, or `None`."""
        return self._require_store().load_cursor(_validate_name("cursor", name))

    def commit_cursor(self, name: str, position: Position) -> None:
        """Store a position; the last write wins. As durable as events when it returns."""
        if not _is_position(position):
            raise Invalid(f"not a position: {position!r}; 1 to 100 digits and hyphens are needed, as the log gives them")
        self._require_store().commit_cursor(_validate_name("cursor", name), position)

    def list_cursors(self) -> dict[str, Position]:
        """Return all cursors, sorted by name."""
        return dict(sorted(self._require_store().list_cursors().items()))

    def delete_cursor(self, name: str) -> None:
        """Delete a cursor, if it exists."""
        self._require_store().delete_cursor(_validate_name("cursor", name))

    # --- leases

    def acquire(self, name: str, holder: str, seconds: float) -> Lease | None:
        """Acquire a lease for `seconds`; `None` while another holder has it.

        A holder that already has it gets a new epoch, and its old one becomes invalid. NATS rounds up to whole seconds.
        """
        return self._require_store().acquire(
            _validate_name("lease", name), _validate_name("holder", holder), _validate_lease_seconds(seconds)
        )

    def renew(self, lease: Lease, seconds: float | None = None) -> Lease:
        """Extend a lease to `seconds` from now, by default its previous duration.

        Raises `LeaseLost` if it expired, was released or was taken by another holder.
        """
        return self._require_store().renew(lease, _validate_lease_seconds(lease.seconds if seconds is None else seconds))

    def release(self, lease: Lease) -> None:
        """Free a lease. Nothing happens if it was lost, even if another holder has it now."""
        self._require_store().release(lease)

    def find_lease(self, name: str) -> Lease | None:
        """Return the current lease, or `None` if it is free."""
        return self._require_store().find_lease(_validate_name("lease", name))

    # --- tokens

    def save_token(self, token: Token) -> None:
        """Store a token and accept it from now on; replaces one with the same id. As durable as events."""
        self._require_store().save_token(token_rules.validate_token(token))

    def list_tokens(self) -> list[Token]:
        """Return all tokens, oldest first, including expired ones."""
        return sorted(self._require_store().list_tokens(), key=lambda token: (token.created_at, token.id))

    def delete_token(self, id: str) -> None:
        """Delete a token, if it exists; it is rejected from now on."""
        self._require_store().delete_token(token_rules.validate_token_id(id))

    # --- the seal

    def load_seal(self) -> Seal | None:
        """Return the seal, or `None`. An unreadable seal raises `Damaged`; it never counts as missing."""
        raw = self._require_store().load_seal()
        return None if raw is None else seal_rules.decode_seal(raw)

    def set_seal(self, seal: Seal, expect: Seal | None) -> None:
        """Replace the seal `expect` (`None`: no seal yet); `Busy` if another one is stored. As durable as events."""
        before = None if expect is None else seal_rules.encode_seal(expect)
        if not self._require_store().set_seal(seal_rules.encode_seal(seal_rules.check_seal(seal)), before):
            raise Busy("somebody else sealed this log or changed its passphrase meanwhile; `lore seal --status` shows the seal")

    def _require_store(self) -> CoordinationStore:
        if self._store is None:
            raise Closed("not open; use it inside `with open_shared(url) as shared`")
        return self._store


class AsyncCoordination:
    """`Coordination` for asyncio: each call runs in a thread."""

    def __init__(self, coordination: Coordination, *, own_thread: bool = False) -> None:
        from concurrent.futures import ThreadPoolExecutor  # not at the top: the blocking API must not import it

        self._coordination = coordination
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="coordination") if own_thread else None

    async def __aenter__(self) -> Self:
        await self.run_in_thread(self._coordination.__enter__)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.run_in_thread(self._coordination.close)

    async def load_cursor(self, name: str) -> Position | None:
        """See `Coordination.load_cursor`."""
        return await self.run_in_thread(self._coordination.load_cursor, name)

    async def commit_cursor(self, name: str, position: Position) -> None:
        """See `Coordination.commit_cursor`."""
        await self.run_in_thread(self._coordination.commit_cursor, name, position)

    async def list_cursors(self) -> dict[str, Position]:
        """See `Coordination.list_cursors`."""
        return await self.run_in_thread(self._coordination.list_cursors)

    async def delete_cursor(self, name: str) -> None:
        """See `Coordination.delete_cursor`."""
        await self.run_in_thread(self._coordination.delete_cursor, name)

    async def acquire(self, name: str, holder: str, seconds: float) -> Lease | None:
        """See `Coordination.acquire`."""
        return await self.run_in_thread(self._coordination.acquire, name, holder, seconds)

    async def renew(self, lease: Lease, seconds: float | None = None) -> Lease:
        """See `Coordination.renew`."""
        return await self.run_in_thread(self._coordination.renew, lease, seconds)

    async def release(self, lease: Lease) -> None:
        """See `Coordination.release`."""
        await self.run_in_thread(self._coordination.release, lease)

    async def find_lease(self, name: str) -> Lease | None:
        """See `Coordination.find_lease`."""
        return await self.run_in_thread(self._coordination.find_lease, name)

    async def save_token(self, token: Token) -> None:
        """See `Coordination.save_token`."""
        await self.run_in_thread(self._coordination.save_token, token)

    async def list_tokens(self) -> list[Token]:
        """See `Coordination.list_tokens`."""
        return await self.run_in_thread(self._coordination.list_tokens)

    async def delete_token(self, id: str) -> None:
        """See `Coordination.delete_token`."""
        await self.run_in_thread(self._coordination.delete_token, id)

    async def load_seal(self) -> Seal | None:
        """See `Coordination.load_seal`."""
        return await self.run_in_thread(self._coordination.load_seal)

    async def set_seal(self, seal: Seal, expect: Seal | None) -> None:
        """See `Coordination.set_seal`."""
        await self.run_in_thread(self._coordination.set_seal, seal, expect)

    async def run_in_thread(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run blocking calls of the coordination as one step."""
        from asyncio import get_running_loop, to_thread  # not at the top: the blocking API must not import asyncio

        if self._thread is None:
            return await to_thread(work, *args, **kwargs)
        return await get_running_loop().run_in_executor(self._thread, partial(work, *args, **kwargs))

    def end_thread(self) -> None:
        """End the thread of `own_thread`, once its last call has returned."""
        if self._thread is not None:
            self._thread.shutdown(wait=False)


def _validate_name(label: str, name: str) -> str:
    if is_name(name):
        return name
    raise Invalid(f"not a name for a {label}: {name!r}; 1 to 200 bytes without control characters are needed")


def _validate_lease_seconds(seconds: float) -> float:
    if MIN_LEASE_SECONDS <= seconds <= MAX_LEASE_SECONDS:
        return float(seconds)
    raise Invalid(f"a lease of {seconds} seconds; it must last at least {MIN_LEASE_SECONDS} and at most {MAX_LEASE_SECONDS}")


# --- opening


def open_shared(url: str = connect.DEFAULT_URL, *, town: str | None = None, now: clock.Clock = clock.now) -> Coordination:
    """Return the cursors, leases, tokens and seal beside the log at a URL; URLs are those of `connect()`.

    `now` is for tests of `memory:` and `sqlite:`; servers use their own clock.
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
    """Select the options used here; the others are for the log."""
    return {name: options[name] for name in names if name in options}
