"""A goal whose agent, workspace and criteria go by a script: the driver around them is the real one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

import msgspec

from fleetlore.events.driver_types import BudgetGuards, Failure, Goal, ShellCommand, Verdict
from fleetlore.events.goal_plan import KEY, Plan
from fleetlore.goal.driver import Driver
from fleetlore.goal.resources import GoalResources
from fleetlore.log.coordination import open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.models.base import Model
from fleetlore.programs.harness import Ended, Heard, Order, Watch

GOAL = "3f2b8c1e-0000-4000-8000-000000000042"
START = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)

Move: TypeAlias = "Ended | Callable[[Order, Watch], Awaitable[Ended]]"
"""How a turn ends, or what happens in it."""


class Clock:
    """Time that goes on by itself, a second each time that somebody looks."""

    def __init__(self, step: float = 1.0) -> None:
        self.moment, self.step = START, step

    def __call__(self) -> datetime:
        self.moment += timedelta(seconds=self.step)
        return self.moment


@dataclass
class ScriptedHarness:
    """Takes turns by a script, and counts those that it really took."""

    moves: Sequence[Move]
    name: str = "command"
    has_sessions: bool = True
    orders: list[Order] = field(default_factory=list)
    on_turn: Callable[[Order], None] = lambda order: None

    async def take_turn(self, order: Order, watch: Watch) -> Ended:
        self.orders.append(order)
        self.on_turn(order)
        move = self.moves[min(len(self.orders), len(self.moves)) - 1]
        if not isinstance(move, Ended):
            return await move(order, watch)
        session = order.session or order.new_session
        stop = await watch(Heard(session=session, tokens=move.tokens, usd=move.usd, words=move.words))
        return move if stop is None else msgspec.structs.replace(move, how=stop)


class Saved(NamedTuple):
    sha: str


class Change(NamedTuple):
    stat: str


@dataclass
class Room:
    """A workspace that is only spoken of."""

    path: str = "/work"
    rolled_back: list[str] = field(default_factory=list)
    trees: int = 0

    def checkpoint(self, turn: int) -> Saved:
        return Saved(f"{turn:040x}")

    def roll_back(self, sha: str) -> None:
        self.rolled_back.append(sha)

    def tree(self) -> str:
        self.trees += 1
        return str(self.trees)

    def diff(self, sha: str) -> Change:
        return Change("1 file changed")


class Looked(NamedTuple):
    verdict: Verdict
    put_back: Sequence[str] = ()


@dataclass
class Judges:
    """Verdicts by a script; the last one goes on."""

    met: Sequence[bool] = (True,)
    checks: int = 0
    start: str = "0" * 40
    digest: str = "d1ge57"

    async def check(self, goal: Goal, place: Any, *, judge: Model | None, cancel: asyncio.Event, words: str = "") -> Looked:
        met = self.met[min(self.checks, len(self.met) - 1)]
        self.checks += 1
        failure = Failure(criterion_index=0, criterion_label="shell:make test", message="exit 1 != 0", evidence="2 failed")
        return Looked(Verdict(met=met, failures=() if met else (failure,), evaluated_at="2026-11-16T09:00:00Z", elapsed_ms=5))


def goal(*, budget: dict[str, Any] | None = None, id: str = GOAL, **plan: Any) -> Goal:
    """A goal with one criterion."""
    guards: dict[str, Any] = {"max_turns": 20, "max_wall_time": "4h", "max_tokens": 100_000, "max_consecutive_denies": 3} | (budget or {})
    chosen: dict[str, Any] = {"harness": "command", "agent": "ada", "progress_every": 0} | plan
    made = Plan(**chosen)
    return Goal(
        id=id,
        description="Mend the parser",
        acceptance=(ShellCommand(command="make test"),),
        budget=BudgetGuards(**guards),
        workspace="/work",
        metadata={KEY: msgspec.to_builtins(made)},
    )


def done(words: str = "Done.", *, tokens: int = 100, usd: float | None = 0.01, **more: Any) -> Ended:
    """A turn in which the agent says that it is done."""
    return Ended(how="finished", words=words, tokens=tokens, usd=usd, **more)


class Led(NamedTuple):
    """A driver, and what it was given."""

    driver: Driver
    harness: ScriptedHarness
    room: Room
    judges: Judges
    crew: GoalResources


def lead(
    log: BlockingRecorder,
    moves: Sequence[Move],
    *,
    met: Iterable[bool] = (True,),
    clock: Callable[[], datetime] | None = None,
    id: str = GOAL,
    **more: Any,
) -> Led:
    """A driver of a goal whose agent goes by a script."""
    harness, room, judges = ScriptedHarness(moves), Room(), Judges(tuple(met))
    extra = {name: more.pop(name) for name in ("memory", "thinker") if name in more}
    crew = GoalResources(harness=harness, workspace=room, verifiers=judges, **extra)
    shared = more.pop("shared", None) or open_shared("memory:").__enter__()
    driver = Driver(log, id, crew, shared=shared, now=clock or Clock(), **more)
    return Led(driver, harness, room, judges, crew)


def kinds(log: BlockingRecorder, *, id: str = GOAL, but: Sequence[str] = ("context.built",)) -> list[str]:
    """The kinds of a goal's events, in order."""
    return [event.kind for event in log.read(f"goal:{id}") if event.kind not in but]
