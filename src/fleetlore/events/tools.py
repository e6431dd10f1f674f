"""`tool.*`, `process.*`, `audit.*`: tool calls and processes of agents, and audit findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fleetlore.events.payload import Beat, Payload

ACTION_BEATS: Mapping[str, Beat] = {
    "look": "pulse",
    "edit": "progress",
    "commit": "progress",
    "push": "progress",
    "pr_open": "propose",
    "pr_merge": "deliver",
    "revert": "setback",
    "test": "progress",
    "build": "progress",
    "check": "progress",
    "install": "pulse",
    "plan": "pulse",
    "ask": "pulse",
    "launch": "pulse",
    "run": "pulse",
}
"""Purpose of a tool call (field `deed`) → beat of its return. docs/events.md describes each."""

CHECKING = frozenset(("test", "build", "check"))
_BAD_TALLIES = (" failed", " error", " errors")
"""Endings of a `subject` that report failures although the command succeeded."""
_HARMLESS = frozenset(("look", "edit", "plan", "ask"))
"""Failures of these are not setbacks: a search without a hit, an edit that did not match."""


class ToolCalled(Payload, frozen=True, kw_only=True):
    """An agent called a tool."""

    kind: ClassVar[str] = "tool.called"
    beat: ClassVar[Beat] = "pulse"
    tool: str
    call_id: str | None = None
    input: Any = None
    cwd: str | None = None
    turn: int | None = None
    deed: str | None = None
    """Purpose, if the call reveals it: one of `ACTION_BEATS`."""
    flags: tuple[str, ...] = ()
    """Command flags that affect trust in the result: `--no-verify`, `--force`, `rm -rf`."""


class ToolReturned(Payload, frozen=True, kw_only=True):
    """A tool returned its result."""

    kind: ClassVar[str] = "tool.returned"
    beat: ClassVar[Beat] = "progress"
    tool: str
    call_id: str | None = None
    output: Any = None
    input: Any = None
    """If the source repeats it."""
    exit_code: int | None = None
    output_end: str | None = None
    """The end of an output of which the log keeps only the beginning."""
    paths: tuple[str, ...] = ()
    """Changed files."""
    duration_ms: float | None = None
    deed: str | None = None
    subject: str | None = None
    """Object of the call: a commit's first line, a branch, a pull request, the tests that ran."""
    flags: tuple[str, ...] = ()

    @classmethod
    def beat_for(cls, data: Mapping[str, Any]) -> Beat:
        """The purpose decides. Failed tests are a setback although the tool itself succeeded."""
        action = data.get("deed")
        if not isinstance(action, str):
            return cls.beat
        if action in CHECKING and isinstance(subject := data.get("subject"), str) and subject.endswith(_BAD_TALLIES):
            return "setback"
        return ACTION_BEATS.get(action, cls.beat)


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
    output_end: str | None = None
    interrupted: bool | None = None
    duration_ms: float | None = None
    deed: str | None = None
    subject: str | None = None
    flags: tuple[str, ...] = ()

    @classmethod
    def beat_for(cls, data: Mapping[str, Any]) -> Beat:
        """Failed looks and edits are harmless, and an interruption by a person is not a failure."""
        action = data.get("deed")
        if data.get("interrupted") is True or (isinstance(action, str) and action in _HARMLESS):
            return "pulse"
        return cls.beat


class ToolDenied(Payload, frozen=True, kw_only=True):
    """An agent was denied a tool."""

    kind: ClassVar[str] = "tool.denied"
    beat: ClassVar[Beat] = "setback"
    tool: str
    call_id: str | None = None
    input: Any = None
    reason: str | None = None
    row: str | None = None
    """The program's own id of the record that holds a person's reason."""
    by: str | None = None
    """The rule, person or program that denied it."""
    deed: str | None = None
    flags: tuple[str, ...] = ()


class ProcessStarted(Payload, frozen=True, kw_only=True):
    """A program was started."""

    kind: ClassVar[str] = "process.started"
    beat: ClassVar[Beat] = "pulse"
    command: str | tuple[str, ...] | None = None
    pid: int | None = None
    group: int | None = None
    born: str | None = None
    """Start time reported by the system, to detect a reused pid."""
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
    """The screen did not show what it was expected to show."""

    kind: ClassVar[str] = "audit.mismatch"
    beat: ClassVar[Beat] = "setback"
    missing: tuple[Any, ...] = ()
    unexpected: tuple[Any, ...] = ()
    retried: bool | None = None
    silent: bool | None = None


class AuditCodeWithoutTool(Payload, frozen=True, kw_only=True):
    """An agent wrote code instead of a tool call."""

    kind: ClassVar[str] = "audit.code_without_tool"
    beat: ClassVar[Beat] = "setback"
    sample: str | None = None
    retried: bool | None = None


class AuditTalkWithoutAction(Payload, frozen=True, kw_only=True):
    """An agent only talked instead of acting."""

    kind: ClassVar[str] = "audit.talk_without_action"
    beat: ClassVar[Beat] = "setback"
    request: str | None = None
    retried: bool | None = None
