"""Harmless interference: names that are taken, scopes written to by others, wrong clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fleetlore import clock
from fleetlore.errors import Conflict
from fleetlore.events.envelope import Event
from fleetlore.kernel.journal import KnownState
from fleetlore.town import commands, events, liveness, mission_commands, planning
from fleetlore.town.jobs import Approved, JobFailed
from fleetlore.town.plans.model import MissionPlan, PlannedItem
from fleetlore.views.town_state import Task
from tests.town.townspeople import BlockedHandler, LiveTown, ScriptedHandler
from tests.views.town_facts import about_item, failed, idle, item, item_task, mission, recorded, started, worked_on

DESIGN = PlannedItem(id="i1", title="Think", type="design")


def plan(*items: PlannedItem, **more: Any) -> MissionPlan:
    return MissionPlan(id="m1", title="A mission", items=items or (DESIGN,), **more)


# --- names that are taken


async def test_an_item_begins_though_others_spoke_of_its_task_before_it_was_there(live_town: LiveTown) -> None:
    await live_town.journal.append([events.message_sent("jo", "ada", "about that", task="m1/i1")])
    live_town.dispatcher()
    live_town.worker(ScriptedHandler(), "ada")
    await live_town.start_mission(plan())
    await live_town.wait_for_mission("m1")
    assert [event.task for event in live_town.events_of_kinds("town.task_completed")] == ["m1/i1"]


async def test_two_missions_whose_items_would_be_called_the_same_are_both_done(sqlite_town: LiveTown) -> None:
    live_town = sqlite_town
    live_town.dispatcher()
    live_town.worker(ScriptedHandler(), "ada")
    await live_town.start_mission(MissionPlan(id="a", title="One", items=(PlannedItem(id="b/c", title="Think", type="design"),)))
    await live_town.wait_for_mission("a")
    await live_town.start_mission(MissionPlan(id="a/b", title="Two", items=(PlannedItem(id="c", title="Think", type="design"),)))
    await live_town.wait_for_mission("a/b")
    assert len({event.task for event in live_town.events_of_kinds("town.task_completed")}) == 2


async def test_a_task_that_cannot_be_written_down_is_said_once_and_nothing_spins(sqlite_town: LiveTown) -> None:
    """Somebody erased what the town knows of the task that holds the name."""
    live_town = sqlite_town
    said: list[str] = []
    dispatcher, _ = live_town.dispatcher(report_status=said.append)
    await live_town.wait_until(lambda _: dispatcher.is_leading)
    await live_town.add_tasks("m1/i1")
    await live_town.wait_until(lambda _: "m1/i1" in dispatcher.town.tasks)
    dispatcher.town.tasks.pop("m1/i1")
    await live_town.start_mission(plan())
    await live_town.wait_until(lambda _: len(said) > 1)
    await live_town.add_tasks("t2", "t3")
    await live_town.wait_for_event("work.task_created", task="t3")
    assert len([words for words in said if "cannot continue with m1/i1" in words]) == 1


async def test_a_task_whose_last_word_was_erased_is_given_out_all_the_same(live_town: LiveTown) -> None:
    await live_town.add_tasks("t1")
    [last] = await live_town.journal.append([events.message_sent("jo", "conductor", "a secret", task="t1")])
    await live_town.wait_for_position(last.position or "")
    dispatcher, _ = live_town.dispatcher()
    await live_town.wait_until(lambda _: dispatcher.is_leading)
    await live_town.log.erase([live_town.events[-1].id or ""], "not for the log")
    live_town.worker(ScriptedHandler(), "ada")
    assert (await live_town.wait_for_task("t1")).epoch == 1


async def test_what_is_known_of_a_task_beforehand_is_looked_at_again_before_nothing_is_done(sqlite_town: LiveTown) -> None:
    live_town = sqlite_town
    await live_town.add_tasks("t1")
    stale = Task(id="t1", state="completed")

    def decision(task: Task | None) -> list[Event]:
        return [events.task_cancelled(task, by="jo")] if task is not None and task.state == "pending" else []

    assert await live_town.journal.decide_task("t1", decision, known=KnownState(stale, "0"))


# --- two who decide at once


async def test_of_a_persons_verdict_and_a_reviewers_the_second_is_given_that_it_comes_too_late(sqlite_town: LiveTown) -> None:
    live_town, gate = sqlite_town, BlockedHandler(Approved("fine"))
    live_town.dispatcher()
    live_town.worker(ScriptedHandler(m1_i1_review_1=[gate]), "ada", "rev")
    await live_town.start_mission(plan(PlannedItem(id="i1", title="Write")))
    await sqlite_town.wait_for(gate.begun)
    await live_town.wait_for_task("m1/i1/review-1", "running")
    late = mission_commands.review_item(live_town.state, "m1", "i1", by="jo", is_approved=False, reason="no")
    gate.opened.set()
    await live_town.wait_for_task("m1/i1/review-1")
    with pytest.raises(Conflict):
        await live_town.append_commands(late)


async def test_a_request_to_redirect_is_looked_at_again_if_the_task_was_taken_meanwhile(sqlite_town: LiveTown) -> None:
    live_town = sqlite_town
    await live_town.add_tasks("t1")
    await live_town.append_commands(commands.spawn_agent(live_town.state, "bob", by="jo"))
    late = commands.assign_task(live_town.state, "t1", "bob", by="jo")
    live_town.dispatcher()
    live_town.worker(ScriptedHandler(), "ada")
    await live_town.wait_for_task("t1")
    with pytest.raises(Conflict):
        await live_town.append_commands(late)


async def test_a_review_that_was_called_off_can_be_a_persons(sqlite_town: LiveTown) -> None:
    live_town = sqlite_town
    live_town.dispatcher()
    live_town.worker(ScriptedHandler(m1_i1_review_1=[JobFailed("cannot see it", is_final=True)]), "ada", "rev")
    await live_town.start_mission(plan(PlannedItem(id="i1", title="Write")))
    await live_town.wait_until(lambda town: "m1" in town.missions and town.missions["m1"].items["i1"].is_stuck)
    await live_town.append_commands(mission_commands.review_item(live_town.state, "m1", "i1", by="jo", is_approved=True))
    await live_town.wait_for_mission("m1")


def test_what_is_fixed_after_its_approval_is_reviewed_again() -> None:
    review = item_task("m1/i1/review-1", purpose="review", of="w1")
    approval = Event(kind="town.reviewer_approval", agent="rev", actor="rev", mission="m1", task="w1", data={"item": "i1"})
    before = recorded(*idle(), mission(), item(type="implement"), *worked_on(), review, approval, *worked_on("m1/i1/mend-1", purpose="fix"))
    town = before.state
    [move] = planning.propose_for_mission(town, town.missions["m1"])
    assert (move.task, move.events[0].data["of"]) == ("m1/i1/review-2", "m1/i1/mend-1")


# --- calls for help


@pytest.mark.parametrize("error", ["no compiler " * 60, "a" * 287 + " b c d"])
def test_the_same_trouble_is_reported_once_however_long_its_reason_is(error: str) -> None:
    before = recorded(mission(), item(), item_task("w1"), started("w1", epoch=None), failed("w1", epoch=None, error=error))
    now = datetime(2026, 11, 16, tzinfo=UTC)
    town = before.state
    [call] = planning.propose_help_requests(town, town.missions["m1"], now)
    before.when(*(Event(kind=each.kind, mission=each.mission, actor="dispatcher", at=now, data=each.data) for each in call.events[:1]))
    assert not list(planning.propose_help_requests(before.state, before.state.missions["m1"], now + timedelta(minutes=29)))
    assert list(planning.propose_help_requests(before.state, before.state.missions["m1"], now + timedelta(minutes=30)))


def test_that_nothing_moves_is_reported_once_and_not_every_minute() -> None:
    before = recorded(mission(), item(), about_item("promoted"))
    town = before.state
    began = town.missions["m1"].moved_at or clock.now()
    [call] = planning.propose_help_requests(town, town.missions["m1"], began + timedelta(minutes=4))
    recorded_at = began + timedelta(minutes=4)
    before.when(Event(kind=call.events[0].kind, mission="m1", actor="dispatcher", at=recorded_at, data=call.events[0].data))
    assert not list(planning.propose_help_requests(before.state, before.state.missions["m1"], began + timedelta(minutes=20)))


# --- clocks


async def test_a_dead_worker_whose_clock_was_ahead_is_declared_dead_all_the_same(sqlite_town: LiveTown) -> None:
    now = clock.now()
    signs = liveness.check_worker(sqlite_town.coordination, "elsewhere:1:2/1@1", now + timedelta(days=365), now)
    assert signs.is_dead
    assert not liveness.check_worker(sqlite_town.coordination, "elsewhere:1:2/1@1", now + timedelta(seconds=5), now).is_dead


def test_a_task_that_was_completed_long_ago_is_not_there_again() -> None:
    before = recorded(*idle(), *worked_on("t1"))
    del before.state.tasks["t1"], before.state.over["t1"]
    before.when(Event(kind="work.task_created", actor="eve", task="t1", data={"title": "again"}))
    assert "t1" not in before.state.tasks
