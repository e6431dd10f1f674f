"""Named agents are taken over with their roles, invented ones do not remain, and a failed dependency is asked about."""

from __future__ import annotations

import pytest

from fleetlore.errors import Invalid
from fleetlore.town.commands import cancel_task, retry_task, spawn_agent
from fleetlore.town.jobs import Approved, JobFailed, JobInbox, JobOutcome, QuestionJob, TaskJob
from fleetlore.town.plans.model import MissionPlan, PlannedItem
from fleetlore.views.town_state import TEMPORARY
from tests.town.townspeople import BlockedHandler, LiveTown, ScriptedHandler


async def approve(job: TaskJob | QuestionJob, inbox: JobInbox) -> JobOutcome:
    return Approved("fine")


async def test_named_agents_of_a_dead_worker_are_taken_over_reviewers_as_reviewers(live_town: LiveTown) -> None:
    gate = BlockedHandler()
    live_town.dispatcher(max_silence_seconds=0.1)
    for name, roles in (("ada", ()), ("bob", ()), ("cleo", ("reviewer",))):
        await live_town.append_commands(spawn_agent(live_town.state, name, by="jo", roles=roles))
    first = live_town.worker(ScriptedHandler(m_one=[gate]), concurrency=3, lease_seconds=0.5)
    for name in ("ada", "bob", "cleo"):
        await live_town.wait_for_agent(name)
    await live_town.start_mission(MissionPlan(id="m", title="M", items=(PlannedItem(id="one", title="One", type="implement"),)))
    await live_town.wait_for(gate.begun)
    await first.kill()
    handler = ScriptedHandler(m_one_review_1=[approve])
    live_town.worker(handler, concurrency=3)
    await live_town.wait_for_mission("m")
    for name in ("ada", "bob", "cleo"):
        await live_town.wait_for_agent(name)
    [review] = [job for job in handler.jobs if isinstance(job, TaskJob) and job.purpose == "review"]
    assert review.agent == "cleo"
    assert {job.agent for job in handler.jobs} <= {"ada", "bob", "cleo"}
    assert not [agent.name for agent in live_town.state.agents.values() if agent.type == TEMPORARY and agent.state != "stopped"]


async def test_an_invented_agent_gives_its_place_to_a_named_one_and_ends_with_its_worker(live_town: LiveTown) -> None:
    live_town.dispatcher()
    worker = live_town.worker(concurrency=1)
    await live_town.wait_until(lambda town: any(agent.state == "idle" for agent in town.agents.values()))
    [invented] = live_town.state.agents
    await live_town.append_commands(spawn_agent(live_town.state, "ada", by="jo"))
    await live_town.wait_for_agent("ada")
    await live_town.wait_for_agent(invented, "stopped")
    await worker.stop()
    assert {name: agent.state for name, agent in live_town.state.agents.items()} == {invented: "stopped", "ada": "cold"}


@pytest.mark.parametrize("death", ["stop", "kill"])
async def test_no_nameless_agents_remain_after_their_worker(live_town: LiveTown, death: str) -> None:
    live_town.dispatcher(max_silence_seconds=0.1)
    worker = live_town.worker(concurrency=2, lease_seconds=0.5)
    await live_town.wait_until(lambda town: sum(agent.state == "idle" for agent in town.agents.values()) == 2)
    await (worker.stop() if death == "stop" else worker.kill())
    await live_town.wait_until(lambda town: {agent.state for agent in town.agents.values()} == {"stopped"})


async def test_a_task_that_depends_on_a_failed_one_says_so_and_asks_once(live_town: LiveTown) -> None:
    live_town.dispatcher()
    live_town.worker(ScriptedHandler(t1=[JobFailed("the disk is full", is_final=True)]), "ada")
    await live_town.add_tasks("t1")
    await live_town.add_tasks("t2", depends_on=["t1"])
    await live_town.wait_for_task("t1", "failed")
    question = await live_town.wait_for_event("work.message_sent", task="t2")
    assert question.child == "conductor"
    assert question.data["type"] == "query"
    assert "t2 cannot start: it depends on t1, which failed: the disk is full" in question.data["body"]
    await live_town.add_tasks("t3")
    await live_town.wait_for_task("t3")
    assert len([event for event in live_town.events_of_kinds("work.message_sent") if event.task == "t2"]) == 1
    await live_town.append_commands(retry_task(live_town.state, "t1", by="jo"))
    await live_town.wait_for_task("t2")


async def test_a_cancelled_dependency_is_asked_about_too(live_town: LiveTown) -> None:
    live_town.dispatcher()
    await live_town.add_tasks("t1")
    await live_town.add_tasks("t2", depends_on=["t1"])
    await live_town.append_commands(cancel_task(live_town.state, "t1", by="jo"))
    question = await live_town.wait_for_event("work.message_sent", task="t2")
    assert "which was cancelled" in question.data["body"]


# --- spawn modes


@pytest.mark.parametrize(
    ("mode", "fields", "expected"),
    [
        ("fresh", {}, (None, None)),
        ("forkedcontext", {"parent": "ada"}, ("ada", None)),
        ("resumed", {"session": "s-1"}, (None, "s-1")),
    ],
)
async def test_the_first_job_of_an_agent_starts_as_it_was_spawned(
    live_town: LiveTown, mode: str, fields: dict[str, str], expected: tuple[str | None, str | None]
) -> None:
    live_town.dispatcher()
    await live_town.append_commands(spawn_agent(live_town.state, "ada", by="jo"))
    await live_town.append_commands(spawn_agent(live_town.state, "bob", by="jo", mode=mode, **fields))
    handler = ScriptedHandler()
    live_town.worker(handler, "bob")
    await live_town.add_tasks("t1", "t2", agent="bob")
    await live_town.wait_for_task("t2")
    first, second = handler.of("t1")[0], handler.of("t2")[0]
    assert (first.context_of, first.session) == expected
    assert (second.context_of, second.session) == (None, None)


async def test_a_mode_needs_what_it_starts_from(live_town: LiveTown) -> None:
    with pytest.raises(Invalid, match="needs a parent"):
        spawn_agent(live_town.state, "bob", by="jo", mode="forkedcontext")
    for fields in ({"mode": "resumed"}, {"session": "s-1"}):
        with pytest.raises(Invalid, match="belong together"):
            spawn_agent(live_town.state, "bob", by="jo", **fields)
