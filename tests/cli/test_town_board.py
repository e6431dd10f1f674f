"""`lore town status` and the lists behind it, for towns that are crowded, quiet, stuck or new: what a person has to know is there."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from msgspec.structs import replace

from fleetlore import clock
from fleetlore.cli.town.board import AGENTS_SHOWN, MESSAGES_SHOWN, TASKS_SHOWN
from fleetlore.town import events
from fleetlore.views.town_state import Agent, Task
from tests.cli import towns
from tests.cli.running import Lore


def failed(town: Lore, item: str, error: str) -> None:
    """Have the task of a mission's item be given to Ada, and fail for good."""
    id = f"reader/{item}"
    towns.record(town, events.task_created(id, title="Shape it", by=events.DISPATCHER, mission="reader", item=item))
    towns.record(town, events.task_assigned(Task(id=id, mission="reader", item=item), Agent(name="ada")))
    towns.record(town, events.task_started(Agent(name="ada"), towns.folded(town).tasks[id]))
    towns.record(town, events.task_failed(towns.folded(town).tasks[id], error=error, is_final=True))


def test_a_crowd_is_shown_as_far_as_it_fits_and_where_the_rest_is_reported(town: Lore) -> None:
    town("town", "spawn", *(f"agent-{number:02}" for number in range(AGENTS_SHOWN + 2)), code=0)
    towns.record(town, *(events.task_created(f"t{number}", title=f"Part {number}", by="grace") for number in range(TASKS_SHOWN + 3)))
    for number in range(MESSAGES_SHOWN + 4):
        town("town", "send", "conductor", f"Done with {number}", "--as", "agent-00", code=0)
    shown = town("town", "status", code=0)
    assert "  2 more: lore town list" in shown.lines
    assert "  3 more: lore town task" in shown.lines
    assert "  4 more; lore town inbox" in shown.lines
    assert sum("agent-00 messaged you" in line for line in shown.lines) == MESSAGES_SHOWN
    assert len(town("town", "status", "--json").json["agents"]) == AGENTS_SHOWN + 2


def test_a_town_that_has_done_everything_says_that_nothing_is_open(town: Lore) -> None:
    town("town", "spawn", "ada", code=0)
    towns.run_by(town, "w@1", "ada")
    towns.record(town, events.task_created("t1", title="One", by="grace"))
    towns.given(town, "t1", "ada")
    towns.ended(town, "t1", "it is there")
    assert "  no open tasks" in town("town", "status", code=0).lines
    assert "lore town history --task t1" in town("town", "task", "show", "t1", code=0).out


def test_work_that_failed_for_good_is_stuck_until_a_person_has_it_tried_again(mission: Lore) -> None:
    failed(mission, "shape", "the model is gone")
    shown = mission("town", "status", code=0)
    assert "▲ shape of reader is stuck: the model is gone" in shown.lines
    [stuck] = mission("town", "status", "--json").json["waiting"]["stuck"]
    assert stuck == {"mission": "reader", "item": "shape", "reason": "the model is gone"}
    recorded = mission("town", "mission", "show", "reader", code=0).out
    assert re.search(r"stuck +shape", recorded)
    assert "lore town task retry reader/shape" in recorded
    assert "Shape it  (the model is gone)" in mission("town", "task", code=0).out
    assert "lore town task retry reader/shape" in mission("town", "task", "show", "reader/shape", code=0).out
    mission("town", "task", "retry", "reader/shape", code=0)
    assert mission("town", "status", "--json").json["waiting"]["stuck"] == []


def test_a_mission_that_asks_for_help_is_not_reported_a_second_time_by_what_is_stuck_in_it(mission: Lore) -> None:
    failed(mission, "shape", "the model is gone")
    towns.record(mission, events.mission_help_needed(towns.folded(mission).missions["reader"], "nobody can take it", 1))
    shown = mission("town", "status", code=0)
    assert [line for line in shown.lines if line.startswith("▲")] == ["▲ reader asks for help (now): nobody can take it"]


