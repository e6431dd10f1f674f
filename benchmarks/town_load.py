"""A town under load: simulated agents in one process that finish tasks at once, and figures read from the log afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter

from benchmarks.measure import progress
from fleetlore import Event, connect
from fleetlore.log.coordination import open_shared
from fleetlore.town import events
from fleetlore.town.dispatcher import Dispatcher
from fleetlore.town.jobs import JobDone, JobInbox, JobOutcome, QuestionJob, TaskJob
from fleetlore.town.journal import TownJournal
from fleetlore.town.worker import Worker
from fleetlore.views.town_state import TownState

BEAT = 0.05


@dataclass(frozen=True)
class Load:
    """How a load was borne."""

    rate: float
    """Tasks that were given out, claimed and completed, in a second."""
    claims: list[float]
    """Milliseconds from the writing of each assignment to that of its claim: the commit, the way to the agent, its look at the task."""


async def work(job: TaskJob | QuestionJob, delay: JobInbox) -> JobOutcome:
    return JobDone()


class _Crowd:
    def __init__(self, journal: TownJournal, dispatcher: Dispatcher, tasks: list[asyncio.Task[None]]) -> None:
        self.journal, self.dispatcher, self._tasks = journal, dispatcher, tasks

    @property
    def town(self) -> TownState:
        return self.dispatcher.town

    async def until_idle(self, agents: int) -> None:
        while sum(map(len, self.town.idle.values())) < agents:
            self._check()
            progress(f"{len(self.town.idle.get('', ()))} of {agents} agents are there")
            await asyncio.sleep(BEAT)

    async def until_done(self, tasks: int) -> None:
        while self.town.done < tasks:
            self._check()
            progress(f"{self.town.done} of {tasks} tasks are done")
            await asyncio.sleep(BEAT)

    def _check(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()
                raise AssertionError("the town has stopped")


@asynccontextmanager
async def _crowd(url: str, agents: int) -> AsyncIterator[_Crowd]:
    async with connect(url) as log:
        with open_shared(url) as shared:
            journal, stop = TownJournal(log), asyncio.Event()
            dispatcher = Dispatcher(journal, shared, lease_seconds=60.0)
            worker = Worker(journal, shared, work, concurrency=agents, lease_seconds=60.0)
            tasks = [asyncio.create_task(dispatcher.run(stop)), asyncio.create_task(worker.run(stop))]
            crowd = _Crowd(journal, dispatcher, tasks)
            try:
                await crowd.until_idle(agents)
                yield crowd
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


def flood(url: str, agents: int, count: int) -> Load:
    """All tasks are there at once: how many are done in a second."""
    return asyncio.run(_flood(url, agents, count))


async def _flood(url: str, agents: int, count: int) -> Load:
    async with _crowd(url, agents) as crowd:
        await crowd.journal.append_all(write_tasks(count))
        start, done = perf_counter(), crowd.town.done
        await crowd.until_done(count)
        rate = (count - done) / (perf_counter() - start)
        return Load(rate, await measure_claims(crowd.journal))


def pace(url: str, agents: int, count: int, rate: float) -> Load:
    """Tasks come one by one, fewer than can be done: how soon each is claimed."""
    return asyncio.run(_pace(url, agents, count, rate))


async def _pace(url: str, agents: int, count: int, rate: float) -> Load:
    async with _crowd(url, agents) as crowd:
        start = perf_counter()
        for number, task in enumerate(write_tasks(count)):
            await asyncio.sleep(max(0.0, start + number / rate - perf_counter()))
            await crowd.journal.append([task])
        await crowd.until_done(count)
        return Load(count / (perf_counter() - start), await measure_claims(crowd.journal))


def write_tasks(count: int, prefix: str = "t") -> list[Event]:
    """The events that create so many tasks."""
    return [events.task_created(f"{prefix}{number}", title=f"The task {number}", by="bench") for number in range(count)]


async def measure_claims(journal: TownJournal) -> list[float]:
    """Milliseconds from each assignment to its claim, in the order of the claims."""
    given: dict[tuple[str | None, int], float] = {}
    claims = []
    async for event in journal.log.read(kinds=("town.task_assigned", "work.started")):
        assert event.at is not None
        key = event.task, event.data["epoch"]
        if event.kind == "town.task_assigned":
            given[key] = event.at.timestamp()
        else:
            claims.append((event.at.timestamp() - given[key]) * 1e3)
    return claims
