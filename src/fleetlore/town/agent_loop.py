"""The life of one agent on its worker: it waits for work, claims it, does it, tells what came of it, and heeds whoever steers.

All that it knows of itself is the fold of its own scope. It writes one thing at a time, and goes on once it has read that back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import TypeAlias

from msgspec.structs import replace

from fleetlore.errors import FleetloreError
from fleetlore.events.envelope import Event
from fleetlore.log.base import Position
from fleetlore.town import events as town_events
from fleetlore.town import reports
from fleetlore.town.jobs import AgentUnavailable, Failed, JobHandler, JobInbox, JobOutcome, QuestionJob, TaskJob
from fleetlore.town.journal import TownJournal
from fleetlore.town.subscriptions import AgentSubscriptions
from fleetlore.views.town import sorted_inbox
from fleetlore.views.town_rules import find_task_refusal
from fleetlore.views.town_state import ENDED_TASK_STATES, Agent, Task, TownState

AgentStatusCallback: TypeAlias = Callable[[str, str], None]
"""Told who and what, for whoever watches the worker."""
WAKING_MESSAGE_TYPES = ("query", "task")
"""Messages that an agent answers at once when it has nothing else to do."""
MAX_NOTES = 5
MAX_MESSAGES = 20
"""Of an inbox, shown to an agent with its work."""


class AgentLoopEnded(Exception):
    """The agent's life on this worker is over; the reason is what people are told."""


