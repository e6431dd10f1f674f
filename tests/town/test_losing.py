"""Workers and dispatchers stop, die, sleep and lose their leases: whoever comes next goes on, and nothing is lost or done twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from fleetlore.errors import LogError
from fleetlore.kernel.lease import make_holder_name
from fleetlore.log.coordination import open_shared
from fleetlore.town import liveness, reports
from fleetlore.views import town
from tests.servers import Nats, Server, Valkey
from tests.town.townspeople import Gate, Hall, Script, hall_on


async def test_a_worker_that_is_stopped_lets_everything_go(hall: Hall) -> None:
    gate = Gate()
    hall.dispatcher()
    worker = hall.worker(Script(t1=[gate]), "ada")
    await hall.add("t1")
    await gate.begun.wait()
    await hall.task("t1", "running")
    await worker.stop()
    await hall.task("t1", "pending")
    assert (hall.state.agents["ada"].state, hall.state.holdings, gate.broken_off) == ("cold", {}, 1)
    hall.worker(Script())
    task = await hall.task("t1")
    assert (task.agent, task.epoch, task.attempt) == ("ada", 2, 2)


async def test_a_worker_that_lost_its_lease_breaks_everything_off_and_begins_anew(hall: Hall) -> None:
    """Somebody else took it over: what this one still tells of its task is refused."""
    gate = Gate()
    hall.dispatcher()
    hall.worker(Script(t1=[gate]), "ada", lease_seconds=0.8)
    await hall.add("t1")
    await gate.begun.wait()
    await hall.task("t1", "running")
    holder = hall.state.agents["ada"].lease.rpartition("@")[0]
    taken = await asyncio.to_thread(hall.shared.take, liveness.lease_name(holder), holder, 0.8)
    assert taken is not None
    task = await hall.task("t1")
    assert (task.epoch > 1, gate.broken_off, hall.kinds("work.lease_lost")[0].task) == (True, 1, "t1")


async def test_the_work_of_a_worker_that_died_is_done_by_another(hall: Hall) -> None:
    gate = Gate()
    hall.dispatcher(max_silence_seconds=0.1)
    worker = hall.worker(Script(t1=[gate]), "ada", lease_seconds=0.5)
    await hall.add("t1")
    await gate.begun.wait()
    await hall.task("t1", "running")
    await worker.die()
    hall.worker(Script(), "bob")
    task = await hall.task("t1")
    assert (task.agent, task.epoch) == ("bob", 2)
    lost, gone = await hall.told("work.lease_lost", task="t1"), await hall.told("town.agent_failed", agent="ada")
    assert (lost.actor, gone.new_state, (lost.position or "") < (gone.position or "")) == ("dispatcher", "cold", True)
    assert "its lease has ended; nothing was heard of it" in gone.data["error"]


async def test_nobody_is_declared_dead_by_one_sign_alone(small_hall: Hall) -> None:
    """The lease has ended, and the process lives on this machine and has just been heard."""
    hall = small_hall
    worker = hall.worker(Script(), "ada", lease_seconds=0.3)
    agent = await hall.agent("ada")
    assert agent.seen_at is not None
    await worker.die()  # gives its lease back
    [signs] = liveness.check_workers(hall.shared, hall.state, agent.seen_at)
    assert (signs.heartbeat, signs.second_sign, signs.is_dead) == ("its lease has ended", "", False)


async def test_a_lease_whose_holder_is_gone_and_beats_no_more_is_dead_before_it_ends(small_hall: Hall) -> None:
    hall = small_hall
    place = make_holder_name().rpartition(":")[0]
    lease = hall.shared.take(liveness.lease_name(f"{place}:999999999/1"), f"{place}:999999999/1", 30.0)
    assert lease is not None
    late = lease.until
    signs = liveness.check_worker(hall.shared, liveness.format_worker_lease(lease), None, late)
    assert (signs.heartbeat, signs.second_sign) == ("its heartbeat has stopped", "its process is gone")


async def test_of_two_workers_one_runs_an_agent(hall: Hall) -> None:
    hall.dispatcher()
    scripts = Script(), Script()
    for script in scripts:
        hall.worker(script, "ada")
    await hall.add("t1", "t2", "t3")
    await hall.until(lambda town: town.done == 3)
    assert len(scripts[0].jobs) + len(scripts[1].jobs) == 3
    assert len(hall.state.holdings) == 1


async def test_of_two_dispatchers_one_leads_and_the_other_follows_when_it_is_dead(hall: Hall) -> None:
    first, leading = hall.dispatcher(lease_seconds=0.4)
    hall.worker(Script(), "ada")
    await hall.add("t1")
    await hall.task("t1")
    second, _ = hall.dispatcher(lease_seconds=0.4)
    assert (first.is_leading, second.is_leading) == (True, False)
    await leading.die()
    await hall.add("t2")
    await hall.task("t2")
    assert (first.is_leading, second.is_leading, second.assigned_count) == (False, True, 1)
    await hall.until(lambda state: msgspec.json.encode(second.town) == msgspec.json.encode(state))


async def test_what_two_dispatchers_give_out_at_once_is_given_once(small_hall: Hall) -> None:
    """One that was frozen does not know that its time is over."""
    hall = small_hall
    await hall.add(*(f"t{n}" for n in range(10)))
    hall.dispatcher()
    with open_shared("memory:") as elsewhere:
        hall.shared, real = elsewhere, hall.shared
        hall.dispatcher()
        hall.shared = real
        hall.worker(Script(), concurrency=4)
        await hall.until(lambda town: town.done == 10)
    given = [(event.task, event.data["epoch"]) for event in hall.kinds("town.task_assigned")]
    assert sorted(given) == [(f"t{n}", 1) for n in range(10)]
    assert hall.state.refused == 0


@pytest.mark.parametrize("make", [Valkey, Nats])
async def test_an_outage_of_the_log_is_waited_out(tmp_path: Path, make: type[Valkey | Nats]) -> None:
    server: Server = Valkey(tmp_path / "data") if make is Valkey else Nats(tmp_path / "data", sync="always")
    with server:
        async with hall_on(server.url) as hall:
            gate = Gate()
            hall.dispatcher(lease_seconds=20.0)
            hall.worker(Script(t1=[gate]), "ada", lease_seconds=20.0)
            await hall.add("t1", "t2")
            await gate.begun.wait()
            await hall.task("t1", "running")
            await asyncio.to_thread(server.kill)
            gate.opened.set()
            await asyncio.to_thread(server.start)
            await hall.until(lambda town: town.done == 2)
            assert [(task.epoch, task.attempt) for task in hall.state.tasks.values()] == [(1, 1), (1, 1)]
            await hall.agent("ada")


async def test_a_life_that_ended_by_a_fault_is_begun_anew(small_hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its agent is let go of, and its task given to whoever takes it on."""
    hall, gate = small_hall, Gate()
    hall.dispatcher()
    hall.worker(Script(t1=[gate]), "ada")
    await hall.add("t1")
    await gate.begun.wait()
    await hall.task("t1", "running")

    def break_once(*_: object) -> list[object]:
        monkeypatch.undo()
        raise LogError("the disk is on fire")

    monkeypatch.setattr(reports, "report", break_once)
    gate.opened.set()
    task = await hall.task("t1")
    assert (task.epoch, task.agent, hall.kinds("town.agent_failed")[0].new_state) == (2, "ada", "cold")


async def test_the_town_is_the_same_from_scratch(hall: Hall) -> None:
    dispatcher, _ = hall.dispatcher()
    hall.worker(Script(), concurrency=3)
    await hall.add(*(f"t{n}" for n in range(9)))
    await hall.until(lambda town: town.done == 9 and len(town.idle.get("", ())) == 3)
    await hall.until(lambda state: msgspec.json.encode(dispatcher.town) == msgspec.json.encode(state))
    state = town.initial()
    async for event in hall.log.read():
        state = town.apply(state, event)
    assert msgspec.json.encode(state) == msgspec.json.encode(hall.state)
