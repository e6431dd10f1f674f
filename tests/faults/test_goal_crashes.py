"""`lore goal run` is killed with -9 in the middle of a turn or of a check, and `lore goal resume` continues from what is there."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.cli.conftest import lore as lore
from tests.cli.running import Lore
from tests.patience import PATIENCE

LOG = "sqlite:goals.db"
GOAL = "5a7bb1d2-0000-4000-8000-000000000005"
AGENT = """cat >/dev/null
echo x >> "$MARKS/attempts"
{script}
touch "$MARKS/working-$(wc -l < "$MARKS/attempts")"
test -e "$MARKS/go" || sleep 600
"""
"""Notes each attempt, works, says that it has worked, and stays until it may end."""


class Crashed:
    """One goal whose drivers are killed."""

    def __init__(self, lore: Lore, script: str, *, check: str = "test -e done.txt", more: str = "") -> None:
        # In a cache folder: there the check, which is confined, may write too.
        self.lore, self.marks, self.place = lore, lore.folder.parent / "home" / ".cache" / "marks", lore.folder / "place"
        self.marks.mkdir(parents=True)
        self.place.mkdir()
        program = lore.write("agent.sh", "#!/bin/sh\n" + AGENT.format(script=script).replace("$MARKS", str(self.marks)))
        os.chmod(program, 0o755)
        check = check.replace("$MARKS", str(self.marks))
        lore.write(
            "goal.toml",
            f"id = '{GOAL}'\ndescription = 'Write done.txt'\nharness = 'command'\ncommand = ['{program}']\nworkspace = 'place'\n{more}\n"
            + (f"[[acceptance]]\ncommand = '''{check}'''\n" if check else ""),
        )
        self._is_begun = False

    def kill_at(self, mark: str) -> None:
        """Begin or resume the goal, and kill the driver once the mark is there."""
        argv = ["resume", GOAL] if self._is_begun else ["run", "goal.toml"]
        self._is_begun = True
        process = self.lore.start("--log", LOG, "goal", *argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            _wait_for(self.marks / mark, process)
        finally:
            process.kill()
            process.communicate()
        assert process.returncode == -signal.SIGKILL

    def resume(self, code: int) -> Any:
        return self.lore("--log", LOG, "goal", "resume", GOAL, code=code)

    def show(self) -> Any:
        return self.lore("--log", LOG, "goal", "show", GOAL, "--json", code=0).json

    @property
    def attempts(self) -> int:
        return len((self.marks / "attempts").read_text().splitlines())


def _wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = monotonic() + PATIENCE
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert monotonic() < deadline, path
        os.sched_yield()


def _make_repository(place: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(place)]
    for argv in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "begin"]):
        subprocess.run([*git, *argv], check=True)


@pytest.mark.parametrize("workspace", ["folder", "worktree", "in place"])
def test_work_that_was_done_before_the_crash_is_accepted_and_not_repeated(lore: Lore, workspace: str) -> None:
    goal = Crashed(lore, "touch done.txt", more="isolation = 'none'" if workspace == "in place" else "")
    if workspace != "folder":
        _make_repository(goal.place)
    goal.kill_at("working-1")
    recorded = goal.resume(code=0)
    assert "all criteria are met" in recorded.out
    shown = goal.show()
    assert (shown["state"], shown["spent"]["turns"], goal.attempts) == ("done", 1, 1)
    [work] = [line.removeprefix("the work: ") for line in recorded.lines if line.startswith("the work: ")]
    folder = work.partition(", in ")[2].partition(";")[0] if ", in " in work else work
    assert (Path(folder) / "done.txt").exists(), "what was accepted is there"


def test_many_crashes_are_no_errors_of_the_agent(lore: Lore) -> None:
    """More crashes than errors are allowed: each turn is repeated, and the work is accepted once it is done."""
    goal = Crashed(lore, "echo half >> part.txt", check="test -e $MARKS/go", more="[budget]\nmax_consecutive_errors = 3")
    for number in range(1, 6):
        goal.kill_at(f"working-{number}")
    (goal.marks / "go").touch()
    assert "all criteria are met" in goal.resume(code=0).out
    shown = goal.show()
    assert (shown["state"], shown["spent"]["errors"], goal.attempts) == ("done", 0, 5)


def test_a_person_may_resume_a_goal_however_often_it_crashed(lore: Lore) -> None:
    goal = Crashed(lore, "echo half >> part.txt; test ! -e $MARKS/go || touch done.txt")
    for number in range(1, 13):
        goal.kill_at(f"working-{number}")
    (goal.marks / "go").touch()
    goal.resume(code=0)
    assert (goal.show()["state"], goal.attempts) == ("done", 13)


def test_a_driver_that_is_killed_in_the_check_after_a_crash_is_followed_by_one_that_checks_again(lore: Lore) -> None:
    check = "echo x >> $MARKS/checks; touch $MARKS/checking-$(wc -l < $MARKS/checks); test -e $MARKS/go || sleep 600; test -e done.txt"
    goal = Crashed(lore, "touch done.txt", check=check)
    goal.kill_at("working-1")
    goal.kill_at("checking-1")
    goal.kill_at("checking-2")
    (goal.marks / "go").touch()
    goal.resume(code=0)
    assert (goal.show()["state"], goal.attempts) == ("done", 1)


@pytest.mark.parametrize("check", ["true", ""], ids=["criteria that hold from the start", "no criteria"])
def test_an_agent_that_did_nothing_before_the_crash_gets_its_turn(lore: Lore, check: str) -> None:
    goal = Crashed(lore, "", check=check)
    goal.kill_at("working-1")
    (goal.marks / "go").touch()
    goal.resume(code=0)
    assert (goal.show()["state"], goal.attempts) == ("done", 2)
