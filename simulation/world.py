"""One run: machines with clocks, processes, engines, the network between them, and the trace of what happened.

Everything random comes from one generator, seeded with the run's seed. A trace line is written for each command that an engine
executes and for each fault; the hash of all lines identifies the run.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from random import Random
from typing import Any
from zlib import crc32

from fleetlore.errors import LogError, Unreachable
from fleetlore.log.admission import Admission
from fleetlore.log.async_recorder import CommitThread, Recorder
from fleetlore.log.coordination import Coordination
from fleetlore.log.recorder import BlockingRecorder
from simulation.engines import Engine, EngineName, Link, SimulatedCoordination, SimulatedLog, Unavailable, make_engine
from simulation.loop import Process, Signal, VirtualLoop, current_process

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
CALL_TIMEOUT = 10.0
"""How long a client tries to reach its server."""
ATTEMPT_SECONDS = 1.0
"""How long a client waits for one answer."""


class Machine:
    """A machine: its clock, and whether the network reaches it."""

    def __init__(self, name: str, rng: Random) -> None:
        self.name = name
        self.skew = rng.choice((0.0, rng.uniform(-2, 2), rng.uniform(-120, 120)))
        self.drift = rng.uniform(-0.0002, 0.0002)
        self.cut_off_until = 0.0


class World:
    """Everything of one run."""

    def __init__(self, seed: int, *, keeps_trace: bool = False) -> None:
        self.seed, self.rng = seed, Random(seed)
        self.loop = VirtualLoop()
        self.machines: dict[str, Machine] = {}
        self.engines: dict[str, Engine] = {}
        self.signals: dict[str, Signal] = {}
        self.processes: dict[str, SimulatedProcess] = {}
        self.operation_count = 0
        self.faults: Counter[str] = Counter()
        """How many faults of each kind were injected."""
        self.effects: Counter[str] = Counter()
        """What they did: messages lost, answers lost, requests executed twice, commands torn by a power cut, …"""
        self.loss_rate = self.duplicate_rate = 0.0
        self.set_back_seconds = 0.0
        """How far clocks were set back in total. Where a lease ends by the wall clock, that of a dead holder ends so much later."""
        self.slowest_delay = self.rng.choice((0.002, 0.02, 0.2))
        self.violations: list[str] = []
        self.story: list[str] = []
        self.keeps_trace, self.trace_lines = keeps_trace, list[str]()
        self._hash = sha256()
        self._id_count = 0
        self.command_count = 0

    # --- what happened

    def trace(self, line: str) -> None:
        """Add a line to the trace."""
        text = f"{self.loop.time():.6f} {line}\n"
        self._hash.update(text.encode())
        if self.keeps_trace:
            self.trace_lines.append(text)

    def tell_story(self, sentence: str) -> None:
        """Add a sentence to the story of the run, and to the trace."""
        self.trace(sentence)
        if self.keeps_trace:
            self.story.append(f"{_format_time(self.loop.time())}  {sentence}")

    @property
    def fault_count(self) -> int:
        """Injected faults of all kinds."""
        return self.faults.total()

    def add_fault(self, kind: str, sentence: str) -> None:
        """Count a fault and add it to the story."""
        self.faults[kind] += 1
        self.tell_story(sentence)

    def report_violation(self, sentence: str) -> None:
        """A promise was broken."""
        self.violations.append(sentence)
        self.tell_story(f"VIOLATION: {sentence}")

    @property
    def trace_hash(self) -> str:
        """Identifies everything that happened."""
        return self._hash.hexdigest()

    # --- time and ids

    def true_time(self) -> datetime:
        """The time without skew."""
        return START + timedelta(seconds=self.loop.time())

    def make_id(self) -> str:
        """A version 7 UUID from the run's generator."""
        self._id_count += 1
        stamp, rest = int(self.loop.time() * 1000) + 1_767_603_600_000, self.rng.getrandbits(60)
        return f"{stamp >> 16:08x}-{stamp & 0xFFFF:04x}-7{self._id_count & 0xFFF:03x}-8{rest >> 48:03x}-{rest & 0xFFFFFFFFFFFF:012x}"

    # --- parts

    def add_machine(self, name: str) -> Machine:
        """Add a machine with a clock of its own."""
        machine = self.machines[name] = Machine(name, self.rng)
        return machine

    def add_engine(self, label: str, name: EngineName, *, machine: str = "") -> Engine:
        """Add an engine. One that is a file lives on a machine and uses its clock."""
        clock = self.machines[machine] if machine else None
        engine = make_engine(name, self.make_id(), lambda: self.read_wall_clock(clock), self.rng)
        self.engines[label], engine.machine = engine, machine
        signal = self.signals[label] = Signal(self.loop)
        engine.on_change = signal.notify
        return engine

    def add_main_log(self, names: Sequence[EngineName]) -> list[str]:
        """Add two machines and the engine `log`; returns the machines that reach it. A file is reached on one machine only."""
        name: EngineName = self.rng.choice(names)
        self.add_machine("alpha")
        self.add_machine("beta")
        self.add_engine("log", name, machine="alpha" if name == "sqlite" else "")
        return ["alpha"] if name == "sqlite" else ["alpha", "beta"]

    def read_wall_clock(self, machine: Machine | None) -> datetime:
        """The time as a machine's clock shows it."""
        return self.true_time() if machine is None else self.true_time() + timedelta(seconds=machine.skew)

    def start_process(
        self, name: str, machine: str, main: Callable[[SimulatedProcess], Coroutine[Any, Any, None]], *, restarts: bool = True
    ) -> SimulatedProcess:
        """Start a process. If it is killed, it is started again after a while unless it does not restart."""
        process = SimulatedProcess(self, name, self.machines[machine], main, restarts=restarts)
        self.processes[name] = process
        process.start()
        return process

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Run to the end of `main`."""
        was_enabled = gc.isenabled()
        gc.disable()  # a collection at another moment would be another run
        try:
            self.loop.run_until_complete(main)
        finally:
            hook, sys.unraisablehook = sys.unraisablehook, lambda _: None  # `finally` blocks of killed processes
            try:
                self.loop.end_run()
                self.processes.clear()
                with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # coroutines that never began
                    gc.collect()
            finally:
                sys.unraisablehook = hook
                if was_enabled:
                    gc.enable()


def _format_time(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{seconds % 60:06.3f}"


class VirtualCommitThread(CommitThread):
    """Commits in virtual threads, one at a time."""

    def __init__(self, commit: Callable[[Any], None]) -> None:
        self._commit, self._loop = commit, asyncio.get_running_loop()

    def submit(self, group: Any) -> None:
        """Commit a group after those before it."""
        self._loop.run_in_executor(self, self._commit, group)  # type: ignore[arg-type]

    _max_workers = 1

    async def close(self) -> None:
        """Nothing to end."""


class SimulatedProcess:
    """A process of the system: what it is given instead of real clocks, ids and servers. Each start is a new incarnation."""

    def __init__(
        self,
        world: World,
        name: str,
        machine: Machine,
        main: Callable[[SimulatedProcess], Coroutine[Any, Any, None]],
        *,
        restarts: bool,
    ) -> None:
        self.world, self.name, self.machine, self._main, self._restarts = world, name, machine, main, restarts
        self.starts = 0
        self.is_stopped = False
        self.process = Process(name, machine.name)
        self.task: asyncio.Task[None] | None = None
        self.disk: dict[str, Any] = {}
        """What the process keeps across restarts, such as a follower's position."""
        self._holder_count = 0
        self.ambush: Callable[[], None] | None = None
        """A fault that happens as soon as it sends its next command."""
        self.in_flight: dict[int, tuple[Engine, str, tuple[Any, ...]]] = {}
        """Commands that an engine has not executed yet."""

    @property
    def is_working(self) -> bool:
        """Whether it runs and is not done."""
        return self.process.state == "running" and self.task is not None and not self.task.done()

    def start(self) -> None:
        """Start or restart it."""
        self.starts += 1
        self.process = Process(f"{self.name}#{self.starts}", self.machine.name)
        self.task = self.world.loop.start_in(self.process, self._run_main())

    async def _run_main(self) -> None:
        try:
            await self._main(self)
        except LogError as error:
            self.world.trace(f"{self.process.name} ended: {error}")
            self.world.loop.call_later(self.world.rng.uniform(0.5, 3), self._restart_after_error)

    def _restart_after_error(self) -> None:
        if self.process.state != "dead" and not self.is_stopped:
            self.start()

    def kill(self, *, down_seconds: float) -> None:
        """End it as `kill -9` does; it starts again later. A command that it waits for may be executed all the same."""
        self.process.state = "dead"
        in_flight, self.in_flight = self.in_flight, {}
        for engine, name, args in in_flight.values():
            if engine.is_up and self.world.rng.random() < 0.5:
                engine.execute(name, args)
                self.world.effects["commits whose caller was killed"] += 1
        if self._restarts:
            # In no process: the timer of a killed process would never run.
            context = contextvars.Context()
            self.world.loop.call_at(self.world.loop.time() + down_seconds, self._start_again, context=context)

    def _start_again(self) -> None:
        if self.process.state == "dead" and not self.is_stopped:
            self.world.tell_story(f"{self.name} starts again")
            self.start()

    # --- what it is given

    def now(self) -> datetime:
        """Its machine's wall clock."""
        return self.world.read_wall_clock(self.machine)

    def ticks(self) -> float:
        """Its machine's steady clock."""
        return self.world.loop.time() * (1 + self.machine.drift)

    def make_holder(self) -> str:
        """A name for the holder of a lease."""
        self._holder_count += 1
        return f"{self.machine.name}:0:{self.process.name}/{self._holder_count}"

    def journal_options(self) -> dict[str, Any]:
        """Clock and ids, as journals take them."""
        return {"now": self.now, "ticks": self.ticks, "new_id": self.world.make_id, "make_holder": self.make_holder}

    def _admission(self) -> Admission:
        return Admission(now=self.now, new_id=self.world.make_id)

    def open_log(self, engine: str = "log") -> Recorder:
        """Open a log for asyncio."""
        return Recorder(SimulatedLog(NetworkLink(self, engine)), self._admission(), writer=VirtualCommitThread)

    def open_blocking(self, engine: str = "log") -> BlockingRecorder:
        """A log for virtual threads, to be entered."""
        return BlockingRecorder(lambda: SimulatedLog(NetworkLink(self, engine)), self._admission())

    def open_coordination(self, engine: str = "log") -> Coordination:
        """Cursors and leases beside a log."""
        return Coordination(lambda: SimulatedCoordination(NetworkLink(self, engine))).__enter__()


