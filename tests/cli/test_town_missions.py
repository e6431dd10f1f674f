"""`lore town mission`: from a plan to its end, and what people say about it on the way."""

from __future__ import annotations

import json
import re

from fleetlore.town import events
from tests.cli import towns
from tests.cli.running import Lore


def state_of(town: Lore) -> str:
    return towns.folded(town).missions["reader"].state


def test_a_mission_is_started_from_a_plan_once(town: Lore) -> None:
    plan = town.write("plan.toml", towns.PLAN)
    assert town("town", "mission", "start", plan, code=0).lines == ["reader runs: 2 items, 2 at a time"]
    assert "a mission reader already exists" in town("town", "mission", "start", plan, code=2).err
    [shown] = town("town", "mission", "--json").json["missions"]
    assert (shown["id"], shown["state"], shown["items"]) == ("reader", "running", 2)


def test_all_that_is_wrong_with_a_plan_is_reported_and_nothing_begins(town: Lore) -> None:
    plan = town.write("plan.toml", '[[items]]\nid = "a"\ndepends_on = ["a", "b"]\n')
    result = town("town", "mission", "start", plan, code=2)
    assert all(problem in result.err for problem in ("title is missing", "waits for itself", "there is no item 'b'"))
    assert towns.head(town) is None


def test_issues_of_a_forge_are_a_mission_and_can_be_looked_over_as_a_plan(town: Lore) -> None:
    issues = [
        {"number": 1, "title": "Shape", "state": "open", "body": ""},
        {"number": 2, "title": "Read", "state": "open", "body": "after #1, #9"},
    ]
    path = town.write("issues.json", json.dumps(issues))
    assert "9" in town("town", "mission", "plan", path, "--title", "Ship it", code=2).err
    plan = town("town", "mission", "plan", path, "--title", "Ship it", "--done", "9", code=0).out
    assert 'title = "Ship it"' in plan
    town("town", "mission", "start", town.write("plan.toml", plan), code=0)
    assert towns.folded(town).missions["ship-it"].items["#2"].depends_on == ["#1"]
    assert "for issues" in town("town", "mission", "start", town.write("plan.toml", plan), "--done", "1", code=2).err


def test_a_mission_is_held_taken_up_given_up_and_put_away_as_the_table_allows(mission: Lore) -> None:
    assert "cannot become running" in mission("town", "mission", "resume", "reader", code=2).err
    mission("town", "mission", "pause", "rea", "--reason", "release day", code=0)
    assert state_of(mission) == "blocked"
    assert "release day" in mission("town", "mission", "show", "reader").out
    assert "only completed or failed missions can be archived" in mission("town", "mission", "archive", "reader", code=2).err
    mission("town", "mission", "resume", "reader", code=0)
    assert mission("town", "mission", "stop", "reader", code=0).lines == ["reader is stopped"]
    assert state_of(mission) == "failed"
    mission("town", "mission", "archive", "reader", code=0)
    assert "1 more is archived" in mission("town", "mission", "list", code=0).err
    assert mission("town", "mission", "list", "--all", code=0).lines[0].split()[:3] == ["reader", "✗", "failed"]


def test_by_force_what_is_worked_on_is_called_off_too(mission: Lore) -> None:
    towns.record(mission, events.task_created("reader/shape", title="Shape", by=events.DISPATCHER, mission="reader", item="shape"))
    result = mission("town", "mission", "stop", "reader", "--force", code=0)
    assert result.lines == ["reader is stopped", "reader/shape is cancelled"]
    assert towns.folded(mission).tasks["reader/shape"].state == "cancelled"


def test_a_mission_is_shown_with_what_each_item_waits_for(mission: Lore) -> None:
    shown = mission("town", "mission", "show", "reader", code=0).out
    assert re.search(r"^  · pending  shape +design", shown, re.MULTILINE)
    assert re.search(r"^  · pending  parser +after shape +Write the parser", shown, re.MULTILINE)
    towns.worked_on(mission, "shape", "parser")
    shown = mission("town", "mission", "show", "reader", code=0).out
    assert re.search(r"^  ✓ done +shape", shown, re.MULTILINE)
    assert re.search(r"^  ◑ in review +parser +ada", shown, re.MULTILINE)
    assert [item["id"] for item in mission("town", "mission", "show", "reader", "--json").json["items"]] == ["shape", "parser"]
    assert "there is no mission 'nowhere'" in mission("town", "mission", "show", "nowhere", code=2).err


def test_a_person_approves_in_a_reviewers_place_and_nobody_their_own_work(mission: Lore) -> None:
    assert "does not wait for a review" in mission("town", "mission", "approve", "reader", "parser", code=2).err
    towns.worked_on(mission, "shape", "parser")
    assert "cannot review its own work" in mission("town", "mission", "approve", "reader", "parser", "--as", "ada", code=2).err
    assert "has no item 'lexer'" in mission("town", "mission", "approve", "reader", "lexer", code=2).err
    assert mission("town", "mission", "approve", "reader", "parser", code=0).lines == ["parser is approved"]
    item = towns.folded(mission).missions["reader"].items["parser"]
    assert (item.verdict, item.approved_by) == ("approved", "grace")


def test_work_is_sent_back_with_a_reason_alone(mission: Lore) -> None:
    towns.worked_on(mission, "shape", "parser")
    assert "--reason" in mission("town", "mission", "reject", "reader", "parser", code=2).err
    assert "say what to change" in mission("town", "mission", "reject", "reader", "parser", "--reason", " ", code=2).err
    mission("town", "mission", "reject", "reader", "parser", "--reason", "no tests", code=0)
    shown = mission("town", "mission", "show", "reader").out
    assert re.search(r"to fix +parser +ada +rejected once +Write the parser  — no tests", shown)


def test_notes_are_kept_with_a_mission_and_a_call_for_help_is_answered(mission: Lore) -> None:
    assert "has no open help request" in mission("town", "mission", "helped", "reader", code=2).err
    mission("town", "mission", "note", "reader", "The", f"fixtures {towns.HOSTILE}", code=0)
    towns.record(mission, events.mission_help_needed(towns.folded(mission).missions["reader"], "nobody can take it", 1))
    shown = mission("town", "mission", "show", "reader").out
    assert "The fixtures red" in shown
    assert "asks for help (now): nobody can take it" in shown
    assert "\x1b" not in shown
    mission("town", "mission", "helped", "reader", "--reason", "started one", code=0)
    assert towns.folded(mission).missions["reader"].help is None
