"""Parses the `since` argument of tools: `2h` ago, `today`, or a time."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, tzinfo

from fleetlore.documents import durations
from fleetlore.errors import Invalid
from fleetlore.server.view_cache import parse_time


def parse_since(text: str | None, *, now: datetime, zone: tzinfo = UTC) -> datetime | None:
    """The start time; `None` if no text is given, `Invalid` if it cannot be parsed."""
    if text is None:
        return None
    if text == "today":
        return datetime.combine(now.astimezone(zone).date(), time(), zone).astimezone(UTC)
    try:
        return now - timedelta(microseconds=durations.parse_duration(text) / 1000)
    except OverflowError as error:
        raise Invalid(f"since: too long ago: {text!r}; use 2h, today, or a time") from error
    except Invalid:
        return parse_time(text, "since")
