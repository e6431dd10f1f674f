"""What views read off an event: the stamp that orders it, and what it says in one line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeAlias

from fleetlore.events.catalog import beat_of
from fleetlore.events.envelope import Event

Stamp: TypeAlias = tuple[datetime, str, int]
"""`at`, `origin.source`, `origin.n`; where all are equal the position decides, which is the order of applying."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST_LINE = 300


def stamp_of(event: Event) -> Stamp:
    """What orders an event among others that may be late."""
    at = event.at or EPOCH
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    origin = event.origin
    return (at, "", 0) if origin is None else (at, origin.source or "", origin.n or 0)


def line_of(event: Event) -> str | None:
    """What an event says in one line, else what its kind says; `None` for a pulse that says nothing. Hostile."""
    if event.text is not None and (line := _first_line(event.text)):
        return line
    for key in ("reason", "why", "title", "error", "action", "tool"):
        if isinstance(words := event.data.get(key), str) and (line := _first_line(words)):
            return line
    return None if beat_of(event) == "pulse" else event.kind.partition(".")[2].replace("_", " ").replace(".", " ")


def _first_line(words: str) -> str:
    return words.strip().partition("\n")[0][:LONGEST_LINE].rstrip()