class AgentLoop:
    """One agent, from the moment that a worker takes it on to the moment that it lets go of it."""

    def __init__(
        self,
        name: str,
        scribe: TownJournal,
        work: JobHandler,
        *,
        lease: str,
        seconds: float,
        known: Callable[[str], Task | None] = lambda id: None,
        say: AgentStatusCallback = lambda who, what: None,
    ) -> None:
        self.name, self._journal, self._handle_job, self._lease, self._lease_seconds = name, scribe, work, lease, seconds
        self._find_known_task, self._report_status = known, say
        self._town: TownState = scribe.town_view.initial()
        self._position = ""
        self._wakeup = asyncio.Event()
        self._job: TaskJob | QuestionJob | None = None
        self._claimed_task: Task | None = None
        """The job's task as it is while nobody else writes to it."""
        self._job_inbox = JobInbox()
        self._job_run: asyncio.Task[JobOutcome] | None = None
        self._leave_reason = ""
        self._lost_tasks: set[tuple[str, int]] = set()
        """Tasks and epochs that are somebody else's by now."""

    @property
    def agent(self) -> Agent:
        """As the log has it."""
        return self._town.agents.get(self.name) or Agent(name=self.name)

    def request_stop(self, reason: str) -> None:
        """Have it let go: what it does is broken off, and its task goes back."""
        self._leave_reason = self._leave_reason or reason
        self._wakeup.set()

    async def run(self, ears: AgentSubscriptions) -> str:
        """To its end; answers why it came."""
        for event in await ears.read_history(self.name):
            self._apply_event(event)
        async with aclosing(ears.follow_agent(self.name, self._position or None)) as events:
            tasks = [asyncio.create_task(self._follow_events(events)), asyncio.create_task(self._run_steps())]
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
        self._town = self._journal.town_view.apply(self._town, event)
        self._position = event.position or self._position
        if isinstance(job := self._job, TaskJob) and self._job_run is not None:
            self._on_job_event(event, job)
        self._wakeup.set()

    def _forget_ended_task(self, id: str) -> None:
        """That a task was taken up again, or may be tried more often, only its own scope tells; by that it is claimed."""
        known = self._town.tasks.get(id)
        if known is not None and known.state in ENDED_TASK_STATES:
            del self._town.tasks[id]
            self._town.over.pop(id, None)
            self._town.completed.discard(id)

    def _on_job_event(self, event: Event, job: TaskJob) -> None:
        """What concerns the work that goes on."""
        if event.kind == "work.message_sent" and event.child == self.name:
            message = self._town.inboxes.get(self.name, {}).get(event.id or "")
            if message is not None:
                self._job_inbox.deliver_message(message)
        elif event.kind == "control.requested" and event.task == job.task and self._journal.town_view.is_trusted(event):
            is_elsewhere = event.data.get("action") == "redirect" and event.data.get("value") != self.name
            self._lost_tasks |= {(job.task, job.epoch)} if is_elsewhere else set()

    # --- acting

    async def _run_steps(self) -> None:
        await self._join_town()
        while True:
            self._wakeup.clear()
            if not await self._run_next_step():
                await self._wakeup.wait()

    async def _join_town(self) -> None:
        if self.agent.state != "cold":
            raise AgentLoopEnded(f"it is {self.agent.state}, and run by somebody else")
        await self._append_events([town_events.agent_state_changed(self.name, "cold", "starting", lease=self._lease)])
        if self.agent.lease != self._lease:
            raise AgentLoopEnded("another worker was quicker")
        await self._append_events([self._build_state_event("idle")])
        self._report_status(self.name, "is ready")

    async def _run_next_step(self) -> bool:
        """Do the next thing; whether there was one."""
        agent = self.agent
        if agent.lease != self._lease:
            raise AgentLoopEnded(agent.reason or "somebody else runs it now")
        if self._job_run is not None and self._job_run.done() and not self._has_lost_task():
            await self._finish_job()
            return True
        if self._leave_reason or agent.wish in ("kill", "restart"):
            await self._stop_agent(agent.wish)
        if agent.wish:
            await self._apply_control(agent)
            return True
        if self._has_lost_task():
            await self._release_task("it is for somebody else now")
            return True
        if self._job_run is not None or agent.state == "paused":
            return False
        return await self._start_next_job(agent)

    async def _start_next_job(self, agent: Agent) -> bool:
        if agent.state == "draining":
            await self._append_events([town_events.agent_completed(agent)])
            await self._append_events([town_events.agent_stopped(agent, reason="asked to close")])
            raise AgentLoopEnded("closed, with nothing left to do")
        if agent.state == "working":  # whatever it was at is over, or was taken from it
            await self._append_events([self._build_state_event("idle")])
            return True
        if (id := self._next_queued_task(agent)) is not None:
            await self._claim_task(id)
            return True
        waking = next((message for message in sorted_inbox(self._town, self.name) if message.type in WAKING_MESSAGE_TYPES), None)
        if waking is not None:
            await self._append_events([self._build_state_event("working", reason=f"answers {waking.sender}")])
            self._start_job(QuestionJob(agent=self.name, message=waking, roles=tuple(agent.roles)))
            return True
        return False

    def _next_queued_task(self, agent: Agent) -> str | None:
        return next((id for id in agent.queue if (id, self._town.tasks[id].epoch) not in self._lost_tasks), None)

    # --- work

    async def _claim_task(self, id: str) -> None:
        epoch = self._town.tasks[id].epoch
        known = await self._read_task(id)

        def claim(task: Task | None) -> Sequence[Event]:
            nonlocal known
            known = task
            if task is None or find_task_refusal(task, "start", epoch=epoch, agent=self.name) is not None:
                return []
            return [town_events.task_started(self.agent, task)]

        told = await self._journal.decide(id, claim, known=(known, known.position if known else None))
        if not told or known is None:
            self._lost_tasks.add((id, epoch))
            return
        await self._append_each_event(
            town_events.lease_taken(self.agent, known, seconds=self._lease_seconds), self._build_state_event("working")
        )
        self._claimed_task = replace(known, state="running", attempt=known.attempt + 1)
        self._start_job(await self._build_job(known))

    async def _read_task(self, id: str) -> Task | None:
        return self._find_known_task(id) or await self._journal.read_task(id)

    async def _build_job(self, task: Task) -> TaskJob:
        of = await self._read_task(task.of) if task.of else None
        about = "" if of is None else of.result
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
            target_result=about,
            authors=tuple(task.not_by),
            round=task.round,
            failures=task.failures,
            last_error=task.error,
            notes=await self._read_mission_notes(task.mission) if task.mission else (),
            messages=tuple(sorted_inbox(self._town, self.name))[:MAX_MESSAGES],
        )

    async def _read_mission_notes(self, mission: str) -> tuple[str, ...]:
        newest = self._journal.log.read(f"mission:{mission}", kinds=["town.mission_event"], newest_first=True, limit=MAX_NOTES)
        notes = [f"{event.actor}: {event.data.get('note') or event.text or ''}" async for event in newest]
        return tuple(reversed(notes))

    def _start_job(self, job: TaskJob | QuestionJob) -> None:
        self._job, self._job_inbox = job, JobInbox()
        self._job_run = asyncio.create_task(self._run_job(job, self._job_inbox))
        self._job_run.add_done_callback(lambda _: self._wakeup.set())
        self._report_status(self.name, f"begins {job.task}" if isinstance(job, TaskJob) else f"answers {job.message.sender}")

    def _resume_job(self, job: TaskJob | QuestionJob) -> None:
        """Begin again after a pause; what was sent meanwhile is heard, and what was heard before is not forgotten."""
        taken = self._job_inbox.received_messages
        self._start_job(job)
        if isinstance(job, TaskJob):
            self._job_inbox.received_messages += taken
            known = {message.id for message in (*job.messages, *taken)}
            for message in sorted_inbox(self._town, self.name):
                if message.id not in known:
                    self._job_inbox.deliver_message(message)

    async def _run_job(self, job: TaskJob | QuestionJob, hearing: JobInbox) -> JobOutcome:
        try:
            return await self._handle_job(job, hearing)
        except FleetloreError as error:
            return Failed(str(error))
        except Exception as error:  # noqa: BLE001 - whatever befalls the work is the task's, and the agent lives on
            return Failed(f"{type(error).__name__}: {error}")

    async def _finish_job(self) -> None:
        job, doing, hearing = self._job, self._job_run, self._job_inbox
        assert job is not None
        assert doing is not None
        self._job, self._job_run = None, None
        outcome = Failed("it was broken off") if doing.cancelled() else doing.result()
        if isinstance(job, QuestionJob):
            await self._append_events([*reports.answer_question(self.name, job, outcome), *self._build_failure_events(outcome)])
        else:
            await self._report_outcome(job, outcome, hearing)
        if isinstance(outcome, AgentUnavailable):
            if self.agent.state != "error":
                await self._append_events(self._build_failure_events(outcome))
            raise AgentLoopEnded(outcome.error)

    async def _report_outcome(self, job: TaskJob, outcome: JobOutcome, hearing: JobInbox) -> None:
        used = () if isinstance(outcome, AgentUnavailable) else (*job.messages, *hearing.received_messages)
        read = list(reports.acknowledge_messages(self.name, used))

        def decide(task: Task | None) -> Sequence[Event]:
            told = reports.report(self.agent, task, job, outcome)
            return [*told, *read, *self._build_failure_events(outcome)] if told else []

        position = self._town.tasks[job.task].position
        told = await self._journal.decide(job.task, decide, known=(self._claimed_task, position))
        if told:
            await self._wait_for_position(told[-1])
            self._report_status(self.name, f"{_outcome_verb(outcome)} {job.task}")
        else:
            self._report_status(self.name, f"was too late with {job.task}: its lease was lost")
            self._lost_tasks.add((job.task, job.epoch))

    def _build_failure_events(self, outcome: JobOutcome) -> list[Event]:
        """Told together with the outcome, so that who cannot work is given none in between."""
        return (
            [town_events.agent_failed(self.agent, error=outcome.error, new_state="error")] if isinstance(outcome, AgentUnavailable) else []
        )

    # --- steering

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
            case _:
                await self._append_events([self._build_state_event("draining", reason="asked to close")])

    async def _stop_agent(self, wish: str) -> None:
        """Stop for good, or only let somebody else run it; what it was at goes back either way."""
        reason = self._leave_reason or ("killed" if wish == "kill" else "restarted")
        await self._release_task(reason)
        for id in list(self.agent.queue):
            await self._return_task(id, self._town.tasks[id].epoch, reason)
        if self._leave_reason:
            await self._append_events([self._build_state_event("cold", reason=reason)], wait=False)
        else:
            stopped = [town_events.agent_stopped(self.agent, reason=reason)]
            again = (
                [town_events.agent_state_changed(self.name, "stopped", "cold", reason="to be started anew")] if wish == "restart" else []
            )
            await self._append_events([*stopped, *again], wait=False)
        raise AgentLoopEnded(reason)

    def _has_lost_task(self) -> bool:
        """Whether its task is somebody else's, or nobody's, by now."""
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

        await self._journal.decide(id, decide)

    async def _cancel_job(self) -> None:
        doing, self._job_run = self._job_run, None
        if doing is not None:
            doing.cancel()
            await asyncio.gather(doing, return_exceptions=True)

    # --- telling

    def _build_state_event(self, state: str, reason: str = "") -> Event:
        return town_events.agent_state_changed(self.name, self.agent.state, state, lease=self._lease, reason=reason)

    async def _append_events(self, events: Sequence[Event], *, wait: bool = True) -> None:
        positions = await self._journal.append(events)
        if wait:
            await self._wait_for_position(positions[-1])

    async def _append_each_event(self, *events: Event) -> None:
        """In their order, each stored by itself: on NATS one append of several costs some times as much as several appends."""
        positions = await asyncio.gather(*(self._journal.append([event]) for event in events))
        await self._wait_for_position(positions[-1][0])

    async def _wait_for_position(self, position: Position) -> None:
        """Wait until what was told has come back: the last of it is always about the agent itself."""
        while self._position < position:
            self._wakeup.clear()
            await self._wakeup.wait()


def _outcome_verb(outcome: JobOutcome) -> str:
    return {"Done": "completed", "Failed": "failed", "Approved": "approved", "Rejected": "rejected"}.get(
        type(outcome).__name__, "let go of"
    )
