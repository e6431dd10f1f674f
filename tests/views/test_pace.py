"""The pace: counts that stay few, and do not depend on the order of arrival."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore import Event
from fleetlore.views import activity
from tests.strategies import events

START = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)


def paced(some: list[Event]) -> activity.FleetActivity:
    state = activity.initial()
    for event in some:
        state = activity.apply(state, event)
    return state


def commits(count: int, *, hours: float = 1.0) -> list[Event]:
    return [Event(kind="fleet.commit", agent=f"a{n % 3}", at=START + timedelta(hours=n * hours)) for n in range(count)]


def test_an_agents_events_are_counted_by_time_and_family() -> None:
    state = paced([*commits(2), Event(kind="fleet.error", agent="a0", at=START)])
    slots = state.lanes["a0"].slots
    assert list(slots.values()) == [[1, 0, 1, 0, 0]]


def test_a_long_time_is_counted_in_longer_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "MAX_CELLS", 50)
    state = paced(commits(2000))
    assert state.cells <= 50 + len(state.lanes)
    assert state.seconds > activity.MIN_SLOT_SECONDS
    assert sum(sum(map(sum, lane.slots.values())) for lane in state.lanes.values()) == 2000


def test_the_order_of_arrival_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "MAX_CELLS", 20)
    some = commits(200)
    mixed = Random(1).sample(some, len(some))
    one, other = paced(some), paced(mixed)
    assert {name: lane.slots for name, lane in one.lanes.items()} == {name: lane.slots for name, lane in other.lanes.items()}
    assert one.lanes["a0"].beats == other.lanes["a0"].beats


def test_the_newest_beats_are_kept() -> None:
    state = paced(commits(200))
    beats = state.lanes["a0"].beats
    assert len(beats) == activity.MAX_BEATS
    assert beats == sorted(beats)
    assert beats[-1][0] == START + timedelta(hours=198)


@given(st.lists(events(), max_size=20))
def test_no_stored_event_makes_it_raise(some: list[Event]) -> None:
    paced(some)
