"""`session.*`, `agent.*`, `prompt.*`: events of coding agents, session by session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fleetlore.events.payload import Beat, Payload

# The catalog looks up the stage's three `agent.*` kinds in this module.
from fleetlore.events.stage import AgentReflected, AgentSpoke, AgentThought

__all__ = [
    "AgentIdentified",
    "AgentLaunched",
    "AgentNamed",
    "AgentReflected",
    "AgentReturned",
    "AgentSpoke",
    "AgentThought",
    "PromptSubmitted",
    "SessionCompacted",
    "SessionEnded",
    "SessionObserved",
    "SessionStarted",
    "SessionTurnEnded",
    "SessionWaiting",
]


class SessionStarted(Payload, frozen=True, kw_only=True):
    """A session started."""

    kind: ClassVar[str] = "session.started"
    beat: ClassVar[Beat] = "pulse"
    source: str | None = None
    """What started it: `startup`, `resume`, `clear`, `fork`; for a conversational agent also `switch` to another graph."""
    title: str | None = None
    project: str | None = None
    branch: str | None = None
    cwd: str | None = None
    host: str | None = None
    person: str | None = None
    program: str | None = None
    version: str | None = None
    model: str | None = None
    parent_run: str | None = None
    """The session that forked or launched it."""
    task_guessed: bool | None = None
    """True if the task was inferred from a branch name."""
    graph: str | None = None
    """The graph that a conversational agent runs from here on."""
    channel: str | None = None
    """Where its user is: `web`, `terminal`."""


class SessionWaiting(Payload, frozen=True, kw_only=True):
    """A session is waiting for a person."""

    kind: ClassVar[str] = "session.waiting"
    beat: ClassVar[Beat] = "rest"
    why: str
    """`permission`, `idle`, or the program's own message."""
    tool: str | None = None
    call_id: str | None = None


class SessionObserved(Payload, frozen=True, kw_only=True):
    """The program reported the state of a session, or its process has ended."""

    kind: ClassVar[str] = "session.observed"
    beat: ClassVar[Beat] = "pulse"
    status: str
    """`busy`, `waiting`, `idle`, or `gone`."""
    waiting_for: str | None = None
    """As the program says: `permission prompt`, `input needed`, `dialog open`."""
    pid: int | None = None


class SessionTurnEnded(Payload, frozen=True, kw_only=True):
    """An agent ended its turn."""

    kind: ClassVar[str] = "session.turn_ended"
    beat: ClassVar[Beat] = "rest"
    reason: str | None = None
    turn: int | None = None
    duration_ms: float | None = None
    branch: str | None = None
    """The git branch, if it changed since the session started or the last turn ended."""


class SessionEnded(Payload, frozen=True, kw_only=True):
    """A session ended."""

    kind: ClassVar[str] = "session.ended"
    beat: ClassVar[Beat] = "rest"
    reason: str | None = None


class SessionCompacted(Payload, frozen=True, kw_only=True):
    """A session's context was compacted."""

    kind: ClassVar[str] = "session.compacted"
    beat: ClassVar[Beat] = "pulse"
    trigger: str | None = None
    """`auto` or `manual`."""
    before_tokens: int | None = None
    after_tokens: int | None = None
    summary: str | None = None


class AgentLaunched(Payload, frozen=True, kw_only=True):
    """An agent launched another agent."""

    kind: ClassVar[str] = "agent.launched"
    beat: ClassVar[Beat] = "claim"
    role: str | None = None
    """The type of subagent."""
    call_id: str | None = None
    """The tool call that launched it."""
    prompt: str | None = None
    model: str | None = None
    background: bool | None = None
    launcher_guessed: bool | None = None
    """True if the source does not name the launcher and the session's agent is assumed."""


class AgentReturned(Payload, frozen=True, kw_only=True):
    """A launched agent returned its result."""

    kind: ClassVar[str] = "agent.returned"
    beat: ClassVar[Beat] = "progress"
    role: str | None = None
    call_id: str | None = None
    status: str | None = None
    result: Any = None
    tokens: int | None = None
    tool_calls: int | None = None
    duration_ms: float | None = None


class AgentIdentified(Payload, frozen=True, kw_only=True):
    """The agents behind a provisional name are known; their events are stored under their own names."""

    kind: ClassVar[str] = "agent.identified"
    beat: ClassVar[Beat] = "pulse"


class AgentNamed(Payload, frozen=True, kw_only=True):
    """An agent was given a display name."""

    kind: ClassVar[str] = "agent.named"
    beat: ClassVar[Beat] = "pulse"
    name: str | None = None
    """Given by a person: wins over everything else."""
    title: str | None = None
    """The program's title of the session."""


class PromptSubmitted(Payload, frozen=True, kw_only=True):
    """A person gave an agent an instruction."""

    kind: ClassVar[str] = "prompt.submitted"
    beat: ClassVar[Beat] = "claim"
    prompt: str | None = None
    """The full prompt; `text` has only its first line."""
    prompt_id: str | None = None
    row: str | None = None
    """The program's own id of the record that holds it."""
    images: int | None = None
    task_guessed: bool | None = None
    """True if the task was inferred from a branch name or prompt."""
    correction: bool | None = None
    """True if the person interrupted the agent or withdrew an instruction."""

    @classmethod
    def beat_for(cls, data: Mapping[str, Any]) -> Beat:
        """A correction is a setback."""
        return "setback" if data.get("correction") is True else cls.beat
