"""Who drives a goal: one process at a time, by a lease that it renews."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress

from fleetlore.errors import FleetloreError, LeaseLost, LogError
from fleetlore.state.shared import Lease, Shared

LEASE_SECONDS = 30.0
RENEW_SECONDS = 8.0


def own_name() -> str:
    """This process, as others are told of it: its machine, where its number counts, and its number."""
    return f"{_place()}:{os.getpid()}"


def _place() -> str:
    try:
        within = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        within = 0
    return f"{socket.gethostname()[:100]}:{within}"


def is_dead(holder: str) -> bool:
    """Whether a process that drove a goal is known to be gone; of another machine's nothing is known."""
    place, _, pid = holder.rpartition(":")
    if place != _place() or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


class Hold:
    """The lease on a goal, renewed as long as the block lasts. `lost` is set when it could not be, and nothing more may be done."""

    def __init__(self, shared: Shared, goal: str, *, holder: str | None = None) -> None:
        self._shared, self._goal, self._holder = shared, goal, holder or own_name()
        self.lost = asyncio.Event()
        self.lease: Lease | None = None
        self._renewing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Lease:
        lease = await asyncio.to_thread(self._take, f"goal:{self._goal}")
        self.lease = lease
        self._renewing = asyncio.create_task(self._renew())
        return lease

    def _take(self, name: str) -> Lease:
        lease = self._shared.take(name, self._holder, LEASE_SECONDS)
        if lease is not None:
            return lease
        other = self._shared.holder_of(name)
        if other is not None and is_dead(other.holder):  # in its name: nobody else can, and what it wrote last is written
            lease = self._shared.take(name, other.holder, LEASE_SECONDS)
        if lease is None:
            raise LogError(
                f"the goal is being driven by {other.holder if other else 'another process'}; watch it with `lore goal show {self._goal}`"
                f" (should that one be gone, the goal is free after {LEASE_SECONDS:.0f} seconds)"
            )
        return lease

    async def __aexit__(self, *_: object) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            with suppress(asyncio.CancelledError):
                await self._renewing
        if self.lease is not None:
            with suppress(FleetloreError):
                await asyncio.to_thread(self._shared.release, self.lease)

    async def _renew(self) -> None:
        """Troubles with the log are waited out for as long as the lease holds."""
        assert self.lease is not None
        renewed_at = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                self.lease = await asyncio.to_thread(self._shared.renew, self.lease)
                renewed_at = asyncio.get_running_loop().time()
            except LeaseLost:
                break
            except LogError:
                if asyncio.get_running_loop().time() - renewed_at > LEASE_SECONDS - RENEW_SECONDS:
                    break
        self.lost.set()
