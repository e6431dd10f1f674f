"""Scenario: a town. Workers with dispatchers do tasks and a mission, while a conductor adds work and controls agents."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tests.views.town_facts import faults as find_index_faults

from fleetlore.errors import FleetloreError, Invalid, LogError
from fleetlore.events.envelope import Event
from fleetlore.town.commands import TownCommand, add_task, control_agent
from fleetlore.town.dispatcher import Dispatcher
from fleetlore.town.jobs import Approved, JobDone, JobFailed, JobOutcome, QuestionJob, Rejected, TaskJob
from fleetlore.town.journal import TownJournal
from fleetlore.town.mission_commands import change_mission_state, start_mission
from fleetlore.town.planning import REVIEWER_ROLE
from fleetlore.town.plans.model import MissionPlan, PlannedItem
from fleetlore.town.worker import Worker
from fleetlore.views import town
from fleetlore.views.town_state import CONDUCTOR, ENDED_TASK_STATES, MissionState, TownState
from simulation import checks
from simulation.chaos import inject_faults
from simulation.engines import EngineName
from simulation.world import SimulatedProcess, World

ENGINES: tuple[EngineName, ...] = ("sqlite", "redis", "nats")
"""A server that syncs every second may lose what a town was told, so it promises less."""
CHAOS_SECONDS = 90.0
REPAIR_SECONDS = 900.0
"""How long the town may take to finish after the last fault: leases expire, restarts wait, tasks are tried again."""
TASKS, ITEMS = 8, 6
MISSION_TRIES = 25
CAST = (("builder", "ada", "bob"), ("builder", "eve"), (REVIEWER_ROLE, "rev"))
"""By worker: its role, and its agents."""
PAUSE_SECONDS = 30.0
SETTLE_SECONDS = 30.0
"""After the last task, so that a worker that was just started has its agents."""
REACTION_SECONDS = 5.0
"""A dispatcher learns of a pause a moment later."""


class JobRun(NamedTuple):
    """A job as it was done."""

    task: str
    epoch: int
    agent: str
    process: str
    is_resumed: bool


class TownScenario:
    """A conductor, three workers that also offer to dispatch, and a mission."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.jobs: list[JobRun] = []
        self.workers: dict[str, tuple[Worker, float]] = {}
        """By process: its worker, and when it was started."""
        self.added: dict[str, None] = {}
        """Tasks whose addition was acknowledged."""
        self.has_names = world.rng.random() < 0.5
        """Whether workers run agents with names, or invent them."""
        self.is_over = False
        self.state: TownState = town.initial()
        self.reader: checks.LogReader | None = None

    async def run(self) -> None:
        """Run it with faults, wait until all work is done, and check."""
        world = self.world
        where = world.add_main_log(ENGINES)
        world.tell_story(f"Three workers and a conductor share a town ({world.engines['log'].name})")
        world.start_process("conductor", where[-1], self.conduct)
        for number in range(3):
            world.start_process(f"worker{number}", where[number % len(where)], self.work)
        await inject_faults(world, CHAOS_SECONDS, spares=("conductor",))
        deadline = world.loop.time() + REPAIR_SECONDS
        while not self._is_done() and world.loop.time() < deadline:
            await asyncio.sleep(2.0)
        await asyncio.sleep(SETTLE_SECONDS)
        self.is_over = True
        self.check()

    def _is_done(self) -> bool:
        self.reader = self.reader or checks.LogReader(self.world)
        for event in self.reader.read_new_events():
            self.state = town.apply(self.state, event)
        if len(self.added) < TASKS:
            return False
        mission = self.state.missions.get("m1")
        is_ended = all(id in self.state.tasks and self.state.tasks[id].state in ENDED_TASK_STATES for id in self.added)
        is_waiting = mission is not None and mission.help is not None and not any(map(self._is_busy, self.state.tasks))
        return is_ended and mission is not None and (mission.state == "completed" or is_waiting)

    def _is_busy(self, task: str) -> bool:
        return self.state.tasks[task].state in ("assigned", "running")

    # --- processes

    def _journal(self, process: SimulatedProcess) -> TownJournal:
        return TownJournal(process.open_log(), **process.journal_options())

    async def work(self, process: SimulatedProcess) -> None:
        """Dispatch and work, as `lore worker` does."""
        await asyncio.sleep(self.world.rng.uniform(0, 0.5))  # so that workers meet at different moments of each other's start
        number, coordination, stop = int(process.name[-1]), process.open_coordination(), asyncio.Event()
        journal = self._journal(process)
        role, *names = CAST[number]
        dispatcher = Dispatcher(journal, coordination)
        worker = Worker(
            journal,
            coordination,
            lambda job, inbox: self._do_job(process, job),
            names=names if self.has_names else [],
            roles=[role],
            concurrency=2,
        )
        self.workers[process.name] = worker, self.world.loop.time()
        await asyncio.gather(dispatcher.run(stop), worker.run(stop))

    async def _do_job(self, process: SimulatedProcess, job: TaskJob | QuestionJob) -> JobOutcome:
        rng = self.world.rng
        if isinstance(job, QuestionJob):
            return JobDone("noted")
        self.jobs.append(JobRun(job.task, job.epoch, job.agent, process.process.name, job.is_resumed))
        if job.purpose == "work" and REVIEWER_ROLE in job.roles:
            self.world.report_violation(f"{job.agent} reviews, and got {job.task}")
        self.world.trace(f"{process.process.name} {job.agent} starts {job.task} epoch {job.epoch}")
        await asyncio.sleep(rng.uniform(0.1, 10))
        if job.purpose == "review":
            return Rejected("no tests") if job.round < 2 and rng.random() < 0.2 else Approved("reads well")
        return JobFailed("the build broke") if rng.random() < 0.15 else JobDone(f"did {job.task}")

    async def conduct(self, process: SimulatedProcess) -> None:
        """Add tasks and a mission, and pause and continue agents."""
        rng, journal = self.world.rng, self._journal(process)
        await self._obey(journal, start=True)
        while (number := process.disk.setdefault("next", 0)) < TASKS:
            await asyncio.sleep(rng.uniform(0.5, CHAOS_SECONDS / TASKS))
            await self._obey(journal, task=f"t{number}")
            process.disk["next"], self.added[f"t{number}"] = number + 1, None
            if rng.random() < 0.5:
                await self._control_somebody(journal)
            if number == 1:
                await self._obey(journal, mission="blocked")
                await asyncio.sleep(PAUSE_SECONDS)
                await self._obey(journal, mission="running")
        # What was paused continues, so that the town can finish.
        while not self.is_over:
            await asyncio.sleep(5.0)
            try:
                await journal.catch_up()
                if (mission := journal.state.missions.get(PLAN.id)) is not None and mission.state == "blocked":
                    await self._obey(journal, mission="running")
                for agent in list(journal.state.agents.values()):
                    if agent.state == "paused" and not agent.wish:
                        await self._store(journal, control_agent(journal.state, agent.name, "resume", by="jo"))
            except FleetloreError:
                continue

    async def _obey(self, journal: TownJournal, *, start: bool = False, task: str = "", mission: MissionState | None = None) -> None:
        """Store a command, again and again until it is there."""
        while True:
            try:
                await journal.catch_up()
                for command in self._make_commands(journal.state, start, task, mission):
                    await self._store(journal, command)
            except Invalid:
                return  # it is there: the answer to an earlier try was lost
            except LogError:
                await asyncio.sleep(1.0)
            else:
                return

    def _make_commands(self, state: TownState, start: bool, task: str, mission: MissionState | None) -> Sequence[TownCommand]:
        if start:
            return start_mission(state, PLAN, by="jo")
        if mission is not None:
            return [change_mission_state(state, PLAN.id, mission, by="jo")]
        return [add_task(state, f"The {task}", by="jo", id=task)]

    async def _control_somebody(self, journal: TownJournal) -> None:
        names = [agent.name for agent in journal.state.agents.values() if agent.state in ("idle", "working")]
        if not names:
            return
        try:
            await journal.catch_up()
            name, action = self.world.rng.choice(names), self.world.rng.choice(("interrupt", "restart"))
            await self._store(journal, control_agent(journal.state, name, action, by="jo"))
        except FleetloreError:
            return

    async def _store(self, journal: TownJournal, command: TownCommand) -> None:
        await journal.append(command.events, expect=command.expect)

    # --- what must hold

    def check(self) -> None:
        """Every task is completed once or reported, nothing was begun again without a reason on the log, and the fold is sound."""
        world, events = self.world, checks.read_all_events(self.world)
        state = _fold(events)
        if len(self.added) < TASKS:
            world.report_violation(f"the conductor could add {len(self.added)} of {TASKS} tasks")
        for id in self.added:
            task = state.tasks.get(id)
            if task is None:
                world.report_violation(f"task {id} was acknowledged and is lost")
            elif task.state not in ENDED_TASK_STATES:
                world.report_violation(f"task {id} is {task.state} {REPAIR_SECONDS:.0f} s after the last fault")
            elif task.state == "failed" and not _is_reported(events, id):
                world.report_violation(f"task {id} failed and nobody was told")
        self._check_mission(state)
        for id, count in Counter(_list_completions(events)).items():
            if count > 1:
                world.report_violation(f"task {id} was completed {count} times")
        for (id, epoch), count in Counter((job.task, job.epoch) for job in self.jobs if not job.is_resumed).items():
            if count > 1:
                world.report_violation(f"task {id} was begun {count} times under epoch {epoch}")
        for event in _list_unexplained_starts(events):
            world.report_violation(f"task {event.task} was begun again at {event.position}, and the log does not say why")
        for fault in find_index_faults(state):
            world.report_violation(f"an index of the town is wrong: {fault}")
        ids = Counter(event.id for event in events)
        if twice := [id for id, count in ids.items() if count > 1]:
            world.report_violation(f"event {twice[0]} is stored twice")
        checks.check_leases(world, events)
        self._check_pauses(events)
        for name, (worker, started) in self.workers.items():
            since = max(started, world.processes[name].process.resumed_at)
            is_settled = world.processes[name].is_working and since < world.loop.time() - SETTLE_SECONDS
            if is_settled and not self.has_names and not worker.running_agents:
                world.report_violation(f"{name} runs no agents")
        checks.flip_bits(world, _fold)

    def _check_pauses(self, events: Sequence[Event]) -> None:
        """Nothing of a paused mission is assigned."""
        stored_at, paused_at = self.world.engines["log"].stored_at, None
        for event in events:
            at = stored_at.get(event.id or "")
            if event.kind == "town.mission_state_changed":
                paused_at = at if event.new_state == "blocked" else None
            elif event.kind == "town.task_assigned" and event.mission == PLAN.id and paused_at is not None and at is not None:
                late = (at - paused_at).total_seconds()
                if REACTION_SECONDS < late < PAUSE_SECONDS:
                    self.world.report_violation(f"task {event.task} was assigned {late:.0f} s after its mission was paused")

    def _check_mission(self, state: TownState) -> None:
        mission = state.missions.get("m1")
        if mission is not None and mission.state == "running" and mission.help is not None:
            return  # reported: a person must decide, for example because every agent has worked on an item that needs a review
        if mission is None or mission.state != "completed":
            self.world.report_violation(f"the mission is {mission and mission.state} {REPAIR_SECONDS:.0f} s after the last fault")
            return
        for item in mission.items.values():
            if item.state != "done":
                self.world.report_violation(f"the mission is completed, and its item {item.id} is {item.state}")
            if item.type == "implement" and (not item.approved_by or item.approved_by in item.authors):
                self.world.report_violation(f"item {item.id} of {item.authors} was approved by {item.approved_by!r}")


