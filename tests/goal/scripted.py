"""A driver with a fake harness, workspace and checker, which follow a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from fleetlore.events import codec
from fleetlore.events.driver_types import BudgetGuards, Failure, Goal, ShellCommand, Verdict
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import KEY, Plan
from fleetlore.goal.acceptance.judging_copy import TouchedFile
from fleetlore.goal.driver import Driver
from fleetlore.goal.resources import GoalResources
from fleetlore.log.admission import Admission
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import Expect, Position, Record
from fleetlore.log.coordination import open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.models.base import Model
from fleetlore.programs.harness import TurnProgress, TurnRequest, TurnResult, Watch

GOAL = "3f2b8c1e-0000-4000-8000-000000000042"
START = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)

ScriptedTurn: TypeAlias = "TurnResult | Callable[[TurnRequest, Watch], Awaitable[TurnResult]]"
"""How a turn ends, or a function that runs it."""


class Clock:
    """A clock that advances by `step` seconds each time it is read."""

    def __init__(self, step: float = 1.0) -> None:
        self.moment, self.step = START, step

    def __call__(self) -> datetime:
        self.moment += timedelta(seconds=self.step)
        return self.moment


@dataclass
class ScriptedHarness:
    """Runs turns from a script (the last one repeats), and keeps the orders that it got."""

    turns: Sequence[ScriptedTurn]
    name: str = "command"
    has_sessions: bool = True
    orders: list[TurnRequest] = field(default_factory=list)
    on_turn: Callable[[TurnRequest], None] = lambda order: None

    async def take_turn(self, order: TurnRequest, watch: Watch) -> TurnResult:
        self.orders.append(order)
        self.on_turn(order)
        turn = self.turns[min(len(self.orders), len(self.turns)) - 1]
        if not isinstance(turn, TurnResult):
            return await turn(order, watch)
        session = order.session or order.new_session
        stop = await watch(TurnProgress(session=session, tokens=turn.tokens, usd=turn.usd, words=turn.words))
        return turn if stop is None else msgspec.structs.replace(turn, how=stop)


class FakeCheckpoint(NamedTuple):
    sha: str


class FakeDiff(NamedTuple):
    stat: str


@dataclass
class FakeWorkspace:
    """A workspace without files."""

    path: str = "/work"
    rolled_back: list[str] = field(default_factory=list)
    trees: int = 0

    def checkpoint(self, turn: int) -> FakeCheckpoint:
        return FakeCheckpoint(f"{turn:040x}")

    def roll_back(self, sha: str) -> None:
        self.rolled_back.append(sha)

    def compute_digest(self) -> str:
        self.trees += 1
        return str(self.trees)

    def diff(self, sha: str) -> FakeDiff:
        return FakeDiff("1 file changed")


class FakeCheckResult(NamedTuple):
    verdict: Verdict
    touched: Sequence[TouchedFile] = ()
    walls: Sequence[str] | None = None


@dataclass
class FakeChecker:
    """Verdicts from a script; the last one repeats."""

    met: Sequence[bool] = (True,)
    checks: int = 0
    start: str = "0" * 40
    digest: str = "d1ge57"

    async def check(self, goal: Goal, workspace: Any, *, judge: Model | None, cancel: asyncio.Event, words: str = "") -> FakeCheckResult:
        met = self.met[min(self.checks, len(self.met) - 1)]
        self.checks += 1
        failure = Failure(criterion_index=0, criterion_label="shell:make test", message="exit 1 != 0", evidence="2 failed")
        return FakeCheckResult(Verdict(met=met, failures=() if met else (failure,), evaluated_at="2026-11-16T09:00:00Z", elapsed_ms=5))


def goal(*, budget: dict[str, Any] | None = None, id: str = GOAL, **plan: Any) -> Goal:
    """A goal with one criterion."""
    guards: dict[str, Any] = {"max_turns": 20, "max_wall_time": "4h", "max_tokens": 100_000, "max_consecutive_denies": 3} | (budget or {})
    plan_fields: dict[str, Any] = {"harness": "command", "agent": "ada", "progress_every": 0} | plan
    plan_struct = Plan(**plan_fields)
    return Goal(
        id=id,
        description="Mend the parser",
        acceptance=(ShellCommand(command="make test"),),
        budget=BudgetGuards(**guards),
        workspace="/work",
        metadata={KEY: msgspec.to_builtins(plan_struct)},
    )


def done(words: str = "Done.", *, tokens: int = 100, usd: float | None = 0.01, **more: Any) -> TurnResult:
    """A turn in which the agent reports that it is done."""
    return TurnResult(how="finished", words=words, tokens=tokens, usd=usd, **more)


class AsyncLog:
    """The asyncio front of a log that a test may have wrapped: calls its methods in threads, as the test sees them."""

    def __init__(self, log: BlockingRecorder) -> None:
        self._log = log
        self.admission: Admission = log.backend_and_admission()[1]

    async def append_records(self, records: Sequence[Record], *, expect: Expect | None = None) -> list[Position]:
        events = [codec.decode_event(record.raw) for record in records]
        return await asyncio.to_thread(self._log.append, events, expect=expect)

    async def read(self, scope: str, **options: Any) -> AsyncGenerator[Event, None]:
        for event in await asyncio.to_thread(lambda: list(self._log.read(scope, **options))):
            yield event

    async def head(self, scope: str) -> Position | None:
        return await asyncio.to_thread(self._log.head, scope)

    async def get(self, ids: Sequence[str]) -> list[Event]:
        return await asyncio.to_thread(self._log.get, ids)


class DriverSetup(NamedTuple):
    """A driver, and the fakes that it works with."""

    driver: Driver
    harness: ScriptedHarness
    workspace: FakeWorkspace
    checker: FakeChecker
    resources: GoalResources


def make_driver(
    log: BlockingRecorder,
    turns: Sequence[ScriptedTurn],
    *,
    met: Iterable[bool] = (True,),
    clock: Callable[[], datetime] | None = None,
    id: str = GOAL,
    **more: Any,
) -> DriverSetup:
    """A driver of a goal whose agent follows a script."""
    harness, workspace, checker = ScriptedHarness(turns), FakeWorkspace(), FakeChecker(tuple(met))
    resource_options = {name: more.pop(name) for name in ("memory", "thinker") if name in more}
    resources = GoalResources(harness=harness, workspace=workspace, verifiers=checker, **resource_options)
    shared = more.pop("shared", None) or open_shared("memory:").__enter__()
    driver = Driver(cast(Recorder, AsyncLog(log)), id, resources, shared=shared, now=clock or Clock(), **more)
    return DriverSetup(driver, harness, workspace, checker, resources)


def kinds(log: BlockingRecorder, *, id: str = GOAL, but: Sequence[str] = ("context.built",)) -> list[str]:
    """The kinds of a goal's events, in order, without those in `but`."""
    return [event.kind for event in log.read(f"goal:{id}") if event.kind not in but]
