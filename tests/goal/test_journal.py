"""The journal of a goal: its state is what the log has, also if others write, and everything around it is a parameter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fleetlore import connect
from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.goal.driver import Driver
from fleetlore.goal.journal import GoalJournal
from fleetlore.goal.resources import GoalResources
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.coordination import open_shared
from fleetlore.log.seal import make_seal
from fleetlore.programs.harness import TurnProgress, TurnRequest, TurnResult, Watch
from fleetlore.views import goals
from fleetlore.views.goal_state import GoalState
from tests.contract.conftest import BACKENDS, address
from tests.goal.scripted import GOAL, Clock, FakeChecker, FakeWorkspace, ScriptedHarness, done, goal

PARENT = "3f2b8c1e-0000-4000-8000-000000000001"
SECRET = "sk-ant-api03-" + "a1B2" * 20


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return address(request.param, request, tmp_path)


@pytest.fixture
async def log(url: str) -> AsyncIterator[Recorder]:
    async with connect(url) as opened:
        yield opened


def make_resources(turn: Any, *, met: tuple[bool, ...] = (True,)) -> GoalResources:
    return GoalResources(harness=ScriptedHarness([turn]), workspace=FakeWorkspace(), verifiers=FakeChecker(met))


async def fold_log(log: Recorder, id: str = GOAL) -> GoalState:
    state = GoalState(id=id)
    async for event in log.read(f"goal:{id}"):
        goals.apply_to_goal(state, event)
    return state


def request(action: str, **data: Any) -> Event:
    return Event(kind="control.requested", actor="eve", goal=GOAL, data={"action": action, **data})


async def test_the_state_at_the_end_is_that_of_the_log_with_requests_in_between_and_without_secrets(log: Recorder) -> None:
    async def work(order: TurnRequest, watch: Watch) -> TurnResult:
        for number in range(5):
            await watch(
                TurnProgress(tokens=10 * number, events=[Event(kind="tool.called", agent="ada", data={"tool": "Bash", "input": SECRET})])
            )
            await log.append([request("say", value=f"message {number}")])
        return done(f"The key is {SECRET}.")

    with open_shared("memory:") as shared:
        driver = Driver(log, GOAL, make_resources(work, met=(False, False, True)), shared=shared, now=Clock())
        await driver.start(goal())
        state = await driver.run_goal()
    assert (state.outcome, state.spent.turns) == ("done", 3)
    assert "a1B2" not in state.words
    stored = await fold_log(log)
    assert replace(state, position=None) == replace(stored, position=None)


async def test_without_its_parent_a_goal_does_not_run_however_often_it_is_tried(log: Recorder) -> None:
    with open_shared("memory:") as shared:
        driver = Driver(log, GOAL, make_resources(done()), shared=shared, now=Clock())
        await driver.start(goal(parent=PARENT))
        for _ in range(2):
            with pytest.raises(Invalid, match=f"parent goal {PARENT} is not on this log"):
                await driver.run_goal()
        await Driver(log, PARENT, make_resources(done()), shared=shared, now=Clock()).start(goal(id=PARENT))
        assert (await driver.run_goal()).outcome == "done"
    assert (await fold_log(log, PARENT)).spent.turns == 1


async def test_on_a_sealed_log_only_requests_with_the_key_of_the_goal_count(log: Recorder) -> None:
    _, key = make_seal("correct horse battery", cost=2)
    journal = GoalJournal(log, GOAL, key=key)
    other = "3f2b8c1e-0000-4000-8000-000000000009"
    forged = replace(key.goal_key(other).sign_event(replace(request("cancel"), goal=other)), goal=GOAL, id=None)
    await log.append([request("pause"), forged, key.sign_event(request("say", value="signed"))])
    await journal.catch_up()
    state = journal.state
    assert ([message.text for message in state.messages], state.is_paused, state.cancel) == (["signed"], False, None)
    assert (state.unsigned, journal.fold.control_count) == (2, 1)


async def test_clock_ids_sleep_tasks_and_threads_are_parameters(log: Recorder) -> None:
    used: set[str] = set()

    async def sleep(seconds: float) -> None:
        used.add("sleep")
        await asyncio.sleep(0.001)

    def spawn(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        used.add("spawn")
        return asyncio.create_task(work)

    async def run_blocking(work: Any, *args: Any) -> Any:
        used.add("run_blocking")
        return work(*args)

    ids = (f"00000000-0000-4000-8000-{number:012d}" for number in range(10**6))
    clock = Clock()
    nap = TurnResult(how="asleep", words="the build runs", sleep_ms=5_000)
    turns = [nap, done()]
    resources = make_resources(done())
    resources.harness = ScriptedHarness(turns)
    with open_shared("memory:") as shared:
        options: dict[str, Any] = {"now": clock, "new_id": lambda: next(ids), "sleep": sleep, "spawn": spawn, "run_blocking": run_blocking}
        driver = Driver(log, GOAL, resources, shared=shared, **options)
        await driver.start(goal())
        assert (await driver.run_goal()).outcome == "done"
    assert used == {"sleep", "spawn", "run_blocking"}
    events = [event async for event in log.read(f"goal:{GOAL}")]
    assert all((event.id or "").startswith("00000000-0000-4000-8000-") for event in events)
    assert all(event.at is not None and event.at <= clock.moment for event in events)
