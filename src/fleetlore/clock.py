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
    """RFC 9562 version 7: milliseconds, 12 bits of their fraction, 62 random bits; ascending within a process."""

    def __init__(self) -> None:
        self._last = 0
        self._forget_pool()

    def _forget_pool(self) -> None:
        self._pool, self._used = b"", 0

    def __call__(self) -> str:
        milliseconds, rest = divmod(time.time_ns(), 1_000_000)
        stamp = milliseconds << 12 | (rest << 12) // 1_000_000
        if stamp <= self._last:
            stamp = self._last + 1
        self._last = stamp
        if self._used >= len(self._pool):
            self._pool, self._used = os.urandom(1024), 0
        chance = int.from_bytes(self._pool[self._used : self._used + 8], "big") >> 2
        self._used += 8
        number = (stamp >> 12) << 80 | 0x7 << 76 | (stamp & 0xFFF) << 64 | 0b10 << 62 | chance
        text = f"{number:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


uuid7 = _Uuid7Maker()
# A forked child would otherwise draw the same random bits as its parent.
os.register_at_fork(after_in_child=uuid7._forget_pool)
