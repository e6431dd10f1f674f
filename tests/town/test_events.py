"""A running town emits all its event kinds, each with its fields and in the scopes of everyone involved."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from fleetlore import connect
from fleetlore.events.catalog import known_kinds
from fleetlore.events.envelope import Event, Origin
from fleetlore.town.commands import add_task, send_message, spawn_agent
from fleetlore.town.jobs import AgentUnavailable, Approved, HelpNeeded, JobDone, JobFailed, Rejected
from fleetlore.town.mission_commands import add_mission_note
from fleetlore.town.plans.model import MissionPlan, PlannedItem
from fleetlore.views import town
from tests.town.townspeople import BlockedHandler, HandlerStep, LiveTown, ScriptedHandler, open_live_town
from tests.views.town_facts import faults

KINDS = sorted(kind for kind in known_kinds() if kind.startswith("town."))
PLAN = MissionPlan(
    id="m1",
    title="All of it",
    items=(
        PlannedItem(id="i1", title="First", roles=("builder",)),
        PlannedItem(id="i2", title="Then", roles=("builder",), type="design", depends_on=("i1",)),
    ),
    watches_pulls=True,
    tries=1,
)


async def play(live_town: LiveTown) -> None:
    """One mission with a rejection, a merge and a call for help; and an agent for every way to end."""
    gate = BlockedHandler()
    failing: dict[str, list[HandlerStep]] = {
        "m1_i2": [HelpNeeded("which database?")],
        "t2": [JobFailed("no")],
        "t3": [AgentUnavailable("no program")],
    }
    work = ScriptedHandler(m1_i1=[JobDone("see o/r#1")], m1_i1_fix_1=[JobDone("with tests")], t1=[gate, JobDone("gone on")], **failing)
    review = ScriptedHandler(m1_i1_review_1=[Rejected("no tests")], m1_i1_review_2=[Approved("reads well")])
    live_town.dispatcher()
    await live_town.append_commands(spawn_agent(live_town.state, "eve", by="jo"))
    await live_town.append_commands(spawn_agent(live_town.state, "ada", by="jo", roles=["builder"], parent="eve", harness="command"))
    live_town.worker(work, "ada", "eve", "bob", roles=["builder"])
    live_town.worker(review, "rev", roles=["reviewer"])
    for name in ("ada", "eve", "bob", "rev"):
        await live_town.wait_for_agent(name)
    await live_town.start_mission(PLAN)
    await live_town.wait_until(lambda town: "o/r#1 merge" in town.missions["m1"].watches)
    merged = Event(kind="fleet.pr_merge", actor="forge", task="#1", mission="o/r", text="merged", origin=Origin(dialect="forge"))
    await live_town.log.append([merged])
    await live_town.wait_for_event("town.mission_help_needed")
    await live_town.append_commands(add_mission_note(live_town.state, "m1", "the one that is there", by="jo"))
    await live_town.append_commands(add_task(live_town.state, "Help me", by="eve", agent="ada", id="t1"))
    await live_town.wait_for(gate.begun)
    await live_town.wait_for_agent("ada", "working")
    await live_town.control_agent("ada", "interrupt")
    await live_town.wait_for_agent("ada", "paused")
    await live_town.control_agent("ada", "resume")
    await live_town.wait_for_task("t1")
    await live_town.append_commands(add_task(live_town.state, "Cannot be done", by="jo", agent="eve", id="t2", tries=1))
    await live_town.wait_for_task("t2", "failed")
    await live_town.append_commands(send_message(live_town.state, "conductor", "may I?", by="eve", type="query"))
    await live_town.control_agent("ada", "drain")
    await live_town.wait_for_agent("ada", "stopped")
    await live_town.append_commands(add_task(live_town.state, "Not here", by="jo", agent="bob", id="t3"))
    await live_town.wait_for_agent("bob", "error")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Event]]:
    """The town's log and its events."""
    url = f"sqlite:{tmp_path_factory.mktemp('story') / 'town.db'}"

    async def run() -> list[Event]:
        async with open_live_town(url) as live_town:
            await play(live_town)
            return list(live_town.events)

    return url, asyncio.run(run())


