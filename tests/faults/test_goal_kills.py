"""Drivers are killed with `kill -9`: whoever comes next takes the goal up at once, and to the same end."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from fleetlore import connect
from fleetlore.log.sqlite import maintenance
from tests.faults.driven import TURNS, actions_in
from tests.faults.processes import running
from tests.goal.scripted import GOAL


def kill_at(folder: Path, write: int, when: str) -> bool:
    """Let a driver die at a write; whether it did, and not come to the goal's end before."""
    with running("tests.faults.driven", str(folder), str(write), when) as process:
        code = process.wait()
    assert code in (0, -signal.SIGKILL), f"the driver ended with {code}"
    return code != 0


def finish(folder: Path) -> int:
    """Let a driver come to the end; answers in how many writes."""
    with running("tests.faults.driven", str(folder)) as process:
        outcome, writes = process.line().split()
        assert process.wait() == 0
    assert outcome == "done"
    return int(writes)


def check_goal(folder: Path, kills: int) -> None:
    """One goal, ten turns, and nothing done that the log does not tell of."""
    actions = actions_in(folder)
    with connect(f"sqlite:{folder / 'goal.db'}").blocking() as log:
        events = list(log.read(f"goal:{GOAL}"))
    started = {event.id for event in events if event.kind == "driver.attempt_started"}
    results = [event.data["result"] for event in events if event.kind == "driver.attempt_completed"]
    cut_short = [result for result in results if result["harness_extras"].get("fleetlore.counts") is False]
    [completed] = [event for event in events if event.kind == "driver.goal_completed"]
    assert completed.data["outcome"]["outcome"] == {"kind": "done"}
    assert completed.data["outcome"]["total_turns"] == TURNS
    assert {mark for _, mark in actions} <= started, "something was done that the log does not tell of"
    assert max(Counter(mark for _, mark in actions).values()) == 1, "an attempt was made twice"
    assert len(actions) - TURNS <= len(cut_short) <= kills, "a turn was taken again, and the log does not say so"
    assert len(started) == len(results), "an attempt was begun and never settled"
    assert completed.data["outcome"]["usage"]["tokens"] >= 100 * TURNS
    assert maintenance.check_log(str(folder / "goal.db")).problems == []


def torment(folder: Path) -> tuple[int, int]:
    """Every write of the goal, killed before it and after it, each in a folder of its own; answers how many, and the turns taken again."""
    whole = folder / "whole"
    whole.mkdir()
    writes, kills, repeated = finish(whole), 0, 0
    for write in range(1, writes + 1):
        for when in ("before", "after"):
            place = folder / f"{write}-{when}"
            place.mkdir()
            assert kill_at(place, write, when)
            finish(place)
            check_goal(place, 1)
            kills, repeated = kills + 1, repeated + len(actions_in(place)) - TURNS
    return kills, repeated


@pytest.mark.slow
def test_a_goal_whose_drivers_are_killed_again_and_again_comes_to_its_end(tmp_path: Path) -> None:
    """Each takes over the lease of the dead one at once, which would hold for half a minute."""
    chance, kills = Random(8), 0
    for _ in range(4):
        kills += kill_at(tmp_path, chance.randint(2, 9), chance.choice(("before", "after")))
    assert kills == 4
    finish(tmp_path)
    check_goal(tmp_path, kills)
