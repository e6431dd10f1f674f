"""Runs one agent on its worker: claims its tasks, runs the job handler, reports outcomes and obeys control requests.

A `Worker` creates one `AgentLoop` per agent. The loop's only state is built from the events of the agent's scope in the log: it
appends one decision at a time, and continues once it has read that decision back. A task's epoch counts its assignments, so a decision
for an earlier assignment is recognised.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Self, TypeAlias

from msgspec.structs import replace

from fleetlore.errors import Closed, FleetloreError
from fleetlore.events.envelope import Event
from fleetlore.kernel.journal import KnownState
from fleetlore.log.base import Position
from fleetlore.town import events as town_events
from fleetlore.town.jobs import (
    AgentUnavailable,
    JobFailed,
    JobHandler,
    JobInbox,
    JobOutcome,
    QuestionJob,
    TaskJob,
    acknowledge_messages,
    answer_question,
    report_outcome,
)
from fleetlore.town.journal import TOWN_KINDS, TownJournal
from fleetlore.views.town import sorted_inbox
from fleetlore.views.town_rules import find_task_refusal
from fleetlore.views.town_state import ENDED_TASK_STATES, TEMPORARY, Agent, Task, TownState

AgentStatusCallback: TypeAlias = Callable[[str, str], None]
"""Called with an agent's name and what it does now; for the worker's terminal output."""
WAKING_MESSAGE_TYPES = ("query", "task")
"""Messages that an idle agent answers at once."""
MAX_SEPARATE_FOLLOWERS = 8
"""Up to this many agents have a follower each, which costs a thread and, on a server, a waiting request."""
MAX_NOTES = 5
"""Mission notes that a job carries."""
MAX_MESSAGES = 20
"""Inbox messages that a job carries."""


class AgentLoopEnded(Exception):
    """The agent no longer runs on this worker; the message is the reason shown to people."""


class AgentLoop:
    """Runs one agent from the moment a worker takes it until the worker releases it."""

    def __init__(
        self,
        name: str,
        journal: TownJournal,
        handle_job: JobHandler,
        *,
        lease: str,
        lease_seconds: float,
        find_known_task: Callable[[str], Task | None] = lambda id: None,
        report_status: AgentStatusCallback = lambda name, status: None,
    ) -> None:
        self.name, self._journal, self._handle_job, self._lease, self._lease_seconds = name, journal, handle_job, lease, lease_seconds
        self._find_known_task, self._report_status = find_known_task, report_status
        self._town: TownState = journal.fold.initial()
        self._position = ""
        self._wakeup = asyncio.Event()
        self._job: TaskJob | QuestionJob | None = None
        self._claimed_task: Task | None = None
        """The job's task as of our claim, so that the report need not read the task again."""
        self._job_inbox = JobInbox()
        self._job_run: asyncio.Task[JobOutcome] | None = None
        self._stop_reason = ""
        self._lost_tasks: set[tuple[str, int]] = set()
        """(task, epoch) pairs that are assigned to another agent by now."""

    @property
    def agent(self) -> Agent:
        """The agent's current state in the log."""
        return self._town.agents.get(self.name) or Agent(name=self.name)

    def request_stop(self, reason: str) -> None:
        """Ask the loop to end: the running job is cancelled, and its task is returned to the queue."""
        self._stop_reason = self._stop_reason or reason
        self._wakeup.set()

    async def run(self, subscriptions: AgentSubscriptions) -> str:
        """Run until the agent ends; returns the reason."""
        for event in await subscriptions.read_history(self.name):
            self._apply_event(event)
        async with aclosing(subscriptions.follow_agent(self.name, self._position or None)) as events:
            tasks = [self._journal.spawn(self._follow_events(events)), self._journal.spawn(self._run_steps())]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await self._cancel_job()
        try:
            await next(iter(done))
        except AgentLoopEnded as reason:
            return str(reason)
        return "the log was closed"

    async def _follow_events(self, events: AsyncIterator[Event]) -> None:
        async for event in events:
            self._apply_event(event)

    def _apply_event(self, event: Event) -> None:
        if event.kind == "town.task_assigned" and event.agent == self.name:
            self._forget_ended_task(event.task or "")
        self._town = self._journal.fold.apply(self._town, event)
        self._position = event.position or self._position
        if isinstance(job := self._job, TaskJob) and self._job_run is not None:
            self._on_job_event(event, job)
        self._wakeup.set()

    def _forget_ended_task(self, id: str) -> None:
        """Drop an ended task that is assigned again: only the task's own scope has the reopening, and claiming reads that scope."""
        task = self._town.tasks.get(id)
        if task is not None and task.state in ENDED_TASK_STATES:
            del self._town.tasks[id]
            self._town.over.pop(id, None)
            self._town.completed.discard(id)

    def _on_job_event(self, event: Event, job: TaskJob) -> None:
        if event.kind == "work.message_sent" and event.child == self.name:
            message = self._town.inboxes.get(self.name, {}).get(event.id or "")
            if message is not None:
                self._job_inbox.deliver_message(message)
        elif event.kind == "control.requested" and event.task == job.task and self._journal.is_trusted(event):
            is_reassigned = event.data.get("action") == "redirect" and event.data.get("value") != self.name
            if is_reassigned:
                self._lost_tasks.add((job.task, job.epoch))

    # --- acting

    async def _run_steps(self) -> None:
        await self._join_town()
        while True:
            self._wakeup.clear()
            if not await self._run_next_step():
                await self._wakeup.wait()

    async def _join_town(self) -> None:
        if self.agent.state != "cold":
            raise AgentLoopEnded(f"it is {self.agent.state}, and another worker runs it")
        await self._append_events([town_events.agent_state_changed(self.name, "cold", "starting", lease=self._lease)])
        if self.agent.lease != self._lease:
            raise AgentLoopEnded("another worker claimed it first")
        await self._append_events([self._build_state_event("idle")])
        self._report_status(self.name, "is ready")

    async def _run_next_step(self) -> bool:
        """Take the next action; returns whether there was one."""
        agent = self.agent
        if agent.lease != self._lease:
            raise AgentLoopEnded(agent.reason or "another worker runs it now")
        if self._job_run is not None and self._job_run.done() and not self._has_lost_task():
            await self._finish_job()
            return True
        if self._stop_reason or agent.wish in ("kill", "restart"):
            await self._stop_agent(agent.wish)
        if agent.wish:
            await self._apply_control(agent)
            return True
        if self._has_lost_task():
            await self._release_task("it was assigned to another agent")
            return True
        if self._job_run is not None or agent.state == "paused":
            return False
        return await self._start_next_job(agent)

    async def _start_next_job(self, agent: Agent) -> bool:
        if agent.state == "draining":
            await self._append_events([town_events.agent_completed(agent)])
            await self._append_events([town_events.agent_stopped(agent, reason="asked to close")])
            raise AgentLoopEnded("closed; all its tasks are done")
        if agent.state == "working":  # its task has ended or was taken away
            await self._append_events([self._build_state_event("idle")])
            return True
        if (id := self._next_queued_task(agent)) is not None:
            await self._claim_task(id)
            return True
        waking = next((message for message in sorted_inbox(self._town, self.name) if message.type in WAKING_MESSAGE_TYPES), None)
        if waking is not None:
            await self._append_events([self._build_state_event("working", reason=f"answering {waking.sender}")])
            self._start_job(QuestionJob(agent=self.name, message=waking, roles=tuple(agent.roles)))
            return True
        return False

    def _next_queued_task(self, agent: Agent) -> str | None:
        return next((id for id in agent.queue if (id, self._town.tasks[id].epoch) not in self._lost_tasks), None)

    # --- work

    async def _claim_task(self, id: str) -> None:
        epoch = self._town.tasks[id].epoch
        current = await self._read_task(id)

        def claim(task: Task | None) -> Sequence[Event]:
            nonlocal current
            current = task
            if task is None or find_task_refusal(task, "start", epoch=epoch, agent=self.name) is not None:
                return []
            return [town_events.task_started(self.agent, task)]

        position = await self._journal.decide_task(id, claim, known=KnownState(current, current.position if current else None))
        if position is None or current is None:
            self._lost_tasks.add((id, epoch))
            return
        await self._append_each_event(
            town_events.lease_taken(self.agent, current, seconds=self._lease_seconds), self._build_state_event("working")
        )
        self._claimed_task = replace(current, state="running", attempt=current.attempt + 1)
        self._start_job(await self._build_job(current))

    async def _read_task(self, id: str) -> Task | None:
        return self._find_known_task(id) or await self._journal.read_task(id)

    async def _build_job(self, task: Task) -> TaskJob:
        agent, is_first = self.agent, not (self.agent.completed or self.agent.failed)
        target = await self._read_task(task.of) if task.of else None
        target_result = "" if target is None else target.result
        return TaskJob(
            agent=self.name,
            task=task.id,
            title=task.title,
            description=task.description,
            purpose=task.purpose,
            epoch=task.epoch,
            attempt=task.attempt + 1,
            tries=task.tries,
            mission=task.mission,
            item=task.item,
            roles=tuple(self.agent.roles),
            checks=tuple(task.checks),
            target_task=task.of,
            target_result=target_result,
            authors=tuple(task.not_by),
            round=task.round,
            failures=task.failures,
            last_error=task.error,
            notes=await self._read_mission_notes(task.mission) if task.mission else (),
            messages=tuple(sorted_inbox(self._town, self.name))[:MAX_MESSAGES],
            context_of=agent.parent if is_first and agent.spawn_mode == "forkedcontext" else None,
            session=agent.session if is_first and agent.spawn_mode == "resumed" else None,
        )

    async def _read_mission_notes(self, mission: str) -> tuple[str, ...]:
        newest = self._journal.log.read(f"mission:{mission}", kinds=["town.mission_event"], newest_first=True, limit=MAX_NOTES)
        notes = [f"{event.actor}: {event.data.get('note') or event.text or ''}" async for event in newest]
        return tuple(reversed(notes))

    def _start_job(self, job: TaskJob | QuestionJob) -> None:
        self._job, self._job_inbox = job, JobInbox()
        self._job_run = self._journal.spawn(self._run_job(job, self._job_inbox))
        self._job_run.add_done_callback(lambda _: self._wakeup.set())
        self._report_status(self.name, f"starts {job.task}" if isinstance(job, TaskJob) else f"answers {job.message.sender}")

    def _resume_job(self, job: TaskJob | QuestionJob) -> None:
        """Start again after a pause. Messages received before the pause are kept; those sent meanwhile are delivered."""
        received = self._job_inbox.received_messages
        self._start_job(job)
        if isinstance(job, TaskJob):
            self._job_inbox.received_messages += received
            delivered_ids = {message.id for message in (*job.messages, *received)}
            for message in sorted_inbox(self._town, self.name):
                if message.id not in delivered_ids:
                    self._job_inbox.deliver_message(message)

    async def _run_job(self, job: TaskJob | QuestionJob, inbox: JobInbox) -> JobOutcome:
        try:
            return await self._handle_job(job, inbox)
        except FleetloreError as error:
            return JobFailed(str(error))
        except Exception as error:  # noqa: BLE001 - any error fails the task; the agent continues
            return JobFailed(f"{type(error).__name__}: {error}")

    async def _finish_job(self) -> None:
        job, job_run, inbox = self._job, self._job_run, self._job_inbox
        assert job is not None
        assert job_run is not None
        self._job, self._job_run = None, None
        outcome = JobFailed("the job was cancelled") if job_run.cancelled() else job_run.result()
        if isinstance(job, QuestionJob):
            await self._append_events([*answer_question(self.name, job, outcome), *self._build_failure_events(outcome)])
        else:
            await self._report_outcome(job, outcome, inbox)
        if isinstance(outcome, AgentUnavailable):
            if self.agent.state != "error":
                await self._append_events(self._build_failure_events(outcome))
            raise AgentLoopEnded(outcome.error)

    async def _report_outcome(self, job: TaskJob, outcome: JobOutcome, inbox: JobInbox) -> None:
        used_messages = () if isinstance(outcome, AgentUnavailable) else (*job.messages, *inbox.received_messages)
        acknowledgements = list(acknowledge_messages(self.name, used_messages))

        def decide(task: Task | None) -> Sequence[Event]:
            report_events = report_outcome(self.agent, task, job, outcome)
            return [*report_events, *acknowledgements, *self._build_failure_events(outcome)] if report_events else []

        known = KnownState(self._claimed_task, self._town.tasks[job.task].position)
        position = await self._journal.decide_task(job.task, decide, known=known)
        if position is not None:
            await self._wait_for_position(position)
            self._report_status(self.name, f"{_outcome_verb(outcome)} {job.task}")
        else:
            self._report_status(self.name, f"finished {job.task} too late: its lease was lost")
            self._lost_tasks.add((job.task, job.epoch))

    def _build_failure_events(self, outcome: JobOutcome) -> list[Event]:
        """Appended together with the outcome, so that an agent that cannot work is assigned nothing in between."""
        return (
            [town_events.agent_failed(self.agent, error=outcome.error, new_state="error")] if isinstance(outcome, AgentUnavailable) else []
        )

    # --- control requests

    async def _apply_control(self, agent: Agent) -> None:
        match agent.wish:
            case "interrupt":
                await self._cancel_job()
                await self._append_events([town_events.agent_interrupted(agent, reason=agent.reason)])
                if isinstance(self._job, TaskJob):
                    self._job = replace(self._job, is_resumed=True)
                self._report_status(self.name, "pauses")
            case "resume":
                await self._append_events([town_events.agent_resumed(agent)])
                if self._job is not None:
                    self._resume_job(self._job)
            case _:  # drain
                await self._append_events([self._build_state_event("draining", reason="asked to close")])

    async def _stop_agent(self, action: str) -> None:
        """Stop the agent, or release it for another worker; its tasks are returned in both cases."""
        reason = self._stop_reason or ("killed" if action == "kill" else "restarted")
        await self._release_task(reason)
        for id in list(self.agent.queue):
            await self._return_task(id, self._town.tasks[id].epoch, reason)
        if self._stop_reason and self.agent.type == TEMPORARY:
            await self._append_events([town_events.agent_stopped(self.agent, reason=reason)], wait=False)
        elif self._stop_reason:
            await self._append_events([self._build_state_event("cold", reason=reason)], wait=False)
        else:
            stopped = [town_events.agent_stopped(self.agent, reason=reason)]
            restart = (
                [town_events.agent_state_changed(self.name, "stopped", "cold", reason="to be restarted")] if action == "restart" else []
            )
            await self._append_events([*stopped, *restart], wait=False)
        raise AgentLoopEnded(reason)

    def _has_lost_task(self) -> bool:
        """Whether the job's task is no longer assigned to this agent."""
        job = self._job
        if not isinstance(job, TaskJob):
            return False
        task = self._town.tasks.get(job.task)
        is_ours = task is not None and task.state == "running" and task.epoch == job.epoch and task.agent == self.name
        return not is_ours or (job.task, job.epoch) in self._lost_tasks

    async def _release_task(self, reason: str) -> None:
        await self._cancel_job()
        job, self._job = self._job, None
        if isinstance(job, TaskJob):
            await self._return_task(job.task, job.epoch, reason)

    async def _return_task(self, id: str, epoch: int, reason: str) -> None:
        def decide(task: Task | None) -> Sequence[Event]:
            if task is None or find_task_refusal(task, "lose", epoch=epoch) is not None:
                return []
            return [town_events.lease_lost(task, reason=reason, by=self.name)]

        await self._journal.decide_task(id, decide)

    async def _cancel_job(self) -> None:
        job_run, self._job_run = self._job_run, None
        if job_run is not None:
            job_run.cancel()
            await asyncio.gather(job_run, return_exceptions=True)

    # --- appending

    def _build_state_event(self, state: str, reason: str = "") -> Event:
        return town_events.agent_state_changed(self.name, self.agent.state, state, lease=self._lease, reason=reason)

    async def _append_events(self, events: Sequence[Event], *, wait: bool = True) -> None:
        stored = await self._journal.append(events)
        if wait:
            await self._wait_for_position(stored[-1].position or "")

    async def _append_each_event(self, *events: Event) -> None:
        """Append each event by itself, in order: on NATS, one append with several events is slower than several with one."""
        stored = await asyncio.gather(*(self._journal.append([event]) for event in events))
        await self._wait_for_position(stored[-1][0].position or "")

    async def _wait_for_position(self, position: Position) -> None:
        """Wait until the loop has read its own events back; the last one always belongs to the agent's scope."""
        while self._position < position:
            self._wakeup.clear()
            await self._wakeup.wait()


