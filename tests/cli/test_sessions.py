"""`lore sessions`, `lore show` and `lore claims`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.running import Lore

ONE: dict[str, Any] = {"agent": "claude-code/11111111", "run": "11111111-aaaa"}
TWO: dict[str, Any] = {"agent": "claude-code/22222222", "run": "22222222-bbbb"}


def event(kind: str, at: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "at": f"2026-11-{at}:00Z", **fields}


def call(at: str, number: int, command: str, output: str, *, failed: bool = False, **who: Any) -> list[dict[str, Any]]:
    own = f"00000000-0000-7000-8000-{number:012}"
    called = event("tool.called", at, id=own, data={"tool": "Bash", "call_id": f"c{number}", "input": {"command": command}}, **who)
    data = {"tool": "Bash", "call_id": f"c{number}"} | ({"error": output, "exit_code": 1} if failed else {"output": output})
    returned = event("tool.failed" if failed else "tool.returned", at, cause=own, data=data, **who)
    return [called, returned]


@pytest.fixture
def recorded(lore: Lore) -> Lore:
    """Two sessions on two days; the first has a helper and pushes, the second claims what it did not do."""
    write = {"tool": "Write", "call_id": "w1", "input": {"file_path": "/home/mira/app/parser.py", "content": "x = 1\n"}}
    edit_id = "00000000-0000-7000-8000-000000000099"
    events = [
        event(
            "session.started",
            "14T22:45",
            **ONE,
            data={"project": "app", "branch": "main", "cwd": "/home/mira/app", "program": "claude-code"},
        ),
        event("prompt.submitted", "14T22:46", **ONE, text="Fix the parser", task="t7", data={"prompt": "Fix the parser", "row": "row-1"}),
        event("agent.launched", "14T22:47", **ONE, child="a1b2c3d", data={"role": "Explore"}, text="Find it"),
        event("agent.returned", "14T22:48", **ONE, child="a1b2c3d", data={"result": "It is in parser.py."}),
        event("tool.called", "14T22:49", id=edit_id, **ONE, data=write),
        event("tool.returned", "14T22:49", cause=edit_id, **ONE, data={"tool": "Write", "call_id": "w1", "output": "ok"}),
        *call("14T22:50", 1, "pytest", "== 3 passed in 1s ==", **ONE),
        *call("14T22:51", 2, "git push", "To github.com:acme/app.git\n   1234567..89abcde  main -> main", **ONE),
        event(
            "model.replied",
            "14T22:52",
            **ONE,
            data={"model": "claude-opus-4-8", "output": 7, "said": "The parser accepts tabs now.", "row": "row-2"},
        ),
        event("session.turn_ended", "14T22:52", **ONE, text="The parser accepts tabs now."),
        event("session.started", "15T08:00", **TWO, data={"project": "web", "program": "claude-code", "cwd": "/home/ada/web"}),
        event("prompt.submitted", "15T08:01", **TWO, text="Push it", data={"prompt": "Push it"}),
        *call("15T08:01", 3, "git push", "error: failed to push some refs to 'github.com:acme/web.git'", failed=True, **TWO),
        event("model.replied", "15T08:02", **TWO, data={"said": "I pushed the change."}),
        event("session.turn_ended", "15T08:02", **TWO, text="I pushed the change."),
    ]
    lore("emit", "-", stdin="".join(json.dumps(each) + "\n" for each in events).encode(), code=0)
    return lore


def test_each_session_is_one_json_object_the_newest_first(recorded: Lore) -> None:
    two, one = recorded("sessions", "--all", "--json", code=0).ndjson
    assert (two["session"], one["session"]) == (TWO["run"], ONE["run"])
    assert (one["person"], one["repo"], one["status"], one["asked"]) == ("mira", "app", "finished", "Fix the parser")
    assert one["delivered"]["pushed"] is True
    assert one["checks"]["tests"]["result"] == "pass"
    assert one["checks"]["tests"]["evidence"][0]["source"] == "c1"
    assert [helper["role"] for helper in one["helpers"]] == ["Explore"]
    assert one["evidence"]["asked"][0]["source"] == "row-1"
    assert [file["path"] for file in one["files"]] == ["parser.py"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--day", "2026-11-14"], ["11111111"]),
        (["--day", "2026-11-15"], ["22222222"]),
        (["--since", "2026-11-15"], ["22222222"]),
        (["--all"], ["22222222", "11111111"]),
        (["--all", "--scope", "task:t7"], ["11111111"]),
        (["--all", "--agent", "claude-code/22222222"], ["22222222"]),
        (["--all", "--scope", "run:1111"], ["11111111"]),
        (["--day", "2026-11-13"], []),
    ],
)
def test_which_sessions(recorded: Lore, arguments: list[str], expected: list[str]) -> None:
    assert [row["session"][:8] for row in recorded("sessions", "--json", *arguments, code=0).ndjson] == expected


def test_a_list_for_people(recorded: Lore) -> None:
    lines = recorded("sessions", "--all", code=0).lines
    assert lines[2].split()[:4] == ["2026-11-14", "22:52", "11111111", "finished"]
    assert lines[3].strip() == "The parser accepts tabs now; pushed; tests passed"


@pytest.mark.parametrize("name", ["dr-2", "task:dr-2"])
def test_a_task_of_a_tracker_is_shown_without_any_session(lore: Lore, name: str) -> None:
    steps = [
        event("work.task_created", "14T10:00", task="dr-2", actor="mayor", data={"title": "Speed up the tests"}),
        event("fleet.dispatch", "14T10:01", task="dr-2", agent="ada"),
        event("work.updated", "14T10:20", task="dr-2", actor="ada", data={"field": "notes", "new": "Implemented: 7 s -> 2.5 s"}),
        event("work.updated", "14T10:21", task="dr-2", actor="mayor", data={"field": "assignee, status", "released": "ada"}),
        event("fleet.dispatch", "14T10:22", task="dr-2", agent="finn"),
        event("town.task_completed", "14T11:00", task="dr-2", agent="merge-queue", data={"result": "Already fixed on main"}),
    ]
    lore("emit", "-", stdin="".join(json.dumps(each) + "\n" for each in steps).encode(), code=0)
    text = lore("show", name, code=0).out
    for part in (
        "dr-2: Speed up the tests",
        "no change: Already fixed on main",
        "finn",
        "2 times to ada, finn",
        "Implemented: 7 s -> 2.5 s",
    ):
        assert part in text
    shown = lore("show", name, "--json", code=0).json
    assert (shown["task"], shown["result"], shown["agent"], shown["released"]) == ("dr-2", "no_change", "finn", 1)


def test_tasks_of_a_forge_and_of_the_town_are_shown(lore: Lore) -> None:
    steps = [
        event("fleet.pr_open", "14T10:00", task="#7", agent="ada", data={"title": "Round the total", "number": 7}),
        event("fleet.pr_merge", "14T10:30", task="#7", agent="ada", actor="merge-queue", data={"number": 7, "title": "Round the total"}),
        event("town.task_assigned", "14T10:00", task="t9", agent="finn"),
    ]
    lore("emit", "-", stdin="".join(json.dumps(each) + "\n" for each in steps).encode(), code=0)
    assert "merged" in lore("show", "#7", code=0).out
    assert lore("show", "#7", "--json", code=0).json["agent"] == "ada"
    assert lore("show", "t9", "--json", code=0).json["result"] == "open"


@pytest.mark.parametrize("name", ["1111", "11111111-aaaa", "claude-code/11111111", "t7", "task:t7"])
def test_one_session_by_any_of_its_names(recorded: Lore, name: str) -> None:
    assert [row["session"] for row in recorded("show", name, "--json", code=0).ndjson] == [ONE["run"]]
    shown = recorded("show", name, code=0).out
    assert "tests      pass" in shown
    assert "file       parser.py +1 -0" in shown


def test_an_unknown_session_is_an_error(recorded: Lore) -> None:
    result = recorded("show", "nobody", code=2)
    assert "`lore sessions --all` lists the sessions" in result.err


def test_contradicted_claims_have_their_own_exit_code(recorded: Lore) -> None:
    claims = recorded("claims", "--all", "--json", code=3).ndjson
    assert {(claim["session"], claim["kind"]) for claim in claims if claim["verdict"] == "contradicted"} >= {(TWO["run"], "pushed")}
    assert "contradicted" in recorded("claims", "--all", "--verdict", "contradicted", code=3).out
    recorded("claims", "--day", "2026-11-14", code=0)


@pytest.mark.parametrize("command", ["sessions", "claims"])
def test_an_empty_list_says_how_to_see_older_sessions(lore: Lore, command: str) -> None:
    old = {"kind": "session.started", "at": "2020-01-02T08:00:00Z", **ONE}
    lore("emit", "-", stdin=json.dumps(old).encode(), code=0)
    result = lore(command, code=0)
    assert (result.out, result.err.strip()) == ("", f"No {command} in the last 7 days. `lore {command} --all` lists older ones, too.")
    assert lore(command, "--json", code=0).err == ""
    assert f"No {command} found." in lore(command, "--day", "2020-01-01", code=0).err
