"""The live server: `python -m benchmarks.server [--quick]`, or `make bench`.

What is compared: how fast `lore up` delivers events to 1, 100 and 1,000 streams of server-sent events, and how long one event
takes, beside a plain Starlette app with a queue for each client; what one client that never reads costs the others; whether
anything is lost or delivered twice when streams break and resume; and events received over HTTP, compared with the log's own bulk append.
Why it is fair: both servers follow a log of their own on the same disk, run under uvicorn with the same settings, and take turns;
the clients are another process, the same for both. Ours does all that `lore up` does besides; the peer does nothing else.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic_ns, sleep
from typing import Any, Self

import msgspec

from benchmarks import ours, samples, server_ingest
from benchmarks.foundation import kind_of_disk, real_disk
from benchmarks.measure import Lane, Race, Row, middle_half, percentile, print_table, progress, race, rate_row
from benchmarks.processes import ROOT
from fleetlore import Event

AN_APPEND = 20
MOST_CLIENTS = 1000
FASTER = 5.0
STALLED_WITHIN = 1.2


@dataclass(frozen=True)
class Plan:
    rounds: int = 15
    seconds: float = 90.0
    deliveries: int = 400_000
    """In a round of ours; the peer's is a fifth of it."""
    beats: int = 100
    stalls: int = 15
    breaks: int = 1000
    restless: int = 100
    ingest: server_ingest.Plan = server_ingest.THOROUGH


QUICK = Plan(rounds=5, seconds=25.0, deliveries=200_000, beats=40, stalls=7, ingest=server_ingest.QUICK)


def main(argv: list[str] | None = None) -> int:
    options = _parse(argv)
    plan = QUICK if options.quick else Plan()
    with tempfile.TemporaryDirectory(prefix="fleetlore-bench-", dir=real_disk(options.dir)) as name:
        folder = Path(name)
        print(f"disk: {kind_of_disk(folder)}; events of about {samples.SIZE} bytes, {AN_APPEND} an append; clients on loopback", flush=True)
        rows = [*_feeds(folder, plan), *server_ingest.rows(folder, plan.ingest)]
    print_table(rows)
    return 0


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server", description="The live server.")
    parser.add_argument("--quick", action="store_true", help="about two minutes")
    parser.add_argument("--dir", type=Path, help="where the logs are kept (else the system's place for temporary files)")
    return parser.parse_args(argv)


