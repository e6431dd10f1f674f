"""Control requests (interrupt, resume, drain, kill, restart, redirect, cancel), and messages that are acknowledged once used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from fleetlore.errors import Invalid, NotFound
from fleetlore.town import events
from fleetlore.town.commands import (
    TownCommand,
    acknowledge_message,
    add_task,
    assign_task,
    cancel_task,
    complete_task,
    control_agent,
    find_agent,
    send_message,
    spawn_agent,
)
from fleetlore.town.jobs import JobDone, JobInbox, JobOutcome, QuestionJob, TaskJob
from fleetlore.views.town_state import TownState
from tests.town.townspeople import BlockedHandler, LiveTown, ScriptedHandler
from tests.views.town_facts import becomes, completed, created, idle, recorded, sent


async def at_work(live_town: LiveTown, *acts: BlockedHandler) -> ScriptedHandler:
    """ada, at the gate with t1."""
    script = ScriptedHandler(t1=list(acts))
    live_town.dispatcher()
    live_town.worker(script, "ada")
    await live_town.add_tasks("t1")
    await live_town.wait_for(acts[0].begun)
    await live_town.wait_for_agent("ada", "working")
    return script


async def test_an_interrupted_agent_keeps_its_task_and_goes_on_with_it(live_town: LiveTown) -> None:
    first, second = BlockedHandler(), BlockedHandler()
    script = await at_work(live_town, first, second)
    await live_town.control_agent("ada", "interrupt")
    agent = await live_town.wait_for_agent("ada", "paused")
    assert (agent.task, live_town.state.tasks["t1"].state, first.broken_off) == ("t1", "running", 1)
    await live_town.control_agent("ada", "resume")
    await live_town.wait_for(second.begun)
    second.opened.set()
    task = await live_town.wait_for_task("t1")
    assert (task.epoch, task.attempt, [job.is_resumed for job in script.of("t1")]) == (1, 1, [False, True])
    assert [live_town.events_of_kinds(kind)[0].new_state for kind in ("town.agent_interrupted", "town.agent_resumed")] == [
        "paused",
        "working",
    ]


async def test_a_drained_agent_ends_its_task_and_then_stops(live_town: LiveTown) -> None:
    gate = BlockedHandler()
    await at_work(live_town, gate)
    await live_town.control_agent("ada", "drain")
    await live_town.wait_for_agent("ada", "draining")
    await live_town.add_tasks("t2")
    gate.opened.set()
    await live_town.wait_for_agent("ada", "stopped")
    assert (live_town.state.tasks["t1"].state, live_town.state.tasks["t2"].state) == ("completed", "pending")
    assert [event.text for event in live_town.events_of_kinds("town.agent_completed")] == ["done: 1 completed"]


async def test_a_killed_agent_stops_and_its_task_goes_to_another(live_town: LiveTown) -> None:
    gate = BlockedHandler()
    await at_work(live_town, gate)
    live_town.worker(ScriptedHandler(), "bob")
    await live_town.wait_for_agent("bob")
    await live_town.control_agent("ada", "kill")
    task = await live_town.wait_for_task("t1")
    assert (task.agent, task.epoch, gate.broken_off, live_town.state.agents["ada"].state) == ("bob", 2, 1, "stopped")
    assert (await live_town.wait_for_event("work.lease_lost", task="t1")).data["reason"] == "killed"


async def test_a_restarted_agent_is_there_again_and_does_its_task_anew(live_town: LiveTown) -> None:
    gate = BlockedHandler()
    script = await at_work(live_town, gate)
    await live_town.control_agent("ada", "restart")
    task = await live_town.wait_for_task("t1")
    assert (task.agent, task.epoch, task.attempt, [job.is_resumed for job in script.of("t1")]) == ("ada", 2, 2, [False, False])


async def test_a_task_that_is_redirected_is_broken_off_and_goes_there(live_town: LiveTown) -> None:
    gate = BlockedHandler()
    await at_work(live_town, gate)
    live_town.worker(ScriptedHandler(), "bob")
    await live_town.wait_for_agent("bob")
    await live_town.append_commands(assign_task(live_town.state, "t1", "bob", by="jo"))
    task = await live_town.wait_for_task("t1")
    assert (task.agent, task.epoch, gate.broken_off) == ("bob", 2, 1)
    await live_town.wait_for_agent("ada")


async def test_a_task_that_is_called_off_is_broken_off(live_town: LiveTown) -> None:
    gate = BlockedHandler()
    await at_work(live_town, gate)
    await live_town.append_commands(cancel_task(live_town.state, "t1", by="jo", reason="not wanted"))
    await live_town.wait_for_agent("ada")
    await live_town.add_tasks("t2")
    await live_town.wait_for_task("t2")
    assert (live_town.state.tasks["t1"].state, gate.broken_off, live_town.state.refused) == ("cancelled", 1, 0)


async def test_an_agent_that_is_killed_while_it_pauses_gives_its_task_back(sqlite_town: LiveTown) -> None:
    gate = BlockedHandler()
    await at_work(sqlite_town, gate)
    await sqlite_town.control_agent("ada", "interrupt")
    await sqlite_town.wait_for_agent("ada", "paused")
    await sqlite_town.control_agent("ada", "kill")
    await sqlite_town.wait_for_agent("ada", "stopped")
    assert (await sqlite_town.wait_for_task("t1", "pending")).epoch == 1


async def test_what_was_given_to_one_who_takes_no_more_is_taken_back(sqlite_town: LiveTown) -> None:
    """An assignment that crosses with the word that its agent has stopped is nobody's: the dispatcher sees to it."""
    live_town = sqlite_town
    await live_town.append_commands(spawn_agent(live_town.state, "ada", by="jo"))
    await live_town.add_tasks("t1")
    await live_town.journal.append([events.task_assigned(live_town.state.tasks["t1"], live_town.state.agents["ada"])])
    await live_town.wait_for_task("t1", "assigned")
    live_town.dispatcher()
    live_town.worker(ScriptedHandler(), "bob")
    assert (await live_town.wait_for_task("t1")).agent == "bob"


