"""`lore town assign`, `backlog`, `task`, `send`, `inbox`, `history`: work and words, and what is refused."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.cli import towns
from tests.cli.running import Lore
from tests.cli.towns import HOSTILE


@pytest.fixture
def town(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> Lore:
    towns.settle(lore, monkeypatch)
    lore("town", "spawn", "ada", "bob")
    towns.run_by(lore, "w@1", "ada", "bob")
    return lore


def add(town: Lore, *argv: str) -> str:
    """A new task; answers its id."""
    task: str = town("town", "backlog", "add", *argv, "--json", code=0).json["events"][0]["task"]
    return task


# --- tasks


def test_a_task_is_written_down_with_all_that_is_said_of_it(town: Lore) -> None:
    first = add(town, "First")
    said = ["--role", "backend", "--priority", "high", "--tag", "parser", "--check", "unit", "--after", first[:5], "--tries", "5"]
    id = add(town, "Fix\nand then the rest", *said)
    task = towns.folded(town).tasks[id]
    assert (task.title, task.description, task.by) == ("Fix", "Fix\nand then the rest", "grace")
    assert (task.roles, task.priority, task.tags, task.checks, task.missing, task.tries) == (
        ["backend"],
        "high",
        ["parser"],
        ["unit"],
        [first],
        5,
    )


def test_a_title_too_long_for_a_board_is_cut_and_kept_whole_in_the_description(town: Lore) -> None:
    id = add(town, "é" * 400)
    task = towns.folded(town).tasks[id]
    assert task.title == "é" * 150
    assert task.description == "é" * 400


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["backlog", "add", " "], "is empty"),
        (["backlog", "add", "x", "--tries", "0"], "between 1 and 100"),
        (["backlog", "add", "x", "--role", "a\nb"], "not a valid role name"),
        (["backlog", "add", "x", "--after", "nowhere"], "there is no task 'nowhere'"),
        (["backlog", "add", "x" * 20_000], "longer than 16 KiB"),
        (["assign", "ada"], "give either a text for a new task"),
        (["assign", "ada", "x", "--task", "t"], "give either a text for a new task"),
        (["assign", "nobody", "x"], "there is no agent 'nobody'"),
        (["task", "show", "nowhere"], "there is no task 'nowhere'"),
        (["send", "nobody", "x"], "there is no agent 'nobody'"),
        (["history", "nobody"], "there is no agent 'nobody'"),
        (["history", "-n", "-1"], "--last"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_and_nothing_is_stored(town: Lore, argv: list[str], reason: str) -> None:
    head = towns.head(town)
    result = town("town", *argv, code=2)
    assert reason in result.err
    assert result.err.count("\n") == 1
    assert towns.head(town) == head


def test_the_backlog_is_shown_in_the_order_in_which_it_is_given_out(town: Lore) -> None:
    assert "the backlog is empty" in town("town", "backlog", code=0).err
    normal = add(town, "one")
    waiting = add(town, "two", "--after", normal, "--priority", "urgent")
    urgent = add(town, f"three {HOSTILE}", "--priority", "urgent")
    result = town("town", "backlog", "list", code=0)
    assert [line.split()[0] for line in result.lines] == [urgent, normal, waiting]
    assert "\x1b" not in result.out
    assert "\u202e" not in result.out
    assert f"(waits for {normal})" in result.lines[-1]
    assert [task["id"] for task in town("town", "backlog", "--json").json["tasks"]] == [urgent, normal, waiting]


def test_a_task_that_waits_is_claimed_for_one_agent(town: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    task, other = add(town, "one"), add(town, "two")
    assert town("town", "backlog", "claim", task, "ad", code=0).lines == [f"{task} goes to ada when it is idle"]
    assert towns.folded(town).tasks[task].wanted == "ada"
    monkeypatch.setenv("FLEETLORE_AGENT", "bob")
    town("town", "backlog", "claim", other, code=0)
    assert towns.folded(town).tasks[other].wanted == "bob"
    towns.given(town, task, "ada")
    assert "not in the backlog" in town("town", "backlog", "claim", task, code=2).err


def test_a_task_that_an_agent_has_is_redirected_and_not_given_to_the_same_one_twice(town: Lore) -> None:
    task = add(town, "one")
    towns.given(town, task, "ada")
    assert "already assigned to ada" in town("town", "assign", "ada", "--task", task, code=2).err
    assert town("town", "task", "redirect", task, "--to", "bob", code=0).lines == [f"{task} goes to bob; ada stops working on it"]
    [asked] = towns.recorded(town, "control.requested")
    assert (asked.task, asked.agent, asked.data["value"]) == (task, "ada", "bob")


def test_tasks_are_called_off_taken_up_again_and_completed_as_the_table_allows(town: Lore) -> None:
    task = add(town, "one")
    town("town", "task", "cancel", task, "--reason", "not needed", code=0)
    assert towns.folded(town).tasks[task].state == "cancelled"
    assert "is cancelled and cannot be cancelled" in town("town", "task", "cancel", task, code=2).err
    assert town("town", "task", "retry", task, code=0).lines == [f"{task} is in the backlog again"]
    towns.given(town, task, "ada")
    assert "ada works on it" in town("town", "task", "complete", task, code=2).err
    assert "cannot be reopened" in town("town", "task", "retry", task, code=2).err
    other = add(town, "two")
    town("town", "task", "complete", other, "--result", "by hand", code=0)
    assert (towns.folded(town).tasks[other].state, towns.folded(town).tasks[other].result) == ("completed", "by hand")
    assert "create a new task" in town("town", "task", "retry", other, code=2).err


def test_tasks_are_listed_by_state_agent_and_mission_and_one_is_shown_whole(town: Lore) -> None:
    assert "there are no tasks yet" in town("town", "task", code=0).err
    running, waiting = add(town, f"one {HOSTILE}"), add(town, "two", "--priority", "low")
    towns.given(town, running, "ada")
    assert [line.split()[:4] for line in town("town", "task", code=0).lines] == [
        [running, "●", "running", "ada"],
        [waiting, "○", "pending", "low"],
    ]
    assert [task["id"] for task in town("town", "task", "list", "--state", "pending", "--json").json["tasks"]] == [waiting]
    assert [task["id"] for task in town("town", "task", "--agent", "ada", "--json").json["tasks"]] == [running]
    shown = town("town", "task", "show", running, code=0).out
    assert f"●  running  {running}".split() == shown.splitlines()[0].split()[:3]
    assert re.search(r"^  agent +ada$", shown, re.MULTILINE)
    assert f"lore town task cancel {running}" in shown
    assert "\x1b" not in shown
    assert town("town", "task", "show", running, "--json").json["epoch"] == 1


# --- messages


def test_a_person_speaks_to_agents_as_the_conductor_so_that_answers_arrive(town: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert town("town", "send", "ada", "Is", "it", "thread-safe?", "--query", "--urgent", code=0).lines == ["sent to ada"]
    [sent] = towns.recorded(town, "work.message_sent")
    assert (sent.actor, sent.agent, sent.child) == ("grace", "conductor", "ada")
    assert sent.data == {"type": "query", "priority": "urgent", "body": "Is it thread-safe?"}
    monkeypatch.setenv("FLEETLORE_AGENT", "ada")
    shown = town("town", "inbox", code=0)
    assert shown.lines[0].split()[1:4] == ["conductor", "question", "urgent"]
    town("town", "send", "conductor", "yes", "--reply-to", str(sent.id)[:8], code=0)
    assert "no unread messages for ada" in town("town", "inbox", code=0).err
    monkeypatch.delenv("FLEETLORE_AGENT")
    [answer] = town("town", "inbox", "--json", code=0).json["messages"]
    assert (answer["sender"], answer["body"], answer["correlation"]) == ("ada", "yes", sent.id)


def test_an_agents_question_to_the_conductor_is_a_call_for_help(town: Lore) -> None:
    town("town", "send", "conductor", "May I?", "--query", "--as", "ada", code=0)
    [called] = towns.recorded(town, "town.conductor_escalation")
    assert (called.agent, called.parent) == ("ada", "conductor")
    assert "ada asks you: May I?" in town("town", "status").out


def test_looking_at_an_inbox_takes_nothing_away_and_what_was_used_is_acknowledged(town: Lore) -> None:
    for priority in ("low", "normal", "urgent"):
        town("town", "send", "ada", f"{priority} {HOSTILE}\nmore", "--priority", priority)
    head = towns.head(town)
    shown = town("town", "inbox", "ada", code=0)
    assert [line.split()[0] for line in shown.lines if line.startswith("    ") and "more" not in line] == ["urgent", "normal", "low"]
    assert "\x1b" not in shown.out
    assert towns.head(town) == head
    urgent, normal, _ = town("town", "inbox", "ada", "--json").json["messages"]
    town("town", "inbox", "ada", "--ack", urgent["id"], "--ack", normal["id"][:13], code=0)
    [left] = town("town", "inbox", "ada", "--json").json["messages"]
    assert left["priority"] == "low"
    acked = towns.recorded(town, "work.message_acked")
    assert [(event.actor, event.agent) for event in acked] == [("grace", "ada")] * 2
    assert "has no unread message" in town("town", "inbox", "ada", "--ack", "ffffffff", code=2).err
    assert town("town", "inbox", "ada", "--ack", "all", code=0).lines == ["1 message acknowledged"]
    assert "ada has no unread messages" in town("town", "inbox", "ada", "--ack", "all", code=2).err


def test_an_answer_to_nothing_is_refused(town: Lore) -> None:
    assert "conductor has no unread message 'ffff'" in town("town", "send", "ada", "x", "--reply-to", "ffff", code=2).err
    assert "cannot be used together with" in town("town", "send", "ada", "x", "--query", "--ack", code=2).err


# --- history


def test_the_history_shows_the_newest_facts_of_the_town_of_an_agent_or_of_a_task(town: Lore) -> None:
    task = add(town, f"one {HOSTILE}")
    town("emit", "fleet.commit", "--agent", "ada", "--text", "not the town's")
    towns.given(town, task, "ada")
    assert [line.split()[2] for line in town("town", "history", "ad", "-n", "2", code=0).lines] == [
        "work.started",
        "town.agent_state_changed",
    ]
    kinds = [event["kind"] for event in town("town", "history", "--task", task, "--json", code=0).ndjson]
    assert kinds == ["work.task_created", "town.task_assigned", "work.started"]
    whole = town("town", "history", code=0)
    assert "fleet.commit" not in whole.out
    assert "\x1b" not in whole.out


def test_the_history_goes_on_with_what_comes(town: Lore) -> None:
    process = town.start("town", "history", "ada", "-n", "1", "--follow", "--json", stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert b"idle" in process.stdout.readline()
    town("town", "send", "ada", "hello")
    assert b"hello" in process.stdout.readline()
    process.terminate()
    process.communicate()
