"""What the facts of a town hold, read so that whatever stands there raises nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from fleetlore.events.envelope import Event
from fleetlore.events.names import is_name

OWN_DIALECT = "fleetlore"
MAX_TITLE_CHARS = 300
MAX_WORDS_CHARS = 4000
MAX_DESCRIPTION_CHARS = 16 * 1024
"""As much as a log keeps of one text: whoever is to do a task has to know all of it."""
MAX_NAMES = 100


def is_remote_event(event: Event) -> bool:
    """Whether another system told it, or another log: a forge's issue, an imported town, a log that is shipped here."""
    return event.origin is not None and (event.origin.dialect != OWN_DIALECT or event.origin.log is not None)


def get_text(data: Mapping[str, Any], key: str, longest: int = MAX_WORDS_CHARS) -> str:
    """A text, cut to what is kept; nothing where there is none."""
    value = data.get(key)
    return value.strip()[:longest] if isinstance(value, str) else ""


def get_name(data: Mapping[str, Any], key: str) -> str | None:
    """A name of something, or `None`."""
    value = data.get(key)
    return value if isinstance(value, str) and is_name(value) else None


def get_names(data: Mapping[str, Any], *keys: str) -> list[str]:
    """Names, each once: a list of them, or a single one, under the first of these keys that there is."""
    for key in keys:
        value = data.get(key)
        each = [value] if isinstance(value, str) else value
        if isinstance(each, list | tuple) and each:
            return list(dict.fromkeys(name for name in each[:MAX_NAMES] if isinstance(name, str) and is_name(name)))
    return []


def get_count(data: Mapping[str, Any], key: str) -> int | None:
    """A whole number that is not negative, or `None`."""
    value = data.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def clamp_count(value: int | None, otherwise: int, most: int) -> int:
    """A number of at least one and at most so many."""
    return otherwise if value is None else max(1, min(value, most))


def get_time(data: Mapping[str, Any], key: str) -> datetime | None:
    """A time, or `None`."""
    value = data.get(key)
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return None if moment is None else moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
