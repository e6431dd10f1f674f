"""The town view with odd, hostile or hand-written events."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fleetlore.events.envelope import LogPlace, Mac, Origin
from fleetlore.projections.signed_views import SignedTownFold
from fleetlore.testing import given
from fleetlore.town import planning
from tests.views.test_town import MAC, SEAL
from tests.views.town_facts import completed, created, fact, idle, item, item_in, item_task, mission, recorded, redirected, worked_on


def test_anybody_who_completes_an_items_task_by_hand_has_worked_on_it() -> None:
    by_hand = completed("w1", agent="jo", epoch=None)
    before = recorded(mission(), item(), item_task("w1"), by_hand)
    before.when(fact("town.reviewer_approval", _mission="m1", _task="w1", _actor="jo", item="i1"))
    assert (item_in(before.state).authors, item_in(before.state).verdict) == (["jo"], "")


def test_a_time_outside_of_the_calendar_is_none() -> None:
    watch = fact("work.watch_added", _mission="m1", _actor="jo", watch="w", type="merge", item="i1", target="o/r#1", action="advance")
    for until in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        state = recorded(mission(), item(), watch, fact("work.watch_snoozed", _mission="m1", _actor="jo", watch="w", until=until)).state
        assert state.missions["m1"].watches["w"].until is None


def test_a_role_cannot_stand_for_an_agent() -> None:
    state = recorded(*idle(), created("t1", roles=["@ada"]), created("t2", agent="ada")).state
    assert state.queues["@ada"] == {"normal": {"t2": None}}


def test_who_is_to_do_a_task_is_given_all_of_it() -> None:
    words = "word " * 3_000
    state = recorded(mission(), item("i1", description=words), created("t1", description=words)).state
    assert state.tasks["t1"].description == state.missions["m1"].items["i1"].description == words.strip()


def test_on_a_sealed_log_nobody_takes_the_name_of_an_items_task_away() -> None:
    before = given(SignedTownFold(SEAL), *(replace(event, mac=MAC) for event in (mission(), item())))
    before.when(created("m1/i1"), created("t1"))
    assert list(before.state.tasks) == ["t1"]
    before.when(replace(item_task("m1/i1"), mac=MAC))
    assert before.state.tasks["m1/i1"].item == "i1"


def test_on_a_sealed_log_another_keys_signature_is_none() -> None:
    other = Mac(key="f" * 16, hex=MAC.hex)
    signed = [replace(event, mac=MAC) for event in (mission(), item(), *worked_on())]
    approval = fact("town.reviewer_approval", _mission="m1", _task="w1", _actor="rev", item="i1")
    before = given(SignedTownFold(SEAL), *signed).when(replace(approval, mac=other))
    assert item_in(before.state).verdict == ""


@pytest.mark.parametrize("origin", [Origin(dialect="forge"), Origin(dialect="fleetlore", log=LogPlace(id="elsewhere", position="1"))])
def test_what_another_system_wrote_down_is_given_to_nobody_until_somebody_says_to_whom(origin: Origin) -> None:
    issue = replace(created("#12", agent="ada"), origin=origin)
    before = recorded(*idle(), issue, *(replace(event, origin=origin) for event in (mission(), item())))
    assert not list(planning.propose_assignments(before.state))
    assert not list(planning.propose_for_mission(before.state, before.state.missions["m1"]))
    before.when(redirected("ada", "#12"))
    assert [move.agent for move in planning.propose_assignments(before.state)] == ["ada"]
