"""Reads the permission questions in a log: which are open, and how the others ended. Used by `lore decide` and the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from fleetlore.events import goals
from fleetlore.events.envelope import Event
from fleetlore.log.base import Position
from fleetlore.log.recorder import BlockingRecorder

QuestionStatus: TypeAlias = Literal["waiting", "answered", "expired", "over"]
"""`over`: the turn in which it was asked has ended."""
IsTrusted: TypeAlias = Callable[[Event], bool]

_ANSWER_KINDS = ("control.requested", "driver.decision")
_TURN_END_KINDS = ("goal.attempt_ended", "driver.attempt_started", "driver.attempt_completed", "driver.goal_completed")


class PermissionQuestion(Struct, frozen=True, kw_only=True):
    """A tool call that a person is asked to allow."""

    id: str
    goal: str
    tool: str
    input: Any = None
    turn: int | None = None
    call_id: str | None = None
    at: datetime | None = None
    expires: datetime | None = None
    hidden: int = 0
    """Number of texts in the input that were cut or redacted: the person does not see all of it."""
    position: Position = ""


def read_questions(log: BlockingRecorder, is_trusted: IsTrusted) -> list[PermissionQuestion]:
    """All trusted questions, oldest first."""
    questions = (parse_question(event) for event in log.read(kinds=("goal.permission_asked",)) if is_trusted(event))
    return [question for question in questions if question is not None]


def parse_question(event: Event) -> PermissionQuestion | None:
    """The question in an event; `None` if it is not one, or belongs to no goal."""
    try:
        asked = msgspec.convert(event.data, goals.PermissionAsked)
    except (msgspec.ValidationError, RecursionError):
        return None
    if event.goal is None or event.id is None:
        return None
    origin = event.origin
    return PermissionQuestion(
        id=event.id,
        goal=event.goal,
        tool=asked.tool,
        input=asked.input,
        turn=asked.turn,
        call_id=asked.call_id,
        at=event.at,
        expires=_parse_time(asked.expires),
        hidden=0 if origin is None else len(origin.cut) + origin.redacted,
        position=event.position or "",
    )


def find_question_status(log: BlockingRecorder, question: PermissionQuestion, now: datetime, is_trusted: IsTrusted) -> QuestionStatus:
    """Whether a question is open, or how it ended. Only trusted events count."""
    events = log.read(f"goal:{question.goal}", after=question.position, kinds=(*_ANSWER_KINDS, *_TURN_END_KINDS))
    status = _find_answer_or_end(question, events, is_trusted)
    if status is None:
        return "expired" if question.expires is not None and question.expires <= now else "waiting"
    return status


def _find_answer_or_end(question: PermissionQuestion, events: Iterable[Event], is_trusted: IsTrusted) -> QuestionStatus | None:
    for event in events:
        if (event.kind in _TURN_END_KINDS or _is_answer_to(event, question)) and is_trusted(event):
            return "over" if event.kind in _TURN_END_KINDS else "answered"
    return None


def _is_answer_to(event: Event, question: PermissionQuestion) -> bool:
    if event.kind == "driver.decision":
        return event.cause == question.id
    return event.data.get("action") == "decide" and event.data.get("of") == question.id


def _parse_time(text: str | None) -> datetime | None:
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
