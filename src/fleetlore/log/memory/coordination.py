"""Cursors, leases, tokens and the seal in the handle itself: they live and die with it."""

from __future__ import annotations

from datetime import timedelta
from threading import Lock

from fleetlore import clock
from fleetlore.errors import LeaseLost
from fleetlore.log.base import Position
from fleetlore.log.coordination import Lease, epoch_microseconds, next_epoch
from fleetlore.log.tokens import Token


class MemoryCoordination:
    """One handle's own."""

    def __init__(self, *, now: clock.Clock = clock.now) -> None:
        self._now = now
        self._lock = Lock()
        self._cursors: dict[str, Position] = {}
        self._leases: dict[str, Lease] = {}
        self._epochs: dict[str, int] = {}
        self._tokens: dict[str, Token] = {}
        self._seal: bytes | None = None

    def load_cursor(self, name: str) -> Position | None:
        """The position of a cursor."""
        return self._cursors.get(name)

    def commit_cursor(self, name: str, position: Position) -> None:
        """Move a cursor."""
        self._cursors[name] = position

    def list_cursors(self) -> dict[str, Position]:
        """Every cursor."""
        return self._cursors.copy()

    def delete_cursor(self, name: str) -> None:
        """Drop a cursor."""
        self._cursors.pop(name, None)

    def take(self, name: str, holder: str, seconds: float) -> Lease | None:
        """Take a lease if it is free or the holder's own."""
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
        """Let a lease last longer."""
        with self._lock:
            if not self._is_held(lease):
                raise LeaseLost(lease.name, lease.holder, lease.epoch)
            until = self._now() + timedelta(seconds=seconds)
            renewed = Lease(name=lease.name, holder=lease.holder, epoch=lease.epoch, until=until, seconds=seconds)
            self._leases[lease.name] = renewed
            return renewed

    def release(self, lease: Lease) -> None:
        """End a lease, if it is still this one."""
        with self._lock:
            if self._is_held(lease):
                del self._leases[lease.name]

    def find_lease(self, name: str) -> Lease | None:
        """The lease as it is held now."""
        with self._lock:
            return self._find_held_lease(name)

    def _find_held_lease(self, name: str) -> Lease | None:
        lease = self._leases.get(name)
        return lease if lease is not None and lease.until > self._now() else None

    def _is_held(self, lease: Lease) -> bool:
        held = self._find_held_lease(lease.name)
        return held is not None and (held.holder, held.epoch) == (lease.holder, lease.epoch)

    def save_token(self, token: Token) -> None:
        """Keep a token under its id."""
        self._tokens[token.id] = token

    def list_tokens(self) -> list[Token]:
        """Every token."""
        return list(self._tokens.copy().values())

    def delete_token(self, id: str) -> None:
        """Drop a token."""
        self._tokens.pop(id, None)

    def load_seal(self) -> bytes | None:
        """The seal."""
        return self._seal

    def set_seal(self, seal: bytes, expect: bytes | None) -> bool:
        """Put a seal in the place of another."""
        with self._lock:
            if self._seal not in (expect, seal):
                return False
            self._seal = seal
            return True

    def close(self) -> None:
        """Nothing is held."""
