"""Our driver alone: the agent answers at once, the workspace is a stub, and the criteria fail until the last turn.

What is left is the loop: decide, record, store, fold, build prompts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast
from uuid import uuid4

import msgspec

from fleetlore import connect
from fleetlore.events.driver_types import BudgetGuards, Failure, Goal, ShellCommand, Verdict
from fleetlore.events.goal_plan import KEY, Plan
from fleetlore.goal.acceptance.judging_copy import TouchedFile
from fleetlore.goal.driver import Driver
from fleetlore.goal.resources import GoalResources
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import Record
from fleetlore.log.coordination import Coordination, open_shared
from fleetlore.models.base import Model
from fleetlore.programs.harness import TurnProgress, TurnRequest, TurnResult, Watch

WORDS = "I changed the parser in three places and ran the tests; two of them still fail, and I know why."
EVIDENCE = "FAILED tests/test_parser.py::test_comments - AssertionError: expected 3 tokens, found 2\n" * 4
TOKENS = 1200


class Agent:
    """Says the same every time, and has one session."""

    name = "command"
    has_sessions = True

    async def take_turn(self, order: TurnRequest, watch: Watch) -> TurnResult:
        session = order.session or order.new_session
        await watch(TurnProgress(session=session, tokens=TOKENS, words=WORDS))
        return TurnResult(how="finished", words=WORDS, tokens=TOKENS, session=session)


class Saved(NamedTuple):
    sha: str


class Change(NamedTuple):
    stat: str


class Nowhere:
    """A workspace in which nothing happens."""

    path = "/nowhere"

    def __init__(self) -> None:
        self._looks = 0

    def checkpoint(self, turn: int) -> Saved:
        return Saved(f"{turn:040x}")

    def roll_back(self, sha: str) -> None:
        raise AssertionError("nothing went wrong")

    def compute_digest(self) -> str:
        self._looks += 1
        return str(self._looks)

    def diff(self, sha: str) -> Change:
        return Change("1 file changed, 3 insertions(+)")


class CheckResult(NamedTuple):
    verdict: Verdict
    touched: tuple[TouchedFile, ...] = ()
    walls: tuple[str, ...] | None = None


class Checks:
    """Not met until so many turns are over."""

    start, digest = "0" * 40, "d1ge57"

    def __init__(self, turns: int) -> None:
        self._left = turns

    async def check(self, goal: Goal, place: Any, *, judge: Model | None, cancel: asyncio.Event, words: str = "") -> CheckResult:
        self._left -= 1
        return CheckResult(Verdict(met=self._left <= 0, failures=failures(self._left), evaluated_at="2026-11-16T09:00:00Z", elapsed_ms=5))


def failures(left: int) -> tuple[Failure, ...]:
    """What does not hold with so many turns left."""
    failure = Failure(criterion_index=0, criterion_label="shell:make test", message="exit 1 != 0", evidence=EVIDENCE)
    return (failure,) if left > 0 else ()


class Counted:
    """A log that counts how often something is stored."""

    def __init__(self, log: Recorder) -> None:
        self._log, self.commits = log, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append_records(self, records: Sequence[Record], **more: Any) -> list[str]:
        self.commits += 1
        return await self._log.append_records(records, **more)


class Ours:
    """The driver on a log of its own."""

    def __init__(self, path: Path) -> None:
        url = f"sqlite:{path}"
        self._shared: Coordination = open_shared(url).__enter__()
        self._runner = asyncio.Runner()
        self._log: Recorder = self._runner.run(connect(url).__aenter__())

    def pursue(self, turns: int) -> None:
        """One goal of so many turns, from its first event to its last."""
        self._runner.run(self._pursue(turns, self._log))

    def commits_of(self, turns: int) -> float:
        """Durable commits a turn, counted in a run that is not timed."""
        counted = Counted(self._log)
        self._runner.run(self._pursue(turns, cast(Recorder, counted)))
        return counted.commits / turns

    async def _pursue(self, turns: int, log: Recorder) -> None:
        goal = goal_of(turns)
        resources = GoalResources(harness=Agent(), workspace=Nowhere(), verifiers=Checks(turns))
        driver = Driver(log, goal.id, resources, shared=self._shared)
        await driver.start(goal)
        state = await driver.run_goal()
        assert (state.outcome, state.spent.turns) == ("done", turns)

    def close(self) -> None:
        """Let go of the files."""
        self._runner.run(self._log.close())
        self._runner.close()
        self._shared.__exit__(None, None, None)


def goal_of(turns: int) -> Goal:
    """A goal that takes so many turns."""
    return Goal(
        id=str(uuid4()),
        description="Fix the parser so that all of its tests pass",
        acceptance=(ShellCommand(command="make test"),),
        budget=BudgetGuards(max_turns=turns + 1, max_wall_time="4h", max_tokens=10**9, max_consecutive_denies=3),
        workspace="/nowhere",
        metadata={KEY: msgspec.to_builtins(Plan(harness="command", agent="ada", stuck_after=0))},
    )
