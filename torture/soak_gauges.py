"""What a soak test measures every minute, and how the figures are judged."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median
from time import monotonic

TICKS = os.sysconf("SC_CLK_TCK")
MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Minute:
    """One row."""

    minute: float
    events: int
    rate: float
    rss: float
    """MiB."""
    files: int
    threads: int
    wal: float
    """MiB."""
    cpu: float
    """Of one core, in per cent."""
    append: tuple[float, float]
    """Milliseconds, p50 and p99."""
    delivery: tuple[float, float]
    fleet: tuple[float, float]
    heap: float | None
    """Of the page, in MB."""
    pressure: float

    @property
    def cost(self) -> float:
        """Milliseconds of CPU that one event costs, with all who look at it."""
        return self.cpu * 10 / self.rate if self.rate else 0.0


class Process:
    """A process as the system sees it."""

    def __init__(self, pid: int) -> None:
        self._place = Path(f"/proc/{pid}")
        self._cpu, self._at = self._seconds(), monotonic()

    @property
    def rss(self) -> float:
        return self._status("VmRSS") / 1024

    @property
    def threads(self) -> int:
        return self._status("Threads")

    @property
    def files(self) -> int:
        return len(os.listdir(self._place / "fd"))

    def cpu(self) -> float:
        """Per cent of a core since it was last asked."""
        seconds, now = self._seconds(), monotonic()
        share = (seconds - self._cpu) / (now - self._at)
        self._cpu, self._at = seconds, now
        return share * 100

    def _seconds(self) -> float:
        fields = (self._place / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def _status(self, name: str) -> int:
        for line in (self._place / "status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        raise AssertionError(f"no {name} in {self._place}")


def p50_p99(values: Sequence[float]) -> tuple[float, float]:
    """Zero where there is nothing."""
    if not values:
        return 0.0, 0.0
    ranked = sorted(values)
    return ranked[len(ranked) // 2], ranked[min(len(ranked) - 1, int(len(ranked) * 0.99))]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Theil and Sen's: the median of the slopes between all pairs, which a few odd minutes do not move."""
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(points, 2) if b[0] != a[0]]
    return median(slopes) if slopes else 0.0


def thirds(values: Sequence[float]) -> tuple[float, float]:
    """The medians of the first and of the last third."""
    size = max(1, len(values) // 3)
    return median(values[:size]), median(values[-size:])


_TIMES = ("append", "append → SSE", "`/api/fleet`")
_HEADS = (
    *("minute", "events", "events/s", "RSS", "open files", "threads", "WAL", "CPU", "CPU an event"),
    *(f"{name}, p50 / p99" for name in _TIMES),
    *("the page's heap", "waiting for a CPU"),
)


def pressure() -> float:
    """How much of the last minute somebody on this machine waited for a CPU, in per cent: how far the times can be trusted."""
    place = Path("/proc/pressure/cpu")
    return float(place.read_text().split("avg60=")[1].split()[0]) if place.exists() else 0.0


def table(rows: Sequence[Minute]) -> str:
    """Markdown, a row for each minute given."""
    lines = ["| " + " | ".join(_HEADS) + " |", "|" + "---|" * len(_HEADS)]
    for row in rows:
        heap = "" if row.heap is None else f"{row.heap:.1f} MB"
        pairs = " | ".join(f"{low:.1f} / {high:.1f} ms" for low, high in (row.append, row.delivery, row.fleet))
        lines.append(
            f"| {row.minute:.0f} | {row.events:,} | {row.rate:.0f} | {row.rss:.1f} MiB | {row.files} | {row.threads} "
            f"| {row.wal:.1f} MiB | {row.cpu:.0f} % | {row.cost:.2f} ms | {pairs} | {heap} | {row.pressure:.0f} % |"
        )
    return "\n".join(lines)
