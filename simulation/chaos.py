"""Faults of a run: crashes, suspensions, partitions, loss, duplicates, power cuts, lost leaders and wrong clocks."""

from __future__ import annotations

import asyncio
from typing import Any

from simulation.engines import ELECTION_SECONDS, RESTART_SECONDS, Engine, RedisEngine
from simulation.loop import Process
from simulation.world import SimulatedProcess, World

MIN_FAULTS, MAX_FAULTS = 5, 12


async def inject_faults(world: World, seconds: float, *, spares: tuple[str, ...] = ()) -> None:
    """Inject at least `MIN_FAULTS` faults within so many seconds, then repair everything. Processes in `spares` are never harmed."""
    count = world.rng.randint(MIN_FAULTS, MAX_FAULTS)
    times = sorted(world.rng.uniform(0, seconds) for _ in range(count))
    for at in times:
        await asyncio.sleep(max(0.0, at - world.loop.time()))
        before = world.fault_count
        while world.fault_count == before:  # a fault may find nothing to harm
            _inject_fault(world, spares)
        if world.rng.random() < 0.5:
            _lay_ambush(world, spares)
    await asyncio.sleep(max(0.0, seconds - world.loop.time()))
    world.loss_rate = world.duplicate_rate = 0.0
    for machine in world.machines.values():
        machine.cut_off_until = 0.0
    for process in world.processes.values():
        process.ambush = None
    for engine in world.engines.values():
        engine.ambush = None
    world.tell_story("The faults end")


def _inject_fault(world: World, spares: tuple[str, ...]) -> None:
    harmed = [one for one in world.processes.values() if one.is_working and one.name not in spares]
    choices = ["kill", "kill", "suspend", "engine", "clock"]
    if any(engine.name != "sqlite" for engine in world.engines.values()):
        choices += ["partition", "loss", "duplicates", "delay"]
    match world.rng.choice(choices):
        case "kill" if harmed:
            process, down = world.rng.choice(harmed), world.rng.uniform(0.1, 20)
            _kill(world, process, down)
        case "suspend" if harmed:
            _suspend(world, world.rng.choice(harmed))
        case "partition":
            machine, length = world.rng.choice(list(world.machines.values())), world.rng.uniform(0.5, 30)
            world.add_fault("partition", f"{machine.name} is cut off from the servers for {length:.1f} s")
            machine.cut_off_until = world.loop.time() + length
        case "loss":
            world.loss_rate = _choose_other(world, world.loss_rate, (0.01, 0.05, 0.2))
            world.add_fault("loss", f"The network loses {world.loss_rate:.0%} of all messages")
        case "duplicates":
            world.duplicate_rate = _choose_other(world, world.duplicate_rate, (0.05, 0.3))
            world.add_fault("duplicates", f"{world.duplicate_rate:.0%} of the appends arrive a second time")
        case "delay":
            world.slowest_delay = _choose_other(world, world.slowest_delay, (0.002, 0.05, 0.5))
            world.add_fault("delay", f"Messages take up to {world.slowest_delay * 1000:.0f} ms")
        case "clock":
            machine, step = world.rng.choice(list(world.machines.values())), world.rng.choice((-90.0, -2.0, 2.0, 90.0))
            machine.skew += step
            world.set_back_seconds += max(0.0, -step)
            world.add_fault("clock", f"The clock of {machine.name} jumps by {step:+.0f} s")
        case _:
            _crash_engine(world, world.rng.choice(list(world.engines)))


def _lay_ambush(world: World, spares: tuple[str, ...]) -> None:
    """Let something fail at the worst moment: while its next command is on its way. Such a fault comes on top of the others."""
    files = [label for label, engine in world.engines.items() if engine.name != "nats"]
    if files and world.rng.random() < 0.4:
        label = world.rng.choice(files)
        world.engines[label].ambush = lambda: _crash_engine(world, label)
        return
    processes = [one for one in world.processes.values() if one.is_working and one.name not in spares]
    if processes:
        process, down = world.rng.choice(processes), world.rng.uniform(0.1, 20)
        process.ambush = lambda: _kill(world, process, down)


def _kill(world: World, process: SimulatedProcess, down: float) -> None:
    if process.is_working:
        world.add_fault("kill", f"{process.name} is killed and stays down for {down:.1f} s")
        process.kill(down_seconds=down)


def _choose_other(world: World, current: float, values: tuple[float, ...]) -> float:
    return world.rng.choice([value for value in values if value != current])


def _suspend(world: World, owner: SimulatedProcess) -> None:
    process, length = owner.process, world.rng.choice((world.rng.uniform(0.1, 5), world.rng.uniform(5, 60)))
    world.add_fault("suspend", f"{owner.name} is suspended for {length:.1f} s")
    process.state = "suspended"
    world.loop.call_later(length, _resume, world, process, owner.name)


def _resume(world: World, process: Process, name: str) -> None:
    if process.state == "suspended":
        world.tell_story(f"{name} continues")
        world.loop.resume(process)


def _crash_engine(world: World, label: str) -> None:
    """Cut the power of an engine. If it is a file, the processes on its machine end with it."""
    engine = world.engines[label]
    if not engine.is_up:
        return
    low, high = ELECTION_SECONDS if engine.name == "nats" else RESTART_SECONDS
    down = world.rng.uniform(low, high)
    kind, what = {
        "sqlite": ("power cut", f"The machine of {label} loses its power"),
        "nats": ("leader lost", f"The leader of {label} is lost"),
    }.get(engine.name, ("power cut", f"The server of {label} loses its power"))
    world.add_fault(kind, f"{what} for {down:.1f} s")
    _cut_power(world, engine)
    if engine.name == "sqlite":
        for process in world.processes.values():
            if process.machine.name == engine.machine and process.process.state != "dead":
                process.kill(down_seconds=down + world.rng.uniform(0, 5))
    world.loop.call_later(down, _restart_engine, world, label)


def _cut_power(world: World, engine: Engine) -> None:
    """Crash an engine. Of the commands that are on their way, some are written in part or whole, and none is answered."""
    in_flight: list[tuple[str, tuple[Any, ...]]] = []
    for process in world.processes.values():
        for key, (target, name, args) in list(process.in_flight.items()):
            if target is engine and world.rng.random() < 0.5:
                in_flight.append((name, args))
                del process.in_flight[key]
    kept = engine.crash(in_flight)
    world.effects["commits without an answer"] += max(0, kept)
    world.effects["writes torn or lost"] += max(0, len(in_flight) - max(0, kept))


def _restart_engine(world: World, label: str) -> None:
    world.engines[label].restart()
    world.tell_story(f"{label} answers again")


async def sync_every_second(engine: RedisEngine) -> None:
    """What `appendfsync everysec` does."""
    while True:
        await asyncio.sleep(1.0)
        if engine.is_up:
            engine.sync_now()
