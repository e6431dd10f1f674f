"""For any events in any order the town view never raises, survives JSON, keeps its indexes and completes nothing twice."""

from __future__ import annotations

from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleetlore.cli.demo.fleet import write_story
from fleetlore.dialects.tinytown import DIALECT
from fleetlore.events.envelope import Event
from fleetlore.testing import START
from fleetlore.views import town, town_agents, town_tasks
from fleetlore.views.town_rules import AGENT_STEPS, MISSION_STEPS
from fleetlore.views.town_state import ENDED_TASK_STATES, ITEM_TYPES, PRIORITIES, TownState
from tests.strategies import json_values, names, texts, uuids
from tests.views.town_facts import faults

TINYTOWN = Path(__file__).parents[1] / "dialects" / "golden" / "tinytown.jsonl"
AGENTS, TASKS, ITEMS = ("ada", "bob", "cid"), ("t1", "t2", "t3", "t4"), ("i1", "i2", "i3")
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "epoch": st.integers(0, 4),
    "attempt": st.integers(0, 4),
    "tries": st.integers(0, 3),
    "final": st.booleans(),
    "lease": st.sampled_from(["w1@1", "w2@1", ""]),
    "priority": st.sampled_from([*PRIORITIES, 0, 4]),
    "roles": st.lists(st.sampled_from(["x", "y"]), max_size=2),
    "agent": st.sampled_from(AGENTS),
    "prefer": st.sampled_from(AGENTS),
    "not_by": st.lists(st.sampled_from(AGENTS), max_size=2),
    "depends_on": st.lists(st.sampled_from([*TASKS, *ITEMS]), max_size=3),
    "item": st.sampled_from(ITEMS),
    "purpose": st.sampled_from(["work", "review", "fix"]),
    "type": st.sampled_from([*ITEM_TYPES, "query"]),
    "action": st.sampled_from([*town_agents.CONTROL_STATES, "redirect", "helped", "advance", "fix"]),
    "value": st.sampled_from(AGENTS),
    "message": st.sampled_from([f"m{n}" for n in range(3)]),
    "watch": st.sampled_from(["v1", "v2"]),
    "until": st.just("2026-01-01T10:00:00Z"),
    "result": st.just("see o/r#1"),
    "reason": st.just("because"),
    "review": st.booleans(),
    "max_parallel": st.integers(0, 3),
}


def recorded(names: tuple[str, ...]) -> st.SearchStrategy[str | None]:
    return st.none() | st.sampled_from(names)


def data() -> st.SearchStrategy[dict[str, Any]]:
    """What facts of a town hold, as it should be; and now and then anything at all under the same names."""
    fitting = st.fixed_dictionaries({}, optional=FIELDS)
    wild = st.dictionaries(st.sampled_from(list(FIELDS)), json_values(), max_size=3)
    return fitting | fitting | fitting | wild


def draw_kind() -> st.SearchStrategy[str]:
    return st.sampled_from(list(town.EVENT_HANDLERS))


def facts() -> st.SearchStrategy[Event]:
    """Facts that a town hears, about a few agents, tasks and items, so that they meet."""
    states = st.sampled_from([*AGENT_STEPS, *MISSION_STEPS])
    return st.builds(
        Event,
        id=st.sampled_from([f"m{n}" for n in range(3)]),
        kind=draw_kind(),
        actor=st.sampled_from(AGENTS),
        agent=recorded(AGENTS),
        child=recorded(AGENTS),
        parent=recorded(AGENTS),
        task=recorded(TASKS),
        mission=recorded(("m1",)),
        new_state=st.none() | states,
        data=data(),
    )


def fold(recorded: list[Event]) -> TownState:
    state = town.initial()
    for number, event in enumerate(recorded):
        state = town.apply(state, replace(event, at=START, position=f"{number:020d}"))
        assert faults(state) == []
    return state


@settings(max_examples=80)
@for_all(st.lists(facts(), max_size=40))
def test_the_indexes_agree_with_what_they_index_whatever_was_reported(events: list[Event]) -> None:
    state = fold(events)
    assert msgspec.json.decode(msgspec.json.encode(state), type=TownState) == state


@settings(max_examples=60)
@for_all(st.lists(facts(), max_size=40))
def test_they_agree_where_the_oldest_is_let_go_of(events: list[Event]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(town_agents, "AGENTS_KEPT", 2)
        patch.setattr(town_tasks, "OVER_KEPT", 1)
        fold(events)


def wild() -> st.SearchStrategy[Event]:
    """Facts that a town hears, by anybody, of anything, with anything in them."""
    scopes = dict.fromkeys(("agent", "parent", "child", "task", "mission", "new_state"), st.none() | names())
    anything = st.dictionaries(st.sampled_from(list(FIELDS)) | names(), json_values(), max_size=4)
    return st.builds(Event, id=uuids(), kind=draw_kind(), actor=names(), text=st.none() | texts(), data=anything, **scopes)


@settings(max_examples=60)
@for_all(st.lists(wild(), max_size=8))
def test_any_event_at_all_is_folded_without_harm(recorded: list[Event]) -> None:
    state = fold(recorded)
    assert msgspec.json.decode(msgspec.json.encode(state), type=TownState) == state


@settings(max_examples=100)
@for_all(st.data(), st.integers(1, 4))
def test_in_any_order_of_steps_no_task_is_completed_twice(draw: st.DataObject, workers: int) -> None:
    """Workers that know only what they were given, and a log that brings everything late: of each epoch at most one end is believed."""
    state, positions, believed = town.initial(), count(1), Counter[str]()
    steps = ("work.task_created", "town.task_assigned", "work.started", "town.task_completed", "town.task_failed", "work.lease_lost")
    for kind in draw.draw(st.lists(st.sampled_from(steps), max_size=60)):
        task, epoch = draw.draw(st.sampled_from(TASKS[:2])), draw.draw(st.integers(1, 4))
        agent = f"agent{draw.draw(st.integers(1, workers))}"
        before = state.tasks[task].state if task in state.tasks else "pending"
        done = state.done
        given = {} if kind == "work.task_created" else {"epoch": epoch}
        event = Event(kind=kind, agent=agent, task=task, data=given, at=START, position=f"{next(positions):020d}")
        state = town.apply(state, event)
        believed[task] += state.done - done
        assert before not in ENDED_TASK_STATES or state.tasks[task].state == before, "what had ended moved on"
    assert max(believed.values(), default=0) <= 1
    assert state.done == sum(task.state == "completed" for task in state.tasks.values())


def test_the_demonstrations_fleet_folds_without_harm() -> None:
    """It tells of a town that somebody else runs."""
    recorded = [event for _, event in write_story(1)]
    state = fold(recorded)
    assert {"town.mission_state_changed", "town.task_completed", "town.reviewer_approval"} <= {event.kind for event in recorded}
    assert (state.idle, state.done > 3) == ({}, True)


def test_the_records_of_a_tinytown_fold_without_harm() -> None:
    state = fold([DIALECT.decode(line) for line in TINYTOWN.read_bytes().splitlines()])
    assert (bool(state.agents), bool(state.tasks), state.idle, state.queues) == (True, True, {}, {})
