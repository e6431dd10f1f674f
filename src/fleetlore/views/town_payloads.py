"""Reads the fields of town events. Never raises, whatever the payload holds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from fleetlore.events.envelope import Event, is_name

OWN_DIALECT = "fleetlore"
MAX_TITLE_CHARS = 300
MAX_WORDS_CHARS = 4000
MAX_DESCRIPTION_CHARS = 16 * 1024
"""As much as the log stores of one text: an agent needs the whole description."""
MAX_NAMES = 100


def is_remote_event(event: Event) -> bool:
    """Whether another system or another log wrote it: a forge's issue, an imported town, a shipped log."""
    return event.origin is not None and (event.origin.dialect != OWN_DIALECT or event.origin.log is not None)


def get_text(data: Mapping[str, Any], key: str, max_chars: int = MAX_WORDS_CHARS) -> str:
    """The text, stripped and truncated; empty if there is none."""
    value = data.get(key)
    return value.strip()[:max_chars] if isinstance(value, str) else ""


def get_name(data: Mapping[str, Any], key: str) -> str | None:
    """A valid name, or `None`."""
    value = data.get(key)
    return value if isinstance(value, str) and is_name(value) else None


def get_names(data: Mapping[str, Any], *keys: str) -> list[str]:
    """Distinct names from the first of these keys that holds a list or a single name."""
    for key in keys:
        value = data.get(key)
        values = [value] if isinstance(value, str) else value
        if isinstance(values, list | tuple) and values:
            return list(dict.fromkeys(name for name in values[:MAX_NAMES] if isinstance(name, str) and is_name(name)))
    return []


def get_count(data: Mapping[str, Any], key: str) -> int | None:
    """A non-negative integer, or `None`."""
    value = data.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def clamp_count(value: int | None, default: int, maximum: int) -> int:
    """The value limited to 1..`maximum`; `default` if there is none."""
    return default if value is None else max(1, min(value, maximum))


def get_time(data: Mapping[str, Any], key: str) -> datetime | None:
    """A time in UTC, or `None`."""
    value = data.get(key)
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return None if moment is None else moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
