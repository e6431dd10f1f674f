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
