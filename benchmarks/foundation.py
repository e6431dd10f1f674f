"""The embedded log against its peers: `python -m benchmarks.foundation [--quick]`, or `make bench`.

What is compared: durable appends (one a commit, by 64 tasks, in bulk) with a bare SQLite insert of the same
bytes, the `eventsourcing` library and a synced JSONL file; the size on disk with the JSON itself; the last 100
of a scope in a large log with those in a small one; the cost of redaction; the start of `lore emit`.
Why it is fair: everybody syncs every commit, stores the same bytes on the same disk, and takes turns within
each round; the peers get their bytes ready-made (see `samples`). Only the ratios mean something; the rates are
those of this machine in these minutes. Targets that are missed are reported, and the exit code stays 0.
"""

from __future__ import annotations

import argparse
import json
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import median
from time import perf_counter, thread_time

import apsw
import msgspec

from benchmarks import ours, peers, processes, samples
from benchmarks.measure import (
    BulkContestant,
    Contestant,
    Lane,
    Race,
    Row,
    middle_half,
    paired,
    percentile,
    print_table,
    progress,
    race,
    rate_row,
)
from fleetlore import Event, connect
from fleetlore.events import codec
from fleetlore.redact import Redactor

BULK = 10_000
DISK = 100_000
SMALL = 10_000
LAST = 100
UNINDEXED = 512
"""Events at the end of a log that its indexes do not hold yet: on average, in a log that grows by single appends."""


