"""A large town on servers: `python -m benchmarks.town_scale [--agents 1000] [--workers 4] [--ups 1] [--on cluster valkey]`.

Starts a cluster of three NATS servers (three replicas) or one Valkey on loopback, then worker processes that share the agents, each also
offering to dispatch as `lore worker` does, and `lore up` processes that follow the log. Simulated agents finish their tasks at once.
Measured are tasks at a steady rate and tasks that all wait at once: throughput, append → follower in another process, assignment → claim,
and the memory of each process. Everything runs below one time limit per engine and is ended and deleted afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from threading import Thread
from time import monotonic, perf_counter

from tests.servers import NatsCluster, Valkey, end_with_parent, free_port

from benchmarks import processes
from benchmarks.measure import Row, percentile, print_table, progress
from benchmarks.town_load import measure_claims, work, write_tasks
from fleetlore import connect
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.coordination import open_shared
from fleetlore.town.dispatcher import Dispatcher
from fleetlore.town.journal import TownJournal
from fleetlore.town.worker import Worker
from fleetlore.views import town

LEASE_SECONDS = 120.0
ENGINES = ("cluster", "valkey")
_LORE = Path(sys.executable).parent / "lore"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.town_scale", description="A large town on servers.")
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=4, help="processes that share the agents")
    parser.add_argument("--ups", type=int, default=1, help="`lore up` processes that follow the log")
    parser.add_argument("--tasks", type=int, default=2000, help="tasks that all wait at once")
    parser.add_argument("--paced", type=int, default=600, help="tasks that come one by one")
    parser.add_argument("--rate", type=float, default=20.0, help="of those, so many a second")
    parser.add_argument("--minutes", type=float, default=10.0, help="the limit for each engine")
    parser.add_argument("--on", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--dir", type=Path, help="where to put the data (else the system's place for temporary files)")
    parser.add_argument("--worker", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.worker:
        asyncio.run(_run_worker(options.worker, options.agents))
        return 0
    rows: list[Row] = []
    for engine in options.on:
        with tempfile.TemporaryDirectory(prefix="fleetlore-bench-", dir=options.dir) as name:
            load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
            print(
                f"{engine}: {options.agents:,} agents in {options.workers} workers; load {load}",
                flush=True,
            )
            try:
                rows += _measure_engine(engine, Path(name), options)
            except TimeoutError:
                print(f"{engine}: not done within {options.minutes:g} minutes", flush=True)
    print_table(rows)
    return 0 if rows else 1


async def _run_worker(url: str, agents: int) -> None:
    """A worker process; it ends with its parent."""
    async with connect(url) as log:
        with open_shared(url) as shared:
            journal, stop = TownJournal(log), asyncio.Event()
            dispatcher = Dispatcher(journal, shared, lease_seconds=LEASE_SECONDS)
            worker = Worker(journal, shared, work, concurrency=agents, lease_seconds=LEASE_SECONDS)
            await asyncio.gather(dispatcher.run(stop), worker.run(stop))


@contextmanager
def _open_engine(engine: str, folder: Path) -> Iterator[tuple[str, dict[str, int]]]:
    """Its address, and its processes by name."""
    if engine == "valkey":
        with Valkey(folder / "valkey") as server:
            yield f"{server.url}?timeout=60", {"valkey": server.pid}
        return
    with NatsCluster(folder) as cluster:
        yield f"{cluster.url}?replicas=3&timeout=60", {f"nats {name}": server.pid for name, server in cluster.servers.items()}


def _measure_engine(engine: str, folder: Path, options: argparse.Namespace) -> list[Row]:
    with ExitStack() as stack:
        url, pids = stack.enter_context(_open_engine(engine, folder))
        share = options.agents // options.workers
        for number in range(options.workers):
            command = [sys.executable, "-m", "benchmarks.town_scale", "--worker", url, "--agents", str(share)]
            pids[f"worker {number + 1}"] = _start(stack, command, folder)
        for number in range(options.ups):
            command = [str(_LORE), "--log", url, "up", "--port", str(free_port())]
            pids[f"lore up {number + 1}"] = _start(stack, command, folder)
        return asyncio.run(_measure_town(engine, url, share * options.workers, pids, options))


def _start(stack: ExitStack, command: Sequence[str], folder: Path) -> int:
    environment = os.environ | {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "PYTHONPATH": str(processes.ROOT)}
    with (folder / "output.txt").open("ab") as output:
        child = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=end_with_parent
        )
    stack.callback(_end, child)
    return child.pid


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()


async def _measure_town(engine: str, url: str, agents: int, pids: dict[str, int], options: argparse.Namespace) -> list[Row]:
    deadline = monotonic() + options.minutes * 60
    async with asyncio.timeout(options.minutes * 60), connect(url) as log:
        counts = _Counts(log)
        following = asyncio.create_task(counts.follow())
        try:
            start = perf_counter()
            await counts.wait_for("idle", agents, engine)
            joined = perf_counter() - start
            delays: list[float] = []
            probe = Thread(target=lambda: delays.extend(processes.follow_delays(url, 300, "agent:probe")), daemon=True)
            probe.start()
            paced = await _pace(log, counts, options, engine)
            await asyncio.to_thread(probe.join, max(0.0, deadline - monotonic()))
            flood = await _flood(log, counts, options, engine)
            claims = await measure_claims(TownJournal(log))
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    name = f"{engine}, {agents:,} agents"
    follows = [delay / 1e3 for delay in delays]
    return [
        Row(f"{name}: all agents ready after", "s", joined, None, None),
        Row(f"{name}: tasks one by one, completed", "/s", paced, None, None),
        Row(f"{name}: append → follower in another process, p50", "ms", median(follows), None, None),
        Row(f"{name}: append → follower in another process, p99", "ms", percentile(follows, 99), None, None),
        Row(f"{name}: assignment → claim, one by one, p50", "ms", median(claims[: options.paced]), None, None),
        Row(f"{name}: assignment → claim, one by one, p99", "ms", percentile(claims[: options.paced], 99), None, None),
        Row(f"{name}: {options.tasks:,} tasks at once, completed", "/s", flood, None, None),
        Row(f"{name}: assignment → claim, all at once, p99", "ms", percentile(claims[options.paced :], 99), None, None),
        *(Row(f"{name}: memory of {process}", "MB", _read_memory(pid), None, None) for process, pid in pids.items()),
    ]


class _Counts:
    """The town's fold, kept current: how many agents are idle, how many tasks are done."""

    def __init__(self, log: Recorder) -> None:
        self._log, self.state = log, town.initial()

    async def follow(self) -> None:
        async for event in self._log.follow(after=None):
            self.state = town.apply(self.state, event)

    async def wait_for(self, what: str, count: int, engine: str) -> None:
        reported = monotonic()
        while (now := self.done if what == "done" else sum(map(len, self.state.idle.values()))) < count:
            if monotonic() - reported > 1:
                reported = monotonic()
                progress(f"{engine}: {now} of {count} {what}")
            await asyncio.sleep(0.02)

    @property
    def done(self) -> int:
        return self.state.done


async def _pace(log: Recorder, counts: _Counts, options: argparse.Namespace, engine: str) -> float:
    start = perf_counter()
    for number, task in enumerate(write_tasks(options.paced, "paced")):
        await asyncio.sleep(max(0.0, start + number / options.rate - perf_counter()))
        await log.append([task])
    await counts.wait_for("done", options.paced, engine)
    return float(options.paced / (perf_counter() - start))


async def _flood(log: Recorder, counts: _Counts, options: argparse.Namespace, engine: str) -> float:
    await log.append_all(write_tasks(options.tasks, "flood"))
    start, before = perf_counter(), counts.done
    await counts.wait_for("done", options.paced + options.tasks, engine)
    return float((counts.done - before) / (perf_counter() - start))


def _read_memory(pid: int) -> float:
    """The most memory that a process had, in MB; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)


if __name__ == "__main__":
    sys.exit(main())
