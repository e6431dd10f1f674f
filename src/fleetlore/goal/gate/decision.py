"""Decides whether an agent may use a tool, by asking deciders in order, and builds the event that records it.

Calls that no rule or person allows are denied. `permissions.py` assembles the chain for a goal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from fleetlore import clock
from fleetlore.events.driver_types import Allow, Decision, Deny
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Permissions
from fleetlore.goal.gate.rules import ToolRules

ACTOR = "driver"
GATE_TOOL = "mcp__fleetlore__permission_prompt"
MAX_INPUT_BYTES = 128 * 1024
"""Size as JSON. Of a larger input the event holds only the beginning."""
_NOBODY_TO_ASK = "nobody is there to be asked; go on without it, or say what you need it for"

Choice: TypeAlias = Allow | Deny
RecordEvent: TypeAlias = Callable[[Event], Awaitable[object]]
"""Stores an event; when it returns, the event is durable."""


class PermissionRequest(Struct, frozen=True, kw_only=True):
    """A tool call that an agent wants to make."""

    tool: str
    input: Any
    call_id: str | None = None
    goal: str
    turn: int


class PermissionAnswer(NamedTuple):
    """The choice, its reason, and the id of the question if a person was asked."""

    choice: Choice
    reason: str
    cause: str | None = None


class Decider(Protocol):
    """Something that can decide: rules, a person, a model. `None` leaves the decision to the next one."""

    async def decide(self, request: PermissionRequest) -> PermissionAnswer | None:
        """The answer, or `None`."""


def make_denial(reason: str, *, cause: str | None = None) -> PermissionAnswer:
    """A denial; the agent sees the reason."""
    return PermissionAnswer(Deny(message=reason), reason, cause)


class RuleDecider:
    """Decides by the goal's rules. Raises `Invalid` if a rule cannot be parsed."""

    def __init__(self, permissions: Permissions, *, workspace: str) -> None:
        self._rules = ToolRules(permissions.allow, permissions.deny, workspace=workspace)

    async def decide(self, request: PermissionRequest) -> PermissionAnswer | None:
        """What the rules say; `None` if none applies."""
        if request.tool == GATE_TOOL:
            return make_denial("this tool is for the program that runs you, which asks by itself; just use the tool that you need")
        answer = self._rules.decide(request.tool, request.input)
        return None if answer is None else PermissionAnswer(*answer)

    def explain_denial(self, request: PermissionRequest) -> str:
        """Why no rule allows the call, with a hint how to write it differently."""
        return self._rules.explain_denial(request.tool, request.input)


class DeciderChain:
    """Asks deciders in order and denies if none has an answer."""

    def __init__(self, deciders: Sequence[Decider]) -> None:
        self._deciders = tuple(deciders)

    async def decide(self, request: PermissionRequest) -> PermissionAnswer:
        """The first answer."""
        for decider in self._deciders:
            answer = await decider.decide(request)
            if answer is not None:
                return answer
        rules = next((decider for decider in self._deciders if isinstance(decider, RuleDecider)), None)
        why = f"nothing allows {request.tool} with this input" if rules is None else rules.explain_denial(request)
        return make_denial(f"{why}, and {_NOBODY_TO_ASK}")


class RecordingDecider:
    """Records each decision in the log before it is returned. Any error is a denial."""

    def __init__(
        self, decider: Decider, record_event: RecordEvent, *, now: clock.Clock = clock.now, new_id: Callable[[], str] = clock.uuid7
    ) -> None:
        self._decider, self._record_event, self._now, self._new_id = decider, record_event, now, new_id

    async def decide(self, request: PermissionRequest) -> PermissionAnswer:
        """The decision of the wrapped decider, recorded."""
        answer = await self._ask_decider(request)
        try:
            await self._record_event(make_decision_event(request, answer, id=self._new_id(), at=self._now()))
        except Exception as error:  # noqa: BLE001  # any error means that it is not recorded
            return make_denial(f"the decision could not be recorded, and what is not recorded is not allowed: {error}")
        return answer

    async def _ask_decider(self, request: PermissionRequest) -> PermissionAnswer:
        try:
            answer = await self._decider.decide(request)
        except Exception as error:  # noqa: BLE001  # a decider that fails must not allow anything
            return make_denial(f"it could not be decided ({type(error).__name__}: {error}), so it is denied")
        return answer or make_denial(f"nothing allows {request.tool} with this input, and {_NOBODY_TO_ASK}")


def make_decision_event(request: PermissionRequest, answer: PermissionAnswer, *, id: str, at: Any) -> Event:
    """The `driver.decision` event. Its cause is the question, if a person was asked."""
    decision = Decision(
        id=id,
        goal_id=request.goal,
        turn_index=request.turn,
        tool=request.tool,
        input=truncate_input(request.input),
        choice=answer.choice,
        rationale=answer.reason,
        decided_at=format_timestamp(at),
    )
    word = "allowed" if isinstance(answer.choice, Allow) else "denied"
    return Event(
        id=id,
        at=at,
        kind="driver.decision",
        actor=ACTOR,
        goal=request.goal,
        cause=answer.cause,
        text=f"{request.tool} {word}: {answer.reason}"[:300],
        data={"decision": msgspec.to_builtins(decision)},
    )


def truncate_input(input: Any) -> Any:
    """The input if it fits an event, else its beginning and its size."""
    try:
        raw = msgspec.json.encode(input)
    except (TypeError, ValueError, RecursionError):
        return {"unreadable": repr(type(input).__name__)}
    if len(raw) <= MAX_INPUT_BYTES:
        return input
    return {"begins": raw[:8192].decode(errors="replace"), "bytes": len(raw)}


def format_timestamp(time: Any) -> str:
    """A time as RFC 3339 in UTC."""
    return str(time.isoformat()).replace("+00:00", "Z")


# --- a person: the question is stored in the log, and the answer is read from it; no answer in time is a denial


GOAL_CANCELLED = "the goal was cancelled"
MAX_OPEN_QUESTIONS = 32


class _PendingQuestion:
    """An open question; identical requests share it."""

    def __init__(self, id: str, answered: asyncio.Future[PermissionAnswer]) -> None:
        self.id, self.answered = id, answered


class PersonDecider:
    """Asks with an `approval.requested` event. `permissions.py` calls `answer_question` when the answer is in the log."""

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
        return Event(id=id, at=now, kind="approval.requested", actor=ACTOR, goal=request.goal, text=text, data=data)

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