@dataclass(frozen=True)
class Plan:
    """How much is done; each race ends by count or by time, whichever comes first."""

    events: int = 100_000
    rounds: int = 100
    commit_seconds: float = 200.0
    warm_up: int = 1000
    bulk_rounds: int = 25
    bulk_seconds: float = 40.0
    large: int = 1_000_000
    lookups: int = 1000
    emits: int = 25
    follows: int = 400

    @property
    def chunk(self) -> int:
        return max(64, self.events // self.rounds)


QUICK = Plan(
    events=6000, rounds=20, commit_seconds=15, warm_up=900, bulk_rounds=7, bulk_seconds=8, large=100_000, lookups=300, emits=15, follows=100
)


def main(argv: list[str] | None = None) -> int:
    options = _parse(argv)
    plan = _plan(options)
    start = perf_counter()
    with tempfile.TemporaryDirectory(prefix="fleetlore-bench-", dir=real_disk(options.dir)) as name:
        rows = _all_rows(Path(name), plan)
    _report(rows, perf_counter() - start)
    if options.json is not None:
        options.json.write_text(json.dumps([row.as_dict() for row in rows], indent=1, ensure_ascii=False) + "\n")
    return 0


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.foundation", description="The embedded log against its peers.")
    parser.add_argument("--events", type=int, metavar="N", help="events that each contestant commits one by one")
    parser.add_argument("--rounds", type=int, metavar="R", help="rounds that they are divided into")
    parser.add_argument("--quick", action="store_true", help="about a minute: fewer events, and 100,000 instead of 1,000,000 to read from")
    parser.add_argument("--dir", type=Path, help="where to put the files (else the system's place for temporary files)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there as well")
    return parser.parse_args(argv)


def _plan(options: argparse.Namespace) -> Plan:
    base = QUICK if options.quick else Plan()
    given = {name: value for name in ("events", "rounds") if (value := getattr(options, name)) is not None}
    return Plan(**(vars(base) | given))


def real_disk(wanted: Path | None) -> Path:
    """A directory where fsync means something: not the system's temporary one if that is kept in memory."""
    if wanted is not None:
        return wanted
    place = Path(tempfile.gettempdir())
    return Path.cwd() if kind_of_disk(place) in ("tmpfs", "ramfs") else place


def kind_of_disk(place: Path) -> str:
    """The file system's type, where the system tells."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "unknown"
    found = [line.split()[1:3] for line in mounts.read_text().splitlines()]
    return max(((where, kind) for where, kind in found if place.resolve().is_relative_to(where)), key=lambda item: len(item[0]))[1]


def _all_rows(folder: Path, plan: Plan) -> list[Row]:
    sizes = [len(raw) for raw in samples.payloads()]
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version} (peers) and {apsw.sqlite_lib_version()} (ours, apsw),")
    print(f"disk: {kind_of_disk(folder)}; events of {min(sizes)}–{max(sizes)} bytes, 3 scopes each; every commit is synced", flush=True)
    return [
        *_commits(folder, plan),
        *_bulk(folder, plan),
        *_disk_and_scan(folder),
        *_lookups(folder, plan),
        *_redaction(),
        *_whole_processes(folder, plan),
    ]


def _report(rows: list[Row], seconds: float) -> None:
    print()
    print_table(rows)
    judged = [row.met for row in rows if row.met is not None]
    print(f"\ntook {seconds:.0f} s; ratio: median of the rounds' ratios; rows without a target are for information")
    print(f"{sum(judged)} of {len(judged)} targets met")


# --- one a commit, alone and by 64 tasks


def _commits(folder: Path, plan: Plan) -> Iterator[Row]:
    log = folder / "blocking.db"
    contestants: dict[str, Contestant] = {
        "bare": peers.BareSqlite(folder / "bare.db"),
        "apsw": peers.BareApsw(folder / "apsw.db"),
        "eventsourcing": peers.EventSourcing(folder / "eventsourcing.db"),
        "jsonl": peers.JsonLines(folder / "lines.jsonl"),
        "blocking": ours.Blocking(ours.url_of(log)),
        "async": ours.Async(ours.url_of(folder / "async.db")),
    }
    tasks = ours.Async(ours.url_of(folder / "tasks.db"))
    lanes = [Lane(name, one.take, one.one_a_commit, plan.chunk) for name, one in contestants.items()]
    # Several times as fast, so that its chunk may be larger; a whole number of events a task.
    by_tasks = Lane("tasks", tasks.take, tasks.by_tasks, max(640, plan.chunk * 4 // 64 * 64))
    _warm_up(lanes, plan.warm_up)
    _warm_up([by_tasks], plan.warm_up * 8)
    lanes.append(by_tasks)
    result = race("one a commit", lanes, rounds=plan.rounds, seconds=plan.commit_seconds)
    for one in (*contestants.values(), tasks):
        one.close()
    yield from _commit_rows(result)
    yield _disk_row("disk, log written one a commit / its JSON", log)


def _warm_up(lanes: list[Lane], events: int) -> None:
    """Enough for a first checkpoint: until then the WAL grows, and every sync has to write the file's new length as well.

    It comes after 1000 pages, which a bare insert of 500 bytes reaches in some 800 commits.
    """
    for lane in lanes:
        lane.rate(events)


def _commit_rows(result: Race) -> Iterator[Row]:
    yield rate_row(result, "blocking, one a commit / bare insert", "blocking", "bare", 0.8)
    yield rate_row(result, "blocking, one a commit / eventsourcing", "blocking", "eventsourcing", 1.0)
    yield rate_row(result, "blocking, one a commit / synced JSONL", "blocking", "jsonl")
    yield rate_row(result, "blocking, one a commit / bare insert by apsw", "blocking", "apsw")
    yield rate_row(result, "async, one at a time / bare insert", "async", "bare", 0.6)
    yield rate_row(result, "64 tasks / bare insert, one a commit", "tasks", "bare", 6.0)


# --- bulk


def _bulk(folder: Path, plan: Plan) -> Iterator[Row]:
    contestants: dict[str, BulkContestant] = {
        "bare": peers.BareSqlite(folder / "bulk-bare.db"),
        "eventsourcing": peers.EventSourcing(folder / "bulk-eventsourcing.db"),
        "blocking": ours.Blocking(ours.url_of(folder / "bulk-blocking.db")),
        "async": ours.Async(ours.url_of(folder / "bulk-async.db")),
    }
    lanes = [Lane(name, one.take, one.bulk, BULK) for name, one in contestants.items()]
    _warm_up(lanes, BULK)
    result = race("bulk", lanes, rounds=plan.bulk_rounds, seconds=plan.bulk_seconds)
    for one in contestants.values():
        one.close()
    yield rate_row(result, f"bulk of {BULK:,}, blocking / bare executemany", "blocking", "bare", 0.25)
    yield rate_row(result, f"bulk of {BULK:,}, async / bare executemany", "async", "bare", 0.25)
    yield rate_row(result, f"bulk of {BULK:,}, blocking / eventsourcing", "blocking", "eventsourcing")


# --- size and reading


def _disk_and_scan(folder: Path) -> Iterator[Row]:
    log = folder / "disk.db"
    ours.build(log, DISK)
    yield _disk_row(f"disk, log of {DISK:,} in bulk / its JSON", log, target=1.5)
    rates = [_scan_rate(log) for _ in range(3)]
    yield Row("scan of the whole town, decoded", "/s", median(rates), None, None)


def _disk_row(what: str, log: Path, target: float | None = None) -> Row:
    with connect(ours.url_of(log)).blocking() as opened:
        text = sum(len(codec.encode_event(event)) for event in opened.read())
    stored = ours.size_on_disk(log)
    return Row(what, "MB", stored / 1e6, text / 1e6, stored / text, None, target, "≤")


def _scan_rate(log: Path) -> float:
    with connect(ours.url_of(log)).blocking() as opened:
        start = perf_counter()
        count = sum(1 for _ in opened.read())
        return count / (perf_counter() - start)


@contextmanager
def _last_of_agents(path: Path) -> Iterator[Callable[[], list[Event]]]:
    with connect(ours.url_of(path)).blocking() as log:
        agents = cycle([samples.agent(n) for n in range(samples.AGENTS)])

        def look() -> list[Event]:
            return list(log.read(f"agent:{next(agents)}", newest_first=True, limit=LAST))

        for _ in range(2 * samples.AGENTS):
            assert len(look()) == LAST
        yield look


def _lookups(folder: Path, plan: Plan) -> Iterator[Row]:
    """The last 100 of an agent: in a log that is large, and in one that is not."""
    large, small = folder / "large.db", folder / "small.db"
    ours.build(large, plan.large, singles=UNINDEXED)
    ours.build(small, SMALL, singles=UNINDEXED)
    with _last_of_agents(large) as in_large, _last_of_agents(small) as in_small:
        slow, fast = paired(in_large, in_small, rounds=plan.lookups)
    ratios = [a / b for a, b in zip(slow, fast, strict=True)]
    what = f"last {LAST} of an agent, at {plan.large:,} / at {SMALL:,} (p50)"
    yield Row(what, "µs", median(slow) * 1e6, median(fast) * 1e6, median(ratios), middle_half(ratios), 2.0, "≤")


# --- redaction


def _redaction() -> Iterator[Row]:
    """What an event costs that is clean, and one that only looks suspicious; beside what encoding it costs."""
    redactor, raws = Redactor(), samples.payloads()
    assert not any(map(redactor.may_contain_secret, raws)), "the sample events are clean"
    yield _redaction_row("redaction of a clean event / one encode", redactor, raws, target=2.0)
    telling = [raw.replace(b" (step ", b" (token: ") for raw in raws[:400]]
    assert all(map(redactor.may_contain_secret, telling)), "the word calls for a closer look"
    yield _redaction_row("redaction, the text says token: / one encode", redactor, telling, target=30.0)


def _redaction_row(what: str, redactor: Redactor, raws: Sequence[bytes], target: float | None = None) -> Row:
    events = [codec.decode_event(raw) for raw in raws]
    encode = msgspec.json.Encoder().encode

    def redact() -> None:
        for raw in raws:
            if redactor.may_contain_secret(raw):
                redactor.redact_value(codec.decode_builtins(raw), raw=raw)

    def write() -> None:
        for event in events:
            encode(event)

    times = paired(redact, write, rounds=25, clock=thread_time)  # both only compute
    each = 1e6 / len(raws)
    ratios = [a / b for a, b in zip(*times, strict=True)]
    return Row(what, "µs", each * median(times[0]), each * median(times[1]), median(ratios), middle_half(ratios), target, "≤")


# --- whole processes


def _whole_processes(folder: Path, plan: Plan) -> Iterator[Row]:
    progress("compiling", end=True)
    processes.compile_everything()
    emit, bare = processes.emit_times(folder, plan.emits)
    ratios = [a / b for a, b in zip(emit, bare, strict=True)]
    what = "lore emit / python -c 'import sqlite3, json'"
    yield Row(what, "ms", median(emit) * 1e3, median(bare) * 1e3, median(ratios), middle_half(ratios), 3.0, "≤")
    delays = processes.follow_delays(ours.url_of(folder / "follow.db"), plan.follows)
    yield Row("append → follower in another process, p50", "µs", median(delays), None, None)
    yield Row("append → follower in another process, p99", "µs", percentile(delays, 99), None, None)


if __name__ == "__main__":
    sys.exit(main())
