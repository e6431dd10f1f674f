"""The soak: `python -m torture.soak --minutes 30`, or as part of `make torture`. Exits non-zero if anything was lost, grew or slowed down.

A real `lore up` on a fresh SQLite log; two hundred scripted agents that together say about a hundred things a second; ten readers of the
feed; one Chromium with the control room open; and now and then `lore status`, `lore tell` and `lore backup` beside them. Measured each
minute: memory, files, threads, WAL and CPU of the server, how long an append takes, how long until it is delivered, how long Fleet takes.

What may grow: of what is closed, threads, arcs, tasks and what they cost, views remember the newest few thousand, and there are about as
many after ten minutes; answers about the past are remembered up to 8 MiB, and the browser asks for as many by then. After that a
finished task leaves 8 bytes behind (that it was done), and an agent one cell of costs for each quarter of an hour: some 20 KB a minute
in all. The agents finish some 500 tasks a minute, so GROWTH is about half a kilobyte for each: room for what the allocator does, and none
for a leak.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from subprocess import PIPE
from time import monotonic

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.browser import conftest

from fleetlore import connect
from torture.soak_agents import Agent, Connection, Tally
from torture.soak_gauges import MIB, Minute, Process, p50_p99, pressure, slope, table, thirds
from torture.soak_readers import PROFILES, Reader

AGENTS = 200
WARM_SHARE, LONGEST_WARM = 1 / 2, 10.0
"""Of the minutes, and at the most."""
GROWTH = 0.3
"""MiB a minute that memory may grow by after warm-up."""
SLOWER = 1.5
"""By how much the p99 of the last third may exceed that of the first."""
LEAST_JUDGED = 6
"""Minutes; fewer say nothing about what grows."""
SHUTDOWN = 10.0
PROBE = 0.5
BESIDE = (("status",), ("tell", "--last", "200"), ("backup", "--force", "copy.db"), ("status", "--json"))
END = 60.0


class Soak:
    """One soak in one folder."""

    def __init__(self, folder: Path, minutes: float, seed: int, *, agents: int = AGENTS) -> None:
        self.folder, self.minutes, self.seed, self._count = folder, minutes, seed, agents
        self.log = f"sqlite:{folder}/fleet.db"
        self.tally, self.rows, self.faults = Tally(), list[Minute](), list[str]()
        self.looks: list[float] = []
        self.heaps: list[dict[str, float]] = []
        self.shutdown_seconds = 0.0
        homes = {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("DATA", "CACHE", "CONFIG", "STATE")}
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        self._environment = {**kept, "HOME": str(folder), **homes}

    async def run(self) -> None:
        """All of it; what was wrong is in `faults` afterwards."""
        async with self._up() as up:
            port, token = up
            self.readers = [Reader(profile, port, token, self.tally.sent, self.seed) for profile in PROFILES]
            stop, end = asyncio.Event(), asyncio.Event()
            async with asyncio.TaskGroup() as crowd:
                for reader in self.readers:
                    crowd.create_task(reader.read(end))
                async with asyncio.TaskGroup() as working:
                    for number in range(self._count):
                        agent = Agent(number, self.seed, Connection(port, token, self.tally), self.tally)
                        working.create_task(agent.live(stop))
                    working.create_task(self._probe(port, token, stop))
                    working.create_task(self._beside(stop))
                    working.create_task(self._browse(port, token, stop))
                    await self._watch()
                    stop.set()
                await self._catch_up()
                end.set()
        self._compare()
        await self._lore("verify")

    # --- who takes part

    @asynccontextmanager
    async def _up(self) -> AsyncIterator[tuple[int, str]]:
        command = [sys.executable, "-m", "fleetlore", "up", "--log", self.log, "--port", "0"]
        with open(self.folder / "up.err", "wb") as problems:  # noqa: ASYNC230 - before anything runs
            self._server = await asyncio.create_subprocess_exec(
                *command, env=self._environment, cwd=self.folder, stdout=PIPE, stderr=problems
            )
            assert self._server.stdout is not None
            try:
                found = re.search(rb":(\d+)/", said := await self._server.stdout.readline())
                assert found is not None, said
                token = await self._lore("token", "create", "--scope", "write", "--label", "fleet")
                yield int(found[1]), token.strip()
            finally:
                began = monotonic()
                self._server.send_signal(signal.SIGINT)
                await asyncio.wait_for(self._server.wait(), END)
                self.shutdown_seconds = monotonic() - began
        if self._server.returncode or (self.folder / "up.err").stat().st_size:
            self.faults.append(f"lore up ended with {self._server.returncode}: {(self.folder / 'up.err').read_text()[-500:]!r}")

    async def _lore(self, *words: str) -> str:
        command = [sys.executable, "-m", "fleetlore", *words, "--log", self.log]
        process = await asyncio.create_subprocess_exec(*command, env=self._environment, cwd=self.folder, stdout=PIPE, stderr=PIPE)
        said, problem = await process.communicate()
        if process.returncode:
            self.faults.append(f"lore {' '.join(words)} ended with {process.returncode}: {problem[-300:]!r}")
        return said.decode()

    async def _beside(self, stop: asyncio.Event) -> None:
        turn = 0
        while not await _stopped(stop, 20.0):
            await self._lore(*BESIDE[turn % len(BESIDE)])
            turn += 1

    async def _probe(self, port: int, token: str, stop: asyncio.Event) -> None:
        line = Connection(port, token, self.tally)
        while not await _stopped(stop, PROBE):
            began = monotonic()
            await line.get("/api/fleet")
            self.looks.append((monotonic() - began) * 1e3)
        line.close()

    async def _browse(self, port: int, token: str, stop: asyncio.Event) -> None:
        if not os.access(conftest.CHROMIUM, os.X_OK):
            self.faults.append(f"nobody looked: there is no browser at {conftest.CHROMIUM}")
            return
        command = [sys.executable, "-m", "torture.soak_browser", f"http://127.0.0.1:{port}/", token, str(self.seed)]
        process = await asyncio.create_subprocess_exec(*command, cwd=Path(__file__).parents[1], stdin=PIPE, stdout=PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        reading = asyncio.create_task(self._read_lines(process.stdout))
        await asyncio.wait({reading, leaving := asyncio.create_task(stop.wait())}, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        process.stdin.close()
        await reading
        if await process.wait():
            self.faults.append(f"the browser's walk ended with {process.returncode}")

    async def _read_lines(self, lines: asyncio.StreamReader) -> None:
        while line := await lines.readline():
            recorded = json.loads(line)
            self.faults += recorded.pop("faults")
            self.heaps.append(recorded)

    # --- what is measured

    async def _watch(self) -> None:
        process, count, began = Process(self._server.pid), 0, monotonic()
        for number in range(1, round(self.minutes) + 1):
            await asyncio.sleep(began + number * 60 - monotonic())
            row = self._row(process, number, count)
            self.rows.append(row)
            count = row.events
            print(table([row]).rpartition("\n")[2], file=sys.stderr, flush=True)

    def _row(self, process: Process, number: int, before: int) -> Minute:
        delays = [delay for reader in self.readers for delay in reader.delays]
        wal, count = self.folder / "fleet.db-wal", self.tally.count
        row = Minute(
            minute=number,
            events=count,
            rate=(count - before) / 60,
            rss=process.rss,
            files=process.files,
            threads=process.threads,
            wal=wal.stat().st_size / MIB if wal.exists() else 0.0,
            cpu=process.cpu(),
            append=p50_p99(self.tally.appends),
            delivery=p50_p99(delays),
            fleet=p50_p99(self.looks),
            heap=self.heaps[-1]["heap"] if self.heaps else None,
            pressure=pressure(),
        )
        self.tally.appends.clear()
        self.looks.clear()
        for reader in self.readers:
            reader.delays.clear()
        return row

    async def _catch_up(self) -> None:
        """Let every reader come to the end of what it wants."""
        with connect(self.log).blocking() as log:
            self._ends = {
                profile.name: int(next(iter(log.read(profile.scope, kinds=_kinds(profile.kind), newest_first=True, limit=1))).position or 0)
                for profile in PROFILES
            }
        for reader in self.readers:
            reader.is_hurried = True
        deadline = monotonic() + END
        while monotonic() < deadline and any(reader.last < self._ends[reader.profile.name] for reader in self.readers):  # noqa: ASYNC110
            await asyncio.sleep(0.1)

    # --- what is judged

    def _compare(self) -> None:
        """What was acknowledged is on the log once; what is on the log came to each reader once, in order."""
        with connect(self.log).blocking() as log:
            events = list(log.read())
            recorded = {
                profile.name: [int(event.position or 0) for event in log.read(profile.scope, kinds=_kinds(profile.kind))]
                for profile in PROFILES
            }
        stored = {event.id: event.position for event in events}
        lost = sum(stored.get(id) != position for id, position in self.tally.stored.items())
        lost += len(set(self.tally.beats) - set(stored.values()))
        calls = Counter(f"{event.kind}/{event.data.get('call_id')}" for event in events if event.kind.startswith("tool."))
        lost += sum(calls[call] != 1 for call in self.tally.calls)
        if lost:
            self.faults.append(f"{lost} of {self.tally.count} acknowledged events are not on the log once")
        if len(events) != self.tally.count or len(stored) != len(events):
            self.faults.append(f"{len(events)} events are on the log, {self.tally.count} were acknowledged")
        for reader in self.readers:
            if (seen := reader.positions.tolist()) != recorded[reader.profile.name]:
                missing, twice = len(set(recorded[reader.profile.name]) - set(seen)), len(seen) - len(set(seen))
                self.faults.append(
                    f"the reader of {reader.profile.name}: {missing} missing, {twice} twice, of {len(recorded[reader.profile.name])}"
                )

    @property
    def _warm_up(self) -> float:
        """The minutes that are not judged."""
        return min(LONGEST_WARM, self.minutes * WARM_SHARE)

    @property
    def _judged(self) -> list[Minute]:
        return [row for row in self.rows if row.minute > self._warm_up]

    def judge(self) -> list[str]:
        """Every fault, those of growth and slowness among them."""
        rows, faults = self._judged, list(self.faults)
        if self.shutdown_seconds > SHUTDOWN:
            faults.append(f"it took {self.shutdown_seconds:.1f} s to end")
        if len(rows) < LEAST_JUDGED:
            return faults
        if (growth := slope([(row.minute, row.rss) for row in rows])) > GROWTH:
            faults.append(f"memory grows by {growth:.2f} MiB a minute")
        for name in ("append", "delivery", "fleet"):
            first, last = thirds([getattr(row, name)[1] for row in rows])
            if last > first * SLOWER:
                faults.append(f"p99 of {name}: {first:.1f} ms, then {last:.1f} ms")
        return faults

    def summary(self) -> str:
        """One line for the list of fault tests."""
        returns = sum(reader.returns for reader in self.readers)
        steps = int(self.heaps[-1]["steps"]) if self.heaps else 0
        return (
            f"a soak of {self.minutes:g} minutes, {self._count} agents on `lore up`, {self.tally.count:,} events, "
            f"ten readers that came back {returns} times, a browser that walked {steps} steps: "
            f"none lost, none twice; ended in {self.shutdown_seconds:.1f} s"
        )

    def figures(self) -> str:
        """What the judgement rests on, beyond the table."""
        rows = self._judged
        lines = [f"after {self._warm_up:.0f} minutes: RSS {slope([(row.minute, row.rss) for row in rows]):+.3f} MiB a minute"]
        lines += [
            f"p99 of {name}, first and last third: {first:.1f}, {last:.1f} ms"
            for name in ("append", "delivery", "fleet")
            for first, last in [thirds([getattr(row, name)[1] for row in rows])]
        ]
        if len(self.heaps) > 2:
            heaps = [(float(number), recorded["heap"]) for number, recorded in enumerate(self.heaps)]
            nodes, listeners = (thirds([recorded[name] for recorded in self.heaps]) for name in ("nodes", "listeners"))
            lines.append(f"the page: heap {slope(heaps):+.3f} MB a look; nodes {nodes[0]:.0f}, then {nodes[1]:.0f}; listeners {listeners}")
        lines.append(f"requests sent again on a new connection: {self.tally.retries}")
        return "\n".join(lines)


def _kinds(kind: str) -> Sequence[str]:
    return (kind,) if kind else ()


async def _stopped(stop: asyncio.Event, seconds: float) -> bool:
    """Whether a stop is requested within some seconds."""
    try:
        async with asyncio.timeout(seconds):
            return await stop.wait()
    except TimeoutError:
        return False


def soak(folder: Path, minutes: float, seed: int) -> str:
    """For `torture.run`: one line, or an `AssertionError`."""
    done = Soak(folder, minutes, seed)
    asyncio.run(done.run())
    print(f"{table(done.rows)}\n\n{done.figures()}\n", flush=True)
    faults = done.judge()
    assert not faults, f"{len(faults)} faults: " + "; ".join(faults[:5])
    return done.summary()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=30, help="how long (30)")
    options.add_argument("--seed", type=int, default=1, help="where chance starts")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="fleetlore-soak-") as folder:
        try:
            print(f"- {datetime.now(UTC).date()} · {soak(Path(folder), chosen.minutes, chosen.seed)}")
        except AssertionError as error:
            print(f"- {datetime.now(UTC).date()} · FAILED: {error}")
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
