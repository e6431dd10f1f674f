"""Missions of twelve items whose workers are killed with SIGKILL repeatedly: `python -m torture.towns [--missions N] [--seed N]`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.faults.test_town_kills import run_mission
from tests.servers import Nats, Valkey

BACKENDS = ("sqlite", "redis", "nats")
MOST_KILLS = 8


def kill_towns(folder: Path, backend: str, seed: int, missions: int) -> str:
    """So many missions on one backend, each with up to eight kills besides the one that an item brings."""
    kills, begun, tasks = 0, 0, 0
    with _addresses(folder, backend, missions) as urls:
        for number, url in enumerate(urls):
            rng = Random(seed * 1000 + number)
            start = perf_counter()
            course = asyncio.run(run_mission(url, rng, rng.randint(2, MOST_KILLS)))
            kills, begun, tasks = kills + course.kills, begun + course.begun, tasks + course.tasks
            print(f"  {backend}, mission {number + 1}: {course} ({perf_counter() - start:.1f} s)", file=sys.stderr, flush=True)
    recorded = f"{missions} missions of twelve items on {backend}, their workers and dispatchers killed with -9 {kills} times"
    again = f"{tasks} tasks begun {begun} times, each again only after a recorded loss or failure"
    return f"{recorded}: {again}; none lost, none completed twice, and the live fold is the one from scratch"


@contextmanager
def _addresses(folder: Path, backend: str, missions: int) -> Iterator[list[str]]:
    """A town of its own for each mission."""
    if backend == "sqlite":
        yield [f"sqlite:{folder / f'town-{number}.db'}" for number in range(missions)]
        return
    with Valkey(folder / "data") if backend == "redis" else Nats(folder / "data", sync="always") as server:
        yield [f"{server.url}?town=town-{number}" for number in range(missions)]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--missions", type=int, default=20)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("backends", nargs="*", default=BACKENDS)
    chosen = options.parse_args()
    for backend in chosen.backends:
        start = perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            line = kill_towns(Path(folder), backend, chosen.seed, chosen.missions)
        print(f"- {datetime.now(UTC).date()} · {line} ({perf_counter() - start:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
