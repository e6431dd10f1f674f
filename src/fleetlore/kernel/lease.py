"""Who may do a thing: one process at a time, by a lease that it renews as long as it lives."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

from fleetlore.errors import FleetloreError, Held, LeaseLost
from fleetlore.log.coordination import Coordination, Lease

LEASE_SECONDS = 30.0
RENEW_SECONDS = 8.0
AGAIN_SECONDS = 1.0
"""How soon a renewal that failed is tried again."""

_holder_numbers = count(1)


def make_holder_name() -> str:
    """A holder, as others are told of it: its machine, where its process's number counts, that, and which of its holders it is."""
    return f"{_host_and_namespace()}:{os.getpid()}/{next(_holder_numbers)}"


def _host_and_namespace() -> str:
    try:
        within = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        within = 0
    return f"{socket.gethostname()[:100]}:{within}"


def is_dead(holder: str) -> bool:
    """Whether a holder's process is known to be gone; of another machine's nothing is known."""
    place, _, name = holder.rpartition(":")
    pid = name.partition("/")[0]
    if place != _host_and_namespace() or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def ticks() -> float:
    """Seconds that go on while the machine sleeps, where it tells them: a lease ends in that time, too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class LeaseHolder:
    """A lease, renewed as long as the block lasts. `lost` is set when it could not be, and nothing more may be done."""

    def __init__(
        self, shared: Coordination, name: str, *, holder: str | None = None, seconds: float | None = None, renew: float | None = None
    ) -> None:
        self._shared, self._name, self._holder = shared, name, holder or make_holder_name()
        self._seconds, self._renew_seconds = seconds or LEASE_SECONDS, renew or RENEW_SECONDS
        self.lost = asyncio.Event()
        self.lease: Lease | None = None
        self.last_failure: BaseException | None = None
        """Why it could not be renewed, the last time that it could not."""
        self._held_until = 0.0
        self._renewal_task: asyncio.Task[None] | None = None
        # A thread of its own: whatever else blocks, the lease is renewed.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lease")

    async def __aenter__(self) -> Lease:
        asked = ticks()
        try:
            lease = await asyncio.get_running_loop().run_in_executor(self._thread, self._acquire_lease)
        except BaseException:
            self._thread.shutdown(wait=False)
            raise
        self.lease, self._held_until = lease, asked + self._seconds
        self._renewal_task = asyncio.create_task(self._renew_periodically())
        return lease

    def _acquire_lease(self) -> Lease:
        lease = self._shared.take(self._name, self._holder, self._seconds)
        if lease is not None:
            return lease
        other = self._shared.find_lease(self._name)
        if other is not None and is_dead(other.holder):
            lease = self._take_over_from(other.holder)
        if lease is None:
            raise Held(self._name, other.holder if other else "another process", self._seconds)
        return lease

    def _take_over_from(self, dead: str) -> Lease | None:
        """Let go of it in the name of one who is dead: nobody else can. Of several who do that at once one gets it."""
        left = self._shared.take(self._name, dead, self._seconds)
        if left is not None:
            self._shared.release(left)
        return self._shared.take(self._name, self._holder, self._seconds)

    async def __aexit__(self, *_: object) -> None:
        if self._renewal_task is not None:
            self._renewal_task.cancel()
            await asyncio.wait([self._renewal_task])
        try:
            if self.lease is not None:
                with suppress(FleetloreError):
                    await asyncio.get_running_loop().run_in_executor(self._thread, self._shared.release, self.lease)
        finally:
            self.lost.set()
            self._thread.shutdown(wait=False)

    async def ensure_held(self) -> None:
        """Return if nobody else can hold it just now. That is asked only where it is not known: after a sleep of the machine, say."""
        assert self.lease is not None
        if self.lost.is_set():
            raise self.make_loss_error()
        if ticks() >= self._held_until:
            await self._renew_lease()

    def on_lease_taken(self, epoch: object) -> None:
        """Somebody took the lease, as the log says: it is lost, unless that was long ago, or this one."""
        if isinstance(epoch, int) and self.lease is not None and epoch > self.lease.epoch:
            self.lost.set()

    def make_loss_error(self) -> LeaseLost:
        """What is to be said of it once it is lost."""
        assert self.lease is not None
        lost = LeaseLost(self.lease.name, self.lease.holder, self.lease.epoch)
        if self.last_failure is not None and not isinstance(self.last_failure, LeaseLost):
            reason = str(self.last_failure) or "the log does not answer in time"  # a time-out says nothing
            lost.args = (f"{lost}. It could not be renewed: {reason}",)
        return lost

    async def _renew_lease(self) -> None:
        assert self.lease is not None
        asked = ticks()
        self.lease = await asyncio.get_running_loop().run_in_executor(self._thread, self._shared.renew, self.lease)
        self._held_until, self.last_failure = asked + self._seconds, None

    async def _renew_periodically(self) -> None:
        """Troubles with the log are waited out for as long as the lease holds."""
        pause = self._renew_seconds
        while True:
            await asyncio.sleep(pause)
            try:
                async with asyncio.timeout(max(AGAIN_SECONDS, self._held_until - ticks())):
                    await self._renew_lease()
                pause = self._renew_seconds
            except Exception as error:  # noqa: BLE001 - whatever it is, the lease ends
                self.last_failure, pause = error, AGAIN_SECONDS
                if isinstance(error, LeaseLost) or ticks() >= self._held_until:
                    break
        self.lost.set()
