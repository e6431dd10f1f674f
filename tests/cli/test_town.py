"""`lore town`: a town begun, its agents, who speaks, and what is asked of agents."""

from __future__ import annotations

import json
import re
import subprocess
from argparse import Namespace
from pathlib import Path

import pytest

from fleetlore.cli import operations
from fleetlore.cli.town import help as town_help
from fleetlore.cli.town.command import TOWN
from fleetlore.operations.table import find_operation
from fleetlore.town import commands as town_commands
from fleetlore.town import events
from fleetlore.town.commands import TownCommand
from fleetlore.views.town_state import TownState
from tests.cli import towns
from tests.cli.running import Lore
from tests.cli.towns import HOSTILE

# --- a town begun


def test_init_names_the_town_in_this_folders_settings_and_says_what_to_do_next(lore: Lore) -> None:
    result = lore("town", "init", "harbour", "--log", "sqlite:town.db", code=0)
    assert (lore.folder / "fleetlore.toml").read_text() == 'town = "harbour"\nlog = "sqlite:town.db"\n'
    assert (lore.folder / "town.db").exists()
    assert "lore town spawn" in result.out
    assert "lore worker" in result.out


def test_init_leaves_what_the_file_says_besides_and_may_be_said_again(lore: Lore) -> None:
    lore.write("fleetlore.toml", "# ours\n[redact]\npatterns = []\n")
    lore("town", "init", "harbour", code=0)
    text = (lore.folder / "fleetlore.toml").read_text()
    assert text == 'town = "harbour"\nlog = "sqlite:"\n# ours\n[redact]\npatterns = []\n'
    assert lore("town", "init", "--json", code=0).json["written"] == []
    assert lore("config", "show", "--json").json["town"]["value"] == "harbour"
    assert "already has town = 'harbour'" in lore("town", "init", "elsewhere", code=2).err
    assert (lore.folder / "fleetlore.toml").read_text() == text


def test_init_takes_the_folders_name_where_none_is_said(lore: Lore) -> None:
    assert lore("town", "init", "--json", code=0).json["town"] == "work"


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["harbour", "--log", "redis://:secret@127.0.0.1"], "must not be stored"),
        (["harbour", "--log", "memory:"], "a town needs a stored log"),
        (["harbour", "--town", "other"], "two names were given"),
        (["a\nb"], "not a valid town name"),
        (["harbour", "--log", "sqlite:no/such/folder.db"], "folder.db"),
        (["harbour", "--log", "nonsense"], "nonsense"),
    ],
)
def test_init_that_cannot_be_leaves_no_file_behind(lore: Lore, argv: list[str], reason: str) -> None:
    result = lore("town", "init", *argv)
    assert result.code in (1, 2)
    assert reason in result.err
    assert list(lore.folder.iterdir()) == []


def test_init_fixes_no_file_that_it_cannot_read(lore: Lore) -> None:
    lore.write("fleetlore.toml", "town = ")
    assert "fix the file first" in lore("town", "init", "harbour", code=1).err
    assert (lore.folder / "fleetlore.toml").read_text() == "town = "


# --- help


def test_every_verb_has_a_help_that_teaches(lore: Lore) -> None:
    for lesson in town_help.VERB_HELP:
        result = lore("town", *lesson.split(), "--help", code=0)
        assert re.search(rf"^  .*lore town {lesson}", result.out, re.MULTILINE), lesson
        assert "--json" in result.out
    assert set(TOWN.verbs) == set(town_help.VERB_HELP) - {""}


def test_every_verb_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "town.md").read_text()
    for verb in TOWN.verbs:
        assert re.search(rf"`[^`]*\b{verb.split()[-1]}\b", page), verb


def test_a_town_without_a_verb_is_given_the_verbs(lore: Lore) -> None:
    assert "spawn" in lore("town", code=2).err


# --- agents


def test_agents_join_all_of_them_or_none(town: Lore) -> None:
    result = town("town", "spawn", "ada", "bob", "--role", "backend", "--role", "tester", "--harness", "codex", code=0)
    assert result.lines == [f"{name} was added; run it with `lore worker`" for name in ("ada", "bob")]
    town("town", "spawn", "helper", "--parent", "ad", "--mode", "resumed", "--session", "5e55", code=0)
    agents = {agent["name"]: agent for agent in town("town", "list", "--json").json["agents"]}
    assert (agents["ada"]["state"], agents["ada"]["roles"], agents["ada"]["harness"]) == ("cold", ["backend", "tester"], "codex")
    assert (agents["helper"]["parent"], agents["helper"]["spawn_mode"]) == ("ada", "resumed")
    head = towns.head(town)
    assert "an agent bob already exists" in town("town", "spawn", "carl", "bob", code=2).err
    assert "twice" in town("town", "spawn", "carl", "carl", code=2).err
    assert towns.head(town) == head


