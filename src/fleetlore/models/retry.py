"""Retries requests with exponential backoff and jitter, respecting the endpoint's `Retry-After`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import TypeVar

from msgspec import Struct

from fleetlore.errors import ModelBusy, ModelError, ModelTimeout

WAITING_FOR_CONNECTION = "a connection"
"""Value of `ModelTimeout.waiting_for` for a timeout before anything was sent; such a request can safely be retried."""

_Answer = TypeVar("_Answer")


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How often to try, and how long to pause in between, in seconds."""

    max_attempts: int = 4
    first_pause: float = 0.5
    longest_pause: float = 20.0
    longest_wait: float = 60.0
    """Upper limit of an accepted `Retry-After`. If it is longer, there is no retry and the error is raised."""


class Retrier:
    """The attempts of one request; `attempt_number` is the current one."""

    def __init__(self, policy: RetryPolicy, *, sleep: Callable[[float], Awaitable[object]], jitter: Callable[[], float]) -> None:
        self._policy, self._sleep, self._jitter = policy, sleep, jitter
        self.attempt_number = 1

    async def run_attempts(self, attempt: Callable[[], Awaitable[_Answer]], time_left: Callable[[], float]) -> _Answer:
        """Return the first answer, or raise the error of the last attempt when no retry is allowed or no time is left."""
        while True:
            try:
                return await attempt()
            except ModelError as error:
                error.attempts = self.attempt_number
                pause = self._next_backoff(error)
                if pause is None or pause >= time_left():
                    raise
            await self._sleep(pause)
            self.attempt_number += 1

    def _next_backoff(self, error: ModelError) -> float | None:
        """Seconds to wait before the next attempt; `None` if there is none."""
        if self.attempt_number >= self._policy.max_attempts or not _is_retryable(error):
            return None
        retry_after = error.retry_after if isinstance(error, ModelBusy) else None
        if retry_after is not None:
            # With jitter: all other clients got the same value.
            return retry_after + self._policy.first_pause * self._jitter() if retry_after <= self._policy.longest_wait else None
        backoff = min(self._policy.longest_pause, self._policy.first_pause * 2.0 ** (self.attempt_number - 1))
        return backoff * (0.5 + self._jitter() / 2)


def _is_retryable(error: ModelError) -> bool:
    return isinstance(error, ModelBusy) or (isinstance(error, ModelTimeout) and error.waiting_for == WAITING_FOR_CONNECTION)


def parse_retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """The seconds that an endpoint asks for (in milliseconds, in seconds or as a date), or `None`."""
    if (milliseconds := _parse_seconds(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    if value is None or (seconds := _parse_seconds(value)) is not None:
        return seconds if value is not None else None
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - now).total_seconds())


def _parse_seconds(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return max(0.0, number) if isfinite(number) else None
