"""`lore arcs`: the patterns in the log, one a line."""

from __future__ import annotations

import pytest

from fleetlore.views.patterns.kinds import all_kinds
from tests.cli.running import Lore


@pytest.fixture
def troubled(lore: Lore) -> Lore:
    story = (
        ("fleet.error", "ada", "t1", "10:00"),
        ("fleet.recovery", "ada", "t1", "10:05"),
        ("fleet.error", "ada", "t2", "11:00"),
        ("fleet.recovery", "bo", "t2", "11:30"),
        ("fleet.error", "cy", "t3", "12:00"),
    )
    for kind, agent, task, at in story:
        lore("emit", kind, "--agent", agent, "--task", task, "--at", f"2026-11-15T{at}Z", code=0)
    return lore


def kinds(lore: Lore, *argv: str) -> list[str]:
    return [f"{arc['state']} {arc['kind']} {arc['thread']}" for arc in lore("arcs", "--json", *argv, code=0).ndjson]


def test_one_a_line_and_what_is_open_comes_last(troubled: Lore) -> None:
    lines = troubled("arcs", code=0).lines
    assert lines[0] == "closed  struggle_and_recovery  task:t1  ada  2026-11-15T10:00:00Z/2026-11-15T10:05:00Z  2 events"
    assert lines[-1].startswith("open    ")
    assert kinds(troubled) == kinds(troubled, "--all")


def test_kind_since_and_state_choose(troubled: Lore) -> None:
    assert kinds(troubled, "--kind", "struggle_and_recovery", "--since", "2026-11-15T12:00Z") == ["open struggle_and_recovery task:t3"]
    assert "closed struggle_and_recovery task:t1" not in kinds(troubled, "--since", "2026-11-15T11:00Z")
    assert all(line.startswith("open ") for line in kinds(troubled, "--open"))
    assert kinds(troubled, "--scope", "task:t1", "--kind", "struggle_and_recovery") == ["closed struggle_and_recovery task:t1"]


def test_what_is_open_expires_as_of_now(troubled: Lore) -> None:
    assert "open struggle_and_recovery task:t3" in kinds(troubled)
    assert "open struggle_and_recovery task:t3" not in kinds(troubled, "--now", "2026-11-17T13:00Z")


def test_the_proof_is_given_to_programs(troubled: Lore) -> None:
    known = {event["id"] for event in troubled("events", "--all", "--json").ndjson}
    for arc in troubled("arcs", "--json", code=0).ndjson:
        assert set(arc["evidence"]) <= known
        assert arc["evidence"][0] == arc["first"]


def test_an_arc_that_nobody_knows_is_refused_with_those_that_are_known(troubled: Lore) -> None:
    result = troubled("arcs", "--kind", "tragedy", code=2)
    assert all(kind in result.err for kind in all_kinds())
    assert "was removed in 0.2" in troubled("arcs", "--kind", "rescue", code=2).err
    assert troubled("arcs", "--log", "sqlite:absent.db", code=1).err.startswith("lore: ")


def test_hostile_names_stay_on_their_line(lore: Lore) -> None:
    lore("emit", "fleet.error", "--agent", "ev\u202eil", "--task", "t\u2028x", code=0)
    [line] = lore("arcs", code=0).out.split("\n")[:-1]
    assert "\u202e" not in line
    assert "\u2028" not in line
