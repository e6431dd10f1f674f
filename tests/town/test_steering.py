"""People and agents steer: interrupt, resume, drain, kill, restart, redirect, call off; and messages, heard and acknowledged once used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from fleetlore.errors import Invalid
from fleetlore.town import events
from fleetlore.town.commands import TownCommand, add_task, assign_task, cancel_task, complete_task, send_message, spawn_agent
from fleetlore.town.jobs import Done, JobInbox, JobOutcome, QuestionJob, TaskJob
from fleetlore.views.town_state import TownState
from tests.patience import PATIENCE
from tests.town.townspeople import Gate, Hall, Script
from tests.views.town_facts import completed, created, idle, told


async def at_work(hall: Hall, *acts: Gate) -> Script:
    """ada, at the gate with t1."""
    script = Script(t1=list(acts))
    hall.dispatcher()
    hall.worker(script, "ada")
    await hall.add("t1")
    await acts[0].begun.wait()
    await hall.agent("ada", "working")
    return script


async def test_an_interrupted_agent_keeps_its_task_and_goes_on_with_it(hall: Hall) -> None:
    first, second = Gate(), Gate()
    script = await at_work(hall, first, second)
    await hall.ask("ada", "interrupt")
    agent = await hall.agent("ada", "paused")
    assert (agent.task, hall.state.tasks["t1"].state, first.broken_off) == ("t1", "running", 1)
    await hall.ask("ada", "resume")
    await second.begun.wait()
    second.opened.set()
    task = await hall.task("t1")
    assert (task.epoch, task.attempt, [job.is_resumed for job in script.of("t1")]) == (1, 1, [False, True])
    assert [hall.kinds(kind)[0].new_state for kind in ("town.agent_interrupted", "town.agent_resumed")] == ["paused", "working"]


async def test_a_drained_agent_ends_its_task_and_then_stops(hall: Hall) -> None:
    gate = Gate()
    await at_work(hall, gate)
    await hall.ask("ada", "drain")
    await hall.agent("ada", "draining")
    await hall.add("t2")
    gate.opened.set()
    await hall.agent("ada", "stopped")
    assert (hall.state.tasks["t1"].state, hall.state.tasks["t2"].state) == ("completed", "pending")
    assert [event.text for event in hall.kinds("town.agent_completed")] == ["done: 1 completed"]


async def test_a_killed_agent_stops_and_its_task_goes_to_another(hall: Hall) -> None:
    gate = Gate()
    await at_work(hall, gate)
    hall.worker(Script(), "bob")
    await hall.agent("bob")
    await hall.ask("ada", "kill")
    task = await hall.task("t1")
    assert (task.agent, task.epoch, gate.broken_off, hall.state.agents["ada"].state) == ("bob", 2, 1, "stopped")
    assert (await hall.told("work.lease_lost", task="t1")).data["reason"] == "killed"


async def test_a_restarted_agent_is_there_again_and_does_its_task_anew(hall: Hall) -> None:
    gate = Gate()
    script = await at_work(hall, gate)
    await hall.ask("ada", "restart")
    task = await hall.task("t1")
    assert (task.agent, task.epoch, task.attempt, [job.is_resumed for job in script.of("t1")]) == ("ada", 2, 2, [False, False])


async def test_a_task_that_is_redirected_is_broken_off_and_goes_there(hall: Hall) -> None:
    gate = Gate()
    await at_work(hall, gate)
    hall.worker(Script(), "bob")
    await hall.agent("bob")
    await hall.wish(assign_task(hall.state, "t1", "bob", by="jo"))
    task = await hall.task("t1")
    assert (task.agent, task.epoch, gate.broken_off) == ("bob", 2, 1)
    await hall.agent("ada")


async def test_a_task_that_is_called_off_is_broken_off(hall: Hall) -> None:
    gate = Gate()
    await at_work(hall, gate)
    await hall.wish(cancel_task(hall.state, "t1", by="jo", reason="not wanted"))
    await hall.agent("ada")
    await hall.add("t2")
    await hall.task("t2")
    assert (hall.state.tasks["t1"].state, gate.broken_off, hall.state.refused) == ("cancelled", 1, 0)


async def test_an_agent_that_is_killed_while_it_pauses_gives_its_task_back(small_hall: Hall) -> None:
    gate = Gate()
    await at_work(small_hall, gate)
    await small_hall.ask("ada", "interrupt")
    await small_hall.agent("ada", "paused")
    await small_hall.ask("ada", "kill")
    await small_hall.agent("ada", "stopped")
    assert (await small_hall.task("t1", "pending")).epoch == 1


async def test_what_was_given_to_one_who_takes_no_more_is_taken_back(small_hall: Hall) -> None:
    """An assignment that crosses with the word that its agent has stopped is nobody's: the dispatcher sees to it."""
    hall = small_hall
    await hall.wish(spawn_agent(hall.state, "ada", by="jo"))
    await hall.add("t1")
    await hall.scribe.append([events.task_assigned(hall.state.tasks["t1"], hall.state.agents["ada"])])
    await hall.task("t1", "assigned")
    hall.dispatcher()
    hall.worker(Script(), "bob")
    assert (await hall.task("t1")).agent == "bob"


# --- messages


