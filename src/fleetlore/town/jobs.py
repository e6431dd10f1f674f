"""What a worker is handed to do, and what comes of it: all that whoever does the work (the driver, say) knows of towns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct

from fleetlore.views.town_state import InboxMessage, Purpose


class TaskJob(Struct, frozen=True, kw_only=True):
    """One piece of work, as its agent is told of it. The words in it are others', and hostile."""

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
    """The task whose work is to be reviewed, or mended."""
    target_result: str = ""
    """What that task came to; for a mend, what the reviewer asked for."""
    authors: tuple[str, ...] = ()
    round: int = 0
    failures: int = 0
    """How often it failed before. What was only broken off is gone on with."""
    last_error: str = ""
    """Why it was not done the last time."""
    notes: tuple[str, ...] = ()
    """What was noted about its mission, the newest last."""
    messages: tuple[InboxMessage, ...] = ()
    """What waits in the agent's inbox; acknowledged once the work is done."""
    is_resumed: bool = False
    """Whether the same agent was interrupted at it, and goes on."""


class QuestionJob(Struct, frozen=True, kw_only=True):
    """A message that wants an answer, while its agent has nothing else to do."""

    agent: str
    message: InboxMessage
    roles: tuple[str, ...] = ()


class Done(Struct, frozen=True):
    """The work is done, and this is what came of it: for a `Question`, the answer."""

    result: str = ""


class Failed(Struct, frozen=True):
    """It could not be done."""

    error: str
    is_final: bool = False
    """Whether there is no use in trying again."""


class HelpNeeded(Struct, frozen=True):
    """Only a person can help: the conductor is asked, and the task waits until somebody has it tried again."""

    reason: str


class Approved(Struct, frozen=True):
    """A review that ends with an explicit yes."""

    reason: str = ""


class Rejected(Struct, frozen=True):
    """A review that asks for changes."""

    reason: str


class AgentUnavailable(Struct, frozen=True):
    """The agent itself cannot work here: its program is missing, its model cannot be reached. The task goes to somebody else."""

    error: str


JobOutcome: TypeAlias = Done | Failed | HelpNeeded | Approved | Rejected | AgentUnavailable


class JobInbox:
    """What reaches an agent while it works: messages that came since it began. Each is acknowledged with the work, once it was taken."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[InboxMessage] = asyncio.Queue()
        self.received_messages: list[InboxMessage] = []

    def deliver_message(self, message: InboxMessage) -> None:
        """Let it be heard."""
        self._queue.put_nowait(message)

    def take_waiting_messages(self) -> list[InboxMessage]:
        """What is there already, which is taken with that: to be heard before the work goes on."""
        messages = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        self.received_messages += messages
        return messages

    async def wait_for_message(self) -> InboxMessage:
        """Wait for the next one."""
        message = await self._queue.get()
        self.received_messages.append(message)
        return message


JobHandler: TypeAlias = Callable[[TaskJob | QuestionJob, JobInbox], Awaitable[JobOutcome]]
"""Does the work. May be cancelled at any moment, and then leaves nothing running; the same job may come again, `is_resumed`."""
