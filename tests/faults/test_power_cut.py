"""Whatever moment the power fails at: what was acknowledged is there, in order, and nothing is there by half."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import NamedTuple
from unittest.mock import patch

import pytest

from fleetlore import Event, connect
from fleetlore.errors import LogError
from fleetlore.events.ids import derive_id
from fleetlore.log.admission import Admission
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.sqlite import log as sqlite_log
from fleetlore.log.sqlite import maintenance
from fleetlore.log.sqlite.file import Sync
from fleetlore.log.sqlite.log import SqliteLog
from tests.faults import disk
from tests.faults.disk import Disk, Operation, recording

CUTS = 60
LAG = 100
"""Far below the log's own, so that the indexes catch up often."""
FILE = "fleet.db"


class Append(NamedTuple):
    """One append, and how many operations the disk had seen when it was acknowledged."""

    moment: int
    events: list[Event]
    positions: list[str]


class Story(NamedTuple):
    """What a writer did, and what the disk saw of it."""

    operations: list[Operation]
    appends: list[Append]


def write_story(folder: Path, seed: int, *, sync: Sync = "full", appends: int = 450) -> Story:
    """Appends of one event, of many, and of a large one: enough for the WAL to be written back and the indexes to catch up."""
    operations: list[Operation] = []
    done: list[Append] = []
    with recording(operations) as vfs, patch.object(sqlite_log, "LAG", LAG):
        open_log: Callable[[], SqliteLog] = lambda: SqliteLog(str(folder / FILE), town="default", sync=sync, vfs=vfs)  # noqa: E731
        with BlockingRecorder(open_log, Admission()) as log:
            for events in _inputs(seed, appends):
                positions = log.append(events)
                done.append(Append(len(operations), events, positions))
    return Story(operations, done)


def _inputs(seed: int, appends: int) -> Iterator[list[Event]]:
    chance = Random(seed)
    for number in range(appends):
        size = chance.choice((1,) * 9 + (chance.randint(2, 60),))
        length = chance.choice((20, 200, 900) + ((15_000,) if number % 50 == 0 else ()))
        yield [
            Event(
                # Half of the appends leave the id to the log: those of one event then go the short way.
                id=derive_id("cut", f"{seed}/{number}/{nth}".encode()) if number % 2 else None,
                kind=chance.choice(("fleet.commit", "fleet.error", "x.y")),
                agent=f"a{chance.randint(0, 9)}",
                task=f"t{chance.randint(0, 99)}",
                text=f"{number}/{nth} ".ljust(length, "."),
            )
            for nth in range(size)
        ]


def cut_points(story: Story, chance: Random, count: int) -> list[int]:
    """Moments anywhere, and those that tell most.

    Right after an acknowledgement, when a write that was not synced would be missed; in the middle of a batch;
    and right after a sync that acknowledged nothing, when half of an append could be on the disk.
    """
    ends = [append.moment for append in story.appends]
    acknowledged = set(ends)
    batches = [(start, append.moment) for start, append in zip([0, *ends], story.appends, strict=False) if len(append.events) > 1]
    quiet = [n for n, operation in enumerate(story.operations, 1) if isinstance(operation, disk.Sync) and n not in acknowledged]
    kinds: tuple[Callable[[], int], ...] = (
        lambda: chance.randint(0, len(story.operations)),
        lambda: chance.choice(ends),
        lambda: chance.randint(*chance.choice(batches)),
        lambda: chance.choice(quiet or ends),
    )
    return sorted(kinds[n % len(kinds)]() for n in range(count))


def failures(story: Story, folder: Path, seed: int, cuts: int) -> list[str]:
    """Cut the power so often; what was wrong afterwards, in words."""
    chance, machine, wrong = Random(seed), Disk(story.operations), []
    for moment in cut_points(story, chance, cuts):
        machine.run_to(moment)
        place = folder / "cut"
        place.mkdir()
        machine.cut_power(place, chance)
        try:
            compare_log(story, moment, place / FILE)
        except (AssertionError, LogError) as error:
            wrong.append(f"cut at {moment} of {len(story.operations)}: {error!r}")
        rmtree(place)
    return wrong


def compare_log(story: Story, moment: int, path: Path, *, may_lose: bool = False) -> None:
    """Open what is left, and compare it with what was acknowledged."""
    acknowledged = sum(append.moment <= moment for append in story.appends)
    with connect(f"sqlite:{path}").blocking() as log:
        stored = list(log.read())
        whole = _whole_appends(story, len(stored))
        assert whole is not None, "an append is there by half"
        assert may_lose or whole >= acknowledged, f"{acknowledged - whole} acknowledged appends are lost"
        assert whole <= acknowledged + 1, "more is there than was written"
        expected = [
            (event.id, event.text, position)
            for append in story.appends[:whole]
            for event, position in zip(append.events, append.positions, strict=True)
        ]
        there = [(event.id if id else None, event.text, event.position) for event, (id, _, _) in zip(stored, expected, strict=True)]
        assert there == expected, "what is there is not what was written"
        assert maintenance.check_log(str(path)).problems == []
        [position] = log.append([Event(kind="fleet.recovery", actor="ada", text="power is back")])
        given = [position for append in story.appends[:acknowledged] for position in append.positions]
        assert may_lose or position > max(given, default=""), "a position was given twice"
        assert [event.position for event in log.read(newest_first=True, limit=1)] == [position]
        assert maintenance.check_log(str(path)).problems == []


def _whole_appends(story: Story, events: int) -> int | None:
    """How many appends, from the first on, make up so many events; `None` if the last is there only in part."""
    for number, append in enumerate(story.appends):
        if events <= 0:
            return number if events == 0 else None
        events -= len(append.events)
    return len(story.appends) if events == 0 else None


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return write_story(tmp_path_factory.mktemp("story"), seed=2)


def test_the_story_is_long_enough_to_report(story: Story) -> None:
    """The WAL was written back into the file in the middle of it, and the indexes caught up more than once."""
    synced_file = [n for n, operation in enumerate(story.operations) if isinstance(operation, disk.Sync) and operation.file == FILE]
    middle = [n for n in synced_file if story.appends[0].moment < n < story.appends[-1].moment]
    assert middle, "no checkpoint between the first append and the last"
    assert sum(len(append.events) for append in story.appends) > 3 * LAG


def test_whatever_was_acknowledged_survives_a_power_cut(story: Story, tmp_path: Path) -> None:
    assert failures(story, tmp_path, seed=5, cuts=CUTS) == []


def test_a_log_that_never_syncs_does_not_survive_it(tmp_path: Path) -> None:
    """The same test, on a log that cannot pass: it would notice a missing sync."""
    careless = write_story(tmp_path, seed=2, sync="off", appends=150)
    assert any("lost" in wrong for wrong in failures(careless, tmp_path, seed=5, cuts=20))


def test_with_normal_sync_the_newest_may_be_lost_but_nothing_else(tmp_path: Path) -> None:
    relaxed = write_story(tmp_path, seed=3, sync="normal", appends=400)
    chance, machine = Random(7), Disk(relaxed.operations)
    for moment in cut_points(relaxed, chance, 15):
        machine.run_to(moment)
        place = tmp_path / f"cut-{moment}"
        place.mkdir(exist_ok=True)
        machine.cut_power(place, chance)
        compare_log(relaxed, moment, place / FILE, may_lose=True)
        rmtree(place)
