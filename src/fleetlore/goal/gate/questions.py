"""Questions for a person, as the log tells them: which wait, and what became of the others."""

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
"""`over`: the turn that it was asked in has ended."""
IsTrusted: TypeAlias = Callable[[Event], bool]

_ANSWER_KINDS = ("control.requested", "driver.decision")
_TURN_END_KINDS = ("goal.attempt_ended", "driver.attempt_started", "driver.attempt_completed", "driver.goal_completed")


class PermissionQuestion(Struct, frozen=True, kw_only=True):
    """A tool that a person is asked about."""

    id: str
    goal: str
    tool: str
    input: Any = None
    turn: int | None = None
    call_id: str | None = None
    at: datetime | None = None
    expires: datetime | None = None
    hidden: int = 0
    """How many texts of the input were cut, or had secrets taken out: the person does not see all of it."""
    position: Position = ""


def read_questions(log: BlockingRecorder, obeys: IsTrusted) -> list[PermissionQuestion]:
    """Every question, the oldest first; those count that the log's readers believe."""
    found = (parse_question(event) for event in log.read(kinds=("goal.permission_asked",)) if obeys(event))
    return [question for question in found if question is not None]


def parse_question(event: Event) -> PermissionQuestion | None:
    """What an event asks; `None` where it is no question, or one of no goal."""
    try:
        told = msgspec.convert(event.data, goals.PermissionAsked)
    except (msgspec.ValidationError, RecursionError):
        return None
    if event.goal is None or event.id is None:
        return None
    origin = event.origin
    return PermissionQuestion(
        id=event.id,
        goal=event.goal,
        tool=told.tool,
        input=told.input,
        turn=told.turn,
        call_id=told.call_id,
        at=event.at,
        expires=_parse_time(told.expires),
        hidden=0 if origin is None else len(origin.cut) + origin.redacted,
        position=event.position or "",
    )


def find_question_status(log: BlockingRecorder, question: PermissionQuestion, now: datetime, obeys: IsTrusted) -> QuestionStatus:
    """What became of a question; answers and ends count that the log's readers obey."""
    events = log.read(f"goal:{question.goal}", after=question.position, kinds=(*_ANSWER_KINDS, *_TURN_END_KINDS))
    told = _find_answer_or_end(question, events, obeys)
    if told is None:
        return "expired" if question.expires is not None and question.expires <= now else "waiting"
    return told


def _find_answer_or_end(question: PermissionQuestion, events: Iterable[Event], obeys: IsTrusted) -> QuestionStatus | None:
    for event in events:
        if (event.kind in _TURN_END_KINDS or _is_answer_to(event, question)) and obeys(event):
            return "over" if event.kind in _TURN_END_KINDS else "answered"
    return None


def _is_answer_to(event: Event, question: PermissionQuestion) -> bool:
    if event.kind == "driver.decision":
        return event.cause == question.id
    return event.data.get("action") == "decide" and event.data.get("of") == question.id


def _parse_time(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
