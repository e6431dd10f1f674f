"""Who lets the agent of a goal use a tool: its rules first, then a person, who answers through the log. Closed to begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fleetlore.events.driver_types import Deny
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Permissions
from fleetlore.goal.gate.ask_person import PersonDecider
from fleetlore.goal.gate.decision import Choice, Decider, DeciderChain, PermissionRequest, RecordingDecider, RuleDecider
from fleetlore.goal.gate.server import GateServer
from fleetlore.goal.journal import GoalJournal
from fleetlore.programs.harness import Gate, Order

GATE_HARNESSES = frozenset(("claude-code",))
"""Harnesses whose programs ask at the gate; a mind asks in this process."""


class InProcessGate:
    """Where an agent in this process asks: shut, until a driver opens it. `deciders` are asked after the rules and before a person."""

    def __init__(self, deciders: Sequence[Decider] = ()) -> None:
        self.deciders = tuple(deciders)
        self.permits: GoalPermissions | None = None

    async def permit(self, tool: str, input: Any) -> Choice:
        """Whether a tool may be used."""
        return (
            Deny(message="nobody drives this goal, so nothing is allowed")
            if self.permits is None
            else await self.permits.decide(tool, input)
        )


class GoalPermissions:
    """The permissions of one goal while it is driven."""

    def __init__(self, book: GoalJournal, doorkeeper: InProcessGate) -> None:
        self._book, self._doorkeeper = book, doorkeeper
        self._person: PersonDecider | None = None
        self._keeper: RecordingDecider | None = None
        self._server: GateServer | None = None

    @asynccontextmanager
    async def open(self, workspace: str) -> AsyncIterator[None]:
        """Let the agent ask as long as the block lasts."""
        plan = self._book.state.plan
        assert plan is not None
        permissions = plan.permissions
        self._person = PersonDecider(self._tell, patience=permissions.patience, now=self._book.now, new_id=self._book.new_id)
        self._keeper = RecordingDecider(self._chain(permissions, workspace), self._tell, now=self._book.now, new_id=self._book.new_id)
        self._book.listeners.append(self._hear)
        self._doorkeeper.permits = self
        try:
            if plan.harness not in GATE_HARNESSES:
                yield
                return
            async with GateServer(self._keeper, patience=permissions.patience) as self._server:
                yield
        finally:
            self._doorkeeper.permits, self._server = None, None
            self._book.listeners.remove(self._hear)
            self._person.call_off("nobody drives this goal any more")

    def _chain(self, permissions: Permissions, workspace: str) -> DeciderChain:
        assert self._person is not None
        person = (self._person,) if permissions.ask else ()
        return DeciderChain((RuleDecider(permissions, workspace=workspace), *self._doorkeeper.deciders, *person))

    def gate(self, order: Order) -> Gate | None:
        """How the program of a turn asks, where it can."""
        return None if self._server is None else self._server.gate(order)

    async def decide(self, tool: str, input: Any) -> Choice:
        """For an agent in this process."""
        assert self._keeper is not None
        state = self._book.state
        answer = await self._keeper.decide(PermissionRequest(tool=tool, input=input, goal=state.id, turn=state.turn))
        return answer.choice

    async def _tell(self, event: Event) -> None:
        await self._book.append([self._book.teller.owned(event)])

    def _hear(self, event: Event) -> None:
        """A person's answer, or the end of the goal."""
        if event.kind != "control.requested" or self._person is None:
            return
        data = event.data
        if data.get("action") == "cancel":
            self._person.call_off()
        elif data.get("action") == "decide" and isinstance(data.get("of"), str):
            value = data.get("value")
            choice, message = (value.get("choice"), value.get("message")) if isinstance(value, dict) else (value, None)
            self._person.answer(data["of"], str(choice), message if isinstance(message, str) else "")
