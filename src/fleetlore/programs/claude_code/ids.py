"""What the hooks and the transcripts of Claude Code have in common: whose deed it was, and the ids by which one thing is told once.

An id follows from the record's own keys and never from the session: a forked or resumed session repeats its parent's rows.
"""

from __future__ import annotations

from fleetlore.dialects.fields import as_name
from fleetlore.events.envelope import Origin
from fleetlore.events.ids import derive_id
from fleetlore.programs import sessions

NAME = "claude_code"
PROGRAM = "claude-code"


class ClaudeEventContext(sessions.EventContext):
    """Who does it, in which session, and when."""

    __slots__ = ()
    PROGRAM = PROGRAM
    ORIGIN = Origin(dialect=NAME)


def session_agent(session: object) -> str | None:
    """The agent that a session is."""
    name = as_name(session)
    return None if name is None else f"{PROGRAM}/{name[:8]}"


def derive_claude_id(*parts: object) -> str:
    """The id of what these parts name."""
    return derive_id(NAME, "\0".join(map(str, parts)).encode(errors="replace"))


def session_started_id(session: str) -> str:
    """Of the start of a session."""
    return derive_claude_id("session", session)


def prompt_id(key: str) -> str:
    """Of a prompt, by its own id or its row's."""
    return derive_claude_id("prompt", key)


def turn_ended_id(prompt: str) -> str:
    """Of the end of the turn that a prompt began."""
    return derive_claude_id("turn", prompt)


def compacted_id(key: str) -> str:
    """Of a compaction, by its row."""
    return derive_claude_id("compaction", key)


def tool_called_id(call: str) -> str:
    """Of a tool call."""
    return derive_claude_id("tool", call, "called")


def tool_outcome_id(call: str) -> str:
    """Of what came of a tool call, whatever that was."""
    return derive_claude_id("tool", call, "outcome")


def subagent_launched_id(agent: str) -> str:
    """Of a helper's launch."""
    return derive_claude_id("agent", agent, "launched")


def subagent_returned_id(agent: str) -> str:
    """Of a helper's return."""
    return derive_claude_id("agent", agent, "returned")
