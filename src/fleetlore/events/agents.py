"""`session.*`, `agent.*`, `prompt.*`: coding agents at work, session by session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fleetlore.events.payload import Beat, Payload

# The stage's three `agent.*` kinds are looked up here, by their first word.
from fleetlore.events.stage import AgentReflected, AgentSpoke, AgentThought

__all__ = [
    "AgentLaunched",
    "AgentNamed",
    "AgentReflected",
    "AgentReturned",
    "AgentSpoke",
    "AgentThought",
    "PromptSubmitted",
    "SessionCompacted",
    "SessionEnded",
    "SessionStarted",
    "SessionTurnEnded",
    "SessionWaiting",
]


class SessionStarted(Payload, frozen=True, kw_only=True):
    """A session was opened."""

    kind: ClassVar[str] = "session.started"
    beat: ClassVar[Beat] = "pulse"
    source: str | None = None
    """What opened it: `startup`, `resume`, `clear`, `fork`; of a conversational agent, `switch` to another graph, too."""
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
    """The session that it was forked from or launched by."""
    task_guessed: bool | None = None
    """True where the task was read out of a branch."""
    graph: str | None = None
    """By which a conversational agent goes from here on."""
    channel: str | None = None
    """Where its user sits: `web`, `terminal`."""


class SessionWaiting(Payload, frozen=True, kw_only=True):
    """A session could not go on until a person acted."""

    kind: ClassVar[str] = "session.waiting"
    beat: ClassVar[Beat] = "rest"
    why: str
    """`permission`, `idle`, or what the program said."""
    tool: str | None = None
    call_id: str | None = None


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
    """A session was closed."""

    kind: ClassVar[str] = "session.ended"
    beat: ClassVar[Beat] = "rest"
    reason: str | None = None


class SessionCompacted(Payload, frozen=True, kw_only=True):
    """A session's context was made smaller."""

    kind: ClassVar[str] = "session.compacted"
    beat: ClassVar[Beat] = "pulse"
    trigger: str | None = None
    """`auto` or `manual`."""
    before_tokens: int | None = None
    after_tokens: int | None = None
    summary: str | None = None


class AgentLaunched(Payload, frozen=True, kw_only=True):
    """An agent set another to work."""

    kind: ClassVar[str] = "agent.launched"
    beat: ClassVar[Beat] = "claim"
    role: str | None = None
    """The kind of helper asked for."""
    call_id: str | None = None
    """The tool call that launched it."""
    prompt: str | None = None
    model: str | None = None
    background: bool | None = None
    launcher_guessed: bool | None = None
    """True where the source does not say who launched it, and the session's own agent is taken for it."""


class AgentReturned(Payload, frozen=True, kw_only=True):
    """An agent that another had set to work came back."""

    kind: ClassVar[str] = "agent.returned"
    beat: ClassVar[Beat] = "progress"
    role: str | None = None
    call_id: str | None = None
    status: str | None = None
    result: Any = None
    tokens: int | None = None
    tool_calls: int | None = None
    duration_ms: float | None = None


class AgentNamed(Payload, frozen=True, kw_only=True):
    """An agent was given a name to be shown under."""

    kind: ClassVar[str] = "agent.named"
    beat: ClassVar[Beat] = "pulse"
    name: str | None = None
    """What a person called it: wins over everything else."""
    title: str | None = None
    """What its program called the session."""


class PromptSubmitted(Payload, frozen=True, kw_only=True):
    """A person told an agent what to do."""

    kind: ClassVar[str] = "prompt.submitted"
    beat: ClassVar[Beat] = "claim"
    prompt: str | None = None
    """All of it, where `text` is only its first line."""
    prompt_id: str | None = None
    row: str | None = None
    """The program's own id of the record that holds it."""
    images: int | None = None
    task_guessed: bool | None = None
    """True where the task was read out of a branch or a prompt."""
    correction: bool | None = None
    """True where the person broke off what was going on, or took an instruction back."""

    @classmethod
    def beat_for(cls, data: Mapping[str, Any]) -> Beat:
        """A person who has to correct the agent tells of a setback."""
        return "setback" if data.get("correction") is True else cls.beat
