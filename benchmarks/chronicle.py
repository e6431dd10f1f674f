"""The telling of a long log: `python -m benchmarks.chronicle [--quick]`, or `make bench`.

What is compared: the time to tell a fleet's whole log, as a story and in full, from a SQLite log to text, all reading
included, with the time that msgspec takes to decode the same events; and what one more event costs the fold of threads and
arcs at a million events and at ten thousand. Memory is that of a fresh process which does nothing but tell, of all events and of
a tenth of them.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks import fleet_story
from benchmarks.foundation import real_disk
from benchmarks.measure import Row, print_table, progress
from fleetlore import Event, connect
from fleetlore.chronicle import sift
from fleetlore.chronicle.formats.text import Text
from fleetlore.chronicle.naming import Naming
from fleetlore.chronicle.narrate import Telling
from fleetlore.chronicle.story import Detail
from fleetlore.chronicle.teller import Format
from fleetlore.chronicle.timeline import Timeline
from fleetlore.cli.tell.range import Span
from fleetlore.cli.tell.readings import Wanted, Watch, told
from fleetlore.events import codec

EVERY = 10_000
SMALL = 10_000
STEP = 1000


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chronicle", description="The telling of a long log.")
    parser.add_argument("--quick", action="store_true", help="100,000 events instead of a million")
    parser.add_argument("--dir", type=Path, help="where to put the log (else the system's place for temporary files)")
    parser.add_argument("--tell", metavar="URL", help="only tell this log, and print how many megabytes that took")
    options = parser.parse_args(argv)
    if options.tell:
        _told(options.tell, "story")
        print(_highest())
        return 0
    count = 100_000 if options.quick else 1_000_000
    with tempfile.TemporaryDirectory(prefix="fleetlore-bench-", dir=real_disk(options.dir)) as name:
        url, small = (f"sqlite:{Path(name) / file}?sync=normal" for file in ("fleet.db", "small.db"))
        build(url, count)
        build(small, count // 10)
        rows = [*_tellings(url, count), *_one_more(count), *_memory(url, small, count)]
    print_table(rows)
    return 0


def build(url: str, count: int) -> None:
    with connect(url).blocking() as log:
        events = fleet_story.events(count)
        while batch := list(islice(events, 20_000)):
            log.append_all(batch)
            progress("building the log")
    progress(f"built a log of {count:,} events", end=True)


def _tellings(url: str, count: int) -> Iterator[Row]:
    raws = [codec.encode(event) for event in fleet_story.events(count)]
    targets: tuple[tuple[Detail, float], ...] = (("story", 12.0), ("full", 20.0))
    for detail, target in targets:
        decoding = Decoding(raws)
        start = perf_counter()
        sentences = _told(url, detail, decoding)
        each = (perf_counter() - start - decoding.spent) / count
        progress(f"{detail}: {sentences:,} characters in {each * count:.0f} s", end=True)
        what = f"{detail} of {count:,} events / decoding them"
        yield Row(what, "µs an event", each * 1e6, decoding.each * 1e6, each / decoding.each, None, target, "≤")


class Decoding(Watch):
    """Decodes the same events, some at a time while a telling goes on: the machine is never as fast for long as it was a moment ago."""

    def __init__(self, raws: Sequence[bytes]) -> None:
        self._raws = raws
        self._decoded = 0
        self.spent = 0.0

    @property
    def each(self) -> float:
        """Seconds for one event."""
        return self.spent / self._decoded

    def passing(self, events: Iterable[Event]) -> Iterator[Event]:
        """The events on their way to being told, and in front of each ten thousand the decoding of as many."""
        for n, event in enumerate(events):
            if n % EVERY == 0:
                start = perf_counter()
                for raw in self._raws[n : n + EVERY]:
                    codec.decode(raw)
                self.spent += perf_counter() - start
                self._decoded += len(self._raws[n : n + EVERY])
            yield event


def _told(url: str, detail: Detail, watch: Watch | None = None) -> int:
    """Tell it all as `lore tell --all` does, to nowhere; answers how long the text is."""
    with ExitStack() as stack:
        log = stack.enter_context(connect(url).blocking())
        wanted = Wanted(log, "town", Span(), Telling(detail, UTC), partial(_text, detail), watch=watch or Watch())
        return sum(map(len, told(wanted, stack)))


def _text(detail: Detail, timeline: Timeline, naming: Naming) -> Format:
    del timeline
    return Text(detail=detail, naming=naming)


def _memory(url: str, small: str, count: int) -> Iterator[Row]:
    """A story at its highest: it holds the open threads and one day, however long the log is."""
    most, least = _peak(url), _peak(small)
    yield Row(f"memory to tell {count:,} events / {count // 10:,}", "MB", most, least, most / least)


def _highest() -> float:
    """The most megabytes that this process has held. Linux counts its parent's, from before it began, into `ru_maxrss`."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    [line] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / (1 << 10)


def _peak(url: str) -> float:
    answer = subprocess.run([sys.executable, "-m", "benchmarks.chronicle", "--tell", url], check=True, capture_output=True, text=True)
    return float(answer.stdout)


def _one_more(count: int) -> Iterator[Row]:
    """What a thousand more events cost, each, when so many came before."""
    few, many = _cost_after(SMALL), _cost_after(count)
    yield Row(f"one more event at {count:,} / at {SMALL:,}", "µs", many * 1e6, few * 1e6, many / few, None, 2.0, "≤")


def _cost_after(count: int) -> float:
    events: Iterable[Event] = fleet_story.events(count + 20 * STEP)
    feed = iter(events)
    sifted = sift.initial()
    for event in islice(feed, count):
        sift.apply(sifted, event)
    sifted.closed.clear()
    times = []
    for _ in range(20):
        batch = list(islice(feed, STEP))
        start = perf_counter()
        for event in batch:
            sift.apply(sifted, event)
        times.append((perf_counter() - start) / STEP)
    return median(times)


if __name__ == "__main__":
    sys.exit(main())
