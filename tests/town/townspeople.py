"""Helpers for town tests: dispatchers and workers in this process, scripted job handlers, and waiting for events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, TypeAlias, cast

from fleetlore import connect
from fleetlore.events.envelope import Event
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import Expect, Position
from fleetlore.log.coordination import Coordination, open_shared
from fleetlore.town.commands import TownCommand, add_task, control_agent
from fleetlore.town.dispatcher import Dispatcher
from fleetlore.town.jobs import JobDone, JobHandler, JobInbox, JobOutcome, QuestionJob, TaskJob
from fleetlore.town.journal import TownJournal
from fleetlore.town.mission_commands import start_mission
from fleetlore.town.plans.model import MissionPlan
from fleetlore.town.worker import Worker
from fleetlore.views import town
from fleetlore.views.town_state import Agent, Mission, Task, TownState
from tests.patience import PATIENCE

SOON = 0.05

HandlerStep: TypeAlias = JobOutcome | Callable[[TaskJob | QuestionJob, JobInbox], Awaitable[JobOutcome]]


class KillableLog:
    """A log whose appends block forever once the process that uses it was killed."""

    def __init__(self, log: Recorder) -> None:
        self._log, self.is_dead = log, False

    async def append(self, events: Sequence[Event], *, expect: Expect | None = None) -> list[Position]:
        if self.is_dead:
            await asyncio.Event().wait()
        return await self._log.append(events, expect=expect)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


class RunningProcess:
    """A dispatcher or worker that runs until it is stopped or killed."""

    def __init__(self, town: LiveTown, log: KillableLog, run: Callable[[asyncio.Event], Awaitable[None]]) -> None:
        self._town, self._log, self._stop = town, log, asyncio.Event()
        self._task = asyncio.ensure_future(run(self._stop))

    async def stop(self) -> None:
        """Stop it gracefully, and wait until the town has read everything it wrote."""
        self._stop.set()
        await self._task
        await self._town.catch_up()

    async def kill(self) -> None:
        """End it like a killed process: it writes nothing any more."""
        self._log.is_dead = True
        await self.cancel()

    async def cancel(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def raise_failure(self) -> None:
        """Raise what ended it, if it failed: nothing that a test waits for would happen any more."""
        if self._task.done() and not self._task.cancelled() and not self._log.is_dead:
            self._task.result()


class ScriptedHandler:
    """A job handler with a list of outcomes (or functions) per task, or per agent for its messages; by default jobs succeed."""

    def __init__(self, **steps: list[HandlerStep]) -> None:
        self._steps = {name: list(task_steps) for name, task_steps in steps.items()}
        self.jobs: list[TaskJob | QuestionJob] = []

    async def __call__(self, job: TaskJob | QuestionJob, inbox: JobInbox) -> JobOutcome:
        self.jobs.append(job)
        name = job.task if isinstance(job, TaskJob) else job.agent
        steps = self._steps.get(name.replace("/", "_").replace("-", "_"))
        step: HandlerStep = steps.pop(0) if steps else JobDone(f"did {name}")
        return await step(job, inbox) if callable(step) else step

    def of(self, task: str) -> list[TaskJob]:
        """The jobs for a task."""
        return [job for job in self.jobs if isinstance(job, TaskJob) and job.task == task]


class BlockedHandler:
    """A job handler that starts and waits until `opened` is set."""

    def __init__(self, outcome: JobOutcome | None = None) -> None:
        self.begun, self.opened, self.broken_off = asyncio.Event(), asyncio.Event(), 0
        self._outcome = outcome or JobDone("through the gate")

    async def __call__(self, job: TaskJob | QuestionJob, inbox: JobInbox) -> JobOutcome:
        self.begun.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.broken_off += 1
            raise
        return self._outcome


class LiveTown:
    """A town with running processes, and everything on its log."""

    def __init__(self, url: str, log: Recorder, coordination: Coordination) -> None:
        self.url, self.log, self.coordination, self.journal = url, log, coordination, TownJournal(log)
        self.events: list[Event] = []
        self.state: TownState = town.initial()
        self._new_event = asyncio.Event()
        self._running: list[RunningProcess] = []
        self._following = asyncio.create_task(self.follow_log())

    async def follow_log(self) -> None:
        """Fold the log as it grows."""
        async with aclosing(self.log.follow()) as events:
            async for event in events:
                self.events.append(event)
                self.state = town.apply(self.state, event)
                self._new_event.set()

    async def wait_until(self, holds: Callable[[TownState], object]) -> TownState:
        """Wait until a condition on the town holds."""

        try:
            async with asyncio.timeout(PATIENCE):
                while not holds(self.state):
                    for running in self._running:
                        running.raise_failure()
                    if self._following.done():
                        self._following.result()
                    self._new_event.clear()
                    with suppress(TimeoutError):  # the condition may depend on more than the log
                        async with asyncio.timeout(SOON):
                            await self._new_event.wait()
        except TimeoutError:
            tail = "\n".join(f"{event.kind} {event.agent} {event.task} {event.text} {event.data}" for event in self.events[-15:])
            raise AssertionError(f"it did not happen; the newest events:\n{tail}") from None
        return self.state

    async def wait_for(self, signal: asyncio.Event) -> None:
        """Wait until a job handler gives a signal."""
        await self.wait_until(lambda _: signal.is_set())

    async def wait_for_task(self, id: str, state: str = "completed") -> Task:
        """Wait until a task is in a state."""
        return (await self.wait_until(lambda town: id in town.tasks and town.tasks[id].state == state)).tasks[id]

    async def wait_for_agent(self, name: str, state: str = "idle") -> Agent:
        """Wait until an agent is in a state."""
        return (await self.wait_until(lambda town: name in town.agents and town.agents[name].state == state)).agents[name]

    async def wait_for_mission(self, id: str, state: str = "completed") -> Mission:
        """Wait until a mission is in a state."""
        return (await self.wait_until(lambda town: id in town.missions and town.missions[id].state == state)).missions[id]

    async def wait_for_event(self, kind: str, **fields: Any) -> Event:
        """Wait for an event of a kind with these fields."""

        def found() -> Event | None:
            return next(
                (event for event in self.events_of_kinds(kind) if all(getattr(event, name) == fields[name] for name in fields)), None
            )

        await self.wait_until(lambda _: found() is not None)
        event = found()
        assert event is not None
        return event

    def events_of_kinds(self, *kinds: str) -> list[Event]:
        """The events of some kinds so far."""
        return [event for event in self.events if event.kind in kinds]

    # --- processes

    def dispatcher(self, **options: Any) -> tuple[Dispatcher, RunningProcess]:
        log = KillableLog(self.log)
        dispatcher = Dispatcher(
            TownJournal(cast(Recorder, log)), self.coordination, **{"tick_seconds": SOON, "lease_seconds": 2.0, **options}
        )
        return dispatcher, self._run(log, dispatcher.run)

    def worker(self, handle_job: JobHandler | None = None, *names: str, **options: Any) -> RunningProcess:
        settings = {"scan_seconds": SOON, "lease_seconds": 2.0, **options}
        log = KillableLog(self.log)
        worker = Worker(TownJournal(cast(Recorder, log)), self.coordination, handle_job or ScriptedHandler(), names=names, **settings)
        return self._run(log, worker.run)

    def _run(self, log: KillableLog, run: Callable[[asyncio.Event], Awaitable[None]]) -> RunningProcess:
        self._running.append(RunningProcess(self, log, run))
        return self._running[-1]

    async def close(self) -> None:
        for running in self._running:
            await running.cancel()
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)

    # --- commands

    async def append_commands(self, *commands: TownCommand) -> None:
        for command in commands:
            stored = await self.journal.append(command.events, expect=command.expect)
            await self.wait_for_position(stored[-1].position or "")

    async def wait_for_position(self, position: str) -> None:
        """Wait until the town has read this position."""
        await self.wait_until(lambda _: self.events and (self.events[-1].position or "") >= position)

    async def catch_up(self) -> None:
        """Wait until the town has read everything that is in the log."""
        await self.wait_for_position(await self.log.head() or "")

    async def add_tasks(self, *ids: str, **options: Any) -> None:
        await self.append_commands(*(add_task(self.state, f"The task {id}", by="jo", id=id, **options) for id in ids))

    async def control_agent(self, name: str, action: str) -> None:
        await self.catch_up()
        await self.append_commands(control_agent(self.state, name, action, by="jo"))

    async def start_mission(self, plan: MissionPlan) -> None:
        await self.append_commands(*start_mission(self.state, plan, by="jo"))


@asynccontextmanager
async def open_live_town(url: str) -> AsyncIterator[LiveTown]:
    """A town on a log; its processes are killed at the end."""
    async with connect(url) as log:
        with open_shared(url) as coordination:
            town = LiveTown(url, log, coordination)
            try:
                yield town
            finally:
                await town.close()
