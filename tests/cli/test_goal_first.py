"""The goal that a newcomer runs first: a whole pursuit, offline, with what comes with Fleetlore and nothing else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import Lore

EXAMPLES = Path(__file__).parents[2] / "examples" / "goals"


@pytest.fixture
def first(lore: Lore) -> str:
    """A copy of it, whose agent does not take its time."""
    shutil.copytree(EXAMPLES, lore.folder / "goals", ignore=shutil.ignore_patterns("__pycache__"))
    recorded = (EXAMPLES / "first.toml").read_text()
    assert '"1.2"]' in recorded
    return lore.write("goals/first.toml", recorded.replace('"1.2"]', '"0"]'))


def _commit(folder: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(folder)]
    for argv in ("init -q -b main", "add -A", "commit -q -m begin"):
        subprocess.run([*git, *argv.split()], check=True)


def test_the_first_goal_fails_twice_and_is_then_done_on_a_branch_of_its_own(lore: Lore, first: str) -> None:
    _commit(lore.folder)
    lines = lore("goal", "run", first, code=0).lines
    assert "  judge  the agent changed goals/first/check.py (named by a criterion); the original was used" in lines
    assert "    | day 4: high water at 08:00, not at 08:30" in lines
    assert [line.partition("  ")[0] for line in lines if line.startswith("turn") and ":" in line] == [
        "turn 1: checks failed",
        "turn 2: checks failed",
        "turn 3: done",
    ]
    assert lines[-1].startswith("  merge it   git merge fleetlore/")
    subprocess.run(lines[-1].removeprefix("  merge it   "), shell=True, check=True, cwd=lore.folder, capture_output=True)
    assert "MINUTES_LATER = 50" in (lore.folder / "goals" / "first" / "tide.py").read_text()


def test_the_first_goal_needs_no_repository(lore: Lore, first: str) -> None:
    assert lore("goal", "run", first, code=0).lines[-1] == f"the work: {lore.folder}/goals/first"
    assert "MINUTES_LATER = 50" in (lore.folder / "goals" / "first" / "tide.py").read_text()


@pytest.mark.parametrize("path", sorted([*EXAMPLES.glob("*.toml"), *EXAMPLES.glob("*.yaml")]), ids=lambda path: path.name)
def test_every_example_can_be_pursued(lore: Lore, path: Path) -> None:
    assert lore("goal", "check", str(path), code=0).out.startswith(f"{path}: valid.")
