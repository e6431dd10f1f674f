"""Leases: one process at a time does something, and renews its lease while it does.

`Journal.lease` is the way to hold one: the block is cancelled when the lease is lost. Everybody else decides by the epoch of a
lease (`Lease` in `log/base.py`), so a holder that was suspended past its expiry does no harm.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from itertools import count

from fleetlore import clock, tasks
from fleetlore.errors import FleetloreError, LeaseHeld, LeaseLost
from fleetlore.log.base import Lease
from fleetlore.log.coordination import Coordination

LEASE_SECONDS = 30.0
RENEW_SECONDS = 8.0
RETRY_SECONDS = 1.0
"""Delay before a failed renewal is retried."""

_holder_numbers = count(1)


def make_holder_name() -> str:
    """Return a unique holder name: host, pid namespace, pid and a counter."""
    return f"{_host_and_namespace()}:{os.getpid()}/{next(_holder_numbers)}"


def _host_and_namespace() -> str:
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        namespace = 0
    return f"{socket.gethostname()[:100]}:{namespace}"


def is_dead(holder: str) -> bool:
    """Return whether a holder's process is known to have ended; `False` for holders on other machines."""
    host, _, name = holder.rpartition(":")
    pid = name.partition("/")[0]
    if host != _host_and_namespace() or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


class LeaseHolder:
    """Holds and renews a lease for the duration of an `async with` block; raises `LeaseHeld` if another process has it.

    `lost` is set when the lease could not be renewed; the holder must then stop: use `cancel_when_lost`.
    """

    def __init__(
        self,
        coordination: Coordination,
        name: str,
        *,
        holder: str | None = None,
        seconds: float | None = None,
        renew: float | None = None,
        ticks: Callable[[], float] | None = None,
        sleep: tasks.Sleep = tasks.sleep,
        spawn: tasks.Spawn = tasks.spawn,
    ) -> None:
        self._name, self._holder = name, holder or make_holder_name()
        self._seconds, self._renew_seconds = seconds or LEASE_SECONDS, renew or RENEW_SECONDS
        self._ticks, self._sleep, self._spawn = ticks or clock.ticks, sleep, spawn
        self.lost = asyncio.Event()
        self.lease: Lease | None = None
        self.last_failure: BaseException | None = None
        """The error of the last failed renewal."""
        self._held_until = 0.0
        self._renewal_task: asyncio.Task[None] | None = None
        self._coordination = coordination
        self._calls = coordination.as_async(own_thread=True)  # other blocking work must not delay a renewal

    async def __aenter__(self) -> Lease:
        started = self._ticks()
        try:
            lease = await self._calls.run_in_thread(self._acquire_lease)
        except BaseException:
            self._calls.end_thread()
            raise
        self.lease, self._held_until = lease, started + self._seconds
        self._renewal_task = self._spawn(self._renew_periodically())
        return lease

    def _acquire_lease(self) -> Lease:
        lease = self._coordination.acquire(self._name, self._holder, self._seconds)
        if lease is not None:
            return lease
        other = self._coordination.find_lease(self._name)
        if other is not None and is_dead(other.holder):
            lease = self._take_over_from(other.holder)
        if lease is None:
            raise LeaseHeld(self._name, other.holder if other else "another process", self._seconds)
        return lease

    def _take_over_from(self, dead_holder: str) -> Lease | None:
        """Release the lease in the name of its dead holder, then acquire it. Of several that try at once, one succeeds."""
        abandoned = self._coordination.acquire(self._name, dead_holder, self._seconds)
        if abandoned is not None:
            self._coordination.release(abandoned)
        return self._coordination.acquire(self._name, self._holder, self._seconds)

    async def __aexit__(self, *_: object) -> None:
        if self._renewal_task is not None:
            self._renewal_task.cancel()
            await asyncio.wait([self._renewal_task])
        try:
            if self.lease is not None:
                with suppress(FleetloreError):
                    await self._calls.release(self.lease)
        finally:
            self.lost.set()
            self._calls.end_thread()

    def cancel_when_lost(self) -> AbstractAsyncContextManager[None]:
        """Cancel the block when the lease is lost; it then raises `LeaseLost`. Any other cancellation is passed on."""
        return tasks.run_beside(self._raise_when_lost(), spawn=self._spawn)

    async def _raise_when_lost(self) -> None:
        await self.lost.wait()
        raise self.make_loss_error()

    @property
    def may_be_lost(self) -> bool:
        """Whether it is lost, or may have expired, for example while the machine was suspended."""
        return self.lost.is_set() or self._ticks() >= self._held_until

    async def ensure_held(self) -> None:
        """Return if nobody else can hold the lease now; otherwise raise `LeaseLost`.

        Asks the store only if the lease may have expired.
        """
        assert self.lease is not None
        if self.lost.is_set():
            raise self.make_loss_error()
        if self.may_be_lost:
            await self._renew_lease()

    def on_lease_taken(self, epoch: object) -> None:
        """Handle an event that says the lease was taken with `epoch`: a higher epoch than ours means it is lost."""
        if isinstance(epoch, int) and self.lease is not None and epoch > self.lease.epoch:
            self.lost.set()

    def make_loss_error(self) -> LeaseLost:
        """Return the error for a lost lease, with the reason of the last failed renewal."""
        assert self.lease is not None
        lost = LeaseLost(self.lease.name, self.lease.holder, self.lease.epoch)
        if self.last_failure is not None and not isinstance(self.last_failure, LeaseLost):
            reason = str(self.last_failure) or "the log does not answer in time"  # a TimeoutError has no message
            lost.args = (f"{lost}. It could not be renewed: {reason}",)
        return lost

    async def _renew_lease(self) -> None:
        assert self.lease is not None
        started = self._ticks()
        self.lease = await self._calls.renew(self.lease)
        self._held_until, self.last_failure = started + self._seconds, None

    async def _renew_periodically(self) -> None:
        """Renew until cancelled; log errors are retried as long as the lease is valid."""
        pause = self._renew_seconds
        while True:
            await self._sleep(pause)
            try:
                remaining = max(RETRY_SECONDS, self._held_until - self._ticks())
                if not await tasks.wait_at_most(self._renew_lease(), remaining, sleep=self._sleep, spawn=self._spawn):
                    raise TimeoutError
                pause = self._renew_seconds
            except Exception as error:  # noqa: BLE001 - any error that persists ends the lease
                self.last_failure, pause = error, RETRY_SECONDS
                if isinstance(error, LeaseLost) or self._ticks() >= self._held_until:
                    break
        self.lost.set()
