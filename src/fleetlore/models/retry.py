"""Asking again, for as long as it may help: pauses that grow, differ by chance, and are never shorter than the endpoint asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import TypeVar

from msgspec import Struct

from fleetlore.errors import MindBusy, MindError, MindTimeout

WAITING_FOR_CONNECTION = "a connection"
"""What a `MindTimeout` waits for before anything was sent, so that it does no harm to ask again."""

_Answer = TypeVar("_Answer")


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How often to ask, and how long to pause in between, in seconds."""

    most: int = 4
    first_pause: float = 0.5
    longest_pause: float = 20.0
    longest_wait: float = 60.0
    """Whoever asks for more patience with Retry-After is not waited for: the caller is told."""


class Retrier:
    """One question and its attempts; `number` is the one that runs."""

    def __init__(self, attempts: RetryPolicy, *, sleep: Callable[[float], Awaitable[object]], chance: Callable[[], float]) -> None:
        self._policy, self._sleep, self._chance = attempts, sleep, chance
        self.attempt_number = 1

    async def run_attempts(self, once: Callable[[], Awaitable[_Answer]], time_left: Callable[[], float]) -> _Answer:
        """The first answer; else the error of the last attempt for which there was time."""
        while True:
            try:
                return await once()
            except MindError as error:
                error.attempts = self.attempt_number
                pause = self._next_backoff(error)
                if pause is None or pause >= time_left():
                    raise
            await self._sleep(pause)
            self.attempt_number += 1

    def _next_backoff(self, error: MindError) -> float | None:
        """How long to wait before the next attempt; `None` if there is to be none."""
        if self.attempt_number >= self._policy.most or not _is_retryable(error):
            return None
        told = error.retry_after if isinstance(error, MindBusy) else None
        if told is not None:
            # With a little more by chance: everybody else was told the same.
            return told + self._policy.first_pause * self._chance() if told <= self._policy.longest_wait else None
        grown = min(self._policy.longest_pause, self._policy.first_pause * 2.0 ** (self.attempt_number - 1))
        return grown * (0.5 + self._chance() / 2)


def _is_retryable(error: MindError) -> bool:
    return isinstance(error, MindBusy) or (isinstance(error, MindTimeout) and error.waiting_for == WAITING_FOR_CONNECTION)


def parse_retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """The seconds that an endpoint asks for: in milliseconds, in seconds, or as a date; `None` if it says nothing that can be read."""
    if (thousandths := _parse_seconds(headers.get("retry-after-ms"))) is not None:
        return thousandths / 1000
    said = headers.get("retry-after")
    if said is None or (seconds := _parse_seconds(said)) is not None:
        return seconds if said is not None else None
    try:
        moment = parsedate_to_datetime(said)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


def _parse_seconds(said: str | None) -> float | None:
    try:
        number = float(said or "")
    except ValueError:
        return None
    return max(0.0, number) if isfinite(number) else None
