"""A town for tests: dispatchers and workers in this process, on any log; work that follows a script; and waiting for what the log tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, TypeAlias

from fleetlore import connect
from fleetlore.events.envelope import Event
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import Expect, Position
from fleetlore.log.coordination import Coordination, open_shared
from fleetlore.town.commands import TownCommand, add_task, control_agent
from fleetlore.town.dispatcher import Dispatcher
from fleetlore.town.jobs import Done, JobHandler, JobInbox, JobOutcome, QuestionJob, TaskJob
from fleetlore.town.journal import TownJournal
from fleetlore.town.mission_commands import start_mission
from fleetlore.town.plans.model import MissionPlan
from fleetlore.town.worker import Worker
from fleetlore.views import town
from fleetlore.views.town_state import Agent, Mission, Task, TownState
from tests.patience import PATIENCE

SOON = 0.05

Act: TypeAlias = JobOutcome | Callable[[TaskJob | QuestionJob, JobInbox], Awaitable[JobOutcome]]


class Pen(TownJournal):
    """Writes nothing any more once its process has died."""

    is_dead = False

    async def append(self, events: Sequence[Event], *, expect: Expect | None = None) -> list[Position]:
        if self.is_dead:
            await asyncio.Event().wait()
        return await super().append(events, expect=expect)


class Running:
    """A dispatcher or a worker that goes on until it is stopped, or dies."""

    def __init__(self, hall: Hall, pen: Pen, run: Callable[[asyncio.Event], Awaitable[None]]) -> None:
        self._hall, self._pen, self._stop = hall, pen, asyncio.Event()
        self._task = asyncio.ensure_future(run(self._stop))

    async def stop(self) -> None:
        """In good order; the hall knows all that was told by then."""
        self._stop.set()
        await self._task
        await self._hall.seen(await self._hall.log.head() or "")

    async def die(self) -> None:
        """As a process does: nothing is told any more."""
        self._pen.is_dead = True
        await self.end()

    async def end(self) -> None:
        """At once."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class Script:
    """Work that is done as a script says: outcomes, or what makes them, for each task (or an agent's messages) in turn; else it is done."""

    def __init__(self, **acts: list[Act]) -> None:
        self._acts = {name: list(each) for name, each in acts.items()}
        self.jobs: list[TaskJob | QuestionJob] = []

    async def __call__(self, job: TaskJob | QuestionJob, hearing: JobInbox) -> JobOutcome:
        self.jobs.append(job)
        name = job.task if isinstance(job, TaskJob) else job.agent
        acts = self._acts.get(name.replace("/", "_").replace("-", "_"))
        act: Act = acts.pop(0) if acts else Done(f"did {name}")
        return await act(job, hearing) if callable(act) else act

    def of(self, task: str) -> list[TaskJob]:
        """The jobs that were made of a task."""
        return [job for job in self.jobs if isinstance(job, TaskJob) and job.task == task]


class Gate:
    """Work that begins, and goes on when it is let."""

    def __init__(self, outcome: JobOutcome | None = None) -> None:
        self.begun, self.opened, self.broken_off = asyncio.Event(), asyncio.Event(), 0
        self._outcome = outcome or Done("through the gate")

    async def __call__(self, job: TaskJob | QuestionJob, hearing: JobInbox) -> JobOutcome:
        self.begun.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.broken_off += 1
            raise
        return self._outcome


