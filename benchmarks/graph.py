"""A turn through seven nodes that do nothing: `python -m benchmarks.graph [--quick]`, or `make bench`.

What is left is the engine, and what it takes to write a turn down. Three races: with our durable points (before an outward act and at the
end of the turn; steps in between are written in order without waiting), with each node waited for, and with nothing written at all.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Protocol

from benchmarks.foundation import real_disk
from benchmarks.graph_ours import Bare, Recorded
from benchmarks.graph_peers import AsyncBurr, Burr, LangGraph, PydanticGraph
from benchmarks.measure import Row, middle_half, print_table, progress

ROUNDS = 11
TURNS = 40
BARE_TURNS = 400


class Contestant(Protocol):
    """Somebody who takes turns."""

    def take(self, turns: int) -> None:
        """So many of them."""

    def close(self) -> None:
        """Let go of the files."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.graph", description="A turn through seven nodes that do nothing.")
    parser.add_argument("--quick", action="store_true", help="fewer turns, fewer rounds")
    parser.add_argument("--dir", type=Path, help="where to put the files (else the system's place for temporary files)")
    options = parser.parse_args(argv)
    share = 4 if options.quick else 1
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="fleetlore-bench-", dir=real_disk(options.dir)) as folder:
        files = (Path(folder) / f"{number}.db" for number in range(100))
        for title, turns, ours, peers in _races(lambda: next(files)):
            rows += _race(title, turns // share, ROUNDS // share, ours, peers)
    print_table(rows)
    return 0


def _races(
    file: Callable[[], Path],
) -> list[tuple[str, int, Callable[[], Contestant], Mapping[str, tuple[Callable[[], Contestant], float | None]]]]:
    """Each with its peers, and what is wanted against each."""
    return [
        (
            "durable points",
            TURNS,
            lambda: Recorded(file(), "turn"),
            {
                "LangGraph, each step stored while the next runs": (lambda: LangGraph(file(), "async"), 8.0),
                "LangGraph, each step waited for": (lambda: LangGraph(file(), "sync"), None),
                "LangGraph, only the last step stored": (lambda: LangGraph(file(), "exit"), None),
                "burr, blocking": (lambda: Burr(file()), 4.0),
                "burr, blocking, set to WAL": (lambda: Burr(file(), wal=True), None),
                "burr, asyncio": (lambda: AsyncBurr(file()), None),
            },
        ),
        (
            "each node awaited",
            TURNS,
            lambda: Recorded(file(), "node"),
            {
                "LangGraph, each step waited for": (lambda: LangGraph(file(), "sync"), 2.5),
                "burr, blocking": (lambda: Burr(file()), 1.5),
                "burr, blocking, set to WAL": (lambda: Burr(file(), wal=True), None),
                "burr, asyncio": (lambda: AsyncBurr(file()), None),
            },
        ),
        (
            "recording off",
            BARE_TURNS,
            Bare,
            {
                "LangGraph": (LangGraph, 5.0),
                "pydantic-graph": (PydanticGraph, 3.0),
                "burr, blocking": (Burr, 1.0),
                "burr, asyncio": (AsyncBurr, None),
            },
        ),
    ]


def _race(
    title: str, turns: int, rounds: int, ours: Callable[[], Contestant], peers: Mapping[str, tuple[Callable[[], Contestant], float | None]]
) -> list[Row]:
    """Each round starts with another, and the first is not counted."""
    with ExitStack() as stack:
        lanes = {"ours": ours(), **{name: make() for name, (make, _) in peers.items()}}
        for lane in lanes.values():
            stack.callback(lane.close)
        times: dict[str, list[float]] = {name: [] for name in lanes}
        names = list(lanes)
        for number in range(rounds + 1):
            start = number % len(names)
            for name in names[start:] + names[:start]:
                began = perf_counter()
                lanes[name].take(turns)
                if number:
                    times[name].append((perf_counter() - began) * 1000 / turns)
            progress(f"{title}: round {number} of {rounds}", end=number == rounds)
    return [_row(title, name, times, target) for name, (_, target) in peers.items()]


def _row(title: str, name: str, times: Mapping[str, list[float]], target: float | None) -> Row:
    ratios = [theirs / ours for ours, theirs in zip(times["ours"], times[name], strict=True)]
    return Row(f"{title}: {name}", "ms", median(times["ours"]), median(times[name]), median(ratios), middle_half(ratios), target)


if __name__ == "__main__":
    raise SystemExit(main())
