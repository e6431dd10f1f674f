"""The control room on a long log: `python -m benchmarks.control_room [--quick]`, or `make bench`.

What is measured: from the start of `lore up` to the first answer with events, on a log of a million events, once before anything of it
was folded and once with the checkpoints of an earlier start; and how long each view takes at the head and as of moments at random. Each
is a whole request to a server in another process. The clock of a look back runs from the request to the last byte.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from urllib.request import urlopen

import msgspec

from benchmarks.foundation import real_disk
from benchmarks.measure import Row, print_table, progress
from benchmarks.story import build

LORE = str(Path(sys.executable).parent / "lore")
VIEWS = ("fleet", "threads", "arcs", "costs", "story", "timeline")
LOOKS = 21
STARTS = 5
WINDOWS = {"a minute": 60, "an hour": 3600, "a day": 86_400, "all of it": 0}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.control_room", description="The control room on a long log.")
    parser.add_argument("--quick", action="store_true", help="100,000 events instead of a million")
    parser.add_argument("--dir", type=Path, help="where to put the log (else the system's place for temporary files)")
    options = parser.parse_args(argv)
    count = 100_000 if options.quick else 1_000_000
    with tempfile.TemporaryDirectory(prefix="fleetlore-bench-", dir=real_disk(options.dir)) as name:
        folder = Path(name)
        build(f"sqlite:{folder / 'fleet.db'}?sync=normal", count)
        rows = [*_first_start(folder), *_later_starts(folder), *_looks(folder)]
    print(f"{count:,} events")
    print_table(rows)
    return 0


class Room:
    """A running `lore up`, seen from outside."""

    def __init__(self, folder: Path) -> None:
        homes = {name: str(folder / name) for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}
        self._began = perf_counter()
        self._process = subprocess.Popen(
            [LORE, "up", "--log", f"sqlite:{folder / 'fleet.db'}", "--port", "0"],
            env=os.environ | homes,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._address = next(word for word in self._process.stdout.readline().split() if word.startswith("http")).rstrip(";")

    @property
    def age(self) -> float:
        return perf_counter() - self._began

    def get(self, path: str) -> tuple[bytes, float]:
        start = perf_counter()
        with urlopen(f"{self._address}api/{path}") as answer:
            return answer.read(), perf_counter() - start

    def meta(self) -> dict[str, str]:
        found: dict[str, str] = msgspec.json.decode(self.get("meta")[0])
        return found

    def end(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def open_room(folder: Path) -> Iterator[Room]:
    room = Room(folder)
    try:
        yield room
    finally:
        room.end()


def _first_start(folder: Path) -> Iterator[Row]:
    with open_room(folder) as room:
        room.get("events?limit=100")
        events = room.age
        while not room.meta()["caught_up"]:
            progress("folding for the first time")
            sleep(0.5)
        folded = room.age
        while msgspec.json.decode(room.get("search?q=nothing")[0])["indexing"]:
            progress("indexing for the first time")
            sleep(0.5)
        progress("folded and indexed", end=True)
        yield _row("`lore up` to the first page with events, nothing folded yet", events, 1000)
        yield _row("the same, to all views at the head", folded)


def _later_starts(folder: Path) -> Iterator[Row]:
    events, views = [], []
    for _ in range(STARTS):
        with open_room(folder) as room:
            room.get("events?limit=100")
            events.append(room.age)
            while not room.meta()["caught_up"]:
                sleep(0.01)
            room.get("fleet")
            views.append(room.age)
    yield _row("`lore up` to the first page with events, with checkpoints", median(events), 1000)
    yield _row("the same, to Fleet at the head", median(views))


def _looks(folder: Path) -> Iterator[Row]:
    with open_room(folder) as room:
        while not room.meta()["caught_up"]:
            sleep(0.1)
        meta = room.meta()
        first, last = (datetime.fromisoformat(meta[name]) for name in ("first_at", "last_at"))
        for view in VIEWS:
            room.get(view)
            yield _row(f"{view} at the head", median([room.get(view)[1] for _ in range(LOOKS)]))
            chance = random.Random(view)
            then = [_asked(first + (last - first) * chance.random()) for _ in range(LOOKS)]
            times = [room.get(f"{view}?as_of={moment}")[1] for moment in then]
            progress(f"{view} as of {LOOKS} moments", end=True)
            yield _row(f"{view} as of a moment at random (longest {max(times):.2f} s)", median(times), _TARGETS.get(view))
        middle = first + (last - first) / 2
        for name, seconds in WINDOWS.items():
            window = f"from={_asked(middle)}&to={_asked(middle + timedelta(seconds=seconds))}&" if seconds else ""
            yield _row(f"timeline, {name}", room.get(f"timeline?{window}width=1201")[1])


_TARGETS = {"fleet": 500, "threads": 500}


def _asked(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _row(what: str, seconds: float, at_most: float | None = None) -> Row:
    return Row(what, "ms", seconds * 1000, None, None, target=at_most, sense="≤", judged="ours")


if __name__ == "__main__":
    raise SystemExit(main())
