"""Scenario: writers fill a log on one machine, two shippers copy it to a server, and somebody follows the copy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Any, cast

from fleetlore.errors import LogError
from fleetlore.events.envelope import Event
from fleetlore.ingest.read_ahead import LogReadAhead
from fleetlore.ingest.ship import Shipper
from fleetlore.ingest.shipment import shipped_place
from fleetlore.kernel.journal import Journal, NoState
from fleetlore.log.recorder import BlockingRecorder
from simulation import checks
from simulation.chaos import inject_faults, sync_every_second
from simulation.engines import EngineName, RedisEngine
from simulation.world import SimulatedProcess, World

TARGETS: tuple[EngineName, ...] = ("redis", "redis-everysec", "nats")
CHAOS_SECONDS = 60.0
REPAIR_SECONDS = 400.0
BATCHES = 25


class VirtualFlag:
    """A `threading.Event` for virtual threads."""

    def __init__(self, world: World) -> None:
        self._world = world

    def is_set(self) -> bool:
        """Shippers run until they are killed."""
        return False

    def wait(self, seconds: float) -> bool:
        """Let time pass."""
        self._world.loop.pause_thread(max(0.0, seconds))
        return False


def make_read_ahead(flag: VirtualFlag) -> type[LogReadAhead]:
    """Return a class that reads when it is asked, without a thread."""

    class ReadAhead(LogReadAhead):
        def __init__(self, log: BlockingRecorder, *, after: str | None) -> None:
            self._log, self._after = log, after

        def take_events(self, most: int, *, timeout: float) -> list[Event]:
            events = list(islice(self._log.read(after=self._after), most))
            if events:
                self._after = events[-1].position
            else:
                flag.wait(timeout)
            return events

        def close(self) -> None:
            pass

    return ReadAhead


class ShipScenario:
    """Three writers, two shippers and a follower."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.acknowledged: dict[str, None] = {}
        self.unfinished: set[str] = set()
        self.delivered: list[tuple[str, str]] = []
        self.is_over = False

    async def run(self) -> None:
        """Run it with faults, wait until everything is shipped, and check."""
        world = self.world
        for name in ("alpha", "beta"):
            world.add_machine(name)
        world.add_engine("source", "sqlite", machine="alpha")
        target = world.add_engine("log", world.rng.choice(TARGETS))
        world.tell_story(f"Two shippers copy a log to a server ({target.name})")
        if isinstance(target, RedisEngine) and target.loses_last_second:
            world.loop.create_task(sync_every_second(target))
        for number in range(3):
            self.unfinished.add(f"write{number}")
            world.start_process(f"write{number}", "alpha", self.write)
        for number in range(2):
            world.start_process(f"ship{number}", "alpha", self.ship)
        world.start_process("follow", "beta", self.follow)
        await inject_faults(world, CHAOS_SECONDS)
        deadline = world.loop.time() + REPAIR_SECONDS
        while world.loop.time() < deadline and not self._is_done():
            await asyncio.sleep(5.0)
        self.is_over = True
        self.check()

    def _is_done(self) -> bool:
        if self.unfinished:
            return False
        source, target = self.world.engines["source"].store.log, self.world.engines["log"].store.log
        count = source.info().events
        return target.info().events >= count and len(self.delivered) >= count

    # --- processes

    async def write(self, process: SimulatedProcess) -> None:
        """Append batches; one whose outcome is unknown is appended again under its ids."""
        rng = self.world.rng
        journal = Journal(process.open_log("source"), NoState(), scopes=(), retry_seconds=60.0, **process.journal_options())
        while process.disk.setdefault("next", 0) < BATCHES:
            await asyncio.sleep(rng.uniform(0.05, 4))
            process.disk["next"] += 1
            events = [Event(id=self.world.make_id(), kind="test.note", agent=process.name, text="note") for _ in range(rng.randint(1, 8))]
            while True:
                try:
                    await journal.append(events)
                except LogError:
                    await asyncio.sleep(1.0)
                else:
                    break
            self.acknowledged.update(dict.fromkeys(event.id or "" for event in events))
        self.unfinished.discard(process.name)

    async def ship(self, process: SimulatedProcess) -> None:
        """Ship, as `lore ship` does."""
        flag = VirtualFlag(self.world)
        shipper = Shipper(lambda: process.open_blocking("source"), process.open_blocking, now=process.now, read_ahead=make_read_ahead(flag))
        await self.world.loop.run_in_executor(None, lambda: shipper.run(cast(Any, flag)))

    async def follow(self, process: SimulatedProcess) -> None:
        """Follow the copy."""
        log = process.open_log()
        while not self.is_over:
            try:
                async for event in log.follow(after=process.disk.get("position")):
                    self.delivered.append((event.position or "", event.id or ""))
                    process.disk["position"] = event.position
            except LogError:
                await asyncio.sleep(1.0)

    # --- what must hold

    def check(self) -> None:
        """The copy has every event of the source once, in its order, and the follower got the copy."""
        world = self.world
        source, copy = checks.read_all_events(world, "source"), checks.read_all_events(world)
        kept = {event.id for event in source}
        if lost := [id for id in self.acknowledged if id not in kept]:
            world.report_violation(f"event {lost[0]} was acknowledged and is lost")
        wanted, found = [event.id for event in source], [event.id for event in copy]
        if self.unfinished:
            world.report_violation(f"{len(self.unfinished)} writers are not done {REPAIR_SECONDS:.0f} s after the last fault")
        if found != wanted:
            missing, twice = len(set(wanted) - set(found)), len(found) - len(set(found))
            world.report_violation(f"the copy has {len(found)} of {len(wanted)} events: {missing} missing, {twice} twice, or another order")
        for event, shipped in zip(source, copy, strict=False):
            place = shipped_place(shipped)
            if event.id == shipped.id and (place is None or place.position != event.position or event.text != shipped.text):
                world.report_violation(f"event {event.id} was not shipped as it is at {event.position}")
        engine = world.engines["log"]
        if not (isinstance(engine, RedisEngine) and engine.lossy_crashes) and self.delivered != list(_positions(copy)):
            world.report_violation(f"the follower of the copy got {len(self.delivered)} of {len(copy)} events, or another order")


def _positions(events: list[Event]) -> Iterator[tuple[str, str]]:
    return ((event.position or "", event.id or "") for event in events)
