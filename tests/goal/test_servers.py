"""Goals on server logs: the same steps, killed and resumed, taken over by others, forwarded to the distributed log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import nats
import pytest

from fleetlore import connect
from fleetlore.errors import LeaseLost
from fleetlore.events.envelope import Event
from fleetlore.goal.journal import LogSink
from fleetlore.kernel import journal, lease
from fleetlore.log.coordination import Coordination, open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.programs.harness import TurnProgress, TurnRequest, TurnResult, Watch
from tests.goal.scripted import GOAL, Clock, done, goal, kinds, make_driver
from tests.goal.test_kills import Dead, DyingLog, World, outcome
from tests.patience import PATIENCE
from tests.servers import Nats, Valkey, arrived


@pytest.fixture(params=["sqlite", "redis", "nats"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'fleet.db'}"
    server: Valkey | Nats = request.getfixturevalue({"redis": "valkey", "nats": "nats_server"}[request.param])
    server.wipe()
    return server.url


@pytest.fixture
def handles(url: str) -> Iterator[tuple[BlockingRecorder, Coordination]]:
    with ExitStack() as stack:
        yield stack.enter_context(connect(url).blocking()), stack.enter_context(open_shared(url))


async def test_a_goal_goes_its_course_and_is_steered(handles: tuple[BlockingRecorder, Coordination]) -> None:
    log, shared = handles

    async def first(order: TurnRequest, watch: Watch) -> TurnResult:
        await watch(TurnProgress(events=[Event(kind="tool.called", agent="ada", data={"tool": str(number)}) for number in range(150)]))
        log.append([Event(kind="control.requested", actor="eve", goal=GOAL, data={"action": "say", "value": "Mind the tests."})])
        return done()

    setup = make_driver(log, [first, done()], met=[False, True], shared=shared)
    await setup.driver.start(goal())
    state = await setup.driver.run_goal()
    assert (state.outcome, state.spent.turns, state.spent.tokens) == ("done", 2, 200)
    assert "Mind the tests." in setup.harness.orders[1].prompt
    recorded = [event.data["tool"] for event in log.read(f"goal:{GOAL}", kinds=["tool.called"])]
    assert recorded == [str(number) for number in range(150)]


@pytest.mark.parametrize("after", [False, True])
async def test_killed_and_taken_up_again_it_comes_to_the_same_end(handles: tuple[BlockingRecorder, Coordination], after: bool) -> None:
    log, _ = handles
    world = World()
    for at in (9, 5):
        with pytest.raises(Dead):
            await outcome(DyingLog(log, at, after=after), world, begins=at == 9)
    assert await outcome(log, world, begins=False) == "done"
    assert kinds(log).count("driver.goal_completed") == 1
    started = [event.id for event in log.read(f"goal:{GOAL}", kinds=["driver.attempt_started"])]
    marks = [mark for _, mark in world.actions]
    assert len(set(marks)) == len(marks)
    assert set(marks) <= set(started)


@pytest.mark.parametrize("has_written", [False, True])
async def test_one_that_was_followed_by_another_process_writes_nothing_more(
    handles: tuple[BlockingRecorder, Coordination], monkeypatch: pytest.MonkeyPatch, has_written: bool
) -> None:
    """Also if it has written since it last read: what it reads before the next writing says that the goal is another's."""
    log, shared = handles
    monkeypatch.setattr(lease, "RENEW_SECONDS", 60)
    is_at_work, is_followed = asyncio.Event(), asyncio.Event()

    async def late(order: TurnRequest, watch: Watch) -> TurnResult:
        if has_written:
            await frozen.driver.journal.flush()
        is_at_work.set()
        await is_followed.wait()
        return done("too late")

    frozen = make_driver(log, [late], shared=shared)
    frozen.driver.journal.poll = asyncio.Event().wait  # type: ignore[assignment,method-assign]
    await frozen.driver.start(goal())
    pursuit = asyncio.create_task(frozen.driver.run_goal())
    await asyncio.wait_for(is_at_work.wait(), PATIENCE)
    held = shared.find_lease(f"goal:{GOAL}")
    assert held is not None
    shared.release(held)
    next_one = make_driver(log, [done("in time")], shared=shared)
    assert (await next_one.driver.run_goal()).outcome == "done"
    head = log.head(f"goal:{GOAL}")
    is_followed.set()
    with pytest.raises(LeaseLost):
        await asyncio.wait_for(pursuit, PATIENCE)
    assert log.head(f"goal:{GOAL}") == head


@pytest.mark.parametrize("name", ["valkey", "nats_server"])
async def test_a_server_that_is_started_again_in_the_midst_of_a_turn(monkeypatch: pytest.MonkeyPatch, name: str, tmp_path: Path) -> None:
    monkeypatch.setattr(journal, "RETRY_SECONDS", 0.05)
    with Valkey(tmp_path / "data") if name == "valkey" else Nats(tmp_path / "data", sync="always") as server:

        async def work(order: TurnRequest, watch: Watch) -> TurnResult:
            await watch(TurnProgress(events=[Event(kind="tool.called", agent="ada", data={"tool": "before"})]))
            await setup.driver.journal.flush()
            await asyncio.to_thread(server.kill)
            restart = asyncio.create_task(asyncio.to_thread(server.start))
            await watch(TurnProgress(events=[Event(kind="tool.called", agent="ada", data={"tool": "after"})]))
            await restart
            return done()

        with connect(server.url).blocking() as log, open_shared(server.url) as shared:
            setup = make_driver(log, [work], shared=shared)
            await setup.driver.start(goal())
            state = await asyncio.wait_for(setup.driver.run_goal(), PATIENCE)
            assert (state.outcome, state.spent.turns) == ("done", 1)
            assert [event.data["tool"] for event in log.read(kinds=["tool.called"])] == ["before", "after"]


async def test_a_sink_on_nats_publishes_on_the_subjects_of_nexo(nats_server: Nats) -> None:
    await asyncio.to_thread(nats_server.wipe)
    client: Any = await nats.connect(nats_server.url)
    received: list[str] = []

    async def receive(message: Any) -> None:
        received.append(message.subject)

    await client.subscribe("agent.driver.>", cb=receive)
    await arrived(client)
    with connect("memory:").blocking() as log:
        async with connect(nats_server.url) as other:
            setup = make_driver(log, [done()], sinks=[LogSink(other)], clock=Clock())
            await setup.driver.start(goal())
            await setup.driver.run_goal()
            assert setup.driver.journal.forwarder.last_failure is None
            wanted = [kind for kind in kinds(log) if kind.startswith("driver.")]
            assert [event.kind async for event in other.read(f"goal:{GOAL}")] == wanted
    async with asyncio.timeout(PATIENCE):
        while len(received) < len(wanted):  # noqa: ASYNC110 - the client tells nobody
            await asyncio.sleep(0.01)
    await client.close()
    assert received[0].startswith("agent.driver.goal")
