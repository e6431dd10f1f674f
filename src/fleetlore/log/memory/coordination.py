"""Cursors, leases, tokens and seal of the in-memory log; they belong to the handle and are lost with it."""

from __future__ import annotations

from datetime import timedelta
from threading import Lock

from fleetlore import clock
from fleetlore.errors import LeaseLost
from fleetlore.log.base import Lease, Position, epoch_microseconds, next_epoch
from fleetlore.log.tokens import Token


class MemoryCoordination:
    """Coordination state of one handle. Methods as in `CoordinationStore`."""

    def __init__(self, *, now: clock.Clock = clock.now) -> None:
        self._now = now
        self._lock = Lock()
        self._cursors: dict[str, Position] = {}
        self._leases: dict[str, Lease] = {}
        self._epochs: dict[str, int] = {}
        self._tokens: dict[str, Token] = {}
        self._seal: bytes | None = None

    def load_cursor(self, name: str) -> Position | None:
        """Return the position of a cursor."""
        return self._cursors.get(name)

    def commit_cursor(self, name: str, position: Position) -> None:
        """Set a cursor."""
        self._cursors[name] = position

    def list_cursors(self) -> dict[str, Position]:
        """Return all cursors."""
        return self._cursors.copy()

    def delete_cursor(self, name: str) -> None:
        """Delete a cursor."""
        self._cursors.pop(name, None)

    def acquire(self, name: str, holder: str, seconds: float) -> Lease | None:
        """Acquire a lease if it is free or already the holder's."""
        with self._lock:
            held = self._find_held_lease(name)
            if held is not None and held.holder != holder:
                return None
            now = self._now()
            epoch = self._epochs[name] = next_epoch(self._epochs.get(name, 0), epoch_microseconds(now))
            lease = Lease(name=name, holder=holder, epoch=epoch, until=now + timedelta(seconds=seconds), seconds=seconds)
            self._leases[name] = lease
            return lease

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """Extend a lease."""
        with self._lock:
            if not self._is_held(lease):
                raise LeaseLost(lease.name, lease.holder, lease.epoch)
            until = self._now() + timedelta(seconds=seconds)
            renewed = Lease(name=lease.name, holder=lease.holder, epoch=lease.epoch, until=until, seconds=seconds)
            self._leases[lease.name] = renewed
            return renewed

    def release(self, lease: Lease) -> None:
        """End a lease, if it is still this acquisition."""
        with self._lock:
            if self._is_held(lease):
                del self._leases[lease.name]

    def find_lease(self, name: str) -> Lease | None:
        """Return the current lease."""
        with self._lock:
            return self._find_held_lease(name)

    def _find_held_lease(self, name: str) -> Lease | None:
        lease = self._leases.get(name)
        return lease if lease is not None and lease.until > self._now() else None

    def _is_held(self, lease: Lease) -> bool:
        held = self._find_held_lease(lease.name)
        return held is not None and (held.holder, held.epoch) == (lease.holder, lease.epoch)

    def save_token(self, token: Token) -> None:
        """Store a token."""
        self._tokens[token.id] = token

    def list_tokens(self) -> list[Token]:
        """Return all tokens."""
        return list(self._tokens.copy().values())

    def delete_token(self, id: str) -> None:
        """Delete a token."""
        self._tokens.pop(id, None)

    def load_seal(self) -> bytes | None:
        """Return the seal."""
        return self._seal

    def set_seal(self, seal: bytes, expect: bytes | None) -> bool:
        """Replace the seal."""
        with self._lock:
            if self._seal not in (expect, seal):
                return False
            self._seal = seal
            return True

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
