"""Helpers for reading and writing fields of foreign records: names, times, ids. Public for dialects of packages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from fleetlore.dialects.wire import json_type_name
from fleetlore.errors import DialectError, InvalidEvent
from fleetlore.events import catalog
from fleetlore.events.envelope import Event, Origin, is_name
from fleetlore.events.ids import find_uuid

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WORD_PATTERN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
_RFC3339_PATTERN = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]+))?([Zz]|[+-][0-9]{2}:[0-9]{2})")


def need_text(record: Mapping[str, Any], key: str) -> str:
    """Return the string under a required key; raise `DialectError` if it is missing or not a string."""
    if key not in record:
        raise DialectError(f"$.{key}", "missing")
    value = record[key]
    if not isinstance(value, str):
        raise DialectError(f"$.{key}", f"a string is needed, not {json_type_name(value)}")
    return value


def as_name(value: object) -> str | None:
    """Return the value if it can name a scope (1 to 200 bytes of UTF-8, no control characters), else `None`."""
    return value if isinstance(value, str) and is_name(value) else None


def as_text(value: object) -> str | None:
    """Return the value if it is a non-empty string, else `None`."""
    return value if isinstance(value, str) and value else None


def as_count(value: object) -> int | None:
    """Return the value if it is a non-negative integer below 2^53, else `None`."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def as_number(value: object) -> float | None:
    """Return the value if it is a number below 2^53 in size, else `None`."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53 else None


def as_object(value: object) -> dict[str, Any]:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_uuid(value: object) -> str | None:
    """Return the canonical form of a UUID in any case, else `None`."""
    return find_uuid(value) if isinstance(value, str) else None


def first_line(value: object) -> str | None:
    """Return the first non-blank line, stripped, or `None`."""
    return next((line.strip() for line in value.splitlines() if line.strip()), None) if isinstance(value, str) else None


def without_none(**values: Any) -> dict[str, Any]:
    """Return the values that are not `None`."""
    return {key: value for key, value in values.items() if value is not None}


def own_origin(event: Event, dialect: str) -> Origin | None:
    """Return the event's origin if it was imported by this dialect."""
    return event.origin if event.origin is not None and event.origin.dialect == dialect else None


def validate_payload(kind: str, data: dict[str, Any], *, under: str) -> None:
    """Raise `DialectError` if data does not match its kind; `under` is the path of the data in the record."""
    try:
        catalog.check_payload(kind, data)
    except InvalidEvent as error:
        raise DialectError(error.path.replace("$.data", under, 1), error.reason) from error


def is_valid_kind(kind: str) -> bool:
    """Return whether this can be the kind of an event."""
    return len(kind) <= catalog.LONGEST_KIND and catalog.KIND_PATTERN.fullmatch(kind) is not None


def read_time(value: object) -> datetime | None:
    """Parse RFC 3339 to the microsecond, in UTC; `None` if it is not a time."""
    match = _RFC3339_PATTERN.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    day, clock, fraction, zone = match.groups()
    # A leap second is legal, but datetime has none: count it as the first second of the next minute.
    leap, clock = (1, clock[:-2] + "59") if clock.endswith(":60") else (0, clock)
    try:
        at = datetime.fromisoformat(f"{day}T{clock}.{(fraction or '').ljust(6, '0')[:6]}{zone.upper()}")
        return (at + timedelta(seconds=leap)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def need_time(record: Mapping[str, Any], key: str) -> datetime:
    """Return the RFC 3339 time under a required key; raise `DialectError`."""
    text = need_text(record, key)
    at = read_time(text)
    if at is None:
        raise DialectError(f"$.{key}", f"not an RFC 3339 time: {text[:40]!r}")
    return at


def write_time(at: datetime) -> str:
    """Format as RFC 3339 in UTC with six fractional digits."""
    return as_utc(at).isoformat(timespec="microseconds").replace("+00:00", "Z")


def read_seconds(seconds: float) -> datetime | None:
    """Convert seconds since 1970 to a time; `None` if out of range."""
    try:
        return EPOCH + timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        return None


def write_seconds(at: datetime) -> float:
    """Convert a time to seconds since 1970."""
    return (as_utc(at) - EPOCH).total_seconds()


def as_utc(at: datetime) -> datetime:
    """Convert to UTC; a time without a zone is taken as UTC."""
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def to_snake_case(name: str) -> str:
    """`PreToolUse` and `pre-tool-use` as `pre_tool_use`, fit to be the last word of a kind."""
    words = "_".join(word.lower() for word in _WORD_PATTERN.findall(name))[:60].strip("_")
    return words if words and words[0].isalpha() else f"x_{words or 'unknown'}"