@pytest.mark.parametrize("name", ["conductor", "Supervisor", "dispatcher", "town", "@ada", "x\ny", " ada", "", "x" * 201])
def test_names_that_mean_somebody_else_or_nobody_are_refused(town: Lore, name: str) -> None:
    result = town("town", "spawn", name, code=2)
    assert result.err.count("\n") == 1
    assert towns.head(town) is None


def test_names_that_are_hostile_are_shown_harmless(town: Lore) -> None:
    name = "\u202eadA <b>$(reboot)"
    town("town", "spawn", name, "--role", "a\u200bb", code=0)
    for argv in (["list"], ["status"], ["recover"]):
        result = town("town", *argv, code=0)
        assert "\u202e" not in result.out + result.err
        assert "\u200b" not in result.out + result.err
    assert town("town", "list", "--json").json["agents"][0]["name"] == name


def test_a_list_shows_each_agent_with_its_state_its_task_and_what_waits(town: Lore) -> None:
    assert "this town has no agents yet" in town("town", "list", code=0).err
    town("town", "spawn", "ada", "bob", "--role", "backend")
    towns.run_by(town, "w@1", "ada")
    task = town("town", "assign", "ada", "Fix the parser", "--json").json["events"][0]["task"]
    towns.given(town, task, "ada")
    town("town", "send", "bob", "hello")
    ada, bob = town("town", "list", code=0).lines
    assert ada.split() == ["ada", "●", "working", "backend", "now", task, "Fix", "the", "parser"]
    assert bob.split()[:6] == ["bob", "◌", "cold", "backend", "✉", "1"]


def test_an_agent_is_meant_by_the_beginning_of_its_name_if_only_one_begins_so(town: Lore) -> None:
    town("town", "spawn", "ada", "adam", "bob")
    assert town("town", "close", "bo", code=0).lines == ["bob is stopped; it was not running"]
    assert town("town", "close", "ada", code=0).lines == ["ada is stopped; it was not running"]
    town("town", "spawn", "adele")
    assert "2 agent names start with 'ade'" not in town("town", "kill", "ade", code=0).err
    assert "3 agent names start with 'a'" in town("town", "kill", "a", code=2).err
    assert "did you mean bob?" in town("town", "kill", "bib", code=2).err


# --- steering


def test_what_is_asked_of_an_agent_is_put_on_the_log_for_anybody_who_runs_it(town: Lore) -> None:
    town("town", "spawn", "ada", "bob")
    towns.run_by(town, "w@1", "ada", "bob")
    assert town("town", "interrupt", "ada", "--reason", "wrong branch", code=0).lines == [
        "ada is interrupted and pauses; its session is kept"
    ]
    [asked] = towns.recorded(town, "control.requested")
    assert (asked.actor, asked.agent, asked.data) == ("grace", "ada", {"action": "interrupt", "reason": "wrong branch"})
    assert "asked to interrupt" in town("town", "list").out
    for verb, action in (("close", "drain"), ("kill", "kill"), ("restart", "restart")):
        town("town", verb, "bob", code=0)
        assert towns.recorded(town, "control.requested")[-1].data == {"action": action}


def test_a_request_that_cannot_be_is_refused_with_a_reason_and_nothing_is_stored(town: Lore) -> None:
    town("town", "spawn", "ada", "bob")
    towns.run_by(town, "w@1", "ada")
    head = towns.head(town)
    assert "ada is idle; resume works only for an agent that is paused" in town("town", "resume", "ada", code=2).err
    assert "bob is cold and not running; run it with `lore worker`" in town("town", "interrupt", "ada", "bob", code=2).err
    assert towns.head(town) == head


def test_an_agent_that_nobody_runs_stops_and_comes_back_by_the_fact_itself(town: Lore) -> None:
    town("town", "spawn", "ada")
    assert town("town", "kill", "ada").lines == ["ada is stopped; it was not running"]
    assert "restart it with `lore town restart`" in town("town", "interrupt", "ada", code=2).err
    town("town", "restart", "ada", code=0)
    assert towns.folded(town).agents["ada"].state == "cold"


# --- who speaks