# --- messages


async def test_a_question_to_an_idle_agent_is_answered_and_acknowledged(live_town: LiveTown) -> None:
    script = ScriptedHandler(ada=[JobDone("forty-two")])
    live_town.dispatcher()
    live_town.worker(script, "ada")
    live_town.worker(ScriptedHandler(), "bob")
    await live_town.wait_for_agent("ada")
    await live_town.wait_for_agent("bob")
    await live_town.append_commands(send_message(live_town.state, "ada", "what is it?", by="bob", type="query"))
    question = await live_town.wait_for_event("work.message_sent", child="ada")
    answer = await live_town.wait_for_event("work.message_sent", child="bob")
    assert (answer.agent, answer.data["body"], answer.data["correlation"]) == ("ada", "forty-two", question.id)
    acked = await live_town.wait_for_event("work.message_acked", agent="ada")
    assert (acked.cause, acked.data["answer"]) == (question.id, "forty-two")
    await live_town.wait_for_agent("ada")
    assert "ada" not in live_town.state.inboxes


async def test_a_message_is_received_at_work_and_acknowledged_once_it_was_used(live_town: LiveTown) -> None:
    listening = asyncio.Event()

    async def listens(job: TaskJob | QuestionJob, receiving: JobInbox) -> JobOutcome:
        listening.set()
        message = await receiving.wait_for_message()
        return JobDone(f"heard {message.body}")

    live_town.dispatcher()
    live_town.worker(ScriptedHandler(t1=[listens]), "ada")
    await live_town.add_tasks("t1")
    await live_town.wait_for(listening)
    await live_town.catch_up()
    await live_town.append_commands(send_message(live_town.state, "ada", "use the other file", by="jo"))
    assert (await live_town.wait_for_task("t1")).result == "heard use the other file"
    await live_town.wait_until(lambda town: "ada" not in town.inboxes)
    done, acked = live_town.events_of_kinds("town.task_completed")[0], live_town.events_of_kinds("work.message_acked")[0]
    assert (done.position or "") < (acked.position or "")


async def test_what_is_sent_to_a_paused_agent_is_received_when_it_goes_on(sqlite_town: LiveTown) -> None:
    live_town, gate = sqlite_town, BlockedHandler()

    async def receives(job: TaskJob | QuestionJob, receiving: JobInbox) -> JobOutcome:
        return JobDone(", ".join(message.body for message in receiving.take_waiting_messages()))

    live_town.dispatcher()
    live_town.worker(ScriptedHandler(t1=[gate, receives]), "ada")
    await live_town.add_tasks("t1")
    await sqlite_town.wait_for(gate.begun)
    await live_town.control_agent("ada", "interrupt")
    await live_town.wait_for_agent("ada", "paused")
    await live_town.append_commands(send_message(live_town.state, "ada", "in fathoms, please", by="jo"))
    await live_town.control_agent("ada", "resume")
    assert (await live_town.wait_for_task("t1")).result == "in fathoms, please"
    await live_town.wait_until(lambda town: "ada" not in town.inboxes)


