"""What views read off an event: the stamp that orders it, and what it says in one line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeAlias

from fleetlore.dialects.commands.classify import flags_of
from fleetlore.dialects.commands.flags import shown_flags
from fleetlore.events.catalog import beat_of
from fleetlore.events.envelope import Event
from fleetlore.programs.registry import recording_dialects

EventStamp: TypeAlias = tuple[datetime, str, int]
"""`at`, `origin.source`, `origin.n`; where all are equal, what was applied first comes first."""

EventRank: TypeAlias = tuple[EventStamp, str]
"""A stamp, and what decides between imported events that share it."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_LINE_CHARS = 300


def event_stamp(event: Event) -> EventStamp:
    """What orders an event among others that may be late."""
    at = event.at or EPOCH
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    origin = event.origin
    return (at, "", 0) if origin is None else (at, origin.source or "", origin.n or 0)


def event_rank(event: Event) -> EventRank:
    """What orders an event whatever was imported first; where all is equal, the position decides."""
    return event_stamp(event), _tie_breaker(event)


def _tie_breaker(event: Event) -> str:
    """Of lines that share file name, number and time, what tells one from another; nothing for what came live."""
    origin = event.origin
    if origin is None or not origin.source:
        return ""
    # One line of a recording tells several events, which stay in the order that it tells them in.
    return (origin.id or event.run or "") if origin.dialect in recording_dialects() else event.id or ""


def is_shell_prompt(event: Event) -> bool:
    """Whether a person only ran a command (`!ls`): the agent is asked for nothing."""
    return event.kind == "prompt.submitted" and event.text is not None and event.text.startswith("!")


def flags_of_call(event: Event) -> list[str]:
    """The flags that decide how far a command can be trusted; of an event that 0.1 recorded, as far as it repeats the command. Hostile."""
    if not event.kind.startswith("tool."):
        return []
    data = event.data
    flags = data.get("flags")
    if isinstance(flags, list | tuple):
        return [flag for flag in flags if isinstance(flag, str)]
    given = data.get("input")
    return [] if given is None else flags_of(data.get("tool"), given)


def event_line(event: Event) -> str | None:
    """What an event says in one line, else what its kind says; `None` for a pulse that says nothing. Hostile.

    Flags of a command that decide how far it can be trusted are always part of it.
    """
    if event.text is not None and (line := _first_line(event.text)):
        return line if not (flags := flags_of_call(event)) else f"{line}{shown_flags(flags, line)}"
    for key in ("reason", "why", "title", "error", "action", "tool"):
        if isinstance(words := event.data.get(key), str) and (line := _first_line(words)):
            return line
    return None if beat_of(event) == "pulse" else event.kind.partition(".")[2].replace("_", " ").replace(".", " ")


def _first_line(words: str) -> str:
    return words.strip().partition("\n")[0][:MAX_LINE_CHARS].rstrip()
