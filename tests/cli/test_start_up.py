"""`lore emit` runs in hooks and loops: what it loads is counted."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.cli.running import Lore

LIST_MODULES = """
import json, sys
before = set(sys.modules)
from fleetlore.cli.main import main
code = main(sys.argv[1:])
print(json.dumps([code, sorted(set(sys.modules) - before)]))
"""


def modules_of(lore: Lore, *argv: str) -> set[str]:
    """What a command line loads in a fresh interpreter, apart from what Python itself started with."""
    printed = subprocess.run([sys.executable, "-I", "-c", LIST_MODULES, *argv], cwd=lore.folder, check=True, capture_output=True).stdout
    code, modules = json.loads(printed.splitlines()[-1])
    assert code == 0
    return set(modules)


@pytest.fixture
def on_the_fast_path(lore: Lore) -> set[str]:
    lore("emit", "fleet.idle")
    return modules_of(lore, "emit", "fleet.commit", "--agent", "ada", "--text", "parser fixed", "--data", '{"sha": "1"}')


def test_emit_loads_msgspec_and_apsw_and_nothing_else_from_outside(on_the_fast_path: set[str]) -> None:
    tops = {name.partition(".")[0] for name in on_the_fast_path} - {"typing_extensions"}  # msgspec imports it where it is installed
    assert tops - sys.stdlib_module_names == {"fleetlore", "msgspec", "apsw"}


@pytest.mark.parametrize(
    "heavy", ["asyncio", "rich", "pathlib", "urllib", "logging", "dataclasses", "shutil", "tempfile", "json", "sqlite3"]
)
def test_emit_does_without_the_heavy_parts(on_the_fast_path: set[str], heavy: str) -> None:
    assert heavy not in on_the_fast_path


def test_emit_loads_no_other_command(on_the_fast_path: set[str]) -> None:
    ours = {name for name in on_the_fast_path if name.startswith("fleetlore.cli.")}
    assert ours == {f"fleetlore.cli.{name}" for name in ("main", "terminal", "arguments", "emit", "open_log")}
    assert not any(name.startswith(("fleetlore.ingest", "fleetlore.dialects", "fleetlore.views")) for name in on_the_fast_path)


def test_reading_events_back_needs_no_asyncio(lore: Lore) -> None:
    lore("emit", "fleet.idle")
    assert "asyncio" not in modules_of(lore, "events")


OURS_IN_0_1 = {"emit": 34, "town --help": 11, "goal --help": 7 + 3}
"""Modules of ours that a command loaded in 0.1. The verbs of goals come from the table of operations: two more, and one for verbs."""


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "fleetlore"}


def test_the_list_of_commands_loads_no_command(lore: Lore) -> None:
    assert ours(modules_of(lore, "--help")) == {"fleetlore", "fleetlore.cli", "fleetlore.cli.main", "fleetlore.cli.terminal"}


def test_emit_loads_no_more_than_in_0_1(on_the_fast_path: set[str]) -> None:
    assert len(ours(on_the_fast_path)) <= OURS_IN_0_1["emit"]


@pytest.mark.parametrize("group", ["town", "goal"])
def test_the_list_of_verbs_loads_no_operation(lore: Lore, group: str) -> None:
    loaded = ours(modules_of(lore, group, "--help"))
    assert len(loaded) <= OURS_IN_0_1[f"{group} --help"]
    assert {name for name in loaded if name.startswith("fleetlore.operations")} == {"fleetlore.operations", "fleetlore.operations.table"}
