"""The only place that reads the wall clock and mints ids."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def now() -> datetime:
    """The present moment, in UTC."""
    return datetime.now(UTC)


class _Uuid7Maker:
    """RFC 9562 version 7: milliseconds, 12 bits of their fraction, 60 random bits; ascending within a process."""

    def __init__(self) -> None:
        self._last = 0
        self._forget_chance()

    def _forget_chance(self) -> None:
        self._chance, self._used = "", 0

    def __call__(self) -> str:
        stamp = time.time_ns() * 4096 // 1_000_000
        if stamp <= self._last:
            stamp = self._last + 1
        self._last = stamp
        if self._used >= len(self._chance):
            self._chance, self._used = os.urandom(960).hex(), 0
        when, used = f"{stamp:015x}", self._used
        self._used = end = used + 15
        return f"{when[:8]}-{when[8:12]}-7{when[12:]}-8{self._chance[used : used + 3]}-{self._chance[used + 3 : end]}"


uuid7 = _Uuid7Maker()
# A forked child would otherwise draw the same random bits as its parent.
os.register_at_fork(after_in_child=uuid7._forget_chance)
