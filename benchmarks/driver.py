"""The driver's own share of a turn: `python -m benchmarks.driver [--quick]`, or `make bench`.

A goal of many turns is pursued by an agent that answers at once, in a workspace where nothing happens, until its criteria are met: what is
left is the loop and its durable points. The peer is the same loop in LangGraph with its SQLite checkpointer, as `driver_peer.py` says.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Protocol

from benchmarks.driver_loop import Ours
from benchmarks.driver_peer import AsyncPeer, Peer, Shape
from benchmarks.foundation import real_disk
from benchmarks.measure import Row, middle_half, print_table, progress

TURNS = 200
ROUNDS = 9
TARGET = 3.0
PEERS: dict[str, tuple[type[Peer], Shape]] = {
    "LangGraph, a node a step, asyncio": (AsyncPeer, "steps"),
    "LangGraph, our durable points, asyncio": (AsyncPeer, "points"),
    "LangGraph, a node a step, blocking": (Peer, "steps"),
    "LangGraph, our durable points, blocking": (Peer, "points"),
    "LangGraph, two nodes, blocking": (Peer, "lean"),
}
JUDGED = ("LangGraph, a node a step, asyncio", "LangGraph, our durable points, asyncio")
"""Those that are built as ours is: in asyncio, where a turn can be called off."""


class Contestant(Protocol):
    """Somebody who leads a goal to its end."""

    def pursue(self, turns: int) -> None:
        """Within so many turns."""

    def close(self) -> None:
        """Let go of the files."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.driver", description="The driver's own share of a turn.")
    parser.add_argument("--quick", action="store_true", help="fewer turns, fewer rounds")
    parser.add_argument("--dir", type=Path, help="where to put the files (else the system's place for temporary files)")
    options = parser.parse_args(argv)
    turns, rounds = (50, 3) if options.quick else (TURNS, ROUNDS)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleetlore-bench-", dir=real_disk(options.dir))))
        ours = Ours(folder / "ours.db")
        lanes: dict[str, Contestant] = {"ours": ours}
        for name, (make, shape) in PEERS.items():
            lanes[name] = make(folder / f"{len(lanes)}.db", shape)
        for lane in lanes.values():
            stack.callback(lane.close)
        times = _race(lanes, turns, rounds)
        rows = [_row(name, times) for name in times if name != "ours"]
        mine = ours.commits_of(turns)
        for name, lane in lanes.items():
            if type(lane) is Peer:
                theirs = lane.commits_of(turns)
                rows.append(Row(f"durable commits a turn: {name}", "a turn", mine, theirs, theirs / mine))
    print_table(rows)
    return 0


def _race(lanes: dict[str, Contestant], turns: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds a turn of each, one a round; each round starts with another, and the first is not counted."""
    times: dict[str, list[float]] = {name: [] for name in lanes}
    names = list(lanes)
    for number in range(rounds + 1):
        start = number % len(names)
        for name in names[start:] + names[:start]:
            began = perf_counter()
            lanes[name].pursue(turns)
            times[name].append((perf_counter() - began) * 1000 / turns)
        progress(f"a turn: round {number} of {rounds}", end=number == rounds)
    return {name: taken[1:] for name, taken in times.items()}


def _row(name: str, times: dict[str, list[float]]) -> Row:
    ratios = [theirs / ours for ours, theirs in zip(times["ours"], times[name], strict=True)]
    return Row(
        f"a turn: {name}",
        "ms",
        median(times["ours"]),
        median(times[name]),
        median(ratios),
        middle_half(ratios),
        TARGET if name in JUDGED else None,
    )


if __name__ == "__main__":
    raise SystemExit(main())
