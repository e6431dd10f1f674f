"""`tool.*`, `process.*`, `audit.*`: what agents do with their hands, and what checking it found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fleetlore.events.payload import Beat, Payload

DEEDS: Mapping[str, Beat] = {
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
"""What a tool was used for, as `deed` has it, and the beat of its return. docs/events.md tells what each of them is."""

CHECKING = frozenset(("test", "build", "check"))
_BAD_TALLIES = (" failed", " error", " errors")
"""How the subject of a test run, a build or a check ends that counts failures, though its command came to its end."""
_HARMLESS = frozenset(("look", "edit", "plan", "ask"))
"""Deeds that break nothing when they fail: a search without a hit is no setback, nor is an edit that missed, unless it goes on missing."""


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
    """What it was for, where the call tells: one of `DEEDS`."""
    flags: tuple[str, ...] = ()
    """Flags of a command that decide how far its result can be trusted: `--no-verify`, `--force`, `rm -rf`."""


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
    output_end: str | None = None
    """The end of an output of which the log keeps only the beginning."""
    paths: tuple[str, ...] = ()
    """Files that it changed."""
    duration_ms: float | None = None
    deed: str | None = None
    subject: str | None = None
    """What the deed was about: a commit's first line, a branch, a pull request, the tests that ran."""
    flags: tuple[str, ...] = ()

    @classmethod
    def beat_for(cls, data: Mapping[str, Any]) -> Beat:
        """What it was used for decides; tests that failed are a setback although the tool itself did not fail."""
        deed = data.get("deed")
        if not isinstance(deed, str):
            return cls.beat
        if deed in CHECKING and isinstance(subject := data.get("subject"), str) and subject.endswith(_BAD_TALLIES):
            return "setback"
        return DEEDS.get(deed, cls.beat)


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
        """A look or an edit that misses breaks nothing; what a person broke off did not fail."""
        deed = data.get("deed")
        if data.get("interrupted") is True or (isinstance(deed, str) and deed in _HARMLESS):
            return "pulse"
        return cls.beat


class ToolDenied(Payload, frozen=True, kw_only=True):
    """An agent was not let use a tool."""

    kind: ClassVar[str] = "tool.denied"
    beat: ClassVar[Beat] = "setback"
    tool: str
    call_id: str | None = None
    input: Any = None
    reason: str | None = None
    row: str | None = None
    """The program's own id of the record that holds a person's reason."""
    by: str | None = None
    """The rule, person or program that said no."""
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
