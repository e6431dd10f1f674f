"""`control.*`, `goal.*`: control requests to a goal, and what its driver needs to continue after a crash."""

from __future__ import annotations

from typing import Any, ClassVar

from fleetlore.events.payload import Beat, Payload


class ControlRequested(Payload, frozen=True, kw_only=True):
    """Somebody requested a change: pause, resume, cancel and so on."""

    kind: ClassVar[str] = "control.requested"
    beat: ClassVar[Beat] = "voice"
    action: str
    """`pause`, `resume`, `cancel`, `raise`, `say`, `decide`, `interrupt`, `drain`, `kill`, `restart`, `redirect` and the like."""
    value: Any = None
    """The action's argument: the new limit, the message, the choice."""
    of: str | None = None
    """Id of the question that this answers."""
    reason: str | None = None


class SessionBound(Payload, frozen=True, kw_only=True):
    """A goal was bound to an agent's session."""

    kind: ClassVar[str] = "goal.session_bound"
    beat: ClassVar[Beat] = "pulse"
    session: str
    harness: str | None = None
    model: str | None = None
    workspace: str | None = None


class Checkpointed(Payload, frozen=True, kw_only=True):
    """The workspace was saved before a turn."""

    kind: ClassVar[str] = "goal.checkpointed"
    beat: ClassVar[Beat] = "pulse"
    turn: int | None = None
    """0: before the first turn."""
    sha: str | None = None
    workspace: str | None = None
    verifiers: str | None = None
    """Digest of the verifier files; files changed since are not used."""


class GoalWaiting(Payload, frozen=True, kw_only=True):
    """A goal is waiting."""

    kind: ClassVar[str] = "goal.waiting"
    beat: ClassVar[Beat] = "rest"
    why: str
    until: str | None = None
    """RFC 3339, if known."""
    attempt: int | None = None
    turn: int | None = None


class PermissionAsked(Payload, frozen=True, kw_only=True):
    """A person was asked for permission to use a tool."""

    kind: ClassVar[str] = "goal.permission_asked"
    beat: ClassVar[Beat] = "rest"
    tool: str
    call_id: str | None = None
    input: Any = None
    turn: int | None = None
    expires: str | None = None
    """RFC 3339; denied if unanswered by then."""


class ToolEffect(Payload, frozen=True, kw_only=True):
    """A tool changed something outside the log."""

    kind: ClassVar[str] = "goal.tool_effect"
    beat: ClassVar[Beat] = "progress"
    tool: str
    call_id: str | None = None
    paths: tuple[str, ...] = ()
    result: Any = None
    turn: int | None = None


class AttemptEnded(Payload, frozen=True, kw_only=True):
    """The agent's part of a turn ended; its result is not judged yet."""

    kind: ClassVar[str] = "goal.attempt_ended"
    beat: ClassVar[Beat] = "pulse"
    turn: int
    how: str
    """`finished`, `failed`, `asleep`, `over_budget`, `stopped`, `timed_out`, `silent`, `no_result` or `not_started`."""
    complaint: str | None = None
    """The failure category: `overflow`, `session_lost`, `rate_limit` and so on."""
    error: str | None = None
    words: str | None = None
    """The agent's last message."""
    session: str | None = None
    tokens: int = 0
    usd: float | None = None
    context: int | None = None
    """Tokens in the agent's context at the end."""
    seconds: float = 0.0
    until: str | None = None
    """RFC 3339: when to continue, if the agent or its endpoint says so."""


class GoalReserved(Payload, frozen=True, kw_only=True):
    """A child goal reserved a part of the budget for its next call; this replaces what it reserved before, and zero releases it."""

    kind: ClassVar[str] = "goal.reserved"
    beat: ClassVar[Beat] = "pulse"
    below: str
    """The goal that reserved it."""
    turns: int = 0
    tokens: int = 0
    usd: float | None = None


class GoalSpent(Payload, frozen=True, kw_only=True):
    """A child goal used resources that count against both."""

    kind: ClassVar[str] = "goal.spent"
    beat: ClassVar[Beat] = "pulse"
    below: str
    """The goal that used them; if it is this goal itself, what was reported of the current turn."""
    turns: int = 0
    tokens: int = 0
    usd: float | None = None
    others: dict[str, float] | None = None
    """Use of axes that have no field here, by name."""
    seconds: float = 0.0
