"""A program that drives a goal of ten turns, and kills itself with -9 at one of its writes to the log, just before it or just after.

`python -m tests.faults.driven FOLDER [WRITE before|after]`: the log is `goal.db` in the folder, and what the agent did to the world stands
in `deeds.txt`, a line a deed. It begins the goal, or takes it up where the log ends; without a write to die at it says how the goal ended,
and how many writes that took.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from fleetlore import connect
from fleetlore.events.envelope import Event
from fleetlore.log.coordination import open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.programs.harness import TurnProgress, TurnRequest, TurnResult, Watch
from tests.goal.scripted import GOAL, FakeChecker, done, goal, make_driver

TURNS = 10
NEVER = 10**9


class MortalLog:
    """A log whose process is killed at its nth write."""

    def __init__(self, log: BlockingRecorder, at: int, *, after: bool) -> None:
        self._log, self._at, self._after, self.writes = log, at, after, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append(self, events: Sequence[Event], **more: Any) -> list[str]:
        return self._write(lambda: self._log.append(events, **more))

    def append_all(self, events: Sequence[Event]) -> list[str]:
        return self._write(lambda: self._log.append_all(events))

    def _write(self, store: Callable[[], list[str]]) -> list[str]:
        self.writes += 1
        if self.writes == self._at and not self._after:
            _die()
        positions = store()
        if self.writes == self._at:
            _die()
        return positions


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def actions_in(folder: Path) -> list[tuple[int, str]]:
    """What was done, each deed with its turn and the mark of its attempt."""
    file = folder / "deeds.txt"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(turn), mark) for turn, mark in map(str.split, lines)]


async def drive(folder: Path, at: int, *, after: bool) -> None:
    """Begin the goal, or go on with it."""

    async def work(order: TurnRequest, watch: Watch) -> TurnResult:
        await watch(TurnProgress(session=order.session or order.new_session))
        with (folder / "deeds.txt").open("a") as file:
            file.write(f"{order.turn} {order.mark}\n")
        return done(f"turn {order.turn}", tokens=100)

    url = f"sqlite:{folder / 'goal.db'}"
    with connect(url).blocking() as real, open_shared(url) as shared:
        log = MortalLog(real, at, after=after)
        led = make_driver(cast(BlockingRecorder, log), [work], shared=shared)

        class Enough(FakeChecker):
            async def check(self, *args: Any, **more: Any) -> Any:
                led.checker.met = (len({turn for turn, _ in actions_in(folder)}) >= TURNS,)
                return await led.checker.check(*args, **more)

        led.resources.verifiers = Enough()
        if not any(real.read(f"goal:{GOAL}", limit=1)):
            await led.driver.start(goal(budget={"max_turns": TURNS}, stuck_after=0))
        state = await led.driver.run_goal()
        sys.stdout.write(f"{state.outcome} {log.writes}\n")


def main(folder: str, at: str = str(NEVER), when: str = "before") -> None:
    """Until it is over, or this process is."""
    asyncio.run(drive(Path(folder), int(at), after=when == "after"))


if __name__ == "__main__":
    main(*sys.argv[1:])
