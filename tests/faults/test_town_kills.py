"""A mission of twelve items, worked on by processes that are killed with -9 at random: it comes to its end, and nothing is done twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from fleetlore.events.envelope import Event
from fleetlore.town.plans.model import MissionPlan, PlannedItem
from fleetlore.views import town
from fleetlore.views.town_state import TownState
from tests.contract.conftest import SHARED, address
from tests.faults.processes import Process
from tests.faults.towner import DEADLY, FAILING, SENT_BACK, digest
from tests.patience import PATIENCE
from tests.town.townspeople import LiveTown, open_live_town
from tests.views.town_facts import faults

ITEMS = 12
CAST = {"ada": "builder", "bob": "builder", "rev": "reviewer", "ros": "reviewer"}
PLAN = MissionPlan(
    id="m1",
    title="Twelve things",
    max_parallel=3,
    tries=20,
    items=tuple(
        PlannedItem(
            id=f"i{number}",
            title=f"Item {number}",
            type="implement" if number % 3 != 1 else "design",
            depends_on=tuple(dict.fromkeys(f"i{each}" for each in (number - 3, number // 2) if each > 0)),
            roles=("builder",),
        )
        for number in range(1, ITEMS + 1)
    ),
)


class Course(NamedTuple):
    """How a mission went."""

    kills: int
    begun: int
    """How often a task was begun."""
    tasks: int


class WorkerGroup:
    """One process for each of the cast; whoever is dead is replaced."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self._url, self._stack, self.dead = url, stack, 0
        self._processes: dict[str, Process] = {}
        for name in CAST:
            self._start(name)

    def _start(self, name: str) -> None:
        process = self._processes[name] = Process("tests.faults.towner", self._url, name, CAST[name])
        self._stack.callback(process.close)

    def kill(self, name: str) -> None:
        self._processes[name].kill()

    def replace_the_dead(self) -> None:
        for name in [name for name, process in self._processes.items() if process.has_ended]:
            self.dead += 1
            self._start(name)

    def states(self) -> list[str]:
        """What the dispatcher that leads knows, as a hash."""
        for process in self._processes.values():
            process.say("state")
        return [process.line() for process in self._processes.values()]


async def run_mission(url: str, chance: Random, kills: int) -> Course:
    """From the plan to the end, with so many kills on the way; and all that must hold then."""
    with ExitStack() as stack:
        async with open_live_town(url) as live_town, asyncio.timeout(PATIENCE):
            await live_town.start_mission(PLAN)
            workers = WorkerGroup(url, stack)
            await _to_the_end(live_town, workers, chance, kills)
            events = [event async for event in live_town.log.read()]
            check(events)
            while digest(fold(events)) not in await asyncio.to_thread(workers.states):
                await asyncio.sleep(0.05)  # until it has folded all, and whoever was at something has told of it
                events = [event async for event in live_town.log.read()]
    begun = [event.task for event in events if event.kind == "work.started"]
    return Course(workers.dead, len(begun), len(set(begun)))


async def _to_the_end(live_town: LiveTown, workers: WorkerGroup, chance: Random, kills: int) -> None:
    """Killed by the mission's own course: whoever it is, whatever he is at."""
    moments = sorted(chance.sample(range(15, 160), kills))
    while live_town.state.missions["m1"].state != "completed":
        if moments and len(live_town.events) >= moments[0]:
            moments.pop(0)
            workers.kill(chance.choice(list(CAST)))
        workers.replace_the_dead()
        await asyncio.sleep(0.01)  # the processes have the word


def fold(events: list[Event]) -> TownState:
    """The town, from scratch."""
    state = town.initial()
    for event in events:
        state = town.apply(state, event)
    return state


def check(events: list[Event]) -> None:
    """All is done and reviewed by others, no task is lost, none completed twice, none begun again but by a word in the log."""
    state = fold(events)
    mission = state.missions["m1"]
    assert [item.state for item in mission.items.values()] == ["done"] * ITEMS
    assert all(item.approved_by and item.approved_by not in item.authors for item in mission.items.values() if item.type == "implement")
    assert (mission.items[SENT_BACK].round, state.tasks[f"m1/{FAILING}"].failures) == (1, 1)
    assert state.tasks[f"m1/{DEADLY}"].attempt > 1
    created = Counter(event.task for event in events if event.kind == "work.task_created")
    assert Counter(believed(events)) == created, "a task was lost, or completed twice"
    recorded = Counter((event.task, event.data["epoch"]) for event in events if event.kind == "town.task_completed")
    assert max(recorded.values()) == 1, "a task was completed twice under one epoch"
    assert not list(unexplained(events)), "a task was begun again, and the log does not say why"
    assert faults(state) == []


def believed(events: list[Event]) -> Iterator[str | None]:
    """The tasks of the completions that the fold took, each as often."""
    state = town.initial()
    for event in events:
        done = state.done
        state = town.apply(state, event)
        if state.done > done:
            yield event.task


def unexplained(events: list[Event]) -> Iterator[Event]:
    """Beginnings of a task that was begun before, without a loss or a failure in between."""
    begun: set[str | None] = set()
    for event in events:
        if event.kind == "work.started" and event.task in begun:
            yield event
        elif event.kind == "work.started":
            begun.add(event.task)
        elif event.kind in ("work.lease_lost", "town.task_failed"):
            begun.discard(event.task)


@pytest.mark.parametrize("backend", SHARED)
def test_a_mission_whose_workers_are_killed_comes_to_its_end(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    course = asyncio.run(run_mission(address(backend, request, tmp_path), Random(9), kills=3))
    assert course.kills >= 3
    assert course.begun > course.tasks
