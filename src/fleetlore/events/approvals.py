"""`approval.*`: what an agent asks a person to allow. The answer is a `control.requested` with the action `decide`."""

from __future__ import annotations

from typing import Any, ClassVar

from fleetlore.events.payload import Beat, Payload


class ApprovalRequested(Payload, frozen=True, kw_only=True):
    """A person was asked to allow a tool call."""

    kind: ClassVar[str] = "approval.requested"
    beat: ClassVar[Beat] = "rest"
    tool: str
    call_id: str | None = None
    input: Any = None
    """The exact arguments of the call."""
    turn: int | None = None
    """Of a goal: the turn in which it was asked."""
    expires: str | None = None
    """RFC 3339. Unanswered by then, a goal's request is denied, and a program asks in its own window."""
    program: str | None = None
    """The coding agent that asks; absent for goals."""
    answerable: bool | None = None
    """False if it is only shown: a question or a plan, which the person answers in the program."""


class ApprovalClosed(Payload, frozen=True, kw_only=True):
    """A request needs no answer any more."""

    kind: ClassVar[str] = "approval.closed"
    beat: ClassVar[Beat] = "pulse"
    of: str
    """Id of the request."""
    reason: str
    """`terminal`: answered in the program; `timed_out`: nobody answered, and the program goes on asking in its own window."""