class _NoAnswer(Exception):
    """One attempt got no answer; whether the command was executed is unknown."""


class NetworkLink(Link):
    """A connection from a process to an engine, with delay, loss, partitions and duplicates. A file is reached without a network."""

    def __init__(self, process: SimulatedProcess, label: str) -> None:
        self._owner, self._world, self._label = process, process.world, label
        self._is_local = self._world.engines[label].name == "sqlite"
        super().__init__(self._world.engines[label], self._world.signals[label])

    def call(self, name: str, *args: Any) -> Any:
        """Run a command; attempts without an answer are repeated until the timeout, then `Unreachable` is raised."""
        world, loop = self._world, self._world.loop
        world.operation_count += name != "read_page"
        deadline = loop.time() + CALL_TIMEOUT
        while True:
            try:
                result = self._execute_locally(name, args) if self._is_local else self._send_request(name, args)
                break
            except _NoAnswer:
                if loop.time() >= deadline:
                    raise Unreachable(f"{self._label}: no answer within {CALL_TIMEOUT:.0f} s") from None
                loop.pause_thread(world.rng.uniform(0.05, 0.3))
        if isinstance(result, LogError):
            raise result
        return result

    def _execute_locally(self, name: str, args: tuple[Any, ...]) -> Any:
        key = self._begin(name, args)
        self._world.loop.pause_thread(self.engine.call_delay(name))
        self._owner.in_flight.pop(key, None)
        return self._execute(name, args)

    def _begin(self, name: str, args: tuple[Any, ...]) -> int:
        """Note a command that is on its way: if its sender or the engine crashes now, it may be executed all the same."""
        self._world.command_count += 1
        if name not in self.engine.READS and self.engine.name != "nats":
            self._owner.in_flight[self._world.command_count] = self.engine, name, args
            for victim in (self._owner, self.engine):
                if (ambush := victim.ambush) is not None:
                    victim.ambush = None
                    self._world.loop.call_soon(ambush, context=contextvars.Context())
        return self._world.command_count

    def _send_request(self, name: str, args: tuple[Any, ...]) -> Any:
        world = self._world
        key = self._begin(name, args)
        try:
            self._travel()
        finally:
            self._owner.in_flight.pop(key, None)
        incarnation = self.engine.incarnation
        result = self._execute(name, args)
        if world.duplicate_rate and name == "commit" and world.rng.random() < world.duplicate_rate:
            world.loop.call_later(world.rng.uniform(0.01, 3.0), self._execute_again, name, args, incarnation)
        try:
            self._travel()
        except _NoAnswer:
            world.effects["answers lost"] += 1
            raise
        if self.engine.incarnation != incarnation:
            world.effects["answers lost"] += 1
            raise _NoAnswer
        return result

    def _travel(self) -> None:
        """Cross the network once, or get lost."""
        world = self._world
        is_lost = world.loss_rate and world.rng.random() < world.loss_rate
        world.effects["messages lost"] += bool(is_lost)
        if is_lost or self._owner.machine.cut_off_until > world.loop.time():
            world.loop.pause_thread(ATTEMPT_SECONDS)
            raise _NoAnswer
        world.loop.pause_thread(world.rng.uniform(0.0001, world.slowest_delay) + self.engine.call_delay("read"))

    def _execute(self, name: str, args: tuple[Any, ...]) -> Any:
        world = self._world
        try:
            result = self.engine.execute(name, args)
        except Unavailable:
            world.loop.pause_thread(0.05)
            raise _NoAnswer from None
        if name != "read_page":
            world.trace(f"{self._owner.process.name} {self._label} {name} {_describe_result(result)}{_digest_commit(name, args)}")
        return result

    def _execute_again(self, name: str, args: tuple[Any, ...], incarnation: int) -> None:
        """A request that the client gave up arrives late. What is on its way to one Redis server ends with its connections."""
        if self.engine.name.startswith("redis") and self.engine.incarnation != incarnation:
            return
        try:
            self.engine.execute(name, args)
            self._world.effects["requests executed twice"] += 1
            self._world.trace(f"{self._label} {name} of {self._owner.process.name} arrived again")
        except Unavailable:
            pass

    def read_clock(self) -> float:
        """Seconds for timeouts."""
        return self._world.loop.time()

    def wait_for_change(self, seconds: float) -> None:
        """Wait until something was stored, at most so many seconds."""
        self.changed.wait(min(seconds, ATTEMPT_SECONDS))


def _describe_result(result: Any) -> str:
    if isinstance(result, list):
        return ",".join(_describe_result(one) for one in result[:3]) + f" ({len(result)})"
    if isinstance(result, LogError):
        return type(result).__name__
    return str(getattr(result, "position", None) or getattr(result, "epoch", None) or (result if isinstance(result, str | int) else ""))


def _digest_commit(name: str, args: tuple[Any, ...]) -> str:
    """A checksum of the bytes that an append stores."""
    if name != "commit":
        return ""
    return f" {crc32(b''.join(record.raw for batch in args[0] for record in batch.records)):08x}"


def running_process() -> Process | None:
    """The process in which the caller runs."""
    return current_process.get()
