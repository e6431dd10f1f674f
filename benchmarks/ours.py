"""Fleetlore through its public API, `fleetlore.connect`, with defaults: sync=full, validation and redaction on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain, repeat
from pathlib import Path

from benchmarks.measure import progress
from benchmarks.samples import Supply, events
from fleetlore import Event, connect

BUILD_STEP = 50_000


def url_of(path: Path) -> str:
    return f"sqlite:{path}?sync=full"


class Blocking:
    """The door for scripts and threads."""

    def __init__(self, url: str, supply: Sequence[Event] | None = None) -> None:
        self.take = Supply(supply or events()).take
        self.log = connect(url).blocking()
        self.log.__enter__()

    def one_a_commit(self, batch: Sequence[Event]) -> None:
        for event in batch:
            self.log.append([event])

    def by(self, batch: Sequence[Event], *, size: int) -> None:
        """So many events an append."""
        for start in range(0, len(batch), size):
            self.log.append(batch[start : start + size])

    def bulk(self, batch: Sequence[Event]) -> None:
        self.log.append_all(batch)

    def close(self) -> None:
        self.log.close()


class Async:
    """The door for asyncio; one event loop for all rounds."""

    def __init__(self, url: str, supply: Sequence[Event] | None = None) -> None:
        self.take = Supply(supply or events()).take
        self._recorder = connect(url)
        self._runner = asyncio.Runner()
        self._log = self._runner.run(self._recorder.__aenter__())

    def one_a_commit(self, batch: Sequence[Event]) -> None:
        self._runner.run(self._one_by_one(batch))

    async def _one_by_one(self, batch: Sequence[Event]) -> None:
        for event in batch:
            await self._log.append([event])

    def by_tasks(self, batch: Sequence[Event], *, tasks: int = 64) -> None:
        """The same events, divided among tasks that each wait for their own answer before the next."""
        self._runner.run(self._together([batch[n::tasks] for n in range(tasks)]))

    async def _together(self, shares: Sequence[Sequence[Event]]) -> None:
        await asyncio.gather(*map(self._one_by_one, shares))

    def bulk(self, batch: Sequence[Event]) -> None:
        self._runner.run(self._log.append_all(batch))

    def close(self) -> None:
        self._runner.run(self._recorder.__aexit__(None, None, None))
        self._runner.close()


def build(path: Path, count: int, *, singles: int = 0) -> None:
    """A log of `count` events, the last `singles` of them one a commit, as a log in daily use ends."""
    with connect(url_of(path)).blocking() as log:
        supply, bulk = Supply(events()), count - singles
        for size in chain(repeat(BUILD_STEP, bulk // BUILD_STEP), [bulk % BUILD_STEP] if bulk % BUILD_STEP else []):
            log.append_all(supply.take(size))
            progress(f"building a log of {count:,} events")
        for event in supply.take(singles):
            log.append([event])
    progress(f"built a log of {count:,} events", end=True)


def size_on_disk(path: Path) -> int:
    """Bytes of a closed log's files."""
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
