"""The only place that reads the wall clock and mints ids."""

from __future__ import annotations

import os
import time
from _thread import allocate_lock  # what threading calls Lock; that module would cost `lore hook` a millisecond
from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def now() -> datetime:
    """The present moment, in UTC."""
    return datetime.now(UTC)


class _Uuid7Generator:
    """RFC 9562 version 7: milliseconds, 12 bits of their fraction, 60 random bits; ascending within a process."""

    def __init__(self) -> None:
        self._last = 0
        self.start_afresh()

    def start_afresh(self) -> None:
        """A forked child would otherwise draw the same random bits as its parent, or find the lock taken for ever."""
        self._random_hex, self._random_used = "", 0
        self._lock = allocate_lock()

    def __call__(self) -> str:
        stamp = time.time_ns() * 4096 // 1_000_000
        with self._lock:
            if stamp <= self._last:
                stamp = self._last + 1
            self._last = stamp
            if self._random_used >= len(self._random_hex):
                self._random_hex, self._random_used = os.urandom(960).hex(), 0
            chance = self._random_hex[self._random_used : self._random_used + 15]
            self._random_used += 15
        when = f"{stamp:015x}"
        return f"{when[:8]}-{when[8:12]}-7{when[12:]}-8{chance[:3]}-{chance[3:]}"


uuid7: Callable[[], str]
try:
    from fleetlore import _quick
except ImportError:  # nobody compiled it
    uuid7 = _Uuid7Generator()
    os.register_at_fork(after_in_child=uuid7.start_afresh)
else:
    uuid7 = _quick.uuid7
    os.register_at_fork(after_in_child=_quick.start_afresh)
