"""A program that appends until it is killed, and says on its standard output what was acknowledged.

`python -m tests.faults.writer single|batch|tasks|whole URL NAME`: the events follow from the name, so that
whoever killed it knows what it was about to append.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import count
from random import Random

from fleetlore import Event, connect
from fleetlore.events.ids import derive_id

TASKS = 16
MODES = ("single", "batch", "tasks")


def events_of(mode: str, name: str, number: int) -> list[Event]:
    """What the writer of this name appends with its append of this number."""
    size = Random(f"{name}/{number}").randint(2, 30) if mode == "batch" else 1
    return [
        Event(
            id=derive_id("kill", f"{name}/{number}/{nth}".encode()),
            kind="fleet.commit",
            agent=name,
            task=f"{name}/{number}",
            text=f"{number}/{nth}".ljust(200, "."),
            data={"output": long_text(name, number)} if mode == "whole" else {},
        )
        for nth in range(size)
    ]


def long_text(name: str, number: int) -> str:
    """A text that is cut, and does not compress to nothing."""
    return Random(f"{name}/{number}").randbytes(40_000).hex()


def _report(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _acknowledge(number: int, positions: list[str]) -> None:
    _report(f"{number} {' '.join(positions)}")


def _write_one_by_one(mode: str, url: str, name: str) -> None:
    with connect(url).blocking() as log:
        for number in count():
            _acknowledge(number, log.append(events_of(mode, name, number)))


async def _write_from_tasks(mode: str, url: str, name: str) -> None:
    """Task n takes the numbers n, n + 16, n + 32, …"""
    async with connect(url) as log:

        async def work(first: int) -> None:
            for number in count(first, TASKS):
                _acknowledge(number, await log.append(events_of(mode, name, number)))

        await asyncio.gather(*(work(first) for first in range(TASKS)))


def main(mode: str, url: str, name: str) -> None:
    """Append for ever."""
    _report("ready")
    if mode == "tasks":
        asyncio.run(_write_from_tasks(mode, url, name))
    else:
        _write_one_by_one(mode, url, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
