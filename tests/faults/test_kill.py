"""Writers are killed with `kill -9`: nothing acknowledged is lost, nothing is there twice or by half."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from random import Random

import pytest

from fleetlore import Event, connect
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.sqlite import maintenance
from tests.faults import writer
from tests.faults.processes import running
from tests.patience import PATIENCE

Acknowledged = dict[int, list[str]]
"""The number of an append, and its positions."""


def kill_one(url: str, mode: str, name: str, chance: Random) -> Acknowledged:
    """Let a writer run for a random number of acknowledgements and a random moment more, then kill it."""
    enough = chance.choice((0, chance.randint(1, 20), chance.randint(20, 150)))
    with running("tests.faults.writer", mode, url, name) as process:
        assert process.line() == "ready"
        said: list[str] = []
        while len(said) < enough:
            said.append(process.line())
        # With no acknowledgement to wait for, the longer moment hits the making of the file.
        said += process.lines(chance.uniform(0, 0.003 if enough else 0.03))
        process.kill()
        said += process.lines(PATIENCE)
    return {int(number): positions for number, *positions in map(str.split, said)}


def compare_log(log: BlockingRecorder, mode: str, name: str, acknowledged: Acknowledged) -> None:
    """Compare what the killed writer left with what it was told."""
    stored = list(log.read(f"agent:{name}"))
    ids = [event.id for event in stored]
    assert len(set(ids)) == len(ids), "an event is there twice"
    appends = [(number, list(events)) for number, events in groupby(stored, _number)]
    numbers = [number for number, _ in appends]
    assert set(acknowledged) <= set(numbers), "an acknowledged append is lost"
    assert _in_order(mode, numbers), "the order is not the writer's"
    for number, events in appends:
        assert [event.id for event in events] == [event.id for event in writer.events_of(mode, name, number)], "an append is there by half"
        if number in acknowledged:
            assert [event.position for event in events] == acknowledged[number], "an event is not where it was said to be"


def _number(event: Event) -> int:
    assert event.text is not None
    return int(event.text.partition("/")[0])


def _in_order(mode: str, numbers: list[int]) -> bool:
    """Each line of work left its appends in order, none passed over."""
    step = writer.TASKS if mode == "tasks" else 1
    lines = [[number for number in numbers if number % step == first] for first in range(step)]
    return all(line == list(range(first, first + len(line) * step, step)) for first, line in enumerate(lines))


def retry(log: BlockingRecorder, mode: str, name: str, acknowledged: Acknowledged) -> None:
    """A writer that does not know what became of its last appends sends them again: each is there once."""
    last = max(acknowledged, default=-1)
    for number in range(last + 2 * writer.TASKS):
        positions = log.append(writer.events_of(mode, name, number))
        assert positions == acknowledged.get(number, positions), "a repetition was given another position"
    ids = [event.id for event in log.read(f"agent:{name}")]
    wanted = [event.id for number in range(last + 2 * writer.TASKS) for event in writer.events_of(mode, name, number)]
    assert sorted(map(str, ids)) == sorted(map(str, wanted)), "a repetition was stored twice, or not at all"


def torment(folder: Path, mode: str, seed: int, kills: int, *, per_file: int = 3) -> int:
    """Kill so many writers, a few on each file, and look at it after each; answers how many appends were acknowledged."""
    chance, total = Random(seed), 0
    for kill in range(kills):
        path = folder / f"{mode}-{seed}-{kill // per_file}.db"
        name = f"{mode}{seed}-{kill}"
        acknowledged = kill_one(f"sqlite:{path}", mode, name, chance)
        total += len(acknowledged)
        with connect(f"sqlite:{path}").blocking() as log:
            compare_log(log, mode, name, acknowledged)
            retry(log, mode, name, acknowledged)
        assert maintenance.check_log(str(path)).problems == []
    return total


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "kills"), [("single", 7), ("batch", 7), ("tasks", 6)])
def test_a_killed_writer_leaves_what_was_acknowledged_and_nothing_by_half(mode: str, kills: int, tmp_path: Path) -> None:
    assert torment(tmp_path, mode, seed=11, kills=kills) > 50
