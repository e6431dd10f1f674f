"""A whole goal with the real Claude Code and the real Codex, against stubs of their models on loopback."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleetlore import connect
from fleetlore.events.driver_types import BudgetGuards, Goal, ShellCommand
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import KEY, Permissions, Plan
from fleetlore.goal.driver import Driver
from fleetlore.goal.resources import open_resources
from fleetlore.log.coordination import open_shared
from fleetlore.views.goal_state import GoalState
from tests.goal.scripted import GOAL
from tests.programs.stubs.responses import Responses
from tests.programs.stubs.turns import OFFLINE, serving
from tests.programs.test_claude_code_harness import CLAUDE, QUIET, HeaderApi, needs_claude
from tests.programs.test_codex_harness import CODEX, CONFIG, needs_codex

pytestmark = pytest.mark.slow
WRITE = "echo hello > note.txt"


def repository(folder: Path) -> Path:
    made = folder / "repository"
    made.mkdir()
    (made / "check.sh").write_text("grep -q hello note.txt\n")
    for command in ("init -q", "add -A", "-c user.name=eve -c user.email=eve@example.org commit -qm first"):
        subprocess.run(["git", "-C", str(made), *command.split()], check=True)
    return made


def goal(workspace: Path, **plan: Any) -> Goal:
    made = Plan(agent="ada", permissions=Permissions(allow=("Bash",), deny=("WebFetch",)), max_usd=5.0, **plan)
    return Goal(
        id=GOAL,
        description="Write a note that says hello",
        acceptance=(ShellCommand(command="sh check.sh"),),
        budget=BudgetGuards(max_turns=3, max_wall_time="5m", max_tokens=100_000, max_consecutive_denies=3),
        workspace=str(workspace),
        metadata={KEY: msgspec.to_builtins(made)},
    )


async def pursued(folder: Path, wanted: Goal, environ: dict[str, str]) -> tuple[GoalState, list[Event]]:
    given = {"PATH": os.environ["PATH"], "HOME": str(folder / "home")} | OFFLINE | environ
    url = f"sqlite:{folder}/fleet.db"
    with open_shared(url) as shared:
        async with connect(url) as log, open_resources(wanted, home=str(folder / "data"), environ=given) as resources:
            driver = Driver(log, wanted.id, resources, shared=shared)
            await driver.start(wanted)
            state = await driver.run_goal()
            return state, [event async for event in log.read(f"goal:{GOAL}")]


def of(events: list[Event], kind: str) -> list[Event]:
    return [event for event in events if event.kind == kind]


@needs_claude
async def test_claude_code_reaches_a_goal_and_everything_is_on_the_log(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    wanted = goal(repository(tmp_path), harness="claude-code", command=(str(CLAUDE),))
    api = HeaderApi([{"name": "Bash", "input": {"command": "echo exit 1 > check.sh"}}, {"name": "Bash", "input": {"command": WRITE}}])
    with serving(api):
        url = f"http://127.0.0.1:{api.server_port}"
        state, events = await pursued(
            tmp_path, wanted, QUIET | {"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": url, "IS_SANDBOX": "1"}
        )

    assert (state.outcome, state.spent.turns, state.words) == ("done", 1, "The note is written.")
    [bound] = of(events, "goal.session_bound")
    [ended] = of(events, "goal.attempt_ended")
    assert ended.data["session"] == bound.data["session"] == state.session
    assert state.spent.tokens == ended.data["tokens"] == 3 * 132
    assert 0 < state.spent.usd == ended.data["usd"] < 0.1
    assert [event.data["tool"] for event in of(events, "tool.called")] == ["Bash", "Bash"]
    assert [event.data["decision"]["choice"]["kind"] for event in of(events, "driver.decision")] == ["allow", "allow"]
    assert len(of(events, "process.started")) == 1
    assert not (tmp_path / "repository" / "note.txt").exists()  # it worked in a worktree of its own


@needs_codex
async def test_codex_reaches_a_goal_and_everything_is_on_the_log(tmp_path: Path) -> None:
    api = Responses("echo exit 1 > check.sh", WRITE)
    (tmp_path / "home" / ".codex").mkdir(parents=True)
    (tmp_path / "home" / ".codex" / "config.toml").write_text(CONFIG.format(url=api.url))
    wanted = goal(repository(tmp_path), harness="codex", command=(str(CODEX),))
    with serving(api):
        state, events = await pursued(tmp_path, wanted, {"OPENAI_API_KEY": "dummy"})

    assert (state.outcome, state.spent.turns) == ("done", 1)
    assert state.spent.tokens == 3 * 120
    assert state.spent.usd > 0
    [bound] = of(events, "goal.session_bound")
    assert bound.data["session"] == state.session
    assert len(of(events, "tool.called")) == len(of(events, "tool.returned")) == 2
