"""A driver that dies at any moment: its successor reaches the same end, and no turn runs twice unless the log shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec
import pytest

from fleetlore import connect
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Compaction
from fleetlore.goal.next_step import MAX_CRASHES
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.seal import OperatorKey, is_trusted_event, make_seal
from fleetlore.programs.harness import TurnProgress, TurnRequest, TurnResult, Watch
from fleetlore.views import goals
from fleetlore.views.goal_state import GoalState
from tests.goal.scripted import GOAL, Clock, DriverSetup, FakeChecker, done, goal, make_driver

TURNS = 10


class Dead(BaseException):
    """The process died."""


class DyingLog:
    """A log whose user dies at its nth write, just before or just after it is stored. After that nothing is written."""

    def __init__(self, log: BlockingRecorder, at: int, *, after: bool) -> None:
        self._log, self._left, self._after, self._is_dead = log, at, after, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append(self, events: Sequence[Event], **more: Any) -> list[str]:
        return self._write(lambda: self._log.append(events, **more))

    def append_all(self, events: Sequence[Event]) -> list[str]:
        return self._write(lambda: self._log.append_all(events))

    def _write(self, store: Any) -> list[str]:
        if self._is_dead:
            raise Dead
        self._left -= 1
        if self._left > 0:
            return cast("list[str]", store())
        self._is_dead = True
        if self._after:
            store()
        raise Dead


class World:
    """What agents have done, each action with the attempt in which it was done."""

    def __init__(self) -> None:
        self.actions: list[tuple[int, str]] = []

    async def work(self, order: TurnRequest, watch: Watch) -> TurnResult:
        await watch(TurnProgress(session=order.session or order.new_session))
        self.actions.append((order.turn, order.mark))
        return done(f"turn {order.turn}", tokens=100)


@pytest.fixture
def log() -> Iterator[BlockingRecorder]:
    with connect("memory:").blocking() as log:
        yield log


async def outcome(log: Any, world: World, *, begins: bool) -> str | None:
    """Run the goal until it ends, or the driver dies. The check passes after that many turns' worth of actions."""
    setup = make_driver(log, [world.work])

    class Enough:
        start, digest = setup.checker.start, setup.checker.digest

        async def check(self, *_: Any, **__: Any) -> Any:
            setup.checker.met = (len({turn for turn, _ in world.actions}) >= TURNS,)
            return await setup.checker.check(*_, **__)

    setup.resources.verifiers = Enough()
    if begins:
        await setup.driver.start(goal(budget={"max_turns": TURNS}))
    return (await setup.driver.run_goal()).outcome


async def writes_of_a_whole_goal() -> int:
    with connect("memory:").blocking() as log:
        counted = DyingLog(log, 10**9, after=False)
        assert await outcome(counted, World(), begins=True) == "done"
        return 10**9 - counted._left


async def test_killed_at_every_boundary_it_comes_to_the_same_end() -> None:
    writes = await writes_of_a_whole_goal()
    assert writes > 3 * TURNS
    for at in range(2, writes + 1):
        for after in (False, True):
            with connect("memory:").blocking() as log:
                await killed_once(log, at, after=after)


async def killed_once(log: BlockingRecorder, at: int, *, after: bool) -> None:
    world = World()
    with pytest.raises(Dead):
        await outcome(DyingLog(log, at, after=after), world, begins=True)
    assert await outcome(log, world, begins=False) == "done"
    events = list(log.read(f"goal:{GOAL}"))
    started = {event.id: event for event in events if event.kind == "driver.attempt_started"}
    assert {mark for _, mark in world.actions} <= set(started)  # what was done is in the log
    cut_short = [
        event for event in events if event.data.get("result", {}).get("harness_extras", {}).get("fleetlore.complaint") == "crashed"
    ]
    repeated = sum(Counter(turn for turn, _ in world.actions).values()) - TURNS
    assert repeated <= len(cut_short) <= 1
    [completed] = [event for event in events if event.kind == "driver.goal_completed"]
    assert completed.data["outcome"]["total_turns"] == TURNS
    assert max(Counter(mark for _, mark in world.actions).values()) == 1  # one attempt, one action


