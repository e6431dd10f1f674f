"""The permissions of a goal while it runs: rules first, then other deciders, then a person who answers through the log.

The driver opens them for the time it holds the goal; until then everything is denied.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fleetlore.events.driver_types import Deny
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Permissions
from fleetlore.goal.gate.decision import Choice, Decider, DeciderChain, PermissionRequest, PersonDecider, RecordingDecider, RuleDecider
from fleetlore.goal.gate.server import GateServer
from fleetlore.goal.journal import GoalJournal
from fleetlore.programs import registry
from fleetlore.programs.harness import Gate, TurnRequest


def asks_at_gate(harness: str) -> bool:
    """Whether the program of a harness asks at the gate. A model asks in this process."""
    program = registry.find_program(harness)
    return program is not None and program.asks_at_gate


class InProcessGate:
    """Decides for an agent in this process; denies everything until a driver opens it.

    `deciders` are asked after the rules and before a person.
    """

    def __init__(self, deciders: Sequence[Decider] = ()) -> None:
        self.deciders = tuple(deciders)
        self.permissions: GoalPermissions | None = None

    async def permit(self, tool: str, input: Any) -> Choice:
        """Whether a tool may be used with this input."""
        return (
            Deny(message="this goal has no driver, so nothing is allowed")
            if self.permissions is None
            else await self.permissions.decide(tool, input)
        )


class GoalPermissions:
    """Decides the tool calls of one goal while a driver runs it."""

    def __init__(self, journal: GoalJournal, in_process_gate: InProcessGate) -> None:
        self._journal, self._in_process_gate = journal, in_process_gate
        self._person_decider: PersonDecider | None = None
        self._recording_decider: RecordingDecider | None = None
        self._server: GateServer | None = None

    @asynccontextmanager
    async def open_gate(self, workspace: str) -> AsyncIterator[None]:
        """Accept questions of the agent for the duration of the block."""
        plan = self._journal.state.plan
        assert plan is not None
        permissions = plan.permissions
        self._person_decider = PersonDecider(
            self._record_event, timeout=permissions.patience, now=self._journal.now, new_id=self._journal.new_id
        )
        self._recording_decider = RecordingDecider(
            self._build_chain(permissions, workspace), self._record_event, now=self._journal.now, new_id=self._journal.new_id
        )
        self._journal.listeners.append(self._on_event)
        self._in_process_gate.permissions = self
        try:
            if not asks_at_gate(plan.harness):
                yield
                return
            async with GateServer(self._recording_decider, timeout=permissions.patience) as self._server:
                yield
        finally:
            self._in_process_gate.permissions, self._server = None, None
            self._journal.listeners.remove(self._on_event)
            self._person_decider.cancel_questions("this goal has no driver any more")

    def _build_chain(self, permissions: Permissions, workspace: str) -> DeciderChain:
        assert self._person_decider is not None
        person = (self._person_decider,) if permissions.ask else ()
        return DeciderChain((RuleDecider(permissions, workspace=workspace), *self._in_process_gate.deciders, *person))

    def create_gate(self, turn_request: TurnRequest) -> Gate | None:
        """How the program of a turn asks; `None` if its harness cannot."""
        return None if self._server is None else self._server.create_gate(turn_request)

    async def decide(self, tool: str, input: Any) -> Choice:
        """Decide a tool call of an agent in this process."""
        assert self._recording_decider is not None
        state = self._journal.state
        answer = await self._recording_decider.decide(PermissionRequest(tool=tool, input=input, goal=state.id, turn=state.turn))
        return answer.choice

    async def _record_event(self, event: Event) -> None:
        await self._journal.append([self._journal.event_factory.assign_to_goal(event)])

    def _on_event(self, event: Event) -> None:
        """Handle a person's answer, and the cancellation of the goal."""
        if event.kind != "control.requested" or self._person_decider is None:
            return
        data = event.data
        if data.get("action") == "cancel":
            self._person_decider.cancel_questions()
        elif data.get("action") == "decide" and isinstance(data.get("of"), str):
            value = data.get("value")
            choice, message = (value.get("choice"), value.get("message")) if isinstance(value, dict) else (value, None)
            self._person_decider.answer_question(data["of"], str(choice), message if isinstance(message, str) else "")