async def test_what_waited_in_the_inbox_comes_with_the_work(sqlite_town: LiveTown) -> None:
    script = ScriptedHandler()
    sqlite_town.worker(script, "ada")
    await sqlite_town.wait_for_agent("ada")
    for body, priority in (("later", "low"), ("now", "urgent"), ("then", "normal")):
        await sqlite_town.append_commands(send_message(sqlite_town.state, "ada", body, by="jo", priority=priority))
    sqlite_town.dispatcher()
    await sqlite_town.add_tasks("t1")
    await sqlite_town.wait_until(lambda town: town.done and "ada" not in town.inboxes)
    assert [message.body for message in script.of("t1")[0].messages] == ["now", "then", "later"]


async def test_a_message_of_work_that_was_broken_off_is_not_lost(sqlite_town: LiveTown) -> None:
    live_town, gate = sqlite_town, BlockedHandler()
    await at_work(live_town, gate)
    await live_town.append_commands(send_message(live_town.state, "ada", "remember", by="jo"))
    await live_town.control_agent("ada", "restart")
    await live_town.wait_for_task("t1")
    assert (await live_town.wait_for_event("work.message_acked", agent="ada")).cause == live_town.events_of_kinds("work.message_sent")[0].id


# --- wishes that cannot be


def towns() -> TownState:
    return recorded(*idle(), created(), created("t2"), completed("t2", epoch=None)).state


def test_a_request_that_cannot_be_says_what_can() -> None:
    town = towns()
    commands: list[tuple[Callable[[], TownCommand], str]] = [
        (lambda: spawn_agent(town, "ada", by="jo"), "an agent ada already exists"),
        (lambda: spawn_agent(town, "conductor", by="jo"), "is a reserved name"),
        (lambda: spawn_agent(town, "a\nb", by="jo"), "not a valid agent name"),
        (lambda: spawn_agent(town, "bob", by="jo", mode="odd"), "unknown mode"),
        (lambda: assign_task(town, "t2", "ada", by="jo"), "t2 is completed"),
        (lambda: assign_task(town, "t1", "adb", by="jo"), "did you mean ada"),
        (lambda: cancel_task(town, "t2", by="jo"), "t2 is completed and cannot be cancelled"),
        (lambda: complete_task(town, "t2", by="jo"), "it has ended"),
        (lambda: send_message(town, "ada", " ", by="jo"), "is empty"),
        (lambda: send_message(town, "ada", "hello", by="ada"), "cannot send a message to yourself"),
        (lambda: send_message(town, "ada", "hello", by="jo", priority="asap"), "unknown priority"),
        (lambda: add_task(town, "x", by="jo", id="t1"), "a task t1 already exists"),
        (lambda: add_task(town, "x", by="jo", tries=0), "between 1 and 100"),
    ]
    for command, why in commands:
        with pytest.raises(Invalid, match=why):
            command()


def test_a_completed_id_is_not_taken_for_a_prefix_of_another_task() -> None:
    town = recorded(*idle(), created("t-12")).state
    town.completed.add("t-1")
    with pytest.raises(NotFound, match="t-1 was completed long ago"):
        cancel_task(town, "t-1", by="jo")
    assert cancel_task(town, "t-12", by="jo").answer == "t-12 is cancelled"


def test_a_parent_that_was_abbreviated_is_recorded_by_its_name() -> None:
    [event] = spawn_agent(recorded(*idle()).state, "kid", by="jo", parent="ad").events
    assert event.parent == "ada"


def test_an_agent_is_found_in_any_case_before_those_that_begin_alike() -> None:
    assert find_agent(recorded(*idle("Bob"), *idle("Bob2")).state, "bob").name == "Bob"


def test_advice_for_a_task_that_ended_can_be_followed() -> None:
    town = towns()
    with pytest.raises(Invalid, match="t2 is completed and cannot be assigned; create a new task"):
        assign_task(town, "t2", "ada", by="jo")
    with pytest.raises(Invalid, match=r"it has ended$"):
        complete_task(town, "t2", by="jo")


@pytest.mark.parametrize("action", ["kill", "drain"])
def test_to_stop_a_stopped_agent_is_not_answered_with_how_to_start_it(action: str) -> None:
    with pytest.raises(Invalid, match=r"ada is stopped and not running$"):
        control_agent(recorded(*idle(), becomes("stopped")).state, "ada", action, by="jo")


def test_half_a_character_in_a_description_is_left_to_the_log_which_refuses_it() -> None:
    created_task = add_task(recorded().state, "x\ud800", by="jo", description="y\ud800").events[0]
    assert created_task.data["description"] == "y\ud800"


def test_a_message_is_acknowledged_by_its_id_in_capitals() -> None:
    town = recorded(*idle(), sent("ada", "hello", _id="abcdef00-0000-7000-8000-000000000001")).state
    assert acknowledge_message(town, "ada", "ABCDEF").events[0].data["message"].startswith("abcdef")
