"""Turns the outcome of a job into the events that an agent appends. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleetlore.events.envelope import Event
from fleetlore.town import events
from fleetlore.town.jobs import AgentUnavailable, Approved, HelpNeeded, JobDone, JobFailed, JobOutcome, QuestionJob, Rejected, TaskJob
from fleetlore.views.town_rules import find_task_refusal
from fleetlore.views.town_state import CONDUCTOR, Agent, InboxMessage, Task

NO_VERDICT = "the review ended without a verdict: neither APPROVED nor REJECTED"


def report(agent: Agent, task: Task | None, job: TaskJob, outcome: JobOutcome) -> list[Event]:
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
