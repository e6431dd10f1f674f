"""Parses times on the command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from fleetlore import clock, settings
from fleetlore.errors import Invalid

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(?:[0-9]{1,9}[smhdw])+")
_PART = re.compile(r"(?<![0-9])([0-9]+)([smhdw])")


def parse_since(text: str | None) -> datetime | None:
    """The time of a `--since` option; `None` if it is not given."""
    return None if text is None else parse_time(text, now=clock.now())


def parse_now(text: str | None) -> datetime:
    """The time of a `--now` option; the current time if it is not given."""
    return clock.now() if text is None else parse_time(text, now=clock.now())


def parse_time(text: str, *, now: datetime) -> datetime:
    """Parse `2h` or `1d12h` (that long ago), a date, or an ISO time (local if it has no zone). Raises `Invalid` for anything else."""
    text = text.strip()
    if _AGO.fullmatch(text):
        return _parse_ago(text, now)
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC)  # one without a zone is taken as local
    except (ValueError, OverflowError, OSError) as error:
        raise Invalid(f"not a time: {text!r}; use 30m, 2h or 3d for that long ago, 2026-11-15, or 2026-11-15T20:00Z") from error


def parse_cutoff(text: str, *, now: datetime) -> datetime:
    """Like `parse_time`, and also `1y`: what is older is trimmed or archived."""
    days = settings.days_in(text.strip())
    try:
        return parse_time(text, now=now) if days is None else now - timedelta(days=days)
    except OverflowError as error:
        raise Invalid(f"too long ago: {text}; use 90d, or a day such as 2026-11-15") from error


def parse_until(text: str, *, now: datetime) -> datetime:
    """Parse `12h` or `30d` (from now), or a future date or time. Raises `Invalid` for anything else."""
    at = parse_time(text, now=now)
    try:
        at = now + (now - at) if _AGO.fullmatch(text.strip()) else at
    except OverflowError as error:
        raise Invalid(f"too far away: {text}; use a day before the year 10000") from error
    if at <= now:
        raise Invalid(f"{text!r} is in the past; use 12h, 30d or 1w for that long from now, or a future day")
    return at


def _parse_ago(text: str, now: datetime) -> datetime:
    try:
        return now - sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in _PART.findall(text)), timedelta())
    except OverflowError as error:
        raise Invalid(f"too long ago: {text}; use a day such as 2026-11-15") from error