def test_who_speaks_is_said_or_the_agent_inside_which_it_runs_or_the_user(town: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    town("town", "spawn", "ada", "bob")
    town("town", "backlog", "add", "one")
    monkeypatch.setenv("FLEETLORE_AGENT", "ada")
    town("town", "backlog", "add", "two")
    town("town", "--as", "linus", "backlog", "add", "three")
    town("town", "backlog", "add", "four", "--as", "edsger")
    assert [event.actor for event in towns.recorded(town, "work.task_created")] == ["grace", "ada", "linus", "edsger"]
    assert "not a valid name" in town("town", "backlog", "add", "five", "--as", "a\nb", code=2).err


def test_an_agent_that_assigns_passes_work_on(town: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    town("town", "spawn", "ada", "bob")
    town("town", "backlog", "add", "The parser")
    [parser] = towns.folded(town).tasks
    monkeypatch.setenv("LORE_AGENT", "ada")  # as workers set them
    monkeypatch.setenv("LORE_TASK", parser)
    town("town", "assign", "bob", "Write the tests", code=0)
    [passed] = towns.recorded(town, "town.task_delegated")
    assert (passed.actor, passed.parent, passed.child) == ("ada", "ada", "bob")
    assert towns.folded(town).tasks[passed.task or ""].parent_task == parser


# --- the whole town


def test_an_empty_town_says_how_to_begin(town: Lore) -> None:
    assert "lore town spawn" in town("town", "status", code=0).out
    assert town("town", "status", "--json").json["agents"] == []


def test_the_status_shows_who_waits_for_a_person_first(town: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    town("town", "spawn", "ada")
    town("town", "mission", "start", town.write("plan.toml", towns.PLAN), code=0)
    town("town", "backlog", "add", "Fix it", "--priority", "high")
    town("town", "send", "conductor", f"May I? {HOSTILE}", "--query", "--as", "ada")
    towns.record(town, events.mission_help_needed(towns.folded(town).missions["reader"], "nobody can take it", 1))
    result = town("town", "status", code=0)
    assert result.lines[0] == "harbour  1 agent · 1 cold"
    assert result.lines[1] == "▲ reader asks for help (now): nobody can take it"
    assert result.lines[2].startswith("▲ ada asks you: May I? red <b>&amp;�$(reboot)")
    assert "\x1b" not in result.out
    assert re.search(r"^tasks: 1 pending$", result.out, re.MULTILINE)
    assert re.search(r"^  reader  ▲ asks for help  ░+  0/2 done", result.out, re.MULTILINE)
    assert "no dispatcher is running" in result.out
    shown = town("town", "status", "--json").json
    assert [each["mission"] for each in shown["waiting"]["help"]] == ["reader"]
    assert shown["tasks"] == {"pending": 1}
    assert shown["missions"][0]["by_state"] == {"pending": 2}


def test_on_a_terminal_the_status_is_cut_to_its_width(town: Lore) -> None:
    town("town", "spawn", "ada")
    town("town", "assign", "ada", "x" * 250)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", town.on_terminal("town", "status", columns=60).out)
    assert max(map(len, shown.splitlines())) <= 60
    assert "xxx…" in shown


def test_a_log_that_forgets_is_no_place_for_a_town(town: Lore) -> None:
    town.write("fleetlore.toml", 'town = "harbour"\nlog = "sqlite:town.db"\n[redact]\nlevel = ["prompts"]\n')
    assert "but a town needs them" in town("town", "spawn", "ada", code=2).err


def test_a_request_is_looked_at_again_when_somebody_was_quicker(town: Lore) -> None:
    town("town", "backlog", "add", "one")
    [task] = towns.folded(town).tasks
    seen: list[str] = []

    def requests(state: TownState) -> list[TownCommand]:
        command = town_commands.cancel_task(state, task, by="grace")
        if not seen:
            towns.record(town, events.control_requested("redirect", by="linus", task=task, value="nobody"))
        seen.append(state.tasks[task].position or "")
        return [command]

    with operations.open_context(Namespace(log=None, town=None, speaker=None), find_operation("town control task")) as context:
        context.decide_town(requests)
    assert len(set(seen)) == 2
    assert towns.folded(town).tasks[task].state == "cancelled"


def test_a_watched_status_is_reported_again_when_something_changed(town: Lore) -> None:
    process = town.start("town", "status", "--watch", "--json", stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["agents"] == []
    town("town", "spawn", "ada")
    assert [agent["name"] for agent in json.loads(process.stdout.readline())["agents"]] == ["ada"]
    process.terminate()
    process.communicate()
