"""What checking a goal's criteria costs beside the commands themselves: `python -m benchmarks.judging [--files 10000]`.

A repository with many files and a `node_modules` of as many is captured once; then `true` is checked: the first time, again without a
change, and after a change of one file.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter, process_time

from fleetlore import clock
from fleetlore.events.driver_types import BudgetGuards, Goal, ShellCommand
from fleetlore.events.goal_plan import Plan
from fleetlore.goal.acceptance.check import AcceptanceChecker
from fleetlore.goal.workspace.workspace import open_workspace

PER_FOLDER = 50


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judging", description="Overhead of checking criteria.")
    parser.add_argument("--files", type=int, default=10_000, help="files in the repository, and in node_modules")
    parser.add_argument("--dir", type=Path, help="where to put the files")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="fleetlore-bench-", dir=options.dir) as folder:
        _measure(Path(folder), options.files)
    return 0


def _measure(folder: Path, count: int) -> None:
    repo = folder / "repo"
    _fill(repo / "src", count)
    (repo / ".gitignore").write_text("node_modules\n")
    (repo / "Makefile").write_text("test:\n\ttrue\n")
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=b", "-c", "user.email=b@b", "commit", "-qm", "first"]):
        subprocess.run(["git", *command], cwd=repo, check=True)
    _fill(repo / "node_modules", count)
    budget = BudgetGuards(max_turns=5, max_wall_time="1h", max_tokens=1000, max_consecutive_denies=3)
    goal = Goal(id=clock.uuid7(), description="x", acceptance=(ShellCommand(command="true"),), budget=budget, workspace=str(repo))
    plan = Plan(harness="command", agent="a", command=("true",))
    workspace = open_workspace(goal.id, plan, str(repo), str(folder / "home"))
    workspace.checkpoint(0)
    start, cpu = perf_counter(), process_time()
    checker = AcceptanceChecker.capture(goal, plan, workspace)
    _print_row(f"captured at the start: {count:,} files and as many in node_modules", start, cpu)
    for name in ("first check", "again, nothing changed", "again, one file changed"):
        if name.endswith("one file changed"):
            (Path(workspace.path) / "src" / "0" / "0.py").write_text("changed = True\n")
        start, cpu = perf_counter(), process_time()
        report = asyncio.run(checker.check(goal, workspace, judge=None, cancel=asyncio.Event()))
        assert report.verdict.met, report
        _print_row(name, start, cpu)


def _print_row(name: str, start: float, cpu: float) -> None:
    print(f"{name:<75}{perf_counter() - start:6.2f} s, {process_time() - cpu:6.2f} s of this process's CPU")


def _fill(root: Path, count: int) -> None:
    for number in range(count):
        path = root / str(number // PER_FOLDER) / f"{number % PER_FOLDER}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"value_{number} = {number}\n" * 40)


if __name__ == "__main__":
    raise SystemExit(main())
