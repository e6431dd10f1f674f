"""Runs seeds: one with its story, or a range with figures. `make simulate` calls it."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from simulation.journals import JournalScenario
from simulation.world import World

SCENARIOS: dict[str, Callable[[World], object]] = {"journals": JournalScenario}


class RunResult(NamedTuple):
    """What came of one seed."""

    seed: int
    scenario: str
    trace_hash: str
    operations: int
    faults: int
    virtual_seconds: float
    violations: tuple[str, ...]
    story: tuple[str, ...]
    trace: tuple[str, ...]


def run_seed(seed: int, *, scenario: str | None = None, keeps_trace: bool = False) -> RunResult:
    """Run one seed to its end."""
    world = World(seed, keeps_trace=keeps_trace)
    name = scenario or list(SCENARIOS)[seed % len(SCENARIOS)]
    try:
        world.run(SCENARIOS[name](world).run())  # type: ignore[attr-defined]
    except Exception as error:
        world.report_violation(f"the run ended with {type(error).__name__}: {error}")
        if keeps_trace:
            raise
    for failure in world.loop.failures:
        world.report_violation(failure)
    return RunResult(
        seed,
        name,
        world.trace_hash,
        world.operation_count,
        world.fault_count,
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
    started, found, operations, faults, virtual = time.process_time(), 0, 0, 0, 0.0
    least_operations, least_faults = sys.maxsize, sys.maxsize
    for seed in range(options.first, options.first + options.seeds):
        result = run_seed(seed, scenario=options.scenario)
        operations, faults, virtual = operations + result.operations, faults + result.faults, virtual + result.virtual_seconds
        least_operations, least_faults = min(least_operations, result.operations), min(least_faults, result.faults)
        if result.violations:
            found += 1
            print(f"Seed {seed} ({result.scenario}): {result.violations[0]}. Replay it with: make simulate SEED={seed}", flush=True)
    seconds = time.process_time() - started
    print(
        f"{options.seeds} seeds, {virtual / 3600:.1f} virtual hours, {operations:,} operations (at least {least_operations} each), "
        f"{faults:,} faults (at least {least_faults} each), {found} seeds with violations, {seconds / options.seeds:.3f} s CPU per seed"
    )
    return 1 if found else 0
