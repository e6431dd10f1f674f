"""The public helpers for tests."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from fleetlore import Event, connect
from fleetlore.events.ids import is_uuid
from fleetlore.testing import START, FrozenClock, counting_ids, given
from fleetlore.views import fleet


def test_a_frozen_clock_moves_only_when_asked() -> None:
    clock = FrozenClock()
    assert clock() == clock() == START
    assert clock.advance(90) == clock() == START + timedelta(seconds=90)
    with pytest.raises(ValueError, match="time zone"):
        FrozenClock(datetime(2026, 1, 1))  # noqa: DTZ001 - what is refused


def test_a_log_can_be_given_both() -> None:
    with connect("memory:", now=FrozenClock(), new_id=counting_ids()).blocking() as log:
        log.append([Event(kind="fleet.idle", agent="ada"), Event(kind="fleet.idle", agent="bo")])
        first, second = log.read()
    assert first.at == second.at == START
    assert first.id == "00000000-0000-7000-8000-000000000001"
    assert is_uuid(second.id or "")
    assert second.id != first.id


def test_given_when_then_shows_what_the_state_is_if_it_is_not_as_expected() -> None:
    recorded = given(fleet, Event(kind="fleet.dispatch", agent="ada")).when(Event(kind="fleet.idle", agent="ada"))
    recorded.then(lambda state: state.agents["ada"].standing == "idle").then(recorded.state)
    with pytest.raises(AssertionError, match="the state is Fleet"):
        recorded.then(lambda state: state.agents["ada"].standing == "working")
