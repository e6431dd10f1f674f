"""Decides whether an agent may use a tool, by asking deciders in order, and builds the event that records it.

Calls that no rule or person allows are denied. `permissions.py` assembles the chain for a goal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
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