async def test_a_question_to_an_idle_agent_is_answered_and_acknowledged(hall: Hall) -> None:
    script = Script(ada=[Done("forty-two")])
    hall.dispatcher()
    hall.worker(script, "ada")
    hall.worker(Script(), "bob")
    await hall.agent("ada")
    await hall.agent("bob")
    await hall.wish(send_message(hall.state, "ada", "what is it?", by="bob", type="query"))
    question = await hall.told("work.message_sent", child="ada")
    answer = await hall.told("work.message_sent", child="bob")
    assert (answer.agent, answer.data["body"], answer.data["correlation"]) == ("ada", "forty-two", question.id)
    acked = await hall.told("work.message_acked", agent="ada")
    assert (acked.cause, acked.data["answer"]) == (question.id, "forty-two")
    await hall.agent("ada")
    assert "ada" not in hall.state.inboxes


async def test_a_message_is_heard_at_work_and_acknowledged_once_it_was_used(hall: Hall) -> None:
    listening = asyncio.Event()

    async def listens(job: TaskJob | QuestionJob, hearing: JobInbox) -> JobOutcome:
        listening.set()
        message = await hearing.wait_for_message()
        return Done(f"heard {message.body}")

    hall.dispatcher()
    hall.worker(Script(t1=[listens]), "ada")
    await hall.add("t1")
    await asyncio.wait_for(listening.wait(), PATIENCE)
    await hall.wish(send_message(hall.state, "ada", "use the other file", by="jo"))
    assert (await hall.task("t1")).result == "heard use the other file"
    await hall.until(lambda town: "ada" not in town.inboxes)
    done, acked = hall.kinds("town.task_completed")[0], hall.kinds("work.message_acked")[0]
    assert (done.position or "") < (acked.position or "")


async def test_what_is_sent_to_a_paused_agent_is_heard_when_it_goes_on(small_hall: Hall) -> None:
    hall, gate = small_hall, Gate()

    async def hears(job: TaskJob | QuestionJob, hearing: JobInbox) -> JobOutcome:
        return Done(", ".join(message.body for message in hearing.take_waiting_messages()))

    hall.dispatcher()
    hall.worker(Script(t1=[gate, hears]), "ada")
    await hall.add("t1")
    await gate.begun.wait()
    await hall.ask("ada", "interrupt")
    await hall.agent("ada", "paused")
    await hall.wish(send_message(hall.state, "ada", "in fathoms, please", by="jo"))
    await hall.ask("ada", "resume")
    assert (await hall.task("t1")).result == "in fathoms, please"
    await hall.until(lambda town: "ada" not in town.inboxes)


async def test_what_waited_in_the_inbox_comes_with_the_work(small_hall: Hall) -> None:
    script = Script()
    small_hall.worker(script, "ada")
    await small_hall.agent("ada")
    for body, priority in (("later", "low"), ("now", "urgent"), ("then", "normal")):
        await small_hall.wish(send_message(small_hall.state, "ada", body, by="jo", priority=priority))
    small_hall.dispatcher()
    await small_hall.add("t1")
    await small_hall.until(lambda town: town.done and "ada" not in town.inboxes)
    assert [message.body for message in script.of("t1")[0].messages] == ["now", "then", "later"]


async def test_a_message_of_work_that_was_broken_off_is_not_lost(small_hall: Hall) -> None:
    hall, gate = small_hall, Gate()
    await at_work(hall, gate)
    await hall.wish(send_message(hall.state, "ada", "remember", by="jo"))
    await hall.ask("ada", "restart")
    await hall.task("t1")
    assert (await hall.told("work.message_acked", agent="ada")).cause == hall.kinds("work.message_sent")[0].id


# --- wishes that cannot be


def towns() -> TownState:
    return told(*idle(), created(), created("t2"), completed("t2", epoch=None)).state


def test_a_wish_that_cannot_be_says_what_can() -> None:
    town = towns()
    wishes: list[tuple[Callable[[], TownCommand], str]] = [
        (lambda: spawn_agent(town, "ada", by="jo"), "there is an agent ada already"),
        (lambda: spawn_agent(town, "conductor", by="jo"), "cannot be an agent's name"),
        (lambda: spawn_agent(town, "a\nb", by="jo"), "not a name for an agent"),
        (lambda: spawn_agent(town, "bob", by="jo", mode="odd"), "no such way to begin"),
        (lambda: assign_task(town, "t2", "ada", by="jo"), "t2 is completed"),
        (lambda: assign_task(town, "t1", "adb", by="jo"), "did you mean ada"),
        (lambda: cancel_task(town, "t2", by="jo"), "t2 is completed and cannot be called off"),
        (lambda: complete_task(town, "t2", by="jo"), "it is over"),
        (lambda: send_message(town, "ada", " ", by="jo"), "there are no words in it"),
        (lambda: send_message(town, "ada", "hello", by="ada"), "that is yourself"),
        (lambda: send_message(town, "ada", "hello", by="jo", priority="asap"), "no such priority"),
        (lambda: add_task(town, "x", by="jo", id="t1"), "there is a task t1 already"),
        (lambda: add_task(town, "x", by="jo", tries=0), "between 1 and 100"),
    ]
    for wish, why in wishes:
        with pytest.raises(Invalid, match=why):
            wish()
