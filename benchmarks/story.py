"""The brief and the story of the last hour of a long log: `python -m benchmarks.story [--quick]`, or `make bench`.

Each is a fresh process, as a person runs it, on a log of 3,000,000 events and on one of 30,000, with a warm projection store. Memory
is the peak of the process. The time must depend on what is asked, not on the length of the log.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks import fleet_story
from benchmarks.measure import Row, print_table, progress
from fleetlore import connect

ROUNDS = 5
MOST_MEGABYTES = 150.0
AGENT = ("--scope", "agent:agent-07")
COMMANDS = (("brief", ()), ("story", ()), ("story", ("--detail", "full")), ("brief", AGENT), ("story", AGENT))
_RUN = """\
import sys
from fleetlore.cli.main import main
code = main(sys.argv[1:])
for line in open("/proc/self/status"):
    if line.startswith("VmHWM:"):
        print(int(line.split()[1]) / 1024, file=sys.stderr)
raise SystemExit(code)
"""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.story", description="The brief and the story of a long log.")
    parser.add_argument("--quick", action="store_true", help="300,000 events instead of 3,000,000")
    parser.add_argument("--events", type=int, help="so many events (3,000,000)")
    parser.add_argument("--peer", type=int, default=30_000, help="events of the log to compare with: one hour has 9,000 (30,000)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each command (5)")
    parser.add_argument("--dir", type=Path, help="where to put the logs (else the system's place for temporary files)")
    options = parser.parse_args(argv)
    count = options.events or (300_000 if options.quick else 3_000_000)
    with tempfile.TemporaryDirectory(prefix="fleetlore-bench-", dir=options.dir) as name:
        long, short = (f"sqlite:{Path(name) / file}?sync=normal" for file in ("long.db", "short.db"))
        build(long, count)
        build(short, options.peer)
        print_table([*_compare(long, short, (count, options.peer), Path(name), options.rounds)])
    return 0


def build(url: str, count: int) -> None:
    """A log of so many events of a made-up fleet."""
    with connect(url).blocking() as log:
        events = fleet_story.events(count)
        while batch := list(islice(events, 20_000)):
            log.append_all(batch)
            progress("building the log")
    progress(f"built a log of {count:,} events", end=True)


def _compare(long: str, short: str, counts: tuple[int, int], folder: Path, rounds: int) -> Iterator[Row]:
    count, peer = counts
    for command, options in COMMANDS:
        times: dict[str, list[float]] = {long: [], short: []}
        peak = 0.0
        for url in (long, short):
            _run(url, command, options, folder)  # fills the store
        for _ in range(rounds):
            for url in (long, short):
                start = perf_counter()
                megabytes = _run(url, command, options, folder)
                times[url].append(perf_counter() - start)
                peak = max(peak, megabytes) if url == long else peak
        ours, theirs = median(times[long]), median(times[short])
        what = f"lore {' '.join((command, *options))} --since 1h, {count:,} / {peer:,} events"
        yield Row(what, "s", ours, theirs, ours / theirs, None, 1.5, "≤")
        yield Row(
            f"lore {' '.join((command, *options))}: memory on {count:,} events",
            "MB",
            peak,
            MOST_MEGABYTES,
            peak / MOST_MEGABYTES,
            None,
            1.0,
            "≤",
        )


def _run(url: str, command: str, options: Sequence[str], folder: Path) -> float:
    """Run the command on the last hour of a log; the peak of its memory in megabytes."""
    with connect(url).blocking() as log:
        newest = next(iter(log.read(newest_first=True, limit=1))).at
    assert newest is not None
    since = (newest - timedelta(hours=1)).isoformat()
    environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}
    call = [sys.executable, "-c", _RUN, command, *options, "--since", since, "--log", url]
    answer = subprocess.run(call, check=True, capture_output=True, text=True, env=environment, cwd=folder)
    return float(answer.stderr.split()[-1])


if __name__ == "__main__":
    sys.exit(main())
