"""Faults of a run: crashes, suspensions, partitions, loss, duplicates, power cuts, lost leaders and wrong clocks."""

from __future__ import annotations

import asyncio

from simulation.engines import ELECTION_SECONDS, RESTART_SECONDS, RedisEngine
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
    await asyncio.sleep(max(0.0, seconds - world.loop.time()))
    world.loss_rate = world.duplicate_rate = 0.0
    for machine in world.machines.values():
        machine.cut_off_until = 0.0
    world.tell_story("The faults end")


def _inject_fault(world: World, spares: tuple[str, ...]) -> None:
    harmed = [one for one in world.processes.values() if one.process.state == "running" and one.name not in spares]
    choices = ["kill", "kill", "suspend", "engine", "clock"]
    if any(engine.name != "sqlite" for engine in world.engines.values()):
        choices += ["partition", "loss", "duplicates", "delay"]
    match world.rng.choice(choices):
        case "kill" if harmed:
            process, down = world.rng.choice(harmed), world.rng.uniform(0.1, 20)
            world.add_fault(f"{process.name} is killed and stays down for {down:.1f} s")
            process.kill(down_seconds=down)
        case "suspend" if harmed:
            _suspend(world, world.rng.choice(harmed))
        case "partition":
            machine, length = world.rng.choice(list(world.machines.values())), world.rng.uniform(0.5, 30)
            world.add_fault(f"{machine.name} is cut off from the servers for {length:.1f} s")
            machine.cut_off_until = world.loop.time() + length
        case "loss":
            world.loss_rate = world.rng.choice((0.01, 0.05, 0.2))
            world.add_fault(f"The network loses {world.loss_rate:.0%} of all messages")
        case "duplicates":
            world.duplicate_rate = world.rng.choice((0.05, 0.3))
            world.add_fault(f"{world.duplicate_rate:.0%} of the appends arrive a second time")
        case "delay":
            world.slowest_delay = world.rng.choice((0.002, 0.05, 0.5))
            world.add_fault(f"Messages take up to {world.slowest_delay * 1000:.0f} ms")
        case "clock":
            machine, step = world.rng.choice(list(world.machines.values())), world.rng.choice((-90.0, -2.0, 2.0, 90.0))
            machine.skew += step
            world.add_fault(f"The clock of {machine.name} jumps by {step:+.0f} s")
        case _:
            _crash_engine(world)


def _suspend(world: World, owner: SimulatedProcess) -> None:
    process, length = owner.process, world.rng.choice((world.rng.uniform(0.1, 5), world.rng.uniform(5, 60)))
    world.add_fault(f"{owner.name} is suspended for {length:.1f} s")
    process.state = "suspended"
    world.loop.call_later(length, _resume, world, process, owner.name)


def _resume(world: World, process: Process, name: str) -> None:
    if process.state == "suspended":
        world.tell_story(f"{name} continues")
        world.loop.resume(process)


def _crash_engine(world: World) -> None:
    """Cut the power of an engine. If it is a file, the processes on its machine end with it."""
    label = world.rng.choice(list(world.engines))
    engine = world.engines[label]
    if not engine.is_up:
        return
    low, high = ELECTION_SECONDS if engine.name == "nats" else RESTART_SECONDS
    down = world.rng.uniform(low, high)
    what = {"sqlite": f"The machine of {label} loses its power", "nats": f"The leader of {label} is lost"}
    world.add_fault(f"{what.get(engine.name, f'The server of {label} loses its power')} for {down:.1f} s")
    if engine.name == "sqlite":
        for process in world.processes.values():
            if process.machine.name == engine.machine and process.process.state != "dead":
                process.kill(down_seconds=down + world.rng.uniform(0, 5))
    engine.crash()
    world.loop.call_later(down, _restart_engine, world, label)


def _restart_engine(world: World, label: str) -> None:
    world.engines[label].restart()
    world.tell_story(f"{label} answers again")


async def sync_every_second(engine: RedisEngine) -> None:
    """What `appendfsync everysec` does."""
    while True:
        await asyncio.sleep(1.0)
        if engine.is_up:
            engine.sync_now()