def test_a_fact_that_cannot_be_believed_is_counted_and_has_no_effect(town: Lore) -> None:
    town("town", "spawn", "ada", "bob", code=0)
    towns.run_by(town, "w@1", "ada", "bob")
    towns.record(town, events.task_created("t1", title="One", by="grace"))
    towns.given(town, "t1", "ada")
    towns.record(town, events.task_completed(replace(towns.folded(town).tasks["t1"], epoch=99), result="I was given it later"))
    assert "1 event ignored: not valid at that point" in town("town", "status", code=0).out
    assert towns.folded(town).tasks["t1"].state == "running"
    assert "1 event about it ignored: not valid at that point" in town("town", "task", "show", "t1", code=0).out


def test_a_mission_that_is_done_can_be_put_away(mission: Lore) -> None:
    towns.worked_on(mission, "shape", "parser")
    mission("town", "mission", "approve", "reader", "parser", code=0)
    state = towns.folded(mission).missions["reader"]
    towns.record(mission, events.mission_item_event("completed", state, state.items["parser"], "parser is done"))
    towns.record(mission, events.mission_state_changed("reader", "running", "completed", by=events.DISPATCHER))
    assert "lore town mission archive reader" in mission("town", "mission", "show", "reader", code=0).out
    mission("town", "mission", "archive", "reader", code=0)


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        (["mission", "list"], "there are no missions yet; start one with `lore town mission start PLAN`"),
        (["task"], "there are no tasks yet; add one with `lore town backlog add TEXT`"),
        (["history"], "the town has no events yet"),
        (["inbox"], "no unread messages for conductor"),
        (["recover"], "no worker runs agents in this town; start one with `lore worker`"),
    ],
    ids=lambda part: part[0] if isinstance(part, list) else "",
)
def test_in_a_new_town_every_list_is_empty_and_says_what_fills_it(town: Lore, verb: list[str], said: str) -> None:
    shown = town("town", *verb, code=0)
    assert (shown.out, shown.err) == ("", f"{said}\n")


def test_what_ended_long_ago_is_left_out_of_the_list_and_not_lost(town: Lore) -> None:
    old = clock.now() - timedelta(days=3)
    towns.record(town, replace(events.task_created("t1", title="One", by="grace"), at=old))
    towns.record(town, replace(events.task_cancelled(towns.folded(town).tasks["t1"], by="grace"), at=old))
    shown = town("town", "task", code=0)
    assert "1 more ended more than a day ago; --all shows it" in shown.err
    assert "One" not in shown.out
    assert "One" in town("town", "task", "--all", code=0).out


def test_what_a_plan_leaves_out_of_a_list_of_issues_is_said_whether_it_is_looked_over_or_begun(town: Lore) -> None:
    issues = [
        {"number": 1, "title": "Shape", "state": "open", "body": ""},
        {"number": 2, "title": "Long done", "state": "closed", "body": ""},
    ]
    path = town.write("issues.json", json.dumps(issues))
    looked = town("town", "mission", "plan", path, "--title", "Ship it", "--json", code=0)
    assert [item["id"] for item in looked.json["items"]] == ["#1"]
    assert looked.err == "#2 is closed: Long done\n"
    assert town("town", "mission", "start", path, "--title", "Ship it", code=0).err == "#2 is closed: Long done\n"


def test_who_joined_a_town_by_an_environment_is_reported_where_its_name_comes_from(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETLORE_TOWN", "elsewhere")
    recorded = lore("town", "init", "harbour", "--log", "sqlite:town.db")
    assert "the town comes from FLEETLORE_TOWN, which overrides that file" in recorded.err


def test_who_stopped_long_ago_is_counted_and_shown_with_all(town: Lore) -> None:
    old = clock.now() - timedelta(days=3)
    town("town", "spawn", "ada", code=0)
    towns.record(town, replace(events.agent_spawned("bob", by="grace"), at=old))
    towns.record(town, replace(events.agent_stopped(towns.folded(town).agents["bob"], reason="done", by="grace"), at=old))
    shown = town("town", "status", code=0)
    assert "1 more agents stopped more than a day ago; --all shows them" in shown.lines
    assert "bob" not in shown.out
    assert "bob" in town("town", "status", "--all", code=0).out
