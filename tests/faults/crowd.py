"""One of many processes on one log: `python -m tests.faults.crowd write|follow URL NAME COUNT`.

A writer appends COUNT times one event, COUNT / 4 times a batch, and counts a shared counter up
COUNT / 4 times. A follower reads from the beginning until it has seen COUNT events.
"""

from __future__ import annotations

import sys
from typing import Any

from fleetlore import Event, connect
from fleetlore.errors import Conflict
from fleetlore.log.base import Expect
from fleetlore.log.recorder import BlockingRecorder

COUNTER = "task:counter"
BATCH = 8


def expected(writers: int, count: int) -> int:
    """How many events so many writers leave."""
    return writers * (count + count // 4 * BATCH + count // 4)


def _write(log: BlockingRecorder, name: str, count: int) -> None:
    for number in range(count):
        log.append([_action(name, number)])
        if number % 4 == 3:
            log.append([_action(name, number, nth=nth) for nth in range(BATCH)])
            _count_up(log, name)
    _say(name)


def _action(name: str, number: int, **more: Any) -> Event:
    return Event(kind="crowd.deed", agent=name, data={"number": number} | more)


def _count_up(log: BlockingRecorder, name: str) -> None:
    """Read the counter and add one; whoever comes second reads again."""
    while True:
        newest = next(log.read(COUNTER, newest_first=True, limit=1), None)
        value = newest.data["value"] if newest else 0
        try:
            log.append(
                [Event(kind="crowd.counted", agent=name, task="counter", data={"value": value + 1})],
                expect=Expect(COUNTER, newest.position if newest else None),
            )
        except Conflict:
            continue
        return


def _follow(log: BlockingRecorder, count: int) -> None:
    for _, event in zip(range(count), log.follow(), strict=False):
        _say(f"{event.position} {event.id}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main(role: str, url: str, name: str, count: str) -> None:
    """Wait for the word to start, so that all start at once."""
    with connect(url).blocking() as log:
        _say("ready")
        sys.stdout.flush()
        sys.stdin.readline()
        if role == "write":
            _write(log, name, int(count))
        else:
            _follow(log, int(count))


if __name__ == "__main__":
    main(*sys.argv[1:])
