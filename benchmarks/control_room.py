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
from urllib.request import Request, urlopen

import msgspec

from benchmarks.foundation import real_disk
from benchmarks.measure import Row, print_table, progress
from benchmarks.story import build

LORE = str(Path(sys.executable).parent / "lore")
VIEWS = ("fleet", "threads", "arcs", "costs", "story", "timeline")
PAST_VIEWS = 21
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
        rows = [*_first_start(folder), *_later_starts(folder), *_time_past_views(folder)]
    print(f"{count:,} events")
    print_table(rows)
    return 0


class RunningServer:
    """A running `lore up`, seen from outside."""

    def __init__(self, folder: Path, log: Path | None = None) -> None:
        homes = {name: str(folder / name) for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}
        self._began = perf_counter()
        self._process = subprocess.Popen(
            [LORE, "up", "--log", f"sqlite:{log or folder / 'fleet.db'}", "--port", "0"],
            env=os.environ | homes,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        words = self._process.stdout.readline().split()
        self._address = next(word for word in words if word.startswith("http")).rstrip(";")
        self._headers = {"authorization": f"Bearer {Path(words[-1]).read_text().strip()}"}

    @property
    def age(self) -> float:
        return perf_counter() - self._began

    def get(self, path: str) -> tuple[bytes, float]:
        start = perf_counter()
        with urlopen(Request(f"{self._address}api/{path}", headers=self._headers)) as answer:
            return answer.read(), perf_counter() - start

    def meta(self) -> dict[str, str]:
        found: dict[str, str] = msgspec.json.decode(self.get("meta")[0])
        return found

    def read_memory(self) -> float:
        """The most memory that it used, in MB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6

    def end(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def open_server(folder: Path, log: Path | None = None) -> Iterator[RunningServer]:
    server = RunningServer(folder, log)
    try:
        yield server
    finally:
        server.end()


def _first_start(folder: Path) -> Iterator[Row]:
    with open_server(folder) as server:
        server.get("events?limit=100")
        events = server.age
        while not server.meta()["caught_up"]:
            progress("folding for the first time")
            sleep(0.5)
        folded = server.age
        while msgspec.json.decode(server.get("search?q=nothing")[0])["indexing"]:
            progress("indexing for the first time")
            sleep(0.5)
        progress("folded and indexed", end=True)
        yield _row("`lore up` to the first page with events, nothing folded yet", events, 1000)
        yield _row("the same, to all views at the head", folded)


def _later_starts(folder: Path) -> Iterator[Row]:
    events, views = [], []
    for _ in range(STARTS):
        with open_server(folder) as server:
            server.get("events?limit=100")
            events.append(server.age)
            while not server.meta()["caught_up"]:
                sleep(0.01)
            server.get("fleet")
            views.append(server.age)
    yield _row("`lore up` to the first page with events, with checkpoints", median(events), 1000)
    yield _row("the same, to Fleet at the head", median(views))


def _time_past_views(folder: Path) -> Iterator[Row]:
    with open_server(folder) as server:
        while not server.meta()["caught_up"]:
            sleep(0.1)
        meta = server.meta()
        first, last = (datetime.fromisoformat(meta[name]) for name in ("first_at", "last_at"))
        for view in VIEWS:
            server.get(view)
            yield _row(f"{view} at the head", median([server.get(view)[1] for _ in range(PAST_VIEWS)]))
            rng = random.Random(view)
            then = [_asked(first + (last - first) * rng.random()) for _ in range(PAST_VIEWS)]
            times = [server.get(f"{view}?as_of={moment}")[1] for moment in then]
            progress(f"{view} as of {PAST_VIEWS} moments", end=True)
            yield _row(f"{view} as of a moment at random (longest {max(times):.2f} s)", median(times), _TARGETS.get(view))
        middle = first + (last - first) / 2
        for name, seconds in WINDOWS.items():
            window = f"from={_asked(middle)}&to={_asked(middle + timedelta(seconds=seconds))}&" if seconds else ""
            yield _row(f"timeline, {name}", server.get(f"timeline?{window}width=1201")[1])


_TARGETS = {"fleet": 500, "threads": 500}


def _asked(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _row(what: str, seconds: float, at_most: float | None = None) -> Row:
    return Row(what, "ms", seconds * 1000, None, None, target=at_most, sense="≤", judged="ours")


if __name__ == "__main__":
    raise SystemExit(main())
