"""Runs seeds: one with its story, or a range with figures. `make simulate` calls it."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from simulation.goals import GoalScenario
from simulation.journals import JournalScenario
from simulation.ships import ShipScenario
from simulation.towns import TownScenario
from simulation.world import World

SCENARIOS: dict[str, Callable[[World], object]] = {
    "journals": JournalScenario,
    "towns": TownScenario,
    "goals": GoalScenario,
    "ships": ShipScenario,
}

BY_SEED = ("journals", "towns", "journals", "goals", "ships")
"""Which scenario a seed runs, by its remainder."""
SAVE_EVERY = 20
FULL_OPERATIONS, FULL_FAULTS = 200, 5
"""A run of full size has at least so many. A goal that is met early has fewer operations."""


class RunResult(NamedTuple):
    """What came of one seed."""

    seed: int
    scenario: str
    trace_hash: str
    operations: int
    faults: int
    fault_kinds: dict[str, int]
    effects: dict[str, int]
    virtual_seconds: float
    violations: tuple[str, ...]
    story: tuple[str, ...]
    trace: tuple[str, ...]


def run_seed(seed: int, *, scenario: str | None = None, keeps_trace: bool = False) -> RunResult:
    """Run one seed to its end."""
    world = World(seed, keeps_trace=keeps_trace)
    name = scenario or BY_SEED[seed % len(BY_SEED)]
    try:
        world.run(SCENARIOS[name](world).run())  # type: ignore[attr-defined]
    except Exception as error:
        world.report_violation(f"the run ended with {type(error).__name__}: {error}")
        if keeps_trace:
            raise
    for failure in (*world.loop.failures, *(one for engine in world.engines.values() for one in engine.violations)):
        world.report_violation(failure)
    return RunResult(
        seed,
        name,
        world.trace_hash,
        world.operation_count,
        world.fault_count,
        dict(world.faults),
        dict(world.effects),
        world.loop.time(),
        tuple(world.violations),
        tuple(world.story),
        tuple(world.trace_lines),
    )


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; the exit status is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed and print its story")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--scenario", choices=SCENARIOS, help="only this scenario; otherwise the seed decides")
    parser.add_argument("--stop", action="store_true", help="end at the first seed that breaks a promise")
    parser.add_argument("--keep", type=Path, help="keep the figures in this file, and continue after the seeds that it has")
    parser.add_argument("--trace", action="store_true", help="print every command, too")
    options = parser.parse_args(arguments)
    gc.freeze()  # the modules: each run ends with a collection
    if options.seed is not None:
        return _run_one(options)
    return _run_range(options)


def _run_one(options: argparse.Namespace) -> int:
    result = run_seed(options.seed, scenario=options.scenario, keeps_trace=True)
    sys.stdout.writelines(result.trace if options.trace else (f"{line}\n" for line in result.story))
    print(f"Seed {result.seed} ({result.scenario}): {result.operations} operations, {result.faults} faults, ", end="")
    print(f"{result.virtual_seconds:.0f} virtual seconds, {len(result.violations)} violations. Trace {result.trace_hash[:16]}")
    return 1 if result.violations else 0


def _run_range(options: argparse.Namespace) -> int:
    seeds = range(options.first, options.first + options.seeds)
    totals = run_seeds(seeds, scenario=options.scenario, report=print_violation, keep=options.keep, stops=options.stop)
    print(totals.describe())
    return 1 if totals.failed_seeds else 0


def print_violation(result: RunResult) -> None:
    """Say which promise a seed broke, and how to replay it."""
    print(f"Seed {result.seed} ({result.scenario}): {result.violations[0]}. Replay it with: make simulate SEED={result.seed}", flush=True)


class Totals(Struct):
    """Figures of many seeds."""

    seeds: int = 0
    full_size: int = 0
    """Seeds with at least `FULL_OPERATIONS` and `FULL_FAULTS`."""
    operations: int = 0
    least_operations: int = sys.maxsize
    faults: int = 0
    least_faults: int = sys.maxsize
    virtual_seconds: float = 0.0
    cpu_seconds: float = 0.0
    failed_seeds: list[int] = []
    """Seeds that broke a promise."""
    scenarios: dict[str, int] = {}
    fault_kinds: dict[str, int] = {}
    effects: dict[str, int] = {}

    def add(self, result: RunResult, cpu_seconds: float) -> None:
        """Count one seed."""
        self.seeds += 1
        self.full_size += result.operations >= FULL_OPERATIONS and result.faults >= FULL_FAULTS
        self.operations += result.operations
        self.faults += result.faults
        self.least_operations, self.least_faults = min(self.least_operations, result.operations), min(self.least_faults, result.faults)
        self.virtual_seconds += result.virtual_seconds
        self.cpu_seconds += cpu_seconds
        for counts, more in (
            (self.scenarios, {result.scenario: 1}),
            (self.fault_kinds, result.fault_kinds),
            (self.effects, result.effects),
        ):
            for name, count in more.items():
                counts[name] = counts.get(name, 0) + count

    def describe(self) -> str:
        """The figures as text."""
        lines = [
            f"{self.seeds:,} seeds ({self.full_size:,} with {FULL_OPERATIONS} operations and {FULL_FAULTS} faults or more),"
            f" {self.virtual_seconds / 3600:,.1f} virtual hours, {self.operations:,} operations"
            f" (at least {self.least_operations} each), {self.faults:,} faults (at least {self.least_faults} each),"
            f" {len(self.failed_seeds)} seeds with violations, {self.cpu_seconds / max(1, self.seeds):.3f} s CPU per seed"
        ]
        for title, counts in (("Scenarios", self.scenarios), ("Faults", self.fault_kinds), ("Effects", self.effects)):
            lines.append(f"{title}: {', '.join(f'{name} {count:,}' for name, count in sorted(counts.items()))}")
        return "\n".join(lines)


def run_seeds(
    seeds: range,
    *,
    scenario: str | None = None,
    report: Callable[[RunResult], None] = lambda result: None,
    keep: Path | None = None,
    stops: bool = False,
) -> Totals:
    """Run seeds and add up their figures; `report` is called with each run that broke a promise.

    With `keep` the figures are saved in a file every few seeds, and a later call with the same seeds continues there. With `stops`
    the first broken promise ends it.
    """
    totals = Totals() if keep is None or not keep.exists() else msgspec.json.decode(keep.read_bytes(), type=Totals)
    for seed in seeds[totals.seeds :]:
        started = time.process_time()
        result = run_seed(seed, scenario=scenario)
        totals.add(result, time.process_time() - started)
        if result.violations:
            totals.failed_seeds.append(seed)
            report(result)
            if stops:
                break
        if keep is not None and (totals.seeds % SAVE_EVERY == 0 or totals.seeds == len(seeds)):
            keep.write_bytes(msgspec.json.encode(totals))
    return totals
