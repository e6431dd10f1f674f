"""Times as tools are asked for them: `2h` ago, `today`, or a moment."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, tzinfo

from fleetlore.documents import durations
from fleetlore.errors import Invalid
from fleetlore.server.view_cache import moment_of


def parse_since(text: str | None, *, now: datetime, zone: tzinfo = UTC) -> datetime | None:
    """The moment that a question means; `None` if it names none."""
    if text is None:
        return None
    if text == "today":
        return datetime.combine(now.astimezone(zone).date(), time(), zone).astimezone(UTC)
    try:
        return now - timedelta(microseconds=durations.parse_duration(text) / 1000)
    except OverflowError as error:
        raise Invalid(f"since: too long ago: {text!r}; say 2h, today, or a time") from error
    except Invalid:
        return moment_of(text, "since")
