"""Shared by rollouts, streams and hooks of Codex: the acting agent, and ids that store each event once.

An id is derived from the record's own keys. Threads, turns, calls and responses of Codex have their own ids; only if a model provider
numbers its calls from one, the thread and the turn are part of the id.
"""

from __future__ import annotations

from typing import NamedTuple

from fleetlore.dialects.fields import as_count, as_name, as_number
from fleetlore.events.envelope import Origin
from fleetlore.events.ids import derive_id
from fleetlore.programs import sessions

NAME = "codex"
PROGRAM = "codex"


_MIN_UNIQUE_CHARS = 20
"""Ids of at least this length are random and globally unique."""


class CallLocation(NamedTuple):
    """Thread and turn of a call, for call ids that are not globally unique."""

    thread: str | None
    turn: str | None


class CodexEventContext(sessions.EventContext):
    """The acting agent, its thread and the time."""

    __slots__ = ()
    PROGRAM = PROGRAM
    ORIGIN = Origin(dialect=NAME)


def thread_agent(thread: object) -> str | None:
    """The agent name of a thread: its last eight digits, because the first eight of a UUIDv7 change only once a minute."""
    name = as_name(thread)
    return None if name is None else f"{PROGRAM}/{name[-8:]}"


def derive_codex_id(*parts: object) -> str:
    """An id derived from these parts."""
    return derive_id(NAME, "\0".join(map(str, parts)).encode(errors="replace"))


def session_started_id(thread: str) -> str:
    """The id of a session's start."""
    return derive_codex_id("session", thread)


def subagent_launched_id(thread: str) -> str:
    """The id of a sub-agent's launch; it has its own thread."""
    return derive_codex_id("agent", thread, "launched")


def prompt_id(turn: str, words: str, nth: int = 0) -> str:
    """The id of a prompt, from its turn and text, which hooks and rollouts both have."""
    return derive_codex_id("prompt", turn, words.strip(), nth)


def turn_ended_id(turn: str) -> str:
    """The id of a turn's end."""
    return derive_codex_id("turn", turn, "ended")


def tool_called_id(place: CallLocation, call: str) -> str:
    """The id of a tool call."""
    return derive_codex_id("tool", _make_unique_key(place, call), "called")


def tool_outcome_id(place: CallLocation, call: str) -> str:
    """The id of a tool call's outcome: result, error or denial."""
    return derive_codex_id("tool", _make_unique_key(place, call), "outcome")


def _make_unique_key(place: CallLocation, key: str) -> str:
    return key if is_unique_id(key) else "\0".join(map(str, (*place, key)))


def is_unique_id(key: str) -> bool:
    """Whether an id is random; some model providers only count."""
    return len(key) >= _MIN_UNIQUE_CHARS


def uuid7_milliseconds(thread: object) -> int | None:
    """When a UUIDv7 was made, in milliseconds since 1970; `None` for any other id."""
    if not isinstance(thread, str) or len(thread) != 36 or thread[14] != "7":
        return None
    try:
        return int(thread[:8] + thread[9:13], 16)
    except ValueError:
        return None


def as_duration_ms(value: object) -> float | None:
    """Milliseconds, from `{"secs", "nanos"}` or a number."""
    if isinstance(value, dict):
        seconds, nanos = as_count(value.get("secs")), as_count(value.get("nanos")) or 0
        return None if seconds is None else round(seconds * 1000 + nanos / 1e6, 3)
    return as_number(value)
