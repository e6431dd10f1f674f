"""A driver that dies at any moment: whoever takes the goal up comes to the same end, and no turn is taken twice unless the log says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest

from fleetlore import connect
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Compaction
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.minds.harness import Ended, Heard, Order, Watch
from tests.runtime.driver.scripted import GOAL, Clock, done, goal, lead

TURNS = 10


class Dead(BaseException):
    """The process is gone."""


class DyingLog:
    """A log whose user dies at its nth write: just before it is stored, or just after. Then nothing is written any more."""

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
    """What agents have done to it, each deed with the attempt in which it was done."""

    def __init__(self) -> None:
        self.deeds: list[tuple[int, str]] = []

    async def work(self, order: Order, watch: Watch) -> Ended:
        await watch(Heard(session=order.session or order.new_session))
        self.deeds.append((order.turn, order.mark))
        return done(f"turn {order.turn}", tokens=100)


@pytest.fixture
def log() -> Iterator[BlockingRecorder]:
    with connect("memory:").blocking() as log:
        yield log


async def outcome(log: Any, world: World, *, begins: bool) -> str | None:
    """Pursue the goal until it ends, or the driver does. The check is met after so many turns' worth of deeds."""
    led = lead(log, [world.work])

    class Enough:
        start, digest = led.judges.start, led.judges.digest

        async def check(self, *_: Any, **__: Any) -> Any:
            led.judges.met = (len({turn for turn, _ in world.deeds}) >= TURNS,)
            return await led.judges.check(*_, **__)

    led.crew.verifiers = Enough()
    if begins:
        await led.driver.start(goal(budget={"max_turns": TURNS}))
    return (await led.driver.pursue()).outcome


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
    assert {mark for _, mark in world.deeds} <= set(started)  # what was done is on the log
    cut_short = [
        event for event in events if event.data.get("result", {}).get("harness_extras", {}).get("fleetlore.complaint") == "crashed"
    ]
    repeated = sum(Counter(turn for turn, _ in world.deeds).values()) - TURNS
    assert repeated <= len(cut_short) <= 1
    [completed] = [event for event in events if event.kind == "driver.goal_completed"]
    assert completed.data["outcome"]["total_turns"] == TURNS
    assert max(Counter(mark for _, mark in world.deeds).values()) == 1  # one attempt, one deed


async def test_killed_again_and_again_it_still_comes_to_its_end(log: BlockingRecorder) -> None:
    world, begins = World(), True
    for at in (5, 4, 7, 6, 3):
        with pytest.raises(Dead):
            await outcome(DyingLog(log, at, after=at % 2 == 0), world, begins=begins)
        begins = False
    assert await outcome(log, world, begins=False) == "done"
    cut_short = sum("crashed" in str(event.data) for event in log.read(f"goal:{GOAL}", kinds=["driver.attempt_completed"]))
    assert len(world.deeds) - TURNS <= cut_short


class Troubles:
    """An agent to whom everything happens that need not end a goal."""

    def __init__(self) -> None:
        self.marks: list[str] = []
        self.clock = Clock(step=60)

    async def work(self, order: Order, watch: Watch) -> Ended:
        self.marks.append(order.mark)
        await watch(Heard(session=order.session or order.new_session))
        befalls = {
            1: done(context=90_000),
            3: Ended(how="failed", error="No conversation found with session ID: 7"),
            4: Ended(how="failed", error="prompt is too long: 210000 tokens > 200000 maximum"),
            5: Ended(how="failed", error="rate limited", status=429),
            6: Ended(how="asleep", words="the build runs", sleep_ms=10),
        }
        return done("Half done.") if order.is_summary else befalls.get(len(self.marks), done(f"turn {order.turn}"))

    async def outcome(self, log: Any, *, begins: bool) -> str | None:
        """Met after eight attempts."""
        led = lead(log, [self.work], clock=self.clock)
        check = led.judges.check

        async def enough(*args: Any, **more: Any) -> Any:
            led.judges.met = (len(self.marks) >= 8,)
            return await check(*args, **more)

        led.judges.check = enough  # type: ignore[method-assign]
        if begins:
            await led.driver.start(goal(compaction=Compaction(context_window=100_000), stuck_after=0))
        return (await led.driver.pursue()).outcome


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
