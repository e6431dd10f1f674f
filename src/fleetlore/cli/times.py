"""Moments as people write them on a command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from fleetlore import clock
from fleetlore.errors import Invalid

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(?:[0-9]{1,9}[smhdw])+")
_PART = re.compile(r"([0-9]+)([smhdw])")


def since(text: str | None) -> datetime | None:
    """What `--since` says, seen from now."""
    return None if text is None else moment(text, now=clock.now())


def moment(text: str, *, now: datetime) -> datetime:
    """`2h`, `1d12h` ago; a day; or an ISO time, in the local time zone unless it names one."""
    text = text.strip()
    if _AGO.fullmatch(text):
        return _ago(text, now)
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC)  # one without a zone is taken as local
    except (ValueError, OverflowError, OSError) as error:
        raise Invalid(f"not a time: {text!r}; say 30m, 2h or 3d for that long ago, 2026-11-15, or 2026-11-15T20:00Z") from error


def until(text: str, *, now: datetime) -> datetime:
    """`12h`, `30d` from now; or a day or a time that is yet to come, written as for `moment`."""
    at = moment(text, now=now)
    try:
        at = now + (now - at) if _AGO.fullmatch(text.strip()) else at
    except OverflowError as error:
        raise Invalid(f"too far away: {text}; say a day before the year 10000") from error
    if at <= now:
        raise Invalid(f"{text!r} is over already; say 12h, 30d or 1w for that long from now, or a day that is yet to come")
    return at


def _ago(text: str, now: datetime) -> datetime:
    try:
        return now - sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in _PART.findall(text)), timedelta())
    except OverflowError as error:
        raise Invalid(f"too long ago: {text}; say a day such as 2026-11-15") from error
