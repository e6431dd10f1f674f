"""`lore context`: exactly what an agent would be shown, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleetlore import connect
from fleetlore.prompts.agent_context import load_context
from fleetlore.prompts.build import build_prompt
from tests.cli.running import Lore
from tests.prompts import plays


@pytest.fixture
def bakery(lore: Lore) -> Lore:
    with connect("sqlite:fleet.db").blocking() as log:
        plays.bakery(log)
    lore.write("fleetlore.toml", 'log = "sqlite:fleet.db"\n')
    return lore


def test_it_prints_the_prompt_and_nothing_else(bakery: Lore) -> None:
    with connect("sqlite:fleet.db").blocking() as log:
        expected = build_prompt(load_context(log, "mara")).text
    assert bakery("context", "--agent", "mara", code=0).out == f"{expected}\n"


def test_it_explains_each_block(bakery: Lore) -> None:
    out = bakery("context", "--agent", "mara", "--explain", "--budget", "180", code=0).out
    prompt, _, account = out.partition("-" * 72)
    assert prompt.startswith("## Who you are")
    assert "mara as worker: " in account
    assert "of 180 tokens, counted by `estimate`" in account
    assert "The run is bakery, at turn 6." in account
    assert "memory         left out: there was no room" in account
    assert "why: a worker sees the last 8 lines" in account


def test_programs_get_the_whole_account(bakery: Lore) -> None:
    answer = bakery("context", "--agent", "edda", "--json", code=0).json
    assert (answer["role"], answer["run"], answer["turn"]) == ("judge", "bakery", 6)
    assert [part["name"] for part in answer["parts"]] == ["identity", "shared_goal", "scene", "exchange", "memory"]
    assert len(answer["events"]) == len(set(answer["events"])) == 7


def test_role_persona_run_and_position_can_be_said(bakery: Lore) -> None:
    positions = [event["position"] for event in bakery("events", "--json", "--all", code=0).ndjson]
    out = bakery(
        "context",
        "--agent",
        "passer-by",
        "--role",
        "judge",
        "--persona",
        "You are fair.",
        "--run",
        "bakery",
        "--as-of",
        positions[2],
        code=0,
    ).out
    assert "You are fair." in out
    assert out.count("> mara:") == 1
    assert "> tomas:" not in out


def test_thoughts_of_others_are_never_in_it(bakery: Lore) -> None:
    for name in ("tomas", "edda"):
        assert "He is too quick" not in bakery("context", "--agent", name, code=0).out
    assert "He is too quick" not in bakery("context", "--agent", "somebody", "--persona", "You look on.", code=0).out
    assert "He is too quick" in bakery("context", "--agent", "mara", code=0).out


def test_a_prompt_can_be_recorded(bakery: Lore) -> None:
    bakery("context", "--agent", "mara", "--record", code=0)
    [event] = bakery("events", "--kind", "context.built", "--json", code=0).ndjson
    assert event["data"]["tokens"] <= event["data"]["budget"]


def test_the_settings_say_how_tokens_are_counted_and_how_many_there_may_be(bakery: Lore) -> None:
    said = (bakery.folder / "fleetlore.toml").read_text()
    bakery.write("fleetlore.toml", said + '[context]\ntokenizer = "characters"\nbudget = 900\nrecency = 0\n')
    answer = bakery("context", "--agent", "mara", "--json", code=0).json
    assert (answer["tokenizer"], answer["budget"]) == ("characters", 900)
    assert answer["tokens"] == len(answer["text"]) <= 900
    assert "budget 900" in bakery("config", "show", code=0).out


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("tokenizer = 'abacus'", "unknown tokenizer"),
        ("nearness = 'stars'", "unknown similarity measure"),
        ("budget = 'much'", "context.budget"),
        ("taste = 1", "context.taste"),
        ("decay = -1", "decay"),
    ],
)
def test_wrong_settings_are_named(bakery: Lore, said: str, why: str) -> None:
    bakery.write("fleetlore.toml", (bakery.folder / "fleetlore.toml").read_text() + f"[context]\n{said}\n")
    result = bakery("context", "--agent", "mara")
    assert result.code != 0
    assert why in result.err


def test_a_budget_that_is_too_small_says_what_to_do(bakery: Lore) -> None:
    result = bakery("context", "--agent", "mara", "--budget", "10")
    assert result.code != 0
    assert "raise the budget" in result.err


def test_the_work_of_a_coding_session_is_described_in_sentences(lore: Lore) -> None:
    with connect("sqlite:fleet.db").blocking() as log:
        plays.session(log)
    out = lore("context", "--log", "sqlite:fleet.db", "--agent", "claude-code/7f", code=0).out
    assert "## Your task\nThe tide tables are an hour off in summer." in out
    stands = out.split("## Your work so far\n")[1].split("\n\n")[0]
    assert "local time is taken from the port" in stands
    assert "fleet.commit" not in stands


def test_hostile_names_do_no_harm(bakery: Lore, tmp_path: Path) -> None:
    assert bakery("context", "--agent", "a\nb").code != 0
    assert bakery("context", "--agent", "no such agent", "--persona", "", code=0).out.startswith("## Who you are")


def test_an_agent_or_run_that_is_not_there_is_an_error_and_no_prompt(bakery: Lore) -> None:
    refused = bakery("context", "--agent", "marra", code=2)
    assert (refused.out, refused.err) == ("", "lore: no agent is called 'marra' on this log; did you mean agent:mara?\n")
    refused = bakery("context", "--agent", "mara", "--run", "bakkery", code=2)
    assert (refused.out, refused.err) == ("", "lore: no session is called 'bakkery' on this log; did you mean run:bakery?\n")


@pytest.mark.parametrize("budget", ["0", "-5"])
def test_a_prompt_needs_room_for_something(bakery: Lore, budget: str) -> None:
    refused = bakery("context", "--agent", "mara", f"--budget={budget}", code=2)
    assert (refused.out, refused.err) == ("", "lore: --budget must be 1 token or more\n")


def test_it_explains_what_had_no_room_and_what_was_passed_over(bakery: Lore) -> None:
    assert "    no room for: 3 of its oldest" in bakery("context", "--agent", "mara", "--explain", "--budget", "220", code=0).lines
    roomy = bakery("context", "--agent", "mara", "--explain", "--budget", "400", code=0)
    assert "    passed over: 7 that stand elsewhere here, or matter less" in roomy.lines
    assert "no room" not in roomy.out


# --- work


def record(lore: Lore, *events: dict[str, object]) -> None:
    lines = "\n".join(json.dumps({"at": f"2026-11-14T09:{number:02}:00Z", **event}) for number, event in enumerate(events))
    lore("--log", "sqlite:fleet.db", "emit", "-", stdin=lines.encode(), code=0)


def task_of(lore: Lore, agent: str, *argv: str) -> str | None:
    """What the prompt says that the agent has to do."""
    out = lore("--log", "sqlite:fleet.db", "context", "--agent", agent, *argv, code=0).out
    blocks = dict(block.split("\n", 1) for block in out.strip().split("\n\n## ") if "\n" in block)
    return blocks.get("Your task")


def dispatch(task: str, agent: str, text: str) -> dict[str, object]:
    return {"kind": "fleet.dispatch", "agent": agent, "task": task, "text": text}


@pytest.mark.parametrize(
    "end",
    [
        {"kind": "town.task_completed", "agent": "ada", "task": "t2", "text": "Done"},
        {"kind": "fleet.pr_merge", "agent": "ada", "task": "t2", "text": "Merged"},
        {"kind": "fleet.abandon", "agent": "ada", "task": "t2", "text": "Too hard"},
        {"kind": "work.cancelled", "agent": "mira", "task": "t2", "text": "No longer needed"},
        {"kind": "fleet.dispatch", "agent": "bo", "task": "t2", "text": "Retry failed deliveries"},
    ],
    ids=lambda end: str(end["kind"]),
)
def test_only_open_work_is_the_task(lore: Lore, end: dict[str, object]) -> None:
    record(lore, dispatch("t1", "ada", "Write the outbox"), dispatch("t2", "ada", "Retry failed deliveries"))
    assert "Retry failed deliveries" in (task_of(lore, "ada") or "")
    record(lore, {**end, "at": "2026-11-14T10:00:00Z"})
    assert "Write the outbox" in (task_of(lore, "ada") or ""), "the older task is still open"
    record(lore, {"kind": "town.task_completed", "agent": "ada", "task": "t1", "text": "Done", "at": "2026-11-14T11:00:00Z"})
    assert task_of(lore, "ada") is None
    record(lore, {**dispatch("t2", "ada", "Retry failed deliveries, again"), "at": "2026-11-14T12:00:00Z"})
    assert "again" in (task_of(lore, "ada") or ""), "a task that is taken up again is open"


SESSION = {"agent": "claude-code/11111111", "run": "11111111-aaaa-4bbb-8ccc-0123456789ab"}


def prompt(text: str) -> dict[str, object]:
    return {"kind": "prompt.submitted", **SESSION, "text": text, "data": {"prompt": text}}


@pytest.mark.parametrize(
    "nudge",
    [
        "continue",
        "Yes, please go ahead.",
        "ok",
        "weiter",
        "Go on!",
        "Continue from where you left off.",
        "commit",
        "ok, commit and push",
        "Create a PR please",
    ],
)
def test_the_task_is_the_original_request_and_not_a_nudge(lore: Lore, nudge: str) -> None:
    record(lore, prompt("Fix the parser for empty input"), {"kind": "session.turn_ended", **SESSION, "text": "Half done"}, prompt(nudge))
    assert task_of(lore, "claude-code/11111111") == "Fix the parser for empty input"


def test_the_request_is_found_behind_hundreds_of_events(lore: Lore) -> None:
    call: dict[str, object] = {"kind": "tool.called", **SESSION, "at": "2026-11-14T09:30:00Z"}
    calls = [{**call, "data": {"tool": "Bash", "call_id": f"c{number}", "input": {"command": "ls"}}} for number in range(400)]
    record(lore, prompt("Fix the parser for empty input"), *calls, {**prompt("continue"), "at": "2026-11-14T10:00:00Z"})
    assert task_of(lore, "claude-code/11111111") == "Fix the parser for empty input"


def test_a_newer_request_is_the_task_and_the_first_one_stays_with_it(lore: Lore) -> None:
    record(lore, prompt("Suggest changes to the parser"), prompt("Now do 6 and 7"), prompt("continue"))
    task = "Now do 6 and 7\n\nThe session began with this request: Suggest changes to the parser"
    assert task_of(lore, "claude-code/11111111") == task


def test_every_displayed_name_is_accepted(lore: Lore) -> None:
    """Names of agents and sessions as `lore status` and `lore sessions` show them, ids and titles among them."""
    started = {"kind": "session.started", "data": {"project": "app", "program": "claude-code", "cwd": "/home/ada/app"}}
    other = {"agent": "ada", "run": "ada-1"}
    record(
        lore,
        {**started, **SESSION},
        prompt("Fix the parser for empty input"),
        {**started, **other},
        {"kind": "prompt.submitted", **other, "text": "Write the docs", "data": {"prompt": "Write the docs"}},
        dispatch("t1", "bo", "Review it"),
    )
    log = ("--log", "sqlite:fleet.db")
    lore(*log, "name", "bo", "Bo the reviewer", code=0)
    agents = lore(*log, "status", "--json", "--all", code=0).json["agents"]
    sessions = lore(*log, "sessions", "--json", "--all", code=0).ndjson
    shown = {agent.get(key) for agent in agents for key in ("name", "shown", "run", "session")}
    shown |= {session.get(key) for session in sessions for key in ("session", "agent", "name", "title")}
    names = sorted(name for name in shown if name)
    assert {"ada-1", "Bo the reviewer", "Write the docs"} <= set(names)
    for name in names:
        assert task_of(lore, name), name
    assert "no agent is called 'nobody'" in lore(*log, "context", "--agent", "nobody", code=2).err
