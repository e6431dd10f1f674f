"""Who may do a thing: what is known of a holder by its name alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleetlore.kernel import lease as kernel_lease
from fleetlore.kernel.lease import LeaseHolder, is_dead, make_holder_name
from fleetlore.log.coordination import open_shared


def test_one_that_runs_is_not_dead_and_one_that_ended_is() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    mine = make_holder_name()
    place = mine.rpartition(":")[0]
    assert not is_dead(mine)
    assert is_dead(f"{place}:{ended.pid}/1")


@pytest.mark.parametrize("pid", ["1" * 30, "-1", "x", ""], ids=["no number that a process has", "negative", "a word", "nothing"])
def test_what_is_no_process_is_not_known_to_be_dead(pid: str) -> None:
    assert not is_dead(f"{make_holder_name().rpartition(':')[0]}:{pid}/1")


def test_of_another_machine_nothing_is_known() -> None:
    assert not is_dead("elsewhere:0:99999999/1")


def test_where_the_system_does_not_say_in_which_space_its_processes_are_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "stat", refuse)
    assert make_holder_name().split(":")[-2] == "0"


async def test_what_a_dead_one_held_is_let_go_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_lease, "is_dead", lambda holder: holder == "dead")
    with open_shared(f"sqlite:{tmp_path / 'fleet.db'}") as shared:
        left = shared.acquire("goal:g", "dead", 60.0)
        assert left is not None
        async with LeaseHolder(shared, "goal:g", holder="next") as lease:
            assert lease.holder == "next"
            assert lease.epoch > left.epoch
        assert shared.find_lease("goal:g") is None


async def test_a_lease_that_could_not_be_renewed_in_time_says_so(tmp_path: Path) -> None:
    with open_shared(f"sqlite:{tmp_path / 'fleet.db'}") as shared:
        hold = LeaseHolder(shared, "goal:g")
        async with hold:
            hold.last_failure = TimeoutError()
            assert str(hold.make_loss_error()).endswith("It could not be renewed: the log does not answer in time")
