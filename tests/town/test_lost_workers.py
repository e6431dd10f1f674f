"""Workers and dispatchers stop, die, freeze and lose their leases: others take over, and nothing is lost or done twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from fleetlore.errors import LogError
from fleetlore.kernel.lease import make_holder_name
from fleetlore.log.coordination import open_shared
from fleetlore.town import agent_loop, liveness
from fleetlore.views import town
from tests.servers import Nats, Server, Valkey
from tests.town.townspeople import BlockedHandler, LiveTown, ScriptedHandler, open_live_town


async def test_a_worker_that_is_stopped_lets_everything_go(live_town: LiveTown) -> None:
    gate = BlockedHandler()
    live_town.dispatcher()
    worker = live_town.worker(ScriptedHandler(t1=[gate]), "ada")
    await live_town.add_tasks("t1")
    await live_town.wait_for(gate.begun)
    await live_town.wait_for_task("t1", "running")
    await worker.stop()
    await live_town.wait_for_task("t1", "pending")
    assert (live_town.state.agents["ada"].state, live_town.state.holdings, gate.broken_off) == ("cold", {}, 1)
    live_town.worker(ScriptedHandler())
    task = await live_town.wait_for_task("t1")
    assert (task.agent, task.epoch, task.attempt) == ("ada", 2, 2)


async def test_a_worker_that_lost_its_lease_breaks_everything_off_and_begins_anew(live_town: LiveTown) -> None:
    """Somebody else took it over: what this one still tells of its task is refused."""
    gate = BlockedHandler()
    live_town.dispatcher()
    live_town.worker(ScriptedHandler(t1=[gate]), "ada", lease_seconds=0.8)
    await live_town.add_tasks("t1")
    await live_town.wait_for(gate.begun)
    await live_town.wait_for_task("t1", "running")
    holder = live_town.state.agents["ada"].lease.rpartition("@")[0]
    taken = await asyncio.to_thread(live_town.coordination.acquire, liveness.lease_name(holder), holder, 0.8)
    assert taken is not None
    task = await live_town.wait_for_task("t1")
    assert (task.epoch > 1, gate.broken_off, live_town.events_of_kinds("work.lease_lost")[0].task) == (True, 1, "t1")


async def test_the_work_of_a_worker_that_died_is_done_by_another(live_town: LiveTown) -> None:
    gate = BlockedHandler()
    live_town.dispatcher(max_silence_seconds=0.1)
    worker = live_town.worker(ScriptedHandler(t1=[gate] * 9), "ada", lease_seconds=0.5)
    await live_town.add_tasks("t1")
    await live_town.wait_for(gate.begun)
    await live_town.wait_for_task("t1", "running")
    await worker.kill()
    live_town.worker(ScriptedHandler(), "bob")
    task = await live_town.wait_for_task("t1")
    # On a busy machine a lease may also end while its worker lives, so count the assignments.
    assigned = [event.agent for event in live_town.events_of_kinds("town.task_assigned")]
    assert (task.agent, task.epoch, assigned[0]) == ("bob", len(assigned), "ada")
    assert task.epoch > 1
    lost, gone = (
        await live_town.wait_for_event("work.lease_lost", task="t1"),
        await live_town.wait_for_event("town.agent_failed", agent="ada"),
    )
    assert (lost.actor, gone.new_state, (lost.position or "") < (gone.position or "")) == ("dispatcher", "cold", True)
    assert "its lease has expired; it wrote no events" in gone.data["error"]


async def test_nobody_is_declared_dead_by_one_sign_alone(sqlite_town: LiveTown) -> None:
    """The lease has expired; the process is alive on this machine and wrote a moment ago."""
    live_town = sqlite_town
    worker = live_town.worker(ScriptedHandler(), "ada", lease_seconds=0.3)
    agent = await live_town.wait_for_agent("ada")
    assert agent.seen_at is not None
    await worker.kill()  # gives its lease back
    [signs] = liveness.check_workers(live_town.coordination, live_town.state, agent.seen_at)
    assert (signs.first_sign, signs.second_sign, signs.is_dead) == ("its lease has expired", "", False)


async def test_a_lease_whose_holder_is_gone_and_beats_no_more_is_dead_before_it_ends(sqlite_town: LiveTown) -> None:
    live_town = sqlite_town
    place = make_holder_name().rpartition(":")[0]
    lease = live_town.coordination.acquire(liveness.lease_name(f"{place}:999999999/1"), f"{place}:999999999/1", 30.0)
    assert lease is not None
    late = lease.until
    signs = liveness.check_worker(live_town.coordination, liveness.format_worker_lease(lease), None, late)
    assert (signs.first_sign, signs.second_sign) == ("its heartbeat has stopped", "its process is gone")


async def test_of_two_workers_one_runs_an_agent(live_town: LiveTown) -> None:
    live_town.dispatcher()
    scripts = ScriptedHandler(), ScriptedHandler()
    for script in scripts:
        live_town.worker(script, "ada")
    await live_town.add_tasks("t1", "t2", "t3")
    await live_town.wait_until(lambda town: town.done == 3)
    assert len(scripts[0].jobs) + len(scripts[1].jobs) == 3
    assert len(live_town.state.holdings) == 1


async def test_of_two_dispatchers_one_leads_and_the_other_follows_when_it_is_dead(live_town: LiveTown) -> None:
    first, leading = live_town.dispatcher(lease_seconds=3.0)
    live_town.worker(ScriptedHandler(), "ada")
    await live_town.add_tasks("t1")
    await live_town.wait_for_task("t1")
    second, _ = live_town.dispatcher(lease_seconds=3.0)
    await live_town.wait_until(lambda _: (first.is_leading, second.is_leading) == (True, False))
    await leading.kill()
    await live_town.add_tasks("t2")
    await live_town.wait_for_task("t2")
    assert (first.is_leading, second.is_leading, second.assigned_count) == (False, True, 1)
    await live_town.wait_until(lambda state: msgspec.json.encode(second.town) == msgspec.json.encode(state))


async def test_what_two_dispatchers_give_out_at_once_is_given_once(sqlite_town: LiveTown) -> None:
    """One that was frozen does not know that its time is over."""
    live_town = sqlite_town
    await live_town.add_tasks(*(f"t{n}" for n in range(10)))
    live_town.dispatcher()
    with open_shared("memory:") as elsewhere:
        live_town.coordination, real = elsewhere, live_town.coordination
        live_town.dispatcher()
        live_town.coordination = real
        live_town.worker(ScriptedHandler(), concurrency=4)
        await live_town.wait_until(lambda town: town.done == 10)
    given = [(event.task, event.data["epoch"]) for event in live_town.events_of_kinds("town.task_assigned")]
    assert sorted(given) == [(f"t{n}", 1) for n in range(10)]
    assert live_town.state.refused == 0


@pytest.mark.parametrize("make", [Valkey, Nats])
async def test_an_outage_of_the_log_is_waited_out(tmp_path: Path, make: type[Valkey | Nats]) -> None:
    server: Server = Valkey(tmp_path / "data") if make is Valkey else Nats(tmp_path / "data", sync="always")
    with server:
        async with open_live_town(server.url) as live_town:
            gate = BlockedHandler()
            live_town.dispatcher(lease_seconds=20.0)
            live_town.worker(ScriptedHandler(t1=[gate]), "ada", lease_seconds=20.0)
            await live_town.add_tasks("t1", "t2")
            await live_town.wait_for(gate.begun)
            await live_town.wait_for_task("t1", "running")
            await asyncio.to_thread(server.kill)
            gate.opened.set()
            await asyncio.to_thread(server.start)
            await live_town.wait_until(lambda town: town.done == 2)
            assert [(task.epoch, task.attempt) for task in live_town.state.tasks.values()] == [(1, 1), (1, 1)]
            await live_town.wait_for_agent("ada")


@pytest.mark.parametrize("names", [["ada"], []], ids=["named", "temporary"])
async def test_a_life_that_ended_by_a_fault_is_begun_anew(sqlite_town: LiveTown, monkeypatch: pytest.MonkeyPatch, names: list[str]) -> None:
    """Its agent is released, and its task is assigned again; a temporary agent is replaced by another."""
    live_town, gate = sqlite_town, BlockedHandler()
    live_town.dispatcher()
    live_town.worker(ScriptedHandler(t1=[gate]), *names)
    await live_town.add_tasks("t1")
    await live_town.wait_for(gate.begun)
    first = (await live_town.wait_for_task("t1", "running")).agent

    def break_once(*_: object) -> list[object]:
        monkeypatch.undo()
        raise LogError("the disk is on fire")

    monkeypatch.setattr(agent_loop, "report_outcome", break_once)
    gate.opened.set()
    task = await live_town.wait_for_task("t1")
    failed = live_town.events_of_kinds("town.agent_failed")[0]
    assert (task.epoch, failed.agent, failed.new_state) == (2, first, "cold")
    assert (task.agent == first) == bool(names)


async def test_the_town_is_the_same_from_scratch(live_town: LiveTown) -> None:
    dispatcher, _ = live_town.dispatcher()
    live_town.worker(ScriptedHandler(), concurrency=3)
    await live_town.add_tasks(*(f"t{n}" for n in range(9)))
    await live_town.wait_until(lambda town: town.done == 9 and len(town.idle.get("", ())) == 3)
    await live_town.wait_until(lambda state: msgspec.json.encode(dispatcher.town) == msgspec.json.encode(state))
    state = town.initial()
    async for event in live_town.log.read():
        state = town.apply(state, event)
    assert msgspec.json.encode(state) == msgspec.json.encode(live_town.state)
