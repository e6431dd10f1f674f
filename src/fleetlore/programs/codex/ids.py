"""Shared by rollouts, streams and hooks of Codex: the acting agent, and ids that store each event once.

An id follows from the record's own keys. Codex keeps the thread that it works in, the turn, the call and the response apart, and each
of them has an id of its own; only where a model's provider counts its calls from one are thread and turn needed beside.
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
"""Ids that are at least so long were drawn by lot, and are the same nowhere else."""


class CallLocation(NamedTuple):
    """Where a call was made, for those whose ids are not the same nowhere else."""

    thread: str | None
    turn: str | None


class CodexEventContext(sessions.EventContext):
    """Who does it, in which thread, and when."""

    __slots__ = ()
    PROGRAM = PROGRAM
    ORIGIN = Origin(dialect=NAME)


def thread_agent(thread: object) -> str | None:
    """The agent that a thread is: its last eight digits, for the first eight of a UUIDv7 are a clock that moves once a minute."""
    name = as_name(thread)
    return None if name is None else f"{PROGRAM}/{name[-8:]}"


def derive_codex_id(*parts: object) -> str:
    """The id of what these parts name."""
    return derive_id(NAME, "\0".join(map(str, parts)).encode(errors="replace"))


def session_started_id(thread: str) -> str:
    """Of the start of a session."""
    return derive_codex_id("session", thread)


def subagent_launched_id(thread: str) -> str:
    """Of the launch of a sub-agent, which has a thread of its own."""
    return derive_codex_id("agent", thread, "launched")


def prompt_id(turn: str, words: str, nth: int = 0) -> str:
    """Of a prompt: the turn that it belongs to and what it says, both of which hooks and rollouts repeat."""
    return derive_codex_id("prompt", turn, words.strip(), nth)


def turn_ended_id(turn: str) -> str:
    """Of the end of a turn."""
    return derive_codex_id("turn", turn, "ended")


def tool_called_id(place: CallLocation, call: str) -> str:
    """Of a tool call."""
    return derive_codex_id("tool", _make_unique_key(place, call), "called")


def tool_outcome_id(place: CallLocation, call: str) -> str:
    """Of what came of a tool call, whatever that was."""
    return derive_codex_id("tool", _make_unique_key(place, call), "outcome")


def _make_unique_key(place: CallLocation, key: str) -> str:
    return key if is_unique_id(key) else "\0".join(map(str, (*place, key)))


def is_unique_id(key: str) -> bool:
    """Whether an id was drawn by lot: some providers of models only count."""
    return len(key) >= _MIN_UNIQUE_CHARS


def uuid7_milliseconds(thread: object) -> int | None:
    """When a UUIDv7 was made, in milliseconds since 1970; `None` for any other id."""
    if not isinstance(thread, str) or len(thread) != 36 or thread[14] != "7":
        return None
    try:
        return int(thread[:8] + thread[9:13], 16)
    except ValueError:
        return None


def as_exit_code(value: object) -> int | None:
    """The value if it can be how a program ended."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53 else None


def as_duration_ms(value: object) -> float | None:
    """Milliseconds, of `{"secs", "nanos"}` or of a number of them."""
    if isinstance(value, dict):
        seconds, nanos = as_count(value.get("secs")), as_count(value.get("nanos")) or 0
        return None if seconds is None else round(seconds * 1000 + nanos / 1e6, 3)
    return as_number(value)
