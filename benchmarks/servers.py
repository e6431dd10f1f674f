"""The log on servers: `python -m benchmarks.servers [--quick]`, or `make bench`.

What is compared, on real servers of the same machine: on Valkey, an event with five copies in one trip, alone and 64
together, with five XADDs one after another by redis-py, as tinytown does it; on NATS, 256 events and 64 tasks at once
with one event at a time; and how long an event takes to reach a follower in another process, beside a reader that polls
every second as tinytown's does. The XADDs are given the bytes ready-made; ours stamp, check, redact and encode.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from threading import Event as Signal
from threading import Thread
from time import perf_counter, sleep

import redis
from msgspec.structs import replace
from tests.servers import Nats, Valkey

from benchmarks import ours, processes, samples
from benchmarks.foundation import kind_of_disk, real_disk
from benchmarks.measure import Lane, Row, percentile, print_table, progress, race, rate_row
from fleetlore import Event, connect
from fleetlore.log.redis.entry import encode_entry

TOGETHER = 64
WINDOW = 256
STREAMS = ("town", "agent", "task", "mission", "goal")


@dataclass(frozen=True)
class Plan:
    rounds: int = 25
    seconds: float = 40.0
    chunk: int = 512
    follows: int = 400
    polls: int = 20
    sized: int = 20_000


QUICK = Plan(rounds=7, seconds=8.0, chunk=256, follows=100, polls=5, sized=3000)


def main(argv: list[str] | None = None) -> int:
    options = _parse(argv)
    plan = QUICK if options.quick else Plan()
    with tempfile.TemporaryDirectory(prefix="fleetlore-bench-", dir=real_disk(options.dir)) as name:
        folder = Path(name)
        print(f"disk: {kind_of_disk(folder)}; events of about {samples.SIZE} bytes in five streams", flush=True)
        rows = [*_redis(folder, plan, "always"), *_redis(folder, plan, "everysec"), *_nats(folder, plan), *_followers(folder, plan)]
    print_table(rows)
    return 0


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.servers", description="The log on Valkey and NATS.")
    parser.add_argument("--quick", action="store_true", help="about a minute")
    parser.add_argument("--dir", type=Path, help="where the servers keep their data (else the system's place for temporary files)")
    return parser.parse_args(argv)


def _events() -> list[Event]:
    """The usual samples, in a goal too: five streams each."""
    return [replace(event, goal=f"goal-{n % 40:02d}") for n, event in enumerate(samples.events())]


class Sequential:
    """Five XADDs by redis-py, each answered before the next."""

    def __init__(self, port: int) -> None:
        self._redis = redis.Redis(port=port)
        self.take = samples.Supply([encode_entry("fleet.commit", raw, "default")[:2] for raw in samples.payloads()]).take

    def one_by_one(self, batch: Sequence[tuple[str, bytes]]) -> None:
        for number, (kind, data) in enumerate(batch):
            for stream in STREAMS:
                key = "peer:events" if stream == "town" else f"peer:events:{stream}:{number % 20}"
                self._redis.xadd(key, {"event_type": kind, "data": data})

    def close(self) -> None:
        self._redis.close()


def _redis(folder: Path, plan: Plan, fsync: str) -> Iterator[Row]:
    # Rewriting its file is the server's own business, takes a whole core, and would distort the measurement of one of them.
    with Valkey(folder / f"valkey-{fsync}", "--auto-aof-rewrite-percentage", "0", fsync=fsync) as server:
        peer, single, many = Sequential(server.port), ours.Blocking(server.url, _events()), ours.Blocking(server.url, _events())
        lanes = [
            Lane("five", peer.take, peer.one_by_one, plan.chunk // 2),
            Lane("one", single.take, single.one_a_commit, plan.chunk // 2),
            Lane("many", many.take, partial(many.by, size=TOGETHER), 4 * plan.chunk),
        ]
        for lane in lanes:
            lane.rate()
        result = race(f"redis, appendfsync {fsync}", lanes, rounds=plan.rounds, seconds=plan.seconds)
        yield rate_row(result, f"redis {fsync}: five copies in one trip / five XADDs", "one", "five", 2.0)
        yield rate_row(result, f"redis {fsync}: {TOGETHER} events an append / five XADDs", "many", "five", 10.0)
        if fsync == "always":
            yield _size_row("redis: memory an event, five streams", server.url, plan)
        for contestant in (peer, single, many):
            contestant.close()


def _nats(folder: Path, plan: Plan) -> Iterator[Row]:
    for sync in ("2m", "always"):
        with Nats(folder / f"nats-{sync}", sync=sync) as server:
            one, window, tasks = (ours.Async(server.url, _events()) for _ in range(3))
            lanes = [
                Lane("one", one.take, one.one_a_commit, plan.chunk // 2),
                Lane("window", window.take, partial(window.by_tasks, tasks=WINDOW), 4 * plan.chunk),
                Lane("tasks", tasks.take, tasks.by_tasks, 4 * plan.chunk),
            ]
            for lane in lanes:
                lane.rate()
            result = race(f"nats, sync_interval {sync}", lanes, rounds=plan.rounds, seconds=plan.seconds)
            yield rate_row(result, f"nats {sync}: a window of {WINDOW} / one ack at a time", "window", "one", 2.0)
            yield rate_row(result, f"nats {sync}: {TOGETHER} tasks / one ack at a time", "tasks", "one", 3.0)
            for contestant in (one, window, tasks):
                contestant.close()
            if sync == "always":
                yield _size_row("nats: disk an event", server.url, plan)


def _size_row(what: str, url: str, plan: Plan) -> Row:
    with connect(url, town="sized").blocking() as log:
        log.append_all(samples.Supply(_events()).take(plan.sized))
        info = log.info()
    return Row(what, "bytes", info.bytes / info.events, samples.SIZE, info.bytes / info.events / samples.SIZE)


def _followers(folder: Path, plan: Plan) -> Iterator[Row]:
    yield from _delay_rows("sqlite", processes.follow_delays(ours.url_of(folder / "follow.db"), plan.follows))
    with Valkey(folder / "follow-valkey") as server:
        yield from _delay_rows("redis", processes.follow_delays(server.url, plan.follows))
        polled = _polled_delays(server.port, plan.polls)
        yield Row("append → reader that polls every second, as tinytown's, p50", "ms", median(polled), None, None)
    with Nats(folder / "follow-nats") as server:
        yield from _delay_rows("nats", processes.follow_delays(server.url, plan.follows))


def _delay_rows(name: str, delays: Sequence[float]) -> Iterator[Row]:
    progress(f"{name}: {len(delays)} events followed", end=True)
    yield Row(f"append → follower in another process, {name}, p50", "ms", median(delays) / 1e3, None, None)
    yield Row(f"append → follower in another process, {name}, p99", "ms", percentile(delays, 99) / 1e3, None, None, None, 25.0, "≤", "ours")


def _polled_delays(port: int, count: int) -> list[float]:
    """Milliseconds from XADD to a reader that looks once a second."""
    delays: list[float] = []
    enough, rng = Signal(), Random(7)

    def poll() -> None:
        with redis.Redis(port=port) as client:
            last = "-"
            while len(delays) < count:
                entries: list[tuple[bytes, dict[bytes, bytes]]] = client.xrange("polled", min=last)
                for entry, fields in entries:
                    delays.append((perf_counter() - float(fields[b"sent"])) * 1e3)
                    last = f"({entry.decode()}"
                sleep(1.0)
        enough.set()

    Thread(target=poll, daemon=True).start()
    with redis.Redis(port=port) as client:
        while not enough.is_set():
            client.xadd("polled", {"sent": repr(perf_counter())})
            enough.wait(rng.uniform(0.2, 0.9))
    progress(f"polling: {len(delays)} events", end=True)
    return delays


if __name__ == "__main__":
    sys.exit(main())