PLAN = MissionPlan(
    id="m1",
    title="Six things",
    max_parallel=3,
    tries=MISSION_TRIES,
    items=tuple(
        PlannedItem(
            id=f"i{number}",
            title=f"Item {number}",
            type="implement" if number % 3 != 1 else "design",
            depends_on=tuple(dict.fromkeys(f"i{each}" for each in (number - 2, number // 2) if each > 0)),
            roles=("builder",),
        )
        for number in range(1, ITEMS + 1)
    ),
)


def _fold(events: Sequence[Event]) -> TownState:
    state = town.initial()
    for event in events:
        state = town.apply(state, event)
    return state


def _is_reported(events: list[Event], task: str) -> bool:
    return any(event.kind == "work.message_sent" and event.child == CONDUCTOR and event.task == task for event in events)


def _list_completions(events: list[Event]) -> list[str]:
    """The tasks of the completions that the fold accepts, each as often as it was completed without being reopened."""
    state, completed = town.initial(), list[str]()
    for event in events:
        before = state.done
        state = town.apply(state, event)
        if state.done > before and event.task is not None:
            completed.append(event.task)
    return completed


def _list_unexplained_starts(events: list[Event]) -> list[Event]:
    """Starts of a task that was started before, without a loss or a failure in between."""
    begun: set[str | None] = set()
    found = []
    for event in events:
        if event.kind == "work.started" and event.task in begun:
            found.append(event)
        elif event.kind == "work.started":
            begun.add(event.task)
        elif event.kind in ("work.lease_lost", "town.task_failed"):
            begun.discard(event.task)
    return found