def _outcome_verb(outcome: JobOutcome) -> str:
    return {"JobDone": "completed", "JobFailed": "failed", "Approved": "approved", "Rejected": "rejected"}.get(
        type(outcome).__name__, "released"
    )


# --- events for the loops of one worker


class AgentSubscriptions:
    """Event streams for the agents of one worker; use it with `async with`."""

    def __init__(self, journal: TownJournal, *, after: Position | None = None, on_event: Callable[[Event], None] | None = None) -> None:
        """With `on_event` one follower serves all agents; it is called with every event after `after`, before the agent gets it."""
        self._journal, self._after, self._on_event, self._is_shared = journal, after, on_event, on_event is not None
        self._queues: dict[str, asyncio.Queue[Event | None]] = {}
        self._new_agents: set[str] = set()
        self._follower_task: asyncio.Task[None] | None = None

    @property
    def is_closed(self) -> bool:
        """Whether no more events will arrive, because the shared follower failed."""
        return self._follower_task is not None and self._follower_task.done()

    async def __aenter__(self) -> Self:
        if self._is_shared:
            self._follower_task = self._journal.spawn(self._dispatch_events())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._follower_task is not None:
            self._follower_task.cancel()
            await asyncio.gather(self._follower_task, return_exceptions=True)

    async def _dispatch_events(self) -> None:
        assert self._on_event is not None
        try:
            async with aclosing(self._journal.log.follow(after=self._after)) as events:
                async for event in events:
                    self._on_event(event)
                    for name in dict.fromkeys((event.agent, event.parent, event.child)):  # not a set: its order changes between processes
                        if name is not None and (queue := self._queues.get(name)) is not None:
                            queue.put_nowait(event)
        finally:
            for queue in self._queues.values():
                queue.put_nowait(None)

    def expect_new_agents(self, names: Sequence[str]) -> None:
        """Prepare for agents that are about to be added. `names` are not in the town as of the last event given to `on_event`.

        All their events are yet to come, so their histories need not be read: on NATS each read costs the server a look at the subjects
        of all agents.
        """
        if self._is_shared:
            self._new_agents.update(names)
            self._queues |= {name: asyncio.Queue() for name in names}

    async def read_history(self, agent: str) -> list[Event]:
        """Read the agent's events so far; `follow_agent` continues from there."""
        if agent in self._new_agents:
            self._new_agents.remove(agent)
            return []
        if self._is_shared:
            self._queues[agent] = asyncio.Queue()  # before reading the history, so that no event is missed
        return [event async for event in self._journal.log.read(f"agent:{agent}", kinds=TOWN_KINDS)]

    async def follow_agent(self, agent: str, after: Position | None) -> AsyncGenerator[Event, None]:
        """Yield the agent's events after a position, each once, in order. Raises `Closed` when the log can no longer be followed."""
        if not self._is_shared:
            async with aclosing(self._journal.log.follow(f"agent:{agent}", after=after)) as events:
                async for event in events:
                    yield event
            return
        try:
            while (queued := await self._queues[agent].get()) is not None:
                if (queued.position or "") > (after or ""):
                    yield queued
        finally:
            self._queues.pop(agent, None)
        raise Closed("the log cannot be followed any more")