class Hall:
    """One town: who works in it, and all that its log tells."""

    def __init__(self, url: str, log: Recorder, shared: Coordination) -> None:
        self.url, self.log, self.shared, self.scribe = url, log, shared, TownJournal(log)
        self.events: list[Event] = []
        self.state: TownState = town.initial()
        self._news = asyncio.Event()
        self._running: list[Running] = []

    async def listen(self) -> None:
        """Fold what the log tells, as it comes."""
        async with aclosing(self.log.follow()) as events:
            async for event in events:
                self.events.append(event)
                self.state = town.apply(self.state, event)
                self._news.set()

    async def until(self, holds: Callable[[TownState], object]) -> TownState:
        """Wait until the town is so."""

        try:
            async with asyncio.timeout(PATIENCE):
                while not holds(self.state):
                    self._news.clear()
                    with suppress(TimeoutError):  # what is looked at may be behind the log, too
                        async with asyncio.timeout(SOON):
                            await self._news.wait()
        except TimeoutError:
            tail = "\n".join(f"{event.kind} {event.agent} {event.task} {event.text} {event.data}" for event in self.events[-15:])
            raise AssertionError(f"it did not come about; the last that was told:\n{tail}") from None
        return self.state

    async def task(self, id: str, state: str = "completed") -> Task:
        """Wait until a task is in a state."""
        return (await self.until(lambda town: id in town.tasks and town.tasks[id].state == state)).tasks[id]

    async def agent(self, name: str, state: str = "idle") -> Agent:
        """Wait until an agent is."""
        return (await self.until(lambda town: name in town.agents and town.agents[name].state == state)).agents[name]

    async def mission(self, id: str, state: str = "completed") -> Mission:
        """Wait until a mission is."""
        return (await self.until(lambda town: id in town.missions and town.missions[id].state == state)).missions[id]

    async def told(self, kind: str, **fields: Any) -> Event:
        """Wait until an event of a kind was told, with these fields."""

        def found() -> Event | None:
            return next((event for event in self.kinds(kind) if all(getattr(event, name) == fields[name] for name in fields)), None)

        await self.until(lambda _: found() is not None)
        event = found()
        assert event is not None
        return event

    def kinds(self, *kinds: str) -> list[Event]:
        """Those of some kinds that were told so far."""
        return [event for event in self.events if event.kind in kinds]

    # --- who is there

    def dispatcher(self, **options: Any) -> tuple[Dispatcher, Running]:
        pen = Pen(self.log)
        dispatcher = Dispatcher(pen, self.shared, **{"tick_seconds": SOON, "lease_seconds": 2.0, **options})
        return dispatcher, self._run(pen, dispatcher.run)

    def worker(self, work: JobHandler | None = None, *names: str, **options: Any) -> Running:
        given = {"scan_seconds": SOON, "lease_seconds": 2.0, **options}
        pen = Pen(self.log)
        return self._run(pen, Worker(pen, self.shared, work or Script(), names=names, **given).run)

    def _run(self, pen: Pen, run: Callable[[asyncio.Event], Awaitable[None]]) -> Running:
        self._running.append(Running(self, pen, run))
        return self._running[-1]

    async def close(self) -> None:
        for running in self._running:
            await running.end()

    # --- what is wanted

    async def wish(self, *wishes: TownCommand) -> None:
        for wish in wishes:
            positions = await self.scribe.append(wish.events, expect=wish.expect)
            await self.seen(positions[-1])

    async def seen(self, position: str) -> None:
        """Wait until the town was told so much."""
        await self.until(lambda _: self.events and (self.events[-1].position or "") >= position)

    async def add(self, *ids: str, **options: Any) -> None:
        """Write tasks down."""
        await self.wish(*(add_task(self.state, f"The task {id}", by="jo", id=id, **options) for id in ids))

    async def ask(self, name: str, action: str) -> None:
        await self.wish(control_agent(self.state, name, action, by="jo"))

    async def start(self, plan: MissionPlan) -> None:
        await self.wish(*start_mission(self.state, plan, by="jo"))


@asynccontextmanager
async def hall_on(url: str) -> AsyncIterator[Hall]:
    """A town on a log; whoever is left in it dies with the block."""
    async with connect(url) as log:
        with open_shared(url) as shared:
            hall = Hall(url, log, shared)
            listening = asyncio.create_task(hall.listen())
            try:
                yield hall
            finally:
                await hall.close()
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