async def test_killed_again_and_again_it_still_comes_to_its_end(log: BlockingRecorder) -> None:
    world, begins = World(), True
    for at in (5, 4, 7, 6, 3):
        with pytest.raises(Dead):
            await outcome(DyingLog(log, at, after=at % 2 == 0), world, begins=begins)
        begins = False
    assert await outcome(log, world, begins=False) == "done"
    cut_short = sum("crashed" in str(event.data) for event in log.read(f"goal:{GOAL}", kinds=["driver.attempt_completed"]))
    assert len(world.actions) - TURNS <= cut_short


class Troubles:
    """An agent to which everything happens that need not end a goal."""

    def __init__(self) -> None:
        self.marks: list[str] = []
        self.clock = Clock(step=60)

    async def work(self, order: TurnRequest, watch: Watch) -> TurnResult:
        self.marks.append(order.mark)
        await watch(TurnProgress(session=order.session or order.new_session))
        befalls = {
            1: done(context=90_000),
            3: TurnResult(how="failed", error="No conversation found with session ID: 7"),
            4: TurnResult(how="failed", error="prompt is too long: 210000 tokens > 200000 maximum"),
            5: TurnResult(how="failed", error="rate limited", status=429),
            6: TurnResult(how="asleep", words="the build runs", sleep_ms=10),
        }
        return done("Half done.") if order.is_summary else befalls.get(len(self.marks), done(f"turn {order.turn}"))

    async def outcome(self, log: Any, *, begins: bool) -> str | None:
        """Met after eight attempts."""
        setup = make_driver(log, [self.work], clock=self.clock)
        check = setup.checker.check

        async def enough(*args: Any, **more: Any) -> Any:
            setup.checker.met = (len(self.marks) >= 8,)
            return await check(*args, **more)

        setup.checker.check = enough  # type: ignore[method-assign]
        if begins:
            await setup.driver.start(goal(compaction=Compaction(context_window=100_000), stuck_after=0))
        return (await setup.driver.run_goal()).outcome


async def test_killed_at_every_boundary_of_a_goal_full_of_troubles() -> None:
    with connect("memory:").blocking() as log:
        counted = DyingLog(log, 10**9, after=False)
        assert await Troubles().outcome(counted, begins=True) == "done"
    for at in range(2, 10**9 - counted._left + 1):
        with connect("memory:").blocking() as log:
            troubles = Troubles()
            with pytest.raises(Dead):
                await troubles.outcome(DyingLog(log, at, after=at % 2 == 0), begins=True)
            assert await troubles.outcome(log, begins=False) == "done"
            assert len(set(troubles.marks)) == len(troubles.marks)
            completed = list(log.read(f"goal:{GOAL}", kinds=["driver.goal_completed"]))
            assert len(completed) == 1


# --- what a lost turn left behind is checked before it is repeated


class Crashing:
    """Successive drivers on one log; counts the agent's attempts and the checks of all of them."""

    def __init__(self, log: BlockingRecorder, key: OperatorKey | None = None) -> None:
        self.log, self.key, self.attempts, self.checks = log, key, 0, 0

    async def start(self, *, budget: dict[str, Any] | None = None, **fields: Any) -> None:
        await self._lead("", met=False).driver.start(msgspec.structs.replace(goal(budget=budget), **fields))

    async def crash(self, dies_in: str, *, met: bool = False) -> None:
        """Run until the driver dies, in the `turn` or in the `check`."""
        with pytest.raises(Dead):
            await self._lead(dies_in, met=met).driver.run_goal()

    async def finish(self, *, met: bool = True) -> GoalState:
        return await self._lead("", met=met).driver.run_goal()

    def _lead(self, dies_in: str, *, met: bool) -> DriverSetup:
        async def work(order: TurnRequest, watch: Watch) -> TurnResult:
            self.attempts += 1
            await watch(TurnProgress(events=[Event(kind="model.replied", agent="ada", data={"input": 30, "output": 10})]))
            if dies_in == "turn":
                await setup.driver.journal.flush()
                die()
            return done(tokens=40)

        async def check(*args: Any, **more: Any) -> Any:
            self.checks += 1
            if dies_in == "check":
                die()
            return await FakeChecker((met,)).check(*args, **more)

        def die() -> None:
            setup.driver.journal.flush = setup.driver.journal.append = dead  # type: ignore[method-assign, assignment]
            raise Dead

        async def dead(*_: Any, **__: Any) -> None:
            raise Dead

        setup = make_driver(self.log, [work], key=self.key)
        setup.checker.check = check  # type: ignore[method-assign]
        return setup

    def state(self) -> GoalState:
        """The goal's state as pages and commands fold it."""
        view = goals.initial()
        for event in self.log.read(f"goal:{GOAL}"):
            view = goals.apply(view, event)
        return view.goals[GOAL]


