"""Tasks are given out, claimed, done, failed, tried again and put aside, on every backend."""

from __future__ import annotations

import pytest

from fleetlore.town.commands import retry_task, spawn_agent
from fleetlore.town.jobs import AgentUnavailable, Done, Failed, JobInbox, JobOutcome, QuestionJob, TaskJob
from tests.town.townspeople import Gate, Hall, Script


async def test_a_task_goes_to_whoever_has_nothing_to_do(hall: Hall) -> None:
    script = Script()
    hall.dispatcher()
    hall.worker(script, "ada")
    await hall.add("t1", description="all of it", checks=["unit"])
    task = await hall.task("t1")
    assert (task.agent, task.result, task.epoch, task.attempt) == ("ada", "did t1", 1, 1)
    [job] = script.of("t1")
    assert (job.title, job.description, job.checks, job.epoch, job.attempt) == ("The task t1", "all of it", ("unit",), 1, 1)
    await hall.agent("ada")
    about = [event.kind for event in hall.events if event.task == "t1"]
    assert about == ["work.task_created", "town.task_assigned", "work.started", "work.lease_taken", "town.task_completed"]
    assert (await hall.until(lambda town: town.agents["ada"].completed)).agents["ada"].completed == 1


async def test_many_tasks_are_done_by_many_agents_each_once(hall: Hall) -> None:
    script = Script()
    hall.dispatcher()
    hall.worker(script, concurrency=12)
    ids = [f"t{n}" for n in range(40)]
    await hall.add(*ids)
    await hall.until(lambda town: town.done == len(ids))
    assert sorted(job.task for job in script.jobs if isinstance(job, TaskJob)) == sorted(ids)
    assert hall.state.refused == 0


async def test_a_failed_task_is_tried_again_with_the_trouble_told(hall: Hall) -> None:
    script = Script(t1=[Failed("the build broke"), Done("now it builds")])
    hall.dispatcher()
    hall.worker(script, "ada")
    await hall.add("t1")
    assert (await hall.task("t1")).result == "now it builds"
    assert [(job.attempt, job.last_error) for job in script.of("t1")] == [(1, ""), (2, "the build broke")]


async def test_a_poison_task_is_put_aside_and_can_be_taken_up_again(hall: Hall) -> None:
    script = Script(t1=[Failed("no")] * 2)
    hall.dispatcher()
    hall.worker(script, "ada")
    await hall.add("t1", "t2", tries=2)
    assert (await hall.task("t1", "failed")).is_dead_letter
    await hall.task("t2")
    await hall.wish(retry_task(hall.state, "t1", by="jo"))
    assert (await hall.task("t1")).result == "did t1"
    assert [job.attempt for job in script.of("t1")] == [1, 2, 3]


async def test_a_task_may_be_tried_more_often_than_usual_by_one_agent(small_hall: Hall) -> None:
    """The agent's own scope does not tell how often; the task's does."""
    script = Script(t1=[Failed("no")] * 5)
    small_hall.dispatcher()
    small_hall.worker(script, "ada")
    await small_hall.add("t1", tries=6)
    assert (await small_hall.task("t1")).attempt == 6


async def test_there_is_no_use_in_trying_again_what_failed_for_good(small_hall: Hall) -> None:
    small_hall.dispatcher()
    small_hall.worker(Script(t1=[Failed("there is no such file", is_final=True)]), "ada")
    await small_hall.add("t1")
    assert (await small_hall.task("t1", "failed")).attempt == 1


async def test_work_that_raises_has_failed_and_its_agent_lives_on(small_hall: Hall) -> None:
    async def breaks(job: TaskJob | QuestionJob, hearing: JobInbox) -> JobOutcome:
        raise ZeroDivisionError("oh")

    small_hall.dispatcher()
    small_hall.worker(Script(t1=[breaks]), "ada")
    await small_hall.add("t1", "t2", tries=1)
    assert (await small_hall.task("t1", "failed")).error == "ZeroDivisionError: oh"
    await small_hall.task("t2")


async def test_a_task_of_an_agent_that_cannot_work_goes_to_another(hall: Hall) -> None:
    hall.dispatcher()
    hall.worker(Script(t1=[AgentUnavailable("no such program")]), "ada")
    await hall.agent("ada")
    await hall.add("t1")
    failed = await hall.told("town.agent_failed", agent="ada")
    assert (failed.new_state, failed.data["error"]) == ("error", "no such program")
    hall.worker(Script(), "bob")
    task = await hall.task("t1")
    assert (task.agent, task.epoch) == ("bob", 2)


async def test_the_most_urgent_comes_first_and_dependencies_are_waited_for(small_hall: Hall) -> None:
    gate = Gate()
    script = Script(t0=[gate])
    small_hall.dispatcher()
    small_hall.worker(script, "ada")
    await small_hall.add("t0")
    await gate.begun.wait()
    await small_hall.add("low", priority="low")
    await small_hall.add("after", depends_on=["low"], priority="urgent")
    await small_hall.add("high", priority="high")
    await small_hall.add("urgent", priority="urgent")
    gate.opened.set()
    await small_hall.task("after")
    assert [job.task for job in script.jobs if isinstance(job, TaskJob)] == ["t0", "urgent", "high", "low", "after"]


async def test_tasks_go_to_those_with_the_role_or_the_name(hall: Hall) -> None:
    hall.dispatcher()
    hall.worker(Script(), "ada", roles=["tester"])
    hall.worker(Script(), "bob")
    await hall.agent("ada")
    await hall.agent("bob")
    await hall.add("a", roles=["tester"])
    await hall.add("b", agent="bob")
    await hall.add("c", roles=["reviewer"])
    assert [(await hall.task(id)).agent for id in ("a", "b", "c")] == ["ada", "bob", "bob"]


@pytest.mark.parametrize("many", [False, True])
async def test_agents_that_joined_before_are_taken_on_by_whoever_has_room(small_hall: Hall, many: bool) -> None:
    await small_hall.wish(*(spawn_agent(small_hall.state, f"a{n}", by="jo", roles=["x"]) for n in range(3)))
    small_hall.dispatcher()
    small_hall.worker(Script(), roles=["x"], concurrency=10 if many else 3)
    for n in range(3):
        await small_hall.agent(f"a{n}")