class Served:
    """A server in a process of its own, and its log from outside."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._url = ours.url_of(folder / f"{name}.db")
        homes = {
            variable: str(folder / name) for variable in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
        }
        self._environment = {key: value for key, value in os.environ.items() if not key.startswith("FLEETLORE_")} | homes

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "benchmarks.server_peer", self.name, self._url]
        self._process = subprocess.Popen(command, cwd=ROOT, env=self._environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port, self.token = msgspec.json.decode(self._process.stdout.readline(), type=tuple[int, str])
        self._events = ours.Blocking(self._url)
        self.log, self.take = self._events.log, self._events.take
        return self

    def __exit__(self, *_: object) -> None:
        self._events.close()
        self._process.communicate()

    def append(self, batch: Sequence[Event]) -> None:
        self._events.by(batch, size=AN_APPEND)


class Clients:
    """The process that watches."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "benchmarks.server_clients"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def ask(self, *command: object) -> Any:
        self.record(*command)
        return self.answer()

    def record(self, *command: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{msgspec.json.encode(command).decode()}\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        assert self._process.stdout is not None
        return msgspec.json.decode(self._process.stdout.readline())


class Watched:
    """A server, and so many streams from it."""

    def __init__(self, served: Served, clients: Clients, count: int) -> None:
        self.served, self.count = served, count
        self._clients = clients

    def __enter__(self) -> Self:
        self._clients.ask("token", self.served.port, self.served.token)
        self._clients.ask("open", self.served.name, self.served.port, self.count)
        return self

    def __exit__(self, *_: object) -> None:
        self._clients.ask("close", self.served.name)

    def __str__(self) -> str:
        return f"{self.count:,} {'stream' if self.count == 1 else 'streams'}"

    def lane(self, deliveries: int) -> Lane:
        return Lane(self.served.name, self.served.take, self.deliver, max(AN_APPEND, deliveries // self.count))

    def deliver(self, batch: Sequence[Event]) -> None:
        """Until the last client has the last event."""
        self.served.append(batch)
        self._clients.ask("await", self.served.name, len(batch))

    def delays(self, count: int, pause: float) -> list[float]:
        """Milliseconds from the call of `append`, the commit included, to each client."""
        self._clients.ask("timed", self.served.name, True)
        for _ in range(count):
            self.served.log.append([Event(kind="fleet.heartbeat", agent="ada", data={"sent": monotonic_ns()})])
            sleep(pause)
        answer = self._clients.ask("await", self.served.name, count)
        self._clients.ask("timed", self.served.name, False)
        return [delay / 1000 for delay in answer["delays"]]

    def stall(self) -> None:
        """One more, that never reads."""
        self._clients.ask("stall", self.served.name, self.served.port)

    def unstall(self) -> None:
        self._clients.ask("unstall", self.served.name)


def _feeds(folder: Path, plan: Plan) -> Iterator[Row]:
    with ExitStack() as stack:
        clients = stack.enter_context(Clients())
        feed, queues = (stack.enter_context(Served(name, folder)) for name in ("ours", "queues"))
        for count in (1, 100, MOST_CLIENTS):
            with Watched(feed, clients, count) as we, Watched(queues, clients, count) as they:
                yield _rate(we, they, plan)
                yield from _waits(we, they, plan)
        with Watched(feed, clients, 100) as we:
            yield _stalled(we, plan)
        yield from _broken(feed, clients, plan)


def _rate(we: Watched, they: Watched, plan: Plan) -> Row:
    count = we.count
    # A single client is given fewer events than the deliveries of a thousand: they are stored before they are delivered.
    size = min(plan.deliveries, 20_000 * count // 4)
    lanes = [we.lane(size), they.lane(size // 5)]
    for lane in lanes:
        lane.rate()
    result = race(str(we), lanes, rounds=plan.rounds, seconds=plan.seconds / 3)
    deliveries = Race({name: [rate * count for rate in rates] for name, rates in result.rates.items()})
    target = FASTER if count == MOST_CLIENTS else None
    return rate_row(deliveries, f"{we}: deliveries / one queue a client", "ours", "queues", target)


def _waits(we: Watched, they: Watched, plan: Plan) -> Iterator[Row]:
    """An event now and then, while nothing else happens."""
    mine, theirs = [], []
    for _ in range(4):
        mine += we.delays(plan.beats // 4, 0.05)
        theirs += they.delays(plan.beats // 4, 0.05)
    progress(f"{we}: {plan.beats} single events", end=True)
    for name, hundredths in (("p50", 50), ("p99", 99)):
        one, other = percentile(mine, hundredths), percentile(theirs, hundredths)
        yield Row(f"{we}: append → client, {name}", "ms", one, other, one / other)


def _stalled(we: Watched, plan: Plan) -> Row:
    """The others' p99 with a client that does not read, over their p99 without; what fills its buffers is stored in both cases."""
    fill = we.served.take(12_000)
    without: list[float] = []
    beside: list[float] = []
    for turn in range(plan.stalls):
        for is_stalled in (turn % 2 == 0, turn % 2 == 1):
            if is_stalled:
                we.stall()
            we.deliver(fill)
            (beside if is_stalled else without).append(percentile(we.delays(100, 0.01), 99))
            if is_stalled:
                we.unstall()
        progress(f"one stalled: round {turn + 1} of {plan.stalls}", end=turn + 1 == plan.stalls)
    ratios = [one / other for one, other in zip(beside, without, strict=True)]
    what = f"{we}: p99 beside one that never reads / without it"
    return Row(what, "ms", median(beside), median(without), median(ratios), middle_half(ratios), STALLED_WITHIN, "≤")


def _broken(served: Served, clients: Clients, plan: Plan) -> Iterator[Row]:
    """Streams that break at any moment while events are stored, and come back with their last position."""
    batch = served.take(40 * plan.breaks // plan.restless * 4)
    last = int(served.log.head() or 0) + len(batch)
    clients.ask("token", served.port, served.token)
    clients.ask("restless", served.port, plan.restless, plan.breaks, last)
    clients.record("finish")
    for start in range(0, len(batch), AN_APPEND):
        served.log.append(batch[start : start + AN_APPEND])
        sleep(0.02)
    recorded = clients.answer()
    progress(f"{recorded['broken']:,} streams broken off and resumed", end=True)
    what = f"{recorded['broken']:,} reconnects under load"
    yield Row(f"{what}: events lost", "", recorded["missing"], None, None, None, 0.0, "≤", "ours")
    yield Row(f"{what}: events received twice", "", recorded["doubled"], None, None, None, 0.0, "≤", "ours")


if __name__ == "__main__":
    sys.exit(main())
