"""The programs in examples/python run as they are, use only the public API, and do what they say."""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetlore import Event, connect, list_sessions
from tests.cli.running import Lore
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "examples" / "python"
START = """
import runpy, sys
try:
    runpy.run_path(sys.argv[1], run_name="__main__", init_globals=None)
finally:
    edges = sorted(name for name in sys.modules if name.startswith(("fleetlore.cli", "fleetlore.server")))
    assert not edges, f"loads {edges}"
"""
"""Runs a program as Python does, and fails if it loads the command line or the server."""


class Place:
    """A folder with a log of its own, and a home in which nothing is set."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, f"sqlite:{folder / 'team.db'}"

    def run(self, program: str, *arguments: str, code: int = 0) -> str:
        """Run a program; returns what it prints."""
        argv = [sys.executable, "-c", START.replace("sys.argv[1]", repr(str(PROGRAMS / program)), 1), *arguments]
        environ = {**os.environ, "HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder)}
        done = subprocess.run(argv, cwd=self.folder, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout

    def store(self, *events: Event) -> None:
        with connect(self.url).blocking() as log:
            log.append(events)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def a_session(run: str, person: str, at: datetime, answer: str, **more: Any) -> list[Event]:
    who: dict[str, Any] = {"agent": f"claude-code/{run[:8]}", "run": run}
    cost = {"model": "claude-sonnet-4-5", "input": 100, "output": 20, "usd": 0.25}
    return [
        Event(kind="session.started", at=at, actor=person, data={"person": person}, **who),
        Event(kind="prompt.submitted", at=at, actor=person, data={"prompt": "Fix the login test"}, **who),
        Event(kind="model.replied", at=at + timedelta(seconds=5), data={**cost, "said": answer}, **who),
        Event(kind="session.turn_ended", at=at + timedelta(seconds=6), text=answer, **who),
    ]


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.py")), ids=lambda path: path.stem)
def test_a_program_uses_only_what_the_package_exports(path: Path) -> None:
    imported = re.findall(r"^\s*(?:from|import) (fleetlore[\w.]*)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert imported
    assert set(imported) == {"fleetlore"}


def test_an_agent_of_your_own_is_recorded(place: Place) -> None:
    assert place.run("record_agent.py", place.url).startswith("recorded up to ")
    with connect(place.url).blocking() as log:
        [session] = list_sessions(log)
    assert (session.agent, session.status, session.usd) == ("upgrader", "finished", 0.05)
    assert session.asked == "Upgrade the HTTP client to version 3"


def test_sessions_that_wait_for_a_person_are_noticed_once(place: Place) -> None:
    now = datetime.now(UTC)
    place.store(*a_session("11111111-aaaa", "ada", now, "Done."))
    place.store(*a_session("22222222-bbbb", "bob", now, "Both work. Shall I delete the old table?"))
    place.store(*a_session("33333333-cccc", "cleo", now, "Which of the two branches do you want?"))
    lines = place.run("watch_for_me.py", place.url, "2").splitlines()
    assert [line.partition(" waits for ")[2] for line in lines] == [
        "person: Shall I delete the old table?",
        "person: Which of the two branches do you want?",
    ]


def test_costs_are_added_up_by_person_and_week(place: Place) -> None:
    monday = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
    place.store(*a_session("11111111-aaaa", "ada", monday, "Done."))
    place.store(*a_session("22222222-bbbb", "ada", monday + timedelta(days=3), "Done."))
    place.store(*a_session("33333333-cccc", "ada", monday - timedelta(minutes=570), "Done."))  # Sunday in UTC, Monday in Tokyo
    for zone, weeks in (("UTC", {"2026-W46": "0.25", "2026-W47": "0.50"}), ("Asia/Tokyo", {"2026-W47": "0.75"})):
        rows = list(csv.DictReader(io.StringIO(place.run("weekly_costs.py", place.url, zone))))
        assert {row["week"]: row["usd"] for row in rows} == weeks
        assert sum(int(row["tokens"]) for row in rows) == 360


def test_the_brief_of_a_week_is_written_to_files(place: Place) -> None:
    now = datetime.now(UTC)
    place.store(*a_session("11111111-aaaa", "ada", now - timedelta(days=30), "An old answer."))
    place.store(*a_session("22222222-bbbb", "bob", now - timedelta(days=1), "Fixed. Shall I <b>push</b> it?"))
    written = place.run("monday_brief.py", place.url, str(place.folder)).split()
    markdown, page, story = (Path(path).read_text(encoding="utf-8") for path in written)
    assert markdown.startswith("# ")
    assert "Shall I" in markdown
    assert "<b>push</b>" not in page
    assert "<article" in page
    assert "An old answer" not in story


def test_the_prompt_of_the_next_turn_is_built_and_recorded(place: Place) -> None:
    place.run("record_agent.py", place.url)
    prompt = place.run("next_prompt.py", place.url, "upgrader", "800")
    assert "Upgrade the HTTP client to version 3" in prompt
    with connect(place.url).blocking() as log:
        [built] = log.read(kinds=["context.built"])
    assert (built.agent, built.data["budget"]) == ("upgrader", 800)
    assert built.data["tokens"] <= 800


GOAL = """\
description = "Write hello.txt"
workspace = "repo"
isolation = "none"
harness = "command"
command = ["sh", "-c", "{command}"]
[budget]
max_turns = 2
[[acceptance]]
command = "grep -q hello hello.txt"
"""


@pytest.mark.parametrize(
    ("command", "code", "lines"),
    [
        ("echo hello > hello.txt", 0, ["turn 1", "met: ", "done after 1 turns"]),
        ("echo bye > hello.txt", 1, ["turn 1", "turn 2", "NOT met: ", "budget_exhausted after 2 turns"]),
    ],
)
def test_a_goal_is_run_and_judged(place: Place, command: str, code: int, lines: list[str]) -> None:
    (place.folder / "repo").mkdir()
    (place.folder / "goal.toml").write_text(GOAL.format(command=command), encoding="utf-8")
    printed = place.run("run_goal.py", place.url, str(place.folder / "goal.toml"), code=code).splitlines()
    assert len(printed) == len(lines)
    assert all(line.startswith(begin) for line, begin in zip(printed, lines, strict=True))


def test_a_worker_does_a_task_and_stops(place: Place, lore: Lore) -> None:
    lore("--log", place.url, "town", "spawn", "ada", code=0)
    lore("--log", place.url, "town", "assign", "ada", "Sound the depths", code=0)
    (place.folder / "repo").mkdir()
    settings = 'harness = "command"\ncommand = "cat"\nworkspace = "repo"\nisolation = "none"\n'
    (place.folder / "worker.toml").write_text(settings, encoding="utf-8")
    printed = place.run("run_worker.py", place.url, str(place.folder / "worker.toml"), "1")
    with connect(place.url).blocking() as log:
        [done] = log.read(kinds=["town.task_completed"])
    assert f"done: {done.task}" in printed
    assert "ada: " in printed