ANY = object()
FIELDS: dict[str, dict[str, object]] = {
    "agent_spawned": {"agent": "ada", "parent": "eve", "new_state": "cold", "roles": ["builder"], "harness": "command", "type": "worker"},
    "agent_state_changed": {"agent": "ada", "old_state": "cold", "new_state": "starting", "lease": ANY},
    "agent_stopped": {"agent": "ada", "parent": "eve", "new_state": "stopped", "reason": "asked to close"},
    "agent_completed": {"agent": "ada", "parent": "eve", "actor": "ada"},
    "agent_failed": {"agent": "bob", "new_state": "error", "error": "no program"},
    "agent_interrupted": {"agent": "ada", "task": "t1", "old_state": "working", "new_state": "paused"},
    "agent_resumed": {"agent": "ada", "task": "t1", "old_state": "paused", "new_state": "working"},
    "task_assigned": {"task": "t1", "agent": "ada", "actor": "dispatcher", "new_state": "assigned", "epoch": 1, "lease": ANY},
    "task_completed": {"task": "t1", "agent": "ada", "new_state": "completed", "epoch": 1, "result": "gone on"},
    "task_failed": {"task": "t2", "agent": "eve", "new_state": "failed", "epoch": 1, "attempt": 1, "error": "no"},
    "task_delegated": {"task": "t1", "agent": "eve", "parent": "eve", "child": "ada", "scope": "t1"},
    "mission_state_changed": {"mission": "m1", "old_state": "planning", "new_state": "running"},
    "mission_work_promoted": {"mission": "m1", "item": "i2"},
    "mission_work_assigned": {"mission": "m1", "task": "m1/i1", "agent": ANY, "item": "i1"},
    "mission_work_completed": {"mission": "m1", "task": "m1/i1/fix-1", "item": "i1"},
    "mission_work_blocked": {"mission": "m1", "task": "m1/i1", "item": "i1", "reason": "no tests", "fix": "m1/i1/fix-1"},
    "mission_help_needed": {"mission": "m1", "reason": "i2 is stuck: which database?", "attempt": 1},
    "mission_watch_triggered": {"mission": "m1", "watch": "o/r#1 merge", "item": "i1", "action": "advance", "cause": ANY},
    "mission_event": {"mission": "m1", "actor": "jo", "note": "the one that is there"},
    "reviewer_handoff": {"mission": "m1", "task": "m1/i1", "child": "rev", "agent": ANY, "item": "i1", "review": "m1/i1/review-1"},
    "reviewer_approval": {"mission": "m1", "task": "m1/i1/fix-1", "agent": "rev", "child": ANY, "item": "i1", "reason": "reads well"},
    "conductor_escalation": {"agent": "eve", "parent": "conductor", "reason": "may I?"},
}
"""What one event of each kind says in the story, in its envelope or its data."""


def test_these_are_all_of_them() -> None:
    assert (sorted(f"town.{name}" for name in FIELDS), len(KINDS)) == (KINDS, 22)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_reported_with_its_fields(recorded: tuple[str, list[Event]], kind: str) -> None:
    wanted = FIELDS[kind.removeprefix("town.")]
    found = [_select_fields(event, wanted) for event in recorded[1] if event.kind == kind]
    assert any(all(_is(value, wanted[name]) for name, value in said.items()) for said in found), found


def _select_fields(event: Event, names: Iterable[str]) -> dict[str, Any]:
    return {name: event.data[name] if name in event.data else getattr(event, name, None) for name in names}


def _is(value: object, wanted: object) -> bool:
    return value is not None if wanted is ANY else value == wanted


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("town.agent_spawned", "eve", "ada"),
        ("town.task_delegated", "eve", "ada"),
        ("town.agent_completed", "eve", "ada"),
        ("town.agent_stopped", "eve", "ada"),
        ("town.reviewer_handoff", "rev", ""),
        ("town.reviewer_approval", "rev", ""),
        ("town.conductor_escalation", "conductor", "eve"),
    ],
)
def test_it_lands_in_the_scopes_of_both(recorded: tuple[str, list[Event]], kind: str, one: str, other: str) -> None:
    url, events = recorded
    with connect(url).blocking() as log:
        in_one = {event.id for event in log.read(f"agent:{one}", kinds=(kind,))}
        seen = next(event for event in events if event.id in in_one)
        author = seen.agent if seen.agent != one else seen.child
        in_other = {event.id for event in log.read(f"agent:{other or author}", kinds=(kind,))}
    assert in_one & in_other


def test_a_question_to_the_conductor_lies_in_the_conductors_inbox(recorded: tuple[str, list[Event]]) -> None:
    letters = [event for event in recorded[1] if event.kind == "work.message_sent" and event.child == "conductor"]
    assert [event.data["body"] for event in letters if event.agent == "eve" and event.task is None] == ["may I?"]


def test_nothing_that_was_reported_was_refused(recorded: tuple[str, list[Event]]) -> None:
    state = town.initial()
    for event in recorded[1]:
        state = town.apply(state, event)
    assert (state.refused, faults(state)) == (0, [])
