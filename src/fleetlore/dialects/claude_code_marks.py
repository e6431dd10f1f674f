"""What the hooks and the transcripts of Claude Code have in common: whose deed it was, and the ids by which one thing is told once.

An id follows from the record's own keys and never from the session: a forked or resumed session repeats its parent's rows.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, NamedTuple

from fleetlore.dialects.fields import as_name, first_line
from fleetlore.events.envelope import Event, Origin, Visibility
from fleetlore.events.ids import derive_id

NAME = "claude_code"
PROGRAM = "claude-code"
PERSON = "user"
"""Who submits prompts, where nobody is named."""

LONGEST_TEXT = 300
_ORIGIN = Origin(dialect=NAME)
_word = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")


class Scene(NamedTuple):
    """Who does it, in which session, and when."""

    at: datetime | None
    agent: str | None
    run: str | None
    parent: str | None = None
    task: str | None = None

    def tell(
        self,
        kind: str,
        id: str,
        *,
        text: str | None = None,
        data: dict[str, Any] | None = None,
        actor: str | None = None,
        child: str | None = None,
        cause: str | None = None,
        visibility: Visibility = "public",
    ) -> Event:
        """An event of this scene."""
        return Event(
            id=id,
            at=self.at,
            kind=kind,
            actor=actor or self.agent or PROGRAM,
            agent=self.agent,
            parent=self.parent,
            child=child,
            task=self.task,
            run=self.run,
            cause=cause,
            text=shorten(text),
            visibility=visibility,
            data={key: value for key, value in (data or {}).items() if value is not None},
            origin=_ORIGIN,
        )


def agent_of(session: object) -> str | None:
    """The agent that a session is."""
    name = as_name(session)
    return None if name is None else f"{PROGRAM}/{name[:8]}"


def derive(*parts: object) -> str:
    """The id of what these parts name."""
    return derive_id(NAME, "\0".join(map(str, parts)).encode(errors="replace"))


def started_id(session: str) -> str:
    """Of the start of a session."""
    return derive("session", session)


def prompt_id(key: str) -> str:
    """Of a prompt, by its own id or its row's."""
    return derive("prompt", key)


def turn_id(prompt: str) -> str:
    """Of the end of the turn that a prompt began."""
    return derive("turn", prompt)


def compacted_id(key: str) -> str:
    """Of a compaction, by its row."""
    return derive("compaction", key)


def called_id(call: str) -> str:
    """Of a tool call."""
    return derive("tool", call, "called")


def outcome_id(call: str) -> str:
    """Of what came of a tool call, whatever that was."""
    return derive("tool", call, "outcome")


def launched_id(agent: str) -> str:
    """Of a helper's launch."""
    return derive("agent", agent, "launched")


def returned_id(agent: str) -> str:
    """Of a helper's return."""
    return derive("agent", agent, "returned")


def snake(name: str) -> str:
    """`PreToolUse` and `pre-tool-use` as `pre_tool_use`, fit to be the last word of a kind."""
    words = "_".join(word.lower() for word in _word.findall(name))[:60].strip("_")
    return words if words and words[0].isalpha() else f"x_{words or 'unknown'}"


def shorten(text: object) -> str | None:
    """The first line that says something, not too long."""
    line = first_line(text)
    return None if line is None else line[:LONGEST_TEXT]
