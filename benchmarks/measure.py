"""Interleaved rounds, medians and the table.

In each round every lane does one chunk of its work, and each round starts with another lane, so that a slow
moment of the machine hits all of them alike. A ratio is the median of the ratios of each round, which is why
it may differ a little from the quotient of the two median rates next to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median, quantiles
from time import monotonic, perf_counter
from typing import Any, Literal, Protocol

FEWEST_ROUNDS = 5


class Contestant(Protocol):
    """Somebody who stores events. Each makes its own kind of them."""

    def take(self, count: int, /) -> Sequence[Any]:
        """The next so many events; not measured."""

    def one_a_commit(self, batch: Any, /) -> None:
        """Store them, each durable before the next."""

    def close(self) -> None:
        """Let go of the files."""


class BulkContestant(Contestant, Protocol):
    """Somebody who can store many events at once, too."""

    def bulk(self, batch: Any, /) -> None:
        """Store them, durable at the end."""


@dataclass(frozen=True)
class Lane:
    """One contestant in a race: how it gets its next chunk (not measured), and how it stores it (measured)."""

    name: str
    take: Callable[[int], Sequence[Any]]
    run: Callable[[Sequence[Any]], object]
    count: int

    def rate(self, count: int | None = None) -> float:
        """Events a second over one chunk."""
        chunk = self.take(count or self.count)
        start = perf_counter()
        self.run(chunk)
        return len(chunk) / (perf_counter() - start)


@dataclass
class Race:
    """The rates of each lane, one a round."""

    rates: dict[str, list[float]] = field(default_factory=dict)

    def median(self, name: str) -> float:
        return median(self.rates[name])

    def ratios(self, ours: str, peer: str) -> list[float]:
        return [a / b for a, b in zip(self.rates[ours], self.rates[peer], strict=True)]


def race(title: str, lanes: Sequence[Lane], *, rounds: int, seconds: float, fewest: int = FEWEST_ROUNDS) -> Race:
    """As many rounds as were asked for, or as the time allows, but never fewer than a few."""
    result = Race({lane.name: [] for lane in lanes})
    start = monotonic()
    done = 0
    while done < rounds and (done < fewest or monotonic() - start < seconds):
        turn = done % len(lanes)
        for lane in (*lanes[turn:], *lanes[:turn]):
            result.rates[lane.name].append(lane.rate())
        done += 1
        progress(f"{title}: round {done} of at most {rounds}")
    progress(f"{title}: {done} rounds in {monotonic() - start:.0f} s", end=True)
    return result


def paired(
    ours: Callable[[], object], peer: Callable[[], object], *, rounds: int, clock: Callable[[], float] = perf_counter
) -> tuple[list[float], list[float]]:
    """The seconds that two things take, alternating."""
    times: tuple[list[float], list[float]] = ([], [])
    both = (ours, peer)
    for turn in range(rounds):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            start = clock()
            both[which]()
            times[which].append(clock() - start)
    return times


@dataclass(frozen=True)
class Row:
    """One line of the table; without a target it is for information."""

    what: str
    unit: str
    ours: float
    peer: float | None
    ratio: float | None
    middle: tuple[float, float] | None = None
    """The middle half of the rounds' ratios."""
    target: float | None = None
    sense: Literal["≥", "≤"] = "≥"
    judged: Literal["ratio", "ours"] = "ratio"

    @property
    def met(self) -> bool | None:
        value = self.ratio if self.judged == "ratio" else self.ours
        if self.target is None or value is None:
            return None
        return value >= self.target if self.sense == "≥" else value <= self.target

    def cells(self) -> tuple[str, ...]:
        wanted = "" if self.target is None else f"{self.sense} {self.target:g}{'' if self.judged == 'ratio' else f' {self.unit}'}"
        return (
            self.what,
            f"{_number(self.ours)} {self.unit}",
            "" if self.peer is None else f"{_number(self.peer)} {self.unit}",
            "" if self.ratio is None else f"{self.ratio:.2f}",
            "" if self.middle is None else f"{self.middle[0]:.2f}–{self.middle[1]:.2f}",
            wanted,
            {True: "ok", False: "MISSED", None: ""}[self.met],
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"met": self.met}


def rate_row(race: Race, what: str, ours: str, peer: str, target: float | None = None) -> Row:
    """Ours against a peer in one race."""
    ratios = race.ratios(ours, peer)
    return Row(what, "/s", race.median(ours), race.median(peer), median(ratios), middle_half(ratios), target)


def middle_half(values: Sequence[float]) -> tuple[float, float]:
    low, _, high = quantiles(values, n=4, method="inclusive")
    return low, high


def percentile(values: Sequence[float], hundredths: int) -> float:
    return quantiles(values, n=100, method="inclusive")[hundredths - 1]


def print_table(rows: Sequence[Row]) -> None:
    heads = ("what", "ours", "peer", "ratio", "middle half", "target", "")
    table = [heads, *(row.cells() for row in rows)]
    widths = [max(len(cells[column]) for cells in table) for column in range(len(heads))]
    for number, cells in enumerate(table):
        first, *rest = (
            cell.ljust(width) if not column else cell.rjust(width) for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        print("  ".join((first, *rest)).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))


def progress(text: str, *, end: bool = False) -> None:
    """Where we are, on stderr: over and over on a terminal, only the ends elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="\n" if end else "", file=sys.stderr, flush=True)
    elif end:
        print(text, file=sys.stderr, flush=True)


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
