"""Eight processes append to one log while two follow it: one order for all, nothing twice, nothing missed."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

import pytest

from fleetlore import Event, connect
from fleetlore.log.sqlite import maintenance
from tests.faults.crowd import BATCH, COUNTER, expected
from tests.faults.processes import running
from tests.patience import PATIENCE

WRITERS = 8
FOLLOWERS = 2
COUNT = 120


def crowd(path: Path, count: int) -> tuple[list[Event], list[list[str]]]:
    """What the log holds after all of them, and the lines that each follower saw."""
    total, url = str(expected(WRITERS, count)), f"sqlite:{path}?timeout={PATIENCE}"
    with ExitStack() as stack:
        followers = [stack.enter_context(running("tests.faults.crowd", "follow", url, f"f{n}", total)) for n in range(FOLLOWERS)]
        writers = [stack.enter_context(running("tests.faults.crowd", "write", url, f"w{n}", str(count))) for n in range(WRITERS)]
        everyone = followers + writers
        for process in everyone:
            assert process.line() == "ready"
        for process in everyone:
            process.say("go")
        assert [writer.line() for writer in writers] == [f"w{n}" for n in range(WRITERS)]
        seen = [list(follower.lines(PATIENCE)) for follower in followers]
    with connect(f"sqlite:{path}").blocking() as log:
        return list(log.read()), seen


def check_order(stored: list[Event], seen: list[list[str]], count: int) -> None:
    """One order for all, nothing twice, nothing missed, the counter exact."""
    assert len(stored) == expected(WRITERS, count)
    assert len({event.id for event in stored}) == len(stored), "an id is there twice"
    positions = [str(event.position) for event in stored]
    assert positions == [f"{seq:016d}" for seq in range(1, len(stored) + 1)], "there is a gap"
    for lines in seen:
        assert lines == [f"{event.position} {event.id}" for event in stored], "a follower saw something else"
    counted = [event.data["value"] for event in stored if event.task == COUNTER.partition(":")[2]]
    assert counted == list(range(1, WRITERS * (count // 4) + 1)), "the counter missed a beat"
    for n in range(WRITERS):
        _look_at_writer([event for event in stored if event.agent == f"w{n}" and event.kind == "crowd.deed"], count)
    _look_at_batches(stored)


def _look_at_writer(actions: list[Event], count: int) -> None:
    numbers = [event.data["number"] for event in actions]
    assert numbers == sorted(numbers), "a writer's order was not kept"
    assert [event.data["number"] for event in actions if "nth" not in event.data] == list(range(count))


def _look_at_batches(stored: list[Event]) -> None:
    """A batch stands together: nobody comes between."""
    for (_, number), events in groupby(stored, lambda event: (event.agent, "nth" in event.data and event.data["number"])):
        if number is not False:
            assert [event.data["nth"] for event in events] == list(range(BATCH))


@pytest.mark.slow
def test_eight_processes_append_while_two_follow(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    stored, seen = crowd(path, COUNT)
    check_order(stored, seen, COUNT)
    assert maintenance.check_log(str(path)).problems == []
