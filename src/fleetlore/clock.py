"""Clocks, sleep and event ids. The only module that reads the time; everything else takes these functions as parameters."""

from __future__ import annotations

import os
import time
from _thread import allocate_lock  # threading.Lock without importing threading, which would cost `lore hook` a millisecond
from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
_TICKING_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def ticks() -> float:
    """Return seconds of a clock that is never set and runs during suspend, if available, because leases expire during suspend too."""
    return time.clock_gettime(_TICKING_CLOCK)


def sleep(seconds: float) -> None:
    """Block the thread."""
    time.sleep(seconds)


class _Uuid7Generator:
    """Generates RFC 9562 version 7 UUIDs: milliseconds, 12 bits of their fraction, 60 random bits; ascending per process."""

    def __init__(self) -> None:
        self._last = 0
        self.reset()

    def reset(self) -> None:
        """Reset after a fork: the child would otherwise share the parent's random bits, or a lock that is held."""
        self._random_hex, self._random_used = "", 0
        self._lock = allocate_lock()

    def __call__(self) -> str:
        stamp = time.time_ns() * 4096 // 1_000_000  # in 1/4096 of a millisecond: 48 bits of milliseconds, 12 of their fraction
        with self._lock:
            if stamp <= self._last:
                stamp = self._last + 1
            self._last = stamp
            if self._random_used >= len(self._random_hex):
                self._random_hex, self._random_used = os.urandom(960).hex(), 0
            random_part = self._random_hex[self._random_used : self._random_used + 15]
            self._random_used += 15
        timestamp = f"{stamp:015x}"
        return f"{timestamp[:8]}-{timestamp[8:12]}-7{timestamp[12:]}-8{random_part[:3]}-{random_part[3:]}"


uuid7: Callable[[], str]
try:
    from fleetlore import _quick
except ImportError:  # the C extension is not built
    uuid7 = _Uuid7Generator()
    os.register_at_fork(after_in_child=uuid7.reset)
else:
    uuid7 = _quick.uuid7
    os.register_at_fork(after_in_child=_quick.start_afresh)
