"""Tasks are assigned, claimed, completed, failed, retried and given up, on every backend."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from fleetlore.events.envelope import Event
from fleetlore.town.commands import retry_task, spawn_agent
from fleetlore.town.jobs import AgentUnavailable, JobDone, JobFailed, JobInbox, JobOutcome, QuestionJob, TaskJob
from tests.town.townspeople import BlockedHandler, LiveTown, ScriptedHandler


async def test_a_task_goes_to_anybody_who_has_nothing_to_do(live_town: LiveTown) -> None:
    script = ScriptedHandler()
    live_town.dispatcher()
    live_town.worker(script, "ada")
    await live_town.add_tasks("t1", description="all of it", checks=["unit"])
    task = await live_town.wait_for_task("t1")
    assert (task.agent, task.result, task.epoch, task.attempt) == ("ada", "did t1", 1, 1)
    [job] = script.of("t1")
    assert (job.title, job.description, job.checks, job.epoch, job.attempt) == ("The task t1", "all of it", ("unit",), 1, 1)
    await live_town.wait_for_agent("ada")
    about = [event.kind for event in live_town.events if event.task == "t1"]
    assert about == ["work.task_created", "town.task_assigned", "work.started", "work.lease_taken", "town.task_completed"]
    assert (await live_town.wait_until(lambda town: town.agents["ada"].completed)).agents["ada"].completed == 1


async def test_many_tasks_are_done_by_many_agents_each_once(live_town: LiveTown) -> None:
    script = ScriptedHandler()
    live_town.dispatcher()
    live_town.worker(script, concurrency=12)
    ids = [f"t{n}" for n in range(40)]
    await live_town.add_tasks(*ids)
    await live_town.wait_until(lambda town: town.done == len(ids))
    assert sorted(job.task for job in script.jobs if isinstance(job, TaskJob)) == sorted(ids)
    assert live_town.state.refused == 0


async def test_agents_that_a_worker_adds_are_not_looked_up_one_by_one(sqlite_town: LiveTown, monkeypatch: pytest.MonkeyPatch) -> None:
    """On NATS each look at the events of an agent costs the server as much as there are agents."""
    scopes, read = list[str](), sqlite_town.log.read

    def read_noted(scope: str = "town", **options: Any) -> AsyncGenerator[Event, None]:
        scopes.append(scope)
        return read(scope, **options)

    monkeypatch.setattr(sqlite_town.log, "read", read_noted)
    sqlite_town.dispatcher()
    sqlite_town.worker(concurrency=12)
    await sqlite_town.wait_until(lambda town: len(town.idle.get("", ())) == 12)
    assert not [scope for scope in scopes if scope.startswith("agent:")]


async def test_a_failed_task_is_tried_again_with_the_trouble_reported(live_town: LiveTown) -> None:
    script = ScriptedHandler(t1=[JobFailed("the build broke"), JobDone("now it builds")])
    live_town.dispatcher()
    live_town.worker(script, "ada")
    await live_town.add_tasks("t1")
    assert (await live_town.wait_for_task("t1")).result == "now it builds"
    assert [(job.attempt, job.last_error) for job in script.of("t1")] == [(1, ""), (2, "the build broke")]


async def test_a_poison_task_is_put_aside_and_can_be_taken_up_again(live_town: LiveTown) -> None:
    script = ScriptedHandler(t1=[JobFailed("no")] * 2)
    live_town.dispatcher()
    live_town.worker(script, "ada")
    await live_town.add_tasks("t1", "t2", tries=2)
    assert (await live_town.wait_for_task("t1", "failed")).is_dead_letter
    await live_town.wait_for_task("t2")
    await live_town.append_commands(retry_task(live_town.state, "t1", by="jo"))
    assert (await live_town.wait_for_task("t1")).result == "did t1"
    assert [job.attempt for job in script.of("t1")] == [1, 2, 3]


async def test_a_task_may_be_tried_more_often_than_usual_by_one_agent(sqlite_town: LiveTown) -> None:
    """The agent's own scope does not tell how often; the task's does."""
    script = ScriptedHandler(t1=[JobFailed("no")] * 5)
    sqlite_town.dispatcher()
    sqlite_town.worker(script, "ada")
    await sqlite_town.add_tasks("t1", tries=6)
    assert (await sqlite_town.wait_for_task("t1")).attempt == 6


async def test_there_is_no_use_in_trying_again_what_failed_for_good(sqlite_town: LiveTown) -> None:
    sqlite_town.dispatcher()
    sqlite_town.worker(ScriptedHandler(t1=[JobFailed("there is no such file", is_final=True)]), "ada")
    await sqlite_town.add_tasks("t1")
    assert (await sqlite_town.wait_for_task("t1", "failed")).attempt == 1


async def test_work_that_raises_has_failed_and_its_agent_lives_on(sqlite_town: LiveTown) -> None:
    async def breaks(job: TaskJob | QuestionJob, receiving: JobInbox) -> JobOutcome:
        raise ZeroDivisionError("oh")

    sqlite_town.dispatcher()
    sqlite_town.worker(ScriptedHandler(t1=[breaks]), "ada")
    await sqlite_town.add_tasks("t1", "t2", tries=1)
    assert (await sqlite_town.wait_for_task("t1", "failed")).error == "ZeroDivisionError: oh"
    await sqlite_town.wait_for_task("t2")


async def test_a_task_of_an_agent_that_cannot_work_goes_to_another(live_town: LiveTown) -> None:
    live_town.dispatcher()
    live_town.worker(ScriptedHandler(t1=[AgentUnavailable("no such program")]), "ada")
    await live_town.wait_for_agent("ada")
    await live_town.add_tasks("t1")
    failed = await live_town.wait_for_event("town.agent_failed", agent="ada")
    assert (failed.new_state, failed.data["error"]) == ("error", "no such program")
    live_town.worker(ScriptedHandler(), "bob")
    task = await live_town.wait_for_task("t1")
    assert (task.agent, task.epoch) == ("bob", 2)


async def test_the_most_urgent_comes_first_and_dependencies_are_waited_for(sqlite_town: LiveTown) -> None:
    gate = BlockedHandler()
    script = ScriptedHandler(t0=[gate])
    sqlite_town.dispatcher()
    sqlite_town.worker(script, "ada")
    await sqlite_town.add_tasks("t0")
    await sqlite_town.wait_for(gate.begun)
    await sqlite_town.add_tasks("low", priority="low")
    await sqlite_town.add_tasks("after", depends_on=["low"], priority="urgent")
    await sqlite_town.add_tasks("high", priority="high")
    await sqlite_town.add_tasks("urgent", priority="urgent")
    gate.opened.set()
    await sqlite_town.wait_for_task("after")
    assert [job.task for job in script.jobs if isinstance(job, TaskJob)] == ["t0", "urgent", "high", "low", "after"]


async def test_tasks_go_to_those_with_the_role_or_the_name(live_town: LiveTown) -> None:
    live_town.dispatcher()
    live_town.worker(ScriptedHandler(), "ada", roles=["tester"])
    live_town.worker(ScriptedHandler(), "bob")
    await live_town.wait_for_agent("ada")
    await live_town.wait_for_agent("bob")
    await live_town.add_tasks("a", roles=["tester"])
    await live_town.add_tasks("b", agent="bob")
    await live_town.add_tasks("c", roles=["reviewer"])
    assert [(await live_town.wait_for_task(id)).agent for id in ("a", "b", "c")] == ["ada", "bob", "bob"]


@pytest.mark.parametrize("many", [False, True])
async def test_agents_that_joined_before_are_taken_on_by_anybody_who_has_room(sqlite_town: LiveTown, many: bool) -> None:
    await sqlite_town.append_commands(*(spawn_agent(sqlite_town.state, f"a{n}", by="jo", roles=["x"]) for n in range(3)))
    sqlite_town.dispatcher()
    sqlite_town.worker(ScriptedHandler(), roles=["x"], concurrency=10 if many else 3)
    for n in range(3):
        await sqlite_town.wait_for_agent(f"a{n}")
