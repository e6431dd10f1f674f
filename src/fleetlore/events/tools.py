"""`tool.*`, `process.*`, `audit.*`: what agents do with their hands, and what checking it found."""

from __future__ import annotations

from typing import Any, ClassVar

from fleetlore.events.payload import Beat, Payload


class ToolCalled(Payload, frozen=True, kw_only=True):
    """An agent called a tool."""

    kind: ClassVar[str] = "tool.called"
    beat: ClassVar[Beat] = "pulse"
    tool: str
    call_id: str | None = None
    input: Any = None
    cwd: str | None = None
    turn: int | None = None


class ToolReturned(Payload, frozen=True, kw_only=True):
    """A tool gave back its result."""

    kind: ClassVar[str] = "tool.returned"
    beat: ClassVar[Beat] = "progress"
    tool: str
    call_id: str | None = None
    output: Any = None
    input: Any = None
    """Where the source repeats it."""
    exit_code: int | None = None
    paths: tuple[str, ...] = ()
    """Files that it changed."""
    duration_ms: float | None = None


class ToolFailed(Payload, frozen=True, kw_only=True):
    """A tool failed."""

    kind: ClassVar[str] = "tool.failed"
    beat: ClassVar[Beat] = "setback"
    tool: str
    call_id: str | None = None
    error: str | None = None
    output: Any = None
    input: Any = None
    exit_code: int | None = None
    interrupted: bool | None = None
    duration_ms: float | None = None


class ToolDenied(Payload, frozen=True, kw_only=True):
    """An agent was not let use a tool."""

    kind: ClassVar[str] = "tool.denied"
    beat: ClassVar[Beat] = "setback"
    tool: str
    call_id: str | None = None
    input: Any = None
    reason: str | None = None
    by: str | None = None
    """The rule, person or program that said no."""


class ProcessStarted(Payload, frozen=True, kw_only=True):
    """A program was started."""

    kind: ClassVar[str] = "process.started"
    beat: ClassVar[Beat] = "pulse"
    command: str | tuple[str, ...] | None = None
    pid: int | None = None
    group: int | None = None
    born: str | None = None
    """Its start time as the system tells it, so that a reused pid is not mistaken for it."""
    cwd: str | None = None
    call_id: str | None = None


class ProcessFinished(Payload, frozen=True, kw_only=True):
    """A program ended."""

    kind: ClassVar[str] = "process.finished"
    beat: ClassVar[Beat] = "pulse"
    pid: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    timed_out: bool | None = None
    call_id: str | None = None
    duration_ms: float | None = None


class AuditMismatch(Payload, frozen=True, kw_only=True):
    """The screen did not show what it was believed to show."""

    kind: ClassVar[str] = "audit.mismatch"
    beat: ClassVar[Beat] = "setback"
    missing: tuple[Any, ...] = ()
    unexpected: tuple[Any, ...] = ()
    retried: bool | None = None


class AuditCodeWithoutTool(Payload, frozen=True, kw_only=True):
    """An agent wrote code where a tool call was due."""

    kind: ClassVar[str] = "audit.code_without_tool"
    beat: ClassVar[Beat] = "setback"
    sample: str | None = None
    retried: bool | None = None


class AuditTalkWithoutAction(Payload, frozen=True, kw_only=True):
    """An agent answered a request with talk alone."""

    kind: ClassVar[str] = "audit.talk_without_action"
    beat: ClassVar[Beat] = "setback"
    request: str | None = None
    retried: bool | None = None
