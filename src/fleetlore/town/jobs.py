"""The interface between the town and the code that does the work: what a job handler gets from an agent loop, what it returns, and
the events that report it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct

from fleetlore.events.envelope import Event
from fleetlore.town import events
from fleetlore.views.town_rules import find_task_refusal
from fleetlore.views.town_state import CONDUCTOR, Agent, InboxMessage, Purpose, Task


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
    context_of: str | None = None
    """The agent with whose context this one starts."""
    session: str | None = None
    """The session that it continues."""


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


# --- reporting outcomes

NO_VERDICT = "the review ended without a verdict: neither APPROVED nor REJECTED"


def report_outcome(agent: Agent, task: Task | None, job: TaskJob, outcome: JobOutcome) -> list[Event]:
    """The events for a finished job; none if the task was taken away meanwhile."""
    if task is None or find_task_refusal(task, "complete", epoch=job.epoch) is not None:
        return []
    if job.purpose == "review" and isinstance(outcome, JobDone):
        outcome = JobFailed(NO_VERDICT)
    match outcome:
        case JobDone():
            return [events.task_completed(task, result=outcome.result)]
        case Approved() | Rejected():
            return _report_verdict(agent, task, job, outcome)
        case JobFailed():
            is_last = outcome.is_final or task.attempt >= task.tries
            notices = notify_conductor(agent.name, task, outcome.error) if is_last else []
            return [*notices, events.task_failed(task, error=outcome.error, is_final=outcome.is_final)]
        case HelpNeeded():
            return [*_escalate_to_conductor(agent, task, outcome.reason), events.task_failed(task, error=outcome.reason, is_final=True)]
        case AgentUnavailable():
            return [events.lease_lost(task, reason=f"{agent.name} cannot work: {outcome.error}", by=agent.name)]


def notify_conductor(sender: str, task: Task, error: str) -> list[Event]:
    """A message to the conductor about a failed task; none for a mission's task, because missions ask for help themselves."""
    if task.mission is not None:
        return []
    text = f"{task.id} failed: {error}; retry it with `lore town task retry`"
    return [events.message_sent(sender, CONDUCTOR, text, priority="high", task=task.id)]


def _escalate_to_conductor(agent: Agent, task: Task, reason: str) -> list[Event]:
    scopes = {"task": task.id, "mission": task.mission}
    return [
        events.agent_escalated(agent.name, reason, to=CONDUCTOR, **scopes),
        events.message_sent(agent.name, CONDUCTOR, reason, type="query", priority="high", **scopes),
    ]


def _report_verdict(agent: Agent, task: Task, job: TaskJob, outcome: Approved | Rejected) -> list[Event]:
    author = job.authors[-1] if job.authors else None
    if job.purpose != "review":
        return [events.task_failed(task, error="a verdict was given, but this task is not a review")]
    if agent.name in job.authors:
        return [events.lease_lost(task, reason=f"{agent.name} cannot review its own work", by=agent.name)]
    if isinstance(outcome, Approved):
        verdict, result = events.review_approved(task, agent.name, outcome.reason, author=author), f"approved: {outcome.reason}"
    else:
        verdict, result = events.review_rejected(task, agent.name, outcome.reason, author=author), f"rejected: {outcome.reason}"
    return [verdict, events.task_completed(task, result=result.rstrip(": "))]


def acknowledge_messages(agent: str, messages: Iterable[InboxMessage]) -> Iterator[Event]:
    """Acknowledge each message once."""
    for id in dict.fromkeys(message.id for message in messages):
        yield events.message_acknowledged(agent, id)


def answer_question(agent: str, question: QuestionJob, outcome: JobOutcome) -> list[Event]:
    """The answer to a message, and its acknowledgement; says so if the agent could not answer."""
    message = question.message
    text = outcome.result if isinstance(outcome, JobDone) else f"I could not answer that: {_failure_reason(outcome)}"
    reply = events.message_sent(
        agent, message.sender, text or "(empty answer)", type="info", correlation=message.id, task=message.task, mission=message.mission
    )
    return [reply, events.message_acknowledged(agent, message.id, answer=text)]


def _failure_reason(outcome: JobOutcome) -> str:
    match outcome:
        case JobFailed() | AgentUnavailable():
            return outcome.error
        case HelpNeeded() | Rejected() | Approved():
            return outcome.reason
    return "no answer came"
