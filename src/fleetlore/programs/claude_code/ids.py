"""Agent names and event ids of Claude Code, shared by hooks and transcripts so that each event is stored once.

An id is derived from the record's own keys. The session is not part of it, because a forked or resumed session repeats its
parent's rows.
"""

from __future__ import annotations

from functools import lru_cache

from fleetlore.dialects.fields import as_name
from fleetlore.events.envelope import Origin
from fleetlore.events.ids import derive_id
from fleetlore.programs import sessions

NAME = "claude_code"
PROGRAM = "claude-code"


class ClaudeEventContext(sessions.EventContext):
    """The acting agent, its session and the time."""

    __slots__ = ()
    PROGRAM = PROGRAM
    ORIGIN = Origin(dialect=NAME)


def session_agent(session: object) -> str | None:
    """The agent name of a session."""
    return _name_agent(session) if isinstance(session, str) else None


@lru_cache(maxsize=256)
def _name_agent(session: str) -> str | None:
    return f"{PROGRAM}/{session[:8]}" if as_name(session) else None


def derive_claude_id(*parts: object) -> str:
    """An id derived from these parts."""
    return derive_id(NAME, "\0".join(map(str, parts)).encode(errors="replace"))


def session_started_id(session: str) -> str:
    """The id of a session's start."""
    return derive_claude_id("session", session)


def prompt_id(key: str) -> str:
    """The id of a prompt; `key` is the prompt's own id or the id of its row."""
    return derive_claude_id("prompt", key)


def turn_ended_id(prompt: str) -> str:
    """The id of the end of a prompt's turn."""
    return derive_claude_id("turn", prompt)


def compacted_id(key: str) -> str:
    """The id of a compaction; `key` is the id of its row."""
    return derive_claude_id("compaction", key)


def tool_called_id(call: str) -> str:
    """The id of a tool call."""
    return derive_claude_id("tool", call, "called")


def tool_outcome_id(call: str) -> str:
    """The id of a tool call's outcome: result, error or denial."""
    return derive_claude_id("tool", call, "outcome")


def subagent_launched_id(agent: str) -> str:
    """The id of a subagent's launch."""
    return derive_claude_id("agent", agent, "launched")


def subagent_returned_id(agent: str) -> str:
    """The id of a subagent's return."""
    return derive_claude_id("agent", agent, "returned")
