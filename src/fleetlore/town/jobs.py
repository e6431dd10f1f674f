"""The interface between the town and the code that does the work: what a job handler gets from an agent loop, and what it returns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct

from fleetlore.views.town_state import InboxMessage, Purpose


class TaskJob(Struct, frozen=True, kw_only=True):
    """A task for an agent. Its texts come from others and are untrusted."""

    agent: str
    task: str
    title: str
    description: str = ""
    purpose: Purpose = "work"
    epoch: int
    attempt: int
    tries: int
    mission: str | None = None
    item: str | None = None
    roles: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    target_task: str | None = None
    """The task whose work is reviewed or fixed."""
    target_result: str = ""
    """The result of that task; for a fix, what the reviewer asked for."""
    authors: tuple[str, ...] = ()
    round: int = 0
    failures: int = 0
    """How often it failed before. An attempt that was only interrupted does not count."""
    last_error: str = ""
    """Why the last attempt failed."""
    notes: tuple[str, ...] = ()
    """Notes about its mission, oldest first."""
    messages: tuple[InboxMessage, ...] = ()
    """The agent's inbox at the start; acknowledged once the job is done."""
    is_resumed: bool = False
    """Whether this agent was interrupted in this job and continues it."""


class QuestionJob(Struct, frozen=True, kw_only=True):
    """A message that an idle agent answers."""

    agent: str
    message: InboxMessage
    roles: tuple[str, ...] = ()


class JobDone(Struct, frozen=True):
    """The job is done; for a `QuestionJob`, `result` is the answer."""

    result: str = ""


class JobFailed(Struct, frozen=True):
    """The job could not be done."""

    error: str
    is_final: bool = False
    """Whether a retry is pointless."""


class HelpNeeded(Struct, frozen=True):
    """Only a person can help: the conductor is asked, and the task waits until a person retries it."""

    reason: str


class Approved(Struct, frozen=True):
    """The review approves the work."""

    reason: str = ""


class Rejected(Struct, frozen=True):
    """The review asks for changes."""

    reason: str


class AgentUnavailable(Struct, frozen=True):
    """The agent itself cannot work here: its program is missing or its model is unreachable. The task goes to another agent."""

    error: str


JobOutcome: TypeAlias = JobDone | JobFailed | HelpNeeded | Approved | Rejected | AgentUnavailable


class JobInbox:
    """Messages that arrive while an agent works. Those that the handler takes are acknowledged with the job's outcome."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[InboxMessage] = asyncio.Queue()
        self.received_messages: list[InboxMessage] = []

    def deliver_message(self, message: InboxMessage) -> None:
        """Queue a message for the handler."""
        self._queue.put_nowait(message)

    def take_waiting_messages(self) -> list[InboxMessage]:
        """Take all queued messages, without waiting."""
        messages = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        self.received_messages += messages
        return messages

    async def wait_for_message(self) -> InboxMessage:
        """Wait for the next message and take it."""
        message = await self._queue.get()
        self.received_messages.append(message)
        return message


JobHandler: TypeAlias = Callable[[TaskJob | QuestionJob, JobInbox], Awaitable[JobOutcome]]
"""Does the work. It may be cancelled at any time and then must leave no process behind; the job may come again with `is_resumed`."""
