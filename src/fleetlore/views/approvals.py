"""Approvals: tool calls that agents ask a person to allow, and which of them are open.

Goals and the user's own coding agents ask with the same event, and one rule (`find_end`) says what ends a request.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from fleetlore.events.approvals import ApprovalRequested
from fleetlore.events.envelope import Event
from fleetlore.programs.sessions import describe_request

ApprovalStatus = Literal["waiting", "answered", "closed", "expired", "over"]
"""`closed`: answered in the program itself; `over`: the turn in which it was asked has ended."""

ASKING_KINDS = ("approval.requested", "goal.permission_asked")
"""The second is that of older logs."""
_ANSWER_KINDS = ("control.requested", "driver.decision", "approval.closed")
_GOAL_ENDS = ("goal.attempt_ended", "driver.attempt_started", "driver.attempt_completed", "driver.goal_completed")
_TURN_ENDS = ("prompt.submitted", "session.turn_ended")
_RESULTS = ("tool.returned", "tool.failed", "tool.denied")
ENDING_KINDS = (*_ANSWER_KINDS, *_GOAL_ENDS, *_TURN_ENDS, *_RESULTS, "session.ended", "agent.returned")
KINDS = frozenset((*ASKING_KINDS, *ENDING_KINDS))
MOST_OPEN = 500
"""Requests that the fold remembers; the oldest are dropped."""


class Approval(Struct, frozen=True, kw_only=True):
    """A tool call that a person is asked to allow. Its texts are untrusted."""

    id: str
    tool: str
    input: Any = None
    text: str = ""
    """What it would do, in one line."""
    goal: str | None = None
    run: str | None = None
    agent: str | None = None
    turn: int | None = None
    call_id: str | None = None
    program: str | None = None
    at: datetime | None = None
    expires: datetime | None = None
    can_answer: bool = True
    """False if the person must answer in the program."""
    hidden: int = 0
    """Number of texts in the input that were cut or redacted: the person does not see all of it."""
    position: str = ""

    @property
    def scope(self) -> str:
        """Where its answers are stored."""
        return f"run:{self.run}" if self.goal is None else f"goal:{self.goal}"


def parse_approval(event: Event) -> Approval | None:
    """The request in an event; `None` if it is not one, or belongs to no goal and no session."""
    if event.kind not in ASKING_KINDS or event.id is None or (event.goal is None and event.run is None):
        return None
    try:
        asked = msgspec.convert(event.data, ApprovalRequested)
    except (msgspec.ValidationError, RecursionError):
        return None
    origin = event.origin
    return Approval(
        id=event.id,
        tool=asked.tool,
        input=asked.input,
        text=describe_request(asked.tool, asked.input),
        goal=event.goal,
        run=event.run,
        agent=event.agent,
        turn=asked.turn,
        call_id=asked.call_id,
        program=asked.program,
        at=event.at,
        expires=_parse_time(asked.expires),
        can_answer=asked.answerable is not False,
        hidden=0 if origin is None else len(origin.cut) + origin.redacted,
        position=event.position or "",
    )


def apply(open_requests: dict[str, Approval], event: Event) -> None:
    """Take in one more event: adds a request, or removes those that it ends. Never raises."""
    if event.kind not in KINDS:
        return
    if event.kind in ASKING_KINDS:
        if (found := parse_approval(event)) is not None:
            open_requests[found.id] = found
            if len(open_requests) > MOST_OPEN:
                del open_requests[next(iter(open_requests))]
        return
    for id in [id for id, approval in open_requests.items() if find_end(approval, event) is not None]:
        del open_requests[id]


def find_end(approval: Approval, event: Event) -> Literal["answered", "closed", "over"] | None:
    """How an event ends a request; `None` if it does not."""
    kind, data = event.kind, event.data
    if kind == "control.requested":
        return "answered" if data.get("action") == "decide" and data.get("of") == approval.id else None
    if kind == "driver.decision":
        return "answered" if event.cause == approval.id else None
    if kind == "approval.closed":
        return "closed" if data.get("of") == approval.id else None
    if approval.goal is not None:
        return "over" if kind in _GOAL_ENDS and event.goal == approval.goal else None
    if event.run != approval.run or (event.at is not None and approval.at is not None and event.at < approval.at):
        return None
    if kind in _RESULTS:
        return "closed" if approval.call_id is not None and data.get("call_id") == approval.call_id else None
    is_own = event.agent == approval.agent if kind in _TURN_ENDS else event.child == approval.agent if kind == "agent.returned" else None
    return "over" if is_own or kind == "session.ended" else None


def read_choice(approval: Approval, event: Event) -> tuple[Literal["allow", "deny"], str] | None:
    """The person's answer in an event, with the reason; `None` if it is not an answer to this request."""
    if event.kind != "control.requested" or find_end(approval, event) != "answered":
        return None
    value = event.data.get("value")
    choice, message = (value.get("choice"), value.get("message")) if isinstance(value, dict) else (value, None)
    return ("allow" if choice == "allow" else "deny"), message if isinstance(message, str) else ""


def is_expired(approval: Approval, now: datetime) -> bool:
    """Whether its time is up."""
    return approval.expires is not None and approval.expires <= now


def _parse_time(text: str | None) -> datetime | None:
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
