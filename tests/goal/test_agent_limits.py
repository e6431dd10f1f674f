"""What an agent's program does not get, and what is said where a log cannot protect itself."""

from __future__ import annotations

import stat
from pathlib import Path

import apsw
import pytest

from fleetlore.errors import NotStarted, QueryFailed
from fleetlore.graph.tools.database import Database, QueryLimits
from fleetlore.graph.tools.run_python import REQUIRED_WALLS, PythonLimits, run_python_code
from fleetlore.graph.tools.sqlite_reader import read_table
from fleetlore.process.environment import scrub_environment
from fleetlore.programs.command import KEPT_VARIABLES
from tests.cli.conftest import lore as lore
from tests.cli.running import Lore
from tests.goal.working import opened, repository

KEYS = (
    *(
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "MISTRAL_API_KEY",
        "OPENROUTER_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
    ),
    *(
        "GITHUB_TOKEN",
        "GH_TOKEN",
        "SSH_AUTH_SOCK",
        "FLEETLORE_TOKEN",
        "FLEETLORE_LOG",
        "DATABASE_URL",
        "NPM_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
    ),
)


@pytest.mark.parametrize("name", KEYS)
def test_a_command_gets_no_key_that_the_goal_does_not_name(name: str) -> None:
    environ = {name: "secret", "PATH": "/bin"}
    assert name not in scrub_environment(environ, keep=KEPT_VARIABLES, mark="m")
    named = scrub_environment(environ, keep=(*KEPT_VARIABLES, name), mark="m")
    assert (name in named) is not name.startswith("FLEETLORE_")


def test_running_a_goal_on_a_log_that_is_not_sealed_says_what_the_agent_could_do(lore: Lore) -> None:
    (lore.folder / "place").mkdir()
    goal = lore.write(
        "goal.toml", "description = 'x'\nharness = 'command'\ncommand = ['true']\nworkspace = 'place'\n[[acceptance]]\ncommand = 'true'\n"
    )
    result = lore("goal", "run", goal, code=0)
    assert "not sealed" in result.err
    assert "`lore seal`" in result.err


async def test_run_python_does_not_run_without_its_walls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "no_walls.py"
    script.write_text(
        "import json, sys\nrequest = json.load(sys.stdin)\nprint('[]', flush=True)\nsys.exit(125 if request['needs'] else 0)\n"
    )
    monkeypatch.setattr("fleetlore.process.sandbox._CHILD_SCRIPT", script)
    with pytest.raises(NotStarted, match="no walls for files, network"):
        await run_python_code("print(1)", limits=PythonLimits(needs=REQUIRED_WALLS), workdir=str(tmp_path))


@pytest.mark.parametrize("sql", ["SELECT char(0x1F600, 0xD800)", "SELECT CAST(x'ff' AS TEXT)"])
async def test_a_value_that_is_no_text_is_an_error_of_the_query(tmp_path: Path, sql: str) -> None:
    apsw.Connection(str(tmp_path / "a.db")).execute("CREATE TABLE a (b)")
    with pytest.raises(QueryFailed, match="not text in UTF-8"):
        await read_table(Database(name="a", kind="sqlite", path=str(tmp_path / "a.db")), sql, QueryLimits())


def test_the_record_of_a_workspace_is_for_its_owner_only(tmp_path: Path) -> None:
    workspace = opened(repository(tmp_path / "repo"), tmp_path / "home")
    assert stat.S_IMODE((Path(workspace.folder) / "workspace.json").stat().st_mode) == 0o600
