"""What views read from an event: the stamp that orders it, and its text in one line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeAlias

from fleetlore.dialects.commands.classify import find_tool_flags
from fleetlore.dialects.commands.flags import shown_flags
from fleetlore.events.catalog import find_beat
from fleetlore.events.envelope import Event
from fleetlore.programs.registry import recording_dialects

EventStamp: TypeAlias = tuple[datetime, str, int]
"""`at`, `origin.source`, `origin.n`; equal stamps keep the order of application."""

EventRank: TypeAlias = tuple[EventStamp, str]
"""A stamp, and a tie-breaker between imported events."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_LINE_CHARS = 300


def event_stamp(event: Event) -> EventStamp:
    """The sort key of an event among others that may arrive late."""
    at = event.at or EPOCH
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    origin = event.origin
    return (at, "", 0) if origin is None else (at, origin.source or "", origin.n or 0)


def event_rank(event: Event) -> EventRank:
    """The sort key of an event that does not depend on the import order; if equal, the position decides."""
    return event_stamp(event), _tie_breaker(event)


def _tie_breaker(event: Event) -> str:
    """Distinguishes lines with the same file name, number and time; empty for live events."""
    origin = event.origin
    if origin is None or not origin.source:
        return ""
    # One line of a recording gives several events, which keep their order.
    return (origin.id or event.run or "") if origin.dialect in recording_dialects() else event.id or ""


def is_shell_prompt(event: Event) -> bool:
    """Whether a person only ran a command (`!ls`) without asking the agent for anything."""
    return event.kind == "prompt.submitted" and event.text is not None and event.text.startswith("!")


def flags_of_call(event: Event) -> list[str]:
    """The flags that decide how far a command can be trusted. Untrusted text.

    Events recorded by 0.1 have none; they are derived from the command if it is there.
    """
    if not event.kind.startswith("tool."):
        return []
    data = event.data
    flags = data.get("flags")
    if isinstance(flags, list | tuple):
        return [flag for flag in flags if isinstance(flag, str)]
    input_ = data.get("input")
    return [] if input_ is None else find_tool_flags(data.get("tool"), input_)


def event_line(event: Event) -> str | None:
    """The event's text in one line, else a line made of its kind; `None` for a pulse without text. Untrusted text.

    Flags of a command that decide how far it can be trusted are always included.
    """
    if event.text is not None and (line := _first_line(event.text)):
        return line if not (flags := flags_of_call(event)) else f"{line}{shown_flags(flags, line)}"
    for key in ("reason", "why", "title", "error", "action", "tool"):
        if isinstance(words := event.data.get(key), str) and (line := _first_line(words)):
            return line
    return None if find_beat(event) == "pulse" else event.kind.partition(".")[2].replace("_", " ").replace(".", " ")


def _first_line(words: str) -> str:
    return words.strip().partition("\n")[0][:MAX_LINE_CHARS].rstrip()