async def test_a_crashed_turn_whose_work_meets_the_criteria_is_not_repeated(log: BlockingRecorder) -> None:
    drivers = Crashing(log)
    await drivers.start()
    await drivers.crash("turn")
    state = await drivers.finish()
    assert (state.outcome, state.spent.turns, state.spent.tokens, state.spent.errors) == ("done", 1, 40, 0)
    assert (drivers.attempts, drivers.checks) == (1, 1)
    assert state.verdict is not None
    assert state.verdict.met
    assert msgspec.structs.replace(drivers.state(), position=None) == msgspec.structs.replace(state, position=None)


async def test_crashes_are_not_errors_and_a_turn_whose_work_does_not_do_is_repeated(log: BlockingRecorder) -> None:
    drivers = Crashing(log)
    await drivers.start(budget={"max_consecutive_errors": 2})
    for _ in range(MAX_CRASHES - 1):
        await drivers.crash("turn")
        assert drivers.state().spent.errors == 0
    assert drivers.state().outcome is None
    state = await drivers.finish(met=False)
    assert (state.outcome, state.why) == ("budget_exhausted", "turns")


async def test_the_check_after_a_crash_is_made_again_if_the_driver_dies_in_it(log: BlockingRecorder) -> None:
    drivers = Crashing(log)
    await drivers.start()
    await drivers.crash("turn")
    for _ in range(3):
        await drivers.crash("check")
    state = await drivers.finish()
    assert (state.outcome, state.spent.turns, drivers.attempts, drivers.checks) == ("done", 1, 1, 4)


async def test_without_criteria_a_crashed_turn_is_repeated(log: BlockingRecorder) -> None:
    drivers = Crashing(log)
    await drivers.start(acceptance=())
    await drivers.crash("turn")
    assert ((await drivers.finish()).outcome, drivers.attempts, drivers.checks) == ("done", 2, 1)


async def test_a_goal_that_was_cancelled_meanwhile_is_not_checked(log: BlockingRecorder) -> None:
    drivers = Crashing(log)
    await drivers.start()
    await drivers.crash("turn")
    log.append([Event(kind="control.requested", actor="eve", goal=GOAL, data={"action": "cancel"})])
    assert ((await drivers.finish()).outcome, drivers.attempts, drivers.checks) == ("cancelled", 1, 0)


@pytest.mark.parametrize("dies_in", ["turn", "check"])
async def test_a_goal_that_crashes_without_end_needs_a_person_who_may_try_again(log: BlockingRecorder, dies_in: str) -> None:
    drivers = Crashing(log)
    await drivers.start()
    for _ in range(MAX_CRASHES + (dies_in == "check")):
        await drivers.crash(dies_in)
    attempts = drivers.attempts
    state = await drivers.finish(met=False)
    assert state.outcome == "escalate"
    assert "crashed" in state.why
    assert drivers.attempts == attempts
    log.append([Event(kind="control.requested", actor="eve", goal=GOAL, data={"action": "resume"})])
    assert ((await drivers.finish()).outcome, drivers.attempts) == ("done", attempts + 1)


async def test_work_that_is_done_is_accepted_however_often_its_driver_crashed(log: BlockingRecorder) -> None:
    drivers = Crashing(log)
    await drivers.start()
    for _ in range(MAX_CRASHES):
        await drivers.crash("turn")
    assert ((await drivers.finish()).outcome, drivers.attempts) == ("done", MAX_CRASHES)


async def test_on_a_sealed_log_what_was_checked_after_a_crash_is_signed(log: BlockingRecorder) -> None:
    _, key = make_seal("correct horse battery", cost=2)
    drivers = Crashing(log, key)
    await drivers.start()
    await drivers.crash("turn")
    assert (await drivers.finish()).outcome == "done"
    kinds = ("driver.acceptance", "driver.attempt_completed", "driver.goal_completed")
    recorded = list(log.read(f"goal:{GOAL}", kinds=kinds))
    assert [event.kind for event in recorded] == list(kinds)
    assert all(is_trusted_event(event, key.goal_key(GOAL)) for event in recorded)
