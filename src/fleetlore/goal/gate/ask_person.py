"""Asks a person whether a tool may be used: the question is stored in the log, and the answer is read from it.

No answer in time is a denial. `permissions.py` passes the answers on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import msgspec

from fleetlore import clock
from fleetlore.events.driver_types import Allow, Deny
from fleetlore.events.envelope import Event
from fleetlore.goal.gate.decision import (
    ACTOR,
    PermissionAnswer,
    PermissionRequest,
    RecordEvent,
    format_timestamp,
    make_denial,
    truncate_input,
)

GOAL_CANCELLED = "the goal was cancelled"
MAX_OPEN_QUESTIONS = 32


class _PendingQuestion:
    """An open question; identical requests share it."""

    def __init__(self, id: str, answered: asyncio.Future[PermissionAnswer]) -> None:
        self.id, self.answered = id, answered


class PersonDecider:
    """Asks with a `goal.permission_asked` event. `permissions.py` calls `answer_question` when the answer is in the log."""

    def __init__(
        self, record_event: RecordEvent, *, timeout: float = 600.0, now: clock.Clock = clock.now, new_id: Callable[[], str] = clock.uuid7
    ) -> None:
        self._record_event, self._timeout, self._now, self._new_id = record_event, timeout, now, new_id
        self._open_questions: dict[bytes, _PendingQuestion] = {}
        self._closed_reason: str | None = None

    @property
    def open_question_ids(self) -> tuple[str, ...]:
        """Ids of the open questions."""
        return tuple(question.id for question in self._open_questions.values())

    async def decide(self, request: PermissionRequest) -> PermissionAnswer:
        """The person's answer, or a denial if none comes in time."""
        if self._closed_reason is not None:
            return make_denial(self._closed_reason)
        key = _question_key(request)
        question = self._open_questions.get(key)
        if question is None:
            if len(self._open_questions) >= MAX_OPEN_QUESTIONS:
                return make_denial("too many questions wait for a person already; wait for their answers before you ask for more")
            question = self._open_questions[key] = _PendingQuestion(self._new_id(), asyncio.get_running_loop().create_future())
            task = asyncio.create_task(self._ask_person(key, question, request))
            question.answered.add_done_callback(lambda _: task.cancel())
        return await asyncio.shield(question.answered)

    async def _ask_person(self, key: bytes, question: _PendingQuestion, request: PermissionRequest) -> None:
        """Store the question and make sure that it is resolved. Runs on if the first requester is cancelled."""
        try:
            async with asyncio.timeout(self._timeout):
                await self._record_event(self._question_event(question.id, request))
                await asyncio.shield(question.answered)
        except TimeoutError:
            reason = (
                f"nobody answered within {_format_seconds(self._timeout)}, so it is denied; go on without it, or say what you need it for"
            )
            _resolve_question(question, make_denial(reason, cause=question.id))
        except Exception as error:  # noqa: BLE001  # whatever the error, a requester waits for an answer
            _resolve_question(question, make_denial(f"a person could not be asked, so it is denied: {error}"))
        finally:
            self._open_questions.pop(key, None)
            _resolve_question(question, make_denial("the question was dropped, so it is denied", cause=question.id))

    def _question_event(self, id: str, request: PermissionRequest) -> Event:
        now = self._now()
        data = {
            "tool": request.tool,
            "input": truncate_input(request.input),
            "turn": request.turn,
            "expires": format_timestamp(now + timedelta(seconds=self._timeout)),
        }
        if request.call_id is not None:
            data["call_id"] = request.call_id
        command = request.input.get("command") if isinstance(request.input, dict) else None
        use = f"{request.tool}: {command}" if isinstance(command, str) else request.tool
        text = f"may it use {use[:280]}?"
        return Event(id=id, at=now, kind="goal.permission_asked", actor=ACTOR, goal=request.goal, text=text, data=data)

    def answer_question(self, question_id: str, choice: str, reason: str = "") -> bool:
        """Resolve a question: `allow` allows, anything else denies. Returns whether the question was still open."""
        match = next((item for item in self._open_questions.items() if item[1].id == question_id), None)
        if match is None:
            return False
        key, question = match
        del self._open_questions[key]
        rationale = f"a person said: {reason}" if reason else "a person decided so"
        decision = Allow() if choice == "allow" else Deny(message=reason or "a person said no; go on without it")
        return _resolve_question(question, PermissionAnswer(decision, rationale, question.id))

    def cancel_questions(self, reason: str = GOAL_CANCELLED) -> None:
        """Deny all open questions, and all later ones."""
        self._closed_reason = reason
        for question in self._open_questions.values():
            _resolve_question(question, make_denial(reason, cause=question.id))
        self._open_questions.clear()


def _resolve_question(question: _PendingQuestion, answer: PermissionAnswer) -> bool:
    if question.answered.done():
        return False
    question.answered.set_result(answer)
    return True


def _question_key(request: PermissionRequest) -> bytes:
    """Equal for the same tool and input in the same turn."""
    return msgspec.json.encode((request.goal, request.turn, request.tool, request.input), order="deterministic")


def _format_seconds(seconds: float) -> str:
    return f"{seconds / 60:g} minutes" if seconds >= 120 else f"{seconds:g} seconds"
