"""Scenario: processes that append, decide, hold leases, read and follow on one log."""

from __future__ import annotations

import asyncio
from typing import Any

from fleetlore.errors import LeaseHeld, LeaseLost, LogError
from fleetlore.events.envelope import Event
from fleetlore.kernel.journal import Journal, JournalDecision, NoState
from simulation import checks
from simulation.chaos import inject_faults, sync_every_second
from simulation.checks import AppendCall, History, ReadCall
from simulation.engines import ENGINES, RedisEngine
from simulation.world import SimulatedProcess, World

CHAOS_SECONDS = 40.0
REPAIR_SECONDS = 300.0
NOTES, COUNTS = 25, 15
LEASE_SECONDS = 6.0
RETRY_SECONDS = 60.0


class Counter:
    """Folds a scope: the highest number in it."""

    def initial(self) -> int:
        return 0

    def apply(self, state: int, event: Event, /) -> int:
        number = event.data.get("number")
        return max(state, number) if isinstance(number, int) else state


class JournalScenario:
    """Writers, counters, lease holders, readers and followers."""

    def __init__(self, world: World) -> None:
        self.world, self.history = world, History()
        self.unfinished: set[str] = set()
        self.is_over = False

    async def run(self) -> None:
        """Run it with faults, wait until all work is done, and check."""
        world = self.world
        where = world.add_main_log(ENGINES)
        engine = world.engines["log"]
        world.tell_story(f"Writers, counters, lease holders and followers share a log ({engine.name})")
        if isinstance(engine, RedisEngine) and engine.loses_last_second:
            world.loop.create_task(sync_every_second(engine))
        for number, main in enumerate((self.write, self.write, self.write, self.count, self.count, self.own, self.own)):
            self.unfinished.add(f"{main.__name__}{number}")
            world.start_process(f"{main.__name__}{number}", where[number % len(where)], main)
        for number in range(2):
            world.start_process(f"follow{number}", where[number % len(where)], self.follow)
        world.start_process("read", where[-1], self.read)
        await inject_faults(world, CHAOS_SECONDS)
        await self._wait_for_end()
        self.check()

    async def _wait_for_end(self) -> None:
        patience = REPAIR_SECONDS + self.world.set_back_seconds
        deadline = self.world.loop.time() + patience
        while self.unfinished and self.world.loop.time() < deadline:
            await asyncio.sleep(1.0)
        if self.unfinished:
            self.world.report_violation(f"{len(self.unfinished)} processes are not done {patience:.0f} s after the last fault")
        events = checks.read_all_events(self.world)
        while self.world.loop.time() < deadline:  # followers catch up
            await asyncio.sleep(1.0)
            if all(delivered and delivered[-1][1] == events[-1].id for delivered in self.history.deliveries.values()):
                break
        self.is_over = True

    def check(self) -> None:
        """Everything that must hold at the end."""
        world, events = self.world, checks.read_all_events(self.world)
        checks.check_appends(world, self.history, events)
        checks.check_reads(world, self.history, events)
        checks.check_followers(world, self.history, events)
        checks.check_epochs(world, self.history)
        checks.check_fencing(world, events, "goal")
        numbers = [event.data["number"] for event in events if event.task == "counter"]
        engine = world.engines["log"]
        if not (isinstance(engine, RedisEngine) and engine.lossy_crashes) and numbers != list(range(1, len(numbers) + 1)):
            world.report_violation(f"two decisions were made from the same state: {numbers}")

    # --- processes

    def _journal(self, process: SimulatedProcess, fold: Any, **options: Any) -> Journal[Any]:
        return Journal(process.open_log(), fold, retry_seconds=RETRY_SECONDS, **process.journal_options(), **options)

    async def _append(self, process: SimulatedProcess, journal: Journal[Any], event: Event) -> None:
        """Append until acknowledged; an event whose outcome is unknown is appended again under its id."""
        call = AppendCall(process.name, event.id or "", self.world.loop.time())
        self.history.appends.append(call)
        while True:
            try:
                [stored] = await journal.append([event])
            except LogError:
                await asyncio.sleep(1.0)
                continue
            call.ended, call.position = self.world.loop.time(), stored.position
            return

    async def write(self, process: SimulatedProcess) -> None:
        """Append notes."""
        rng, journal = self.world.rng, self._journal(process, NoState(), scopes=())
        while process.disk.setdefault("next", 0) < NOTES:
            await asyncio.sleep(rng.uniform(0.05, 3))
            number = process.disk["next"]
            process.disk["next"] = number + 1
            task = rng.choice(("build", "review", None))
            event = Event(id=self.world.make_id(), kind="test.note", agent=process.name, task=task, text=f"note {number}")
            await self._append(process, journal, event)
        self.unfinished.discard(process.name)

    async def count(self, process: SimulatedProcess) -> None:
        """Decide the next number of a scope that others count up, too."""
        rng, journal = self.world.rng, self._journal(process, Counter(), scopes=("task:counter",))
        while process.disk.setdefault("next", 0) < COUNTS:
            await asyncio.sleep(rng.uniform(0.05, 4))
            process.disk["next"] += 1
            call = AppendCall(process.name, "", self.world.loop.time())

            def decide(state: int, call: AppendCall = call) -> JournalDecision[None]:
                call.id = self.world.make_id()
                event = Event(id=call.id, kind="test.count", agent=process.name, task="counter", data={"number": state + 1})
                return JournalDecision([event], guard="task:counter")

            try:
                stored = await journal.decide(decide)
            except LogError:
                continue
            call.ended, call.position = self.world.loop.time(), stored.events[0].position
            self.history.appends.append(call)
        self.unfinished.discard(process.name)

    async def own(self, process: SimulatedProcess) -> None:
        """Write to a goal's scope while holding its lease."""
        rng, coordination = self.world.rng, process.open_coordination()
        while process.disk.setdefault("rounds", 0) < 3:
            journal = self._journal(process, Counter(), scopes=("goal:shared",), owns="goal:shared")
            try:
                async with journal.lease(coordination, ttl=LEASE_SECONDS, renew=LEASE_SECONDS / 4, fenced=True) as holder:
                    assert holder.lease is not None
                    epoch = holder.lease.epoch
                    self.history.epochs.setdefault("goal:shared", []).append((epoch, holder.lease.holder))
                    await journal.catch_up()
                    for _ in range(3):
                        journal.record([self._owned_event(process, epoch)])
                        await asyncio.sleep(rng.uniform(0.1, 5))
                        await journal.append([self._owned_event(process, epoch)])
                    process.disk["rounds"] += 1
            except (LeaseHeld, LeaseLost, LogError):
                pass
            await asyncio.sleep(rng.uniform(0.5, 3))
        self.unfinished.discard(process.name)

    def _owned_event(self, process: SimulatedProcess, epoch: int) -> Event:
        return Event(id=self.world.make_id(), kind="test.owned", agent=process.name, goal="shared", data={"epoch": epoch})

    async def read(self, process: SimulatedProcess) -> None:
        """Read scopes whole."""
        log = process.open_log()
        while not self.is_over:
            scope = self.world.rng.choice(("town", "task:build", "task:counter"))
            started, newest = self.world.loop.time(), None
            try:
                async for event in log.read(scope):
                    newest = event.position
                self.history.reads.append(ReadCall(scope, started, self.world.loop.time(), newest))
                started = self.world.loop.time()
                self.history.reads.append(ReadCall(scope, started, 0, await log.head(scope)))
                self.history.reads[-1].ended = self.world.loop.time()
            except LogError:
                self.history.reads = [read for read in self.history.reads if read.ended]
            await asyncio.sleep(self.world.rng.uniform(0.5, 4))

    async def follow(self, process: SimulatedProcess) -> None:
        """Follow the log and remember the position after each event."""
        delivered = self.history.deliveries.setdefault(process.name, [])
        log = process.open_log()
        while not self.is_over:
            try:
                async for event in log.follow(after=process.disk.get("position")):
                    delivered.append((event.position or "", event.id or ""))
                    process.disk["position"] = event.position
            except LogError:
                await asyncio.sleep(1.0)
