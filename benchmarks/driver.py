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
from benchmarks.driver_peer import AsyncPeer, Peer
from benchmarks.foundation import real_disk
from benchmarks.measure import Row, middle_half, print_table, progress

TURNS = 200
ROUNDS = 9
TARGET = 3.0


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
        ours, peer, lean = Ours(folder / "ours.db"), Peer(folder / "peer.db"), Peer(folder / "lean.db", lean=True)
        lanes: dict[str, Contestant] = {
            "ours": ours,
            "LangGraph, asyncio": AsyncPeer(folder / "async.db"),
            "LangGraph, blocking": peer,
            "LangGraph with two durable points, asyncio": AsyncPeer(folder / "async-lean.db", lean=True),
            "LangGraph with two durable points, blocking": lean,
        }
        for lane in lanes.values():
            stack.callback(lane.close)
        times = _race(lanes, turns, rounds)
        rows = [_row(name, times) for name in times if name != "ours"]
        for name, other in (("LangGraph", peer), ("LangGraph with two durable points", lean)):
            mine, theirs = ours.commits_of(turns), other.commits_of(turns)
            rows.append(Row(f"durable commits a turn: {name} needs so many times as many", "a turn", mine, theirs, theirs / mine))
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
    is_judged = name == "LangGraph, asyncio"
    return Row(
        f"a turn: {name} takes so many times as long",
        "ms",
        median(times["ours"]),
        median(times[name]),
        median(ratios),
        middle_half(ratios),
        TARGET if is_judged else None,
    )


if __name__ == "__main__":
    raise SystemExit(main())
